"""Beta calibration: a curve with one slope for doubt and one for confidence."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, probabilities, weighted
from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.methods.log_odds import CLIP, sigmoid
from lsp_calib.calibration.methods.newton import maximise_posterior
from lsp_calib.errors import DataError

_IDENTITY = np.array([1.0, 1.0, 0.0])
_FREE = ([True, True, True], [False, True, True], [True, False, True], [False, False, True])


def _slope(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1e100:
        raise DataError(f"{attribute.name} must be a finite number, not negative, not {value}.")


def _finite(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not abs(value) <= 1e100:
        raise DataError(f"{attribute.name} must be a finite number, not {value}.")


@attrs.frozen
class BetaCalibrator:
    """probability = sigmoid(a ln p - b ln(1 - p) + c), with a, b >= 0: monotone. (1, 1, 0) is the identity.

    Platt scaling on log-odds is a = b. Raises DataError for other numbers.
    Source: Kull, Silva Filho & Flach 2017.
    """

    kind: ClassVar[str] = "beta"

    a: float = attrs.field(converter=float, validator=_slope)
    b: float = attrs.field(converter=float, validator=_slope)
    c: float = attrs.field(converter=float, validator=_finite)

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], in the shape of `raw`. Raises DataError on values outside [0, 1]."""
        rising, falling = _logs(raw)
        return sigmoid(self.a * rising + self.b * falling + self.c)

    @classmethod
    def fit(
        cls,
        raw: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        spread: float = 1e3,
    ) -> Self:
        """The most probable curve with a, b >= 0; the identity without labels.

        raw, correct, weights: arrays of shape (n,), as in `PlattCalibrator.fit`.
        spread: standard deviation of Gaussian priors of a, b and c around the identity. The default is as
            good as maximum likelihood where that exists, and keeps separable labels and one class finite.
        A negative a or b is set to 0 and the rest refitted, as Kull et al. do; where that leaves a choice,
        the most probable one is taken. The problem is convex, so this is its optimum.
        Raises DataError on different shapes, NaN, or values out of range.
        """
        scores, labels, w = weighted(raw, correct, weights)
        if not 1e-9 <= spread <= 1e9:
            raise DataError(f"spread must be a number in [1e-9, 1e9], not {spread}.")
        design = np.column_stack((*_logs(scores), np.ones(scores.size)))
        precision = np.full(3, spread**-2)
        best, lowest = np.zeros(3), np.inf
        for free in _FREE:
            fitted, value = maximise_posterior(
                design[:, free], labels.astype(np.float64), w, _IDENTITY[free], precision[free]
            )
            value += 0.5 * float(np.sum((precision * _IDENTITY)[np.logical_not(free)]))  # 1 -> 0 in the prior
            coefficients = np.zeros(3)
            coefficients[free] = fitted
            if np.all(coefficients[:2] >= 0.0) and value < lowest:
                best, lowest = coefficients, value
                if all(free):
                    break
        return cls(*best)

    def to_json(self) -> dict[str, Any]:
        return {"a": self.a, "b": self.b, "c": self.c}

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        return cls(fields.number("a"), fields.number("b"), fields.number("c"))


def _logs(raw: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    p = np.clip(probabilities(raw, "raw confidence"), CLIP, 1.0 - CLIP)
    return np.asarray(np.log(p)), np.asarray(-np.log1p(-p))
