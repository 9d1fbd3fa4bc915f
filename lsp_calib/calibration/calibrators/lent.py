"""Calibrators for purposes without labels of their own.

Of the model's lines in all languages and windows together (`Pooled`): one file for each model, in a folder
beside the shipped calibrators, with an offset for each language and window. Else the mean of those of others
(`borrow`). What a user's labels have taught for another prompt, measure or model is carried over.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import attrs
from msgspec.structs import replace

from lsp_calib.calibration.calibrators.calibrator import (
    Calibrator,
    Curve,
    FileDocument,
    Offset,
    Shift,
    Weighted,
)
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose, is_same_model
from lsp_calib.calibration.document import Count, Document, Text
from lsp_calib.calibration.logistic import Prior
from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.features import measure_name
from lsp_calib.errors import CalibratorError
from lsp_calib.languages import family_of
from lsp_calib.values import ModelIdentity

FOLDER = "pooled"
"""The folder with the files, below that of the shipped calibrators."""

# How far a language without labels is expected to lie from the pooled curve: slope and intercept over its
# score. Of two models and nine languages, each against a pool without it (models/records/languages).
POOLED_SLOPE_SD, POOLED_INTERCEPT_SD = 0.15, 0.35


class PooledCurve(Document, frozen=True):
    """A curve of lines in an average language, and what a language or a prompt adds to its log-odds.

    curve: without the offsets. languages, prompts: nats by the language's identifier and by the version of
    the prompt; a language that is not among them adds nothing, a prompt must be.
    """

    curve: Curve
    languages: Mapping[str, float]
    prompts: Mapping[str, float]

    def at(self, language: str, prompt: str) -> Curve:
        """The curve for a language, or the one that it is a dialect of, and a prompt."""
        known = language if language in self.languages else family_of(language)
        moved = self.curve.intercept + self.languages.get(known, 0.0) + self.prompts[prompt]
        shift = Shift(slope_sd=POOLED_SLOPE_SD, intercept_sd=POOLED_INTERCEPT_SD)
        return replace(self.curve, intercept=moved, shift=shift)


class Pooled(FileDocument, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The curves of a model's lines in all languages and windows together.

    curves: the preferred first. raw_measure, n, n_correct, provenance, created: as of a `Calibrator`;
    the origins are the calibrators that the same labels were fitted for one by one.
    metrics: of languages that were left out of the fit, each predicted by the others.
    Raises CalibratorError if the curves are not for the same prompts.
    """

    model: ModelIdentity
    raw_measure: Text
    curves: tuple[PooledCurve, ...]
    n: Count
    n_correct: Count
    metrics: Mapping[str, Interval]
    provenance: tuple[Origin, ...]
    created: Text

    def __post_init__(self) -> None:
        if not self.curves or len({frozenset(one.prompts) for one in self.curves}) != 1:
            raise CalibratorError("The pooled curves must be at least one, all for the same prompts.")

    def lend(self, purpose: Purpose) -> Calibrator | None:
        """The calibrator for a purpose, source "pooled"; None if these labels say nothing about it."""
        prompt = purpose.prompt_version
        if (
            purpose.task != "line"
            or prompt not in self.curves[0].prompts
            or not is_same_model(self.model, purpose.model)
        ):
            return None
        return Calibrator(
            purpose=purpose,
            curves=tuple(one.at(purpose.language, prompt) for one in self.curves),
            raw_measure=self.raw_measure,
            n=self.n,
            n_correct=self.n_correct,
            metrics=self.metrics,
            provenance=self.provenance,
            source="pooled",
            state="shipped",
            created=self.created,
        )


# Used if there is no calibrator to borrow from. Raw confidence is far too high for code models (raw skill
# -0.4 to -0.55 at a base rate of 0.43), so the identity would call most wrong lines "accept": a raw 0.9
# becomes 0.55 here, a raw 0.5 becomes 0.12. The spread shows how uncertain that is: an intercept from -4 to
# 0.
BUILT_IN_SLOPE, BUILT_IN_INTERCEPT = 1.0, -2.0
SLOPE_SD, INTERCEPT_SD = 0.5, 2.0
BUILT_IN_DATE = "2026-11-20"


