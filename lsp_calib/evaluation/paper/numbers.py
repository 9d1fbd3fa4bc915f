"""Fits and intervals of many confidences of the same answers at once. Pure.

The studies need hundreds of logistic curves for each table (one for each fold, measure and number of first
tokens) and an interval for each number. Both are computed here as arrays, with the results of
`PlattCalibrator.maximum_likelihood` and `bootstrap_interval`; the tests compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes
from lsp_calib.calibration.logistic import LOOSE_PRIOR, Input, PlattCalibrator, line_inputs, sigmoid
from lsp_calib.calibration.other_curves import (
    BetaCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    TemperatureCalibrator,
)
from lsp_calib.calibration.scores import auc, bin_index, expected_calibration_error
from lsp_calib.calibration.validation import (
    Fit,
    Interval,
    grouped_folds,
    held_out_predictions,
    percentile_interval,
)
from lsp_calib.confidence.measures import arithmetic_mean, geometric_mean
from lsp_calib.errors import DataError

FOLDS = 5
RESAMPLES = 1000
FIRST = tuple(range(1, 20))
"""The numbers of first tokens that Virk et al. try; a shorter answer uses all it has."""

OURS = "Platt on log-odds, prior"
"""How this project rescales a single measure; see `scores.fit_curve`."""

PLATT: Mapping[str, Input] = MappingProxyType(
    {"Platt on ln p": "log-p", "Platt on p": "p", "Platt on log-odds": "log-odds"}
)
"""Plain maximum likelihood over each input: Spiess et al. fit on ln p, Virk et al. on p."""

RESCALINGS: Mapping[str, Fit] = MappingProxyType(
    {
        OURS: partial(PlattCalibrator.fit, prior=LOOSE_PRIOR),
        "temperature": partial(TemperatureCalibrator.fit, spread=1e6),
        "isotonic": partial(IsotonicCalibrator.fit, ends=False),
        "histogram": partial(HistogramCalibrator.fit, smoothing=0.0),
        "beta": BetaCalibrator.fit,
    }
)

# Newton's steps for lines of which the likelihood has a maximum; others are fitted one by one.
_STEPS = 40
_CONVERGED = 1e-10
# A standardised line as steep as this has run away towards a step.
_STEEP = 50.0


def line_fits(x: FloatArray, correct: BoolArray, train: BoolArray) -> FloatArray:
    """Slope and intercept of k logistic lines, each by maximum likelihood on its own items: shape (k, 2).

    x: finite inputs, shape (k, n). correct: shape (n,). train: shape (k, n): the items that a line is fitted
    on. A line whose likelihood has no maximum (separable items, one class, one input) is nan.
    """
    w = train.astype(np.float64)
    n = w.sum(axis=1)
    y = correct.astype(np.float64)
    mean = (w * x).sum(axis=1) / n
    scale = np.sqrt((w * (x - mean[:, None]) ** 2).sum(axis=1) / n)
    rate = (w @ y) / n
    usable = (rate > 0.0) & (rate < 1.0) & (scale > 1e-9)
    z = np.where(usable[:, None], (x - mean[:, None]) / np.where(usable, scale, 1.0)[:, None], 0.0)
    safe = np.where(usable, rate, 0.5)
    slope, intercept = np.zeros(n.size), np.log(safe / (1.0 - safe))
    done = ~usable
    for _ in range(_STEPS):
        p = sigmoid(slope[:, None] * z + intercept[:, None])
        away, bend = w * (p - y), w * p * (1.0 - p)
        g1, g0 = np.einsum("kn,kn->k", away, z), away.sum(axis=1)
        h01, h00 = np.einsum("kn,kn->k", bend, z), bend.sum(axis=1)
        h11 = np.einsum("kn,kn,kn->k", bend, z, z)
        determinant = h11 * h00 - h01 * h01
        steady = ~done & (determinant > 1e-12 * n)
        inverse = np.where(steady, 1.0 / np.where(steady, determinant, 1.0), 0.0)
        d1, d0 = (h00 * g1 - h01 * g0) * inverse, (h11 * g0 - h01 * g1) * inverse
        # Long steps overshoot where a line starts far from its maximum.
        length = np.minimum(1.0, 4.0 / np.maximum(np.hypot(d1, d0), 1e-300))
        slope, intercept = slope - length * d1, intercept - length * d0
        done = done | (steady & (np.hypot(d1, d0) < _CONVERGED))
        if done.all():
            break
    found = usable & done & (np.abs(slope) < _STEEP)
    slope = np.where(found, slope / np.where(usable, scale, 1.0), np.nan)
    return np.column_stack((slope, np.where(found, intercept - slope * mean, np.nan)))


def platt_out_of_fold(raw: FloatArray, correct: BoolArray, fold: IntArray, input: Input) -> FloatArray:
    """Each item's prediction by the maximum-likelihood line of the other folds, for m measures: shape (m, n).

    raw: raw confidences, shape (m, n). fold: 0 .. k-1, shape (n,).
    """
    x = np.stack([line_inputs(row, input) for row in raw])
    k = int(fold.max()) + 1
    train = np.tile(fold != np.arange(k)[:, None], (x.shape[0], 1))
    lines = line_fits(np.repeat(x, k, axis=0), correct, train).reshape(x.shape[0], k, 2)
    known = np.nan_to_num(lines)
    predicted = sigmoid(known[:, fold, 0] * x + known[:, fold, 1])
    for row, part in zip(*np.nonzero(np.isnan(lines[:, :, 0])), strict=True):
        items = fold != part
        alone = PlattCalibrator.maximum_likelihood(raw[row][items], correct[items], input=input)
        predicted[row, ~items] = alone.predict(raw[row][~items])
    return predicted


def rescaled(raw: FloatArray, correct: BoolArray, fold: IntArray, fit: Fit) -> FloatArray:
    """Each item's prediction by what was fitted on the other folds. Shape (n,)."""
    return held_out_predictions(raw, fold, lambda items: fit(raw[items], correct[items]))


