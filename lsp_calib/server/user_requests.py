"""What a user asks for by a command: why there is nothing, calibrators before, feedback, the report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.rolling_back import roll_back
from lsp_calib.feedback.report import Latency
from lsp_calib.inference.engine import EngineState
from lsp_calib.server.absence import LOADING, STARTING, TOO_SLOW, WAITING
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.last_requests import LastRequests
from lsp_calib.server.report_page import ReportPage
from lsp_calib.server.status import Status
from lsp_calib.values import CalibratorRef


class UserRequests:
    """The answers to commands that concern no single suggestion.

    settings_are_known: whether the start has got that far. can_ask_by_hand: whether the editor can ask for a
    completion as the user's own wish. purpose: of completions in the document opened
    last, by the model that is loaded. on_refitted: called with the calibrator that a rollback has put in
    force.
    """

    def __init__(
        self,
        *,
        estimator: ConfidenceEstimator,
        recorder: FeedbackRecorder,
        status: Status,
        last: LastRequests,
        report_page: ReportPage,
        settings_are_known: Callable[[], bool],
        can_ask_by_hand: Callable[[], bool],
        purpose: Callable[[], Awaitable[Purpose]],
        on_refitted: Callable[[CalibratorRef], None],
    ) -> None:
        self._estimator = estimator
        self._recorder = recorder
        self._status = status
        self._last = last
        self._report_page = report_page
        self._settings_are_known = settings_are_known
        self._can_ask_by_hand = can_ask_by_hand
        self._purpose = purpose
        self._on_refitted = on_refitted

    def explain(self, uri: str | None) -> dict[str, Any] | None:
        """Why the last request for a completion has no suggestion, as it goes to the client; None if it has
        one, or if there was none.

        uri: of the document; None: the last one of all.
        """
        last = self._last.of(uri)
        if last is None or last.absence is None:
            return None
        absence = last.absence
        if absence in (WAITING, TOO_SLOW):
            if not self._settings_are_known():
                absence = STARTING
            elif self._status.state in (EngineState.STARTING, EngineState.LOADING):
                absence = LOADING
        if absence.by_hand and self._can_ask_by_hand():
            absence = attrs.evolve(absence, message=f"{absence.message} {absence.by_hand}")
        return self._last.to_wire(last, absence)

    def was_asked(self, uri: str | None) -> bool:
        """Whether there was a request for a completion in a document; uri None: in any document."""
        return self._last.of(uri) is not None

    async def roll_back(self, wanted: str | None) -> dict[str, Any]:
        """Take the user's calibrator out of force, and say what changed, as it goes to the client.

        wanted: id of the calibrator to go back to; None: that before the one of the last suggestion.
        Raises LspCalibError.
        """
        used = self._status.calibrator
        if wanted is None and used is None:
            used = self._estimator.calibrator(await self._purpose()).ref
        done = await asyncio.to_thread(
            roll_back, self._estimator.store, wanted, used=used.id if used else None
        )
        self._estimator.notice()
        if used is None or wanted is not None or done.before.id == used.id:
            self._on_refitted(done.after.ref)
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
        estimator, latency = self._estimator, self._status.latency()
        report = await self._recorder.report(
            estimator.store, estimator.measure, Latency(*latency) if latency else None
        )
        return str(await self._report_page.show(report, opens=opens))
