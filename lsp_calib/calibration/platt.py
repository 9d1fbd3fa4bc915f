"""Platt scaling: a logistic curve over the log-odds of the raw confidence.

The fit is the most probable (slope, intercept) given the labels, under a Gaussian prior. Sources: Platt 1999
(the curve and the smoothed targets); Lin, Lin & Weng 2007 (stable evaluation, Newton with line search).
"""

from __future__ import annotations

from typing import Literal, Protocol, Self, overload

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, paired, probabilities
from lsp_calib.errors import DataError

# Raw confidences count as no nearer than this to 0 and 1 (log-odds within 13.8). Log-probabilities from
# float32 logits are good to some 2e-7, so beyond 1e-6 the digits of 1 - p are noise, and a noisy log-odds of
# 36 would steer a fit by itself.
CLIP = 1e-6

_MAX_ITERATIONS = 200
_MAX_HALVINGS = 50


class Predictor(Protocol):
    """What turns raw confidences, array of shape (n,), into probabilities of the same shape."""

    def predict(self, raw: FloatArray) -> FloatArray: ...


def _finite(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    # No fit on log-odds within 13.8 comes near this bound; it keeps slope * log-odds from overflowing.
    if not abs(value) <= 1e100:
        raise DataError(f"{attribute.name} must be a finite number, not {value}.")


def _positive(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 1e-9 <= value <= 1e9:
        raise DataError(f"{attribute.name} must be a number in [1e-9, 1e9], not {value}.")


@attrs.frozen
class Prior:
    """Independent Gaussian beliefs about the slope and the intercept before any label.

    slope, intercept: means. slope_sd, intercept_sd: standard deviations, in [1e-9, 1e9] (1e6 is as good as
        flat).
    Raises DataError for anything else.
    """

    slope: float = attrs.field(converter=float, validator=_finite)
    intercept: float = attrs.field(converter=float, validator=_finite)
    slope_sd: float = attrs.field(converter=float, validator=_positive)
    intercept_sd: float = attrs.field(converter=float, validator=_positive)


# The identity, held loosely: raw confidences order suggestions about as log-odds should (slope near 1), while
# their level is off by several nats, differently for each model, so the intercept is left nearly free.
# Over seven simulated truths (calibrated to far overconfident, narrow, wide, heavy-tailed) the excess
# log-loss of this choice with Platt's targets is, mean and worst: 0.066 and 0.113 at n = 5, 0.046 and 0.058
# at 10, 0.028 and 0.041 at 20, 0.004 and 0.006 at 200. With plain targets 0.062 and 0.117 at n = 10; with an
# intercept sd of 1 the worst is 0.120; with a slope sd of 1, 0.054 and 0.064. and a flat
# intercept as well, 0.057 and 0.073.
DEFAULT_PRIOR = Prior(slope=1.0, intercept=0.0, slope_sd=0.5, intercept_sd=2.0)


@attrs.frozen
class PlattCalibrator:
    """probability = sigmoid(slope * log-odds(raw) + intercept).

    Monotone in the raw confidence if slope >= 0. Raises DataError unless both are finite.
    """

    slope: float = attrs.field(converter=float, validator=_finite)
    intercept: float = attrs.field(converter=float, validator=_finite)

    @overload
    def predict(self, raw: float) -> float: ...
    @overload
    def predict(self, raw: npt.NDArray[np.floating]) -> FloatArray: ...
    def predict(self, raw: npt.ArrayLike) -> float | FloatArray:
        """Calibrated probabilities in [0, 1], float64, in the shape of `raw` (a float for a float).

        raw: raw confidences in [0, 1]. Raises DataError on NaN or values outside.
        """
        z = self.slope * log_odds(raw) + self.intercept
        p = sigmoid(z)
        return float(p) if p.ndim == 0 else p

    @classmethod
    def fit(
        cls,
        raw: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        prior: Prior = DEFAULT_PRIOR,
        targets: Literal["platt", "plain"] = "platt",
    ) -> Self:
        """The most probable calibrator given labels.

        raw: float array of shape (n,), raw confidences in [0, 1]. correct: bool array of shape (n,).
        weights: float array of shape (n,), not negative; a weight of 2 is the same as giving the pair twice.
        prior: without labels the result is its mean; a flat one and plain targets give maximum likelihood.
        targets: "platt" replaces 1 by (n+ + 1) / (n+ + 2) and 0 by 1 / (n- + 2): what a few labels of one
            class can vouch for. "plain" keeps 0 and 1: right where the prior itself is informative, because
            smoothed targets would pull towards one half what prior and labels agree on.
        The posterior is strictly log-concave, so this works, and is unique, for no labels, one class,
        separable data and scores of 0 and 1.
        Raises DataError on different shapes, NaN, or values out of range.
        """
        scores, labels = paired(raw, correct, empty=True)
        w = _weights(weights, scores.size)
        if not np.any(w > 0):
            return cls(prior.slope, prior.intercept)
        if targets == "platt":
            positive, negative = float(np.sum(w[labels])), float(np.sum(w[~labels]))
            t = np.where(labels, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
        elif targets == "plain":
            t = labels.astype(np.float64)
        else:
            raise DataError(f"Unknown targets {targets!r}; known: platt, plain.")
        return cls(*_newton(log_odds(scores), t, w, prior))


def log_odds(raw: npt.ArrayLike) -> FloatArray:
    """log(p / (1 - p)) in nats, within +-13.8 (see CLIP), in the shape of `raw`.

    Raises DataError on NaN or values outside [0, 1].
    """
    p = np.clip(probabilities(raw, "raw confidence"), CLIP, 1.0 - CLIP)
    return np.asarray(np.log(p / (1.0 - p)))


def sigmoid(z: npt.ArrayLike) -> FloatArray:
    """1 / (1 + exp(-z)), accurate in both tails and without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(z, dtype=np.float64))))


def _weights(weights: npt.ArrayLike | None, n: int) -> FloatArray:
    if weights is None:
        return np.ones(n)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.all((w >= 0.0) & np.isfinite(w)):
        raise DataError(f"weights must be {n} finite numbers, none negative; their shape is {w.shape}.")
    return w


def _newton(x: FloatArray, t: FloatArray, w: FloatArray, prior: Prior) -> tuple[float, float]:
    """Minimise sum w (log(1 + e^z) - t z) + the prior's two squares, z = slope x + intercept."""
    slope_precision, intercept_precision = prior.slope_sd**-2, prior.intercept_sd**-2

    def objective(slope: float, intercept: float) -> float:
        z = slope * x + intercept
        return float(
            np.sum(w * (np.logaddexp(0.0, z) - t * z))
            + 0.5 * slope_precision * (slope - prior.slope) ** 2
            + 0.5 * intercept_precision * (intercept - prior.intercept) ** 2
        )

    slope, intercept = prior.slope, prior.intercept
    value = objective(slope, intercept)
    for _ in range(_MAX_ITERATIONS):
        p = sigmoid(slope * x + intercept)
        residual = w * (p - t)
        g0 = float(residual @ x) + slope_precision * (slope - prior.slope)
        g1 = float(np.sum(residual)) + intercept_precision * (intercept - prior.intercept)
        curvature = w * p * (1.0 - p)
        h00 = float(curvature @ (x * x)) + slope_precision
        h01 = float(curvature @ x)
        h11 = float(np.sum(curvature)) + intercept_precision
        determinant = h00 * h11 - h01 * h01
        if determinant <= 1e-14 * h00 * h11:  # one score only under a flat prior: rounding hides the prior
            h00 *= 1.0 + 1e-7
            h11 *= 1.0 + 1e-7
            determinant = h00 * h11 - h01 * h01
        d0 = (h11 * g0 - h01 * g1) / determinant
        d1 = (h00 * g1 - h01 * g0) / determinant
        decrement = g0 * d0 + g1 * d1  # about twice the objective's distance from its minimum
        step = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = objective(slope - step * d0, intercept - step * d1)
            if trial <= value - 1e-4 * step * decrement:
                break
            step *= 0.5
        else:
            # No step lowers the objective any more: only rounding is left. The full step still sharpens the
            # parameters, which the objective's rounding cannot see.
            if decrement <= 1e-10 * (1.0 + abs(value)):
                slope, intercept = slope - d0, intercept - d1
            break
        slope, intercept, value = slope - step * d0, intercept - step * d1, trial
        if decrement <= 1e-13 * (1.0 + abs(value)):  # and the step just taken squared that
            break
    return slope, intercept
