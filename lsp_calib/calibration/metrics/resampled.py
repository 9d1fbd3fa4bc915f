"""Metrics of many resamples of the same items: everything that no resample changes is computed once.

A resample repeats items of one data set. Squared errors, logarithms, ranks and bins belong to the items, so a
resample only has to add them up. Each function here returns the same bits as its metric on the resample.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.metrics.scores import (
    Metric,
    auc,
    bin_index,
    brier_score,
    expected_calibration_error,
    log_likelihoods,
    log_loss,
    skill_score,
    ties,
)

OfItems = Callable[[IntArray], float]
OfLabels = Callable[[BoolArray], float]


def of_items(metric: Metric, p: FloatArray, y: BoolArray) -> OfItems:
    """The metric as a function of drawn items, an int array of indices into p and y, both of shape (n,)."""
    prepare = _OF_ITEMS.get(metric)
    return prepare(p, y) if prepare else lambda items: metric(p[items], y[items])


def of_labels(metric: Metric, p: FloatArray) -> OfLabels:
    """The metric as a function of labels, a bool array of the shape (n,) of p."""
    return _ece(p) if metric is expected_calibration_error else lambda y: metric(p, y)


def base_rate(y: BoolArray) -> OfItems:
    """The share of correct items."""
    return lambda items: int(np.count_nonzero(y[items])) / items.size


def _brier(p: FloatArray, y: BoolArray) -> OfItems:
    squares = (p - y) ** 2
    return lambda items: float(squares[items].mean())


def _skill(p: FloatArray, y: BoolArray) -> OfItems:
    brier, rate = _brier(p, y), base_rate(y)

    def skill(items: IntArray) -> float:
        correct = rate(items)
        reference = correct * (1.0 - correct)
        return 1.0 - brier(items) / reference if reference else float("nan")

    return skill


def _log_loss(p: FloatArray, y: BoolArray) -> OfItems:
    likelihoods = log_likelihoods(p, y)
    return lambda items: float(-likelihoods[items].mean())


def _auc(p: FloatArray, y: BoolArray) -> OfItems:
    below, _, code = ties(p)
    distinct = below.size

    def area(items: IntArray) -> float:
        drawn, correct = code[items], y[items]
        positives = int(np.count_nonzero(correct))
        negatives = items.size - positives
        if positives == 0 or negatives == 0:
            return float("nan")
        equal = np.bincount(drawn, minlength=distinct)
        right = np.bincount(drawn[correct], minlength=distinct)
        # Twice the midranks, as in `auc`: 2 * (how many lie below) + equal + 1.
        rank_sum = int(right @ (2 * np.cumsum(equal) - equal + 1)) / 2
        return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)

    return area


def _ece(p: FloatArray) -> OfLabels:
    bins = 10  # the default of `expected_calibration_error`
    index = bin_index(p, bins, "width")
    expected = np.bincount(index, weights=p, minlength=bins)

    def error(y: BoolArray) -> float:
        gap = expected - np.bincount(index[y], minlength=bins)
        return min(float(np.sum(np.abs(gap))) / p.size, 1.0)

    return error


_OF_ITEMS: dict[Metric, Callable[[FloatArray, BoolArray], OfItems]] = {
    brier_score: _brier,
    skill_score: _skill,
    log_loss: _log_loss,
    auc: _auc,
}
