"""Folds of whole groups, choices made inside them, and intervals of metrics.

Groups are repositories or files: none is split between fitting and testing. Scores are computed on pooled
out-of-fold predictions, never as a mean over folds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, paired, quietly
from lsp_calib.calibration.scores import (
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
from lsp_calib.confidence.features import geometric_mean
from lsp_calib.errors import DataError


def grouped_folds(groups: npt.ArrayLike, folds: int = 5, *, seed: int = 0) -> IntArray:
    """The fold, 0 .. k-1, of each item; a group's items share one. Shape (n,).

    groups: array of shape (n,) of strings or integers, one group each.
    folds: how many; fewer groups make fewer folds.
    seed: the same seed and groups give the same folds, in whatever order the items come.
    Balanced: each group goes to the fold with the fewest items, the largest groups first; groups of equal
    size in random order.
    Raises DataError if there are fewer than 2 groups or folds < 2.
    """
    codes = group_codes(groups, np.asarray(groups).size)
    sizes = np.bincount(codes)
    if sizes.size < 2:
        raise DataError("Cross-validation by group needs items of at least 2 groups.")
    if folds < 2:
        raise DataError(f"Cross-validation needs at least 2 folds, not {folds}.")
    shuffled = np.random.default_rng(seed).permutation(sizes.size)
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    filled = np.zeros(min(folds, sizes.size), dtype=np.intp)
    fold_of_group = np.empty(sizes.size, dtype=np.intp)
    for group in order:
        fold = int(np.argmin(filled))
        fold_of_group[group] = fold
        filled[fold] += sizes[group]
    return fold_of_group[codes]


class Predictor(Protocol):
    """Turns raw confidences, array of shape (n,), into probabilities of the same shape."""

    def predict(self, raw: FloatArray, /) -> FloatArray: ...


Fit = Callable[[FloatArray, BoolArray], Predictor]

# None is "all tokens". Virk et al. found 4 and up; the small ones show that too small a t loses information.
CANDIDATES: tuple[int | None, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, None)


def out_of_fold(
    raw: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    fit: Fit,
    *,
    seed: int = 0,
) -> FloatArray:
    """Each item's prediction by a calibrator fitted on the other folds, pooled. Float array of shape (n,).

    raw: float array of shape (n,). correct: bool array of shape (n,). groups: array of shape (n,).
    fit: from the training items' raw confidences and labels to something with `predict`.
    Raises DataError as `grouped_folds` does, and on arrays that do not fit together.
    """
    scores, labels = paired(raw, correct)
    group_codes(groups, scores.size)
    fold = grouped_folds(groups, seed=seed)
    return held_out_predictions(scores, labels, fold, fit)


def held_out_predictions(raw: FloatArray, correct: BoolArray, fold: IntArray, fit: Fit) -> FloatArray:
    """As `out_of_fold`, for folds that are given: 0 .. k-1, shape (n,), as from `grouped_folds`. Nothing is
    checked. raw: of shape (n,), or (k, n) for a `fit` that takes such."""
    predicted = np.empty(raw.shape)
    for k in range(int(fold.max()) + 1):
        test = fold == k
        predicted[..., test] = fit(raw[..., ~test], correct[~test]).predict(raw[..., test])
    return predicted


@attrs.frozen(eq=False)
class FirstT:
    """The number of first tokens with the best confidence, and predictions for an honest estimate of it.

    first: chosen on all data (None: all tokens).
    per_fold: the choice of each outer fold, made on the other folds alone.
    confidence: float array of shape (n,): each item predicted with the choice and fit of the other folds.
    skill_by_first: for each candidate, ascending, the pooled cross-validated skill. Its maximum is
        optimistic.
    """

    first: int | None
    per_fold: tuple[int | None, ...]
    confidence: FloatArray
    skill_by_first: tuple[tuple[int | None, float], ...]


def select_first_t(
    log_probabilities: Sequence[Sequence[float]],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    candidates: Sequence[int | None] = CANDIDATES,
    *,
    fit: Fit,
    folds: int = 5,
    seed: int = 0,
    mean: Callable[[Sequence[float], int | None], float] = geometric_mean,
    together: bool = False,
) -> FirstT:
    """Choose t, the number of first tokens whose mean probability, the geometric one, is the raw confidence.

    log_probabilities: n sequences of token log-probabilities; one shorter than t uses all it has.
    correct: bool array of shape (n,). groups: array of shape (n,).
    candidates: values of t, None for all tokens. Among equals the smallest wins.
    together: whether `fit` takes the raw confidences of all k candidates at once, shape (k, n).
    The criterion is the pooled skill score of grouped cross-validation. For the honest estimate the choice is
    made again for each fold from the other folds alone, by cross-validation inside them.
    Raises DataError on input that does not fit together, no candidates, or fewer than 3 groups (2 for one
    candidate): choosing inside a training part takes two groups there.
    Source: Virk et al. 2024, 4.7.
    """
    if not candidates:
        raise DataError("There is no candidate for the number of first tokens.")
    ordered = sorted(set(candidates), key=lambda t: float("inf") if t is None else t)
    raw = np.array([[mean(item, t) for item in log_probabilities] for t in ordered])
    _, labels = paired(raw[0], correct)
    codes = group_codes(groups, labels.size)
    if len(ordered) > 1 and np.unique(codes).size < 3:
        raise DataError("Choosing a raw confidence needs items of at least 3 groups.")

    def rescale(raw: FloatArray, labels: BoolArray, fold: IntArray) -> FloatArray:
        if together:
            return held_out_predictions(raw, labels, fold, fit)
        return np.array([held_out_predictions(row, labels, fold, fit) for row in raw])

    def choose(items: BoolArray) -> tuple[int, list[float]]:
        if len(ordered) == 1 and not items.all():
            return 0, []
        predicted = rescale(raw[:, items], labels[items], grouped_folds(codes[items], folds, seed=seed))
        with quietly():
            skills = [skill_score(row, labels[items]) for row in predicted]
        return int(np.argmax(np.nan_to_num(skills, nan=-np.inf))), skills

    first, skills = choose(np.ones(labels.size, dtype=np.bool_))
    outer = grouped_folds(codes, folds, seed=seed)
    chosen = [choose(outer != k)[0] for k in range(int(outer.max()) + 1)]
    confidence = rescale(raw, labels, outer)[np.array(chosen)[outer], np.arange(labels.size)]
    return FirstT(
        first=ordered[first],
        per_fold=tuple(ordered[at] for at in chosen),
        confidence=confidence,
        skill_by_first=tuple(zip(ordered, skills, strict=False)),
    )


# A resample repeats items of one data set. Squared errors, logarithms, ranks and bins belong to the items, so
# a resample only has to add them up. Each of these functions returns the same bits as its metric on the
# resample.
OfItems = Callable[[IntArray], float]
OfLabels = Callable[[BoolArray], float]


def of_items(metric: Metric, p: FloatArray, y: BoolArray) -> OfItems:
    """The metric as a function of drawn items, an int array of indices into p and y, both of shape (n,)."""
    prepare = _OF_ITEMS.get(metric)
    return prepare(p, y) if prepare else lambda items: metric(p[items], y[items])


def of_labels(metric: Metric, p: FloatArray) -> OfLabels:
    """The metric as a function of labels, a bool array of the shape (n,) of p."""
    return _ece(p) if metric is expected_calibration_error else lambda y: metric(p, y)


def _mean_of(values: FloatArray | BoolArray) -> OfItems:
    """The mean of numbers, or truth values, of each item."""
    return lambda items: float(values[items].mean())


def _skill(p: FloatArray, y: BoolArray) -> OfItems:
    brier, rate = _mean_of((p - y) ** 2), _mean_of(y)

    def skill(items: IntArray) -> float:
        correct = rate(items)
        reference = correct * (1.0 - correct)
        return 1.0 - brier(items) / reference if reference else float("nan")

    return skill


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
    brier_score: lambda p, y: _mean_of((p - y) ** 2),
    skill_score: _skill,
    log_loss: lambda p, y: _mean_of(-log_likelihoods(p, y)),
    auc: _auc,
}


Kind = Literal["bootstrap", "calibrated-band"]

LEVEL = 0.95
"""Of all intervals and bands here."""


# Without slots, msgspec writes the fields in their order.
@attrs.frozen(slots=False)
class Interval:
    """A metric's value with a 95 % interval; None where it is undefined.

    kind: "bootstrap": the range of the value for other data of this kind. "calibrated-band": the range of the
        metric for a perfectly calibrated score with the same confidences.
    """

    value: float | None
    low: float | None
    high: float | None
    kind: Kind = "bootstrap"

    def __format__(self, form: str) -> str:
        """Such as "+0.52 (+0.47 to +0.57)", each number in the format of a float.

        A band is no interval around the value: "0.34; 0.02 to 0.07".

        >>> f"{Interval(0.52, 0.47, None):+.2f}, {Interval(0.52, 0.47, 0.57):.1f}"
        '+0.52, 0.5 (0.5 to 0.6)'
        >>> f"{Interval(0.34, 0.02, 0.07, 'calibrated-band'):.2f}"
        '0.34; 0.02 to 0.07'
        """
        if self.value is None:
            return "undefined"
        if self.low is None or self.high is None:
            return format(self.value, form)
        bounds = f"{self.low:{form}} to {self.high:{form}}"
        value = format(self.value, form)
        return f"{value}; {bounds}" if self.kind == "calibrated-band" else f"{value} ({bounds})"


def bootstrap_interval(
    metric: Metric,
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a metric over resampled groups.

    confidence: float array of shape (n,). correct: bool array of shape (n,).
    groups: array of shape (n,); whole groups are drawn, because items of one repository resemble each other.
        None: each item is its own group.
    The bounds are None with fewer than 2 groups, or where the metric is undefined (one class) in half of the
    resamples or more; undefined resamples are otherwise left out. Confidences are taken as given: the
    interval does not include the variation of the fit itself.
    Raises DataError as the metric does. Source: Efron & Tibshirani 1993, ch. 13; Field & Welsh 2007
    (clusters).
    """
    p, y = paired(confidence, correct)
    return _bootstrap([of_items(metric, p, y)], _codes(groups, p.size), resamples, seed)[0]


