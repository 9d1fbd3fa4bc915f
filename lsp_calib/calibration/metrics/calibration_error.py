"""Calibration errors beside the plain ECE: maximum, debiased, and Kolmogorov-Smirnov.

All take confidence, float array of shape (n,) of probabilities in [0, 1], and correct, bool array of shape
(n,); all return a float and raise DataError on empty input, different shapes, NaN or values outside [0, 1].
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, paired
from lsp_calib.calibration.metrics.scores import Strategy, bin_index, caution_collapse
from lsp_calib.calibration.warnings import caution
from lsp_calib.errors import DataError

Norm = Literal["l1", "l2", "squared"]


def maximum_calibration_error(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, bins: int = 10, strategy: Strategy = "width"
) -> float:
    """The largest absolute difference between mean confidence and share correct of any bin; in [0, 1].

    bins, strategy: as in `expected_calibration_error`. One item alone in a bin may decide it: look at the
    counts of `reliability` before believing it.
    Warns if all confidences share a bin. Source: Naeini et al. 2015.

    >>> maximum_calibration_error([0.25, 0.25, 0.75, 0.75, 1.0], [False, True, True, True, False])
    1.0
    """
    p, y = paired(confidence, correct)
    index = bin_index(p, bins, strategy)
    caution_collapse(index, "MCE")
    count = np.bincount(index, minlength=bins)
    gap = np.bincount(index, weights=p, minlength=bins) - np.bincount(index, weights=y, minlength=bins)
    filled = count > 0
    return min(float(np.max(np.abs(gap[filled]) / count[filled])), 1.0)


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
