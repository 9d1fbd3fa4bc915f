"""What is made besides the completion that was asked for: alternatives, lines below, work ahead of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from lsp_calib.completion.context import Cursor, in_data, next_place
from lsp_calib.completion.memory import CompletionMemory
from lsp_calib.completion.service import Completion, CompletionService
from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engine import Priority
from lsp_calib.server.admission import Admission
from lsp_calib.server.connection import Connection
from lsp_calib.server.model import Model
from lsp_calib.values import Prompt

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds that the work for a line goes on when no request waits for it any more: the next key cancels one
# request and sends another.
GRACE = 1.0


@attrs.define
class _Work(Generic[T]):
    """line: what the cursor's line becomes with the suggestion. waiting: requests that wait for it without a
    time limit. superseded: its result is not delivered. end: of the work, unless another request waits.
    task: its result, and whether the model could not be asked for all of it."""

    what: object
    cursor: Cursor
    line: str
    task: asyncio.Task[tuple[T, bool]]
    waiting: int = 0
    superseded: bool = False
    end: asyncio.TimerHandle | None = None

    @property
    def is_there(self) -> bool:
        """Whether it has come to its end."""
        return self.task.done() and not self.task.cancelled()

    @property
    def has_failed(self) -> bool:
        return self.is_there and self.task.exception() is None and self.task.result()[1]


@attrs.define(eq=False, repr=False, slots=False)
class DerivedSuggestions(Generic[T]):
    """Follow-ups of suggestions, by document. Each is made once; a request elsewhere in the document ends it.

    make: makes the follow-up of a suggestion in the document with a URI. Raises LspCalibError.
    nothing: what there is where none can be made, or none is ready.
    of_line: whether it is the same for a line of the document, however much of its suggestion is typed; then
        its making goes on while that is typed.
    before: what there is all the same where making it has raised an error; `nothing` unless given. What has
        failed is made anew when it is wanted again.
    grace: seconds that the work for a line goes on when no request waits for it any more.
    """

    _make: Callable[[str, Completion], Awaitable[T]]
    _nothing: T
    _of_line: bool = False
    _before: Callable[[LspCalibError], T] | None = None
    _grace: float = GRACE
    _works: dict[str, _Work[T]] = attrs.field(factory=dict, init=False)

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
        return work.task.result()[0]

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
        return work.task.result()[0]

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
                    work.end = asyncio.get_running_loop().call_later(self._grace, work.task.cancel)
                else:
                    work.task.cancel()

    async def _made(self, uri: str, first: Completion) -> tuple[T, bool]:
        try:
            return await self._make(uri, first), False
        except LspCalibError as error:
            # The suggestion itself is there; that nothing follows it is no failure to the user.
            logger.debug("No follow-up, or not all of it: %s", error)
            return self._before(error) if self._before else self._nothing, True


# Seconds between a reply and the start of the work.
AHEAD_PAUSE = 0.05


@attrs.define(eq=False, repr=False, slots=False)
class WorkAhead:
    """Evaluates the likely beginning of the next prompt, and completes the line after an inserted suggestion.

    memory: where completions made ahead are kept, for the request that they are made for.
    """

    _service: CompletionService
    _memory: CompletionMemory
    _model: Model
    _connection: Connection
    _admission: Admission
    _windows: dict[str, tuple[Prompt, asyncio.Task[None]]] = attrs.field(factory=dict, init=False)
    _next: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _next_in: str = attrs.field(default="", init=False)

    def look_ahead(self, uri: str, cursor: Cursor) -> None:
        """Evaluate the likely beginning of the next prompt near `cursor`."""
        loaded = self._model.loaded
        prompt = self._service.ahead(cursor, loaded) if loaded and self._looks_ahead() else None
        known, task = self._windows.get(uri, (None, None))
        if prompt == known:
            return
        if task is not None:
            task.cancel()  # the engine keeps the evaluated tokens, and the next prompt continues from there
            del self._windows[uri]
        if prompt is not None:
            self._windows[uri] = prompt, asyncio.create_task(self._prepare(prompt))

    def inserted(self, uri: str, lines: Sequence[str], line: int, language: str) -> None:
        """A suggestion was inserted in a line: complete the next one. lines: of the document as it is now."""
        # A request to another machine takes its time, and may cost money.
        if not self._looks_ahead() or self._connection.trusted.remote_url is not None:
            return
        self.give_way()
        cursor = next_place(lines, line, language)
        if not in_data(cursor) and self._memory.recall(uri, cursor) is None:
            self._next, self._next_in = asyncio.create_task(self._complete(uri, cursor)), uri

    def give_way(self) -> None:
        """The model is needed, in whatever document: stop completing the next line."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def forget(self, uri: str) -> None:
        """Stop the work for a document."""
        if self._next_in == uri:
            self.give_way()
        _, task = self._windows.pop(uri, (None, None))
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """Stop all work."""
        self.give_way()
        for uri in list(self._windows):
            self.forget(uri)

    async def close(self) -> None:
        tasks = [task for _, task in self._windows.values()] + ([self._next] if self._next else [])
        self.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _looks_ahead(self) -> bool:
        return self._connection.settings.prefetch and self._admission.may_work_ahead()

    async def _prepare(self, prompt: Prompt) -> None:
        # The reply goes out first; and a user who keeps typing would cancel the evaluation at once.
        await asyncio.sleep(AHEAD_PAUSE)
        try:
            await self._service.prepare(prompt)
        except LspCalibError as error:
            logger.debug("Not evaluated ahead: %s", error)

    async def _complete(self, uri: str, cursor: Cursor) -> None:
        await asyncio.sleep(AHEAD_PAUSE)
        below = self._connection.settings.hide_below
        try:
            outcome = await self._service.complete(cursor, Priority.IDLE, document=uri, hide_below=below)
        except LspCalibError as error:
            logger.debug("Not completed ahead: %s", error)
            return
        if below == self._connection.settings.hide_below:
            self._memory.remember(uri, cursor, outcome)
