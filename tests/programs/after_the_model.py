"""What `completion.postprocess.offered` changes of the answers in the committed records, and whether rightly.

    python tests/programs/after_the_model.py [FOLDER]      # FOLDER: with the pinned projects of each language
    python tests/programs/after_the_model.py --ends FOLDER [--places N] [LANGUAGE]...
    python tests/programs/after_the_model.py --comments FOLDER [LANGUAGE]...

Prints a row for each model and reason: answers, how many are cut or withheld, and of these how many were
right before and are right then. In the records nothing stands after the cursor. The rows "with a rest" are of
the same answers in a document where a part of the line does: only a model that sees nothing after the cursor
would give the same answer there, so they are of such models alone. docs/evaluation.md quotes the table.

`--ends`: true ends of lines of the projects in FOLDER (`projects`, `projects-go` ...), as if a model had
written them, and with closers more that leave a file in disorder that is in order without them. Prints, for
each language, how many are cut though they are right, and how many surplus closers stay; and the same where a
part of the line stands after the cursor, which the model writes again. Intervals are Wilson's, of 95 %.

`--comments`: the lines of comments and documentation of the projects in FOLDER, as if a model had written
them. Prints, for each language, how many the rules on comments would withhold, each by its document alone.
"""

from __future__ import annotations

import argparse
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.characters import has_script, same_line, words_by_script
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures, is_filler
from lsp_calib.completion.postprocess import Cleaned, cleaned, closed_by_editors, offered
from lsp_calib.corpus.lines import read_lines_of, source_files
from lsp_calib.corpus.places import STRATA, column_in, is_asked_for
from lsp_calib.corpus.rebuilding import Rebuilt, _pieces, rebuild
from lsp_calib.corpus.records import read_records
from lsp_calib.inference.models.cards import locate
from lsp_calib.syntax import prose_lines
from lsp_calib.syntax.languages import RULES
from lsp_calib.syntax.source_tree import parse
from lsp_calib.values import Stop

RECORDS = Path(__file__).parents[2] / "models" / "records"
# Where a rest may begin: at a word, at a mark. Of each line at most so many rests are tried.
_REST = re.compile(r"\b(?=\w)|(?=[^\w\s])")
_RESTS = 6


@attrs.frozen
class Answer:
    """An answer at a place, and the line that is right there."""

    cursor: Cursor
    text: str
    line: str

    def is_right(self, offered_text: str) -> bool:
        whole = self.cursor.before + offered_text + self.cursor.after
        return bool(offered_text) and same_line(whole, self.line)


def in_records(rebuilt: Rebuilt) -> Iterator[Answer]:
    cursor = rebuilt.item.cursor
    yield Answer(cursor, rebuilt.answer.text, cursor.before + rebuilt.item.target)


def with_a_rest(rebuilt: Rebuilt) -> Iterator[Answer]:
    """The answer in documents that already hold an end of the line."""
    cursor, target = rebuilt.item.cursor, rebuilt.item.target.rstrip()
    starts = [match.start() for match in _REST.finditer(target) if match.start()]
    drawn = random.Random(rebuilt.item.id).sample(starts, min(_RESTS, len(starts)))
    for start in sorted(drawn):
        lines = [
            *cursor.lines[: cursor.line],
            cursor.before + target[start:],
            *cursor.lines[cursor.line + 1 :],
        ]
        place = Cursor.at(lines, cursor.line, cursor.column, cursor.language)
        yield Answer(place, rebuilt.answer.text, cursor.before + target)


def reasons(found: Cleaned) -> tuple[str, ...]:
    if found.removal is not None:
        return (f"withheld: {found.removal.value}",)
    return tuple(f"cut: {cut.value}" for cut in found.cuts)