def random_folds(n: int, seed: int = 0) -> IntArray:
    """Five random folds of n items, whatever they belong to, as Spiess et al. have them. Shape (n,)."""
    try:
        from sklearn.model_selection import KFold
    except ImportError as error:
        raise _missing(error) from error
    fold = np.empty(n, dtype=np.intp)
    split = KFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(n))
    for k, (_, test) in enumerate(split):
        fold[test] = k
    return fold


@attrs.frozen(eq=False)
class FirstTokens:
    """What the first t tokens tell, for t in FIRST.

    per_fold: the t of each fold, chosen on the other four by the skill of the rescaled mean. confidence: each
    item predicted with the choice and the line of the other folds, shape (n,). skill_by_t: out of fold, on
    all items. all_tokens: the same of all tokens.
    """

    per_fold: tuple[int, ...]
    confidence: FloatArray
    skill_by_t: tuple[float, ...]
    all_tokens: float


def first_tokens(
    logprobs: Sequence[Sequence[float]],
    correct: BoolArray,
    groups: Sequence[str],
    *,
    arithmetic: bool = False,
    seed: int = 0,
) -> FirstTokens:
    """Virk et al. 2024, 4.7, with their line on p: the numbers of `select_first_t` with that fit.

    logprobs: of each answer's tokens. correct: shape (n,). groups: of each answer, kept together in folds.
    arithmetic: whether the mean of the first t probabilities is that, and not the geometric one.
    """
    raw = first_means(logprobs, arithmetic=arithmetic)
    codes = group_codes(groups, correct.size)
    outer = grouped_folds(codes, FOLDS, seed=seed)
    per_fold, confidence = [], np.empty(correct.size)
    for k in range(int(outer.max()) + 1):
        kept = outer != k
        inner = grouped_folds(codes[kept], FOLDS, seed=seed)
        skills = _skills(platt_out_of_fold(raw[:, kept], correct[kept], inner, "p"), correct[kept])
        best = int(np.argmax(np.where(np.isnan(skills), -np.inf, skills)))
        per_fold.append(FIRST[best])
        confidence[~kept] = platt_out_of_fold(raw[best : best + 1], correct, outer, "p")[0, ~kept]
    whole = arithmetic_mean if arithmetic else geometric_mean
    every = np.array([[whole(item) for item in logprobs]])
    return FirstTokens(
        per_fold=tuple(per_fold),
        confidence=confidence,
        skill_by_t=tuple(_skills(platt_out_of_fold(raw, correct, outer, "p"), correct).tolist()),
        all_tokens=float(_skills(platt_out_of_fold(every, correct, outer, "p"), correct)[0]),
    )


