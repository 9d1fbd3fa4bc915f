"""What prompts show of other places stays while the window does: else nothing of the cache would fit."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import ALONE, Layout, Surroundings

# Positions of the window that are remembered of a document: those that the model's cache may hold.
_MOST = 4

Find = Callable[[str, Cursor, Layout], Callable[[], Surroundings]]
"""Takes in what is known of the open documents; what it returns finds the surroundings of a place in one of
them. That may read files, so it is called in a thread."""


class Nearby:
    """The surroundings of places in open documents, found once for each position of the window.

    Pieces come first in a prompt. They are looked for again when the window moves, after which the whole
    prompt has to be evaluated anyway.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._documents: dict[str, OrderedDict[tuple[str, int], Surroundings]] = {}
        self._cleared = 0

    async def of(self, document: str, cursor: Cursor, layout: Layout) -> Surroundings:
        """The surroundings for a prompt at `cursor`."""
        known = self.known(document, cursor, layout)
        if known is not None:
            return known
        # Of a document that is closed meanwhile nothing is kept: `forget` lets go of these.
        windows = self._documents.setdefault(document, OrderedDict())
        cleared = -1
        while cleared != self._cleared:  # what was found before may show what is excluded now
            cleared = self._cleared
            found = await asyncio.to_thread(self._find(document, cursor, layout))
        # Another request may have been faster: its prompt is the one that is cached.
        found = windows.setdefault(_window(cursor, layout), found)
        if len(windows) > _MOST:
            windows.popitem(last=False)
        return found

    def known(self, document: str, cursor: Cursor, layout: Layout) -> Surroundings | None:
        """The surroundings for a prompt at `cursor`, None if they have to be looked for first."""
        if not layout.related or not document:
            return ALONE
        windows = self._documents.get(document)
        window = _window(cursor, layout)
        if not windows or window not in windows:
            return None
        windows.move_to_end(window)
        return windows[window]

    def forget(self, document: str) -> None:
        """Drop what is remembered of a document."""
        self._documents.pop(document, None)

    def clear(self) -> None:
        """Drop everything: other documents may be excluded now."""
        self._documents.clear()
        self._cleared += 1


def _window(cursor: Cursor, layout: Layout) -> tuple[str, int]:
    return layout.version, layout.shown(cursor)[0]


NOTHING_NEARBY = Nearby(lambda *_: lambda: ALONE)
"""For documents on their own."""
