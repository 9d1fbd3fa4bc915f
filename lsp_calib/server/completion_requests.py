"""Asking the services on behalf of an editor: the newest request wins, nobody asks twice for one thing."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Literal

import attrs

from lsp_calib.completion import Completion, CompletionService, Cursor
from lsp_calib.completion.memory import continued
from lsp_calib.errors import LspCalibError, RequestCancelledError
from lsp_calib.summarization import SummaryService
from lsp_calib.syntax import Function
from lsp_calib.values import Prompt, Suggestion

if TYPE_CHECKING:
    from lsp_calib.server.session import Session

logger = logging.getLogger(__name__)

_SUMMARIES_KEPT = 200
# Seconds after an answer until the model goes ahead.
AHEAD_PAUSE = 0.05


@attrs.frozen
class Answer:
    """What the model said; `completion` is None if it had nothing to offer."""

    completion: Completion | None


@attrs.define
class _Run:
    """A completion being made. waiting: requests that wait for it without a limit.
    superseded: by a request elsewhere in the document; an answer that is just ready is not given any more."""

    cursor: Cursor
    task: asyncio.Task[Answer | None]
    waiting: int = 0
    superseded: bool = False


class Completions:
    """Completions by document. A request supersedes the one before it in the same document."""

    def __init__(self, session: Session, service: CompletionService) -> None:
        self._session = session
        self._service = service
        self._running: dict[str, _Run] = {}
        self._last: dict[str, Completion] = {}
        self._ahead: dict[str, tuple[Prompt, asyncio.Task[None]]] = {}

    async def newest(self, uri: str, cursor: Cursor, *, patience: float | None = None) -> Answer | None:
        """The answer at `cursor`; None if there is none (yet): it could not be made, was superseded, or the
        document is left alone.

        patience: seconds to wait; what comes later is kept for the next request at the same place.
        """
        if await self._session.excluded(uri, patience) or not self._session.running:
            return None
        self._session.notice_calibrators()
        self._session.documents.requested(uri, cursor)
        last = self._last.get(uri)
        if last is not None and (kept := continued(last, cursor)) is not None:
            self._stop(uri, cursor)
            self._look_ahead(uri, cursor)
            return Answer(kept)
        run = self._running.get(uri)
        if run is None or run.cursor != cursor or run.task.done():
            self._stop(uri, cursor)
            run = self._running[uri] = _Run(cursor, asyncio.create_task(self._complete(uri, cursor)))
        if patience is None:
            await self._wait(run)
        else:
            await asyncio.wait({run.task}, timeout=patience)
        if run.superseded or not run.task.done() or run.task.cancelled():
            return None
        return run.task.result()

    def forget_answers(self) -> None:
        """What was said holds no longer. Requests under way go on: they are judged when they are answered."""
        self._last.clear()

    def forget(self, uri: str) -> None:
        """The document is gone: so is the interest in it."""
        self._stop(uri)
        self._last.pop(uri, None)
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
        """End what is being made for a document. cursor: where it is asked for now, if it is."""
        run = self._running.pop(uri, None)
        if run is not None:
            run.superseded = run.cursor != cursor
            run.task.cancel()

    async def _wait(self, run: _Run) -> None:
        """Wait for an answer; who cancels the last request for it stops the work."""
        run.waiting += 1
        try:
            await asyncio.wait({run.task})
        finally:
            run.waiting -= 1
            if not run.waiting:
                run.task.cancel()

    async def _complete(self, uri: str, cursor: Cursor) -> Answer | None:
        try:
            completion = await self._service.complete(cursor, document=uri)
        except RequestCancelledError:
            return None
        except LspCalibError as error:
            # The session has told the user what has to be told; a request is answered with null.
            logger.warning("No completion: %s", error)
            return None
        if completion is not None:
            self._last[uri] = completion
            self._session.status.made(completion.suggestion)
        self._look_ahead(uri, cursor)
        return Answer(completion)

    def _look_ahead(self, uri: str, cursor: Cursor) -> None:
        """Have evaluated what will soon be asked about, while the user reads and thinks."""
        prompt = self._service.ahead(cursor) if self._session.settings.ahead else None
        known, task = self._ahead.get(uri, (None, None))
        if prompt == known:
            return
        if task is not None:
            task.cancel()  # what it has evaluated stays, and another one goes on from there
            del self._ahead[uri]
        if prompt is not None:
            self._ahead[uri] = prompt, asyncio.create_task(self._prepare(prompt))

    async def _prepare(self, prompt: Prompt) -> None:
        # The answer goes out first; and who types on is not to be interrupted for nothing.
        await asyncio.sleep(AHEAD_PAUSE)
        try:
            await self._service.prepare(prompt)
        except LspCalibError as error:
            logger.debug("Not evaluated ahead: %s", error)


class Summaries:
    """Summaries by the code they describe."""

    def __init__(self, session: Session, service: SummaryService) -> None:
        self._session = session
        self._service = service
        self._known: OrderedDict[bytes, Suggestion] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[Suggestion | None]] = {}

    async def of(
        self, uri: str, function: Function, language: str, *, patience: float
    ) -> Suggestion | Literal["pending"] | None:
        """The summary of a function; "pending" if it is still being made after `patience` seconds.

        None if it could not be made, or its document is left alone.
        """
        if await self._session.excluded(uri) or not self._session.running:
            return None
        self._session.notice_calibrators()
        key = _key(function, language)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._summarize(key, function, language))
        # The editor may cancel the hover at a twitch of the mouse; the summary is wanted all the same.
        await asyncio.wait({task}, timeout=patience)
        if not task.done():
            return "pending"
        return None if task.cancelled() else task.result()

    def forget(self) -> None:
        """A calibrator or a model has changed: what was said holds no longer."""
        self._known.clear()

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _summarize(self, key: bytes, function: Function, language: str) -> Suggestion | None:
        try:
            summary = await self._service.summarize(function, language)
        except LspCalibError as error:
            logger.warning("No summary: %s", error)
            return None
        finally:
            self._running.pop(key, None)
        if summary is None:
            return None
        self._session.status.made(summary.suggestion)
        self._known[key] = summary.suggestion
        if len(self._known) > _SUMMARIES_KEPT:
            self._known.popitem(last=False)
        return summary.suggestion


def _key(function: Function, language: str) -> bytes:
    """A name for code, much shorter than it: the document may be closed, and summaries are kept."""
    return hashlib.sha256(f"{language}\0{function.code}".encode("utf-8", "surrogatepass")).digest()