def first_means(logprobs: Sequence[Sequence[float]], *, arithmetic: bool = False) -> FloatArray:
    """The mean of the first t probabilities, geometric or arithmetic, for each t in FIRST: shape (m, n)."""
    padded = np.zeros((len(logprobs), FIRST[-1]))
    for row, item in zip(padded, logprobs, strict=True):
        first = item[: FIRST[-1]]
        row[: len(first)] = np.exp(first) if arithmetic else first
    lengths = np.array([len(item) for item in logprobs])
    means = np.cumsum(padded, axis=1).T / np.minimum(np.array(FIRST)[:, None], lengths)
    return np.asarray(np.minimum(means if arithmetic else np.exp(means), 1.0))


def _skills(confidence: FloatArray, correct: BoolArray) -> FloatArray:
    """The skill of each row, shape (m,); nan if all are of one class."""
    rate = float(np.mean(correct))
    reference = rate * (1.0 - rate)
    brier = np.mean((confidence - correct) ** 2, axis=1)
    return 1.0 - brier / reference if reference else np.full(brier.size, np.nan)


class Resamples:
    """The same resamples of whole groups, for the interval of every number of some answers.

    A resample is the number of times that each group is drawn, so that sums over items are products of
    matrices. The draws are those of `bootstrap_interval` with the same seed, and so are the intervals.
    """

    def __init__(
        self, correct: BoolArray, groups: npt.ArrayLike, *, count: int = RESAMPLES, seed: int = 0
    ) -> None:
        self.correct = correct
        self._codes = group_codes(groups, correct.size)
        k = int(self._codes.max()) + 1
        rng = np.random.default_rng(seed)
        self._drawn = np.array([np.bincount(rng.integers(k, size=k), minlength=k) for _ in range(count)])
        self._enough = k >= 2
        self._n = self._sums(np.ones(correct.size))
        rate = self._sums(correct.astype(np.float64)) / self._n
        self._reference = rate * (1.0 - rate)
        self._dice = np.random.default_rng(seed).random((count, correct.size), dtype=np.float32)

    def skill(self, confidence: FloatArray) -> Interval:
        """The Brier skill score."""
        return self._interval(_skills(confidence[None], self.correct)[0], self.skills(confidence))

    def skill_difference(self, first: FloatArray, second: FloatArray) -> Interval:
        """The skill of the first minus that of the second, on the same resamples."""
        value = _skills(np.stack((first, second)), self.correct)
        return self._interval(value[0] - value[1], self.skills(first) - self.skills(second))

    def mean(self, values: FloatArray) -> Interval:
        """The mean of numbers of the items, shape (n,)."""
        return self._interval(float(np.mean(values)), self._sums(values) / self._n)

    def ratio(self, numerator: FloatArray, denominator: FloatArray) -> Interval:
        """The sum of one number of the items over that of another; both of shape (n,)."""
        below = self._sums(denominator)
        found = np.divide(self._sums(numerator), below, out=np.full(below.size, np.nan), where=below != 0.0)
        total = float(np.sum(denominator))
        return self._interval(float(np.sum(numerator)) / total if total else np.nan, found)

    def auc(self, confidence: FloatArray) -> Interval:
        """The area under the ROC curve."""
        # By pairs of groups: how often a right answer of the one is above a wrong one of the other.
        of_right, right = self._codes[self.correct], confidence[self.correct]
        of_wrong, wrong = self._codes[~self.correct], confidence[~self.correct]
        k = self._drawn.shape[1]
        between = np.zeros((k, k))
        for group in np.unique(of_wrong):
            below = np.sort(wrong[of_wrong == group])
            above = np.searchsorted(below, right, "left") + np.searchsorted(below, right, "right")
            between[:, group] = np.bincount(of_right, weights=above / 2.0, minlength=k)
        ranked = np.einsum("rg,gh,rh->r", self._drawn, between, self._drawn, optimize=True)
        positive = self._sums(self.correct.astype(np.float64))
        pairs = positive * (self._n - positive)
        found = np.divide(ranked, pairs, out=np.full(pairs.size, np.nan), where=pairs > 0)
        return self._interval(auc(confidence, self.correct), found)

    def ece(self, confidence: FloatArray) -> Interval:
        """The ECE, and the range that it would have if each confidence were exactly right."""
        index = bin_index(confidence, 10, "width")
        inside = (index[:, None] == np.arange(10)).astype(np.float32)
        hits = (self._dice < confidence.astype(np.float32)).astype(np.float32) @ inside
        expected = np.bincount(index, weights=confidence, minlength=10)
        drawn = np.abs(hits - expected).sum(axis=1) / confidence.size
        value = expected_calibration_error(confidence, self.correct)
        return percentile_interval(value, drawn, 0.95, "calibrated-band")

    def skills(self, confidence: FloatArray) -> FloatArray:
        """The skill on each resample, shape (count,)."""
        brier = self._sums((confidence - self.correct) ** 2) / self._n
        reference = self._reference
        missed = np.divide(brier, reference, out=np.full(brier.size, np.nan), where=reference > 0.0)
        return np.asarray(1.0 - missed)

    def _sums(self, values: FloatArray) -> FloatArray:
        """The sum over each resample, shape (count,)."""
        summed: FloatArray = self._drawn @ np.bincount(self._codes, weights=values)
        return summed

    def _interval(self, value: float, drawn: FloatArray) -> Interval:
        if not self._enough:
            drawn = np.full(drawn.size, np.nan)
        return percentile_interval(float(value), drawn, 0.95, "bootstrap")


