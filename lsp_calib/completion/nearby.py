"""What prompts show of other places stays while the place does: else nothing of the cache would fit."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import ALONE, Layout, Surroundings
from lsp_calib.completion.related import head_of
from lsp_calib.languages import language_of

# Places of a document that are remembered with pieces: those that the model's cache may hold, and those of a
# block that is made below the cursor.
_MOST = 16
# Lines without pieces that are remembered: as many as completions, which can be recalled only so long.
_MOST_EMPTY = 64
# The window moves by so many lines. At the top of a document, where it stands still, the cursor counts.
_BLOCK = 16
# Characters of a line that are looked at.
_LONGEST = 200
# How lines begin, after their indentation, that name what is imported. goes_on: those that may go on in
# brackets on the lines below, unlike a block such as C#'s `using (...) {` or Rust's `mod tests {`.
_IMPORT = re.compile(
    r"(?P<goes_on>from\b|import\b(?!\()|(?:pub(?:\([^)]*\))? )?use\b(?! ?\())"
    r"|# ?include\b|(?:include|require)(?:_once|_relative)?\b|using\s[^(]*;|(?:pub(?:\([^)]*\))? )?mod\s+\w+;"
)
# A regular expression is slow for a hundred lines at each key.
_BEGINNINGS = ("from", "import", "#", "include", "require", "use", "using", "mod", "pub")
# Those that name it further on.
_FROM = re.compile(r"\b(?:from|require)\b ?\(?['\"]")
_NAME = re.compile(r"\w+")

Find = Callable[[str, Cursor, Layout], Callable[[], Surroundings]]
"""Takes in what is known of the open documents; what it returns finds the surroundings of a place in one of
them. That may read files, so it is called in a thread."""


class _Place(NamedTuple):
    """Where pieces stay as they are. imported: the names in the lines that import something."""

    version: str
    window: int
    block: int
    imported: frozenset[str]

    @classmethod
    def of(cls, cursor: Cursor, layout: Layout) -> _Place:
        window = layout.shown(cursor)[0]
        block = 0 if window else cursor.line // _BLOCK
        return cls(layout.version, window, block, frozenset(_imported(cursor)))


@attrs.frozen
class _Document:
    """What is remembered of a document. empty: where no pieces were found, by the line too."""

    language: str
    found: OrderedDict[_Place, Surroundings] = attrs.field(factory=OrderedDict)
    empty: OrderedDict[tuple[_Place, int], Surroundings] = attrs.field(factory=OrderedDict)

    def of(self, place: _Place, line: int) -> Surroundings | None:
        if place in self.found:
            self.found.move_to_end(place)
            return self.found[place]
        return self.empty.get((place, line))

    def keep(self, place: _Place, line: int, surroundings: Surroundings) -> None:
        if surroundings.snippets:
            self.found[place] = surroundings
        else:
            self.empty[place, line] = surroundings
        if len(self.found) > _MOST:
            self.found.popitem(last=False)
        if len(self.empty) > _MOST_EMPTY:
            self.empty.popitem(last=False)


class Nearby:
    """The surroundings of places in open documents, found once for each place.

    Pieces come first in a prompt: others make the model evaluate the whole of it. So they are looked for
    again when the window moves, after which it has to do that anyway, every 16 lines where the window stands
    still, and when the document imports something else or a document is opened or closed. Where there are
    none, they are looked for on each line, as in a new file.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._documents: dict[str, _Document] = {}
        self._cleared = 0

    async def of(self, document: str, cursor: Cursor, layout: Layout) -> Surroundings:
        """The surroundings for a prompt at `cursor`."""
        known = self.known(document, cursor, layout)
        if known is not None:
            return known
        # Of a document that is closed meanwhile nothing is kept: `forget` lets go of this.
        kept = self._documents.setdefault(document, _Document(cursor.language))
        cleared = -1
        while cleared != self._cleared:  # what was found before may show what is excluded now
            cleared = self._cleared
            found = await asyncio.to_thread(self._find(document, cursor, layout))
        place = _Place.of(cursor, layout)
        # Another request may have been faster: its prompt is the one that is cached.
        faster = kept.of(place, cursor.line)
        if faster is not None:
            return faster
        kept.keep(place, cursor.line, found)
        return found

    def known(self, document: str, cursor: Cursor, layout: Layout) -> Surroundings | None:
        """The surroundings for a prompt at `cursor`, None if they have to be looked for first."""
        if not layout.related or not document:
            return ALONE
        kept = self._documents.get(document)
        return None if kept is None else kept.of(_Place.of(cursor, layout), cursor.line)

    def forget(self, document: str) -> None:
        """A document is opened or closed: drop what is remembered of it, and of those that it may be shown
        in."""
        language = language_of(PurePosixPath(document))
        for one, kept in list(self._documents.items()):
            if one == document or kept.language == language:
                del self._documents[one]

    def clear(self) -> None:
        """Drop everything: other documents may be excluded now."""
        self._documents.clear()
        self._cleared += 1


def _imported(cursor: Cursor) -> Iterator[str]:
    """The names in the lines at the document's top that import something; as a set they are the same once
    sorted. Not in the cursor's line, which changes with each key."""
    inside = False  # brackets that an import has opened
    for at, whole in enumerate(head_of(cursor.lines)):
        line = "" if at == cursor.line else whole[:_LONGEST].lstrip()
        begins = _IMPORT.match(line) if line.startswith(_BEGINNINGS) else None
        if inside or begins or (("from" in line or "require" in line) and _FROM.search(line)):
            yield from _NAME.findall(line)
            closed = max(line.rfind(")"), line.rfind("}"))
            opened = max(line.rfind("("), line.rfind("{"))
            opens = begins is not None and bool(begins["goes_on"]) and opened > closed
            inside = opens or (inside and closed < 0)


NOTHING_NEARBY = Nearby(lambda *_: lambda: ALONE)
"""For documents on their own."""
