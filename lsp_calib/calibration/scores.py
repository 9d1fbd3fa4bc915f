"""Scores of confidences against outcomes: Brier, skill, log loss, AUC, ECE.

All take confidence, float array of shape (n,) of probabilities in [0, 1], and correct, bool array of shape
(n,); all return a float and raise DataError on empty input, different shapes, NaN or values outside [0, 1].
All are unchanged by reordering the pairs, and by repeating every pair equally often. Some take weights, float
array of shape (n,), not negative and not all 0: a weight of 2 is the same as giving the pair twice.
Where a number is undefined or not informative (labels of one class, confidences all in one bin), a
CalibrationWarning gives n and the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, caution, checked_weights, paired
from lsp_calib.errors import DataError

Strategy = Literal["width", "mass"]
Metric = Callable[[npt.ArrayLike, npt.ArrayLike], float]


def brier_score(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float:
    """Mean squared difference between confidence and outcome; in [0, 1], 0 is best.

    Source: Brier 1950; Spiess et al. 2024, eq. 7.

    >>> brier_score([0.5, 0.5], [True, False])
    0.25
    """
    p, y = paired(confidence, correct)
    return float(np.average((p - y) ** 2, weights=checked_weights(weights, p.size)))


def reference_brier(correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None) -> float:
    """Brier score of always answering the base rate r: r (1 - r); in [0, 0.25].

    correct: bool array of shape (n,). Source: Spiess et al. 2024, eq. 8.

    >>> round(reference_brier([True] * 72 + [False] * 28), 2)
    0.2
    >>> round(reference_brier([True] + [False] * 9), 2)
    0.09
    """
    labels = np.asarray(correct)
    _, y = paired(np.zeros(labels.shape), labels)
    rate = float(np.average(y, weights=checked_weights(weights, y.size)))
    return rate * (1.0 - rate)


def skill_score(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float:
    """Brier skill score against always answering the base rate.

    Returns a float in (-inf, 1]; 0 is no better than the base rate, nan if `correct` is all one class.
    Source: Brier 1950; Spiess et al. 2024, eq. 9.

    >>> skill_score([1.0, 0.0], [True, False])
    1.0
    """
    reference = reference_brier(correct, weights=weights)
    brier = brier_score(confidence, correct, weights=weights)
    if reference == 0.0:
        caution(f"The skill score is undefined: all {np.size(correct)} labels are of one class.")
        return float("nan")
    return 1.0 - brier / reference


def log_loss(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float:
    """Mean negative log-likelihood of the outcomes, in nats; in [0, 36.1], 0 is best.

    Confidences are kept 2.2e-16 (float64's epsilon) away from 0 and 1, as scikit-learn does: one sure and
    wrong answer costs 36 nats, not infinity.
    """
    p, y = paired(confidence, correct)
    return float(-np.average(log_likelihoods(p, y), weights=checked_weights(weights, p.size)))


def log_likelihoods(p: FloatArray, y: BoolArray) -> FloatArray:
    """The log-probability of each outcome, in nats, float array of shape (n,); see `log_loss`.

    p: probabilities, float array of shape (n,). y: bool array of shape (n,). Neither is checked.
    """
    epsilon = np.finfo(np.float64).eps
    p = np.clip(p, epsilon, 1.0 - epsilon)
    return np.asarray(np.log(np.where(y, p, 1.0 - p)))


def auc(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> float:
    """Probability that a correct item has a higher confidence than a wrong one; ties count half.

    Returns a float in [0, 1]; nan if `correct` is all one class.
    Source: the rank-sum form of the area under the ROC curve, Hanley & McNeil 1982.

    >>> auc([0.1, 0.4, 0.4, 0.8], [False, True, False, True])
    0.875
    """
    p, y = paired(confidence, correct)
    positives = int(np.count_nonzero(y))
    negatives = y.size - positives
    if positives == 0 or negatives == 0:
        caution(f"AUC is undefined: all {y.size} labels are of one class.")
        return float("nan")
    # Twice the midranks (1 .. n, ties averaged), so that the sum is exact in integers.
    below, equal, inverse = ties(p)
    twice_midrank = (2 * below + equal + 1)[inverse]
    rank_sum = int(np.sum(twice_midrank[y])) / 2
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def expected_calibration_error(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    bins: int = 10,
    strategy: Strategy = "width",
    *,
    weights: npt.ArrayLike | None = None,
) -> float:
    """Mean absolute difference between confidence and share correct within bins, weighted by count.

    bins: how many.
    strategy: "width": [0, 1/bins), [1/bins, 2/bins) ... [(bins-1)/bins, 1], left-closed, the last one closed.
        "mass": bins that hold equally many items, as far as ties allow: equal confidences share a bin.
    Returns a float in [0, 1]. It is biased upward: read it beside `calibrated_band`, and beside the skill
    score. If all confidences share a bin it only compares two means, and a CalibrationWarning says so.
    Raises DataError also if bins < 1 or the strategy is unknown.
    Source: Naeini et al. 2015; Guo et al. 2017; bin edges as in Spiess et al. 2024.

    >>> expected_calibration_error([0.25, 0.25, 0.75, 0.75], [False, False, True, True])
    0.25
    >>> rain = [True] * 10 + [False] * 355
    >>> from lsp_calib.calibration.arrays import quietly
    >>> with quietly():
    ...     expected_calibration_error([10 / 365] * 365, rain) < 1e-12
    True
    """
    p, y = paired(confidence, correct)
    index = bin_index(p, bins, strategy)
    caution_collapse(index, "ECE")
    w = checked_weights(weights, p.size)
    gap = np.bincount(index, weights=w * p, minlength=bins) - np.bincount(
        index, weights=w * y, minlength=bins
    )
    return min(float(np.sum(np.abs(gap))) / float(np.sum(w)), 1.0)


def bin_index(p: FloatArray, bins: int, strategy: str) -> IntArray:
    """The bin, 0 .. bins-1, of each of n probabilities; int array of shape (n,).

    Strategies as in `expected_calibration_error`; raises DataError as it does.

    >>> bin_index(np.array([0.0, 0.05, 0.1, 1.0]), 10, "width")
    array([0, 0, 1, 9])
    """
    if bins < 1:
        raise DataError(f"The number of bins must be at least 1, not {bins}.")
    if strategy == "width":
        # k / bins is the correctly rounded edge, the same double as the literal 0.3; floor(0.29 * 100) and
        # linspace(0, 1, 11)[3] are not.
        edges = np.arange(1, bins) / bins
        return np.searchsorted(edges, p, side="right")
    if strategy == "mass":
        # The bin of the middle of each run of ties. In integers, and unchanged when every pair is repeated.
        below, equal, inverse = ties(p)
        return ((bins * (2 * below + equal)) // (2 * p.size))[inverse]
    raise DataError(f"Unknown binning strategy {strategy!r}; known: width, mass.")


def caution_collapse(index: IntArray, what: str) -> None:
    """Warn if all items share one bin."""
    if index.min() == index.max():
        caution(f"{what} only compares two means: all {index.size} confidences are in one bin.", 4)


def ties(p: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """For each distinct value, ascending: how many lie below, how many equal it; and each item's value.

    p: float array of shape (n,), finite. Returns int arrays of shapes (k,), (k,) and (n,), the last one
    holding 0 .. k-1.
    """
    _, inverse, equal = np.unique(p, return_inverse=True, return_counts=True)
    below = np.cumsum(equal) - equal
    return below, equal, inverse
