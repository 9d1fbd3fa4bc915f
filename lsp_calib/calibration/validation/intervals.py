"""Intervals of metrics: cluster bootstrap, and the band of a calibrated score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, paired
from lsp_calib.calibration.metrics.resampled import OfItems, base_rate, of_items, of_labels
from lsp_calib.calibration.metrics.scores import (
    Metric,
    auc,
    brier_score,
    expected_calibration_error,
    log_loss,
    skill_score,
)
from lsp_calib.calibration.warnings import quietly
from lsp_calib.errors import DataError

Kind = Literal["bootstrap", "calibrated-band"]


@attrs.frozen
class Interval:
    """A metric's value with a 95 % interval; None where it is undefined.

    kind: "bootstrap": the range of the value for other data of this kind. "calibrated-band": the range of the
        metric for a perfectly calibrated score with the same confidences.
    """

    value: float | None
    low: float | None
    high: float | None
    kind: Kind = "bootstrap"


def bootstrap_interval(
    metric: Metric,
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a metric over resampled groups.

    confidence: float array of shape (n,). correct: bool array of shape (n,).
    groups: array of shape (n,); whole groups are drawn, because items of one repository resemble each other.
        None: each item is its own group.
    The bounds are None with fewer than 2 groups, or where the metric is undefined (one class) in half of the
    resamples or more; undefined resamples are otherwise left out. Confidences are taken as given: the
    interval does not include the variation of the fit itself.
    Raises DataError as the metric does. Source: Efron & Tibshirani 1993, ch. 13; Field & Welsh 2007
    (clusters).
    """
    p, y = paired(confidence, correct)
    codes = _codes(groups, p.size)
    (interval,) = _bootstrap([of_items(metric, p, y)], codes, level, resamples, seed)
    return interval


def bootstrap_difference(
    metric: Metric,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """How much a metric differs between two confidences of the same items: metric(first) - metric(second).

    first, second: float arrays of shape (n,). correct: bool array of shape (n,).
    groups: array of shape (n,); whole groups are drawn. None: each item is its own group.
    Both metrics are taken of the same resamples, so that their common variation does not widen the interval:
    an interval without 0 shows a difference at that level. Bounds are None as in `bootstrap_interval`.
    Raises DataError as the metric does. Source: Efron & Tibshirani 1993, ch. 13; Field & Welsh 2007.
    """
    a, y = paired(first, correct)
    b, _ = paired(second, correct)
    of_first, of_second = of_items(metric, a, y), of_items(metric, b, y)
    (interval,) = _bootstrap(
        [lambda items: of_first(items) - of_second(items)], _codes(groups, y.size), level, resamples, seed
    )
    return interval


def bootstrap_mean(
    values: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """The mean of numbers, such as paired differences, with its interval over resampled groups.

    values: float array of shape (n,). groups: array of shape (n,), as in `bootstrap_interval`.
    Bounds are None with fewer than 2 groups. Raises DataError if the values are empty or not finite.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
        raise DataError("values must be a one-dimensional array of finite numbers that is not empty.")
    (interval,) = _bootstrap(
        [lambda items: float(numbers[items].mean())], _codes(groups, numbers.size), level, resamples, seed
    )
    return interval


def calibrated_band(
    metric: Metric,
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """The metric's value, and the interval in which it would lie if every confidence were exactly right.

    Outcomes are drawn with the confidences as their probabilities. For ECE, which is biased upward, this is
    the honest yardstick: a value inside the band is no sign of miscalibration.
    Raises DataError as the metric does. Source: Brocker & Smith 2007 (consistency resampling).
    """
    p, y = paired(confidence, correct)
    rng = np.random.default_rng(seed)
    with quietly():
        of_drawn = of_labels(metric, p)
        values = np.array([of_drawn(rng.random(p.size) < p) for _ in range(resamples)])
        return _interval(metric(p, y), values, level, "calibrated-band")


def summarise(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """The metrics that a calibrator carries, by their names in its JSON.

    confidence: float array of shape (n,), out-of-fold. correct: bool array of shape (n,). groups: shape (n,).
    Returns skill, auc, brier, logLoss and baseRate with bootstrap intervals, ece with its calibrated band.
    """
    p, y = paired(confidence, correct)
    metrics: dict[str, Metric] = {"skill": skill_score, "auc": auc, "brier": brier_score, "logLoss": log_loss}
    functions = {name: of_items(metric, p, y) for name, metric in metrics.items()}
    functions["baseRate"] = base_rate(y)
    intervals = _bootstrap(list(functions.values()), _codes(groups, p.size), 0.95, resamples, seed)
    result = dict(zip(functions, intervals, strict=True))
    result["ece"] = calibrated_band(
        expected_calibration_error, confidence, correct, resamples=resamples, seed=seed
    )
    return result


def _codes(groups: npt.ArrayLike | None, n: int) -> IntArray:
    return np.arange(n) if groups is None else group_codes(groups, n)


def _bootstrap(
    functions: Sequence[OfItems], codes: IntArray, level: float, resamples: int, seed: int
) -> list[Interval]:
    """An interval for each function of items, all from the same resamples of whole groups."""
    with quietly():  # nan becomes None here
        found = [function(np.arange(codes.size)) for function in functions]
        if np.unique(codes).size < 2:
            return [Interval(_number(value), None, None) for value in found]
        draws = _resamples(codes, resamples, np.random.default_rng(seed))
        values = np.array([[function(items) for function in functions] for items in draws])
    return [
        _interval(value, column, level, "bootstrap") for value, column in zip(found, values.T, strict=True)
    ]


def _resamples(codes: IntArray, count: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Item indices of `count` draws of as many groups as there are, with replacement."""
    by_group = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    for _ in range(count):
        drawn = rng.integers(sizes.size, size=sizes.size)
        lengths = sizes[drawn]
        ends = np.cumsum(lengths)
        # Position within the draw, minus where its group begins there, plus where it begins in the data.
        offset = np.repeat(starts[drawn] - (ends - lengths), lengths)
        yield by_group[np.arange(ends[-1]) + offset]


def _interval(value: float, values: FloatArray, level: float, kind: Kind) -> Interval:
    defined: BoolArray = np.isfinite(values)
    if 2 * np.count_nonzero(defined) <= values.size:
        return Interval(_number(value), None, None, kind)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(values[defined], [tail, 1.0 - tail])
    return Interval(_number(value), float(low), float(high), kind)


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
