"""Selective prediction: the risk-coverage curve and its area."""

from __future__ import annotations

import math

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, paired
from lsp_calib.calibration.warnings import caution


@attrs.frozen(eq=False)
class RiskCoverage:
    """The curve, a point for each distinct confidence, from the strictest threshold on.

    n: items. threshold: float array of shape (k,), descending: items at or above it are accepted.
    coverage: float array of shape (k,): share of items accepted; ends at 1.
    risk: float array of shape (k,): share wrong among the accepted; ends at the error rate.
    area: mean risk over all coverages in (0, 1] (AURC). excess_area: the area in excess of that of a perfect
        ranking with as many errors (E-AURC); 0 for a perfect one.
    """

    n: int
    threshold: FloatArray
    coverage: FloatArray
    risk: FloatArray
    area: float
    excess_area: float


def risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> RiskCoverage:
    """Risk against coverage as the threshold of acceptance falls, and the area under it.

    confidence: float array of shape (n,), probabilities in [0, 1]. correct: bool array of shape (n,).
    Between two thresholds, items of equal confidence are accepted in random order: wrong ones accumulate
    linearly. The area is the exact integral of that curve, which is unchanged by order and by repeating all
    pairs, and for a perfect ranking is e + (1 - e) ln(1 - e) at error rate e, the published closed form. The
    usual sum over the n ranks tends to it as n grows.
    Warns if the labels are all of one class: any ranking is then perfect. Raises DataError on empty input,
    different shapes, NaN or values outside [0, 1].
    Source: Geifman & El-Yaniv 2017; Geifman, Uziel & El-Yaniv 2019 (excess area).

    >>> curve = risk_coverage([0.9, 0.8, 0.8, 0.1], [True, True, False, False])
    >>> [float(value) for value in curve.coverage]
    [0.25, 0.75, 1.0]
    >>> [round(float(value), 4) for value in curve.risk]
    [0.0, 0.3333, 0.5]
    """
    p, y = paired(confidence, correct)
    order = np.argsort(-p)
    descending = p[order]
    last_of_run = np.append(descending[1:] != descending[:-1], True)
    accepted = np.flatnonzero(last_of_run) + 1
    wrong = np.cumsum(~y[order])[last_of_run]
    if wrong[-1] in (0, p.size):
        caution(f"The risk-coverage curve is not informative: all {p.size} labels are of one class.")
    area = _area(accepted / p.size, wrong / p.size)
    error = float(wrong[-1] / p.size)
    best = error + (1.0 - error) * math.log1p(-error) if error < 1.0 else 1.0
    return RiskCoverage(
        n=p.size,
        threshold=descending[last_of_run],
        coverage=accepted / p.size,
        risk=wrong / accepted,
        area=area,
        excess_area=max(area - best, 0.0),
    )


def _area(coverage: FloatArray, error: FloatArray) -> float:
    """The integral of e(c) / c over (0, 1], with e linear between (0, 0) and the given points."""
    before, after = coverage[:-1], coverage[1:]
    slope = np.diff(error) / (after - before)
    pieces = np.diff(error) + (error[:-1] - slope * before) * np.log(after / before)
    return float(error[0] + np.sum(pieces))