def table(name: str, answers: list[Answer]) -> None:
    changed: Counter[str] = Counter()
    before: Counter[str] = Counter()
    then: Counter[str] = Counter()
    n = right = 0
    for answer in answers:
        text = cleaned(answer.text, answer.cursor).text
        if not text:
            continue
        n, right = n + 1, right + answer.is_right(text)
        found = DocumentFeatures().offered(answer.cursor, answer.text)
        if found.text == text:
            continue
        for reason in reasons(found):
            changed[reason] += 1
            before[reason] += answer.is_right(text)
            then[reason] += answer.is_right(found.text)
    print(f"| {name} | all | {n} | {right} | |")
    for reason in sorted(changed):
        print(f"| | {reason} | {changed[reason]} | {before[reason]} | {then[reason]} |")


# Places in a file.
_EACH = 6
# What models write behind the end of a line.
_SURPLUS = (")", "))", "),", ")),)", ");", "]", "}", "})")


@attrs.define
class Ends:
    """Counts over places; `cut` holds examples of true ends that are not offered whole, `left` of surplus."""

    name: str
    places: int = 0
    cut: list[str] = attrs.Factory(list)
    surplus: int = 0
    left: list[str] = attrs.Factory(list)

    def row(self) -> str:
        shares = []
        for n, of in ((len(self.cut), self.places), (len(self.left), self.surplus)):
            low, high = wilson_interval(n, of) if of else (0.0, 1.0)
            shares += [f"{of}", f"{n}", f"{n / max(of, 1):.2%} ({low:.2%} to {high:.2%})"]
        return f"| {' | '.join([self.name, *shares])} |"


def ends(language: str, answers: Iterable[Answer]) -> Iterator[Ends]:
    """True ends at the places, and with a rest behind the cursor."""
    whole, rested = Ends(language), Ends(f"{language}, with a rest")
    for truth in answers:
        cursor, target = truth.cursor, truth.text
        rng = random.Random(truth.line)
        # What closes a bracket of the line is none too many.
        more = () if _open(truth.line) else rng.sample(_SURPLUS, 3)
        _try(whole, truth, [target + one for one in more])
        starts = [match.start() for match in _REST.finditer(target) if target[: match.start()].strip()]
        start = rng.choice(starts) if starts else 0
        if start and not _leaves_open(target[:start], target[start:]):
            lines = [*cursor.lines]
            lines[cursor.line] = cursor.before + target[start:]
            place = Cursor.at(lines, cursor.line, cursor.column, cursor.language)
            _try(rested, Answer(place, target[:start], truth.line), [target])
    yield whole
    yield rested


def _try(counts: Ends, truth: Answer, longer: list[str]) -> None:
    """Count what is offered of a true text, and of longer ones that are no better."""
    counts.places += 1
    found = offered(truth.text, truth.cursor)
    if not truth.is_right(found.text) and not truth.is_right(found.text + " "):
        counts.cut.append(f"{truth.cursor.before}|{truth.text}|{truth.cursor.after} -> {found}")
    order = _errors(truth, truth.text)
    for text in longer:
        if _errors(truth, text) > order:
            counts.surplus += 1
            found = offered(text, truth.cursor)
            if not truth.is_right(found.text) and found.text and _errors(truth, found.text) > order:
                counts.left.append(f"{truth.cursor.before}|{text}|{truth.cursor.after} -> {found}")


def _leaves_open(text: str, rest: str) -> bool:
    """Whether a text leaves a bracket open before what stands behind it: such a text is not to be offered."""
    return _open(text + rest) > _open(rest)


def _open(line: str) -> int:
    return sum(char in ")]}" for char in closed_by_editors(line))


def _errors(answer: Answer, text: str) -> int:
    """Whether a document, parsed anew, is out of order with a text."""
    cursor, rules = answer.cursor, RULES.get(answer.cursor.language)
    assert rules is not None
    lines = [*cursor.lines]
    lines[cursor.line] = cursor.before + text + cursor.after
    return int(parse(rules.grammar, "\n".join([*lines, ""]).encode()).root_node.has_error)


