"""Whole distributions over tokens: Full-ECE and classwise ECE, fed batch by batch, and token temperature.

Bin m of M is ((m - 1) / M, m / M], and 0 belongs to the first one: right-closed, unlike the bins of
`expected_calibration_error`, as in the papers. Edges are rounded to the type of the probabilities, so that a
float32 of 0.1 lies on the edge 0.1.

At most M - 1 entries of a distribution lie above 1 / M. Only their bins are looked up; the first bin is the
rest of the total. So the cost for each entry is a check, a sum and a comparison.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray, caution
from lsp_calib.errors import DataError

# Entries handled at a time: temporaries of a few megabytes, whatever the batch.
_BLOCK = 2**20
# A float16 softmax over 150,000 tokens is off by less.
_TOTAL_TOLERANCE = 0.01


@attrs.frozen(eq=False)
class TokenBins:
    """The numbers behind a Full-ECE.

    value: the Full-ECE. positions: N, how many distributions. tokens: K, how many entries each has.
    count: int array of shape (bins,); sums to N K.
    confidence, accuracy: float arrays of shape (bins,): mean probability, and share that were the outcome;
        nan for an empty bin.
    """

    value: float
    positions: int
    tokens: int
    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray


@attrs.frozen(eq=False)
class Entries:
    """The numbers of some distributions that both metrics need: few, for most entries are small.

    sums: float64 array of shape (k,), each token's probabilities over the n positions. column, value: of the
    entries above some probability of at most 1 / M. target, target_value: of shape (n,), the tokens that
    occurred, and their probabilities. The values have the type of the distributions.
    """

    sums: FloatArray
    column: IntArray
    value: npt.NDArray[np.floating]
    target: IntArray
    target_value: npt.NDArray[np.floating]


class _Stream(ABC):
    """Checks batches and cuts them into blocks."""

    def __init__(self, bins: int = 10) -> None:
        if bins < 1:
            raise DataError(f"The number of bins must be at least 1, not {bins}.")
        self.bins = bins
        self.positions = 0
        self.tokens = 0

    def update(self, probabilities: npt.ArrayLike, targets: npt.ArrayLike) -> None:
        """Add positions.

        probabilities: float array of shape (n, k), each row a distribution over k tokens; float32 and a
            memory map are welcome. targets: int array of shape (n,), the token that occurred, from 0.
        Raises DataError, and adds nothing, on NaN, values outside [0, 1], rows that do not sum to 1 within
        0.01, targets outside 0 .. k-1, shapes that do not fit, or another k than before.
        """
        batch = np.asarray(probabilities)
        target = np.asarray(targets)
        if batch.ndim != 2 or batch.shape[1] == 0 or target.shape != batch.shape[:1]:
            raise DataError(
                f"probabilities must have shape (n, k) with k > 0, and targets shape (n,); "
                f"their shapes are {batch.shape} and {target.shape}."
            )
        n, k = batch.shape
        if self.tokens not in (0, k):
            raise DataError(f"This batch has {k} tokens a position, those before it {self.tokens}.")
        if n and (target.dtype.kind not in "iu" or target.min() < 0 or target.max() >= k):
            raise DataError(f"targets must be whole numbers from 0 to {k - 1}.")
        step = max(1, _BLOCK // k)
        # All checks come first: a refused batch changes nothing.
        for i in range(0, n, step):
            _check(batch[i : i + step])
        own = batch.dtype if batch.dtype.kind == "f" else np.dtype(np.float64)
        for i in range(0, n, step):
            rows, occurred = _floats(batch[i : i + step]), target[i : i + step].astype(np.intp)
            edges = self._edges(own, rows.dtype)
            above = np.flatnonzero(rows > edges[0]) if self.bins > 1 else np.empty(0, dtype=np.intp)
            entries = Entries(
                sums=rows.sum(axis=0, dtype=np.float64),
                column=above % k,
                value=rows.ravel()[above],
                target=occurred,
                target_value=rows[np.arange(occurred.size), occurred],
            )
            self._count(entries, edges)
        self.tokens = k

    def add(self, entries: Entries) -> None:
        """Add positions of which the entries are known. Raises DataError for another k than before, or a
        target outside 0 .. k-1."""
        k = entries.sums.size
        if self.tokens not in (0, k) or (entries.target.size and int(entries.target.max()) >= k):
            raise DataError(f"These positions have {k} tokens each, those before them {self.tokens}.")
        self._count(entries, self._edges(entries.value.dtype, entries.value.dtype))
        self.tokens = k

    def _edges(self, own: np.dtype[Any], type_: np.dtype[Any]) -> npt.NDArray[np.floating]:
        """The edges, rounded to the type that the probabilities came in."""
        edges: npt.NDArray[np.floating] = (np.arange(1, self.bins) / self.bins).astype(own).astype(type_)
        return edges

    def _count(self, entries: Entries, edges: npt.NDArray[np.floating]) -> None:
        inside = entries.value > edges[0] if self.bins > 1 else np.zeros(entries.value.size, dtype=np.bool_)
        value = entries.value[inside]
        bin_ = np.searchsorted(edges, value, side="left")
        target_bin = np.searchsorted(edges, entries.target_value, side="left")
        self.positions += entries.target.size
        self._keep(entries, entries.column[inside], bin_, value.astype(np.float64), target_bin)

    @abstractmethod
    def _keep(
        self, entries: Entries, column: IntArray, bin_: IntArray, value: FloatArray, target_bin: IntArray
    ) -> None:
        """Add to the counts. column, bin_, value: of the entries above the first edge."""

    def _seen(self) -> int:
        if self.positions == 0:
            raise DataError("There are no positions yet: call update first.")
        return self.positions


class FullECE(_Stream):
    """Full-ECE: how far the probabilities of all tokens are from the shares that occur, by bin.

    bins: M. `update` any number of times, then `result`, or `detail` for the bins; both may be asked between
    updates. The weight of a bin is its count over N, the number of positions, not over all N K entries, so
    the value lies in [0, 2]. Memory: a few megabytes, whatever N and K.
    Source: Liu et al. 2024 (Full-ECE), eq. 11 to 13.

    >>> full = FullECE(bins=10)
    >>> full.update([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]], [0, 3])
    >>> round(full.result(), 12)  # |0.3 - 0| + |1.0 - 1| + |0.7 - 1|, over 2 positions
    0.3
    """

    def __init__(self, bins: int = 10) -> None:
        super().__init__(bins)
        self._counts = np.zeros(bins, dtype=np.int64)
        self._confidence = np.zeros(bins)
        self._hits = np.zeros(bins, dtype=np.int64)

    def _keep(
        self,
        entries: Entries,
        column: IntArray,  # noqa: ARG002
        bin_: IntArray,
        value: FloatArray,
        target_bin: IntArray,
    ) -> None:
        count = np.bincount(bin_, minlength=self.bins)
        # Without any entries, numpy returns integers.
        confidence = np.bincount(bin_, value, minlength=self.bins).astype(np.float64)
        count[0] = entries.target.size * entries.sums.size - bin_.size
        confidence[0] = entries.sums.sum() - value.sum()
        self._counts += count
        self._confidence += confidence
        self._hits += np.bincount(target_bin, minlength=self.bins)

    def result(self) -> float:
        """The Full-ECE of all positions so far; in [0, 2].

        Warns if all entries are in one bin. Raises DataError before the first position.
        """
        n = self._seen()
        if np.count_nonzero(self._counts) < 2:
            caution(f"Full-ECE only compares two means: all entries of the {n} distributions are in one bin.")
        return float(np.sum(np.abs(self._confidence - self._hits))) / n

    def detail(self) -> TokenBins:
        """The value with its bins, as a reliability diagram shows them; warns and raises as `result`."""
        value = self.result()
        filled = self._counts > 0
        count = np.maximum(self._counts, 1)
        return TokenBins(
            value=value,
            positions=self.positions,
            tokens=self.tokens,
            count=self._counts.astype(np.intp),
            confidence=np.where(filled, self._confidence / count, np.nan),
            accuracy=np.where(filled, self._hits / count, np.nan),
        )


class ClasswiseECE(_Stream):
    """Classwise ECE: the mean over tokens of each token's own ECE, as a binary prediction.

    bins: M. `update` any number of times, then `result`. Its weights are counts over N K. Most tokens of a
    large vocabulary occur rarely or never, and their ECE is then mostly noise (or how small their probability
    is): see `outcomes`.
    Memory: 8 K bytes for the first bin; the others hold a few tokens each, and take 16 bytes for each that
    they have ever held.
    Source: Kull et al. 2019; Liu et al. 2024 (Full-ECE), eq. 7; bins as there.

    >>> classwise = ClasswiseECE(bins=10)
    >>> classwise.update([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]], [0, 3])
    >>> round(classwise.result(), 12)  # token 0: 0.3 + 0.25; 1 and 2: 0.1 + 0.25; 3: 0.1 + 0.75; over 8
    0.2625
    """

    def __init__(self, bins: int = 10) -> None:
        super().__init__(bins)
        self._first = np.zeros(0)
        self._outcomes = np.zeros(0, dtype=np.intp)
        # The other bins: confidence minus hits, by bin * tokens + token, ascending; and what is still to add.
        self._places = np.zeros(0, dtype=np.int64)
        self._gaps: FloatArray = np.zeros(0)
        self._new: list[tuple[IntArray, FloatArray]] = []
        self._waiting = 0

    def _keep(
        self, entries: Entries, column: IntArray, bin_: IntArray, value: FloatArray, target_bin: IntArray
    ) -> None:
        k, target = entries.sums.size, entries.target
        if self._first.size == 0:
            self._first = np.zeros(k)
            self._outcomes = np.zeros(k, dtype=np.intp)
        above = target_bin > 0
        self._first += entries.sums
        np.subtract.at(self._first, column, value)
        np.subtract.at(self._first, target[~above], 1.0)
        np.add.at(self._outcomes, target, 1)
        self._new += [
            (bin_ * k + column, value),
            (target_bin[above] * k + target[above], -np.ones(above.sum())),
        ]
        self._waiting += bin_.size + target.size
        if self._waiting > _BLOCK:
            self._settle()

    def _settle(self) -> None:
        """Add up what is new."""
        places = np.concatenate([self._places, *(place for place, _ in self._new)])
        gaps = np.concatenate([self._gaps, *(gap for _, gap in self._new)])
        self._places, inverse = np.unique(places, return_inverse=True)
        self._gaps = np.bincount(inverse, gaps, minlength=self._places.size).astype(np.float64)
        self._new, self._waiting = [], 0

    def result(self) -> float:
        """The classwise ECE of all positions so far; in [0, 1].

        Raises DataError before the first position.
        """
        n = self._seen()
        self._settle()
        gaps = np.sum(np.abs(self._first)) + np.sum(np.abs(self._gaps))
        return float(gaps) / (n * self.tokens)

    @property
    def outcomes(self) -> IntArray:
        """How often each token occurred; int array of shape (k,)."""
        return self._outcomes.copy()


def _floats(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.floating]:
    """Contiguous float32 or float64."""
    if rows.dtype == np.float64 or rows.dtype == np.float32:
        return np.ascontiguousarray(rows)
    return rows.astype(np.float32 if rows.dtype == np.float16 else np.float64)


def _check(rows: npt.NDArray[np.generic]) -> None:
    """Raises DataError if a row is no distribution."""
    try:
        floats = _floats(rows)
    except (TypeError, ValueError) as error:
        raise DataError(f"probabilities must be numbers: {error}.") from error
    if not (floats.min() >= 0.0 and floats.max() <= 1.0):  # NaN fails both
        raise DataError("probabilities must lie in [0, 1]; found NaN or a value outside.")
    total: FloatArray = floats.sum(axis=1, dtype=np.float64)
    if np.max(np.abs(total - 1.0)) > _TOTAL_TOLERANCE:
        raise DataError(
            "Each row of probabilities must be a whole distribution: one sums to "
            f"{total[np.argmax(np.abs(total - 1.0))]:.4g}, not 1."
        )


@attrs.frozen(eq=False)
class TokenTemperature:
    """The temperature under which a model's softmax fits the tokens best.

    temperature: the best of those tried. refined: the minimum of a parabola through it and its neighbours
        (over the logarithm of temperature), equal to it at the ends of the grid.
    temperatures, loss: float arrays of shape (k,): the temperatures tried, and the mean negative
        log-probability of the tokens in nats.
    """

    temperature: float
    refined: float
    temperatures: FloatArray
    loss: FloatArray


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


def fit_token_temperature(
    logit: npt.ArrayLike, sums: npt.ArrayLike, temperatures: npt.ArrayLike
) -> TokenTemperature:
    """The temperature of highest likelihood among those tried, from the results of `log_sum_exp`.

    logit: float array of shape (n,): logits of the tokens that were right (the reference, not the greedy
    one).
    sums: shape (n, k), of the whole vocabulary at each temperature. temperatures: shape (k,), ascending.
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
    best = int(np.argmin(loss))
    return TokenTemperature(float(grid[best]), _vertex(np.log(grid), loss, best), grid, loss)


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
