"""The calibrator of a model without labels for a language: the mean of those fitted for others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.curve import Curve, Shift, Weighted
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.methods.platt import Prior
from lsp_calib.confidence import measure_name
from lsp_calib.errors import CalibratorError
from lsp_calib.languages import family_of

# Used if there is no calibrator to borrow from. Raw confidence is far too high for code models (raw skill
# -0.4 to -0.55 at a base rate of 0.43), so the identity would call most wrong lines "accept": a raw 0.9
# becomes 0.55 here, a raw 0.5 becomes 0.12. The spread shows how uncertain that is: an intercept from -4 to
# 0.
BUILT_IN_SLOPE, BUILT_IN_INTERCEPT = 1.0, -2.0
SLOPE_SD, INTERCEPT_SD = 0.5, 2.0
BUILT_IN_DATE = "2026-11-20"


def borrow(purpose: Purpose, others: Sequence[Calibrator]) -> Calibrator:
    """A calibrator with the mean curves of `others`, source "prior", n = 0.

    others: shipped calibrators. Those of another task do not count: what a score means for lines says nothing
        about summaries. Where the model has any, for other languages, those of other models do not count
        either; for summaries they never do. Of these, those of the language itself or of its family go alone.
        Without any it has a built-in curve, which was made for lines: a calibrator of summaries that has
        nothing else gives no probability (`Calibrator.has_evidence`).
    Each mean curve has the mean score of the curves of its measure. Its `shift`, which moves nothing, carries
    their spread: how far the curve of this model may lie. The variance counts the built-in one as one more
    deviation, so that one or two calibrators do not look certain. Of the geometric means of different numbers
    of tokens the most frequent is taken, because their scores cannot be averaged.
    """
    pool = sorted(
        (other for other in others if other.purpose.task == purpose.task), key=lambda other: other.id
    )
    of_model = [other for other in pool if _is_of(other, purpose)]
    pool = of_model if of_model or purpose.task == "summary" else pool
    family = family_of(purpose.language)
    pool = [other for other in pool if family_of(other.purpose.language) == family] or pool
    if not pool:
        prior = Prior(BUILT_IN_SLOPE, BUILT_IN_INTERCEPT, SLOPE_SD, INTERCEPT_SD)
        plain = Curve.of_measure(measure_name(), prior.slope, prior.intercept, prior)
        built_in = attrs.evolve(plain, shift=Shift(slope_sd=SLOPE_SD, intercept_sd=INTERCEPT_SD))
        return _prior(purpose, (built_in,), measure_name(), (), BUILT_IN_DATE)
    raw = _most_frequent([other.raw_measure for other in pool])
    return _prior(
        purpose,
        _mean_curves(pool),
        raw,
        tuple(Origin(other.id, other.created, other.n) for other in pool),
        max(other.created for other in pool),
    )


def _is_of(calibrator: Calibrator, purpose: Purpose) -> bool:
    """Whether a calibrator is of the same model and prompt, for whatever language."""
    try:
        calibrator.check_fits(purpose.model, purpose.prompt_version, purpose.task)
    except CalibratorError:
        return False
    return True


def _mean_curves(pool: Sequence[Calibrator]) -> tuple[Curve, ...]:
    """One mean curve for each measure, in the order in which the calibrators prefer them."""
    families: dict[str, list[tuple[int, Curve]]] = {}
    for other in pool:
        for position, curve in enumerate(other.curves):
            family = "geometric-mean" if curve.measure.startswith("geometric-mean") else curve.measure
            families.setdefault(family, []).append((position, curve))
    ranked = []
    for family, members in families.items():
        measure = _most_frequent([curve.measure for _, curve in members])
        mean = _mean([curve for _, curve in members if curve.measure == measure])
        ranked.append((min(position for position, _ in members), -len(members), family, mean))
    return tuple(mean for *_, mean in sorted(ranked, key=lambda row: row[:3]))


def _mean(curves: Sequence[Curve]) -> Curve:
    """The curve with the mean score, and the spread of the others around it as its shift.

    Scores are linear in the features, so their mean is a curve as well; a feature that a curve does not have
    has weight 0 there. The slopes of the curves over the mean score are the projections of their weights,
    whose mean is 1; their intercepts are those of an average answer.
    """
    n = len(curves)
    names = list(dict.fromkeys(feature.name for curve in curves for feature in curve.features))
    features = []
    slopes: list[list[float]] = []  # of each feature, in nats per mean scale, by curve
    centres: list[list[float]] = []  # what each feature adds for an average answer, by curve
    for name in names:
        found = [next((f for f in curve.features if f.name == name), None) for curve in curves]
        known = [feature for feature in found if feature is not None]
        mean = math.fsum(feature.mean for feature in known) / len(known)
        scale = math.fsum(feature.scale for feature in known) / len(known)
        slopes.append([0.0 if f is None else f.weight / f.scale * scale for f in found])
        centres.append([0.0 if f is None else f.weight / f.scale * (mean - f.mean) for f in found])
        features.append(Weighted(name, mean, scale, math.fsum(slopes[-1]) / n))
    intercepts = [
        curve.intercept + math.fsum(centre[k] for centre in centres) for k, curve in enumerate(curves)
    ]
    intercept = math.fsum(intercepts) / n
    size = math.fsum(feature.weight**2 for feature in features)
    along = [
        math.fsum(f.weight * slope[k] for f, slope in zip(features, slopes, strict=True)) / size
        if size > 0.0
        else 1.0
        for k in range(n)
    ]
    places = dict.fromkeys(place for curve in curves for place, _ in curve.offsets)
    return Curve(
        curves[0].measure,
        tuple(features),
        intercept,
        offsets=tuple((place, math.fsum(curve.offset(place) for curve in curves) / n) for place in places),
        shift=Shift(
            slope_sd=_spread(along, 1.0, SLOPE_SD), intercept_sd=_spread(intercepts, intercept, INTERCEPT_SD)
        ),
    )


def _spread(values: Sequence[float], mean: float, doubt: float) -> float:
    spread = math.sqrt((math.fsum((value - mean) ** 2 for value in values) + doubt**2) / len(values))
    return min(spread, 1e9)


def _most_frequent(names: Sequence[str]) -> str:
    """Among equally frequent names the first of the alphabet."""
    counts = Counter(names)
    return min(counts, key=lambda name: (-counts[name], name))


def _prior(
    purpose: Purpose,
    curves: tuple[Curve, ...],
    raw_measure: str,
    provenance: tuple[Origin, ...],
    created: str,
) -> Calibrator:
    return Calibrator(
        purpose=purpose,
        curves=curves,
        raw_measure=raw_measure,
        n=0,
        n_correct=0,
        provenance=provenance,
        source="prior",
        state="learning",
        created=created,
    )
