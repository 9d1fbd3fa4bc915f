"""Whether the server writes a closer again that stands on the next line, and whether it breaks files there.

    python tests/programs/closers.py --model smollm2-135m --sources FOLDER --json FILE [--places 300]
    python tests/programs/closers.py --draw --sources FOLDER       # draws the places anew: `closers.tsv`

FOLDER holds `projects-LANGUAGE/NAME-VERSION/`: for eight languages those of `lsp-calib data pull`
(`projects-python` is its `projects`); for Ruby the Debian package libruby3.1, for PHP php-twig,
php-symfony-console and php-symfony-http-foundation (`apt-get download`, `dpkg -x`), for C# the source
distribution of pythonnet 3.0.5 (`pip download --no-binary :all:`).

Places come by turns from three kinds: an empty line above a closer ("new line"), the end of the line above
one ("end"), and such a line behind its first bracket, with the closers alone behind the cursor, as an editor
writes them ("between"). Each place is asked by itself and by hand, over the protocol, with nothing hidden;
each answer is applied as an editor does it. A closer is doubled if the line that is made says what the next
one says, or adds errors and closes more than it did. Errors are ERROR and MISSING nodes of tree-sitter; they
are counted again with the block closed that an answer opens. `--json`: a line for each place; a run goes on
where it ended.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from sixty_places import errors

from lsp_calib.evaluation.lines import source_files
from lsp_calib.languages import suffix_of
from lsp_calib.settings import Trusted
from lsp_calib.text_lines import indentation_of, split_lines
from lsp_calib.tools.bench.server import Scratch, scratch_folder, served
from lsp_calib.tools.client import Document

PLACES = Path(__file__).with_name("closers.tsv")
LANGUAGES = ("python", "javascript", "typescript", "java", "go", "rust", "c", "cpp", "csharp", "php", "ruby")
KINDS = ("new line", "end", "between")
SEED = 48
# Of each language; the first ones of all languages are asked where fewer places are wanted.
_EACH = 28
_CLOSER = re.compile(r'[)\]}]+[;,]*|end|"""|\*/')
_OPENS, _CLOSES = "([{", ")]}"
# Characters of a file; each costs time at every request.
_LARGEST = 60_000
_ANSWER = 300.0


@attrs.frozen
class Place:
    """path: below the folder of sources. sha256: of its file. line: of the closer, from 0."""

    language: str
    kind: str
    path: str
    line: int
    sha256: str

    def document(self, sources: Path) -> tuple[list[str], int, int]:
        """The lines of the document, and the cursor in it. Raises ValueError for another file."""
        found = (sources / self.path).read_bytes()
        if hashlib.sha256(found).hexdigest() != self.sha256:
            raise ValueError(f"{self.path} is not the file that the place was drawn in.")
        return _shaped(list(split_lines(found.decode("utf-8"))), self.line, self.kind)


def _shaped(lines: list[str], closer: int, kind: str) -> tuple[list[str], int, int]:
    above = lines[closer - 1]
    if kind == "new line":
        begin = indentation_of(above)
        return [*lines[:closer], begin, *lines[closer:]], closer, len(begin)
    if kind == "end":
        return lines, closer - 1, len(above)
    at = min(above.find(one) for one in _OPENS if one in above) + 1
    closers = re.search(r"[)\]}]+[;,]*$", above)
    assert closers is not None
    lines[closer - 1] = above[:at] + closers[0]
    return lines, closer - 1, at


def _fits(lines: Sequence[str], closer: int, kind: str) -> bool:
    above = lines[closer - 1]
    if not _CLOSER.fullmatch(lines[closer].strip()) or not above.strip():
        return False
    if kind != "between":
        return _CLOSER.fullmatch(above.strip()) is None
    ends = re.search(r"[)\]}]+[;,]*$", above)
    return ends is not None and sum(map(above.count, _OPENS)) == len(ends[0].rstrip(";,")) == 1


