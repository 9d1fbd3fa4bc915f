"""Completions for an editor: the newest request wins, and no place is requested twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from lsp_calib.completion import Completion, CompletionService, Cursor, Hidden, Nothing, Removal
from lsp_calib.completion.memory import continued
from lsp_calib.errors import LspCalibError, RequestCancelledError
from lsp_calib.server.absence import TOO_SLOW, Absence, failed, hidden, nothing
from lsp_calib.server.last_requests import LastRequests
from lsp_calib.values import Prompt

logger = logging.getLogger(__name__)

# Seconds between a reply and the start of the evaluation ahead.
AHEAD_PAUSE = 0.05


@attrs.frozen
class CompletionReply:
    """The model has replied; `completion` is None if it had nothing to offer, or nothing that is shown."""

    completion: Completion | None


@attrs.define
class _Run:
    """A completion in the making. waiting: requests that wait for it without a time limit.
    superseded: by a request elsewhere in the document; its reply, even if just ready, is not delivered."""

    cursor: Cursor
    task: asyncio.Task[CompletionReply | None]
    waiting: int = 0
    superseded: bool = False


class CompletionRequests:
    """Completions by document. A request supersedes the one before it in the same document.

    last: is told what becomes of each request.
    refusal: why the document with this URI may not be used for a prompt, None if it may. It may wait for the
        settings that decide this, for at most as many seconds as its second argument says.
    on_request: called with the URI and the cursor of each request that is admitted.
    on_made: called with each completion that the service has made.
    on_hidden: called with each completion that is not shown.
    on_nothing: called with the reason each time when nothing of the model's answer can be offered.
    hide_below: the confidence below which completions are hidden now; 0: none is.
    looks_ahead: whether to evaluate the likely next prompt while the user reads.
    """

    def __init__(
        self,
        service: CompletionService,
        *,
        last: LastRequests,
        refusal: Callable[[str, float | None], Awaitable[Absence | None]],
        on_request: Callable[[str, Cursor], None],
        on_made: Callable[[Completion], None],
        on_hidden: Callable[[Hidden], None],
        on_nothing: Callable[[Removal], None],
        hide_below: Callable[[], float],
        looks_ahead: Callable[[], bool],
    ) -> None:
        self._service = service
        self._last_requests = last
        self._refusal = refusal
        self._on_request = on_request
        self._on_made = on_made
        self._on_hidden = on_hidden
        self._on_nothing = on_nothing
        self._hide_below = hide_below
        self._looks_ahead = looks_ahead
        self._running: dict[str, _Run] = {}
        self._last: dict[str, Completion] = {}
        self._hidden_at: dict[str, tuple[Cursor, Absence]] = {}
        self._ahead: dict[str, tuple[Prompt, asyncio.Task[None]]] = {}

    async def newest(
        self, uri: str, cursor: Cursor, *, patience: float | None = None
    ) -> CompletionReply | None:
        """The reply at `cursor`; None if there is none (yet): it could not be made, was superseded, or the
        document is excluded.

        patience: seconds to wait; a later reply is kept for the next request at the same place.
        """
        self._last_requests.asked(uri, cursor)
        try:
            reply = await self._newest(uri, cursor, patience)
        except asyncio.CancelledError:
            self._last_requests.cancelled(uri, cursor)
            raise
        if reply is not None and reply.completion is not None:
            self._last_requests.concluded(uri, cursor, None)
        return reply

    async def _newest(self, uri: str, cursor: Cursor, patience: float | None) -> CompletionReply | None:
        refusal = await self._refusal(uri, patience)
        if refusal is not None:
            self._last_requests.concluded(uri, cursor, refusal)
            return None
        self._on_request(uri, cursor)
        last = self._last.get(uri)
        if last is not None and (kept := continued(last, cursor)) is not None:
            self._stop(uri, cursor)
            self._look_ahead(uri, cursor)
            return CompletionReply(kept)
        hidden_at, absence = self._hidden_at.get(uri, (None, None))
        if hidden_at == cursor:
            # Asking the model again would give what was hidden another chance to be shown.
            self._stop(uri, cursor)
            self._last_requests.concluded(uri, cursor, absence)
            return CompletionReply(None)
        run = self._running.get(uri)
        if run is None or run.cursor != cursor or run.task.done():
            self._stop(uri, cursor)
            run = self._running[uri] = _Run(cursor, asyncio.create_task(self._complete(uri, cursor)))
        if patience is None:
            await self._wait(run)
        else:
            _, late = await asyncio.wait({run.task}, timeout=patience)
            if late:
                self._last_requests.concluded(uri, cursor, TOO_SLOW)
        if run.superseded or not run.task.done() or run.task.cancelled():
            return None
        return run.task.result()

    def forget_replies(self) -> None:
        """Drop the remembered replies: they were assessed by another calibrator or policy.

        Requests under way continue: they are assessed when the model has replied.
        """
        self._last.clear()
        self._hidden_at.clear()

    def forget(self, uri: str) -> None:
        """Drop everything about a document, and stop the work for it."""
        self._stop(uri)
        self._last.pop(uri, None)
        self._hidden_at.pop(uri, None)
        self._last_requests.forget(uri)
        self._service.forget(uri)
        _, ahead = self._ahead.pop(uri, (None, None))
        if ahead is not None:
            ahead.cancel()

    async def close(self) -> None:
        tasks: list[asyncio.Task[Any]] = [run.task for run in self._running.values()]
        tasks += [task for _, task in self._ahead.values()]
        for uri in [*self._running, *self._ahead]:
            self.forget(uri)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _stop(self, uri: str, cursor: Cursor | None = None) -> None:
        """Cancel the completion in the making. cursor: the place of the new request, if there is one."""
        run = self._running.pop(uri, None)
        if run is not None:
            run.superseded = run.cursor != cursor
            run.task.cancel()

    async def _wait(self, run: _Run) -> None:
        """Wait for a reply. Cancelling the last waiter cancels the task."""
        run.waiting += 1
        try:
            await asyncio.wait({run.task})
        finally:
            run.waiting -= 1
            if not run.waiting:
                run.task.cancel()

    async def _complete(self, uri: str, cursor: Cursor) -> CompletionReply | None:
        below = self._hide_below()
        try:
            completion = await self._service.complete(cursor, document=uri, hide_below=below)
        except RequestCancelledError:
            self._last_requests.cancelled(uri, cursor)
            return None
        except LspCalibError as error:
            # The engine reports failures to the user through its state; this request is answered with null.
            logger.warning("No completion: %s", error)
            self._last_requests.concluded(uri, cursor, failed(error))
            return None
        self._look_ahead(uri, cursor)
        self._hidden_at.pop(uri, None)
        if isinstance(completion, Hidden):
            absence = hidden(completion, below)
            self._hidden_at[uri] = cursor, absence
            self._on_hidden(completion)
            self._last_requests.concluded(uri, cursor, absence)
            return CompletionReply(None)
        if isinstance(completion, Nothing):
            self._on_nothing(completion.removal)
            self._last_requests.concluded(uri, cursor, nothing(completion.removal))
            return CompletionReply(None)
        self._last[uri] = completion
        self._on_made(completion)
        return CompletionReply(completion)

    def _look_ahead(self, uri: str, cursor: Cursor) -> None:
        """Evaluate the likely beginning of the next prompt while the user reads and thinks."""
        prompt = self._service.ahead(cursor) if self._looks_ahead() else None
        known, task = self._ahead.get(uri, (None, None))
        if prompt == known:
            return
        if task is not None:
            task.cancel()  # the engine keeps the evaluated tokens, and the next prompt continues from there
            del self._ahead[uri]
        if prompt is not None:
            self._ahead[uri] = prompt, asyncio.create_task(self._prepare(prompt))

    async def _prepare(self, prompt: Prompt) -> None:
        # The reply goes out first; and a user who keeps typing would cancel the evaluation at once.
        await asyncio.sleep(AHEAD_PAUSE)
        try:
            await self._service.prepare(prompt)
        except LspCalibError as error:
            logger.debug("Not evaluated ahead: %s", error)
