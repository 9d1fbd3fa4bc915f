"""The services of one connection, wired together."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import attrs
from lsprotocol import types

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.policies.tiers import PRESETS, TierPolicy
from lsp_calib.completion import CompletionService
from lsp_calib.completion.purpose import line_purpose
from lsp_calib.errors import DataError, LspCalibError
from lsp_calib.exclusion import Exclusion
from lsp_calib.inference.engine import EngineState, Lingering
from lsp_calib.server.completion_requests import Completions, Summaries
from lsp_calib.server.feedback_recorder import Feedback
from lsp_calib.server.progress import LoadProgress
from lsp_calib.server.status import Status
from lsp_calib.server.suggestion_tracking import Documents
from lsp_calib.settings import Settings
from lsp_calib.summarization import SummaryService
from lsp_calib.values import CalibratorRef

if TYPE_CHECKING:
    from lsp_calib.server.app import CalibServer

logger = logging.getLogger(__name__)

# Seconds that a request waits for the settings; a client that is asked for them has five to answer.
_SETTINGS = 6.0


class Session:
    """What the features call. Made after `initialize` is answered: its imports take a while."""

    def __init__(self, server: CalibServer) -> None:
        self.server = server
        self.status = Status()
        self.running = True
        self._said: set[str] = set()
        self._settled = asyncio.Event()  # set once the settings of the start are known
        self._progress = LoadProgress(server)
        self._judge = ConfidenceEstimator(
            CalibratorStore.open(), _policy(server.settings), self._calibrator_changed
        )
        self.engine = server.make_engine(self._engine_state)
        self.feedback = Feedback(self, self._judge)
        self.documents = Documents(self)
        self.completions = Completions(self, CompletionService(self.engine, self._judge))
        self.summaries = Summaries(self, SummaryService(self.engine, self._judge))
        self._loading: asyncio.Task[None] | None = None

    @property
    def settings(self) -> Settings:
        return self.server.settings

    def start(self) -> None:
        """Report what is wrong with the settings and load the model, in the background."""
        self._settled.set()
        self._settings_hold()
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())

    async def excluded(self, uri: str, patience: float | None = None) -> str:
        """Why nothing of a document goes into a prompt, "" if it may.

        patience: seconds to wait at the start, while the settings that say so are still being fetched.
        """
        if not self._settled.is_set():
            try:
                await asyncio.wait_for(self._settled.wait(), _SETTINGS if patience is None else patience)
            except TimeoutError:
                return "it is not known yet what is excluded"
        return self._exclusion().reason(uri)

    def settings_changed(self) -> None:
        self._settings_hold()
        self.documents.settings_changed()

    def notice_calibrators(self) -> None:
        """A command or another window may have put a calibrator in force since the last request."""
        self._judge.notice()

    def calibrator_promoted(self, ref: CalibratorRef) -> None:
        """A refit of this session has put a calibrator in force."""
        self._judge.notice()
        if self.status.calibrator != ref:
            self._calibrator_changed(ref)

    def _calibrator_changed(self, ref: CalibratorRef) -> None:
        """What is remembered was judged by the old calibrator."""
        self.status.calibrator = ref
        self._forget()
        self._say_complaints()
        self._notify_status()

    async def restart_model(self) -> None:
        await self.engine.restart()
        self._said.clear()
        self._loading = asyncio.create_task(self._load())

    async def close(self) -> None:
        """Settle, write, and let the model process go. Once is enough, twice is no error."""
        if not self.running:
            return
        self.documents.close()
        self.running = False
        if self._loading is not None:
            self._loading.cancel()
        await self.completions.close()
        await self.summaries.close()
        await self.engine.close()
        await self.feedback.close()

    def _settings_hold(self) -> None:
        """Go by the settings as they are now, and report what is wrong with them."""
        self._report_problems()
        if isinstance(self.engine, Lingering):
            # It may have been opened before the editor had given its settings.
            self.engine.set_linger(self.settings.linger_seconds)
        exclusion = self._exclusion()
        for document in list(self.server.workspace.text_documents.values()):
            if exclusion.reason(document.uri):
                self.completions.forget(document.uri)
        policy = _policy(self.settings)
        if policy != self._judge.policy:
            self._judge.policy = policy
            self._forget()

    def _exclusion(self) -> Exclusion:
        return Exclusion((*self.server.trusted.exclude, *self.settings.exclude))

    def _forget(self) -> None:
        """What is remembered was judged otherwise than it would be now."""
        self.summaries.forget()
        self.completions.forget_answers()

    async def _load(self) -> None:
        try:
            loaded = await self.engine.ready()
            self.status.model = loaded.identity.name
            for language in self._languages():
                self.status.calibrator = self._judge.calibrator(line_purpose(loaded, language)).ref
        except LspCalibError as error:
            # The engine has reported it through its state.
            logger.warning("No model: %s", error)
            return
        self._say_complaints()
        self._notify_status()

    def _languages(self) -> list[str]:
        """The languages of the open documents, the one opened last at the end; Python if there are none."""
        opened = (document.language_id for document in self.server.workspace.text_documents.values())
        return [language for language in opened if language] or ["python"]

    def _say_complaints(self) -> None:
        for complaint in self._judge.complaints:
            self.say(complaint, types.MessageType.Warning)

    def _engine_state(self, state: EngineState, message: str, fraction: float | None) -> None:
        self.status.state, self.status.message = state, message
        self._progress.update(state, message, fraction)
        if state in (EngineState.NO_MODEL, EngineState.ERROR):
            self.say(
                message, types.MessageType.Error if state is EngineState.ERROR else types.MessageType.Warning
            )
        self._notify_status()

    def _notify_status(self) -> None:
        if self.running:
            self.server.protocol.notify("lsp-calib/status", self.status.to_wire())

    def _report_problems(self) -> None:
        problems, self.server.problems = self.server.problems, []
        new = [problem for problem in dict.fromkeys(problems) if problem not in self._said]
        if new:
            self._said.update(new)
            self._show("\n".join(new), types.MessageType.Warning)

    def say(self, message: str, kind: types.MessageType) -> None:
        """Show a message, once."""
        if self.running and message not in self._said:
            self._said.add(message)
            self._show(message, kind)

    def _show(self, message: str, kind: types.MessageType) -> None:
        self.server.window_show_message(types.ShowMessageParams(kind, message))


def _policy(settings: Settings) -> TierPolicy:
    preset = PRESETS[settings.preset]
    accept = preset.accept_from if settings.accept_from is None else settings.accept_from
    reject = preset.reject_below if settings.reject_below is None else settings.reject_below
    try:
        return attrs.evolve(preset, accept_from=accept, reject_below=reject)
    except DataError:
        # One threshold was set, and lies beyond the preset's other one: the one that was set counts.
        return attrs.evolve(preset, accept_from=max(accept, reject), reject_below=min(accept, reject))
