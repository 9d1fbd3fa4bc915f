"""Recipes of curves over features, and the choice between them inside the labels at hand.

A recipe says which features a curve weighs, and whether kinds of places get offsets. The recipe and the
spread of the weights are chosen together, by grouped cross-validation: inside the training part of each fold
for the predictions that a calibrator is judged by, and once on all labels for the curve that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray
from lsp_calib.calibration.calibrators.curve import Curve, Weighted, value_of
from lsp_calib.calibration.folds import grouped_folds
from lsp_calib.calibration.methods.log_odds import sigmoid
from lsp_calib.calibration.methods.logistic import SPREADS, fit_standardised
from lsp_calib.calibration.methods.newton import sigmoid_and_loss
from lsp_calib.calibration.methods.offsets import offsets_by_code
from lsp_calib.confidence.features import FEATURES
from lsp_calib.confidence.summary_features import ENCODER, SUMMARY_FEATURES
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence

_NEEDS = {name: feature.needs for name, feature in {**FEATURES, **SUMMARY_FEATURES}.items()}

# Rounds in which weights and offsets are fitted in turn, see `methods.platt`.
_ROUNDS = 2


@attrs.frozen
class Recipe:
    """One way to make a curve.

    features: names as `curve.value_of` takes them. by_place: whether kinds of places get offsets, shrunk by
    their labels (`methods.offsets.offsets_by_code`).
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

# Among equals the first is chosen.
RECIPES: tuple[Recipe, ...] = (
    Recipe("eleven", (*_TEN, "beginning-differs")),
    Recipe("eleven-by-place", (*_TEN, "beginning-differs"), by_place=True),
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
    return SUMMARY_RECIPES if task == "summary" else RECIPES


@attrs.frozen
class Choice:
    """A recipe with the spread of its weights, in nats by standard deviation of a feature."""

    recipe: Recipe
    spread: float


@attrs.frozen(eq=False)
class FeatureData:
    """The labels that curves over features are fitted on.

    columns: for each feature, float array of shape (n,). correct: bool array, groups: codes, places: strings,
    all of shape (n,). place_names, place_codes: the different places, and each answer's among them.
    """

    columns: dict[str, FloatArray]
    correct: BoolArray
    groups: IntArray
    places: npt.NDArray[np.str_]
    place_names: tuple[str, ...] = attrs.field(init=False)
    place_codes: IntArray = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        names, codes = np.unique(self.places, return_inverse=True)
        object.__setattr__(self, "place_names", tuple(map(str, names)))
        object.__setattr__(self, "place_codes", codes)

    @classmethod
    def of(
        cls, evidences: Sequence[Evidence], correct: BoolArray, groups: IntArray, recipes: Sequence[Recipe]
    ) -> FeatureData:
        """The features of the recipes that every one of the answers has.

        evidences: n of them. Raises DataError as `value_of` does.
        """
        columns = {}
        for name in dict.fromkeys(name for recipe in recipes for name in recipe.features):
            values = [value_of(name, evidence) for evidence in evidences]
            known = [value for value in values if value is not None]
            if len(known) == len(values):
                columns[name] = np.array(known, dtype=np.float64)
        return cls(columns, correct, groups, np.array([evidence.place for evidence in evidences], dtype=str))

    def usable(self, recipes: Sequence[Recipe]) -> list[Recipe]:
        """The recipes reduced to the features at hand, each kind once; those left with fewer than two
        features say no more than a plain measure and are dropped.

        Where the features of an encoder are at hand, recipes without them are dropped as well: with hundreds
        of labels a choice among all costs more than it gains (docs/summaries.md).
        """
        known = set(self.columns)
        found: dict[tuple[tuple[str, ...], bool], Recipe] = {}
        for recipe in recipes:
            reduced = recipe.only(known)
            if len(reduced.features) >= 2:
                found.setdefault((reduced.features, reduced.by_place), reduced)
        return [one for one in found.values() if one.needs(ENCODER)] or list(found.values())

    def choose(
        self, recipes: Sequence[Recipe], items: BoolArray | None = None, *, folds: int = 5, seed: int = 0
    ) -> Choice:
        """The recipe and spread with the lowest log loss in grouped cross-validation inside `items`.

        items: bool array of shape (n,); None: all. Raises DataError if they are of fewer than 2 groups.
        """
        chosen = np.flatnonzero(np.ones(self.correct.size, dtype=np.bool_) if items is None else items)
        fold = grouped_folds(self.groups[chosen], folds, seed=seed)
        best, least = None, np.inf
        for recipe in recipes:
            lost = np.zeros(len(SPREADS))
            for k in range(int(fold.max()) + 1):
                test, others = chosen[fold == k], chosen[fold != k]
                fit = None
                for i, spread in enumerate(SPREADS):
                    # The fit with one spread lies near that with the next.
                    fit = _Fit.of(self, Choice(recipe, spread), others, near=fit)
                    z = fit.scores(self, test)
                    lost[i] += np.sum(sigmoid_and_loss(z, self.correct[test].astype(np.float64))[1])
            i = int(np.argmin(lost))
            if lost[i] < least:
                best, least = Choice(recipe, SPREADS[i]), lost[i]
        if best is None:
            raise DataError("There is no recipe to choose from.")
        return best

    def nested(self, recipes: Sequence[Recipe], *, folds: int = 5, seed: int = 0) -> FloatArray:
        """Each answer's probability, shape (n,), by the recipe, spread and fit of the other folds alone.

        Raises DataError if there are fewer than 3 groups: the choice inside a training part takes two.
        """
        if np.unique(self.groups).size < 3:
            raise DataError("Choosing a recipe needs items of at least 3 groups.")
        fold = grouped_folds(self.groups, folds, seed=seed)
        predicted = np.empty(self.correct.size)
        for k in range(int(fold.max()) + 1):
            test = np.flatnonzero(fold == k)
            choice = self.choose(recipes, fold != k, folds=folds, seed=seed)
            predicted[test] = sigmoid(_Fit.of(self, choice, np.flatnonzero(fold != k)).scores(self, test))
        return predicted

    def curve(self, measure: str, choice: Choice) -> Curve:
        """The curve fitted on all labels with this choice."""
        fit = _Fit.of(self, choice, np.arange(self.correct.size))
        offsets = () if fit.offsets is None else zip(self.place_names, fit.offsets.tolist(), strict=True)
        return Curve(
            measure,
            tuple(
                Weighted(name, mean, scale, weight)
                for name, mean, scale, weight in zip(
                    choice.recipe.features, fit.means, fit.scales, fit.weights, strict=True
                )
            ),
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
    def of(cls, data: FeatureData, choice: Choice, items: IntArray, near: _Fit | None = None) -> _Fit:
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
