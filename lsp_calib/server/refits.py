"""What the labels of a session lead to: the watch over certificates, and refits."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator_store import roll_back
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.personalisation import (
    LEAST_NEW,
    Refits,
    refit_languages,
    refit_where_due,
    watch_labels,
)
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.server.admission import IdleWork
from lsp_calib.server.messages import Connection, Pace, UserMessages
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder
from lsp_calib.values import CalibratorRef

logger = logging.getLogger(__name__)


@attrs.define(eq=False, repr=False, slots=False)
class Learning:
    """Watches over certificates soon after labels, and refits when the user pauses.

    It looks whether a refit is due (`feedback.personalisation.is_due`) once after the start, then after every
    LEAST_NEW labels and after a change of settings.
    """

    _connection: Connection
    _model: Model
    _estimator: ConfidenceEstimator
    _recorder: Recorder
    _status: Status
    _messages: UserMessages
    _pace: Pace
    _calibrator_changed: Callable[[CalibratorRef], object]

    def __attrs_post_init__(self) -> None:
        self._new = 0
        self._due = False
        self._soon: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stopped = False
        self.when_idle = IdleWork("refit", self._pace.refit, self._refit_where_due, stops=False)

    async def refit(self) -> dict[str, Any]:
        """Refit the calibrators of the loaded model on the labels so far, each language on its own.

        Returns the result as it goes to the client. Raises LspCalibError.
        """
        lines, estimator = await self._model.purpose(), self._estimator
        model, prompt, today = lines.model, lines.prompt_version, datetime.date.today().isoformat()
        refits = await self._recorder.run(
            lambda store: refit_languages(
                store, estimator.store, model, prompt, today, promise=estimator.promise
            )
        )
        self._refitted(refits)
        return refits.to_wire()

    def in_force(self, ref: CalibratorRef) -> None:
        """A refit or a rollback over this connection has put a calibrator in force."""
        self._estimator.reload()
        if self._status.calibrator != ref:
            self._calibrator_changed(ref)

    async def roll_back(self, wanted: str | None) -> dict[str, Any]:
        """Take the user's calibrator out of force, and say what changed, as it goes to the client.

        wanted: id of the calibrator to go back to; None: that before the one of the last suggestion.
        Raises LspCalibError.
        """
        used = self._status.calibrator
        if wanted is None and used is None:
            self._estimator.reload()
            used = self._estimator.calibrator(await self._model.purpose()).ref
        done = await asyncio.to_thread(
            roll_back, self._estimator.store, wanted, used=used.id if used else None
        )
        self._estimator.reload()
        if used is None or wanted is not None or done.before.id == used.id:
            self.in_force(done.after.ref)
        return done.to_wire()

    def stop(self) -> None:
        """Begin nothing more, and stop what goes on."""
        self._stopped = True
        if self._soon is not None:
            self._soon.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def begin(self) -> None:
        """Labels may be left from an earlier session, or be used in another way from now on."""
        self._due = True
        self.settled(0)

    def settled(self, n: int) -> None:
        """There are n new labels."""
        if self._stopped:
            return
        self._new += n
        self._due = self._due or self._new >= LEAST_NEW
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(self._pace.watch, self._begin_watch)
        self.when_idle.wait()

    def _begin_watch(self) -> None:
        self._soon = None
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Count the new labels for certificates, and watch what was promised."""
        promise = self._estimator.promise
        purposes = [one for one in self._estimator.purposes if one.task != "summary"]
        if promise is None or not purposes:
            return

        def watch(store: FeedbackStore) -> list[str]:
            revoked = []
            for purpose in purposes:
                before, now = watch_labels(store, self._estimator.store, purpose, promise)
                if now.watch is not None and now.watch.certificate.revoked and now.watch != before.watch:
                    revoked.append(
                        f"The certificate for {purpose.answers} by {purpose.model.name} is "
                        f"{now.watch.certificate.reason}. Nothing is marked accept until a new "
                        "certificate is issued."
                    )
            return revoked

        try:
            for sentence in await self._recorder.learn(watch) or ():
                self._messages.log(sentence)
        except LspCalibError as error:
            logger.warning("New labels could not be used: %s", error)
            return
        self._estimator.reload()

    async def _refit_where_due(self) -> None:
        if not self._due or self._model.loaded is None:  # a remote server is not asked for this
            return
        self._new, self._due = 0, False
        self._estimator.reload()
        if not self._connection.settings.auto_refit:
            return
        lines, estimator = await self._model.purpose(), self._estimator
        model, prompt, today = lines.model, lines.prompt_version, datetime.date.today().isoformat()

        def refit(store: FeedbackStore) -> Refits | None:
            return refit_where_due(store, estimator.store, model, prompt, today, estimator.promise)

        refits = await self._recorder.learn(refit)
        if refits is not None:
            self._refitted(refits)
            for sentence in refits.sentences():
                self._messages.log(sentence)
        estimator.reload()

    def _refitted(self, refits: Refits) -> None:
        _, result = refits.leading
        if result.calibrator is not None:
            self.in_force(result.calibrator.ref)
