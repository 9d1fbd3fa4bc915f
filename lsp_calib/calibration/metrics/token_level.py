"""Calibration of whole distributions over tokens, fed batch by batch: Full-ECE and classwise ECE.

Bin m of M is ((m - 1) / M, m / M], and 0 belongs to the first one: right-closed, unlike the bins of
`expected_calibration_error`, as in the papers. Edges are rounded to the type of the probabilities, so that a
float32 of 0.1 lies on the edge 0.1.

At most M - 1 entries of a distribution lie above 1 / M. Only their bins are looked up; the first bin is the
rest of the total. So the cost for each entry is a check, a sum and a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.calibration.warnings import caution
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
class _Block:
    """Some rows of a batch, and the values that both metrics need from them.

    rows: float array of shape (r, k). total: float64 array of shape (r,). column, bin, value: of each entry
    above the first edge. target, target_bin: of shape (r,).
    """

    rows: npt.NDArray[np.floating]
    total: FloatArray
    column: IntArray
    bin: IntArray
    value: FloatArray
    target: IntArray
    target_bin: IntArray


class _Stream:
    """Checks batches and cuts them into blocks."""

    def __init__(self, bins: int = 10) -> None:
        if bins < 1:
            raise DataError(f"The number of bins must be at least 1, not {bins}.")
        self.bins = bins
        self.positions = 0
        self.tokens = 0

    def _blocks(self, probabilities: npt.ArrayLike, targets: npt.ArrayLike) -> Iterator[_Block]:
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
        totals = [_totals(batch[i : i + step]) for i in range(0, n, step)]
        self.tokens = k
        self.positions += n
        own = batch.dtype if batch.dtype.kind == "f" else np.float64
        for i, total in zip(range(0, n, step), totals, strict=True):
            rows = _floats(batch[i : i + step])
            edges = (np.arange(1, self.bins) / self.bins).astype(own).astype(rows.dtype)
            yield self._block(rows, edges, total, target[i : i + step].astype(np.intp))

    def _block(
        self,
        rows: npt.NDArray[np.floating],
        edges: npt.NDArray[np.floating],
        total: FloatArray,
        target: IntArray,
    ) -> _Block:
        above = np.flatnonzero(rows > edges[0]) if self.bins > 1 else np.empty(0, dtype=np.intp)
        value = rows.ravel()[above]
        return _Block(
            rows=rows,
            total=total,
            column=above % rows.shape[1],
            bin=np.searchsorted(edges, value, side="left"),
            value=value.astype(np.float64),
            target=target,
            target_bin=np.searchsorted(edges, rows[np.arange(target.size), target], side="left"),
        )

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
        self._count = np.zeros(bins, dtype=np.int64)
        self._confidence = np.zeros(bins)
        self._hits = np.zeros(bins, dtype=np.int64)

    def update(self, probabilities: npt.ArrayLike, targets: npt.ArrayLike) -> None:
        """Add positions.

        probabilities: float array of shape (n, k), each row a distribution over k tokens; float32 and a
            memory map are welcome. targets: int array of shape (n,), the token that occurred, from 0.
        Raises DataError, and adds nothing, on NaN, values outside [0, 1], rows that do not sum to 1 within
        0.01, targets outside 0 .. k-1, shapes that do not fit, or another k than before.
        """
        for block in self._blocks(probabilities, targets):
            count = np.bincount(block.bin, minlength=self.bins)
            # Without any entries, numpy returns integers.
            confidence = np.bincount(block.bin, block.value, minlength=self.bins).astype(np.float64)
            count[0] = block.rows.size - block.bin.size
            confidence[0] = block.total.sum() - block.value.sum()
            self._count += count
            self._confidence += confidence
            self._hits += np.bincount(block.target_bin, minlength=self.bins)

    def result(self) -> float:
        """The Full-ECE of all positions so far; in [0, 2].

        Warns if all entries are in one bin. Raises DataError before the first position.
        """
        n = self._seen()
        if np.count_nonzero(self._count) < 2:
            caution(f"Full-ECE only compares two means: all entries of the {n} distributions are in one bin.")
        return float(np.sum(np.abs(self._confidence - self._hits))) / n

    def detail(self) -> TokenBins:
        """The value with its bins, as a reliability diagram shows them; warns and raises as `result`."""
        value = self.result()
        filled = self._count > 0
        count = np.maximum(self._count, 1)
        return TokenBins(
            value=value,
            positions=self.positions,
            tokens=self.tokens,
            count=self._count.astype(np.intp),
            confidence=np.where(filled, self._confidence / count, np.nan),
            accuracy=np.where(filled, self._hits / count, np.nan),
        )


class ClasswiseECE(_Stream):
    """Classwise ECE: the mean over tokens of each token's own ECE, as a binary prediction.

    bins: M. `update` any number of times, then `result`. Its weights are counts over N K. Most tokens of a
    large vocabulary occur rarely or never, and their ECE is then mostly noise (or how small their probability
    is): see `outcomes`.
    Memory: 8 M K bytes (600 MB for M = 500 and 150,000 tokens).
    Source: Kull et al. 2019; Liu et al. 2024 (Full-ECE), eq. 7; bins as there.

    >>> classwise = ClasswiseECE(bins=10)
    >>> classwise.update([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]], [0, 3])
    >>> round(classwise.result(), 12)  # token 0: 0.3 + 0.25; 1 and 2: 0.1 + 0.25; 3: 0.1 + 0.75; over 8
    0.2625
    """

    def __init__(self, bins: int = 10) -> None:
        super().__init__(bins)
        self._gap = np.zeros((bins, 0))
        self._outcomes = np.zeros(0, dtype=np.intp)

    def update(self, probabilities: npt.ArrayLike, targets: npt.ArrayLike) -> None:
        """Add positions. Arguments and errors as for `FullECE.update`."""
        for block in self._blocks(probabilities, targets):
            if self._gap.shape[1] == 0:
                self._gap = np.zeros((self.bins, self.tokens))
                self._outcomes = np.zeros(self.tokens, dtype=np.intp)
            self._gap[0] += block.rows.sum(axis=0, dtype=np.float64)
            np.subtract.at(self._gap[0], block.column, block.value)
            np.add.at(self._gap, (block.bin, block.column), block.value)
            np.subtract.at(self._gap, (block.target_bin, block.target), 1.0)
            np.add.at(self._outcomes, block.target, 1)

    def result(self) -> float:
        """The classwise ECE of all positions so far; in [0, 1].

        Raises DataError before the first position.
        """
        n = self._seen()
        # Bin by bin: the absolute values of all at once would double the memory.
        return sum(float(np.sum(np.abs(gap))) for gap in self._gap) / (n * self.tokens)

    @property
    def outcomes(self) -> IntArray:
        """How often each token occurred; int array of shape (k,)."""
        return self._outcomes.copy()


def _floats(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.floating]:
    """Contiguous float32 or float64."""
    if rows.dtype == np.float64 or rows.dtype == np.float32:
        return np.ascontiguousarray(rows)
    return rows.astype(np.float32 if rows.dtype == np.float16 else np.float64)


def _totals(rows: npt.NDArray[np.generic]) -> FloatArray:
    """The sum of each row in float64. Raises DataError if one is no distribution."""
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
    return total
