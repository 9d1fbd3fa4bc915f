"""Scores of confidences against outcomes: Brier, skill, log loss, AUC, ECE; and calibration errors beside the
plain one: debiased, Kolmogorov-Smirnov, and smooth.

All take confidence, float array of shape (n,) of probabilities in [0, 1], and correct, bool array of shape
(n,); all return a float and raise DataError on empty input, different shapes, NaN or values outside [0, 1].
All are unchanged by reordering the pairs, and, but for the debiased and the smooth error, by repeating every
pair equally often. Some take weights, float array of shape (n,), not negative and not all 0: a weight of 2 is
the same as giving the pair twice.
Where a number is undefined or not informative (labels of one class, confidences all in one bin), a
CalibrationWarning gives n and the reason.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, caution, checked_weights, paired
from lsp_calib.errors import DataError

Strategy = Literal["width", "mass"]
Metric = Callable[[npt.ArrayLike, npt.ArrayLike], float]


def brier_score(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float:
    """Mean squared difference between confidence and outcome; in [0, 1], 0 is best.

    Source: Brier 1950; Spiess et al. 2024, eq. 7.

    >>> brier_score([0.5, 0.5], [True, False])
    0.25
    """
    p, y = paired(confidence, correct)
    return float(np.average((p - y) ** 2, weights=checked_weights(weights, p.size)))


def reference_brier(correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None) -> float:
    """Brier score of always answering the base rate r: r (1 - r); in [0, 0.25].

    correct: bool array of shape (n,). Source: Spiess et al. 2024, eq. 8.

    >>> round(reference_brier([True] * 72 + [False] * 28), 2)
    0.2
    >>> round(reference_brier([True] + [False] * 9), 2)
    0.09
    """
    labels = np.asarray(correct)
    _, y = paired(np.zeros(labels.shape), labels)
    rate = float(np.average(y, weights=checked_weights(weights, y.size)))
    return rate * (1.0 - rate)


def skill_score(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float:
    """Brier skill score against always answering the base rate.

    Returns a float in (-inf, 1]; 0 is no better than the base rate, nan if `correct` is all one class.
    Source: Brier 1950; Spiess et al. 2024, eq. 9.

    >>> skill_score([1.0, 0.0], [True, False])
    1.0
    """
    reference = reference_brier(correct, weights=weights)
    brier = brier_score(confidence, correct, weights=weights)
    if reference == 0.0:
        caution(f"The skill score is undefined: all {np.size(correct)} labels are of one class.")
        return float("nan")
    return 1.0 - brier / reference


def log_loss(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float:
    """Mean negative log-likelihood of the outcomes, in nats; in [0, 36.1], 0 is best.

    Confidences are kept 2.2e-16 (float64's epsilon) away from 0 and 1, as scikit-learn does: one sure and
    wrong answer costs 36 nats, not infinity.
    """
    p, y = paired(confidence, correct)
    return float(-np.average(log_likelihoods(p, y), weights=checked_weights(weights, p.size)))


def log_likelihoods(p: FloatArray, y: BoolArray) -> FloatArray:
    """The log-probability of each outcome, in nats, float array of shape (n,); see `log_loss`.

    p: probabilities, float array of shape (n,). y: bool array of shape (n,). Neither is checked.
    """
    epsilon = np.finfo(np.float64).eps
    p = np.clip(p, epsilon, 1.0 - epsilon)
    return np.asarray(np.log(np.where(y, p, 1.0 - p)))


def auc(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Probability that a correct item has a higher confidence than a wrong one; ties count half.

    Returns a float in [0, 1]; nan if `correct` is all one class.
    Source: the rank-sum form of the area under the ROC curve, Hanley & McNeil 1982.

    >>> auc([0.1, 0.4, 0.4, 0.8], [False, True, False, True])
    0.875
    """
    p, y = paired(confidence, correct)
    positives = int(np.count_nonzero(y))
    negatives = y.size - positives
    if positives == 0 or negatives == 0:
        caution(f"AUC is undefined: all {y.size} labels are of one class.")
        return float("nan")
    # Twice the midranks (1 .. n, ties averaged), so that the sum is exact in integers.
    below, equal, inverse = ties(p)
    twice_midrank = (2 * below + equal + 1)[inverse]
    rank_sum = int(np.sum(twice_midrank[y])) / 2
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def expected_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    bins: int = 10,
    strategy: Strategy = "width",
    *,
    weights: npt.ArrayLike | None = None,
) -> float:
    """Mean absolute difference between confidence and share correct within bins, weighted by count.

    bins: how many.
    strategy: "width": [0, 1/bins), [1/bins, 2/bins) ... [(bins-1)/bins, 1], left-closed, the last one closed.
        "mass": bins that hold equally many items, as far as ties allow: equal confidences share a bin.
    Returns a float in [0, 1]. It is biased upward: read it beside `calibrated_band`, and beside the skill
    score. If all confidences share a bin it only compares two means, and a CalibrationWarning says so.
    Raises DataError also if bins < 1 or the strategy is unknown.
    Source: Naeini et al. 2015; Guo et al. 2017; bin edges as in Spiess et al. 2024.

    >>> expected_calibration_error([0.25, 0.25, 0.75, 0.75], [False, False, True, True])
    0.25
    >>> rain = [True] * 10 + [False] * 355
    >>> from lsp_calib.calibration.arrays import quietly
    >>> with quietly():
    ...     expected_calibration_error([10 / 365] * 365, rain) < 1e-12
    True
    """
    p, y = paired(confidence, correct)
    index = bin_index(p, bins, strategy)
    caution_collapse(index, "ECE")
    w = checked_weights(weights, p.size)
    gap = np.bincount(index, weights=w * p, minlength=bins) - np.bincount(
        index, weights=w * y, minlength=bins
    )
    return min(float(np.sum(np.abs(gap))) / float(np.sum(w)), 1.0)


