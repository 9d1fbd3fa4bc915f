"""What the labels of a session lead to: the watch over certificates, refits, the offer to calibrate on
commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.removal import OFFERED
from lsp_calib.server.after_labels import AfterLabels
from lsp_calib.server.arguments import SAMPLES
from lsp_calib.server.connection import Connection
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.git_offer import GitOffer, folder_to_ask_about
from lsp_calib.server.workspace_calibration import CalibrationWish
from lsp_calib.syntax.languages import LANGUAGES


class Learning:
    """Follows the labels of a connection; `after_labels` is told of them.

    refit: refits where enough is new; sentences on what came of it. Raises LspCalibError.
    purpose: of completions in a language by the loaded model. Raises LspCalibError if there is none.
    language: of the document opened last. calibrate: calibrates as wished; raises LspCalibError.
    log: writes a line that interrupts nobody. warn: shows the user a message.
    """

    def __init__(
        self,
        connection: Connection,
        estimator: ConfidenceEstimator,
        recorder: FeedbackRecorder,
        *,
        refit: Callable[[], Awaitable[Iterable[str]]],
        purpose: Callable[[str], Awaitable[Purpose]],
        language: Callable[[], str],
        calibrate: Callable[[CalibrationWish], Awaitable[object]],
        log: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._estimator = estimator
        self._recorder = recorder
        self._refit = refit
        self._purpose = purpose
        self._language = language
        self._calibrate = calibrate
        self._log = log
        self._warn = warn
        self._git_offer = GitOffer(connection, self._calibrate_on_commits, home.home() / OFFERED)
        self.after_labels = AfterLabels(self._watch, self._refit_where_due)

    def stop(self) -> None:
        """Begin nothing more."""
        self.after_labels.stop()
        self._git_offer.stop()

    async def _watch(self) -> None:
        """Count the new labels for certificates, and watch what was promised."""
        promise = self._estimator.promise
        purposes = [one for one in self._estimator.purposes if one.task == "line"]
        if promise is None or not purposes:
            return
        for sentence in await self._recorder.watch(self._estimator.store, purposes, promise):
            self._log(sentence)
        self._estimator.notice()

    async def _refit_where_due(self) -> None:
        await self._offer_commits()
        if not self._connection.settings.auto_refit:
            return
        for sentence in await self._refit():
            self._log(sentence)
        self._estimator.notice()

    async def _offer_commits(self) -> None:
        """In the first pause: with no labels of the user's there is nothing better."""
        language = self._language()
        folder = folder_to_ask_about(self._connection, language)
        if folder is None:
            return
        purpose = await self._purpose(language)
        if self._estimator.calibrator(purpose).source in ("prior", "shipped"):
            self._git_offer.make(folder, SAMPLES)

    async def _calibrate_on_commits(self, folder: Path) -> None:
        try:
            wish = CalibrationWish.of(self._connection, None, samples=SAMPLES, from_git=True)
            language = self._language()
            if wish.root == folder and language in LANGUAGES:
                wish = attrs.evolve(wish, language=language)
            await self._calibrate(wish)
        except LspCalibError as error:
            # Whoever has said yes waits for it, perhaps without seeing its progress.
            self._warn(f"lsp-calib was not calibrated on your commits: {error}")
            raise
