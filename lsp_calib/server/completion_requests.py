"""Completions for an editor: the newest request wins, and no place is requested twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs

from lsp_calib.completion import Completion, CompletionService, Cursor, Hidden, Nothing, Removal
from lsp_calib.completion.memory import CompletionMemory, Outcome
from lsp_calib.errors import LspCalibError, RequestCancelledError
from lsp_calib.server.absence import TOO_SLOW, Absence, failed, hidden, nothing
from lsp_calib.server.last_requests import LastRequests
from lsp_calib.server.work_ahead import WorkAhead
from lsp_calib.values import new_suggestion_id

logger = logging.getLogger(__name__)

# Seconds that a request leaves the model to the one that it supersedes. What that one has evaluated is not
# lost, and its answer may be what the user is just typing.
BUSY_PAUSE = 0.03


@attrs.frozen
class CompletionReply:
    """There is an answer; `completion` is None if the model had nothing to offer, nothing that is shown, or
    was not to be asked now."""

    completion: Completion | None


_Task = asyncio.Task[CompletionReply | None]


@attrs.define
class _Before:
    """What comes before a run asks the model. Apart from the run, so that its task does not lead to itself.

    task: the model's work for an earlier request, to which this one leaves the model first. over: the model
    has been asked, or need not be. hurry: set once the user asks for it by hand.
    """

    task: _Task | None = None
    over: bool = False
    hurry: asyncio.Event = attrs.field(factory=asyncio.Event)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@attrs.define
class _Run:
    """A completion in the making. waiting: requests that wait for it without a time limit.
    superseded: set once a request elsewhere in the document has come; its reply, even if just ready, is not
    delivered."""

    cursor: Cursor
    before: _Before
    task: _Task
    superseded: asyncio.Future[None]
    waiting: int = 0

    @property
    def ends(self) -> set[asyncio.Future[Any]]:
        """A request has nothing more to wait for once one of these is done."""
        return {self.task, self.superseded}

    def cancel(self) -> None:
        self.task.cancel()
        self.before.cancel()

    def supersede(self) -> None:
        if not self.superseded.done():
            self.superseded.set_result(None)


class CompletionRequests:
    """Completions by document. A request supersedes the one before it in the same document.

    memory: what is known without the model. ahead: the work for requests that are likely to come.
    last: is told what becomes of each request.
    refusal: why the document with this URI may not be used for a prompt, None if it may. It may wait for the
        settings that decide this, for at most as many seconds as its second argument says.
    unwanted: why a request that the user has not made by hand gets no answer now, None if it does.
    held_back: the same for one that the model would have to be asked for.
    is_elsewhere: whether a suggestion (URI, id, line) is followed in another place than this one.
    is_settled: whether the outcome of a suggestion with this id is decided.
    on_request: called with the URI and the cursor of each request that is admitted.
    on_made: called with each completion that the service has made.
    on_hidden: called with each completion that is not shown.
    on_nothing: called with the reason each time when nothing of the model's answer can be offered.
    hide_below: the confidence below which completions are hidden now; 0: none is.
    pause: seconds between a request and asking the model for it; None: `BUSY_PAUSE`, and that only while it
        works for a request that this one supersedes.
    """

    def __init__(
        self,
        service: CompletionService,
        memory: CompletionMemory,
        ahead: WorkAhead,
        *,
        last: LastRequests,
        refusal: Callable[[str, float | None], Awaitable[Absence | None]],
        unwanted: Callable[[str], Absence | None],
        held_back: Callable[[str], Absence | None],
        is_elsewhere: Callable[[str, str, int], bool],
        is_settled: Callable[[str], bool],
        on_request: Callable[[str, Cursor], None],
        on_made: Callable[[Completion], None],
        on_hidden: Callable[[Hidden], None],
        on_nothing: Callable[[Removal], None],
        hide_below: Callable[[], float],
        pause: Callable[[], float | None],
    ) -> None:
        self._service = service
        self._memory = memory
        self._ahead = ahead
        self._last_requests = last
        self._refusal = refusal
        self._unwanted = unwanted
        self._held_back = held_back
        self._is_elsewhere = is_elsewhere
        self._is_settled = is_settled
        self._on_request = on_request
        self._on_made = on_made
        self._on_hidden = on_hidden
        self._on_nothing = on_nothing
        self._hide_below = hide_below
        self._pause = pause
        self._running: dict[str, _Run] = {}

    async def newest(
        self, uri: str, cursor: Cursor, *, patience: float | None = None, by_hand: bool = False
    ) -> CompletionReply | None:
        """The reply at `cursor`; None if there is none (yet): it could not be made, was superseded, or the
        document is excluded.

        patience: seconds to wait; a later reply is kept for the next request at the same place.
        by_hand: the user has asked for it, so that only an excluded document is a reason to refuse.
        """
        self._last_requests.asked(uri, cursor)
        try:
            reply = await self._newest(uri, cursor, patience, by_hand)
        except asyncio.CancelledError:
            self._last_requests.cancelled(uri, cursor)
            raise
        if reply is not None and reply.completion is not None:
            self._last_requests.concluded(uri, cursor, None)
        return reply

    async def _newest(
        self, uri: str, cursor: Cursor, patience: float | None, by_hand: bool
    ) -> CompletionReply | None:
        refusal = await self._refusal(uri, patience)
        if refusal is not None:
            self._last_requests.concluded(uri, cursor, refusal)
            return None
        self._on_request(uri, cursor)
        if not by_hand and (unwanted := self._unwanted(uri)):
            return self._nothing(uri, cursor, unwanted)
        run = self._running.get(uri)
        # One that is being cancelled may take a moment to end, and has no answer.
        if run is None or run.cursor != cursor or run.task.done() or run.task.cancelling():
            if (kept := self._recall(uri, cursor, by_hand)) is not None:
                self._stop(uri, cursor)
                self._ahead.look_ahead(uri, cursor)
                return kept
            if not by_hand and (held_back := self._held_back(uri)):
                return self._nothing(uri, cursor, held_back)
            run = self._start(uri, cursor)
        if by_hand:
            run.before.hurry.set()
        if patience is None:
            await self._wait(run)
        else:
            await asyncio.wait(run.ends, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not (run.task.done() or run.superseded.done()):
                self._last_requests.concluded(uri, cursor, TOO_SLOW)
        if run.superseded.done() or not run.task.done() or run.task.cancelled():
            return None
        return run.task.result()

    def remember(self, uri: str, alternatives: Iterable[Completion]) -> None:
        """Keep alternatives for the requests that come while they are typed."""
        for one in alternatives:
            self._memory.remember(uri, one.cursor, one)

    def forget_replies(self) -> None:
        """Drop the remembered replies: they were assessed by another calibrator or policy.

        Requests under way continue: they are assessed when the model has replied.
        """
        self._memory.clear()

    def forget(self, uri: str) -> None:
        """Drop everything about a document, and stop the work for it."""
        self._stop(uri)
        self._ahead.forget(uri)
        self._memory.forget(uri)
        self._last_requests.forget(uri)
        self._service.forget(uri)

    def stop(self, why: Absence) -> None:
        """Stop the work for all documents; what is remembered of them stays."""
        for uri, run in list(self._running.items()):
            self._last_requests.cancelled(uri, run.cursor, why)
            self._stop(uri)
        self._ahead.stop()

    async def close(self) -> None:
        tasks = [run.task for run in self._running.values()]
        tasks += [run.before.task for run in self._running.values() if run.before.task is not None]
        for uri in list(self._running):
            self.forget(uri)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._ahead.close()

    def _recall(self, uri: str, cursor: Cursor, by_hand: bool) -> CompletionReply | None:
        """The reply that is known without the model."""
        known = self._memory.recall(uri, cursor)
        if known is None:
            return None
        if not isinstance(known, Completion):
            # Asking the model again would give what was hidden another chance to be shown.
            self._last_requests.concluded(uri, cursor, self._absence(known))
            return CompletionReply(None)
        # The rest of an alternative is no first suggestion, beside which others could stand.
        if by_hand and known.suggestion.rank > 1:
            return None
        # The same lines may stand in two places. A prediction has one line, and one label.
        if self._is_elsewhere(uri, known.suggestion.id, cursor.line):
            return None
        if self._is_settled(known.suggestion.id):
            known = self._anew(uri, known)
        return CompletionReply(known)

    def _anew(self, uri: str, settled: Completion) -> Completion:
        """The same answer as another suggestion. What becomes of it now changes no label that was given, and
        gets one of its own, as if the model had been asked again."""
        suggestion = attrs.evolve(settled.suggestion, id=new_suggestion_id())
        completion = attrs.evolve(settled, suggestion=suggestion)
        self._memory.remember(uri, settled.cursor, completion)
        return completion

    def _absence(self, outcome: Hidden | Nothing) -> Absence:
        if isinstance(outcome, Hidden):
            return hidden(outcome, self._hide_below())
        return nothing(outcome.removal)

    def _nothing(self, uri: str, cursor: Cursor, absence: Absence) -> CompletionReply:
        self._stop(uri, cursor)
        self._last_requests.concluded(uri, cursor, absence)
        return CompletionReply(None)

    def _stop(self, uri: str, cursor: Cursor | None = None) -> None:
        """Cancel the completion in the making. cursor: the place of the new request, if there is one."""
        run = self._running.pop(uri, None)
        if run is not None:
            if run.cursor != cursor:
                run.supersede()
            run.cancel()

    def _start(self, uri: str, cursor: Cursor) -> _Run:
        """Begin a completion. An earlier one goes on for a moment, but its requests are answered now."""
        earlier = self._running.pop(uri, None)
        before = _Before()
        if earlier is not None and earlier.cursor != cursor:
            earlier.supersede()
        if earlier is not None and not earlier.task.done():
            before.task = earlier.task
            if not earlier.before.over:
                earlier.task.cancel()
                before.task = earlier.before.task
        task = asyncio.create_task(self._complete(uri, cursor, before))
        run = self._running[uri] = _Run(cursor, before, task, asyncio.get_running_loop().create_future())
        return run

    async def _wait(self, run: _Run) -> None:
        """Wait for a reply. Cancelling the last waiter cancels the task."""
        run.waiting += 1
        try:
            await asyncio.wait(run.ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            run.waiting -= 1
            # A superseded run belongs to its successor.
            if not run.waiting and not run.superseded.done():
                run.cancel()

    async def _complete(self, uri: str, cursor: Cursor, before: _Before) -> CompletionReply | None:
        kept = await self._after_pause(uri, cursor, before)
        before.over = True
        if kept is not None:
            return kept
        self._ahead.give_way()
        below = self._hide_below()
        try:
            outcome = await self._service.complete(cursor, document=uri, hide_below=below)
        except RequestCancelledError:
            self._last_requests.cancelled(uri, cursor)
            return None
        except LspCalibError as error:
            # The engine reports failures to the user through its state; this request is answered with null.
            logger.warning("No completion: %s", error)
            self._last_requests.concluded(uri, cursor, failed(error))
            return None
        self._ahead.look_ahead(uri, cursor)
        return self._made(uri, cursor, outcome, below)

    async def _after_pause(self, uri: str, cursor: Cursor, before: _Before) -> CompletionReply | None:
        """Wait before the model is asked; the reply if it need not be asked any more."""
        pause = self._pause()
        ends: set[asyncio.Future[Any]] = set() if before.task is None else {before.task}
        if pause is None:
            pause = BUSY_PAUSE if ends else 0.0
        if pause and not before.hurry.is_set():
            hurry = asyncio.ensure_future(before.hurry.wait())
            try:
                await asyncio.wait({hurry, *ends}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            finally:
                hurry.cancel()
        if before.task is None:
            return None
        before.cancel()
        before.task = None
        return self._recall(uri, cursor, before.hurry.is_set())

    def _made(self, uri: str, cursor: Cursor, outcome: Outcome, below: float) -> CompletionReply:
        if below == self._hide_below():
            self._memory.remember(uri, cursor, outcome)
        if isinstance(outcome, Completion):
            self._on_made(outcome)
            return CompletionReply(outcome)
        if isinstance(outcome, Hidden):
            self._on_hidden(outcome)
            self._last_requests.concluded(uri, cursor, hidden(outcome, below))
        else:
            self._on_nothing(outcome.removal)
            self._last_requests.concluded(uri, cursor, nothing(outcome.removal))
        return CompletionReply(None)
