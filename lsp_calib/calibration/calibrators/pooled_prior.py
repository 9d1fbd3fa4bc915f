"""The calibrator of a model without labels: the mean of those fitted for other models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Origin, Purpose
from lsp_calib.calibration.methods.platt import PlattCalibrator, Prior
from lsp_calib.confidence import measure_name

# Used if there is no calibrator to borrow from. Raw confidence is far too high for code models (raw skill
# -0.4 to -0.55 at a base rate of 0.43), so the identity would call most wrong lines "accept": a raw 0.9
# becomes 0.55 here, a raw 0.5 becomes 0.12. The spread shows how uncertain that is: an intercept from -4 to
# 0.
BUILT_IN = Prior(slope=1.0, intercept=-2.0, slope_sd=0.5, intercept_sd=2.0)
BUILT_IN_DATE = "2026-11-20"


def borrow(purpose: Purpose, others: Sequence[Calibrator]) -> Calibrator:
    """The calibrator with the mean curve of `others`, source "prior", n = 0; its prior carries their spread.

    others: shipped calibrators. Those of the same task are used, or all if there are none; of these, the ones
        with the most frequent measure, because slopes of different measures cannot be averaged.
    The variance counts BUILT_IN's as one more deviation, so that one or two calibrators do not look certain.
    """
    pool = [other for other in others if other.purpose.task == purpose.task] or list(others)
    if not pool:
        return _prior(purpose, measure_name(), BUILT_IN, (), BUILT_IN_DATE)
    counts = Counter(other.measure for other in pool)
    measure = min(counts, key=lambda name: (-counts[name], name))
    pool = sorted((other for other in pool if other.measure == measure), key=lambda other: other.id)
    slope, slope_sd = _mean_and_spread([other.platt.slope for other in pool], BUILT_IN.slope_sd)
    intercept, intercept_sd = _mean_and_spread(
        [other.platt.intercept for other in pool], BUILT_IN.intercept_sd
    )
    return _prior(
        purpose,
        measure,
        Prior(slope, intercept, slope_sd, intercept_sd),
        tuple(Origin(other.id, other.created, other.n) for other in pool),
        max(other.created for other in pool),
    )


def _mean_and_spread(values: list[float], doubt: float) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt((math.fsum((value - mean) ** 2 for value in values) + doubt**2) / len(values))


def _prior(
    purpose: Purpose, measure: str, prior: Prior, provenance: tuple[Origin, ...], created: str
) -> Calibrator:
    return Calibrator(
        purpose=purpose,
        measure=measure,
        platt=PlattCalibrator(prior.slope, prior.intercept),
        prior=prior,
        n=0,
        n_correct=0,
        provenance=provenance,
        source="prior",
        state="learning",
        created=created,
    )
