"""Other methods of calibration, for comparison: isotonic, histogram binning, beta and temperature."""

from __future__ import annotations

from typing import Literal, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, probabilities, weighted
from lsp_calib.calibration.logistic import CLIP, finite, log_odds, maximise_posterior, sigmoid
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
    return soft


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


def _quantiles(scores: FloatArray, weights: FloatArray, share: FloatArray) -> FloatArray:
    """The lowest scores below which at least the given shares of the weight lie, each once."""
    distinct, codes = np.unique(scores, return_inverse=True)
    before = np.cumsum(np.bincount(codes, weights))
    at = np.searchsorted(before, share * before[-1] * (1.0 - 1e-12), side="left")
    return np.unique(distinct[np.minimum(at + 1, distinct.size - 1)])


_IDENTITY = np.array([1.0, 1.0, 0.0])
_FREE = ([True, True, True], [False, True, True], [True, False, True], [False, False, True])


def _slope(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1e100:
        raise DataError(f"{attribute.name} must be a finite number, not negative, not {value}.")


@attrs.frozen
class BetaCalibrator:
    """probability = sigmoid(a ln p - b ln(1 - p) + c), with a, b >= 0: monotone. (1, 1, 0) is the identity.

    Platt scaling on log-odds is a = b. Raises DataError for other numbers.
    Source: Kull, Silva Filho & Flach 2017.
    """

    a: float = attrs.field(converter=float, validator=_slope)
    b: float = attrs.field(converter=float, validator=_slope)
    c: float = attrs.field(converter=float, validator=finite)

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


def _logs(raw: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    p = np.clip(probabilities(raw, "raw confidence"), CLIP, 1.0 - CLIP)
    return np.asarray(np.log(p)), np.asarray(-np.log1p(-p))


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