def drawn(sources: Path, language: str) -> Iterator[Place]:
    """Places of a language, of different files, from its projects by turns. Files in order alone."""
    draw = random.Random(f"{SEED} {language}")
    root = sources / f"projects-{language}"
    pending = []
    for project in sorted(root.iterdir()):
        paths = list(source_files(project.resolve(), language))
        draw.shuffle(paths)
        pending.append(
            [
                sources / f"projects-{language}" / project.name / path.relative_to(project.resolve())
                for path in paths
            ]
        )
    draw.shuffle(pending)
    for turn in range(max(map(len, pending))):
        for path in (paths[turn] for paths in pending if turn < len(paths)):
            data = path.read_bytes()
            text = data.decode("utf-8", "replace")
            if len(text) > _LARGEST or "\ufffd" in text or errors(text, language):
                continue
            lines = split_lines(text)
            kind = KINDS[draw.randrange(len(KINDS))]
            found = [at for at in range(1, len(lines)) if _fits(lines, at, kind)]
            if found:
                digest = hashlib.sha256(data).hexdigest()
                yield Place(language, kind, path.relative_to(sources).as_posix(), draw.choice(found), digest)


def draw_all(sources: Path) -> None:
    rows = []
    for language in LANGUAGES:
        places = drawn(sources, language)
        rows += [attrs.astuple(next(places)) for _ in range(_EACH)]
    PLACES.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), "utf-8")


def places(count: int) -> list[Place]:
    """So many of the drawn places, of all languages alike."""
    rows = [line.split("\t") for line in PLACES.read_text("utf-8").splitlines()]
    every = [Place(language, kind, path, int(line), sha) for language, kind, path, line, sha in rows]
    turns = [[one for one in every if one.language == language] for language in LANGUAGES]
    return [one for turn in zip(*turns, strict=True) for one in turn][:count]


def _balance(line: str) -> int:
    return sum(map(line.count, _OPENS)) - sum(map(line.count, _CLOSES))


def judged(lines: Sequence[str], line: int, language: str, new: str) -> dict[str, Any]:
    """What becomes of a document once `new` stands for a line."""
    made = new.split("\n")
    after = [*lines[:line], *made, *lines[line + 1 :]]
    below = next((one.strip() for one in lines[line + 1 :] if one.strip()), "")
    last = made[-1].strip()
    before = errors("\n".join(lines), language)
    more = errors("\n".join(after), language) - before
    again = last == below and _CLOSER.fullmatch(last) is not None and last != lines[line].strip()
    # In a comment a closer closes nothing.
    doubled = again or (more > 0 and _balance(new) < min(_balance(lines[line]), 0))
    closed = more
    if more > 0 and (closer := _closer_of(made[-1], language)):
        begin = indentation_of(made[-1])
        body = [begin + "    pass"] if language == "python" else [begin + closer]
        closed = errors("\n".join([*after[: line + len(made)], *body, *after[line + len(made) :]]), language)
        closed -= before
    return {"made": new, "doubled": doubled, "errors": more, "errors once closed": closed}


def _closer_of(line: str, language: str) -> str:
    """What closes the block that a line opens; "" if it opens none."""
    text = line.rstrip()
    if language == "python":
        return "pass" if text.endswith(":") else ""
    if language == "ruby":
        opens = re.match(r"\s*(if|unless|while|until|def|case|begin|class|module|for)\b", text)
        return "end" if opens or re.search(r"\bdo( \|.*\|)?$", text) else ""
    opened: list[str] = []
    for one in text:
        if one in _OPENS:
            opened.append(_CLOSES[_OPENS.index(one)])
        elif one in _CLOSES and opened:
            opened.pop()
    return "".join(reversed(opened))