def bootstrap_difference(
    metric: Metric,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """How much a metric differs between two confidences of the same items: metric(first) - metric(second).

    first, second: float arrays of shape (n,). correct: bool array of shape (n,).
    groups: array of shape (n,); whole groups are drawn. None: each item is its own group.
    Both metrics are taken of the same resamples, so that their common variation does not widen the interval:
    an interval without 0 shows a difference. Bounds are None as in `bootstrap_interval`.
    Raises DataError as the metric does. Source: Efron & Tibshirani 1993, ch. 13; Field & Welsh 2007.
    """
    a, y = paired(first, correct)
    b, _ = paired(second, correct)
    of_first, of_second = of_items(metric, a, y), of_items(metric, b, y)
    codes = _codes(groups, y.size)
    return _bootstrap([lambda items: of_first(items) - of_second(items)], codes, resamples, seed)[0]


def bootstrap_mean(
    values: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    resamples: int = 1000,
) -> Interval:
    """The mean of numbers, such as paired differences, with its interval over resampled groups.

    values: float array of shape (n,). groups: array of shape (n,), as in `bootstrap_interval`.
    Bounds are None with fewer than 2 groups. Raises DataError if the values are empty or not finite.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
        raise DataError("values must be a one-dimensional array of finite numbers that is not empty.")
    return _bootstrap([_mean_of(numbers)], _codes(groups, numbers.size), resamples, 0)[0]


def calibrated_band(
    metric: Metric,
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """The metric's value, and the interval in which it would lie if every confidence were exactly right.

    Outcomes are drawn with the confidences as their probabilities. For ECE, which is biased upward, this is
    the honest yardstick: a value inside the band is no sign of miscalibration.
    Raises DataError as the metric does. Source: Brocker & Smith 2007 (consistency resampling).
    """
    p, y = paired(confidence, correct)
    rng = np.random.default_rng(seed)
    with quietly():
        of_drawn = of_labels(metric, p)
        values = np.array([of_drawn(rng.random(p.size) < p) for _ in range(resamples)])
        return percentile_interval(metric(p, y), values, "calibrated-band")


def summarise(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """The metrics that a calibrator carries, by their names in its JSON.

    confidence: float array of shape (n,), out-of-fold. correct: bool array of shape (n,). groups: shape (n,).
    Returns skill, auc, brier, logLoss and baseRate with bootstrap intervals, ece with its calibrated band.
    """
    p, y = paired(confidence, correct)
    metrics: dict[str, Metric] = {"skill": skill_score, "auc": auc, "brier": brier_score, "logLoss": log_loss}
    functions = {name: of_items(metric, p, y) for name, metric in metrics.items()}
    functions["baseRate"] = _mean_of(y)
    intervals = _bootstrap(list(functions.values()), _codes(groups, p.size), resamples, seed)
    result = dict(zip(functions, intervals, strict=True))
    result["ece"] = calibrated_band(
        expected_calibration_error, confidence, correct, resamples=resamples, seed=seed
    )
    return result


def _codes(groups: npt.ArrayLike | None, n: int) -> IntArray:
    return np.arange(n) if groups is None else group_codes(groups, n)


def _bootstrap(functions: Sequence[OfItems], codes: IntArray, resamples: int, seed: int) -> list[Interval]:
    """An interval for each function of items, all from the same resamples of whole groups."""
    with quietly():  # nan becomes None here
        found = [function(np.arange(codes.size)) for function in functions]
        if np.unique(codes).size < 2:
            return [Interval(_number(value), None, None) for value in found]
        draws = _resamples(codes, resamples, np.random.default_rng(seed))
        values = np.array([[function(items) for function in functions] for items in draws])
    return [percentile_interval(value, column) for value, column in zip(found, values.T, strict=True)]


def _resamples(codes: IntArray, count: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Item indices of `count` draws of as many groups as there are, with replacement."""
    by_group = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    for _ in range(count):
        drawn = rng.integers(sizes.size, size=sizes.size)
        lengths = sizes[drawn]
        ends = np.cumsum(lengths)
        # Position within the draw, minus where its group begins there, plus where it begins in the data.
        offset = np.repeat(starts[drawn] - (ends - lengths), lengths)
        yield by_group[np.arange(ends[-1]) + offset]


def percentile_interval(value: float, values: FloatArray, kind: Kind = "bootstrap") -> Interval:
    """A metric's value with the range of its values in resamples, shape (count,); nan where undefined there.

    Without bounds if it is undefined in half of them or more.
    """
    defined: BoolArray = np.isfinite(values)
    if 2 * np.count_nonzero(defined) <= values.size:
        return Interval(_number(value), None, None, kind)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(values[defined], [tail, 1.0 - tail])
    return Interval(_number(value), float(low), float(high), kind)


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


@attrs.frozen
class Quality:
    """Scores of the same confidences. skill: None for outcomes of one class."""

    brier: float
    log_loss: float
    skill: float | None
    ece: float
    mean_confidence: float

    @classmethod
    def of(cls, confidence: FloatArray, correct: BoolArray, weights: FloatArray, **more: Any) -> Self:
        """more: further fields. Raises DataError as the scores do."""
        with quietly():  # one class, or all in one bin, is shown as it is
            skill = skill_score(confidence, correct, weights=weights)
            return cls(
                brier=brier_score(confidence, correct, weights=weights),
                log_loss=log_loss(confidence, correct, weights=weights),
                skill=skill if math.isfinite(skill) else None,
                ece=expected_calibration_error(confidence, correct, weights=weights),
                mean_confidence=float(np.average(confidence, weights=weights)),
                **more,
            )

    def to_wire(self) -> dict[str, float | None]:
        return {
            "logLoss": self.log_loss,
            "brier": self.brier,
            "skill": self.skill,
            "ece": self.ece,
            "meanConfidence": self.mean_confidence,
        }
