"""What is made beside a completion, alternatives or the lines below it: once for each place, while somebody
waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion
from lsp_calib.errors import LspCalibError
from lsp_calib.server.documents import CalibDocument

logger = logging.getLogger(__name__)

Made = tuple[Completion, ...]
"""Alternatives to a suggestion, or the lines of a block; none where none can be made, or none is ready."""

Result = tuple[Made, LspCalibError | None]
"""What was made, and why the model could not be asked for all of it, None if it could."""

# Seconds that the work for a line goes on when no request waits for it any more: an editor may cancel one and
# send another for the same place.
GRACE = 1.0


@attrs.define(eq=False)
class _Making:
    """waiting: requests that wait for it without a time limit. superseded: its result is not delivered. end:
    of the work, unless another request waits."""

    what: object
    cursor: Cursor
    task: asyncio.Task[tuple[Made, bool]]
    waiting: int = 0
    superseded: bool = False
    end: asyncio.TimerHandle | None = None

    @property
    def result(self) -> tuple[Made, bool]:
        """What was made, and whether the model could not be asked for all of it; nothing before its end."""
        over = self.task.done() and not self.task.cancelled() and self.task.exception() is None
        return self.task.result() if over else ((), False)


@attrs.define(eq=False, repr=False, slots=False)
class DerivedSuggestions:
    """Follow-ups of suggestions, by document. Each is made once; a request elsewhere in the document ends it.

    make: makes the follow-up of a suggestion in a document. What has failed is made anew when it is wanted
        again. Of a block the lines above the failure are there all the same.
    of_line: whether it is the same for a line of the document, however much of its suggestion is typed. A key
        ends its making all the same.
    grace: seconds that the work for a line goes on when no request waits for it any more.
    is_stale: whether a result is out of date and is made again, as one that has labels already.
    """

    _make: Callable[[CalibDocument, Completion], Awaitable[Result]]
    _of_line: bool = False
    _grace: float = GRACE
    _is_stale: Callable[[Made], bool] = lambda _: False
    works: dict[str, _Making] = attrs.field(factory=dict, init=False)

    async def of(
        self,
        document: CalibDocument,
        first: Completion,
        *,
        patience: float | None = None,
        begins: bool = True,
    ) -> Made:
        """The follow-up of a suggestion; nothing if it is superseded.

        patience: seconds to wait; a later one is kept for the next request at the same place. 0: only one
        that is made already. begins: whether to make it where that has not begun, or has failed.
        """
        uri, cursor = document.uri, first.cursor
        what = first.suggestion.id, (cursor.line, first.expected_line) if self._of_line else cursor
        work = self.works.get(uri)
        if work is not None and (
            work.task.cancelling() or work.what != what or self._is_stale(work.result[0])
        ):
            work = None
        if begins and patience != 0 and (work is None or work.result[1]):
            self.forget(uri)
            task = asyncio.create_task(self._made(document, first))
            work = self.works[uri] = _Making(what, cursor, task)
        if work is None:
            return ()
        if patience is None:
            await self._wait(work)
        else:
            await asyncio.wait({work.task}, timeout=patience)
        return () if work.superseded else work.result[0]

    def requested(self, uri: str, cursor: Cursor) -> None:
        """There is a request in a document: what is made for another place there is not wanted any more."""
        work = self.works.get(uri)
        if work is None:
            return
        # Of a line what is made already comes again if another text is taken back.
        stays = self._of_line and work.task.done() and work.cursor.line == cursor.line
        if not stays and work.cursor != cursor:
            self.forget(uri)

    def made(self, uri: str) -> Made:
        """What was made last in a document; nothing if it is not ready or not wanted any more."""
        work = self.works.get(uri)
        return () if work is None else work.result[0]

    def forget(self, uri: str) -> None:
        """Drop what there is for a document, and stop the work for it."""
        work = self.works.pop(uri, None)
        if work is not None:
            work.superseded = True
            work.task.cancel()

    def stop(self) -> list[str]:
        """Stop all work that is not done; returns the documents in which a request waits for it."""
        unfinished = {uri: work for uri, work in self.works.items() if not work.task.done()}
        for uri in unfinished:
            self.forget(uri)
        return [uri for uri, work in unfinished.items() if work.waiting]

    def clear(self) -> None:
        """Drop everything: it was assessed by another calibrator or policy."""
        for uri in list(self.works):
            self.forget(uri)

    async def close(self) -> None:
        """Stop all work, and wait for its end."""
        tasks = [work.task for work in self.works.values()]
        self.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, work: _Making) -> None:
        """Wait for the end. Cancelling the last waiter cancels the task, that for a line after a moment."""
        work.waiting += 1
        if work.end is not None:
            work.end.cancel()
        try:
            await asyncio.wait({work.task})
        finally:
            work.waiting -= 1
            if not work.waiting and not work.task.done():
                if self._of_line:
                    work.end = asyncio.get_running_loop().call_later(self._grace, work.task.cancel)
                else:
                    work.task.cancel()

    async def _made(self, document: CalibDocument, first: Completion) -> tuple[Made, bool]:
        made, failure = await self._make(document, first)
        if failure is not None:
            # The suggestion itself is there; that nothing follows it is no failure to the user.
            logger.debug("No follow-up, or not all of it: %s", failure)
        # The error itself would keep the frames of its call, and so the prompt in them.
        return made, failure is not None
