"""The next personal calibrator, from the labels of a user's suggestions; promoted only on evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, paired
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.carrying_over import shift_of
from lsp_calib.calibration.calibrators.curve import Curve, Shift
from lsp_calib.calibration.calibrators.curve_refit import (
    INTERCEPT_SD,
    NOISE,
    SLOPE_SD,
    first_known,
    refit_curve,
)
from lsp_calib.calibration.calibrators.label_weights import LabelWeights
from lsp_calib.calibration.calibrators.promotion import may_replace, of_one_kind
from lsp_calib.calibration.calibrators.promotion_test import ENOUGH, odds_against
from lsp_calib.calibration.calibrators.purpose import Origin, Source
from lsp_calib.calibration.folds import grouped_folds
from lsp_calib.calibration.metrics.scores import (
    brier_score,
    expected_calibration_error,
    log_loss,
    skill_score,
)
from lsp_calib.calibration.validation.intervals import summarise
from lsp_calib.calibration.warnings import quietly
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence

# All three count episodes.
MIN_LABELS = 5
READY_FROM = 50
# Calibrators whose promise was checked before this user: leaving one needs evidence against it.
MEASURED = ("shipped", "workspace")
LEAVE_ONE_OUT_TO = 50

# The origin of labels from a user's own work.
FEEDBACK = "feedback"
# In the provenance of a workspace calibrator: how many of its lines are of the user's commits.
COMMITS = "commits"


@attrs.frozen
class RefitResult:
    """The result of a refit.

    n: episodes it was given: suggestions shown during one visit to one line count once.
    before, after: the present and the new calibrator on the same labels, unseen by both: logLoss, brier,
        skill, ece, meanConfidence (None where undefined); None if they were not compared.
    calibrator: the new one if it was promoted, to be put in force by `CalibratorStore.promote`.
    certificate: where a promise is wanted, what can be promised of the calibrator in force afterwards, as it
        goes to the client; None: none is wanted.
    """

    promoted: bool
    reason: str
    n: int
    before: dict[str, float | None] | None = None
    after: dict[str, float | None] | None = None
    calibrator: Calibrator | None = None
    certificate: dict[str, Any] | None = None

    def to_wire(self) -> dict[str, Any]:
        """The result as JSON types, as `lsp-calib.refit` answers it."""
        return {
            "promoted": self.promoted,
            "reason": self.reason,
            "n": self.n,
            "before": self.before,
            "after": self.after,
            "calibrator": attrs.asdict(self.calibrator.ref) if self.calibrator else None,
            **({} if self.certificate is None else {"certificate": self.certificate}),
        }


@attrs.frozen
class Trial:
    """A calibrator beside the present one, on the same labels, unseen by both. Fields as of `RefitResult`.

    n: visits to a line that were compared.
    """

    promoted: bool
    reason: str
    n: int
    before: dict[str, float | None] | None = None
    after: dict[str, float | None] | None = None


def refit(
    current: Calibrator,
    evidences: Sequence[Evidence],
    correct: npt.ArrayLike,
    *,
    created: str,
    episodes: npt.ArrayLike | None = None,
    base: Calibrator | None = None,
    seen: int | None = None,
    until: str | None = None,
    lines: npt.ArrayLike | None = None,
    shown: npt.ArrayLike | None = None,
    earlier: Calibrator | None = None,
    same_model: bool = True,
) -> RefitResult:
    """Fit a personal calibrator on all of a user's labels, and compare it with the present one.

    current: in force now.
    evidences: of n answers, with log-probabilities, oldest label first. correct: bool array of shape (n,).
    created: ISO date of today.
    episodes: array of shape (n,) of strings or integers: labels that share one come from one visit to one
        line, depend on each other and count as one. None: each label is an episode of its own.
    base: the calibrator that the new one is drawn towards, fitted without these labels
        (`CalibratorStore.base`); None: `current`, which then must not be a personal one.
    seen: how many of the labels, counted from the oldest, `current` was fitted on. None: as many as a
        personal `current` says, otherwise none.
    lines, shown: as for `LabelWeights.of`.
    earlier: the user's calibrator for another prompt or version of the features, or (not `same_model`) for
        another model: where the user's shift is expected until labels say more.
    until: the moment that the new calibrator records as its last label's (`seen_until`); None: `created`.
    Each curve of `base` is shifted by a slope and an intercept, fitted on the labels whose features it needs:
    labels from before there were features count for the plain measures. See `curve_refit` for when its
    weights are fitted as well.
    It is promoted if there are at least 5 episodes with labels of both kinds, and on the fresh ones (no label
    seen; at least 5, of both kinds) its out-of-fold log loss (leave-one-out up to 50 episodes, 5 folds
    beyond) is not above that of `current`, each by the curve that gives the label its confidence. Labels that
    `current` has seen would make it look better than it is. The first personal calibrator also needs evidence
    that `current` is wrong for this user, if that was measured on others (`promotion_test.odds_against`):
    one that is right for them is ever replaced with a probability of at most 1 in 5.
    Raises DataError on labels, evidence and episodes that do not fit together.
    """
    if base is None:
        base = current
    if base.source == "personal":
        raise DataError(
            "A refit needs the calibrator that the personal one is drawn towards: pass it as base."
        )
    _, labels = paired(np.zeros(len(evidences)), correct, empty=True)
    counting = LabelWeights.of(labels.size, episodes, lines, shown)
    codes, visits, weights = counting.visits, counting.visited(), counting.weights()
    n = round(float(visits.sum()))
    fresh = _fresh(codes, _seen(current) if seen is None else seen)
    n_fresh = round(float(visits[fresh].sum()))
    if refusal := _too_few(labels, fresh, n, n_fresh, current):
        return RefitResult(False, refusal, n)

    fold = grouped_folds(codes, np.unique(codes).size if n <= LEAVE_ONE_OUT_TO else 5)
    refitted = [
        refit_curve(
            curve,
            base.source,
            evidences,
            labels,
            counting,
            fold,
            expected=_expected(earlier, curve, base.source, same_model=same_model),
        )
        for curve in base.curves
    ]
    predicted = first_known([one.predicted for one in refitted])
    present = current.probabilities(list(compress(evidences, fresh)))
    if np.isnan(predicted).any() or np.isnan(present).any():
        raise DataError("A label without valid log-probabilities says nothing about a calibrator.")
    judged = (labels[fresh], weights[fresh])
    before, after = _quality(present, *judged), _quality(predicted[fresh], *judged)
    promoted, reason = may_replace(
        min(one.slope for one in refitted),
        predicted[fresh],
        present,
        *judged,
        compared=f"{n_fresh} labels",
        used=f"{n} labels",
    )
    # A user's own was put in force by this test, and a borrowed prior was never right for anybody.
    if promoted and current.source in MEASURED:
        expected = _expected(earlier, current.curves[0], current.source, same_model=same_model)
        odds = odds_against(
            current.probabilities(evidences), labels, counting, noise=NOISE, expected=expected
        )
        promoted, reason = odds >= ENOUGH, _in_words(odds, n, reason)
    if not promoted:
        return RefitResult(False, reason, n, before, after)
    calibrator = Calibrator(
        purpose=current.purpose,
        curves=tuple(one.curve for one in refitted),
        raw_measure=base.raw_measure,
        n=n,
        n_correct=round(float(visits @ labels)),
        metrics=summarise(predicted, labels, codes),
        provenance=(
            Origin(FEEDBACK, until or created, labels.size),
            Origin(base.id, base.created, base.n),
        ),
        source="personal",
        state="learning" if n < READY_FROM else "ready",
        created=created,
        parent=current.id,
        # A user's labels of alternatives are few: these stay as they were.
        ranks=base.ranks,
    )
    return RefitResult(True, reason, n, before, after, calibrator)


def _expected(earlier: Calibrator | None, curve: Curve, source: Source, *, same_model: bool) -> Shift | None:
    """Where the user's shift of a curve is expected, given an earlier one; None: nowhere else than at none.

    The deviations are those of a user of whom nothing is known, although something is: prompts differ as
    well. Between models, they are as wide as two such deviations together. A borrowed prior keeps its own,
    wider one.
    """
    shift = None if earlier is None else shift_of(earlier, curve)
    if shift is None:
        return None
    wider = 1.0 if same_model else math.sqrt(2.0)
    slope_sd, intercept_sd = wider * SLOPE_SD, wider * INTERCEPT_SD
    if source == "prior" and curve.shift is not None:
        slope_sd, intercept_sd = curve.shift.slope_sd, curve.shift.intercept_sd
    return attrs.evolve(shift, slope_sd=slope_sd, intercept_sd=intercept_sd)


def compare(
    new: Calibrator,
    current: Calibrator,
    evidences: Sequence[Evidence],
    correct: npt.ArrayLike,
    *,
    episodes: npt.ArrayLike,
    seen: int,
    new_seen: int = 0,
    lines: npt.ArrayLike | None = None,
    shown: npt.ArrayLike | None = None,
) -> Trial:
    """Compare a calibrator that was not fitted just now with the present one, by the rule of a refit.

    seen, new_seen: how many labels, counted from the oldest, `current` and `new` were fitted on; they would
        make it look better than it is. The other arguments are those of `refit`.
    Raises DataError on labels, evidence and episodes that do not fit together.
    """
    _, labels = paired(np.zeros(len(evidences)), correct, empty=True)
    counting = LabelWeights.of(labels.size, episodes, lines, shown)
    visits = counting.visited()
    fresh = _fresh(counting.visits, max(seen, new_seen))
    known = np.isfinite(new.probabilities(evidences)) & np.isfinite(current.probabilities(evidences))
    judged = fresh & known
    n = round(float(visits[judged].sum()))
    last = new if new_seen > seen else current
    if refusal := _too_few(labels, judged, round(float(visits.sum())), n, last):
        return Trial(False, refusal, n)
    weights = counting.weights()[judged]
    chosen = list(compress(evidences, judged))
    one, other = new.probabilities(chosen), current.probabilities(chosen)
    promoted, reason = may_replace(
        1.0, one, other, labels[judged], weights, compared=f"{n} labels", used=f"{n} labels"
    )
    data = labels[judged], weights
    return Trial(promoted, reason, n, _quality(other, *data), _quality(one, *data))


def _too_few(labels: BoolArray, fresh: BoolArray, n: int, n_fresh: int, last: Calibrator) -> str:
    """Why labels do not suffice for a comparison; empty if they do. n, n_fresh: visits, and those unseen.
    last: the calibrator that has seen the latest label."""
    if n < MIN_LABELS:
        return f"not enough labels yet: {n} of {MIN_LABELS}"
    if n_fresh < MIN_LABELS:
        return f"not enough new labels yet: {n_fresh} of {MIN_LABELS} since {last.id}"
    return of_one_kind(labels, f"{n} labels") or of_one_kind(labels[fresh], f"{n_fresh} new labels")


def seen_until(calibrator: Calibrator) -> str | None:
    """The `until` of the refit that made a calibrator; None if it was not fitted on a user's labels."""
    return next((origin.version for origin in calibrator.provenance if origin.name == FEEDBACK), None)


