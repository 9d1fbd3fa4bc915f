"""The next personal calibrator, from what became of a user's suggestions; promoted only if no worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, paired
from lsp_calib.calibration.calibrator import Calibrator, Origin
from lsp_calib.calibration.cautions import quietly
from lsp_calib.calibration.folds import out_of_fold
from lsp_calib.calibration.intervals import summarise
from lsp_calib.calibration.metrics import brier_score, expected_calibration_error, log_loss, skill_score
from lsp_calib.calibration.platt import PlattCalibrator, Prior
from lsp_calib.confidence import by_name
from lsp_calib.errors import DataError

MIN_LABELS = 5
READY_FROM = 50
LEAVE_ONE_OUT_TO = 50

# How far one user's curve is expected to lie from the shipped one. In simulation (base rates 0.1 and 0.4): a
# user like the ones it was fitted on loses at most 0.011 nats of log-loss, at any n; for one whose log-odds
# lie 1.5 off, the excess of the shipped curve (0.2 nats) is halved by 10 labels, down to a third by 20, and
# to an eighth by 50. Twice the spread does the latter in half the labels, and costs the former up to 0.04.
SLOPE_SD = 0.25
INTERCEPT_SD = 0.5


@attrs.frozen
class RefitResult:
    """What a refit did.

    n: labels it was given.
    before, after: the present and the new calibrator on the same labels, unseen by both: logLoss, brier,
        skill, ece, meanConfidence (None where undefined); None if it did not come to a comparison.
    calibrator: the new one if it was promoted, to be put in force by `Shelf.promote`.
    """

    promoted: bool
    reason: str
    n: int
    before: dict[str, float | None] | None = None
    after: dict[str, float | None] | None = None
    calibrator: Calibrator | None = None

    def to_wire(self) -> dict[str, Any]:
        """The result as JSON types, as `lsp-calib.refit` answers it."""
        return {
            "promoted": self.promoted,
            "reason": self.reason,
            "n": self.n,
            "before": self.before,
            "after": self.after,
            "calibrator": attrs.asdict(self.calibrator.ref) if self.calibrator else None,
        }


def refit(
    current: Calibrator,
    log_probabilities: Sequence[Sequence[float]],
    correct: npt.ArrayLike,
    *,
    created: str,
    base: Calibrator | None = None,
    fresh: int | None = None,
) -> RefitResult:
    """Fit a personal calibrator on all of a user's labels, and compare it with the present one.

    current: in force now.
    log_probabilities: n sequences of token log-probabilities, oldest label first. correct: bool array of
        shape (n,).
    created: ISO date of today.
    base: the calibrator that the new one is drawn towards, fitted without these labels (`Shelf.choose` with
        personal=False); None: `current`, which then must not be a personal one.
    fresh: how many of the labels, counted from the newest, `current` was not fitted on. None: all of them, or
        for a personal `current` those beyond its own n.
    It is promoted if there are at least 5 labels, and on the fresh ones (at least 5) its out-of-fold log loss
    (leave-one-out up to 50 labels, 5 folds beyond) is not above that of `current`. Labels that `current` has
    seen would make it look better than it is.
    Raises DataError on labels and log-probabilities that do not fit together.
    """
    if base is None:
        base = current
    if base.source == "personal":
        raise DataError(
            "A refit needs the calibrator that the personal one is drawn towards: pass it as base."
        )
    raw = _raw(base, log_probabilities)
    raw, labels = paired(raw, correct, empty=True)
    n = labels.size
    if fresh is None:
        fresh = n - current.n if current.source == "personal" else n
    fresh = min(fresh, n)
    if n < MIN_LABELS:
        return RefitResult(False, f"not enough labels yet: {n} of {MIN_LABELS}", n)
    if fresh < MIN_LABELS:
        reason = f"not enough new labels yet: {max(fresh, 0)} of {MIN_LABELS} since {current.id}"
        return RefitResult(False, reason, n)

    prior = _prior(base)

    def fit(raw: FloatArray, correct: BoolArray) -> PlattCalibrator:
        # Plain targets: the prior is informative already. Smoothed ones would raise a confidence of 0.1 after
        # five suggestions that, as it said, were wrong.
        return PlattCalibrator.fit(raw, correct, prior=prior, targets="plain")

    folds = n if n <= LEAVE_ONE_OUT_TO else 5
    predicted = out_of_fold(raw, labels, np.arange(n), fit, folds=folds)
    unseen = slice(n - fresh, n)
    present = current.platt.predict(_raw(current, log_probabilities[unseen]))
    before = _quality(present, labels[unseen])
    after = _quality(predicted[unseen], labels[unseen])
    fitted = fit(raw, labels)
    old_loss, new_loss = log_loss(present, labels[unseen]), log_loss(predicted[unseen], labels[unseen])
    numbers = f"log loss {new_loss:.3f} against {old_loss:.3f} on {fresh} labels"
    if new_loss > old_loss:
        return RefitResult(False, f"the present calibrator is better: {numbers}", n, before, after)
    if fitted.slope <= 0.0:
        reason = f"the labels contradict the raw confidence: slope {fitted.slope:.2f} on {n} labels"
        return RefitResult(False, reason, n, before, after)
    calibrator = Calibrator(
        purpose=current.purpose,
        measure=base.measure,
        platt=fitted,
        prior=prior,
        n=n,
        n_correct=int(np.count_nonzero(labels)),
        metrics=summarise(predicted, labels),
        provenance=(Origin("feedback", created, n), Origin(base.id, base.created, base.n)),
        source="personal",
        state="learning" if n < READY_FROM else "ready",
        created=created,
        parent=current.id,
    )
    return RefitResult(True, f"the new calibrator is no worse: {numbers}", n, before, after, calibrator)


def _prior(base: Calibrator) -> Prior:
    """Around the base curve; as wide as a borrowed one knows itself to be."""
    if base.source == "prior":
        return base.prior
    return Prior(base.platt.slope, base.platt.intercept, SLOPE_SD, INTERCEPT_SD)


def _raw(calibrator: Calibrator, log_probabilities: Sequence[Sequence[float]]) -> FloatArray:
    measure = by_name(calibrator.measure)
    return np.array([measure(item) for item in log_probabilities], dtype=np.float64)


def _quality(confidence: FloatArray, correct: BoolArray) -> dict[str, float | None]:
    with quietly():  # nan becomes None here
        values = {
            "logLoss": log_loss(confidence, correct),
            "brier": brier_score(confidence, correct),
            "skill": skill_score(confidence, correct),
            "ece": expected_calibration_error(confidence, correct),
            "meanConfidence": float(np.mean(confidence)),
        }
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
