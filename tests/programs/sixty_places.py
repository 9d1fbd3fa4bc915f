"""Whether a completion behind an opener leaves its file with more syntax errors than it had.

    python tests/programs/sixty_places.py [--model smollm2-135m] [--language rust] [--show]

Sixty places in eleven languages (`places/`), behind openers of every kind. The cursor is marked `‸`, and the
closers behind it are those that an editor writes. The real server is asked over the protocol with nothing
hidden: for its suggestion and the alternatives to it, and for the item of the menu. Each answer is applied as
an editor does it. Then the errors of the tree-sitter parse, ERROR and MISSING nodes, are compared with those
before. The exit code is 1 if an answer adds errors.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
from lsprotocol import types
from tree_sitter import Node, Parser

from lsp_calib.languages import suffix_of
from lsp_calib.settings import Settings
from lsp_calib.syntax.languages import rules_of
from lsp_calib.tools.bench.server import Scratch, scratch_folder, served
from lsp_calib.tools.client import Document, Editor

PLACES = Path(__file__).with_name("places")
_CURSOR = "‸"
# Seconds; enough on a busy machine.
_ANSWER = 300.0


@attrs.frozen
class Place:
    """A cursor in a file. name: the opener before it, and what it is of. text: of the file, in ASCII."""

    language: str
    name: str
    text: str
    line: int
    column: int


@attrs.frozen
class Answer:
    """What the server offers at a place. how: which request it answers, and its rank."""

    place: Place
    how: str
    start: int
    end: int
    text: str

    @property
    def line(self) -> str:
        """The line of the cursor with the answer in it."""
        before = self.place.text.split("\n")[self.place.line]
        return before[: self.start] + self.text + before[self.end :]

    def more_errors(self) -> int:
        """How many syntax errors the answer adds to the file; negative if it mends some."""
        lines = self.place.text.split("\n")
        lines[self.place.line] = self.line
        return errors("\n".join(lines), self.place.language) - errors(self.place.text, self.place.language)


def places(language: str | None = None) -> Iterator[Place]:
    """The places of a language, or all of them."""
    for path in sorted(PLACES.glob("*.txt")):
        if language not in (None, path.stem):
            continue
        for part in re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            name, _, marked = part.partition("\n")
            before, after = marked.split(_CURSOR)
            yield Place(
                path.stem, name, before + after, before.count("\n"), len(before) - before.rfind("\n") - 1
            )


def errors(text: str, language: str) -> int:
    """The ERROR and MISSING nodes of a text's syntax tree."""
    rules = rules_of(language)
    assert rules is not None
    pending: list[Node] = [Parser(rules.grammar()).parse(text.encode()).root_node]
    found = 0
    while pending:
        node = pending.pop()
        found += node.is_error or node.is_missing
        pending += [child for child in node.children if child.has_error]
    return found


async def answers(scratch: Scratch, chosen: list[Place], *, others: bool) -> AsyncIterator[Answer]:
    """What the server offers at these places. others: the alternatives as well."""
    options = {"hideBelow": False, "completion": {"enabled": True}}
    async with served(scratch, ahead=False, options=options) as server:
        for place in chosen:
            path = scratch.project / f"place{suffix_of(place.language)}"
            path.write_text(place.text, "utf-8")
            document = Document(server.editor, path, place.language)
            items = await document.completions(place.line, place.column, _ANSWER, by_hand=others)
            for rank, item in enumerate(items, 1):
                assert item.range is not None
                assert isinstance(item.insert_text, str)
                yield _answer(place, f"rank {rank}", item.range, item.insert_text)
            for edit in await _menu(server.editor, document, place):
                yield _answer(place, "in the menu", edit.range, edit.new_text)
            document.close()
            path.unlink()


async def _menu(editor: Editor, document: Document, place: Place) -> list[types.TextEdit]:
    """The edit of the item in the completion menu, if there is one."""
    position = document.position(place.line, place.column)
    params = types.CompletionParams(document.identifier, position)
    menu = await editor.ask(types.TEXT_DOCUMENT_COMPLETION, params, _ANSWER)
    return [item.text_edit for item in (menu.items if menu else [])]


def _answer(place: Place, how: str, span: types.Range, text: str) -> Answer:
    assert span.start.line == span.end.line == place.line
    return Answer(place, how, span.start.character, span.end.character, text)


async def _all(scratch: Scratch, chosen: list[Place], *, others: bool, show: bool) -> list[Answer]:
    """The answers, of which those that add errors, or all, are printed as they come."""
    found = []
    async for one in answers(scratch, chosen, others=others):
        found.append(one)
        if show or one.more_errors() > 0:
            place = f"{one.place.language}, {one.place.name}, {one.how}"
            before = one.place.text.split("\n")[one.place.line].strip()
            print(f"{place}: {one.more_errors():+d}\n    {before}\n    {one.line.strip()}\n", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare syntax errors before and after completions.")
    parser.add_argument("--model", default="smollm2-135m", help="name of a card, or a file")
    parser.add_argument("--threads", type=int, default=0, help="to decode with; 0: chosen by the server")
    parser.add_argument("--language", help="only this language")
    parser.add_argument("--first", action="store_true", help="leave the alternatives out")
    parser.add_argument("--show", action="store_true", help="print every answer")
    given = parser.parse_args()
    chosen = list(places(given.language))
    with scratch_folder(attrs.evolve(Settings(), model=given.model, threads=given.threads)) as scratch:
        found = asyncio.run(_all(scratch, chosen, others=not given.first, show=given.show))
    print(f"{given.model}\n\n| language | places | with an answer | answers | that add errors |")
    print("|---|---:|---:|---:|---:|")
    languages = dict.fromkeys(place.language for place in chosen)
    for name, of in [*((one, (one,)) for one in languages), ("all", tuple(languages))]:
        here = [one for one in found if one.place.language in of]
        served = len({one.place for one in here})
        worse = sum(one.more_errors() > 0 for one in here)
        asked = sum(place.language in of for place in chosen)
        print(f"| {name} | {asked} | {served} | {len(here)} | {worse} |")
    sys.exit(any(one.more_errors() > 0 for one in found))


if __name__ == "__main__":
    main()
