"""What users are shown of their own history: the report as a page, what `hideBelow` would have hidden."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from pathlib import Path

import attrs
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.report import MOST_LABELS, PAGE, Replay
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.files import read_file, write_atomically
from lsp_calib.report.page import write_page
from lsp_calib.server.messages import Connection, UserMessages
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder

logger = logging.getLogger(__name__)


@attrs.define(eq=False, repr=False, slots=False)
class ReportPage:
    """Writes reports and has them opened, in a browser if the client can do that.

    folder: the state folder.
    """

    _connection: Connection
    _estimator: ConfidenceEstimator
    _recorder: Recorder
    _status: Status
    _messages: UserMessages
    _folder: Path

    def __attrs_post_init__(self) -> None:
        self._path = self._folder / PAGE
        self._opening: asyncio.Task[None] | None = None

    async def show(self) -> str:
        """Write the page on what was recorded so far, and return its path; it is opened meanwhile.

        Raises LspCalibError if it cannot be written.
        """
        estimator = self._estimator
        report = await self._recorder.report(estimator.store, estimator.measure, self._status.latency())
        await asyncio.to_thread(write_page, report, self._path)
        self.stop()
        self._opening = asyncio.create_task(self._open())
        return str(self._path)

    def stop(self) -> None:
        """Wait no longer for the client to open a page."""
        if self._opening is not None:
            self._opening.cancel()

    async def _open(self) -> None:
        can = get_capability(self._connection.client_capabilities, "window.show_document.support")
        if not (can and await self._opened()):
            self._messages.inform(f"The report is {self._path}. Open it in a browser.")

    async def _opened(self) -> bool:
        page = types.ShowDocumentParams(uri=self._path.as_uri(), external=True, take_focus=True)
        try:
            return (await self._connection.window_show_document_async(page)).success
        except JsonRpcException as error:
            logger.warning("The client cannot open the report: %s", error)
            return False


@attrs.define(eq=False, repr=False, slots=False)
class HidingNotice:
    """Shows a replay of the user's own history when the limit has changed.

    memory: the file that holds the limit of the last message, so that the next start does not repeat it.
    """

    _connection: Connection
    _model: Model
    _estimator: ConfidenceEstimator
    _recorder: Recorder
    _messages: UserMessages
    _memory: Path

    def __attrs_post_init__(self) -> None:
        self._limit: float | None = None  # the one in force, None before the start
        self._task: asyncio.Task[None] | None = None

    def settings_changed(self) -> None:
        # The default is no decision of the user's.
        self.apply(self._connection.settings.hide_below or 0.0)

    def apply(self, limit: float) -> None:
        """The limit in force from now on; 0: nothing is hidden."""
        before, self._limit = self._limit, limit
        if limit == before:
            return
        self.stop()
        if limit and (before is not None or limit != self._told()):
            self._task = asyncio.create_task(self._tell(limit))
        elif before:
            # Turned off: the next limit is a new decision, even if it is the same number.
            with contextlib.suppress(OSError):  # at worst a later start says nothing
                self._memory.unlink(missing_ok=True)

    def stop(self) -> None:
        """Show no message that is not shown yet."""
        if self._task is not None:
            self._task.cancel()

    async def _tell(self, limit: float) -> None:
        try:
            purpose = await self._model.purpose("python")
            found = await self._recorder.learn(partial(self._replayed, purpose, limit))
        except LspCalibError as error:
            logger.warning("What hideBelow would have hidden is not known: %s", error)
            return
        self._messages.inform((found or Replay.of(limit, [], [])).sentence)
        with contextlib.suppress(OSError):
            write_atomically(self._memory, str(limit).encode(), 0o600, durable=False)

    def _replayed(self, purpose: Purpose, limit: float, store: FeedbackStore) -> Replay:
        """What a limit would have hidden of the labelled suggestions of a model and a task, in all languages,
        by the calibrators in force now. On the store's thread."""
        rows = store.labels(*(purpose.model, purpose.prompt_version, purpose.task), newest=MOST_LABELS)
        store_of, measure = self._estimator.store, self._estimator.measure
        survives: list[float | None] = []
        correct: list[bool] = []
        for language in sorted({row.language for row in rows}):
            of_language = attrs.evolve(purpose, language=language)
            found = [row for row in rows if row.language == language]
            calibrator = store_of.choose(of_language).calibrator
            evidences = [row.evidence for row in found]
            survives += store_of.survivals(of_language, calibrator, evidences, measure)
            correct += [row.correct for row in found]
        return Replay.of(limit, survives, correct)

    def _told(self) -> float | None:
        try:
            return float(read_file(self._memory))
        except (OSError, ValueError):
            return None
