"""The interface of every calibration method: fit, predict, to and from JSON."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

import attrs
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.document import Fields


class Predictor(Protocol):
    """Turns raw confidences, array of shape (n,), into probabilities of the same shape."""

    def predict(self, raw: FloatArray, /) -> FloatArray: ...


class CalibrationMethod(Predictor, attrs.AttrsInstance, Protocol):
    """A fitted curve from raw confidences (or features) to probabilities: a frozen value.

    kind: its name in a document; see `calibrators.serialization`.
    """

    kind: ClassVar[str]

    @classmethod
    def fit(cls, raw: npt.ArrayLike, correct: npt.ArrayLike, /) -> Self:
        """Fit on n items. raw: float array of shape (n,), or (n, d) for d features. correct: bool, (n,)."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The numbers of the curve as JSON types, by the names of its fields."""
        ...

    @classmethod
    def from_json(cls, fields: Fields, /) -> Self:
        """The curve that `to_json` wrote. Raises CalibratorError or DataError for anything else."""
        ...
