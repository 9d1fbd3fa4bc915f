"""Labels and evidence -> a calibrator with its quality on record (`lsp-calib calibrate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, paired
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.curve import (
    FEATURES_MEASURE,
    WITHOUT_ENCODER,
    WITHOUT_ENTROPIES,
    Curve,
)
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose, Source, State
from lsp_calib.calibration.calibrators.rank_curves import Ranked, fit_ranks
from lsp_calib.calibration.calibrators.recipes import FeatureData, Recipe, recipes_of
from lsp_calib.calibration.methods.platt import LOOSE_PRIOR, PlattCalibrator, Prior
from lsp_calib.calibration.validation.cross_validation import CANDIDATES, out_of_fold, select_first_t
from lsp_calib.calibration.validation.intervals import Interval, summarise
from lsp_calib.confidence import measure_name, raw_confidences
from lsp_calib.confidence.summary_features import ENCODER
from lsp_calib.values import Evidence

# A kind of place with fewer labels than this has no metrics of its own: they would say nothing.
LEAST_OF_PLACE = 30
_OF_PLACE = ("skill", "auc", "ece")


@attrs.frozen(eq=False)
class Fitted:
    """A calibrator, and the predictions by which it is judged.

    confidences: for the measure of each curve, in their order, a float array of shape (n,): each label
    predicted with all choices made, and fitted, on the other folds.
    """

    calibrator: Calibrator
    confidences: Mapping[str, FloatArray]

    @property
    def confidence(self) -> FloatArray:
        """The predictions of the preferred curve, shape (n,)."""
        return self.confidences[self.calibrator.measure]


def fit_calibrator(
    purpose: Purpose,
    evidences: Sequence[Evidence],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    source: Source,
    state: State,
    created: str,
    candidates: Sequence[int | None] = CANDIDATES,
    recipes: Sequence[Recipe] | None = None,
    prior: Prior = LOOSE_PRIOR,
    strata: Mapping[str, int] | None = None,
    provenance: Sequence[Origin] = (),
    parent: str | None = None,
    ranked: Sequence[Ranked] | None = None,
    seed: int = 0,
) -> Fitted:
    """Fit a curve over features, the same without entropies and without an encoder where that is another
    one, one over the total and one over a geometric mean.

    evidences: n of them, with log-probabilities. A feature counts if all of them have it; without features
        only the plain measures get curves. correct: bool array of shape (n,).
    groups: array of shape (n,); a group (repository, file) is never split between fitting and testing.
    created: ISO date. candidates: numbers of first tokens, of which the one whose geometric mean has the best
        skill becomes the raw confidence. recipes: of curves over features, of which the best is chosen; None:
        the task's.
    ranked: the alternatives at the n places, where they have labels: their ranks get curves as well.
    prior: of plain measures; it does not trust raw confidences as they stand, because those of code models
        are not probabilities. The other arguments are the calibrator's fields.
    The metrics are those of predictions whose choices (recipe, spread, t) and fit never saw the item's group.
    Raises DataError as `select_first_t` does.
    """
    log_probabilities = [evidence.logprobs for evidence in evidences]

    def fit(raw: npt.ArrayLike, correct: npt.ArrayLike) -> PlattCalibrator:
        return PlattCalibrator.fit(raw, correct, prior=prior)

    chosen = select_first_t(log_probabilities, correct, groups, candidates, fit=fit, seed=seed)
    _, labels = paired(chosen.confidence, correct)
    codes = group_codes(groups, labels.size)
    curves: dict[str, tuple[Curve, FloatArray]] = {}
    recipes = recipes_of(purpose.task) if recipes is None else recipes
    data = FeatureData.of(evidences, labels, codes, recipes)
    usable = data.usable(recipes)
    for measure, kinds in (
        (FEATURES_MEASURE, usable),
        (WITHOUT_ENTROPIES, data.usable([recipe.without("entropies") for recipe in usable])),
        (WITHOUT_ENCODER, data.usable([recipe.without(ENCODER) for recipe in recipes])),
    ):
        if kinds and (measure == FEATURES_MEASURE or kinds != usable):
            curve = data.curve(measure, data.choose(kinds, seed=seed))
            curves[measure] = curve, data.nested(kinds, seed=seed)
    raw_measure = measure_name(chosen.first)
    total = raw_confidences("total", log_probabilities)
    predicted = out_of_fold(total, labels, groups, fit, seed=seed)
    for measure, raw, confidence in (
        ("total", total, predicted),
        (raw_measure, raw_confidences(raw_measure, log_probabilities), chosen.confidence),
    ):
        platt = fit(raw, labels)
        curves[measure] = Curve.of_measure(measure, platt.slope, platt.intercept, prior), confidence
    confidence = next(iter(curves.values()))[1]
    calibrator = Calibrator(
        purpose=purpose,
        curves=tuple(curve for curve, _ in curves.values()),
        raw_measure=raw_measure,
        n=labels.size,
        n_correct=int(np.count_nonzero(labels)),
        metrics=summarise(confidence, labels, groups, seed=seed),
        by_place=metrics_by_place(confidence, labels, codes, data.places, seed),
        strata=dict(strata or {}),
        provenance=tuple(provenance),
        source=source,
        state=state,
        created=created,
        parent=parent,
        ranks=() if ranked is None else fit_ranks(ranked, labels),
    )
    return Fitted(calibrator, {measure: confidence for measure, (_, confidence) in curves.items()})


def metrics_by_place(
    confidence: FloatArray,
    labels: BoolArray,
    codes: IntArray,
    places: npt.NDArray[np.str_],
    seed: int,
) -> dict[str, dict[str, Interval]]:
    """The metrics of each kind of place with labels enough; arrays of shape (n,), see `FeatureData`."""
    found = {}
    for place in sorted(set(places.tolist()) - {""}):
        items = np.flatnonzero(places == place)
        if items.size >= LEAST_OF_PLACE:
            metrics = summarise(confidence[items], labels[items], codes[items], seed=seed)
            found[place] = {name: metrics[name] for name in _OF_PLACE}
    return found
