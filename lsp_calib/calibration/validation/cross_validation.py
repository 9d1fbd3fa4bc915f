"""Cross-validation with whole groups (repositories, files) left out, and choices made inside it.

Scores are computed on pooled out-of-fold predictions, never as a mean over folds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes, paired
from lsp_calib.calibration.folds import grouped_folds
from lsp_calib.calibration.methods.logistic import LogisticCalibrator, feature_table
from lsp_calib.calibration.methods.method import Predictor
from lsp_calib.calibration.methods.platt import PlattCalibrator
from lsp_calib.calibration.metrics.scores import skill_score
from lsp_calib.calibration.warnings import quietly
from lsp_calib.confidence import geometric_mean, raw_confidences
from lsp_calib.errors import DataError

K = TypeVar("K", bound=Hashable)
Fit = Callable[[FloatArray, BoolArray], Predictor]

# None is "all tokens". Virk et al. found 4 and up; the small ones show that too small a t loses information.
CANDIDATES: tuple[int | None, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, None)


def out_of_fold(
    raw: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    fit: Fit = PlattCalibrator.fit,
    *,
    folds: int = 5,
    seed: int = 0,
) -> FloatArray:
    """Each item's prediction by a calibrator fitted on the other folds, pooled. Float array of shape (n,).

    raw: float array of shape (n,). correct: bool array of shape (n,). groups: array of shape (n,).
    fit: from the training items' raw confidences and labels to something with `predict`.
    Raises DataError as `grouped_folds` does, and on arrays that do not fit together.
    """
    scores, labels = paired(raw, correct)
    group_codes(groups, scores.size)
    fold = grouped_folds(groups, folds, seed=seed)
    return held_out_predictions(scores, fold, lambda items: fit(scores[items], labels[items]))


def held_out_predictions(
    inputs: FloatArray, fold: IntArray, fit: Callable[[BoolArray], Predictor]
) -> FloatArray:
    """Each item's prediction by a model fitted on the items of all other folds. Float array of shape (n,).

    inputs: the inputs of predictions, shape (n,) or (n, d). fold: 0 .. k-1, shape (n,), as from
    `grouped_folds`.
    fit: from the training items, a bool array of shape (n,), to something with `predict`.
    """
    predicted = np.empty(fold.size)
    for k in range(int(fold.max()) + 1):
        test = fold == k
        predicted[test] = fit(~test).predict(inputs[test])
    return predicted


def logistic_out_of_fold(
    features: npt.ArrayLike,
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    folds: int = 5,
    seed: int = 0,
) -> FloatArray:
    """Each item's probability by a `LogisticCalibrator`, with its penalty, of the other folds. Shape (n,).

    The arguments are those of `LogisticCalibrator.fit`; groups are never split.
    Raises DataError as it does, or if there are fewer than 2 groups.
    """
    table = feature_table(features)
    _, labels = paired(np.zeros(table.shape[0]), correct)
    codes = group_codes(groups, labels.size)

    def fit(items: BoolArray) -> LogisticCalibrator:
        return LogisticCalibrator.fit(
            table[items], labels[items], groups=codes[items], folds=folds, seed=seed
        )

    return held_out_predictions(table, grouped_folds(codes, folds, seed=seed), fit)


@attrs.frozen(eq=False)
class FirstT:
    """The number of first tokens with the best confidence, and an honest estimate of its skill.

    first: chosen on all data (None: all tokens).
    per_fold: the choice of each outer fold, made on the other folds alone.
    confidence: float array of shape (n,): each item predicted with the choice and fit of the other folds.
    skill: skill score of `confidence`, for publication.
    skill_by_first: for each candidate, ascending, the pooled cross-validated skill. Its maximum is
        optimistic.
    """

    first: int | None
    per_fold: tuple[int | None, ...]
    confidence: FloatArray
    skill: float
    skill_by_first: tuple[tuple[int | None, float], ...]


def select_first_t(
    log_probabilities: Sequence[Sequence[float]],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    candidates: Sequence[int | None] = CANDIDATES,
    *,
    fit: Fit = PlattCalibrator.fit,
    folds: int = 5,
    seed: int = 0,
) -> FirstT:
    """Choose t, the number of first tokens whose geometric mean is the raw confidence.

    log_probabilities: n sequences of token log-probabilities; one shorter than t uses all it has.
    correct: bool array of shape (n,). groups: array of shape (n,).
    candidates: values of t, None for all tokens. Among equals the smallest wins.
    The criterion is the pooled skill score of grouped cross-validation. For the honest estimate the choice is
    made again for each fold from the other folds alone, by cross-validation inside them.
    Raises DataError on input that does not fit together, no candidates, or fewer than 3 groups (2 for one
    candidate): choosing inside a training part takes two groups there.
    Source: Virk et al. 2024, 4.7.
    """
    if not candidates:
        raise DataError("There is no candidate for the number of first tokens.")
    ordered = sorted(set(candidates), key=lambda t: float("inf") if t is None else t)
    raw = {t: np.array([geometric_mean(item, t) for item in log_probabilities]) for t in ordered}
    first, per_fold, confidence, skills = _select(raw, correct, groups, fit, folds, seed)
    with quietly():
        skill = skill_score(confidence, paired(confidence, correct)[1])
    return FirstT(first, per_fold, confidence, skill, tuple(skills.items()))


@attrs.frozen(eq=False)
class SelectedMeasure:
    """The measure with the best confidence, and an honest estimate of its skill.

    measure: its name, chosen on all data. The other fields are those of `FirstT`, with names for numbers.
    """

    measure: str
    per_fold: tuple[str, ...]
    confidence: FloatArray
    skill: float
    skill_by_measure: tuple[tuple[str, float], ...]


def select_measure(
    log_probabilities: Sequence[Sequence[float]],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    measures: Sequence[str],
    *,
    fit: Fit = PlattCalibrator.fit,
    folds: int = 5,
    seed: int = 0,
) -> SelectedMeasure:
    """Choose the measure of raw confidence, as `select_first_t` chooses t.

    measures: names as `confidence.by_name` takes them. Among equals the one that stands first wins.
    Raises DataError as `select_first_t` does, and on an unknown name.
    """
    if not measures:
        raise DataError("There is no measure to choose from.")
    raw = {name: raw_confidences(name, log_probabilities) for name in measures}
    measure, per_fold, confidence, skills = _select(raw, correct, groups, fit, folds, seed)
    with quietly():
        skill = skill_score(confidence, paired(confidence, correct)[1])
    return SelectedMeasure(measure, per_fold, confidence, skill, tuple(skills.items()))


def _select(
    raw: Mapping[K, FloatArray],
    correct: npt.ArrayLike,
    groups: npt.ArrayLike,
    fit: Fit,
    folds: int,
    seed: int,
) -> tuple[K, tuple[K, ...], FloatArray, dict[K, float]]:
    """The choice on all data, that of each fold, the honest predictions, and the skill of each candidate.

    raw: the raw confidences, shape (n,), of each candidate; among equals the first wins.
    """
    candidates = list(raw)
    _, labels = paired(raw[candidates[0]], correct)
    codes = group_codes(groups, labels.size)
    if len(candidates) > 1 and np.unique(codes).size < 3:
        raise DataError("Choosing a raw confidence needs items of at least 3 groups.")

    def choose(items: BoolArray) -> tuple[K, dict[K, float]]:
        if len(candidates) == 1 and not items.all():
            return candidates[0], {}
        inner, inner_labels = grouped_folds(codes[items], folds, seed=seed), labels[items]

        def skill(scores: FloatArray) -> float:
            predicted = held_out_predictions(
                scores, inner, lambda part: fit(scores[part], inner_labels[part])
            )
            return skill_score(predicted, inner_labels)

        with quietly():
            skills = {key: skill(raw[key][items]) for key in candidates}
        return max(candidates, key=lambda key: -np.inf if np.isnan(skills[key]) else skills[key]), skills

    best, skills = choose(np.ones(labels.size, dtype=np.bool_))
    outer = grouped_folds(codes, folds, seed=seed)
    confidence = np.empty(labels.size)
    per_fold: list[K] = []
    for k in range(int(outer.max()) + 1):
        test = outer == k
        chosen, _ = choose(~test)
        per_fold.append(chosen)
        confidence[test] = fit(raw[chosen][~test], labels[~test]).predict(raw[chosen][test])
    return best, tuple(per_fold), confidence, skills