async def ask(scratch: Scratch, chosen: Sequence[Place], sources: Path, into: Path) -> None:
    """Ask at the places that the file has no line of yet, and add a line for each."""
    known = (
        {json.loads(line)["place"] for line in into.read_text("utf-8").splitlines()}
        if into.exists()
        else set()
    )
    options = {"hideBelow": False}
    async with served(scratch, ahead=False, options=options) as server:
        for number, place in enumerate(chosen, 1):
            key = f"{place.kind} {place.path}:{place.line}"
            if key in known:
                continue
            lines, line, column = place.document(sources)
            path = scratch.project / f"place{number}{suffix_of(place.language)}"
            path.write_text("\n".join(lines), "utf-8")
            document = Document(server.editor, path, place.language)
            row: dict[str, Any] = {"place": key, "language": place.language, "kind": place.kind}
            for how, by_hand in (("by itself", False), ("by hand", True)):
                row[how] = []
                for item in await document.completions(line, column, _ANSWER, by_hand=by_hand):
                    assert item.range is not None
                    assert isinstance(item.insert_text, str)
                    old = lines[line]
                    start, stop = (_column(old, end.character) for end in (item.range.start, item.range.end))
                    new = old[:start] + item.insert_text + old[stop:]
                    row[how].append(judged(lines, line, place.language, new))
            document.close()
            path.unlink()
            with into.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{number}/{len(chosen)} {key}: {_said(row)}", flush=True)


def _column(line: str, units: int) -> int:
    """A column in code points of one in UTF-16 units."""
    return len(line.encode("utf-16-le")[: 2 * units].decode("utf-16-le"))


def _said(row: dict[str, Any]) -> str:
    said = [one for how in ("by itself", "by hand") for one in row[how]]
    bad = [one["made"].strip() for one in said if one["doubled"] or one["errors"] > 0]
    return f"{len(said)} answers" + (f"; {bad}" if bad else "")


def table(rows: Sequence[dict[str, Any]], model: str) -> None:
    """more errors: places where an answer adds some; once closed: where it does with its block closed."""
    head = "language", "places", "asked", "answered", "answers", "doubled", "more errors", "once closed"
    print(f"\n{model}\n\n| {' | '.join(head)} |\n|---|---:|---|---:|---:|---:|---:|---:|")
    for name, of in [*((one, (one,)) for one in LANGUAGES), ("all", LANGUAGES)]:
        here = [row for row in rows if row["language"] in of]
        for how in ("by itself", "by hand"):
            answers = [one for row in here for one in row[how]]
            cells = [name, len(here), how, sum(bool(row[how]) for row in here), len(answers)]
            cells.append(sum(one["doubled"] for one in answers))
            for what in ("errors", "errors once closed"):
                cells.append(sum(any(one[what] > 0 for one in row[how]) for row in here))
            print("| " + " | ".join(map(str, cells)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask the server where the next line is a closer.")
    parser.add_argument("--model", default="smollm2-135m", help="name of a card, or a file")
    parser.add_argument("--sources", type=Path, required=True, help="folder of the projects")
    parser.add_argument("--places", type=int, default=300, help="how many")
    parser.add_argument("--threads", type=int, default=0, help="to decode with; 0: chosen by the server")
    parser.add_argument("--json", type=Path, help="where the answers are kept")
    parser.add_argument("--draw", action="store_true", help="draw the places anew, and ask nothing")
    given = parser.parse_args()
    if given.draw:
        draw_all(given.sources)
        return
    chosen = places(given.places)
    projects = sorted({"/".join(one.path.split("/")[:2]) for one in chosen})
    print(
        f"{len(chosen)} places, seed {SEED}, from {len(projects)} projects: {' '.join(projects)}", flush=True
    )
    with scratch_folder(attrs.evolve(Trusted(), model=given.model, threads=given.threads)) as scratch:
        into = given.json or scratch.home / "closers.jsonl"
        asyncio.run(ask(scratch, chosen, given.sources, into))
        keys = {f"{one.kind} {one.path}:{one.line}" for one in chosen}
        rows = [json.loads(line) for line in into.read_text("utf-8").splitlines()]
        table([row for row in rows if row["place"] in keys], given.model)


if __name__ == "__main__":
    main()
