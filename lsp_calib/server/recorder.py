"""The feedback store on a thread of its own: records events and refits on their labels."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import attrs
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Wanted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose, Task
from lsp_calib.completion.reasons import Removal
from lsp_calib.completion.service import Completion
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.removal import believed
from lsp_calib.feedback.report import PAGE, FeedbackReport, Latency, make_report
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.report.page import write_page
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.messages import Connection, UserMessages
from lsp_calib.summarization.service import Summary
from lsp_calib.values import Evidence, Suggestion, new_suggestion_id
from lsp_calib.workspace_files import folder_of

logger = logging.getLogger(__name__)
_DAY = 86_400.0
T = TypeVar("T")


class Recorder:
    """Owns the thread of the feedback store: writes keep their order and never delay a keystroke.

    It keeps nothing while the settings turn feedback off, or once it is stopped. The store is opened on that
    thread when it is first needed, which may raise LspCalibError.
    """

    def __init__(self, connection: Connection, messages: UserMessages) -> None:
        self._connection = connection
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="feedback")
        self._store: FeedbackStore | None = None
        self._reported_damage: Path | None = None
        self._expires_at = 0.0
        self._stopped = self._closed = False

    def _enabled(self) -> bool:
        return self._connection.settings.feedback and not self._stopped

    def stop(self) -> None:
        """Keep nothing new."""
        self._stopped = True

    def shown(
        self, document: CalibDocument, completion: Completion, at: float, events: Sequence[Event]
    ) -> None:
        """Keep a suggestion that is shown for the first time. at: Unix seconds. events: that it is, and what
        this means for others."""
        if time.time() >= self._expires_at:
            self._expire_daily()
        self._record(
            *(document, completion, completion.expected_line, at),
            shown_probability=completion.shown_probability,
            typed=completion.typed,
            was_hidden=completion.was_hidden,
            as_first=completion.stands_behind,
            events=events,
        )

    def summary_shown(self, document: CalibDocument, summary: Summary, line: str, at: float) -> None:
        """Keep a summary that was put into a document or reported.

        line: the first of its lines in the document; "": none.
        """
        self._expire_daily()
        self._record(document, summary, line, at)

    def edit_shown(
        self,
        document: CalibDocument,
        suggestion: Suggestion,
        purpose: Purpose,
        evidence: Evidence,
        line: str,
        at: float,
    ) -> None:
        """Keep an edit that is shown for the first time. line: with it. purpose: of its calibrator."""
        self._expire_daily()
        shown = [Event(suggestion.id, EventKind.SHOWN, at)]
        self._keep(document, suggestion, purpose, evidence=evidence, at=at, line=line, events=shown)

    def _record(
        self, document: CalibDocument, made: Completion | Summary, line: str, at: float, **more: Any
    ) -> None:
        """Keep what was made for a document."""
        language = made.language if isinstance(made, Summary) else made.cursor.language
        task: Task = "summary" if isinstance(made, Summary) else "line"
        purpose = Purpose(made.model, made.prompt_version, task, language)
        self._keep(document, made.suggestion, purpose, evidence=made.evidence, at=at, line=line, **more)

    def _keep(self, document: CalibDocument, suggestion: Suggestion, purpose: Purpose, **more: Any) -> None:
        """more: as `FeedbackStore.record_shown` has it."""
        if not self._enabled():
            return
        workspace = folder_of(document.file, tuple(self._connection.workspace.folders))
        self._in_background(
            lambda store: store.record_shown(
                suggestion,
                model=purpose.model,
                prompt_version=purpose.prompt_version,
                language=purpose.language,
                workspace=workspace,
                **more,
            )
        )

    def record(self, events: Sequence[Event]) -> None:
        """Keep the events of suggestions."""
        if events and self._enabled():
            self._in_background(lambda store: store.record_events(events))

    def withheld(self, removal: Removal) -> None:
        """Count an answer of which nothing could be offered."""
        kind, data = EventKind.WITHHELD, {removal.value: 1}
        self.record([Event(new_suggestion_id(), kind, time.time(), data)])

    def cut(self, completion: Completion) -> None:
        """Count the reasons why the end of an answer was not offered."""
        now, identity = time.time(), completion.suggestion.id
        self.record([Event(identity, EventKind.CUT, now, {cut.value: 1}) for cut in completion.cuts])

    async def hint(self, kind: str, suggestion_id: str) -> None:
        """Keep the hint of an editor that a suggestion was accepted or rejected; on disk when this returns.

        Raises LspCalibError if it could not be kept.
        """
        if self._enabled():
            event = Event(suggestion_id, EventKind(kind), time.time())
            await self.run(lambda store: store.record_events([event]))

    async def finish(self) -> None:
        """Wait until everything before is on disk, or has failed."""
        if self._enabled():
            await self.run(lambda _: None)

    async def run(self, work: Callable[[FeedbackStore], T]) -> T:
        """What becomes of work on the store, on its thread, after all that was recorded so far. Raises
        LspCalibError."""
        return await asyncio.wrap_future(self._submit(work))

    async def learn(self, work: Callable[[FeedbackStore], T]) -> T | None:
        """As `run`; None where no feedback is kept."""
        return await self.run(work) if self._enabled() else None

    async def report(
        self, calibrators: CalibratorStore, measure: Wanted, latency: Latency | None
    ) -> FeedbackReport:
        """The report on everything that was recorded so far. Raises LspCalibError.

        It is read over a connection of its own: a large store takes a while, and records must not wait for
        that.
        """
        await self.run(lambda _: None)

        def work() -> FeedbackReport:
            store = FeedbackStore(home.feedback_file())
            try:
                now = time.time()
                return make_report(store, calibrators, now, measure, latency)
            finally:
                store.close()

        return await asyncio.to_thread(work)

    async def close(self) -> None:
        """Finish the writes that are pending, then close the store."""
        self._closed = True

        def finish() -> None:
            if self._store is not None:
                self._store.close()

        await asyncio.wrap_future(self._thread.submit(finish))
        self._thread.shutdown()

    def _expire_daily(self) -> None:
        """Delete old records, once a day, in small pieces so that other writes get their turn in between.

        Also while no feedback is kept, if there is some.
        """
        now = time.time()
        if now < self._expires_at:
            return
        self._expires_at = now + _DAY
        if not (self._enabled() or home.feedback_file().exists()):
            return
        kept = self._connection.settings.retention_days * _DAY
        self._in_background(lambda store: self._expire(store, believed(store, now) - kept))

    def _expire(self, store: FeedbackStore, before: float) -> None:
        """On the store's thread."""
        if store.expire(before):
            self._loop.call_soon_threadsafe(self._expire_more, before)

    def _expire_more(self, before: float) -> None:
        if not self._closed:
            self._in_background(lambda store: self._expire(store, before))

    def _in_background(self, work: Callable[[FeedbackStore], object]) -> None:
        self._submit(work).add_done_callback(self._report_failure)

    def _submit(self, work: Callable[[FeedbackStore], T]) -> Future[T]:
        def run() -> T:
            if self._store is None:
                self._store = FeedbackStore(home.feedback_file())
                self._store.settle_left(time.time())
            try:
                return work(self._store)
            finally:
                self._report_damage(self._store)

        return self._thread.submit(run)

    def _report_damage(self, store: FeedbackStore) -> None:
        aside = store.moved_aside
        if aside is not None and aside != self._reported_damage:
            self._reported_damage = aside
            moved = f"{store.path} was damaged. It was moved, unchanged, to {aside}"
            self._warn(f"{moved}, and a new store was started.")

    def _report_failure(self, future: Future[object]) -> None:
        error = future.exception()
        if isinstance(error, LspCalibError):
            logger.error("Feedback could not be stored: %s", error)
            self._warn(f"Feedback on suggestions cannot be stored: {error}")
        elif error is not None:
            logger.error("Feedback could not be stored.", exc_info=error)

    def _warn(self, message: str) -> None:
        """Warn the user, from the store's thread."""
        self._loop.call_soon_threadsafe(self._messages.warn, message)


