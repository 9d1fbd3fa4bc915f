"""Isotonic regression: the best non-decreasing step curve. It needs many labels."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, probabilities, weighted
from lsp_calib.calibration.document import Fields
from lsp_calib.errors import DataError


def _knots(_: object, attribute: attrs.Attribute[tuple[float, ...]], value: tuple[float, ...]) -> None:
    array = np.array(value)
    if array.size == 0 or not np.all((array >= 0.0) & (array <= 1.0)) or np.any(np.diff(array) < 0.0):
        raise DataError(f"{attribute.name} must be ascending numbers in [0, 1], at least one.")


@attrs.frozen
class IsotonicCalibrator:
    """Straight lines between knots, constant outside them. Monotone.

    scores, values: tuples of one length: raw confidences and their calibrated values, both ascending.
    Raises DataError for anything else.
    """

    kind: ClassVar[str] = "isotonic"

    scores: tuple[float, ...] = attrs.field(validator=_knots)
    values: tuple[float, ...] = attrs.field(validator=_knots)

    def __attrs_post_init__(self) -> None:
        if len(self.scores) != len(self.values):
            raise DataError("scores and values must have one length.")

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], in the shape of `raw`. Raises DataError on values outside [0, 1]."""
        at = probabilities(raw, "raw confidence")
        scores, values = np.array(self.scores), np.array(self.values)
        left = np.clip(np.searchsorted(scores, at, side="right") - 1, 0, scores.size - 1)
        right = np.minimum(left + 1, scores.size - 1)
        apart = scores[right] - scores[left]
        # The share of the distance, not a slope: between neighbouring floats a slope would be infinite.
        share = np.clip((at - scores[left]) / np.where(apart > 0.0, apart, 1.0), 0.0, 1.0)
        return np.asarray(np.minimum(values[left] + share * (values[right] - values[left]), values[right]))

    @classmethod
    def fit(
        cls,
        raw: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        ends: bool = True,
    ) -> Self:
        """Pool adjacent violators; the identity without labels.

        raw, correct, weights: arrays of shape (n,), as in `PlattCalibrator.fit`.
        ends: whether a first block with only wrong labels and a last block with only correct ones get
            Laplace's estimate from their number, 1 / (k + 2) and (k + 1) / (k + 2), or the neighbouring
            block's value if that is less extreme: no number of labels shows a probability of 0. False leaves
            0 and 1.
        Raises DataError on different shapes, NaN, or values out of range.
        Source: Zadrozny & Elkan 2002; Ayer et al. 1955.
        """
        scores, labels, w = weighted(raw, correct, weights)
        scores, labels, w = scores[w > 0.0], labels[w > 0.0], w[w > 0.0]
        if scores.size == 0:
            return cls((0.0, 1.0), (0.0, 1.0))
        distinct, codes = np.unique(scores, return_inverse=True)
        total = np.bincount(codes, w).astype(np.float64)
        sizes, block_weights, values = _pool(np.bincount(codes, w * labels) / total, total)
        if ends:
            values = _softened(values, block_weights)
        last = np.cumsum(sizes) - 1
        at = np.unique(np.concatenate((last - sizes + 1, last)))  # both ends of each block
        return cls(
            tuple(distinct[at].tolist()),
            tuple(np.repeat(values, sizes)[at].tolist()),
        )

    def to_json(self) -> dict[str, Any]:
        return {"scores": list(self.scores), "values": list(self.values)}

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        return cls(fields.numbers("scores"), fields.numbers("values"))


def _pool(values: FloatArray, weights: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray, FloatArray]:
    """Sizes, weights and means of the blocks of the non-decreasing fit. Ties are pooled; each value once."""
    sizes: list[int] = []
    sums: list[float] = []
    totals: list[float] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        size, total, summed = 1, weight, value * weight
        while sizes and sums[-1] * total >= summed * totals[-1]:  # the mean before is not smaller
            size += sizes.pop()
            total += totals.pop()
            summed += sums.pop()
        sizes.append(size)
        totals.append(total)
        sums.append(summed)
    means = np.clip(np.array(sums) / np.array(totals), 0.0, 1.0)
    return np.array(sizes, dtype=np.intp), np.array(totals), np.maximum.accumulate(means)


def _softened(values: FloatArray, weights: FloatArray) -> FloatArray:
    soft = values.copy()
    if values.size == 1:
        return (values * weights + 1.0) / (weights + 2.0) if values[0] in (0.0, 1.0) else soft
    if values[0] == 0.0:
        soft[0] = min(1.0 / (weights[0] + 2.0), values[1])
    if values[-1] == 1.0:
        soft[-1] = max((weights[-1] + 1.0) / (weights[-1] + 2.0), soft[-2])
    if values.size == 2 and soft[0] > soft[1]:
        soft[:] = 0.5
    return soft
