"""One curve moved towards a user's labels: by slope and intercept, and with many labels by its weights."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.calibrators.curve import Curve, Shift, Weighted
from lsp_calib.calibration.calibrators.label_weights import LabelWeights
from lsp_calib.calibration.methods.log_odds import sigmoid
from lsp_calib.calibration.methods.newton import maximise_posterior, sigmoid_and_loss
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
    source: str,
    evidences: Sequence[Evidence],
    correct: BoolArray,
    counting: LabelWeights,
    fold: IntArray,
    *,
    expected: Shift | None = None,
) -> RefittedCurve:
    """The curve under a Gaussian around the original one, on the labels that have its features.

    source: of the original calibrator: a "prior" brings its own spread as its shift.
    evidences: of n answers. correct: bool array, fold: 0 .. k-1, both of shape (n,). counting: of them.
    expected: where the Gaussian of slope and intercept is centred, with its deviations; None: at 1 and 0.
    From WEIGHTS_FROM episodes the weights are fitted as well, each under a Gaussian around its shipped value,
    and kept if they predict the folds left out better than the shift does.
    Raises DataError as `Curve.score` does.
    """
    scores = base.scores(evidences)
    known = np.isfinite(scores)
    weights = counting.weights(known)
    scores = np.clip(scores, -_MOST_SCORE, _MOST_SCORE)
    prior = Shift(slope_sd=SLOPE_SD, intercept_sd=INTERCEPT_SD)
    if source == "prior" and base.shift is not None:
        prior = base.shift
    if expected is not None:
        prior = expected
    design = np.column_stack((np.where(known, scores, 0.0), np.ones(scores.size)))
    deviations = np.array([prior.slope_sd, prior.intercept_sd])
    problem = _Problem(design, correct, weights, known, np.array([prior.slope, prior.intercept]), deviations)
    slope, intercept = problem.fit(known).tolist()
    moved = Shift(slope, intercept, slope_sd=prior.slope_sd, intercept_sd=prior.intercept_sd)
    shifted = RefittedCurve(base.shifted(moved), problem.held_out(fold), slope)
    if len(base.features) > 1 and counting.visited(known).sum() >= WEIGHTS_FROM:
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
    base: FloatArray | float = 0.0

    def fit(self, items: BoolArray) -> FloatArray:
        """The coefficients, shape (d,), most probable given these items."""
        # Plain targets: the prior is informative already. Smoothed targets would raise a confidence of 0.1
        # after five suggestions that were wrong, as that confidence predicts.
        base = self.base if isinstance(self.base, float) else self.base[items]
        coefficients, _ = maximise_posterior(
            self.design[items],
            self.correct[items].astype(np.float64),
            self.weights[items],
            self.mean,
            self.deviations**-2.0,
            base,
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
                predicted[test] = sigmoid(
                    z + (self.base if isinstance(self.base, float) else self.base[test])
                )
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
    curve = attrs.evolve(
        base,
        features=tuple(
            Weighted(feature.name, feature.mean, feature.scale, weight)
            for feature, weight in zip(base.features, weights, strict=True)
        ),
        intercept=intercept,
        spread=WEIGHT_SD,
        shift=moved,
    )
    return RefittedCurve(curve, problem.held_out(fold), 1.0)
