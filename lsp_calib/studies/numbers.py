"""Fits, and intervals of many confidences of the same answers at once. Pure.

To import this raises DataError where scikit-learn or scipy is missing.

The studies need an interval for each number. They are computed here as arrays, with the results of
`bootstrap_interval`; the tests compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.calibration.scores import auc, bin_index, expected_calibration_error
from lsp_calib.calibration.validation import (
    Fit,
    Interval,
    percentile_interval,
)
from lsp_calib.errors import DataError, install_command
from lsp_calib.studies.other_curves import (
    BetaCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    TemperatureCalibrator,
)

try:
    import scipy.stats
    from sklearn.metrics import roc_curve
    from sklearn.model_selection import KFold
except ImportError as error:
    raise DataError(
        f"The studies need scikit-learn and scipy ({error}). Run `{install_command('figures')}`."
    ) from error

FOLDS = 5
RESAMPLES = 1000
FIRST = tuple(range(1, 20))
"""The numbers of first tokens that Virk et al. try; a shorter answer uses all it has."""

OURS = "Platt on log-odds, prior"
"""How this project rescales a single measure; see `scores.fit_curve`."""

PLATT: Mapping[str, Fit] = MappingProxyType(
    {
        "Platt on ln p": partial(PlattCalibrator.maximum_likelihood, input="log-p"),
        "Platt on p": partial(PlattCalibrator.maximum_likelihood, input="p"),
        "Platt on log-odds": partial(PlattCalibrator.maximum_likelihood, input="log-odds"),
    }
)
"""Plain maximum likelihood over each input: Spiess et al. fit on ln p, Virk et al. on p."""

RESCALINGS: Mapping[str, Fit] = MappingProxyType(
    {
        OURS: partial(PlattCalibrator.fit, prior=LOOSE_PRIOR),
        "temperature": partial(TemperatureCalibrator.fit, spread=1e6),
        "isotonic": partial(IsotonicCalibrator.fit, ends=False),
        "histogram": HistogramCalibrator.fit,
        "beta": BetaCalibrator.fit,
    }
)


def random_folds(n: int, seed: int = 0) -> IntArray:
    """Five random folds of n items, whatever they belong to, as Spiess et al. have them. Shape (n,)."""
    fold = np.empty(n, dtype=np.intp)
    split = KFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(n))
    for k, (_, test) in enumerate(split):
        fold[test] = k
    return fold


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
        return percentile_interval(value, drawn, "calibrated-band")

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
        return percentile_interval(float(value), drawn)


def paired_p_value(first: FloatArray, second: FloatArray, correct: BoolArray) -> float:
    """The two-sided p of a paired t-test on the squared errors of two confidences; 1 if they are the same.

    Items count as independent, as in Virk et al. 2024, 4.7; see `Resamples.skill_difference` for groups.
    """
    differences = (first - correct) ** 2 - (second - correct) ** 2
    if np.ptp(differences) == 0.0:
        return 1.0
    return float(scipy.stats.ttest_1samp(differences, 0.0).pvalue)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being many: significant at a level alpha where this is at most alpha.

    Source: Benjamini & Hochberg 1995.
    """
    if not p_values:
        return []
    found: list[float] = scipy.stats.false_discovery_control(p_values, method="bh").tolist()
    return found


def rank_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's correlation; None for fewer than 3 items, or if one of the two is constant."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.size < 3 or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return None
    return float(scipy.stats.spearmanr(x, y).statistic)


def roc(confidence: FloatArray, correct: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """False and true positive rates, ascending, and the thresholds from which on an answer is accepted."""
    false, true, thresholds = roc_curve(correct, confidence)
    return false, true, thresholds
