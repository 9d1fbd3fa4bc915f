"""Labels and evidence -> a calibrator with its quality on record (`lsp-calib calibrate`).

A recipe says which features a curve weighs, and whether kinds of places get offsets. The recipe and the
spread of the weights are chosen together, by grouped cross-validation: inside the training part of each fold
for the predictions that a calibrator is judged by, and once on all labels for the curve that is kept.
With few labels a calibrator that rests on more of them is moved instead (`adapt_calibrator`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, paired
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    WITHOUT_ENCODER,
    WITHOUT_ENTROPIES,
    Calibrator,
    Curve,
    Offset,
    Weighted,
    is_plain,
    values_of,
)
from lsp_calib.calibration.calibrators.calibrator_store import rests_on
from lsp_calib.calibration.calibrators.promotion import LabelWeights
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose, Source, State
from lsp_calib.calibration.calibrators.refit import expected_shift, first_known, refit_curve
from lsp_calib.calibration.logistic import (
    LOOSE_PRIOR,
    WEIGHT_SPREADS,
    PlattCalibrator,
    fit_standardised,
    offsets_by_code,
    sigmoid,
    sigmoid_and_loss,
)
from lsp_calib.calibration.validation import (
    CANDIDATES,
    Interval,
    grouped_folds,
    out_of_fold,
    select_first_t,
    summarise,
)
from lsp_calib.confidence.features import ENCODER, FEATURES, SUMMARY_FEATURES, measure_name, raw_confidences
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence

_NEEDS = {name: feature.needs for name, feature in {**FEATURES, **SUMMARY_FEATURES}.items()}

# Rounds in which weights and offsets are fitted in turn: groups that differ flatten weights fitted without
# them.
_ROUNDS = 2


@attrs.frozen
class Recipe:
    """One way to make a curve.

    features: names as `calibrator.value_of` takes them. by_place: whether kinds of places get offsets, shrunk
    by their labels (`logistic.offsets_by_code`).
    """

    name: str
    features: tuple[str, ...]
    by_place: bool = False

    def only(self, known: set[str]) -> Recipe:
        """The recipe without features that are not known."""
        return attrs.evolve(self, features=tuple(name for name in self.features if name in known))

    def without(self, needed: str) -> Recipe:
        """The recipe without the features that need something, as `Feature.needs` says it: the recipe for
        where that is missing."""
        kept = tuple(name for name in self.features if _NEEDS.get(name) != needed)
        return attrs.evolve(self, features=kept)

    def needs(self, needed: str) -> bool:
        """Whether some feature needs it."""
        return self.without(needed) != self


_NINE = (
    "total",
    "largest-surprisal",
    "last-surprisal",
    "entropy-sum",
    "ended-by-end-of-text",
    "in-word",
    "broken",
    "line-repeats",
    "new-names",
)

_TEN = (
    "total",
    "end-surprisal",
    "end-of-text-surprisal",
    "entropy-sum",
    "in-word",
    "broken",
    "line-repeats",
    "new-names",
    "line-follows",
    "beginning-agrees",
)

_ELEVEN = (*_TEN, "beginning-differs")
_TWELVE = (*_ELEVEN, "signs")

# Among equals the first is chosen.
RECIPES: tuple[Recipe, ...] = (
    Recipe("twelve", _TWELVE),
    Recipe("twelve-by-place", _TWELVE, by_place=True),
    Recipe("eleven", _ELEVEN),
    Recipe("eleven-by-place", _ELEVEN, by_place=True),
    Recipe("ten", _TEN),
    Recipe("ten-by-place", _TEN, by_place=True),
    Recipe("nine", _NINE),
    Recipe("nine-by-place", _NINE, by_place=True),
)

_OF_TOKENS = ("entropy-mean", "geometric-mean-first-12", "total", "largest-surprisal")
_OF_TEXTS = ("code-in-summary", "summary-in-code", "name-in-summary", "log-name-words", "log-code-lines")

_OF_FIT = ("code-cosine", "code-f1", "name-cosine")

# The same of summaries. Few features: their records are hundreds, and few of these are right.
SUMMARY_RECIPES: tuple[Recipe, ...] = (
    Recipe("tokens-and-fit", (*_OF_TOKENS, *_OF_FIT)),
    Recipe("tokens", _OF_TOKENS),
    Recipe("tokens-and-texts", (*_OF_TOKENS, *_OF_TEXTS)),
    Recipe("all", (*_OF_TOKENS, *_OF_TEXTS, "log-words", "log-calls", "log-branches", "name-vague")),
)


def recipes_of(task: str) -> tuple[Recipe, ...]:
    """The recipes that curves of a task are chosen from."""
    return {"summary": SUMMARY_RECIPES, "edit": ()}.get(task, RECIPES)


@attrs.frozen
class FitChoice:
    """A recipe with the spread of its weights, in nats by standard deviation of a feature."""

    recipe: Recipe
    spread: float


@attrs.frozen(eq=False)
class FeatureData:
    """The labels that curves over features are fitted on.

    columns: for each feature, float array of shape (n,). correct: bool array, groups: codes, places: strings,
    all of shape (n,).
    """

    columns: dict[str, FloatArray]
    correct: BoolArray
    groups: IntArray
    places: npt.NDArray[np.str_]

    @cached_property
    def place_names(self) -> list[str]:
        """The different places, sorted."""
        return sorted(set(self.places.tolist()))

    @cached_property
    def place_codes(self) -> IntArray:
        """The place of each answer among `place_names`, shape (n,)."""
        return group_codes(self.places, self.places.size)

    @classmethod
    def of(
        cls, evidences: Sequence[Evidence], correct: BoolArray, groups: IntArray, recipes: Sequence[Recipe]
    ) -> FeatureData:
        """The features of the recipes that every one of the answers has.

        evidences: n of them. Raises DataError as `calibrator.values_of` does.
        """
        columns = {}
        for name in dict.fromkeys(name for recipe in recipes for name in recipe.features):
            values = values_of(name, evidences)
            if not np.isnan(values).any():
                columns[name] = values
        return cls(columns, correct, groups, np.array([evidence.place for evidence in evidences], dtype=str))

    def usable(self, recipes: Sequence[Recipe]) -> list[Recipe]:
        """The recipes reduced to the features at hand, each kind once; those left with fewer than two
        features say no more than a plain measure and are dropped.

        Where the features of an encoder are at hand, recipes without them are dropped as well: with hundreds
        of labels a choice among all costs more than it gains (models/records/summaries/README.md).
        """
        known = set(self.columns)
        found: dict[tuple[tuple[str, ...], bool], Recipe] = {}
        for recipe in recipes:
            reduced = recipe.only(known)
            if len(reduced.features) >= 2:
                found.setdefault((reduced.features, reduced.by_place), reduced)
        return [one for one in found.values() if one.needs(ENCODER)] or list(found.values())

    def choose(
        self, recipes: Sequence[Recipe], items: BoolArray | None = None, *, seed: int = 0
    ) -> FitChoice:
        """The recipe and spread with the lowest log loss in grouped cross-validation inside `items`.

        items: bool array of shape (n,); None: all. Raises DataError if they are of fewer than 2 groups.
        """
        chosen = np.flatnonzero(np.ones(self.correct.size, dtype=np.bool_) if items is None else items)
        fold = grouped_folds(self.groups[chosen], seed=seed)
        best, least = None, np.inf
        for recipe in recipes:
            lost = np.zeros(len(WEIGHT_SPREADS))
            for k in range(int(fold.max()) + 1):
                test, others = chosen[fold == k], chosen[fold != k]
                fit = None
                for i, spread in enumerate(WEIGHT_SPREADS):
                    # The fit with one spread lies near that with the next.
                    fit = _Fit.of(self, FitChoice(recipe, spread), others, near=fit)
                    z = fit.scores(self, test)
                    lost[i] += np.sum(sigmoid_and_loss(z, self.correct[test].astype(np.float64))[1])
            i = int(np.argmin(lost))
            if lost[i] < least:
                best, least = FitChoice(recipe, WEIGHT_SPREADS[i]), lost[i]
        if best is None:
            raise DataError("There is no recipe to choose from.")
        return best

    def nested(self, recipes: Sequence[Recipe], *, seed: int = 0) -> FloatArray:
        """Each answer's probability, shape (n,), by the recipe, spread and fit of the other folds alone.

        Raises DataError if there are fewer than 3 groups: the choice inside a training part takes two.
        """
        if np.unique(self.groups).size < 3:
            raise DataError("Choosing a recipe needs items of at least 3 groups.")
        fold = grouped_folds(self.groups, seed=seed)
        predicted = np.empty(self.correct.size)
        for k in range(int(fold.max()) + 1):
            test = np.flatnonzero(fold == k)
            choice = self.choose(recipes, fold != k, seed=seed)
            predicted[test] = sigmoid(_Fit.of(self, choice, np.flatnonzero(fold != k)).scores(self, test))
        return predicted

    def curve(self, measure: str, choice: FitChoice) -> Curve:
        """The curve fitted on all labels with this choice."""
        fit = _Fit.of(self, choice, np.arange(self.correct.size))
        offsets = () if fit.offsets is None else map(Offset, self.place_names, fit.offsets)
        return Curve(
            measure,
            tuple(map(Weighted, choice.recipe.features, fit.means, fit.scales, fit.weights)),
            fit.intercept,
            spread=choice.spread,
            offsets=tuple(offsets),
        )

    def table(self, recipe: Recipe, items: IntArray) -> FloatArray:
        """The features of a recipe for these items: float array of shape (items, features)."""
        return np.column_stack([self.columns[name][items] for name in recipe.features])


@attrs.frozen(eq=False)
class _Fit:
    """weights, means, scales: shape (d,). offsets: nats by place, shape (places,); None: places have none."""

    recipe: Recipe
    weights: FloatArray
    intercept: float
    means: FloatArray
    scales: FloatArray
    offsets: FloatArray | None = None

    @classmethod
    def of(cls, data: FeatureData, choice: FitChoice, items: IntArray, near: _Fit | None = None) -> _Fit:
        """Fitted on these items. near: one of the same recipe on the same items, where the search starts."""
        recipe, table = choice.recipe, data.table(choice.recipe, items)
        labels, codes, ones = data.correct[items], data.place_codes[items], np.ones(items.size)

        def fit(base: FloatArray | float, start: _Fit | None) -> _Fit:
            at = None if start is None else np.append(start.weights, start.intercept)
            return cls(recipe, *fit_standardised(table, labels, ones, choice.spread, base, at))

        found = fit(0.0, near)
        for _ in range(_ROUNDS if recipe.by_place else 0):
            z = (table - found.means) / found.scales @ found.weights + found.intercept
            offsets = offsets_by_code(z, labels, ones, codes, len(data.place_names))
            found = attrs.evolve(fit(offsets[codes], found), offsets=offsets)
        return found

    def scores(self, data: FeatureData, items: IntArray) -> FloatArray:
        """Log-odds of these items, shape of `items`."""
        z = (data.table(self.recipe, items) - self.means) / self.scales @ self.weights + self.intercept
        if self.offsets is not None:
            z = z + self.offsets[data.place_codes[items]]
        return np.asarray(z)


# A kind of place with fewer labels than this has no metrics of its own: they would say nothing.
LEAST_OF_PLACE = 30
_OF_PLACE = ("skill", "auc", "ece")


@attrs.frozen(eq=False)
class LabelledAnswers:
    """n answers with labels, and the fields of the calibrator that is fitted on them.

    evidences: with log-probabilities. correct: bool array of shape (n,). groups: array of shape (n,); a group
    (repository, file) is never split between fitting and testing. created: ISO date. seed: of folds and
    resamples. The other fields are the calibrator's.
    """

    purpose: Purpose
    evidences: Sequence[Evidence]
    correct: npt.ArrayLike
    groups: npt.ArrayLike
    source: Source = attrs.field(kw_only=True)
    state: State = attrs.field(kw_only=True)
    created: str = attrs.field(kw_only=True)
    strata: Mapping[str, int] = attrs.field(factory=dict, kw_only=True)
    provenance: Sequence[Origin] = attrs.field(default=(), kw_only=True)
    seed: int = attrs.field(default=0, kw_only=True)

    @cached_property
    def labels(self) -> BoolArray:
        """`correct`, checked. Raises DataError."""
        return paired(np.zeros(len(self.evidences)), self.correct)[1]

    @cached_property
    def codes(self) -> IntArray:
        """The groups as codes, shape (n,). Raises DataError."""
        return group_codes(self.groups, self.labels.size)

    def calibrator(
        self,
        curves: Sequence[Curve],
        confidence: FloatArray,
        raw_measure: str,
        origins: Sequence[Origin] = (),
    ) -> Calibrator:
        """confidence: of predictions by fits that have not seen an item's group, shape (n,). origins:
        of the calibrators that it was made from."""
        return Calibrator(
            purpose=self.purpose,
            curves=tuple(curves),
            raw_measure=raw_measure,
            n=self.labels.size,
            n_correct=int(np.count_nonzero(self.labels)),
            metrics=summarise(confidence, self.labels, self.codes, seed=self.seed),
            by_place=self._metrics_by_place(confidence),
            strata=dict(self.strata),
            provenance=(*self.provenance, *origins),
            source=self.source,
            state=self.state,
            created=self.created,
        )

    def _metrics_by_place(self, confidence: FloatArray) -> dict[str, dict[str, Interval]]:
        """The metrics of each kind of place with labels enough."""
        places = np.array([evidence.place for evidence in self.evidences], dtype=str)
        found = {}
        for place in sorted(set(places.tolist()) - {""}):
            items = np.flatnonzero(places == place)
            if items.size >= LEAST_OF_PLACE:
                judged = confidence[items], self.labels[items], self.codes[items]
                metrics = summarise(*judged, seed=self.seed)
                found[place] = {name: metrics[name] for name in _OF_PLACE}
        return found


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
    answers: LabelledAnswers,
    *,
    candidates: Sequence[int | None] = CANDIDATES,
    recipes: Sequence[Recipe] | None = None,
) -> Fitted:
    """Fit a curve over features, the same without entropies and without an encoder where that is another
    one, one over the total and one over a geometric mean.

    A feature counts if all answers have it; without features only the plain measures get curves.
    candidates: numbers of first tokens, of which the one whose geometric mean has the best skill becomes the
        raw confidence. recipes: of curves over features, of which the best is chosen; None: the task's.
    The prior of plain measures does not trust raw confidences as they stand, because those of code models are
    not probabilities.
    The metrics are those of predictions whose choices (recipe, spread, t) and fit never saw the item's group.
    Raises DataError as `select_first_t` does.
    """
    log_probabilities = [evidence.logprobs for evidence in answers.evidences]
    labels, codes, seed = answers.labels, answers.codes, answers.seed

    def fit(raw: npt.ArrayLike, correct: npt.ArrayLike) -> PlattCalibrator:
        return PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR)

    chosen = select_first_t(log_probabilities, labels, codes, candidates, fit=fit, seed=seed)
    curves: dict[str, tuple[Curve, FloatArray]] = {}
    recipes = recipes_of(answers.purpose.task) if recipes is None else recipes
    data = FeatureData.of(answers.evidences, labels, codes, recipes)
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
    predicted = out_of_fold(total, labels, codes, fit, seed=seed)
    for measure, raw, confidence in (
        ("total", total, predicted),
        (raw_measure, raw_confidences(raw_measure, log_probabilities), chosen.confidence),
    ):
        platt = fit(raw, labels)
        curves[measure] = Curve.of_measure(measure, platt.slope, platt.intercept, LOOSE_PRIOR), confidence
    confidences = {measure: confidence for measure, (_, confidence) in curves.items()}
    calibrator = answers.calibrator(
        [curve for curve, _ in curves.values()], next(iter(confidences.values())), raw_measure
    )
    return Fitted(calibrator, confidences)


# A calibrator to begin with rests on so many times the labels. Those of Java's summaries, of 445 labels each,
# helped the 288 of Python with one model and harmed them with the other.
TIMES = 3
# The share of the labels that must have a curve's features.
_KNOWN = 0.9


def base_for(
    purpose: Purpose, shipped: Sequence[Calibrator], n: int, projects: Collection[str], *, for_others: bool
) -> Calibrator | None:
    """The calibrator to begin with for n labels; None: these must do alone.

    It is of the same model, prompt, task and criterion, and rests on `TIMES` as many labels. Neither it nor
    one that it was made from was fitted on any of the projects, given by name: otherwise these would be
    predicted by themselves. One of the language goes first,
    unless the new one is `for_others`: it takes that one's place. One of another language was not made from a
    third. Among several it is the one with the most labels.
    """
    known = [
        one
        for one in shipped
        if _labels(one) >= TIMES * n
        and one.purpose.asks_like(purpose)
        and one.purpose.criterion == purpose.criterion
        and not {origin.name for origin in rests_on(one, shipped)} & set(projects)
    ]
    of_language = [one for one in known if one.purpose.serves(purpose)]
    # One that was itself made from another would make the result depend on the order in which they are made.
    others = [one for one in known if one not in of_language and one.curves[0].shift is None]
    chosen = others if for_others or not of_language else of_language
    return max(chosen, key=lambda one: (_labels(one), one.id), default=None)


def _labels(calibrator: Calibrator) -> int:
    """How many labels it rests on, those of the calibrator that it was made from included."""
    return sum(origin.items for origin in calibrator.provenance)


def adapt_calibrator(base: Calibrator, answers: LabelledAnswers) -> Fitted | None:
    """Each curve of `base` moved towards these labels, by slope and intercept or by its weights, as a user's
    labels move it (`refit.refit_curve`).

    Curves with a feature that many answers lack are left out; None if that leaves no curve over features
    where `base` has one, or if the labels are of one group.
    The last of its origins is `base`. Metrics are of predictions by fits without the item's group.
    Raises DataError as `Curve.score` does.
    """
    evidences, labels = answers.evidences, answers.labels
    if np.unique(answers.codes).size < 2:
        return None
    fold = grouped_folds(answers.codes, seed=answers.seed)
    counting = LabelWeights.of(labels.size)
    moved = [
        refit_curve(one, expected_shift(one, base.source), evidences, labels, counting, fold)
        for one in base.curves
    ]
    kept = [one for one in moved if np.isfinite(one.predicted).mean() >= _KNOWN]
    if not kept or is_plain(kept[0].curve.measure) > is_plain(base.curves[0].measure):
        return None
    # As an answer gets its probability: by the first curve whose features it has.
    predicted = first_known([one.predicted for one in kept])
    if np.isnan(predicted).any():
        return None
    calibrator = answers.calibrator(
        [one.curve for one in kept],
        predicted,
        base.raw_measure,
        [Origin(base.id, base.created, base.n)],
    )
    confidences = {one.curve.measure: one.predicted for one in kept}
    return Fitted(calibrator, {**confidences, calibrator.measure: predicted})
