"""The services of one connection, wired together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from lsprotocol import types
from pygls.progress import Progress
from pygls.workspace import Workspace

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Purpose
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.rolling_back import roll_back
from lsp_calib.completion import Completion, CompletionService, Cursor, Removal
from lsp_calib.completion.block import Decide, block_of, lines_of, may_begin
from lsp_calib.completion.layouts import Layouts
from lsp_calib.completion.memory import CompletionMemory
from lsp_calib.completion.nearby import Nearby
from lsp_calib.completion.prompt import WindowSize
from lsp_calib.completion.purpose import line_purpose
from lsp_calib.errors import LspCalibError
from lsp_calib.exclusion import Exclusion
from lsp_calib.feedback.replay import Replay
from lsp_calib.feedback.report import Latency
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.workspace import folder_of
from lsp_calib.inference.engine import Engine, EngineState, Lingering, StateListener
from lsp_calib.languages import is_chosen
from lsp_calib.server.absence import (
    BULK_CHANGE,
    LOADING,
    OFF,
    ON_BATTERY,
    SELECTED_ITEM,
    STARTING,
    SUPERSEDED,
    TOO_SLOW,
    WAITING,
    Absence,
    excluded,
    language_off,
    paused,
)
from lsp_calib.server.after_labels import AfterLabels
from lsp_calib.server.bulk_changes import BulkChanges
from lsp_calib.server.completion_requests import CompletionRequests
from lsp_calib.server.convert import language_of
from lsp_calib.server.diagnostics import Diagnostics
from lsp_calib.server.example_index import ExampleIndex
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.follow_ups import FollowUps
from lsp_calib.server.hiding_notice import HidingNotice
from lsp_calib.server.last_requests import LastRequests
from lsp_calib.server.neighbourhood import NearbyFiles
from lsp_calib.server.pause import Pause
from lsp_calib.server.power_watch import PowerWatch
from lsp_calib.server.progress import LoadProgress
from lsp_calib.server.protocol import CalibProtocol, pulls_diagnostics
from lsp_calib.server.report_page import ReportPage
from lsp_calib.server.status import Status
from lsp_calib.server.suggestion_lifecycle import SuggestionLifecycle
from lsp_calib.server.summary_requests import SummaryRequests
from lsp_calib.server.text import CalibDocument
from lsp_calib.server.user_messages import UserMessages
from lsp_calib.server.work_ahead import WorkAhead
from lsp_calib.settings import Settings, Trusted
from lsp_calib.settings.tiers import tier_policy
from lsp_calib.summarization import SummaryService
from lsp_calib.values import CalibratorRef, Suggestion

logger = logging.getLogger(__name__)

# Seconds that a request waits for the settings; the client has five seconds to answer for them.
_SETTINGS_PATIENCE = 6.0


class Connection(Protocol):
    """The part of a connection that its session uses.

    settings: those in force now. problems: sentences about wrong settings, not yet shown to the user.
    """

    settings: Settings
    trusted: Trusted
    problems: list[str]
    protocol: CalibProtocol
    make_engine: Callable[[StateListener], Engine]

    @property
    def client_capabilities(self) -> types.ClientCapabilities: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def work_done_progress(self) -> Progress: ...

    def open_document(self, uri: str) -> CalibDocument | None: ...

    def open_documents(self) -> list[CalibDocument]: ...

    def window_show_message(self, params: types.ShowMessageParams) -> None: ...

    def window_log_message(self, params: types.LogMessageParams) -> None: ...

    def window_show_document_async(
        self, params: types.ShowDocumentParams
    ) -> Awaitable[types.ShowDocumentResult]: ...

    def workspace_diagnostic_refresh(self, params: None) -> object: ...

    def text_document_publish_diagnostics(self, params: types.PublishDiagnosticsParams) -> None: ...


class Session:
    """The services that the features call. Created after the answer to `initialize`: imports are slow."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._running = True
        self._loading: asyncio.Task[None] | None = None
        self._settings_known = asyncio.Event()  # set once the settings of the start are known
        self._messages = UserMessages(connection.window_show_message)
        window = connection.client_capabilities.window
        shows_progress = window is not None and window.work_done_progress
        self._progress = LoadProgress(connection.work_done_progress if shows_progress else None)
        calibrators = CalibratorStore.open()
        self._estimator = ConfidenceEstimator(
            calibrators,
            tier_policy(connection.trusted, connection.settings)[0],
            self._calibrator_changed,
            measure=connection.settings.measure,
        )
        self.status = Status(self._estimator.note_on, self._estimator.certificate)
        self.engine = connection.make_engine(self._engine_state)
        self._recorder = FeedbackRecorder(
            lambda: FeedbackStore(home.home() / "feedback.db"),
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
            purpose=lambda: self._purpose("python"),
            on_requested=self._estimator.notice,
            on_shown=self.status.shown,
            on_outdated=self._last_requests.outdated,
            on_marks_changed=lambda uri: self.diagnostics.refresh(uri),
            on_refitted=self._refitted,
            on_inserted=self._inserted,
            on_labelled=lambda n: self._after_labels.labelled(n),
            promise=lambda: self._estimator.promise,
        )
        self._after_labels = AfterLabels(self._watch_labels, self._refit_where_due)
        self.bulk_changes = BulkChanges()
        self.pause = Pause(self._pause_changed)
        self._power = PowerWatch()
        self._layouts = Layouts(calibrators.has_labels, lambda: _window(connection.settings))
        files = NearbyFiles(
            connection.open_documents,
            lambda uri: folder_of(uri, connection.workspace.folders),
            self._exclusion,
        )
        self._nearby = Nearby(files)
        service = CompletionService(
            self.engine, self._estimator, layout_of=self._layouts.of, nearby=self._nearby
        )
        memory = CompletionMemory(service.key)
        self._ahead = WorkAhead(
            service,
            memory,
            looks_ahead=self._looks_ahead,
            # A request to another machine takes its time, and may cost money.
            goes_on=lambda: connection.trusted.remote_url is None,
            hide_below=lambda: connection.settings.hide_below,
        )
        self.alternatives: FollowUps[tuple[Completion, ...]] = FollowUps(
            lambda uri, first: service.alternatives(
                first, document=uri, hide_below=connection.settings.hide_below
            ),
            (),
        )
        self._blocks: FollowUps[tuple[Completion, ...]] = FollowUps(
            lambda uri, first: lines_of(
                partial(service.complete, document=uri),
                partial(service.with_below, document=uri),
                first,
                self._decide_like(uri, first),
            ),
            (),
            of_line=True,
        )
        self.completions = CompletionRequests(
            service,
            memory,
            self._ahead,
            last=self._last_requests,
            refusal=self._refusal,
            unwanted=self._unwanted,
            held_back=lambda uri: BULK_CHANGE if self.bulk_changes.holds_back(uri) else None,
            is_elsewhere=self.suggestions.tracking.is_elsewhere,
            on_request=self._requested,
            on_made=self._completed,
            on_hidden=self.status.hidden,
            on_nothing=self._withheld,
            hide_below=lambda: connection.settings.hide_below,
            pause=lambda: _seconds(connection.settings.debounce_ms),
        )
        self._examples = ExampleIndex(
            lambda uri: folder_of(uri, connection.workspace.folders),
            self._exclusion,
            local=lambda: connection.trusted.remote_url is None,
            allowed=self._works_in_background,
            busy=lambda: self.summaries.is_busy,
        )
        self.summaries = SummaryRequests(
            SummaryService(self.engine, self._estimator),
            admits=self._admits,
            examples_for=self._examples.examples_for,
            on_request=self._estimator.notice,
            on_made=self.status.made,
        )
        self.diagnostics = _diagnostics(connection, self.suggestions)
        self._hiding = HidingNotice(self._replay, self._messages.inform, home.home() / "hide-below")
        self._report_page = ReportPage(connection, self._messages.inform, home.home())
        self._hidden_below = connection.settings.hide_below

    def start(self) -> None:
        """Report faults in the settings and load the model, in the background."""
        self._settings_known.set()
        self._apply_settings()
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())

    def settings_changed(self) -> None:
        self._apply_settings()
        for uri in self.suggestions.tracking.marked():
            self.diagnostics.refresh(uri)

    def document_opened(self, uri: str) -> None:
        # Some editors open a document twice: drop the data of the first time.
        self._forget(uri)
        self._examples_changed(uri)
        self.bulk_changes.forget(uri)

    def document_changed(self, uri: str) -> None:
        document = self._connection.open_document(uri)
        if document is not None:
            self.bulk_changes.changed(uri, document.take_changes())
        self._examples_changed(uri)
        self.suggestions.tracking.changed(uri)
        self._after_labels.active()

    def document_closed(self, uri: str) -> None:
        self._forget(uri)
        self.bulk_changes.forget(uri)
        self.suggestions.tracking.closed(uri)
        self._examples.closed(uri)

    def inline_completion_is_off(self, uri: str) -> None:
        """Inline completion was requested in this document although the settings turn it off."""
        self._last_requests.refused(uri, OFF)

    def nothing_extends_the_selected_item(self, uri: str) -> None:
        """The item selected in the completion menu is none that a suggestion can go on from."""
        self._last_requests.refused(uri, SELECTED_ITEM)

    def explain(self, uri: str | None) -> dict[str, Any] | None:
        """Why the last request for a completion has no suggestion, as it goes to the client; None if it has
        one, or if there was none.

        uri: of the document; None: the last one of all.
        """
        last = self._last_requests.of(uri)
        if last is None or last.absence is None:
            return None
        absence = last.absence
        if absence in (WAITING, TOO_SLOW):
            if not self._settings_known.is_set():
                absence = STARTING
            elif self.status.state in (EngineState.STARTING, EngineState.LOADING):
                absence = LOADING
        return self._last_requests.to_wire(last, absence)

    async def roll_back(self, wanted: str | None) -> dict[str, Any]:
        """Take the user's calibrator out of force, and say what changed, as it goes to the client.

        wanted: id of the calibrator to go back to; None: that before the one of the last suggestion.
        Raises LspCalibError.
        """
        used = self.status.calibrator
        if wanted is None and used is None:
            purpose = await self._purpose(self._languages()[-1])
            used = self._estimator.calibrator(purpose).ref
        done = await asyncio.to_thread(
            roll_back, self._estimator.store, wanted, used=used.id if used else None
        )
        self._estimator.notice()
        if used is None or wanted is not None or done.before.id == used.id:
            self._refitted(done.after.ref)
        return done.to_wire()

    async def export_feedback(self, path: Path | None) -> dict[str, Any]:
        """Export what is stored of suggestions to a new file; by default one in the state folder.

        Returns its path and how many suggestions it has. Raises LspCalibError.
        """
        if path is None:
            path = home.home() / f"feedback-{time.strftime('%Y%m%dT%H%M%S')}.jsonl"
        return {"path": str(path), "n": await self._recorder.export(path)}

    async def purge_feedback(self) -> int:
        """Remove everything that is stored of suggestions, and empty the logs; returns how many there were.

        Raises LspCalibError.
        """
        return await self._recorder.remove_everything(home.home())

    async def show_report(self, *, opens: bool) -> str:
        """Write the report as a page, and have the client open it; returns its path. Raises LspCalibError.

        opens: whether the client is on this machine; otherwise a message names the path.
        """
        estimator, latency = self._estimator, self.status.latency()
        report = await self._recorder.report(
            estimator.store, estimator.measure, Latency(*latency) if latency else None
        )
        return str(await self._report_page.show(report, opens=opens))

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
        self._after_labels.stop()
        self._hiding.stop()
        self._report_page.stop()
        self.pause.stop()
        if self._loading is not None:
            self._loading.cancel()
        await self.completions.close()
        await self.alternatives.close()
        await self._blocks.close()
        await self._power.close()
        await self.summaries.close()
        await self._examples.close()
        await self.engine.close()
        await self._recorder.close()

    async def _admits(self, uri: str) -> bool:
        return await self._refusal(uri) is None

    async def _refusal(self, uri: str, patience: float | None = None) -> Absence | None:
        """Why a document may not be used for a prompt, None if it may.

        patience: seconds to wait at the start, until the settings that exclude documents are known.
        """
        if not self._settings_known.is_set():
            limit = _SETTINGS_PATIENCE if patience is None else patience
            try:
                await asyncio.wait_for(self._settings_known.wait(), limit)
            except TimeoutError:
                return STARTING
        if not self._running or self._connection.open_document(uri) is None:
            # Closed meanwhile: what a request remembers of the document would stay.
            return SUPERSEDED
        why = self._exclusion().reason(uri)
        return excluded(why) if why else None

    def _unwanted(self, uri: str) -> Absence | None:
        """Why a request that the user has not made by hand is not answered now, None if it is."""
        if self.pause.message:
            return paused(self.pause.message)
        settings = self._connection.settings
        document = self._connection.open_document(uri)
        if document is not None and not is_chosen(language_of(document), settings.languages):
            return language_off(language_of(document))
        return ON_BATTERY if settings.on_battery == "off" and self._power.on_battery() else None

    def _looks_ahead(self) -> bool:
        return self._connection.settings.ahead and self._works_in_background()

    def _works_in_background(self) -> bool:
        """Whether work that nobody has asked for is wanted now."""
        if self.pause.message:
            return False
        return self._connection.settings.on_battery == "on" or not self._power.on_battery()

    def _examples_changed(self, uri: str) -> None:
        document = self._connection.open_document(uri)
        if document is not None:
            self._examples.changed(document, language_of(document))

    def _inserted(self, uri: str, line: int) -> None:
        """A change has inserted a suggestion in a line."""
        self.bulk_changes.inserted(uri)
        document = self._connection.open_document(uri)
        if document is not None and self._unwanted(uri) is None and not self._exclusion().reason(uri):
            self._ahead.inserted(uri, document.bare_lines, line, language_of(document))

    def _pause_changed(self) -> None:
        self.status.pause = self.pause.message
        if self.pause.message:
            self.completions.stop()
        self._notify_status()

    def _exclusion(self) -> Exclusion:
        return Exclusion((*self._connection.trusted.exclude, *self._connection.settings.exclude))

    def _lines(self, uri: str) -> tuple[str, ...] | None:
        document = self._connection.open_document(uri)
        return None if document is None else document.bare_lines

    def _apply_settings(self) -> None:
        """Report faults in the settings, and apply them as they are now."""
        problems, self._connection.problems = self._connection.problems, []
        self._messages.warn_together(problems)
        settings = self._connection.settings
        if settings.on_battery != "on":
            self._power.on_battery()  # so that it is known once it matters
        if isinstance(self.engine, Lingering):
            # The engine may have been opened before the editor had given its settings.
            self.engine.set_linger(settings.linger_seconds)
        exclusion = self._exclusion()
        self._nearby.clear()  # they may show what is excluded now
        for document in self._connection.open_documents():
            if exclusion.reason(document.uri):
                self._forget(document.uri)
        policy, too_loose = tier_policy(self._connection.trusted, settings)
        self._messages.warn_together(too_loose)
        overrides = (*self._connection.trusted.overrides, *settings.overrides)
        now = (policy, settings.measure, overrides)
        if now != (self._estimator.policy, self._estimator.measure, self._estimator.overrides):
            self._estimator.policy, self._estimator.measure, self._estimator.overrides = now
            self._forget_assessments()
            self._after_labels.begin()  # a promise may be wanted now
        if settings.hide_below != self._hidden_below:
            self._hidden_below = settings.hide_below
            self._forget_replies()
        self._hiding.apply(settings.hide_below)

    async def _purpose(self, language: str) -> Purpose:
        """The purpose of completions by the model that is loaded, with the prompts it gets."""
        loaded = await self.engine.ready()
        return line_purpose(loaded, self._layouts.of(loaded), language)

    async def _replay(self, below: float) -> Replay:
        purpose = await self._purpose("python")
        estimator = self._estimator
        return await self._recorder.replay(estimator.store, purpose, estimator.measure, below)

    def _completed(self, completion: Completion) -> None:
        self.status.made(completion.suggestion)
        for why in completion.cuts:
            self.status.cut(why)
        self._recorder.cut(completion.suggestion.id, completion.cuts)

    def _withheld(self, removal: Removal) -> None:
        self.status.withheld(removal)
        self._recorder.withheld(removal)

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

    async def _watch_labels(self) -> None:
        """Count the new labels for certificates, and watch what was promised."""
        promise = self._estimator.promise
        purposes = [one for one in self._estimator.purposes if one.task == "line"]
        if promise is None or not purposes:
            return
        for sentence in await self._recorder.watch(self._estimator.store, purposes, promise):
            self._log(sentence)
        self._estimator.notice()

    async def _refit_where_due(self) -> None:
        if not self._connection.settings.auto_refit:
            return
        for sentence in await self.suggestions.refit_where_due():
            self._log(sentence)
        self._estimator.notice()

    def _log(self, sentence: str) -> None:
        """A line in the editor's log; no message that interrupts."""
        logger.info("%s", sentence)
        if self._running:
            self._connection.window_log_message(types.LogMessageParams(types.MessageType.Info, sentence))

    def _forget_assessments(self) -> None:
        """Drop the remembered suggestions: their confidence or tier is out of date."""
        self.summaries.forget()
        self._forget_replies()

    def is_superseded(self, uri: str, cursor: Cursor) -> bool:
        """Whether a request has come elsewhere in the document since the one at `cursor`."""
        return not self._last_requests.is_last(uri, cursor)

    async def block(self, uri: str, first: Completion) -> Suggestion:
        """The suggestion to offer for a completion: with the lines below it, where the setting asks for
        them."""
        if self._connection.settings.shape != "block":
            return first.suggestion
        # While the first line is typed, the others stay as they are; on half a line no block begins.
        lines = await self._blocks.of(uri, first, patience=None if may_begin(first.cursor) else 0)
        return block_of(first, lines, self._decide_like(uri, first))

    def _decide_like(self, uri: str, first: Completion) -> Decide:
        return partial(
            self._estimator.tier,
            like=first.suggestion.confidence,
            language=first.cursor.language,
            document=uri,
        )

    def _forget_replies(self) -> None:
        self.completions.forget_replies()
        self.alternatives.clear()
        self._blocks.clear()

    def _forget(self, uri: str) -> None:
        """Drop what is remembered of a document."""
        self.completions.forget(uri)
        self.alternatives.forget(uri)
        self._blocks.forget(uri)

    def _requested(self, uri: str, cursor: Cursor) -> None:
        self.alternatives.requested(uri, cursor)
        self._blocks.requested(uri, cursor)
        self.suggestions.requested(uri, cursor)
        self._after_labels.active()

    async def _load(self) -> None:
        try:
            loaded = await self.engine.ready()
            self.status.model = loaded.identity.name
            for language in self._languages():
                purpose = line_purpose(loaded, self._layouts.of(loaded), language)
                self.status.calibrator = self._estimator.calibrator(purpose).ref
        except LspCalibError as error:
            # The engine has reported it through its state.
            logger.warning("No model: %s", error)
            return
        self._report_complaints()
        self._notify_status()
        self._after_labels.begin()  # perhaps some are left from an earlier session

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


def _window(settings: Settings) -> WindowSize | None:
    return None if settings.window == "auto" else WindowSize(settings.window)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
