"""One band for the calibration errors of several subsets of the same items."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, paired
from lsp_calib.calibration.metrics.resampled import of_labels
from lsp_calib.calibration.metrics.scores import expected_calibration_error
from lsp_calib.calibration.warnings import quietly


@attrs.frozen
class BoundedError:
    """The calibration error of a subset.

    n: items. value: their ECE. limit: a calibrated score exceeds it in no subset, at the band's level.
    """

    n: int
    value: float
    limit: float

    @property
    def inside(self) -> bool:
        return self.value <= self.limit


def simultaneous_errors(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    subsets: Mapping[str, BoolArray],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, BoundedError]:
    """The ECE of each subset, with limits that hold for all of them at once.

    confidence: float array of shape (n,). correct: bool array of shape (n,). subsets: masks of shape (n,), by
    name; empty ones are left out.
    Outcomes are drawn for all items, with the confidences as their probabilities. Each draw gives one ECE for
    each subset, standardised by its mean and spread over the draws. The `level` quantile of the largest of
    them is the common limit: if every confidence is exactly right, all errors lie below their limits with
    that probability. Checking each subset against a band of its own would find one of five outside in up to
    23 % of the cases. There are no lower limits: an ECE can be too large, but not too small.
    Raises DataError as the metric does. Source: Brocker & Smith 2007 (consistency resampling); the maximum of
    standardised statistics as in Westfall & Young 1993.
    """
    p, y = paired(confidence, correct)
    filled = {name: mask for name, mask in subsets.items() if mask.any()}
    rng = np.random.default_rng(seed)
    with quietly():
        functions = [of_labels(expected_calibration_error, p[mask]) for mask in filled.values()]
        found = [function(y[mask]) for function, mask in zip(functions, filled.values(), strict=True)]
        drawn = np.empty((resamples, len(filled)))
        for row in drawn:
            labels = rng.random(p.size) < p
            row[:] = [
                function(labels[mask]) for function, mask in zip(functions, filled.values(), strict=True)
            ]
    mean, spread = drawn.mean(axis=0), drawn.std(axis=0)
    standardised = (drawn - mean) / np.where(spread > 0.0, spread, 1.0)
    critical = np.quantile(standardised.max(axis=1), level)
    limits = mean + critical * spread
    return {
        name: BoundedError(int(np.count_nonzero(mask)), value, float(limit))
        for (name, mask), value, limit in zip(filled.items(), found, limits, strict=True)
    }