def places(folder: Path, language: str, count: int) -> Iterator[Answer]:
    """About so many places with their true ends, `_EACH` of a file, in the kinds that people ask for."""
    rng = random.Random(31)
    files = [path for root in sorted(folder.iterdir()) for path in source_files(root, language)]
    rng.shuffle(files)
    for path in files:
        lines = read_lines_of(path, language)
        rows = [row for row, line in enumerate(lines) if is_asked_for(line)]
        for row in rng.sample(rows, min(_EACH, len(rows))):
            (stratum,) = rng.choices(list(STRATA), weights=list(STRATA.values()))
            column = column_in(lines[row], stratum, rng)
            if column is None:
                continue
            shown = [*lines[:row], lines[row][:column], *lines[row + 1 :]]
            target = lines[row][column:].rstrip()
            yield Answer(Cursor.at(shown, row, column, language), target, lines[row][:column] + target)
            count -= 1
        if count <= 0:
            return


def projects_of(language: str) -> str:
    return "projects" if language == "python" else f"projects-{language}"


def print_ends(folder: Path, languages: list[str], count: int, *, examples: bool) -> None:
    print("| ends of lines | true | cut | share | surplus | left | share |")
    print("|---|---:|---:|---|---:|---:|---|")
    for language in languages:
        for counts in ends(language, places(folder / projects_of(language), language, count)):
            print(counts.row(), flush=True)
            for kind in ("cut", "left") if examples else ():
                print(*(f"    {kind}: {one}" for one in getattr(counts, kind)[:40]), sep="\n")


def print_comments(folder: Path, languages: list[str], *, examples: bool) -> None:
    print("| comments and documentation | lines | another script | filling |")
    print("|---|---:|---:|---:|")
    for language in languages:
        projects = folder / projects_of(language)
        count, foreign, filling = 0, list[str](), list[str]()
        for path in (path for root in sorted(projects.iterdir()) for path in source_files(root, language)):
            lines = read_lines_of(path, language)
            for row in sorted(prose_lines(lines, language)):
                line = lines[row]
                count += bool(line.strip())
                scripts = {script for script, _, _ in words_by_script(line)}
                others = [other for at, other in enumerate(lines) if at != row] if scripts else []
                if any(not any(has_script(other, script) for other in others) for script in scripts):
                    foreign.append(line)
                if is_filler(line, is_comment=language != "python" or line.lstrip().startswith("#")):
                    filling.append(line)
        print(f"| {language} | {count} | {len(foreign)} | {len(filling)} |", flush=True)
        if examples:
            print(*(f"    {one.strip()}" for one in (*foreign[:40], *filling[:40])), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="What is changed of a model's answers.")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("languages", nargs="*", default=["python", "typescript", "go", "java"])
    parser.add_argument("--ends", action="store_true")
    parser.add_argument("--comments", action="store_true")
    parser.add_argument("--places", type=int, default=3000)
    parser.add_argument("--examples", action="store_true")
    given = parser.parse_args()
    folder = given.folder or Path(os.environ.get("LSP_CALIB_DATA", "."))
    if given.ends:
        print_ends(folder, given.languages, given.places, examples=given.examples)
        return
    if given.comments:
        print_comments(folder, given.languages, examples=given.examples)
        return
    print("| answers | reason | n | right before | right then |\n|---|---|---:|---:|---:|")
    for path in sorted([*RECORDS.glob("line-*.jsonl"), *RECORDS.glob("languages/line-*.jsonl")]):
        header, records = read_records(path)
        card, file = locate(header.model.name)
        found = rebuild(
            header,
            records,
            folder / projects_of(header.language),
            card,
            _pieces(file),
            with_surroundings=False,
            with_verdicts=False,
        )
        rebuilt = [one for one in found if one.record.stop != Stop.LENGTH]
        table(path.stem, [answer for one in rebuilt for answer in in_records(one)])
        if card.completion.layout != "fim":
            answers = [answer for one in rebuilt for answer in with_a_rest(one)]
            table(f"{path.stem}, with a rest", answers)


if __name__ == "__main__":
    main()