def bin_index(p: FloatArray, bins: int, strategy: str) -> IntArray:
    """The bin, 0 .. bins-1, of each of n probabilities; int array of shape (n,).

    Strategies as in `expected_calibration_error`; raises DataError as it does.

    >>> bin_index(np.array([0.0, 0.05, 0.1, 1.0]), 10, "width")
    array([0, 0, 1, 9])
    """
    if bins < 1:
        raise DataError(f"The number of bins must be at least 1, not {bins}.")
    if strategy == "width":
        # k / bins is the correctly rounded edge, the same double as the literal 0.3; floor(0.29 * 100) and
        # linspace(0, 1, 11)[3] are not.
        edges = np.arange(1, bins) / bins
        return np.searchsorted(edges, p, side="right")
    if strategy == "mass":
        # The bin of the middle of each run of ties. In integers, and unchanged when every pair is repeated.
        below, equal, inverse = ties(p)
        return ((bins * (2 * below + equal)) // (2 * p.size))[inverse]
    raise DataError(f"Unknown binning strategy {strategy!r}; known: width, mass.")


def caution_collapse(index: IntArray, what: str) -> None:
    """Warn if all items share one bin."""
    if index.min() == index.max():
        caution(f"{what} only compares two means: all {index.size} confidences are in one bin.", 4)


def ties(p: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """For each distinct value, ascending: how many lie below, how many equal it; and each item's value.

    p: float array of shape (n,), finite. Returns int arrays of shapes (k,), (k,) and (n,), the last one
    holding 0 .. k-1.
    """
    _, inverse, equal = np.unique(p, return_inverse=True, return_counts=True)
    below = np.cumsum(equal) - equal
    return below, equal, inverse


def debiased_calibration_error(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = 10, strategy: Strategy = "mass"
) -> float:
    """The binned calibration error, without the part that chance alone adds to it; in [0, 1].

    bins, strategy: as in `expected_calibration_error`; equal mass is the usual choice here.
    With g the mean and v the variance (divisor n - 1) of confidence - correct over the n items of a bin, the
    root of the mean of g^2 - v / n, weighted by count over the bins; 0 where that is negative. Each term is
    the mean over pairs of different items of the product of their differences, which is unbiased.
    A bin with a single item has no variance and counts as 0. Warns if all confidences share a bin, or all
    bins hold one item or none. Not unchanged by repeating the pairs: they would look like more evidence.
    Source: Brocker 2012 and Ferro & Fricker 2012; Kumar, Liang & Ma 2019: the same as their estimator of the
    squared error where confidences are constant within bins.

    >>> p, y = [0.2] * 5 + [0.8] * 5, [False] * 4 + [True] + [True] * 4 + [False]
    >>> debiased_calibration_error(p, y)  # g is 0, v / n is 0.2 / 5
    0.0
    """
    p, y = paired(confidence, correct)
    index = bin_index(p, bins, strategy)
    caution_collapse(index, "The debiased calibration error")
    count = np.bincount(index, minlength=bins).astype(np.float64)
    filled = count > 1
    if not filled.any():
        caution(f"The debiased calibration error is undefined: no bin holds 2 of the {p.size} items.")
        return 0.0
    n = count[filled]
    mean = np.bincount(index, weights=p - y, minlength=bins) / np.maximum(count, 1.0)
    squares = np.bincount(index, weights=((p - y) - mean[index]) ** 2, minlength=bins)
    noise = squares[filled] / (n - 1.0) / n
    squared = float(np.sum(n * (np.abs(mean[filled]) ** 2 - noise))) / p.size
    return math.sqrt(min(max(squared, 0.0), 1.0))


def ks_calibration_error(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """The largest difference between the cumulated confidence and the cumulated share correct; in [0, 1].

    Both are summed from the least confident item on and divided by n; items of equal confidence enter
    together. No bins to choose. It is at least |mean confidence - share correct|, and at most the ECE of any
    bins that hold one distinct confidence each.
    Source: Gupta et al. 2021 (Calibration of neural networks using splines), eq. 6.

    >>> ks_calibration_error([0.25, 0.75], [True, False])
    0.375
    """
    p, y = paired(confidence, correct)
    order = np.argsort(p)
    ascending = p[order]
    gap = np.cumsum(ascending - y[order])
    last_of_run = np.append(ascending[1:] != ascending[:-1], True)
    return min(float(np.max(np.abs(gap[last_of_run]))) / p.size, 1.0)


# The discretisation of the authors' `relplot` 1.0.3, so that numbers can be compared with published ones.
_FINEST = 0.001  # no width below this is tried
_HALVINGS = 10
_MESH = 200  # points at which the smoothed curve is read, at least
_GRID = 2000  # points over two unit intervals on which data and kernel lie, at least
_FLOOR = 0.0001  # added to the density, which sums to about n: no division by zero


def smooth_ece(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Smooth calibration error (smECE): mean |smoothed (correct - confidence)|, weighted by the density.

    confidence: float array of shape (n,), probabilities in [0, 1]. correct: bool array of shape (n,).
    The Gaussian kernel is reflected at 0 and 1. Its standard deviation is the largest width s with smECE at
        width s at least s, to 1/1024; the result then lies within constant factors of the distance to the
        nearest perfectly calibrated score, and needs no choice.
    Returns a float in [0, 1]. Unlike ECE it is continuous in the confidences: no edges. Repeating all pairs
    may change it in the third decimal: the width moves in steps, and the reference adds a constant to the
    density.
    Raises DataError on empty input, different shapes, NaN, or values outside [0, 1].
    Source: Blasiok & Nakkiran 2024 (Smooth ECE), alg. 1; agrees with their package relplot to 1e-9.

    >>> round(smooth_ece([0.5] * 10, [True] * 9 + [False]), 4)
    0.4
    """
    p, y = paired(confidence, correct)
    # Each grid is made once, for every width that it suits.
    on_grid = functools.cache(functools.partial(_spread, p, p - y))

    def error(width: float) -> float:
        points = max(_GRID, round(20 / width)) // 2 + 1
        residual, density = (_smoothed(values, width) for values in on_grid(points))
        mesh = np.linspace(0.0, 1.0, max(round(10 / width), _MESH))
        grid = np.linspace(0.0, 1.0, points)
        numerator = np.sum(np.abs(np.interp(mesh, grid, residual)))
        return float(numerator / np.sum(np.interp(mesh, grid, density) + _FLOOR))

    # The error at the smallest width tried that is not below its own error.
    high, low = 1.0, 0.0
    value = error(high)
    if high < value:
        return value
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle < _FINEST or middle < (at_middle := error(middle)):
            low = middle
        else:
            high, value = middle, at_middle
    return value


def _spread(p: FloatArray, residual: FloatArray, points: int) -> tuple[FloatArray, FloatArray]:
    """Residuals and counts on a grid over [0, 1], each item shared between its two neighbours."""
    position = p * (points - 1)
    left = np.minimum(position.astype(np.intp), points - 2)
    share = position - left

    def spread(weight: FloatArray, right: FloatArray) -> FloatArray:
        values = np.bincount(left, weights=weight - right, minlength=points).astype(np.float64)
        values[1:] += np.bincount(left, weights=right, minlength=points)[:-1]
        return values

    return spread(residual, share * residual), spread(np.ones_like(share), share)


def _smoothed(values: FloatArray, width: float) -> FloatArray:
    """Convolution with a Gaussian, cut off half a unit from its centre; values are mirrored at both ends."""
    points = values.size
    offset = np.linspace(-0.5, 0.5, points)
    kernel = np.exp(-(offset**2) / (2.0 * width**2)) / (np.sqrt(2.0 * np.pi) * width)
    mirrored = np.concatenate([values[:0:-1], values, values[-2::-1]])
    start = points // 2
    result: FloatArray = np.convolve(mirrored[start : start + 2 * points - 1], kernel, "valid")
    return result
