"""Smooth ECE: a calibration error without bins, by kernel smoothing at a width that the data choose."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, paired
from lsp_calib.errors import DataError

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
