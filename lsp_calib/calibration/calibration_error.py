"""Calibration errors beside the plain ECE: debiased, Kolmogorov-Smirnov, and smooth.

All take confidence, float array of shape (n,) of probabilities in [0, 1], and correct, bool array of shape
(n,); all return a float and raise DataError on empty input, different shapes, NaN or values outside [0, 1].
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, caution, paired
from lsp_calib.calibration.scores import Strategy, bin_index, caution_collapse
from lsp_calib.errors import DataError

Norm = Literal["l1", "l2", "squared"]


def debiased_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    bins: int = 10,
    strategy: Strategy = "mass",
    norm: Norm = "l2",
) -> float:
    """The binned calibration error, without the part that chance alone adds to it.

    bins, strategy: as in `expected_calibration_error`; equal mass is the usual choice here.
    norm: with g the mean and v the variance (divisor n - 1) of confidence - correct over the n items of a
        bin, weighted by count over the bins:
        "squared": g^2 - v / n, the mean over pairs of different items of the product of their differences.
            Unbiased for the squared error of the bins; so it may be negative: in [-1, 1].
        "l2": its square root, 0 where it is negative; in [0, 1].
        "l1": the debiased ECE: 2 |g| - m, with m the mean absolute value of a normal with mean g and variance
            v / n, 0 where the total is negative; in [0, 1]. It keeps half or more of the bias of
            `expected_calibration_error` for bins that are exactly right.
    A bin with a single item has no variance and counts as 0. Warns if all confidences share a bin, or all
    bins hold one item or none. Not unchanged by repeating the pairs: they would look like more evidence.
    Source: Brocker 2012 and Ferro & Fricker 2012; Kumar, Liang & Ma 2019: the same as their estimator of the
    squared error where confidences are constant within bins; "l1" follows the correction by normal draws of
    their library, in closed form.

    >>> p, y = [0.2] * 5 + [0.8] * 5, [False] * 4 + [True] + [True] * 4 + [False]
    >>> round(debiased_calibration_error(p, y, norm="squared"), 12)  # g is 0, v / n is 0.2 / 5
    -0.04
    >>> debiased_calibration_error(p, y)
    0.0
    """
    if norm not in ("l1", "l2", "squared"):
        raise DataError(f"Unknown norm {norm!r}; known: l1, l2, squared.")
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
    gap = np.abs(mean[filled])
    if norm == "l1":
        return _unit(float(np.sum(n * (2.0 * gap - _mean_absolute(gap, np.sqrt(noise))))) / p.size)
    squared = float(np.sum(n * (gap**2 - noise))) / p.size
    return squared if norm == "squared" else math.sqrt(_unit(squared))


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


def _mean_absolute(mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Mean absolute value of normals: the folded normal's mean, `mean` itself without deviation."""
    result = mean.copy()
    some = deviation > 0.0
    z = mean[some] / deviation[some] / math.sqrt(2.0)
    erf = np.array([math.erf(value) for value in z])
    result[some] = mean[some] * erf + deviation[some] * math.sqrt(2.0 / math.pi) * np.exp(-(z**2))
    return result


def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0)


# The discretisation of the authors' `relplot` 1.0.3, so that numbers can be compared with published ones.
_FINEST = 0.001  # no width below this is tried
_HALVINGS = 10
_MESH = 200  # points at which the smoothed curve is read, at least
_GRID = 2000  # points over two unit intervals on which data and kernel lie, at least
_FLOOR = 0.0001  # added to the density, which sums to about n: no division by zero


def smooth_ece(confidence: npt.ArrayLike, correct: npt.ArrayLike, *, bandwidth: float | None = None) -> float:
    """Smooth calibration error (smECE): mean |smoothed (correct - confidence)|, weighted by the density.

    confidence: float array of shape (n,), probabilities in [0, 1]. correct: bool array of shape (n,).
    bandwidth: standard deviation of the Gaussian kernel, which is reflected at 0 and 1. None: the largest
        width s with smECE at width s at least s, to 1/1024; the result then lies within constant factors of
        the distance to the nearest perfectly calibrated score, and needs no choice.
    Returns a float in [0, 1]. Unlike ECE it is continuous in the confidences: no edges. Repeating all pairs
    may change it in the third decimal: the width moves in steps, and the reference adds a constant to the
    density.
    Raises DataError on empty input, different shapes, NaN, values outside [0, 1], or a bandwidth outside
    [0.001, 1].
    Source: Blasiok & Nakkiran 2024 (Smooth ECE), alg. 1; agrees with their package relplot to 1e-9.

    >>> round(smooth_ece([0.5] * 10, [True] * 9 + [False]), 4)
    0.4
    """
    p, y = paired(confidence, correct)
    if bandwidth is not None:
        if not _FINEST <= bandwidth <= 1.0:
            raise DataError(f"bandwidth must lie in [{_FINEST}, 1], not {bandwidth}.")
        return _Smoother(p, y).error(bandwidth)
    return _Smoother(p, y).fixed_point()


class _Smoother:
    """Items spread over grids; each grid is made once, for every width that it suits."""

    def __init__(self, p: FloatArray, y: BoolArray) -> None:
        self._p = p
        self._residual = p - y
        self._on_grid = functools.cache(self._spread)

    def fixed_point(self) -> float:
        """The error at the smallest width tried that is not below its own error."""
        high, low = 1.0, 0.0
        value = self.error(high)
        if high < value:
            return value
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if middle < _FINEST or middle < (at_middle := self.error(middle)):
                low = middle
            else:
                high, value = middle, at_middle
        return value

    def error(self, width: float) -> float:
        points = max(_GRID, round(20 / width)) // 2 + 1
        residual, density = (_smoothed(values, width) for values in self._on_grid(points))
        mesh = np.linspace(0.0, 1.0, max(round(10 / width), _MESH))
        grid = np.linspace(0.0, 1.0, points)
        numerator = np.sum(np.abs(np.interp(mesh, grid, residual)))
        return float(numerator / np.sum(np.interp(mesh, grid, density) + _FLOOR))

    def _spread(self, points: int) -> tuple[FloatArray, FloatArray]:
        """Residuals and counts on a grid over [0, 1], each item shared between its two neighbours."""
        position = self._p * (points - 1)
        left = np.minimum(position.astype(np.intp), points - 2)
        share = position - left

        def spread(weight: FloatArray, right: FloatArray) -> FloatArray:
            values = np.bincount(left, weights=weight - right, minlength=points).astype(np.float64)
            values[1:] += np.bincount(left, weights=right, minlength=points)[:-1]
            return values

        return spread(self._residual, share * self._residual), spread(np.ones_like(share), share)


def _smoothed(values: FloatArray, width: float) -> FloatArray:
    """Convolution with a Gaussian, cut off half a unit from its centre; values are mirrored at both ends."""
    points = values.size
    offset = np.linspace(-0.5, 0.5, points)
    kernel = np.exp(-(offset**2) / (2.0 * width**2)) / (np.sqrt(2.0 * np.pi) * width)
    mirrored = np.concatenate([values[:0:-1], values, values[-2::-1]])
    start = points // 2
    result: FloatArray = np.convolve(mirrored[start : start + 2 * points - 1], kernel, "valid")
    return result
