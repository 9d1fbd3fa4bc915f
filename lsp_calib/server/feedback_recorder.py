"""The feedback store, kept off the event loop, and the refit that lives on it."""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types

from lsp_calib import home
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion import Completion
from lsp_calib.completion.purpose import line_purpose
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.learning import refit_languages
from lsp_calib.feedback.store import FeedbackStore

if TYPE_CHECKING:
    from lsp_calib.server.session import Session

logger = logging.getLogger(__name__)
_DAY = 86_400.0
T = TypeVar("T")


class Feedback:
    """One thread owns the store: writes keep their order and never hold up a keystroke."""

    def __init__(self, session: Session, judge: ConfidenceEstimator) -> None:
        self._session = session
        self._judge = judge
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="feedback")
        self._store: FeedbackStore | None = None
        self._told: Path | None = None
        self._expires_at = 0.0

    def shown(self, completion: Completion, at: float) -> None:
        """Keep a suggestion that is about to be shown."""
        if not self._kept():
            return
        self._expire_daily()
        self._later(
            lambda store: store.record_shown(
                completion.suggestion,
                model=completion.model,
                prompt_version=completion.prompt_version,
                language=completion.cursor.language,
                logprobs=completion.logprobs,
                at=at,
            )
        )

    def record(self, events: Sequence[Event]) -> None:
        """Keep what the tracker saw."""
        if events and self._kept():
            self._later(lambda store: store.record_events(events))

    async def hint(self, kind: str, suggestion_id: str) -> None:
        """Keep what an editor said of a suggestion; on disk when this returns.

        Raises LspCalibError if it could not be kept.
        """
        if self._kept():
            event = Event(suggestion_id, EventKind(kind), time.time())
            await asyncio.wrap_future(self._submit(lambda store: store.record_events([event])))

    async def refit(self) -> dict[str, Any]:
        """Refit the calibrators of completions on what became of them. Raises LspCalibError."""
        loaded = await self._session.engine.ready()
        purpose = line_purpose(loaded, "python")
        today = datetime.date.today().isoformat()
        refits = await asyncio.wrap_future(
            self._submit(lambda store: refit_languages(store, self._judge.shelf, purpose, today))
        )
        _, result = refits.leading
        if result.calibrator is not None:
            self._session.calibrator_promoted(result.calibrator.ref)
        return refits.to_wire()

    async def close(self) -> None:
        """Write what is still to be written, then close the store."""

        def finish() -> None:
            if self._store is not None:
                self._store.close()

        await asyncio.wrap_future(self._thread.submit(finish))
        self._thread.shutdown()

    def _kept(self) -> bool:
        return self._session.running and self._session.settings.feedback

    def _expire_daily(self) -> None:
        """Forget what is too old: now and then, and in pieces between which others get their turn."""
        now = time.time()
        if now < self._expires_at:
            return
        self._expires_at = now + _DAY
        self._expire(now - self._session.server.trusted.retention_days * _DAY)

    def _expire(self, before: float) -> None:
        loop = asyncio.get_running_loop()

        def work(store: FeedbackStore) -> None:
            if store.expire(before):
                loop.call_soon_threadsafe(self._expire_more, before)

        self._later(work)

    def _expire_more(self, before: float) -> None:
        if self._kept():
            self._expire(before)

    def _later(self, work: Callable[[FeedbackStore], object]) -> None:
        self._submit(work).add_done_callback(partial(self._report_failure, asyncio.get_running_loop()))

    def _submit(self, work: Callable[[FeedbackStore], T]) -> Future[T]:
        loop = asyncio.get_running_loop()

        def run() -> T:
            if self._store is None:
                self._store = FeedbackStore(home.home() / "feedback.db")
            try:
                return work(self._store)
            finally:
                self._tell_damage(loop, self._store)

        return self._thread.submit(run)

    def _tell_damage(self, loop: asyncio.AbstractEventLoop, store: FeedbackStore) -> None:
        aside = store.moved_aside
        if aside is not None and aside != self._told:
            self._told = aside
            damaged = f"{store.path} was damaged. It was moved to {aside}"
            self._warn(loop, f"{damaged} as it was, and a fresh one begun.")

    def _report_failure(self, loop: asyncio.AbstractEventLoop, future: Future[object]) -> None:
        error = future.exception()
        if isinstance(error, LspCalibError):
            logger.error("Feedback could not be kept: %s", error)
            self._warn(loop, f"What becomes of suggestions cannot be kept: {error}")
        elif error is not None:
            logger.error("Feedback could not be kept.", exc_info=error)

    def _warn(self, loop: asyncio.AbstractEventLoop, message: str) -> None:
        """Tell the user, once; from the store's thread."""
        loop.call_soon_threadsafe(self._session.say, message, types.MessageType.Warning)