def _in_words(odds: float, n: int, reason: str) -> str:
    if odds >= ENOUGH:
        return f"the present calibrator is not right for you (odds of {odds:.0f} to 1), {reason}"
    return (
        f"not enough evidence yet that the present calibrator is wrong for you: odds of {odds:.1f} to 1 from "
        f"{n} labels, and {ENOUGH:.0f} to 1 are needed"
    )


def _seen(calibrator: Calibrator) -> int:
    """How many labels a personal calibrator was fitted on: its n counts episodes."""
    if calibrator.source != "personal":
        return 0
    counts = [origin.items for origin in calibrator.provenance if origin.name == FEEDBACK]
    return counts[0] if counts else calibrator.n


def _fresh(codes: IntArray, seen: int) -> BoolArray:
    """The labels, shape (n,), of episodes that have no label among the first `seen`."""
    fresh: BoolArray = ~np.isin(codes, codes[: max(seen, 0)])
    return fresh


def _quality(confidence: FloatArray, correct: BoolArray, weights: FloatArray) -> dict[str, float | None]:
    with quietly():  # nan becomes None here
        values = {
            "logLoss": log_loss(confidence, correct, weights=weights),
            "brier": brier_score(confidence, correct, weights=weights),
            "skill": skill_score(confidence, correct, weights=weights),
            "ece": expected_calibration_error(confidence, correct, weights=weights),
            "meanConfidence": float(np.average(confidence, weights=weights)),
        }
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
