"""Calibration errors beside the plain one: debiased, Kolmogorov-Smirnov, smooth, and those of several subsets
at once; and risk against coverage.

All take confidence, float array of shape (n,) of probabilities in [0, 1], and correct, bool array of shape
(n,); all raise DataError on empty input, different shapes, NaN or values outside [0, 1].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, caution, paired, quietly
from lsp_calib.calibration.scores import Strategy, bin_index, caution_collapse, expected_calibration_error
from lsp_calib.calibration.validation import LEVEL, of_labels


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


@attrs.frozen(eq=False)
class RiskCoverage:
    """The curve, a point for each distinct confidence, from the strictest threshold on.

    n: items. threshold: float array of shape (k,), descending: items at or above it are accepted.
    coverage: float array of shape (k,): share of items accepted; ends at 1.
    risk: float array of shape (k,): share wrong among the accepted; ends at the error rate.
    area: mean risk over all coverages in (0, 1] (AURC). excess_area: the area in excess of that of a perfect
        ranking with as many errors (E-AURC); 0 for a perfect one.
    """

    n: int
    threshold: FloatArray
    coverage: FloatArray
    risk: FloatArray
    area: float
    excess_area: float


def risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> RiskCoverage:
    """Risk against coverage as the threshold of acceptance falls, and the area under it.

    confidence: float array of shape (n,), probabilities in [0, 1]. correct: bool array of shape (n,).
    Between two thresholds, items of equal confidence are accepted in random order: wrong ones accumulate
    linearly. The area is the exact integral of that curve, which is unchanged by order and by repeating all
    pairs, and for a perfect ranking is e + (1 - e) ln(1 - e) at error rate e, the published closed form. The
    usual sum over the n ranks tends to it as n grows.
    Warns if the labels are all of one class: any ranking is then perfect. Raises DataError on empty input,
    different shapes, NaN or values outside [0, 1].
    Source: Geifman & El-Yaniv 2017; Geifman, Uziel & El-Yaniv 2019 (excess area).

    >>> curve = risk_coverage([0.9, 0.8, 0.8, 0.1], [True, True, False, False])
    >>> [float(value) for value in curve.coverage]
    [0.25, 0.75, 1.0]
    >>> [round(float(value), 4) for value in curve.risk]
    [0.0, 0.3333, 0.5]
    """
    p, y = paired(confidence, correct)
    order = np.argsort(-p)
    descending = p[order]
    last_of_run = np.append(descending[1:] != descending[:-1], True)
    accepted = np.flatnonzero(last_of_run) + 1
    wrong = np.cumsum(~y[order])[last_of_run]
    if wrong[-1] in (0, p.size):
        caution(f"The risk-coverage curve is not informative: all {p.size} labels are of one class.")
    area = _area(accepted / p.size, wrong / p.size)
    error = float(wrong[-1] / p.size)
    best = error + (1.0 - error) * math.log1p(-error) if error < 1.0 else 1.0
    return RiskCoverage(
        n=p.size,
        threshold=descending[last_of_run],
        coverage=accepted / p.size,
        risk=wrong / accepted,
        area=area,
        excess_area=max(area - best, 0.0),
    )


def _area(coverage: FloatArray, error: FloatArray) -> float:
    """The integral of e(c) / c over (0, 1], with e linear between (0, 0) and the given points."""
    before, after = coverage[:-1], coverage[1:]
    slope = np.diff(error) / (after - before)
    pieces = np.diff(error) + (error[:-1] - slope * before) * np.log(after / before)
    return float(error[0] + np.sum(pieces))


@attrs.frozen
class BoundedError:
    """The calibration error of a subset.

    n: items. value: their ECE. limit: a calibrated score exceeds it in no subset, at the band's level.
    """

    n: int
    value: float
    limit: float

    @property
    def inside(self) -> bool:
        return self.value <= self.limit


def simultaneous_errors(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    subsets: Mapping[str, BoolArray],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, BoundedError]:
    """The ECE of each subset, with limits that hold for all of them at once.

    confidence: float array of shape (n,). correct: bool array of shape (n,). subsets: masks of shape (n,), by
    name; empty ones are left out.
    Outcomes are drawn for all items, with the confidences as their probabilities. Each draw gives one ECE for
    each subset, standardised by its mean and spread over the draws. The LEVEL quantile of the largest of
    them is the common limit: if every confidence is exactly right, all errors lie below their limits with
    that probability. Checking each subset against a band of its own would find one of five outside in up to
    23 % of the cases. There are no lower limits: an ECE can be too large, but not too small.
    Raises DataError as the metric does. Source: Brocker & Smith 2007 (consistency resampling); the maximum of
    standardised statistics as in Westfall & Young 1993.
    """
    p, y = paired(confidence, correct)
    filled = {name: mask for name, mask in subsets.items() if mask.any()}
    rng = np.random.default_rng(seed)
    with quietly():
        functions = [of_labels(expected_calibration_error, p[mask]) for mask in filled.values()]
        found = [function(y[mask]) for function, mask in zip(functions, filled.values(), strict=True)]
        drawn = np.empty((resamples, len(filled)))
        for row in drawn:
            labels = rng.random(p.size) < p
            row[:] = [
                function(labels[mask]) for function, mask in zip(functions, filled.values(), strict=True)
            ]
    mean, spread = drawn.mean(axis=0), drawn.std(axis=0)
    standardised = (drawn - mean) / np.where(spread > 0.0, spread, 1.0)
    critical = np.quantile(standardised.max(axis=1), LEVEL)
    limits = mean + critical * spread
    return {
        name: BoundedError(int(np.count_nonzero(mask)), value, float(limit))
        for (name, mask), value, limit in zip(filled.items(), found, limits, strict=True)
    }
