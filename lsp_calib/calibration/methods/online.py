"""Calibration that learns label by label and forgets: online Platt scaling, and calibeating on top of it."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, paired, probabilities
from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid
from lsp_calib.calibration.methods.platt import LOOSE_PRIOR, PlattCalibrator, Prior
from lsp_calib.errors import DataError

# How many of the latest labels count, in effect. In simulation (tests/validity/test_online.py) a memory
# of 100 costs 0.004 nats where nothing changes, 200 costs 0.002, 1,000 costs 0.001. While the log-odds fall
# by 3 over 500 labels and for 500 more they lose 0.009, 0.021 and 0.116; without forgetting the loss is
# 0.193.
MEMORY = 200.0

_NEWTON_STEPS = 200


def _memory(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 1.0 < value <= 1e12:
        raise DataError(f"{attribute.name} must be a number above 1, at most 1e12, not {value}.")


@attrs.frozen
class OnlinePlatt:
    """Platt scaling as a Gaussian belief about (slope, intercept), updated label by label.

    slope, intercept: its mean. precision: the entries (slope slope, slope intercept, intercept intercept) of
        its inverse covariance. Together the state: `start` makes the first, `update` the next.
    prior: the belief that forgetting returns to. memory: after that many further labels a label counts 1/e.
    n: labels so far.
    """

    slope: float
    intercept: float
    precision: tuple[float, float, float]
    prior: Prior
    memory: float = attrs.field(default=MEMORY, converter=float, validator=_memory)
    n: int = 0

    def __attrs_post_init__(self) -> None:
        h00, h01, h11 = self.precision
        if not all(abs(value) <= 1e100 for value in (self.slope, self.intercept, *self.precision)):
            raise DataError("slope, intercept and precision must be finite numbers.")
        if not (h00 > 0.0 and h11 > 0.0 and h00 * h11 > h01 * h01):
            raise DataError(f"precision must be positive definite, not {self.precision}.")

    @classmethod
    def start(cls, prior: Prior = LOOSE_PRIOR, memory: float = MEMORY) -> Self:
        """The prior's Gaussian, without labels. Its trust is ignored: a curve that drifts is not the
        identity."""
        precision = (prior.slope_sd**-2, 0.0, prior.intercept_sd**-2)
        return cls(prior.slope, prior.intercept, precision, prior, memory)

    @property
    def calibrator(self) -> PlattCalibrator:
        """The present curve."""
        return PlattCalibrator(self.slope, self.intercept)

    def to_json(self) -> dict[str, Any]:
        return {
            "slope": self.slope,
            "intercept": self.intercept,
            "precision": list(self.precision),
            "prior": self.prior.to_json(),
            "memory": self.memory,
            "n": self.n,
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        fields.only({"slope", "intercept", "precision", "prior", "memory", "n"})
        precision = fields.numbers("precision")
        if len(precision) != 3:
            fields.wrong("precision", "must be three numbers")
        return cls(
            fields.number("slope"),
            fields.number("intercept"),
            (precision[0], precision[1], precision[2]),
            Prior.from_json(fields.object("prior")),
            fields.number("memory"),
            fields.count("n"),
        )

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], in the shape of `raw`. Raises DataError on values outside [0, 1]."""
        return sigmoid(self.slope * log_odds(raw) + self.intercept)

    def update(self, raw: float, correct: bool) -> Self:
        """The belief after one more label.

        First it forgets: precision and mean move 1 / memory of the way back to the prior's (in natural
        parameters, so that the labels' information fades and the prior's stays). Then it takes the mode of
        belief times likelihood, exactly, and the curvature there.
        Raises DataError on NaN or values outside [0, 1].
        Source: Kulhavy & Zarrop 1993 (forgetting towards an alternative); Gupta & Ramdas 2023 (online Platt).
        """
        x, y = float(log_odds(raw)), float(bool(correct))
        keep = 1.0 - 1.0 / self.memory
        prior00, prior11 = self.prior.slope_sd**-2, self.prior.intercept_sd**-2
        h00 = keep * self.precision[0] + (1.0 - keep) * prior00
        h01 = keep * self.precision[1]
        h11 = keep * self.precision[2] + (1.0 - keep) * prior11
        # Natural parameters of the mean: precision times mean.
        m0 = keep * (self.precision[0] * self.slope + self.precision[1] * self.intercept)
        m1 = keep * (self.precision[1] * self.slope + self.precision[2] * self.intercept)
        m0 += (1.0 - keep) * prior00 * self.prior.slope
        m1 += (1.0 - keep) * prior11 * self.prior.intercept
        determinant = h00 * h11 - h01 * h01
        slope = (h11 * m0 - h01 * m1) / determinant
        intercept = (h00 * m1 - h01 * m0) / determinant
        # The mode lies on the line mean + covariance (x, 1) (y - p): one equation in z remains.
        d0, d1 = (h11 * x - h01) / determinant, (h00 - h01 * x) / determinant
        z = _solve(slope * x + intercept, d0 * x + d1, y)
        p = float(sigmoid(z))
        curvature = p * (1.0 - p)
        return attrs.evolve(
            self,
            slope=slope + d0 * (y - p),
            intercept=intercept + d1 * (y - p),
            precision=(h00 + curvature * x * x, h01 + curvature * x, h11 + curvature),
            n=self.n + 1,
        )


