"""Rank correlations between measures of confidence: do they order the same items alike?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.calibration.metrics.scores import ties
from lsp_calib.calibration.warnings import caution
from lsp_calib.errors import DataError

Method = Literal["spearman", "kendall"]


@attrs.frozen(eq=False)
class RankCorrelations:
    """Correlations of all pairs of measures.

    names: k of them, in the order given. n: items. matrix: float array of shape (k, k), symmetric, nan where
        a measure is constant.
    """

    method: Method
    names: tuple[str, ...]
    n: int
    matrix: FloatArray


def rank_correlations(
    measures: Mapping[str, npt.ArrayLike], *, method: Method = "spearman"
) -> RankCorrelations:
    """Rank correlations between all pairs of measures on the same items.

    measures: name to float array of shape (n,), finite.
    Warns and raises as `spearman` and `kendall`; DataError also without measures or for another method.

    >>> rank_correlations({"total": [0.1, 0.2, 0.4], "minimum": [0.3, 0.2, 0.5]}).matrix
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    known = {"spearman": spearman, "kendall": kendall}
    if method not in known:
        raise DataError(f"Unknown rank correlation {method!r}; known: spearman, kendall.")
    if not measures:
        raise DataError("There are no measures to correlate.")
    values = list(measures.values())
    matrix = np.ones((len(values), len(values)))
    for i in range(len(values)):
        for j in range(i + 1):
            matrix[i, j] = matrix[j, i] = known[method](values[i], values[j])
    return RankCorrelations(method, tuple(measures), np.size(values[0]), matrix)


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Spearman's rank correlation: Pearson's of the ranks, ties at their mean rank.

    a, b: float arrays of shape (n,), finite, any range.
    Returns a float in [-1, 1]; nan with a CalibrationWarning if one is constant.
    Raises DataError on empty input, different shapes, NaN or infinite values. Source: Spearman 1904.

    >>> round(spearman([1, 2, 3, 4], [1, 3, 2, 4]), 12)
    0.8
    """
    x, y = _pair(a, b)
    u, v = _centred_ranks(x), _centred_ranks(y)
    norm = math.sqrt(float(u @ u)) * math.sqrt(float(v @ v))
    if norm == 0.0:
        return _constant(x.size)
    return min(max(float(u @ v) / norm, -1.0), 1.0)


def kendall(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Kendall's tau-b: pairs in the same order less pairs in opposite order, corrected for ties.

    Arguments, result, warning and errors as `spearman`. O(n log n).
    Source: Kendall 1945; Knight 1966 (counting by sorting).

    >>> round(kendall([1, 2, 3, 4], [1, 3, 2, 4]), 4)  # 5 pairs in the same order, 1 in the opposite one
    0.6667
    """
    x, y = _pair(a, b)
    _, equal_x, rank_x = ties(x)
    _, equal_y, rank_y = ties(y)
    pairs = x.size * (x.size - 1) // 2
    tied_x, tied_y = _pairs(equal_x), _pairs(equal_y)
    if tied_x == pairs or tied_y == pairs:
        return _constant(x.size)
    joint = rank_x * equal_y.size + rank_y
    order = np.argsort(joint)
    starts = np.flatnonzero(np.append(True, np.diff(joint[order]) != 0))
    tied_both = _pairs(np.diff(np.append(starts, x.size)))
    discordant = _inversions(rank_y[order])
    difference = pairs - tied_x - tied_y + tied_both - 2 * discordant
    tau = difference / (math.sqrt(pairs - tied_x) * math.sqrt(pairs - tied_y))
    return min(max(tau, -1.0), 1.0)


def _pair(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    try:
        x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"Measures must be numbers: {error}.") from error
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
        raise DataError(
            "Measures must be one-dimensional, equally long and not empty; "
            f"their shapes are {x.shape} and {y.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise DataError("Measures must be finite; found NaN or an infinite value.")
    return x, y


def _constant(n: int) -> float:
    caution(f"The rank correlation is undefined: one measure is the same for all {n} items.", 4)
    return float("nan")


def _centred_ranks(values: FloatArray) -> FloatArray:
    below, equal, inverse = ties(values)
    twice: FloatArray = (2 * below + equal - values.size)[inverse].astype(np.float64)
    return twice / 2.0


def _pairs(equal: IntArray) -> int:
    return int(np.sum(equal * (equal - 1) // 2))


def _inversions(values: IntArray) -> int:
    """How many pairs i < j have values[i] > values[j].

    The values are made a permutation (equal ones in order of appearance, so no inversion) and sorted by one
    bit after the other, from the highest on. At each bit, every group of equal higher bits is split, zeros
    first; the ones before a zero in its group are its inversions at this bit. In a permutation of 0 .. n-1 a
    group whose values begin with s also begins at place s.
    """
    n = values.size
    dtype: type[np.signedinteger] = np.int32 if n < 2**30 else np.int64  # half the memory to move
    places: npt.NDArray[np.signedinteger] = np.arange(n, dtype=dtype)
    current = np.empty_like(places)
    current[np.argsort(values, kind="stable")] = places
    inversions = 0
    for bit in range((n - 1).bit_length() - 1, -1, -1):
        is_one = (current & (1 << bit)) != 0
        start = current & -(1 << (bit + 1))
        # Half of the values below `start` have the bit, for `start` is a multiple of twice the bit.
        ones_before = np.cumsum(is_one, dtype=dtype) - is_one - (start >> 1)
        inversions += int(np.sum(ones_before[~is_one], dtype=np.int64))
        split = np.empty_like(current)
        split[np.where(is_one, start + (1 << bit) + ones_before, places - ones_before)] = current
        current = split
    return inversions
