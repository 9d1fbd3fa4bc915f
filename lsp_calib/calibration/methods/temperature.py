"""Temperature scaling: one number that sharpens or flattens probabilities, of scores or of tokens."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, weighted
from lsp_calib.calibration.document import Fields
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid
from lsp_calib.calibration.methods.newton import maximise_posterior
from lsp_calib.errors import DataError

# Beyond these the curve is a step or flat. Separable or contradicting labels lead to these bounds.
COLDEST, HOTTEST = 0.02, 50.0


def _in_range(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not COLDEST <= value <= HOTTEST:
        raise DataError(f"{attribute.name} must lie in [{COLDEST}, {HOTTEST}], not {value}.")


@attrs.frozen
class TemperatureCalibrator:
    """probability = sigmoid(log-odds(raw) / temperature). Monotone; 0.5 stays where it is.

    Raises DataError for temperatures outside [0.02, 50]. Source: Guo et al. 2017.
    """

    kind: ClassVar[str] = "temperature"

    temperature: float = attrs.field(converter=float, validator=_in_range)

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        """Probabilities in [0, 1], in the shape of `raw`. Raises DataError on values outside [0, 1]."""
        return sigmoid(log_odds(raw) / self.temperature)

    @classmethod
    def fit(
        cls,
        raw: npt.ArrayLike,
        correct: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        spread: float = 1.0,
    ) -> Self:
        """The most probable temperature in [0.02, 50]; 1 without labels.

        raw, correct, weights: arrays of shape (n,), as in `PlattCalibrator.fit`.
        spread: standard deviation of a Gaussian prior of 1 / temperature around 1; 1e6 is maximum likelihood.
        Raises DataError on different shapes, NaN, or values out of range.
        """
        scores, labels, w = weighted(raw, correct, weights)
        if not 1e-9 <= spread <= 1e9:
            raise DataError(f"spread must be a number in [1e-9, 1e9], not {spread}.")
        fitted, _ = maximise_posterior(
            log_odds(scores)[:, None], labels.astype(np.float64), w, np.ones(1), np.array([spread**-2])
        )
        # Convex in 1 / temperature: the best inside the bounds is the best of all, moved to the nearer bound.
        return cls(float(np.clip(1.0 / max(float(fitted[0]), 1e-9), COLDEST, HOTTEST)))

    def to_json(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    @classmethod
    def from_json(cls, fields: Fields) -> Self:
        return cls(fields.number("temperature"))


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


def token_log_probabilities(logit: npt.ArrayLike, sums: npt.ArrayLike, temperature: float) -> FloatArray:
    """The log-probabilities of tokens at one temperature, in nats, in the shape of `logit`.

    logit: the tokens' logits. sums: their positions' `log_sum_exp` at this temperature, in the same shape.
    """
    (t,) = _temperatures([temperature])
    scaled = np.asarray(logit, dtype=np.float64) / t
    return np.asarray(np.minimum(scaled - np.asarray(sums, dtype=np.float64), 0.0))


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