def _solve(z: float, variance: float, y: float) -> float:
    """The z' with z' = z + variance (y - sigmoid(z')): Newton inside a shrinking bracket.

    Where the sigmoid is flat Newton's step may lead from one end to the other and back, inside the bracket:
    one that does not halve the excess is replaced by half the bracket.
    """
    low, high = z + variance * (y - 1.0), z + variance * y
    at, before = min(max(z, low), high), math.inf
    for _ in range(_NEWTON_STEPS):
        p = float(sigmoid(at))
        excess = at - z - variance * (y - p)
        if excess > 0.0:
            high = at
        else:
            low = at
        following = at - excess / (1.0 + variance * p * (1.0 - p))
        if not low <= following <= high or abs(excess) > 0.5 * before:
            following = 0.5 * (low + high)
        before = abs(excess)
        if abs(following - at) <= 1e-13 * (1.0 + abs(at)):
            return following
        at = following
    return at


# A bin of calibeating corrects from this many (remembered) labels on; its residual then counts half.
ENOUGH = 50.0

# The bins remember longer than the curve: the forecasts of their residuals follow a drift already.
BIN_MEMORY = 2000.0


def _finite(_: object, attribute: attrs.Attribute[tuple[float, ...]], value: tuple[float, ...]) -> None:
    if not value or not all(abs(item) <= 1e15 for item in value):
        raise DataError(f"{attribute.name} must be finite numbers, at least one.")


