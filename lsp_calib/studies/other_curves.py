"""Other methods of calibration, for comparison: isotonic, histogram binning, beta and temperature.

Each `fit` takes raw confidences in [0, 1], float array of shape (n,), and correct, bool array of shape (n,);
it raises DataError on different shapes, NaN, or values out of range. Each `predict` gives probabilities in
[0, 1], in the shape of its raw confidences, and raises DataError for those outside [0, 1].
"""

from __future__ import annotations

from typing import Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, paired, probabilities
from lsp_calib.calibration.logistic import CLIP, log_odds, maximise_posterior, sigmoid


@attrs.frozen
class IsotonicCalibrator:
    """Straight lines between knots, constant outside them. Monotone.

    scores, values: tuples of one length: raw confidences and their calibrated values, both ascending.
    """

    scores: tuple[float, ...]
    values: tuple[float, ...]

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        at = probabilities(raw, "raw confidence")
        scores, values = np.array(self.scores), np.array(self.values)
        left = np.clip(np.searchsorted(scores, at, side="right") - 1, 0, scores.size - 1)
        right = np.minimum(left + 1, scores.size - 1)
        apart = scores[right] - scores[left]
        # The share of the distance, not a slope: between neighbouring floats a slope would be infinite.
        share = np.clip((at - scores[left]) / np.where(apart > 0.0, apart, 1.0), 0.0, 1.0)
        return np.asarray(np.minimum(values[left] + share * (values[right] - values[left]), values[right]))

    @classmethod
    def fit(cls, raw: npt.ArrayLike, correct: npt.ArrayLike, *, ends: bool = True) -> Self:
        """Pool adjacent violators; the identity without labels.

        ends: whether a first block with only wrong labels and a last block with only correct ones get
            Laplace's estimate from their number, 1 / (k + 2) and (k + 1) / (k + 2), or the neighbouring
            block's value if that is less extreme: no number of labels shows a probability of 0. False leaves
            0 and 1.
        Source: Zadrozny & Elkan 2002; Ayer et al. 1955.
        """
        scores, labels = paired(raw, correct, empty=True)
        if scores.size == 0:
            return cls((0.0, 1.0), (0.0, 1.0))
        distinct, codes, total = np.unique(scores, return_inverse=True, return_counts=True)
        sizes, weights, values = _pool(np.bincount(codes, labels) / total, total.astype(np.float64))
        if ends:
            values = _softened(values, weights)
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


_EDGES = np.arange(1, 10) / 10


@attrs.frozen
class HistogramCalibrator:
    """A step for each of ten bins: [0, 0.1), [0.1, 0.2), ..., [0.9, 1]. values: in their order."""

    values: tuple[float, ...]

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        bin_of = np.searchsorted(_EDGES, probabilities(raw, "raw confidence"), side="right")
        return np.asarray(np.array(self.values)[bin_of])

    @classmethod
    def fit(cls, raw: npt.ArrayLike, correct: npt.ArrayLike) -> Self:
        """How often each bin was right; its middle where it is empty. Source: Zadrozny & Elkan 2001."""
        scores, labels = paired(raw, correct, empty=True)
        bin_of = np.searchsorted(_EDGES, scores, side="right")
        middle = (np.arange(10) + 0.5) / 10
        total = np.bincount(bin_of, minlength=10)
        right = np.bincount(bin_of[labels], minlength=10)
        return cls(tuple(np.where(total > 0, right / np.maximum(total, 1), middle).tolist()))


_IDENTITY = np.array([1.0, 1.0, 0.0])
_FREE = ([True, True, True], [False, True, True], [True, False, True], [False, False, True])


@attrs.frozen
class BetaCalibrator:
    """probability = sigmoid(a ln p - b ln(1 - p) + c), with a, b >= 0: monotone. (1, 1, 0) is the identity.

    Platt scaling on log-odds is a = b. Source: Kull, Silva Filho & Flach 2017.
    """

    a: float
    b: float
    c: float

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        rising, falling = _logs(raw)
        return sigmoid(self.a * rising + self.b * falling + self.c)

    @classmethod
    def fit(cls, raw: npt.ArrayLike, correct: npt.ArrayLike, *, spread: float = 1e3) -> Self:
        """The most probable curve with a, b >= 0; the identity without labels.

        spread: standard deviation of Gaussian priors of a, b and c around the identity. The default is as
            good as maximum likelihood where that exists, and keeps separable labels and one class finite.
        A negative a or b is set to 0 and the rest refitted, as Kull et al. do; where that leaves a choice,
        the most probable one is taken. The problem is convex, so this is its optimum.
        """
        scores, labels = paired(raw, correct, empty=True)
        design = np.column_stack((*_logs(scores), np.ones(scores.size)))
        precision = np.full(3, spread**-2)
        targets, weights = labels.astype(np.float64), np.ones(scores.size)
        best, lowest = np.zeros(3), np.inf
        for free in _FREE:
            fitted, value = maximise_posterior(
                design[:, free], targets, weights, _IDENTITY[free], precision[free]
            )
            value += 0.5 * float(np.sum((precision * _IDENTITY)[np.logical_not(free)]))  # 1 -> 0 in the prior
            coefficients = np.zeros(3)
            coefficients[free] = fitted
            if np.all(coefficients[:2] >= 0.0) and value < lowest:
                best, lowest = coefficients, value
                if all(free):
                    break
        return cls(*map(float, best))


def _logs(raw: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    p = np.clip(probabilities(raw, "raw confidence"), CLIP, 1.0 - CLIP)
    return np.asarray(np.log(p)), np.asarray(-np.log1p(-p))


# Beyond these the curve is a step or flat. Separable or contradicting labels lead to these bounds.
COLDEST, HOTTEST = 0.02, 50.0


@attrs.frozen
class TemperatureCalibrator:
    """probability = sigmoid(log-odds(raw) / temperature). Monotone; 0.5 stays where it is.

    Source: Guo et al. 2017.
    """

    temperature: float

    def predict(self, raw: npt.ArrayLike) -> FloatArray:
        return sigmoid(log_odds(raw) / self.temperature)

    @classmethod
    def fit(cls, raw: npt.ArrayLike, correct: npt.ArrayLike, *, spread: float = 1.0) -> Self:
        """The most probable temperature in [0.02, 50]; 1 without labels.

        spread: standard deviation of a Gaussian prior of 1 / temperature around 1; 1e6 is maximum likelihood.
        """
        scores, labels = paired(raw, correct, empty=True)
        fitted, _ = maximise_posterior(
            log_odds(scores)[:, None],
            labels.astype(np.float64),
            np.ones(scores.size),
            np.ones(1),
            np.array([spread**-2]),
        )
        # Convex in 1 / temperature: the best inside the bounds is the best of all, moved to the nearer bound.
        return cls(float(np.clip(1.0 / max(float(fitted[0]), 1e-9), COLDEST, HOTTEST)))
