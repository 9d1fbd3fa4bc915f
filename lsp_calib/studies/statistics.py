"""How confidences are rescaled, and what the numbers of the studies are worth: fits, one bootstrap, one band.

Pure. A confidence is its natural logarithm, so that the probability of a long answer loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import attrs
import numpy as np
import numpy.typing as npt
import scipy.stats
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_curve
from sklearn.model_selection import KFold

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.calibration.scores import auc, bin_index, expected_calibration_error
from lsp_calib.calibration.validation import LEVEL, Interval, percentile_interval

FOLDS = 5
RESAMPLES = 1000

# There is no logarithm of a stated 0, nor log-odds of a 1: these stand for them.
_ZERO, _ONE = math.log(1e-6), math.log1p(-1e-6)


@attrs.frozen(eq=False)
class Lines:
    """probability = sigmoid(slope * x + intercept), for m problems at once: both of shape (m, 1), or (1,)."""

    slope: FloatArray
    intercept: FloatArray

    def predict(self, x: FloatArray) -> FloatArray:
        return np.asarray(expit(self.slope * x + self.intercept))


def line(
    x: FloatArray,
    correct: BoolArray,
    ridge: float = 1e-12,
    intercept: bool = True,
    weights: FloatArray | float = 1.0,
) -> Lines:
    """Logistic regression over one number, by Newton's method; a step that makes it worse is halved.

    x, correct: of shape (n,), or one or both (m, n) for m fits at once, as permutations and choices need.
    ridge: 1 / C of scikit-learn, which does not weigh on the intercept; so little of it is maximum
    likelihood, but finite where a threshold separates right from wrong. The result is that of scikit-learn.
    weights: of the answers, shape (n,) or (m, n): 0 for those that a fit leaves out.
    """
    centre = x.mean(axis=-1, keepdims=True) * intercept
    spread = np.sqrt(np.mean((x - centre) ** 2, axis=-1, keepdims=True))
    spread = np.where(spread > 0.0, spread, 1.0)
    z, penalty = (x - centre) / spread, ridge / spread**2

    def total(values: FloatArray | BoolArray) -> FloatArray:
        return np.asarray(np.sum(weights * values, axis=-1, keepdims=True))

    def loss(slope: FloatArray, constant: FloatArray) -> FloatArray:
        odds = slope * z + constant
        return total(np.logaddexp(0.0, odds) - correct * odds) + penalty * slope**2 / 2.0

    rate = np.clip(total(correct) / total(np.ones_like(x)), 1e-9, 1.0 - 1e-9)
    slope = np.zeros(np.broadcast_shapes(spread.shape, rate.shape))
    constant = slope + np.log(rate / (1.0 - rate)) * intercept
    reached = loss(slope, constant)
    for _ in range(100):
        p = expit(slope * z + constant)
        curved, missed = p * (1.0 - p), p - correct
        uphill, level = total(missed * z) + penalty * slope, total(missed) * intercept
        across, both = total(curved * z * z) + penalty + 1e-12, total(curved * z) * intercept
        upright = total(curved) + 1e-12
        determinant = across * upright - both * both
        tilt = (upright * uphill - both * level) / determinant
        shift = (across * level - both * uphill) / determinant
        for _ in range(40):
            ahead = slope - tilt, constant - shift
            found = loss(*ahead)
            # A difference of rounding alone is none.
            worse = ~(found <= reached * (1.0 + 1e-13) + 1e-13)
            if not worse.any():
                break
            tilt, shift = np.where(worse, tilt / 2.0, tilt), np.where(worse, shift / 2.0, shift)
        (slope, constant), reached = ahead, found
        if max(np.abs(tilt).max(), np.abs(shift).max()) < 1e-9:
            break
    return Lines(slope / spread, constant - slope * centre / spread)


Rescaling = Callable[[FloatArray, BoolArray, FloatArray], FloatArray]
"""Fits a curve on log p and labels, both of shape (n,), and predicts at other log p."""


@attrs.frozen
class Platt:
    """A study's line over some input that is made of log p. ridge, intercept: as for `line`."""

    input: Callable[[FloatArray], FloatArray]
    ridge: float = 1e-12
    intercept: bool = True

    def held_out(self, log_p: FloatArray, correct: BoolArray, fold: IntArray) -> FloatArray:
        """As the function `held_out`, with all folds and all labels in one fit; of the shape of correct."""
        x = self.input(log_p)
        folds = np.arange(int(fold.max()) + 1).reshape(-1, *(1,) * correct.ndim)
        fitted = line(x, correct, self.ridge, self.intercept, (folds != fold).astype(np.float64))
        at = fold.reshape(*(1,) * correct.ndim, -1)
        return np.asarray(np.take_along_axis(fitted.predict(x), at, axis=0)[0])


