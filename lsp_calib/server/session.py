"""The services of one connection, wired together."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from lsprotocol import types

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion import Cursor
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.replay import Replay
from lsp_calib.feedback.workspace import folder_of
from lsp_calib.inference.engine import EngineState, Lingering
from lsp_calib.server.absence import OFF, SELECTED_ITEM, Absence, excluded, paused
from lsp_calib.server.admission import Admission
from lsp_calib.server.bulk_changes import BulkChanges
from lsp_calib.server.completions import Completions
from lsp_calib.server.connection import Connection
from lsp_calib.server.convert import language_of
from lsp_calib.server.diagnostics import Diagnostics
from lsp_calib.server.example_index import ExampleIndex
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.hiding_notice import HidingNotice
from lsp_calib.server.last_requests import LastRequests
from lsp_calib.server.learning import Learning
from lsp_calib.server.line_replay import LineReplay, Replayed
from lsp_calib.server.progress import LoadProgress
from lsp_calib.server.protocol import has_inline_completion, pulls_diagnostics
from lsp_calib.server.report_page import ReportPage
from lsp_calib.server.status import Status
from lsp_calib.server.suggestion_lifecycle import SuggestionLifecycle
from lsp_calib.server.summaries import Summaries
from lsp_calib.server.user_messages import UserMessages
from lsp_calib.server.user_requests import UserRequests
from lsp_calib.server.workspace_calibration import CalibrationWish, WorkspaceCalibration
from lsp_calib.settings.tiers import tier_policy
from lsp_calib.values import CalibratorRef

logger = logging.getLogger(__name__)


class Session:
    """The services that the features call. Created after the answer to `initialize`: imports are slow."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._running = True
        self._loading: asyncio.Task[None] | None = None
        self._messages = UserMessages(connection.window_show_message)
        window = connection.client_capabilities.window
        shows_progress = window is not None and window.work_done_progress
        work_done = connection.work_done_progress if shows_progress else None
        self._progress = LoadProgress(work_done)
        self._calibration = WorkspaceCalibration(work_done)
        calibrators = CalibratorStore.open()
        self._estimator = ConfidenceEstimator(
            calibrators,
            tier_policy(connection.trusted, connection.settings)[0],
            self._calibrator_changed,
            measure=connection.settings.measure,
        )
        self._admission = Admission(connection, self._pause_changed)
        self.pause = self._admission.pause
        self.line_replay = LineReplay(
            document=connection.open_document,
            wanted=lambda: self._admission.replays,
            goes=self._may_replay,
            complete=lambda uri, cursor: self.completions.replay(uri, cursor),
            on_label=self._replayed,
        )
        self.status = Status(self._estimator.note_on, self._estimator.certificate, self.line_replay.to_wire)
        self.engine = connection.make_engine(self._engine_state)
        self._recorder = FeedbackRecorder(
            lambda: home.home() / "feedback.db",
            enabled=lambda: self._running and connection.settings.feedback,
            workspace_of=lambda uri: folder_of(uri, connection.workspace.folders),
            retention_days=connection.trusted.retention_days,
            warn=self._messages.warn,
        )
        self._last_requests = LastRequests()
        self.suggestions = SuggestionLifecycle(
            self._recorder,
            calibrators,
            lines=self._lines,
            purpose=lambda: self.completions.purpose("python"),
            on_requested=self._estimator.notice,
            on_shown=self.status.shown,
            on_outdated=self._last_requests.outdated,
            on_marks_changed=lambda uri: self.diagnostics.refresh(uri),
            on_refitted=self._refitted,
            on_inserted=lambda uri, line: self.completions.inserted(uri, line),
            on_labelled=lambda n: self._after_labels.labelled(n),
            on_place=self.line_replay.shown,
            promise=lambda: self._estimator.promise,
        )
        self._learning = Learning(
            connection,
            self._estimator,
            self._recorder,
            refit=self.suggestions.refit_where_due,
            purpose=lambda language: self.completions.purpose(language),
            language=lambda: self._languages()[-1],
            calibrate=self.calibrate_workspace,
            log=self._log,
            warn=self._messages.warn,
        )
        self._after_labels = self._learning.after_labels
        self.bulk_changes = BulkChanges()
        self.completions = Completions(
            connection,
            self.engine,
            self._estimator,
            admission=self._admission,
            last=self._last_requests,
            bulk_changes=self.bulk_changes,
            status=self.status,
            recorder=self._recorder,
            is_elsewhere=self.suggestions.tracking.is_elsewhere,
            is_settled=self.suggestions.tracking.is_settled,
            on_request=self._requested,
        )
        self._examples = ExampleIndex(
            lambda uri: folder_of(uri, connection.workspace.folders),
            self._admission.exclusion,
            local=lambda: connection.trusted.remote_url is None,
            allowed=self._admission.may_work_ahead,
            busy=lambda: self.summaries.requests.is_busy,
        )
        self.summaries = Summaries(
            connection,
            self.engine,
            self._estimator,
            admission=self._admission,
            status=self.status,
            tracking=self.suggestions.tracking,
            recorder=self._recorder,
            work_done=work_done,
            examples_for=self._examples.examples_for,
            on_request=self._summary_requested,
            on_labelled=lambda n: self._after_labels.labelled(n),
        )
        self.diagnostics = _diagnostics(connection, self.suggestions)
        self._hiding = HidingNotice(self._replay, self._messages.inform, home.home() / "hide-below")
        self._report_page = ReportPage(connection, self._messages.inform, home.home())
        self.user_requests = UserRequests(
            estimator=self._estimator,
            recorder=self._recorder,
            status=self.status,
            last=self._last_requests,
            report_page=self._report_page,
            settings_are_known=lambda: self._admission.settings_are_known,
            can_ask_by_hand=lambda: has_inline_completion(connection.client_capabilities),
            purpose=lambda: self.completions.purpose(self._languages()[-1]),
            on_refitted=self._refitted,
        )

    def start(self) -> None:
        """Report faults in the settings and load the model, in the background."""
        self._admission.settings_known()
        self._apply_settings()
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())

    def settings_changed(self) -> None:
        if not self._running:
            return
        self._apply_settings()
        for uri in self.suggestions.tracking.marked():
            self.diagnostics.refresh(uri)

    def document_opened(self, uri: str) -> None:
        # Some editors open a document twice: drop the data of the first time, but follow what was suggested.
        self.completions.forget(uri)
        self.completions.note_menu_off(uri)
        self._examples_changed(uri)
        self.bulk_changes.forget(uri)
        self.suggestions.tracking.opened(uri)
        self.summaries.ahead.at(uri, 0)
        self.line_replay.opened(uri)

    def document_changed(self, uri: str) -> None:
        document = self._connection.open_document(uri)
        if document is not None:
            changes = document.take_changes()
            self.line_replay.changed(uri, document, changes, self.bulk_changes.changed(uri, changes))
        self._examples_changed(uri)
        self.suggestions.tracking.changed(uri)
        if document is not None:
            self.summaries.document_changed(uri, document.bare_lines)
        self._after_labels.active()

    def document_closed(self, uri: str) -> None:
        self.completions.forget(uri)
        self.bulk_changes.forget(uri)
        self.summaries.document_closed(uri)
        self.suggestions.tracking.closed(uri)
        self._examples.closed(uri)
        self.line_replay.closed(uri)

    def inline_completion_is_off(self, uri: str) -> None:
        """Inline completion was requested in this document although the settings turn it off."""
        self._last_requests.refused(uri, OFF)

    def nothing_extends_the_selected_item(self, uri: str) -> None:
        """The item selected in the completion menu is none that a suggestion can go on from."""
        self._last_requests.refused(uri, SELECTED_ITEM)

    async def calibrate_workspace(self, wish: CalibrationWish) -> dict[str, Any]:
        """Calibrate on a workspace folder; returns the result as it goes to the client. Raises
        LspCalibError."""
        result = await self._calibration.run(wish)
        self._estimator.notice()
        self._messages.inform(result["sentence"])
        return result

    async def refusal(self, uri: str) -> Absence | None:
        """Why the model may not see a document, None if it may."""
        return await self._admission.refusal(uri)

    async def admits(self, uri: str) -> bool:
        """Whether the model may see a document."""
        return await self._admission.admits(uri)

    def inform(self, message: str) -> None:
        """Show the user a message."""
        self._messages.inform(message)

    async def restart_model(self) -> None:
        """Restart the engine and load the model again. Raises LspCalibError."""
        await self.engine.restart()
        self._messages.forget()
        self._loading = asyncio.create_task(self._load())

    async def close(self) -> None:
        """Settle and store the suggestions and release the model. Closing again does nothing."""
        if not self._running:
            return
        self.suggestions.settle([document.uri for document in self._connection.open_documents()])
        self._running = False
        self._messages.stop()
        self._learning.stop()
        self._hiding.stop()
        self._report_page.stop()
        self._admission.stop()
        if self._loading is not None:
            self._loading.cancel()
        await self._calibration.close()
        await self.line_replay.close()
        await self.completions.close()
        await self._admission.close()
        await self.summaries.close()
        await self._examples.close()
        await self.engine.close()
        await self._recorder.close()

    def _examples_changed(self, uri: str) -> None:
        document = self._connection.open_document(uri)
        if document is not None:
            self._examples.changed(document, language_of(document))

    def _pause_changed(self) -> None:
        self.status.pause = self.pause.message
        if self.pause.message:
            self.completions.stop(paused(self.pause.message))
            self.summaries.stop()
            self.line_replay.halt()
        else:
            self.summaries.ahead.resume()
            self.line_replay.resume()
        self._notify_status()

    def _lines(self, uri: str) -> tuple[str, ...] | None:
        document = self._connection.open_document(uri)
        return None if document is None else document.bare_lines

    def _apply_settings(self) -> None:
        """Report faults in the settings, and apply them as they are now."""
        problems, self._connection.problems = self._connection.problems, []
        self._messages.warn_together(problems)
        settings = self._connection.settings
        self._admission.apply_settings()
        if isinstance(self.engine, Lingering):
            # The engine may have been opened before the editor had given its settings.
            self.engine.set_linger(settings.linger_seconds)
        exclusion = self._admission.exclusion()
        for document in self._connection.open_documents():
            if why := exclusion.reason(document.uri):
                asked = self._last_requests.of(document.uri)
                self.completions.forget(document.uri)
                if asked is not None:
                    self._last_requests.refused(document.uri, excluded(why))
        policy, too_loose = tier_policy(self._connection.trusted, settings)
        self._messages.warn_together(too_loose)
        overrides = (*self._connection.trusted.overrides, *settings.overrides)
        now = (policy, settings.measure, overrides)
        if now != (self._estimator.policy, self._estimator.measure, self._estimator.overrides):
            self._estimator.policy, self._estimator.measure, self._estimator.overrides = now
            self._forget_assessments()
            self._after_labels.begin()  # a promise may be wanted now
        self.completions.apply_settings()
        self.summaries.apply_settings()
        self._hiding.apply(settings.hide_below)
        self.line_replay.apply_settings()

    async def _replay(self, below: float) -> Replay:
        purpose = await self.completions.purpose("python")
        estimator = self._estimator
        return await self._recorder.replay(estimator.store, purpose, estimator.measure, below)

    def _refitted(self, ref: CalibratorRef) -> None:
        """A refit or a rollback over this connection has put a calibrator in force."""
        self._estimator.notice()
        if self.status.calibrator != ref:
            self._calibrator_changed(ref)

    def _calibrator_changed(self, ref: CalibratorRef) -> None:
        self.status.calibrator = ref
        self._forget_assessments()
        self._report_complaints()
        self._notify_status()

    def _log(self, sentence: str) -> None:
        """A line in the editor's log; no message that interrupts."""
        logger.info("%s", sentence)
        if self._running:
            self._connection.window_log_message(types.LogMessageParams(types.MessageType.Info, sentence))

    def _forget_assessments(self) -> None:
        """The confidence or the tier of what is remembered is out of date: drop or renew it."""
        self.summaries.requests.assess_again()
        self.completions.forget_replies()

    def _requested(self, uri: str, cursor: Cursor) -> None:
        self.suggestions.requested(uri, cursor)
        self.summaries.ahead.at(uri, cursor.line)
        self.line_replay.requested(uri, cursor.line)
        self._after_labels.active()

    def _summary_requested(self) -> None:
        self._estimator.notice()
        self.line_replay.active()

    def _may_replay(self, uri: str) -> bool:
        # Idle work loads no model, and waits while the model works for another window or on a summary.
        is_free = self.status.state is EngineState.READY and not self.summaries.requests.is_busy
        return is_free and self._admission.may_replay(uri)

    def _replayed(self, found: Replayed) -> None:
        self._recorder.replayed(found.uri, found.completion, found.line, found.correct, time.time())
        self._after_labels.labelled(1)

    async def _load(self) -> None:
        try:
            loaded = await self.engine.ready()
            self.status.model = loaded.identity.name
            self.summaries.requests.loaded(loaded.identity)
            for language in self._languages():
                purpose = self.completions.purpose_of(loaded, language)
                self.status.calibrator = self._estimator.calibrator(purpose).ref
        except LspCalibError as error:
            # The engine has reported it through its state.
            logger.warning("No model: %s", error)
            return
        self._report_complaints()
        self._notify_status()
        self.summaries.ahead.resume()
        self.line_replay.resume()
        self._after_labels.begin()  # perhaps some are left from an earlier session

    def _has_failed(self) -> bool:
        """Whether the model could not be loaded when it was tried last."""
        tried = self._loading is not None and self._loading.done()
        return self._running and tried and self.status.model is None

    def _languages(self) -> list[str]:
        """The languages of the open documents, the one opened last at the end; Python if there are none."""
        opened = (document for document in self._connection.open_documents() if document.language_id)
        return [language_of(document) for document in opened] or ["python"]

    def _report_complaints(self) -> None:
        for complaint in self._estimator.complaints:
            self._messages.warn(complaint)

    def _engine_state(self, state: EngineState, message: str, fraction: float | None) -> None:
        self.status.state, self.status.message = state, message
        self._progress.update(state, message, fraction)
        if state is EngineState.ERROR:
            self._messages.error(message)
        elif state is EngineState.NO_MODEL:
            self._messages.warn(message)
        elif state is EngineState.READY and self._has_failed():
            # A request has loaded it since: the model was pulled, or the server started.
            self._loading = asyncio.create_task(self._load())
        self._notify_status()

    def _notify_status(self) -> None:
        if self._running:
            self._connection.protocol.notify("lsp-calib/status", self.status.to_wire())


def _diagnostics(connection: Connection, suggestions: SuggestionLifecycle) -> Diagnostics:
    pulls = pulls_diagnostics(connection.client_capabilities)
    return Diagnostics(
        settings=lambda: connection.settings,
        document=connection.open_document,
        inserted=suggestions.tracking.inserted,
        doubtful=suggestions.tracking.doubtful,
        request_pull=(lambda: connection.workspace_diagnostic_refresh(None)) if pulls else None,
        publish=connection.text_document_publish_diagnostics,
    )