@attrs.frozen
class Calibeater:
    """Corrects a forecaster in the bins where its forecasts were off. Not monotone.

    counts, residuals: for each of k equally wide bins of forecasts the remembered labels, and the sum of
        outcome less forecast. memory: as in `OnlinePlatt`. enough: the number of labels from which on a bin
        is corrected; as many imaginary labels without a residual shrink the correction.
    Foster & Hart replace the forecast with the bin's frequency. This adds the bin's mean residual,
    shrunk: the same in the mean, but forecasts of one bin stay in order and move together with a drift.
    Source: Foster & Hart 2023 (calibeating); Gupta & Ramdas 2023 (on top of online Platt scaling).
    """

    counts: tuple[float, ...] = attrs.field(validator=_finite)
    residuals: tuple[float, ...] = attrs.field(validator=_finite)
    memory: float = attrs.field(default=BIN_MEMORY, converter=float, validator=_memory)
    enough: float = attrs.field(default=ENOUGH, converter=float, validator=attrs.validators.ge(1.0))

    def __attrs_post_init__(self) -> None:
        if len(self.counts) != len(self.residuals) or min(self.counts) < 0.0:
            raise DataError("counts must not be negative, with one residual for each count.")

    @classmethod
    def start(cls, bins: int = 10, memory: float = BIN_MEMORY, enough: float = ENOUGH) -> Self:
        """Without labels. Raises DataError unless there is at least one bin."""
        return cls((0.0,) * bins, (0.0,) * bins, memory, enough)

    def predict(self, forecast: npt.ArrayLike) -> FloatArray:
        """Probabilities in the shape of the forecasts, which are corrected if their bin has enough labels.

        A correction in a bin with k labels brings a forecast no nearer than 1 / (k + 2) to 0 and 1.
        Raises DataError on NaN or values outside [0, 1].
        """
        p = probabilities(forecast, "forecast")
        at = self._bin(p)
        counts, residuals = np.array(self.counts)[at], np.array(self.residuals)[at]
        edge = 1.0 / (counts + 2.0)
        corrected = np.clip(
            p + residuals / (counts + self.enough), np.minimum(p, edge), np.maximum(p, 1.0 - edge)
        )
        return np.asarray(np.where(counts >= self.enough, corrected, p))

    def update(self, forecast: float, correct: bool) -> Self:
        """The corrections after one more label; forecast: the uncorrected one. All bins forget equally."""
        p = float(probabilities(forecast, "forecast"))
        keep = 1.0 - 1.0 / self.memory
        at = int(self._bin(np.array(p)))
        counts = [keep * count for count in self.counts]
        residuals = [keep * residual for residual in self.residuals]
        counts[at] += 1.0
        residuals[at] += float(bool(correct)) - p
        return attrs.evolve(self, counts=tuple(counts), residuals=tuple(residuals))

    def to_json(self) -> dict[str, Any]:
        return {
            "counts": list(self.counts),
            "residuals": list(self.residuals),
            "memory": self.memory,
            "enough": self.enough,
        }

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        fields.only({"counts", "residuals", "memory", "enough"})
        return cls(
            fields.numbers("counts"),
            fields.numbers("residuals"),
            fields.number("memory"),
            fields.number("enough"),
        )

    def _bin(self, forecast: FloatArray) -> npt.NDArray[np.intp]:
        k = len(self.counts)
        return np.minimum(np.floor(forecast * k).astype(np.intp), k - 1)


@attrs.frozen
class OnlineCalibrator:
    """Online Platt scaling with calibeating on top, to be updated with each settled suggestion."""

    kind: ClassVar[str] = "sequential"

    platt: OnlinePlatt = attrs.field(factory=OnlinePlatt.start)
    calibeater: Calibeater = attrs.field(factory=Calibeater.start)

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], in the shape of `raw`. Raises DataError on values outside [0, 1]."""
        return self.calibeater.predict(self.platt.predict(raw))

    def update(self, raw: float, correct: bool) -> Self:
        """The calibrator after one more label. The bins learn from the curve's forecast before that label."""
        forecast = float(self.platt.predict(raw))
        return attrs.evolve(
            self,
            platt=self.platt.update(raw, correct),
            calibeater=self.calibeater.update(forecast, correct),
        )

    @classmethod
    def fit(cls, raw: npt.ArrayLike, correct: npt.ArrayLike) -> Self:
        """The calibrator after all of these labels, oldest first; raw, correct: arrays of shape (n,).

        Raises DataError on different shapes, NaN, or values outside [0, 1].
        """
        scores, labels = paired(raw, correct, empty=True)
        fitted = cls()
        for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
            fitted = fitted.update(score, label)
        return fitted

    def to_json(self) -> dict[str, Any]:
        return {"platt": self.platt.to_json(), "calibeater": self.calibeater.to_json()}

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        return cls(
            OnlinePlatt.from_json(fields.object("platt")),
            Calibeater.from_json(fields.object("calibeater")),
        )
