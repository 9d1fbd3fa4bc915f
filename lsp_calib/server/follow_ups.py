"""What is made after a suggestion for the same place, such as its alternatives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import attrs

from lsp_calib.completion import Completion, Cursor
from lsp_calib.errors import LspCalibError

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds that the work for a line goes on when no request waits for it any more: the next key cancels one
# request and sends another.
GRACE = 1.0


@attrs.frozen
class _Made(Generic[T]):
    """failed: whether the model could not be asked for all of it."""

    value: T
    failed: bool = False


@attrs.define
class _Work(Generic[T]):
    """line: what the cursor's line becomes with the suggestion. waiting: requests that wait for it without a
    time limit. superseded: its result is not delivered. end: of the work, unless another request waits."""

    what: object
    cursor: Cursor
    line: str
    task: asyncio.Task[_Made[T]]
    waiting: int = 0
    superseded: bool = False
    end: asyncio.TimerHandle | None = None

    @property
    def is_there(self) -> bool:
        """Whether it has come to its end."""
        return self.task.done() and not self.task.cancelled()

    @property
    def has_failed(self) -> bool:
        return self.is_there and self.task.exception() is None and self.task.result().failed


class FollowUps(Generic[T]):
    """Follow-ups of suggestions, by document. Each is made once; a request elsewhere in the document ends it.

    make: makes the follow-up of a suggestion in the document with a URI. Raises LspCalibError.
    nothing: what there is where none can be made, or none is ready.
    of_line: whether it is the same for a line of the document, however much of its suggestion is typed; then
        its making goes on while that is typed.
    before: what there is all the same where making it has raised an error; `nothing` unless given. What has
        failed is made anew when it is wanted again.
    """

    def __init__(
        self,
        make: Callable[[str, Completion], Awaitable[T]],
        nothing: T,
        *,
        of_line: bool = False,
        before: Callable[[LspCalibError], T] | None = None,
    ) -> None:
        self._make = make
        self._nothing = nothing
        self._before = before or (lambda _: nothing)
        self._of_line = of_line
        self._works: dict[str, _Work[T]] = {}

    async def of(
        self, uri: str, first: Completion, *, patience: float | None = None, begins: bool = True
    ) -> T:
        """The follow-up of a suggestion; `nothing` if it is superseded.

        patience: seconds to wait; a later one is kept for the next request at the same place. 0: only one
        that is made already. begins: whether to make it where that has not begun, or has failed.
        """
        work = self._known(uri, first)
        if begins and patience != 0 and (work is None or work.has_failed):
            work = self._begun(uri, first)
        if work is None:
            return self._nothing
        if patience is None:
            await self._wait(work)
        else:
            await asyncio.wait({work.task}, timeout=patience)
        if work.superseded or not work.is_there:
            return self._nothing
        return work.task.result().value

    def requested(self, uri: str, cursor: Cursor) -> None:
        """There is a request in a document: what is made for another place there is not wanted any more."""
        work = self._works.get(uri)
        if work is None:
            return
        if self._of_line:
            same = work.cursor.line == cursor.line
            # Where none of the line is left to type, or more than at first, the model is asked, and each line
            # of the block would be a newer request than that.
            # What is made already comes again if another text is taken back.
            typed = work.cursor.column <= cursor.column < len(work.line)
            same = same and (work.task.done() or (typed and work.line.startswith(cursor.before)))
        else:
            same = work.cursor == cursor
        if not same:
            self.forget(uri)

    def made(self, uri: str) -> T:
        """What was made last in a document; `nothing` if it is not ready or not wanted any more."""
        work = self._works.get(uri)
        if work is None or not work.is_there or work.task.exception():
            return self._nothing
        return work.task.result().value

    def _known(self, uri: str, first: Completion) -> _Work[T] | None:
        """The work for this suggestion, if there is one that is not being stopped."""
        work = self._works.get(uri)
        if work is None or work.task.cancelling() or work.what != self._what(first):
            return None
        return work

    def _begun(self, uri: str, first: Completion) -> _Work[T]:
        self.forget(uri)
        task = asyncio.create_task(self._made(uri, first))
        work = _Work(self._what(first), first.cursor, first.expected_line, task)
        self._works[uri] = work
        return work

    def _what(self, first: Completion) -> tuple[Any, ...]:
        if not self._of_line:
            return first.suggestion.id, first.cursor
        cursor = first.cursor
        return first.suggestion.id, cursor.line, first.expected_line

    def forget(self, uri: str) -> None:
        """Drop what there is for a document, and stop the work for it."""
        work = self._works.pop(uri, None)
        if work is not None:
            work.superseded = True
            work.task.cancel()

    def stop(self) -> list[str]:
        """Stop all work that is not done; returns the documents in which a request waits for it."""
        unfinished = {uri: work for uri, work in self._works.items() if not work.task.done()}
        for uri in unfinished:
            self.forget(uri)
        return [uri for uri, work in unfinished.items() if work.waiting]

    def clear(self) -> None:
        """Drop everything: it was assessed by another calibrator or policy."""
        for uri in list(self._works):
            self.forget(uri)

    async def close(self) -> None:
        """Stop all work, and wait for its end."""
        tasks = [work.task for work in self._works.values()]
        self.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, work: _Work[T]) -> None:
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
                    work.end = asyncio.get_running_loop().call_later(GRACE, work.task.cancel)
                else:
                    work.task.cancel()

    async def _made(self, uri: str, first: Completion) -> _Made[T]:
        try:
            return _Made(await self._make(uri, first))
        except LspCalibError as error:
            # The suggestion itself is there; that nothing follows it is no failure to the user.
            logger.debug("No follow-up, or not all of it: %s", error)
            return _Made(self._before(error), failed=True)