def _finite(log_p: FloatArray) -> FloatArray:
    return np.where(np.isneginf(log_p), _ZERO, log_p)


def _log_odds(log_p: FloatArray) -> FloatArray:
    below = np.minimum(_finite(log_p), _ONE)
    return below - np.log1p(-np.exp(below))


def _isotonic(log_p: FloatArray, correct: BoolArray, others: FloatArray) -> FloatArray:
    curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(np.exp(log_p), correct)
    return np.asarray(curve.predict(np.exp(others)))


def _histogram(log_p: FloatArray, correct: BoolArray, others: FloatArray) -> FloatArray:
    """The share right in each of ten bins of equal width; the base rate in an empty one."""
    index = bin_index(np.exp(log_p), 10, "width")
    count, right = np.bincount(index, minlength=10), np.bincount(index, weights=correct, minlength=10)
    shares = np.where(count > 0, right / np.maximum(count, 1), np.mean(correct))
    return np.asarray(shares[bin_index(np.exp(others), 10, "width")])


def fit_curve(raw: npt.ArrayLike, correct: npt.ArrayLike) -> PlattCalibrator:
    """Fit as for calibrators of the model's own probabilities; see `fitting.fit_calibrator`."""
    return PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR)


ON_LN_P, ON_P, ON_LOG_ODDS = "Platt on ln p", "Platt on p", "Platt on log-odds, L2"
OURS = "Platt on log-odds, prior"
"""How this project rescales a single measure."""
RESCALINGS: Mapping[str, Platt | Rescaling] = MappingProxyType(
    {
        ON_LN_P: Platt(_finite),
        ON_P: Platt(np.exp),
        ON_LOG_ODDS: Platt(_log_odds, ridge=1.0),
        OURS: lambda log_p, correct, others: fit_curve(np.exp(log_p), correct).predict(np.exp(others)),
        "temperature": Platt(_log_odds, intercept=False),
        "isotonic": _isotonic,
        "histogram": _histogram,
    }
)
"""Curves over the natural logarithm of a confidence, which nothing clips.

ln p: Spiess et al. p: the text of Virk et al.; their script takes log-odds with scikit-learn's default, L2 at
C = 1. Log-odds end at 1 - 1e-6.
"""


def held_out(
    log_p: FloatArray, correct: BoolArray, fold: IntArray, rescaling: Platt | Rescaling
) -> FloatArray:
    """Each answer's prediction by what is fitted on the other folds; 0 for an answer without a token, which
    no fit counts. log_p, fold: of shape (n,). correct: of shape (n,), or (m, n) for a line of a study."""
    predicted = np.zeros(correct.shape)
    known = ~np.isnan(log_p)
    if isinstance(rescaling, Platt):
        predicted[..., known] = rescaling.held_out(log_p[known], correct[..., known], fold[known])
        return predicted
    for k in range(int(fold.max()) + 1):
        test, train = known & (fold == k), known & (fold != k)
        predicted[test] = rescaling(log_p[train], correct[train], log_p[test])
    return predicted


