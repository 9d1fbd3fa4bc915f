"""Summaries made ahead, while nobody needs the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lsp_calib.server.convert import language_of
from lsp_calib.server.summary_requests import SummaryRequests
from lsp_calib.server.summary_target import functions_of, parse
from lsp_calib.server.text import CalibDocument
from lsp_calib.syntax import Function

# Seconds without a request or a change after which the user reads, thinks or is away.
IDLE = 5.0
# Functions for each place: about what is on a screen. A summary takes seconds of two cores.
MOST = 4
# Lines from the place beyond which a function is not on the screen.
NEAR = 60
# Characters of a document beyond which it is not parsed for something that nobody has asked for.
_LARGEST = 200_000


class SummariesAhead:
    """Summarises the functions around the last place of the user, one after the other, when all is idle.

    document: an open document by its URI. goes_ahead: whether to do so now in a document, by its
    URI; asked before each function.
    """

    def __init__(
        self,
        requests: SummaryRequests,
        document: Callable[[str], CalibDocument | None],
        goes_ahead: Callable[[str], bool],
    ) -> None:
        self._requests = requests
        self._document = document
        self._goes_ahead = goes_ahead
        self._place: tuple[str, int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None

    def at(self, uri: str, line: int) -> None:
        """The user is at a line, counted from 0."""
        self._place = uri, line
        self.active()

    def moved(self, uri: str, line: int) -> None:
        """The cursor is at a line: as `at`, unless it was there before. Some editors say so repeatedly."""
        if self._place != (uri, line):
            self.at(uri, line)

    def active(self) -> None:
        """Something happens: stop, and begin again some seconds after the last time."""
        self.stop()
        self.resume()

    def resume(self) -> None:
        """What stood in the way may be gone: the model is loaded, a pause is over."""
        works = self._work is not None and not self._work.done()
        if self._place is not None and self._timer is None and not works:
            self._timer = asyncio.get_running_loop().call_later(IDLE, self._begin)

    def forget(self, uri: str) -> None:
        """A document is closed."""
        if self._place is not None and self._place[0] == uri:
            self._place = None
            self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._work is not None:
            self._work.cancel()
            self._work = None
            self._requests.give_way()

    def _begin(self) -> None:
        self._timer = None
        if self._place is not None and self._goes_ahead(self._place[0]):
            self._work = asyncio.create_task(self._summarize(*self._place))

    async def _summarize(self, uri: str, line: int) -> None:
        document = self._document(uri)
        if document is None or sum(map(len, document.bare_lines)) > _LARGEST:
            return
        language = language_of(document)
        await parse(document)
        for function in _near(functions_of(document), line):
            if not self._goes_ahead(uri):
                return
            await self._requests.prepare(uri, function, language)


def _near(found: Sequence[Function], line: int) -> list[Function]:
    """The functions nearest to a line, the nearest first; of nested ones the inner one first."""

    def distance(function: Function) -> int:
        return max(function.start - line, line - function.end + 1, 0)

    near = [one for one in found if distance(one) <= NEAR]
    return sorted(near, key=lambda one: (distance(one), one.end - one.start))[:MOST]