@attrs.define(eq=False, repr=False, slots=False)
class ReportPage:
    """Writes the report as a page, and has the client open it.

    latency: of the last answers. folder: the state folder.
    """

    _connection: Connection
    _estimator: ConfidenceEstimator
    _recorder: Recorder
    _messages: UserMessages
    _latency: Callable[[], Latency | None]
    _folder: Path
    _opening: asyncio.Task[None] | None = attrs.field(default=None, init=False)

    async def show(self) -> str:
        """Write the page on what was recorded so far, and return its path; it is opened meanwhile.

        Raises LspCalibError if it cannot be written.
        """
        estimator, path = self._estimator, self._folder / PAGE
        report = await self._recorder.report(estimator.store, estimator.measure, self._latency())
        await asyncio.to_thread(write_page, report, path)
        self.stop()
        self._opening = asyncio.create_task(self._open(path))
        return str(path)

    def stop(self) -> None:
        """Wait no longer for the client to open a page."""
        if self._opening is not None:
            self._opening.cancel()

    async def _open(self, path: Path) -> None:
        if get_capability(self._connection.client_capabilities, "window.show_document.support"):
            page = types.ShowDocumentParams(uri=path.as_uri(), external=True, take_focus=True)
            try:
                if (await self._connection.window_show_document_async(page)).success:
                    return
            except JsonRpcException as error:
                logger.warning("The client cannot open the report: %s", error)
        self._messages.inform(f"The report is {path}. Open it in a browser.")
