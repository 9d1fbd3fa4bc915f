"""Histogram binning: the share correct in each bin of raw confidences. Not monotone."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, probabilities, weighted
from lsp_calib.calibration.document import Fields
from lsp_calib.errors import DataError


def _probabilities(
    _: object, attribute: attrs.Attribute[tuple[float, ...]], value: tuple[float, ...]
) -> None:
    if not all(0.0 <= item <= 1.0 for item in value):
        raise DataError(f"{attribute.name} must be numbers in [0, 1].")


@attrs.frozen
class HistogramCalibrator:
    """A step for each bin: [0, edges[0]), [edges[0], edges[1]), ..., [edges[-1], 1].

    edges: the inner ones, ascending. values: one more than edges. Raises DataError for anything else.
    """

    kind: ClassVar[str] = "histogram"

    edges: tuple[float, ...] = attrs.field(validator=_probabilities)
    values: tuple[float, ...] = attrs.field(validator=_probabilities)

    def __attrs_post_init__(self) -> None:
        if len(self.values) != len(self.edges) + 1 or np.any(np.diff(np.array(self.edges)) < 0.0):
            raise DataError("edges must be ascending, with one value more than edges.")

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], in the shape of `raw`. Raises DataError on values outside [0, 1]."""
        return np.asarray(self.values)[self._bin(probabilities(raw, "raw confidence"))]

    def _bin(self, raw: FloatArray) -> npt.NDArray[np.intp]:
        return np.searchsorted(np.array(self.edges), raw, side="right")

    @classmethod
    def fit(
        cls,
        raw: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        bins: int = 10,
        strategy: Literal["width", "mass"] = "width",
        smoothing: float = 1.0,
    ) -> Self:
        """How often each bin was right.

        raw, correct, weights: arrays of shape (n,), as in `PlattCalibrator.fit`.
        bins: how many; equally wide, or (mass) with about equally many labels. Equal scores stay together.
        smoothing: number of imaginary labels that each bin starts with, correct at the rate of its middle. 0
            gives plain frequencies; an empty bin always predicts its middle.
        Raises DataError on different shapes, NaN, or values out of range.
        Source: Zadrozny & Elkan 2001.
        """
        scores, labels, w = weighted(raw, correct, weights)
        if bins < 1 or not 0.0 <= smoothing <= 1e9:
            raise DataError(f"bins must be at least 1 and smoothing not negative, not {bins}, {smoothing}.")
        share = np.arange(1, bins) / bins
        if strategy == "mass" and np.any(w > 0.0):
            edges = _quantiles(scores, w, share)
        elif strategy in ("mass", "width"):
            edges = share
        else:
            raise DataError(f"Unknown strategy {strategy!r}; known: width, mass.")
        whole = np.concatenate(([0.0], edges, [1.0]))
        middle = 0.5 * (whole[1:] + whole[:-1])
        bin_of = np.searchsorted(edges, scores, side="right")
        total = np.bincount(bin_of, w, middle.size)
        right = np.bincount(bin_of, w * labels, middle.size)
        values = np.where(
            total > 0.0, (right + smoothing * middle) / np.maximum(total + smoothing, 1e-300), middle
        )
        return cls(tuple(edges.tolist()), tuple(np.clip(values, 0.0, 1.0).tolist()))

    def to_json(self) -> dict[str, Any]:
        return {"edges": list(self.edges), "values": list(self.values)}

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        return cls(fields.numbers("edges"), fields.numbers("values"))


def _quantiles(scores: FloatArray, weights: FloatArray, share: FloatArray) -> FloatArray:
    """The lowest scores below which at least the given shares of the weight lie, each once."""
    distinct, codes = np.unique(scores, return_inverse=True)
    before = np.cumsum(np.bincount(codes, weights))
    at = np.searchsorted(before, share * before[-1] * (1.0 - 1e-12), side="left")
    return np.unique(distinct[np.minimum(at + 1, distinct.size - 1)])