def random_folds(n: int, seed: int = 0) -> IntArray:
    """Five random folds of n items, whatever they belong to, as Spiess et al. have them. Shape (n,)."""
    fold = np.empty(n, dtype=np.intp)
    for k, (_, test) in enumerate(KFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(n))):
        fold[test] = k
    return fold


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """nan where it is undefined."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below != 0.0))


def _skills(confidence: FloatArray, correct: BoolArray) -> FloatArray:
    """The skill of each row, shape (m,); nan if all are of one class."""
    rate = np.mean(correct, axis=-1)
    return np.asarray(1.0 - _ratio(np.mean((confidence - correct) ** 2, axis=-1), rate * (1.0 - rate)))


class Resamples:
    """The same resamples of whole groups, for the interval of every number of some answers.

    A resample is the number of times that each group is drawn, so that sums over items are products of
    matrices. The draws are those of `bootstrap_interval` and `calibrated_band` with the same seed, and so are
    the intervals. Confidences and other numbers of the items are arrays of shape (n,).
    """

    def __init__(
        self, correct: BoolArray, groups: npt.ArrayLike, *, count: int = RESAMPLES, seed: int = 0
    ) -> None:
        self.correct = correct
        self._codes = group_codes(groups, correct.size)
        self._seed = seed
        k = int(self._codes.max()) + 1
        rng = np.random.default_rng(seed)
        self._drawn = np.array([np.bincount(rng.integers(k, size=k), minlength=k) for _ in range(count)])
        self._enough = k >= 2
        self._n = self._sums(np.ones(correct.size))
        rate = self._sums(correct.astype(np.float64)) / self._n
        self._reference = rate * (1.0 - rate)

    def skill(self, confidence: FloatArray) -> Interval:
        """The Brier skill score."""
        return self._interval(float(_skills(confidence, self.correct)), self.skills(confidence))

    def skill_difference(self, first: FloatArray, second: FloatArray) -> Interval:
        """The skill of the first minus that of the second, on the same resamples."""
        value = _skills(np.stack((first, second)), self.correct)
        return self._interval(value[0] - value[1], self.skills(first) - self.skills(second))

    def mean(self, values: FloatArray) -> Interval:
        return self._interval(float(np.mean(values)), self._sums(values) / self._n)

    def ratio(self, numerator: FloatArray, denominator: FloatArray) -> Interval:
        """The sum of one number of the items over that of another."""
        total = float(np.sum(denominator))
        value = float(np.sum(numerator)) / total if total else np.nan
        return self._interval(value, _ratio(self._sums(numerator), self._sums(denominator)))

    def auc(self, confidence: FloatArray) -> Interval:
        """The area under the ROC curve."""
        # How often wrong answers up to each place of the order are drawn; equal confidences count half.
        order = np.argsort(confidence, kind="stable")
        ranked = confidence[order]
        weights = self._drawn[:, self._codes[order]].astype(np.float32)
        wrong = np.zeros((weights.shape[0], ranked.size + 1), dtype=np.float32)
        np.cumsum(weights * ~self.correct[order], axis=1, out=wrong[:, 1:])
        places = np.flatnonzero(self.correct[order])
        begins, ends = (np.searchsorted(ranked, ranked[places], side) for side in ("left", "right"))
        right = weights[:, places]
        above = np.asarray(np.sum(right * (wrong[:, begins] + wrong[:, ends]), axis=1, dtype=np.float64)) / 2
        positive = right.sum(axis=1, dtype=np.float64)
        found = _ratio(above, positive * (self._n - positive))
        return self._interval(auc(confidence, self.correct), found)

    def ece(self, confidence: FloatArray) -> Interval:
        """The ECE, and the range that it would have if each confidence were exactly right."""
        index = bin_index(confidence, 10, "width")
        inside = (index[:, None] == np.arange(10)).astype(np.float32)
        hits = (self._dice < confidence).astype(np.float32) @ inside
        expected = np.bincount(index, weights=confidence, minlength=10)
        drawn = np.abs(hits - expected).sum(axis=1) / confidence.size
        value = expected_calibration_error(confidence, self.correct)
        return percentile_interval(value, drawn, "calibrated-band")

    def eces(self, confidence: FloatArray) -> FloatArray:
        """The ECE on each resample, shape (count,)."""
        index = bin_index(confidence, 10, "width")
        gaps = [self._sums((confidence - self.correct) * (index == k)) for k in range(10)]
        return np.asarray(np.sum(np.abs(gaps), axis=0) / self._n)

    def skills(self, confidence: FloatArray) -> FloatArray:
        """The skill on each resample, shape (count,)."""
        brier = self._sums((confidence - self.correct) ** 2) / self._n
        return np.asarray(1.0 - _ratio(brier, self._reference))

    @cached_property
    def _dice(self) -> FloatArray:
        return np.random.default_rng(self._seed).random((self._drawn.shape[0], self.correct.size))

    def _sums(self, values: FloatArray) -> FloatArray:
        """The sum over each resample, shape (count,)."""
        return np.asarray(self._drawn @ np.bincount(self._codes, weights=values))

    def _interval(self, value: float, drawn: FloatArray) -> Interval:
        drawn = drawn if self._enough else np.full(drawn.size, np.nan)
        return percentile_interval(float(value), drawn)


@attrs.frozen
class BoundedError:
    """The ECE of a subset of n items. limit: a calibrated score exceeds it in no subset, at LEVEL."""

    n: int
    value: float
    limit: float

    @property
    def inside(self) -> bool:
        return self.value <= self.limit


def simultaneous_errors(
    p: FloatArray,
    correct: BoolArray,
    subsets: Mapping[str, BoolArray],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, BoundedError]:
    """The ECE of each subset, with limits that hold for all of them at once.

    p: confidences. subsets: masks, by name; empty ones are left out. All arrays of shape (n,).
    Outcomes are drawn for all items, with the confidences as their probabilities. Each draw gives one ECE for
    each subset, standardised by its mean and spread over the draws. The LEVEL quantile of the largest of
    them is the common limit: if every confidence is exactly right, all errors lie below their limits with
    that probability. Checking each subset against a band of its own would find one of five outside in up to
    23 % of the cases. There are no lower limits: an ECE can be too large, but not too small.
    Source: Brocker & Smith 2007 (consistency resampling); the maximum of standardised statistics as in
    Westfall & Young 1993.
    """
    filled = {name: mask for name, mask in subsets.items() if mask.any()}
    inside = bin_index(p, 10, "width")[:, None] == np.arange(10)

    def errors(labels: BoolArray) -> FloatArray:
        """Of each row of labels in each subset, shape (rows, subsets)."""
        gaps = labels - p
        sums = [np.abs(gaps @ (inside * mask[:, None])).sum(axis=1) / mask.sum() for mask in filled.values()]
        return np.stack(sums, axis=1)

    drawn = errors(np.random.default_rng(seed).random((resamples, p.size)) < p)
    mean, spread = drawn.mean(axis=0), drawn.std(axis=0)
    standardised = (drawn - mean) / np.where(spread > 0.0, spread, 1.0)
    limits = mean + np.quantile(standardised.max(axis=1), LEVEL) * spread
    return {
        name: BoundedError(int(np.count_nonzero(mask)), float(value), float(limit))
        for (name, mask), value, limit in zip(filled.items(), errors(correct[None])[0], limits, strict=True)
    }


@attrs.frozen
class Corrected:
    """Out-of-fold skill less what chance gives it.

    bias: its mean over labels permuted within the folds, below 0: what is left out has a share right that
    differs from the rest, in the other direction. skill: less that; its interval is moved as well, and
    widened by the spread of the permutations, which is that of the fit.
    p_value: of chance alone, one-sided: the share of permutations with a skill as high.
    """

    skill: Interval
    bias: float
    p_value: float


def corrected_skill(
    log_p: FloatArray,
    fold: IntArray,
    platt: Platt,
    resamples: Resamples,
    *,
    draws: int = 200,
    seed: int = 0,
) -> Corrected:
    """The skill of a confidence that is rescaled out of fold, corrected for its bias under chance labels.

    log_p, fold: arrays of shape (n,), folds 0 .. k-1. The labels are those of the resamples.
    """
    correct = resamples.correct
    found = resamples.skill(held_out(log_p, correct, fold, platt))
    rng = np.random.default_rng(seed)
    labels = np.tile(correct, (draws, 1))
    for k in range(int(fold.max()) + 1):
        labels[:, fold == k] = rng.permuted(labels[:, fold == k], axis=1)
    chance = _skills(held_out(log_p, labels, fold, platt), labels)
    bias = float(chance.mean())
    as_high = (1 + int(np.count_nonzero(chance >= (found.value or 0.0)))) / (draws + 1)
    if found.value is None or found.low is None or found.high is None:
        return Corrected(found, bias, as_high)
    # The bootstrap takes the fit as given: what it varies by itself is added to the variance.
    spread = (found.high - found.low) / (2.0 * scipy.stats.norm.ppf(0.975))
    wider = math.hypot(1.0, float(chance.std()) / spread) if spread else 1.0
    value = found.value - bias
    low, high = value - wider * (found.value - found.low), value + wider * (found.high - found.value)
    return Corrected(Interval(value, low, high), bias, as_high)


def least_effect(found: Interval, power: float = 0.8) -> float | None:
    """The least effect that data of this size show with this power, at a two-sided level of 5 %.

    By the normal approximation, with the standard error that the interval has. None without an interval.
    """
    if found.low is None or found.high is None:
        return None
    level, wanted = scipy.stats.norm.ppf([0.975, power])
    return float((level + wanted) * (found.high - found.low) / (2.0 * level))


def paired_p_value(first: FloatArray, second: FloatArray, correct: BoolArray) -> float:
    """The two-sided p of a paired t-test on the squared errors of two confidences; 1 if they are the same.

    Items count as independent, as in Virk et al. 2024, 4.7; see `Resamples.skill_difference` for groups.
    """
    differences = (first - correct) ** 2 - (second - correct) ** 2
    return float(scipy.stats.ttest_1samp(differences, 0.0).pvalue) if np.ptp(differences) else 1.0


def adjusted(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being many: significant at a level alpha where this is at most alpha.

    Source: Benjamini & Hochberg 1995.
    """
    found: list[float] = scipy.stats.false_discovery_control(p_values).tolist() if p_values else []
    return found


def rank_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's correlation; None for fewer than 3 items, or if one of the two is constant."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.size < 3 or x.min() == x.max() or y.min() == y.max():
        return None
    return float(np.corrcoef(scipy.stats.rankdata(x), scipy.stats.rankdata(y))[0, 1])


def roc(confidence: FloatArray, correct: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """False and true positive rates, ascending, and the thresholds from which on an answer is accepted."""
    false, true, thresholds = roc_curve(correct, confidence)
    return false, true, thresholds
