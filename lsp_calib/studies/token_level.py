"""Whole distributions over tokens: Full-ECE and classwise ECE from their larger entries; token temperature.

Bin m of M is ((m - 1) / M, m / M], and 0 belongs to the first one: right-closed, unlike the bins of
`expected_calibration_error`, as in the papers. Edges are rounded to the type of the probabilities, so that a
float32 of 0.1 lies on the edge 0.1.

At most M - 1 entries of a distribution lie above 1 / M. Only their bins are looked up; the first bin is the
rest of the total.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.errors import DataError


@attrs.frozen(eq=False)
class Entries:
    """The numbers of n distributions over k tokens that both metrics need: few, for most entries are small.

    sums: float64 array of shape (k,), each token's probabilities over the n positions. column, value: of the
    entries above some probability of at most 1 / M. target, target_value: of shape (n,), the tokens that
    occurred, and their probabilities. The values have the type of the distributions.
    """

    sums: FloatArray
    column: IntArray
    value: npt.NDArray[np.floating]
    target: IntArray
    target_value: npt.NDArray[np.floating]


def full_ece(entries: Entries, bins: int = 10) -> float:
    """Full-ECE: how far the probabilities of all tokens are from the shares that occur, by bin; in [0, 2].

    bins: M. The weight of a bin is its count over n, the number of positions, not over all n k entries.
    Raises DataError without a position, for a target outside 0 .. k-1, or fewer than 1 bin.
    Source: Liu et al. 2024 (Full-ECE), eq. 11 to 13.
    """
    _, bin_, value, target_bin = _binned(entries, bins)
    confidence = np.bincount(bin_, value, minlength=bins).astype(np.float64)
    confidence[0] = entries.sums.sum() - value.sum()
    hits = np.bincount(target_bin, minlength=bins)
    return float(np.sum(np.abs(confidence - hits))) / entries.target.size


def classwise_ece(entries: Entries, bins: int = 10) -> float:
    """Classwise ECE: the mean over tokens of each token's own ECE, as a binary prediction; in [0, 1].

    bins: M. Its weights are counts over n k. Most tokens of a large vocabulary occur rarely or never, and
    their ECE is then mostly noise, or how small their probability is.
    Raises DataError as `full_ece`.
    Source: Kull et al. 2019; Liu et al. 2024 (Full-ECE), eq. 7; bins as there.
    """
    column, bin_, value, target_bin = _binned(entries, bins)
    k, target = entries.sums.size, entries.target
    above = target_bin > 0
    first = entries.sums.copy()
    np.subtract.at(first, column, value)
    np.subtract.at(first, target[~above], 1.0)
    # Of the other bins: confidence minus hits, by bin * k + token.
    places = np.concatenate([bin_ * k + column, target_bin[above] * k + target[above]])
    _, inverse = np.unique(places, return_inverse=True)
    others = np.bincount(inverse, np.concatenate([value, -np.ones(int(above.sum()))]))
    return float(np.sum(np.abs(first)) + np.sum(np.abs(others))) / (target.size * k)


def _binned(entries: Entries, bins: int) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Of the entries above the first edge the token, the bin and the value; and the bins of the targets."""
    if bins < 1:
        raise DataError(f"The number of bins must be at least 1, not {bins}.")
    k, target = entries.sums.size, entries.target
    if not target.size:
        raise DataError("There are no positions.")
    if int(target.min()) < 0 or int(target.max()) >= k:
        raise DataError(f"targets must be whole numbers from 0 to {k - 1}.")
    edges = (np.arange(1, bins) / bins).astype(entries.value.dtype)
    inside = entries.value > edges[0] if bins > 1 else np.zeros(entries.value.size, dtype=np.bool_)
    value = entries.value[inside]
    return (
        entries.column[inside],
        np.searchsorted(edges, value, side="left"),
        value.astype(np.float64),
        np.searchsorted(edges, entries.target_value, side="left"),
    )


def log_sum_exp(logits: npt.ArrayLike, temperatures: npt.ArrayLike) -> FloatArray:
    """log sum exp(logits / T) over the vocabulary, in nats, for each temperature: shape (..., k).

    logits: float array of shape (..., vocabulary). temperatures: shape (k,), positive.
    Keep this of a position in place of its softmax: k numbers instead of 150,000. Raises DataError if one of
    the temperatures is not positive.
    """
    z = np.asarray(logits, dtype=np.float64)
    grid = _temperatures(temperatures)
    top = np.max(z, axis=-1, keepdims=True)
    sums = np.stack([np.sum(np.exp((z - top) / t), axis=-1) for t in grid], axis=-1)
    return np.asarray(np.log(sums) + top / grid)


def fit_token_temperature(logit: npt.ArrayLike, sums: npt.ArrayLike, temperatures: npt.ArrayLike) -> float:
    """The temperature under which a model's softmax fits the tokens best, from the results of `log_sum_exp`.

    logit: float array of shape (n,): logits of the tokens that were right (the reference, not the greedy
    one).
    sums: shape (n, k), of the whole vocabulary at each temperature. temperatures: shape (k,), ascending.
    Of those tried the one with the highest likelihood, refined to the minimum of a parabola through it and
    its neighbours (over the logarithm of temperature); as it is at the ends of the grid.
    Raises DataError on no tokens, shapes that do not fit together, or numbers that are not finite.
    Source: Guo et al. 2017; left for later by Virk et al. 2024, 6.3.
    """
    grid = _temperatures(temperatures)
    chosen, totals = np.asarray(logit, dtype=np.float64), np.asarray(sums, dtype=np.float64)
    if chosen.ndim != 1 or chosen.size == 0 or totals.shape != (chosen.size, grid.size):
        raise DataError(
            f"Token temperature needs logits of shape (n,) and sums of shape (n, {grid.size}); "
            f"they are {chosen.shape} and {totals.shape}."
        )
    if not (np.all(np.isfinite(chosen)) and np.all(np.isfinite(totals))) or np.any(np.diff(grid) <= 0.0):
        raise DataError("Logits and sums must be finite, and the temperatures ascending.")
    loss = np.mean(totals, axis=0) - np.mean(chosen) / grid
    return _vertex(np.log(grid), loss, int(np.argmin(loss)))


def _temperatures(values: npt.ArrayLike) -> FloatArray:
    grid = np.asarray(values, dtype=np.float64)
    if grid.ndim != 1 or grid.size == 0 or not np.all((grid > 0.0) & np.isfinite(grid)):
        raise DataError("Temperatures must be positive finite numbers, at least one.")
    return grid


def _vertex(x: FloatArray, y: FloatArray, best: int) -> float:
    """exp of the place at which the parabola through the points at best - 1, best, best + 1 is lowest."""
    if not 0 < best < x.size - 1:
        return float(np.exp(x[best]))
    left, right = x[best - 1] - x[best], x[best + 1] - x[best]
    rise_left, rise_right = y[best - 1] - y[best], y[best + 1] - y[best]
    curvature = rise_left * right - rise_right * left
    if curvature <= 0.0:
        return float(np.exp(x[best]))
    vertex = 0.5 * (rise_left * right**2 - rise_right * left**2) / curvature
    return float(np.exp(x[best] + np.clip(vertex, left, right)))
