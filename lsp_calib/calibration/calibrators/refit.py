"""The next personal calibrator, from the labels of a user's suggestions; promoted only on evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, paired
from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve, Shift
from lsp_calib.calibration.calibrators.lent import shift_of
from lsp_calib.calibration.calibrators.promotion import (
    ENOUGH,
    LabelWeights,
    may_replace,
    odds_against,
    odds_for,
    of_one_kind,
)
from lsp_calib.calibration.calibrators.purpose import LENT, Origin, Source
from lsp_calib.calibration.logistic import maximise_posterior, sigmoid, sigmoid_and_loss
from lsp_calib.calibration.validation import Quality, grouped_folds, summarise
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence

# How far one user's curve is expected to lie from the shipped one: slope and intercept over its score. In
# simulation (base rates 0.1 and 0.4): a user like the ones it was fitted on loses at most 0.011 nats of
# log-loss, at any n; for one whose log-odds lie 1.5 off, the excess of the shipped curve (0.2 nats) is halved
# by 10 labels, down to a third by 20, and to an eighth by 50. Twice the spread needs half the labels for the
# latter user, and costs the former up to 0.04.
SLOPE_SD = 0.25
INTERCEPT_SD = 0.5

# Visits to a line from which the weights themselves are tried, and how far each is expected to lie from the
# shipped one, in nats by standard deviation of its feature. Below, slope and intercept say all that labels
# support.
WEIGHTS_FROM = 300
WEIGHT_SD = 0.25

# How many labels are expected to be wrong: a keystroke too many, a line kept unread, a damaged store.
# Without it a few wrong labels on answers that are all but certain decide the slope: in simulation
# (tests/validity/test_poisoned_labels.py) 5 % of flipped labels cost 0.009 Brier, with it less than 0.0015.
# Source: Copas 1988, the transposition model.
NOISE = 0.02

# Scores, and features in standard deviations, beyond this are no further evidence: one absurd number must not
# decide a slope.
_MOST_SCORE = 30.0


@attrs.frozen(eq=False)
class RefittedCurve:
    """A curve fitted on a user's labels.

    predicted: float array of shape (n,): each label by a fit without its fold; nan where a feature is
    missing. slope: over the score of the original curve; 1 for a curve with weights of its own.
    """

    curve: Curve
    predicted: FloatArray
    slope: float


def refit_curve(
    base: Curve,
    expected: Shift,
    evidences: Sequence[Evidence],
    correct: BoolArray,
    counting: LabelWeights,
    fold: IntArray,
) -> RefittedCurve:
    """The curve under a Gaussian around the original one, on the labels that have its features.

    expected: where the Gaussian of slope and intercept is centred, with its deviations (`expected_shift`).
    evidences: of n answers. correct: bool array, fold: 0 .. k-1, both of shape (n,). counting: of them.
    From WEIGHTS_FROM episodes the weights are fitted as well, each under a Gaussian around its shipped value,
    and kept if they predict the folds left out better than the shift does.
    Raises DataError as `Curve.score` does.
    """
    scores = base.scores(evidences)
    known = np.isfinite(scores)
    weights = counting.weights(known)
    scores = np.clip(scores, -_MOST_SCORE, _MOST_SCORE)
    design = np.column_stack((np.where(known, scores, 0.0), np.ones(scores.size)))
    mean = np.array([expected.slope, expected.intercept])
    deviations = np.array([expected.slope_sd, expected.intercept_sd])
    problem = _Problem(design, correct, weights, known, mean, deviations, np.zeros(scores.size))
    slope, intercept = problem.fit(known).tolist()
    moved = replace(expected, slope=slope, intercept=intercept)
    shifted = RefittedCurve(base.shifted(moved), problem.held_out(fold), slope)
    if len(base.features) > 1 and counting.counted(known).sum() >= WEIGHTS_FROM:
        weighted = _weighted(base, evidences, problem, fold, moved)
        if problem.loss(weighted.predicted) < problem.loss(shifted.predicted):
            return weighted
    return shifted


def first_known(predictions: Sequence[FloatArray]) -> FloatArray:
    """For each label the first prediction that is not nan, shape (n,)."""
    found = predictions[0].copy()
    for predicted in predictions[1:]:
        found = np.where(np.isnan(found), predicted, found)
    return found


@attrs.frozen(eq=False)
class _Problem:
    """A logistic regression whose coefficients have a Gaussian prior.

    design: shape (n, d). correct, weights, known (whether a label counts): shape (n,). mean, deviations: of
    the prior, shape (d,). base: fixed log-odds, shape (n,).
    """

    design: FloatArray
    correct: BoolArray
    weights: FloatArray
    known: BoolArray
    mean: FloatArray
    deviations: FloatArray
    base: FloatArray

    def fit(self, items: BoolArray) -> FloatArray:
        """The coefficients, shape (d,), most probable given these items."""
        # Plain targets: the prior is informative already. Smoothed targets would raise a confidence of 0.1
        # after five suggestions that were wrong, as that confidence predicts.
        coefficients, _ = maximise_posterior(
            self.design[items],
            self.correct[items].astype(np.float64),
            self.weights[items],
            self.mean,
            self.deviations**-2.0,
            self.base[items],
            noise=NOISE,
        )
        return coefficients

    def held_out(self, fold: IntArray) -> FloatArray:
        """Each label by a fit on the other folds; nan where it is not known."""
        predicted = np.full(fold.size, np.nan)
        for k in range(int(fold.max(initial=-1)) + 1):
            test = (fold == k) & self.known
            if test.any():
                z = self.design[test] @ self.fit((fold != k) & self.known)
                predicted[test] = sigmoid(z + self.base[test])
        return predicted

    def loss(self, predicted: FloatArray) -> float:
        """Log loss of predictions of the known labels."""
        p = np.clip(predicted[self.known], 1e-15, 1.0 - 1e-15)
        _, loss = sigmoid_and_loss(np.log(p / (1.0 - p)), self.correct[self.known].astype(np.float64))
        return float(self.weights[self.known] @ loss)


def _weighted(
    base: Curve, evidences: Sequence[Evidence], shift: _Problem, fold: IntArray, moved: Shift
) -> RefittedCurve:
    """The curve with weights of its own. moved: how slope and intercept alone would move it, on record."""
    # A missing feature counts as average.
    columns = np.clip(np.nan_to_num(base.standardised(evidences)), -_MOST_SCORE, _MOST_SCORE)
    problem = attrs.evolve(
        shift,
        design=np.column_stack((columns, np.ones(fold.size))),
        mean=np.array([*(feature.weight for feature in base.features), base.intercept]),
        deviations=np.array([*(WEIGHT_SD for _ in base.features), INTERCEPT_SD]),
        base=base.offsets_at(evidences),
    )
    *weights, intercept = problem.fit(problem.known).tolist()
    curve = replace(
        base,
        features=tuple(replace(f, weight=weight) for f, weight in zip(base.features, weights, strict=True)),
        intercept=intercept,
        spread=WEIGHT_SD,
        shift=moved,
    )
    return RefittedCurve(curve, problem.held_out(fold), 1.0)


# All of these count episodes.
MIN_LABELS = 5
# Before a calibrator of somebody else may replace the present one.
MIN_TRIED = 20
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


def refit(
    current: Calibrator,
    evidences: Sequence[Evidence],
    correct: npt.ArrayLike,
    counting: LabelWeights,
    *,
    created: str,
    base: Calibrator,
    seen: int,
    until: str | None = None,
    earlier: Calibrator | None = None,
    same_model: bool = True,
) -> RefitResult:
    """Fit a personal calibrator on all of a user's labels, and compare it with the present one.

    current: in force now.
    evidences: of n answers, with log-probabilities, oldest label first. correct: bool array of shape (n,).
    counting: of the n labels.
    created: ISO date of today.
    base: the calibrator that the new one is drawn towards, fitted without these labels
        (`CalibratorStore.base`), not a personal one.
    seen: how many of the labels, counted from the oldest, `current` was fitted on.
    earlier: the user's calibrator for another prompt or version of the features, or (not `same_model`) for
        another model: where the user's shift is expected until labels say more.
    until: the moment that the new calibrator records as its last label's (`seen_until`); None: `created`.
    Each curve of `base` is shifted by a slope and an intercept, fitted on the labels whose features it needs:
    labels from before there were features count for the plain measures. See `refit_curve` for when its
    weights are fitted as well.
    It is promoted if there are at least 5 episodes with labels of both kinds, and on the fresh ones (no label
    seen; at least 5, of both kinds) its out-of-fold log loss (leave-one-out up to 50 episodes, 5 folds
    beyond) is not above that of `current`, each by the curve that gives the label its confidence. Labels that
    `current` has seen would make it look better than it is. The first personal calibrator also needs evidence
    that `current` is wrong for this user, if that was measured on others (`promotion.odds_against`):
    one that is right for them is ever replaced with a probability of at most 1 in 5.
    Raises DataError on labels and evidence that do not fit together.
    """
    if base.source == "personal":
        raise DataError(
            "A refit needs the calibrator that the personal one is drawn towards: pass it as base."
        )
    _, labels = paired(np.zeros(len(evidences)), correct, empty=True)
    groups, visits, weights = counting.groups, counting.counted(), counting.weights()
    n = round(float(visits.sum()))
    fresh = _fresh(groups, seen)
    n_fresh = round(float(visits[fresh].sum()))
    if refusal := _too_few(labels, fresh, n, n_fresh, current):
        return RefitResult(False, refusal, n)

    different = np.unique(groups).size
    if different < 2:
        return RefitResult(False, f"all {n} labels are of one line: at least one other is needed", n)
    fold = grouped_folds(groups, different if n <= LEAVE_ONE_OUT_TO else 5)
    refitted = [
        refit_curve(
            curve,
            expected_shift(curve, base.source, earlier, same_model=same_model),
            evidences,
            labels,
            counting,
            fold,
        )
        for curve in base.curves
    ]
    predicted = first_known([one.predicted for one in refitted])
    present = current.probabilities(list(compress(evidences, fresh)))
    if np.isnan(predicted).any() or np.isnan(present).any():
        raise DataError("A label without valid log-probabilities says nothing about a calibrator.")
    judged = (labels[fresh], weights[fresh])
    before, after = (Quality.of(one, *judged).to_wire() for one in (present, predicted[fresh]))
    promoted, reason = may_replace(
        min(one.slope for one in refitted),
        predicted[fresh],
        present,
        *judged,
        compared=f"{n_fresh} labels",
        used=f"{n} labels",
    )
    # A user's own was put in force by this test, and one without labels of the purpose was not checked there.
    if promoted and current.source in MEASURED:
        expected = expected_shift(current.curves[0], current.source, earlier, same_model=same_model)
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
        metrics=summarise(predicted, labels, groups),
        provenance=(
            Origin(FEEDBACK, until or created, labels.size),
            Origin(base.id, base.created, base.n),
        ),
        source="personal",
        state="learning" if n < READY_FROM else "ready",
        created=created,
        parent=current.id,
    )
    return RefitResult(True, reason, n, before, after, calibrator)


def expected_shift(
    curve: Curve, source: Source, earlier: Calibrator | None = None, *, same_model: bool = True
) -> Shift:
    """Where the user's shift of a curve is expected, and how far from there: at that of the user's earlier
    calibrator (of the `same_model`, or not), else at none.

    The deviations are those of a user of whom nothing is known, although something is: prompts differ as
    well. Between models, they are as wide as two such deviations together. A calibrator without labels of
    the purpose (source: its) keeps its own, wider one.
    """
    shift = None if earlier is None else shift_of(earlier, curve)
    wider = 1.0 if shift is None or same_model else math.sqrt(2.0)
    expected = Shift(slope_sd=wider * SLOPE_SD, intercept_sd=wider * INTERCEPT_SD)
    if source in LENT and curve.shift is not None:
        expected = curve.shift
    return expected if shift is None else replace(expected, slope=shift.slope, intercept=shift.intercept)


def compare(
    new: Calibrator,
    current: Calibrator,
    evidences: Sequence[Evidence],
    correct: npt.ArrayLike,
    counting: LabelWeights,
    *,
    seen: int,
    new_seen: int | None = None,
) -> RefitResult:
    """Compare a calibrator that was not fitted just now with the present one, by the rule of a refit.

    seen, new_seen: how many labels, counted from the oldest, `current` and `new` were fitted on; they would
        make it look better than it is. new_seen None: somebody else has fitted `new`. Such a one needs
        MIN_TRIED labels, and evidence against any present one but a borrowed prior, the user's own too.
    The other arguments are those of `refit`. In the result, n counts the visits to a line that were compared.
    Raises DataError on labels and evidence that do not fit together.
    """
    _, labels = paired(np.zeros(len(evidences)), correct, empty=True)
    fresh = _fresh(counting.groups, max(seen, new_seen or 0))
    known = np.isfinite(new.probabilities(evidences)) & np.isfinite(current.probabilities(evidences))
    judged = fresh & known
    n = round(float(counting.counted(judged).sum()))
    last = new if (new_seen or 0) > seen else current
    if refusal := _too_few(labels, judged, round(float(counting.counted().sum())), n, last):
        return RefitResult(False, refusal, n)
    if new_seen is None and n < MIN_TRIED:
        return RefitResult(False, f"not enough labels to try it on: {n} of {MIN_TRIED}", n)
    weights = counting.weights(judged)[judged]
    chosen = list(compress(evidences, judged))
    one, other = new.probabilities(chosen), current.probabilities(chosen)
    promoted, reason = may_replace(
        1.0, one, other, labels[judged], weights, compared=f"{n} labels", used=f"{n} labels"
    )
    tested = MEASURED if new_seen is not None else (*MEASURED, "personal", "pooled")
    if promoted and current.source in tested:
        odds = odds_for(one, other, labels[judged], counting.only(judged), noise=NOISE)
        promoted, reason = odds >= ENOUGH, _in_words(odds, n, reason)
    before, after = (Quality.of(p, labels[judged], weights).to_wire() for p in (other, one))
    return RefitResult(promoted, reason, n, before, after)


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


def _fresh(groups: IntArray, seen: int) -> BoolArray:
    """The labels, shape (n,), of visits to lines that have no label among the first `seen`."""
    fresh: BoolArray = ~np.isin(groups, groups[: max(seen, 0)])
    return fresh