def paired_p_value(first: FloatArray, second: FloatArray, correct: BoolArray) -> float:
    """The two-sided p of a paired t-test on the squared errors of two confidences; 1 if they are the same.

    Items count as independent, as in Virk et al. 2024, 4.7; see `Resamples.skill_difference` for groups.
    """
    differences = (first - correct) ** 2 - (second - correct) ** 2
    if np.ptp(differences) == 0.0:
        return 1.0
    return float(_scipy_stats().ttest_1samp(differences, 0.0).pvalue)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being many: significant at a level alpha where this is at most alpha.

    Source: Benjamini & Hochberg 1995.
    """
    if not p_values:
        return []
    found: list[float] = _scipy_stats().false_discovery_control(p_values, method="bh").tolist()
    return found


def rank_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's correlation; None for fewer than 3 items, or if one of the two is constant."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.size < 3 or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return None
    return float(_scipy_stats().spearmanr(x, y).statistic)


def roc(confidence: FloatArray, correct: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """False and true positive rates, ascending, and the thresholds from which on an answer is accepted."""
    try:
        from sklearn.metrics import roc_curve
    except ImportError as error:
        raise _missing(error) from error
    false, true, thresholds = roc_curve(correct, confidence)
    return false, true, thresholds


def _scipy_stats() -> Any:
    try:
        import scipy.stats
    except ImportError as error:
        raise _missing(error) from error
    return scipy.stats


def _missing(error: ImportError) -> DataError:
    return DataError(
        f"The studies need scikit-learn and scipy ({error}). Run `pip install 'lsp-calib[figures]'`."
    )