def borrowed_curve(purpose: Purpose, others: Sequence[Calibrator]) -> Calibrator:
    """A calibrator with the mean curves of `others`, source "prior", n = 0.

    others: shipped calibrators. Those of another task do not count: what a score means for lines says nothing
        about summaries; nor do those of summaries by another criterion. Where the model has any, for other
        languages, those of other models do not count either; for summaries they never do. Of these, those of
        the language itself or of its family go alone.
    Without any it has a built-in curve, which was made for lines: a calibrator of summaries that has
        nothing else gives no probability (`Calibrator.has_evidence`).
    Each mean curve has the mean score of the curves of its measure. Its `shift`, which moves nothing, carries
    their spread: how far the curve of this model may lie. The variance counts the built-in one as one more
    deviation, so that one or two calibrators do not look certain. Of the geometric means of different numbers
    of tokens the most frequent is taken, because their scores cannot be averaged.
    """
    pool = sorted(
        (
            other
            for other in others
            if (other.purpose.task, other.purpose.criterion) == (purpose.task, purpose.criterion)
        ),
        key=lambda other: other.id,
    )
    of_model = [other for other in pool if other.purpose.asks_like(purpose)]
    pool = of_model if of_model or purpose.task == "summary" else pool
    family = family_of(purpose.language)
    pool = [other for other in pool if family in map(family_of, other.purpose.languages)] or pool
    return Calibrator(
        purpose=purpose,
        curves=_mean_curves(pool) or (_built_in(),),
        raw_measure=_most_frequent([other.raw_measure for other in pool] or [measure_name()]),
        n=0,
        n_correct=0,
        provenance=tuple(Origin(other.id, other.created, other.n) for other in pool),
        source="prior",
        state="learning",
        created=max((other.created for other in pool), default=BUILT_IN_DATE),
    )


def _built_in() -> Curve:
    prior = Prior(BUILT_IN_SLOPE, BUILT_IN_INTERCEPT, SLOPE_SD, INTERCEPT_SD)
    plain = Curve.of_measure(measure_name(), prior.slope, prior.intercept, prior)
    return replace(plain, shift=Shift(slope_sd=SLOPE_SD, intercept_sd=INTERCEPT_SD))


def _mean_curves(pool: Sequence[Calibrator]) -> tuple[Curve, ...]:
    """One mean curve for each measure, in the order in which the calibrators prefer them."""
    families: dict[str, list[tuple[int, Curve]]] = {}
    for other in pool:
        for position, curve in enumerate(other.curves):
            # Those over other features stay apart: this version may not read one of them.
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
    places = dict.fromkeys(one.place for curve in curves for one in curve.offsets)
    return Curve(
        curves[0].measure,
        tuple(features),
        intercept,
        offsets=tuple(Offset(one, math.fsum(curve.offset(one) for curve in curves) / n) for one in places),
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


_NAME = "carried over from "
# A shift beyond this says more about few labels than about the user.
_LEAST_SLOPE, _MOST_SLOPE, _MOST_INTERCEPT = 0.25, 4.0, 3.0


def carry_over(base: Calibrator, earlier: Calibrator) -> Calibrator | None:
    """`base` with each curve shifted as the user's earlier calibrator is shifted against its own base.

    base: shipped or borrowed, of the present purpose. earlier: of the user, for the same model.
    A user's own shift (slope and intercept over the shipped score) says how their work differs, whatever the
    prompt. None if the earlier calibrator has none.
    """
    curves = []
    for curve in base.curves:
        shift = shift_of(earlier, curve)
        if shift is None:
            return None
        curves.append(curve.shifted(shift))
    return attrs.evolve(
        base,
        curves=tuple(curves),
        n=earlier.n,
        n_correct=earlier.n_correct,
        metrics={},
        by_place={},
        provenance=(
            Origin(f"{_NAME}{earlier.id}", earlier.created, earlier.n),
            Origin(base.id, base.created, base.n),
        ),
        source="personal",
        state="learning",
        parent=base.id,
    )


def shift_of(earlier: Calibrator, curve: Curve) -> Shift | None:
    """The shift of the earlier calibrator's curve of the same kind of measure, else of its preferred one.

    Within bounds; None if it has none.
    """
    same = [one for one in earlier.curves if _family(one.measure) == _family(curve.measure)]
    shift = (same or earlier.curves)[0].shift
    if shift is None:
        return None
    return replace(
        shift,
        slope=min(max(shift.slope, _LEAST_SLOPE), _MOST_SLOPE),
        intercept=min(max(shift.intercept, -_MOST_INTERCEPT), _MOST_INTERCEPT),
    )


def carried_from(calibrator: Calibrator) -> str | None:
    """The id of the calibrator whose shift was carried over to this one; None if none was."""
    names = (origin.name for origin in calibrator.provenance)
    return next((name.removeprefix(_NAME) for name in names if name.startswith(_NAME)), None)


def note(calibrator: Calibrator) -> str | None:
    """That what was learned is carried over, in words for the user; None if nothing is."""
    earlier = carried_from(calibrator)
    if earlier is None:
        return None
    return (
        f"What was learned from {calibrator.n} labels ({earlier}) is carried over to prompt "
        f"{calibrator.purpose.prompt_version} and {calibrator.measure}; a refit replaces it once there are "
        "labels."
    )


def _family(measure: str) -> str:
    """The kind of a measure, whatever its version."""
    if measure.startswith("features"):
        return re.sub(r"-\d+", "", measure, count=1)
    return "geometric-mean" if measure.startswith("geometric-mean") else measure
