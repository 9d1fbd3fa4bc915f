"""The similarity from which on a summary counts as correct, found from people's ratings."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.errors import DataError

AGREE = 3.0  # "agree" of 1 (strongly disagree) to 4 (strongly agree) that two summaries are similar


@attrs.frozen
class Tally:
    """Decisions on items.

    selected: items called correct. positives: items that people call correct. hits: both.
    """

    selected: int
    positives: int
    hits: int

    @property
    def precision(self) -> float:
        """Share of the selected that people call correct; nan if nothing is selected."""
        return self.hits / self.selected if self.selected else float("nan")

    @property
    def recall(self) -> float:
        """Share selected of the items that people call correct."""
        return self.hits / self.positives


@attrs.frozen
class Setting(Tally):
    """The rule that calls an item correct: similarity by `metric` at `threshold` and above; and its tally."""

    metric: str
    threshold: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2.0 * self.hits / (self.selected + self.positives)


@attrs.frozen
class CorrectnessThresholds:
    """The three settings; None where no metric and threshold meet the criterion.

    high_precision: precision above the floor with the highest recall.
    high_recall: recall above the floor with the highest precision.
    best_f1: the highest F1.
    """

    high_precision: Setting | None
    high_recall: Setting | None
    best_f1: Setting | None


def most_agree(ratings: npt.ArrayLike) -> BoolArray:
    """Whether at least half of the ratings are AGREE or better. Bool array of shape (n,).

    ratings: array of shape (n, raters). Raises DataError as `rated_correct`.

    >>> most_agree([[4, 3, 1, 1], [4, 2, 2, 1]]).tolist()
    [True, False]
    """
    values = _ratings(ratings)
    found: BoolArray = 2 * np.count_nonzero(values >= AGREE, axis=1) >= values.shape[1]
    return found


def rated_correct(ratings: npt.ArrayLike) -> BoolArray:
    """Whether the mean rating is at least AGREE. Bool array of shape (n,).

    ratings: array of shape (n, raters). Compared as sums, so that 3, 3, 3 is exactly 3.
    Raises DataError on another shape, no items, or values that are no finite numbers.

    >>> rated_correct([[3, 3, 3], [4, 3, 1], [4, 4, 1]]).tolist()
    [True, False, True]
    """
    values = _ratings(ratings)
    correct: BoolArray = np.sum(values, axis=1) >= AGREE * values.shape[1]
    return correct


def threshold_of_correctness(
    ratings: npt.ArrayLike,
    metrics: Mapping[str, npt.ArrayLike],
    *,
    floor: float = 0.9,
) -> CorrectnessThresholds:
    """The metric and threshold that agree best with people, jointly, by three criteria.

    ratings: array of shape (n, raters); an item is correct as `rated_correct` has it.
    metrics: similarities by name, float arrays of shape (n,), on any scale where more is more similar.
    floor: the bound that precision (or recall) must exceed, in [0, 1].
    Thresholds are the multiples of 0.01 that the metric's values span. Among settings that meet a criterion
    equally well the one better in the other of precision and recall wins, then the stricter threshold, then
    the metric named first.
    Settings are chosen on these same ratings: their numbers do not show how good they are on others.
    Raises DataError on arrays that do not fit together, no metric, or ratings without a correct item.
    Source: Virk et al. 2024, the three criteria of their threshold of correctness.

    >>> found = threshold_of_correctness([[4], [3], [1], [2]], {"cosine": [0.9, 0.75, 0.6, 0.8]})
    >>> found.high_precision.threshold, found.high_recall.threshold, found.best_f1.threshold
    (0.9, 0.75, 0.75)
    """
    correct = rated_correct(ratings)
    if not metrics:
        raise DataError("There is no metric to choose from.")
    if not correct.any():
        raise DataError(
            f"No item is rated {AGREE:g} or better on average, so no threshold separates correct items."
        )
    settings = [setting for name, values in metrics.items() for setting in settings_of(name, values, correct)]
    return CorrectnessThresholds(
        max(
            (s for s in settings if s.precision > floor), key=lambda s: (s.recall, s.precision), default=None
        ),
        max((s for s in settings if s.recall > floor), key=lambda s: (s.precision, s.recall), default=None),
        max((s for s in settings if s.hits), key=lambda s: (s.f1, s.precision), default=None),
    )


def leave_one_out(
    ratings: npt.ArrayLike,
    metrics: Mapping[str, npt.ArrayLike],
    *,
    floor: float = 0.9,
) -> dict[str, Tally]:
    """How good the three settings are on an item that had no part in choosing metric and threshold.

    Each item is decided by the settings that `threshold_of_correctness` finds on all others; where it finds
    none, the item is not selected. Arguments and errors are those of that function, and there must be two
    correct items at least, so that one is left. Returns a tally for each field of `CorrectnessThresholds`.
    Source: Stone 1974, cross-validatory assessment.
    """
    correct = rated_correct(ratings)
    values = {name: _finite(column, name) for name, column in metrics.items()}
    rated = _finite(ratings, "ratings")
    names = [field.name for field in attrs.fields(CorrectnessThresholds)]
    selected = {name: np.zeros(correct.size, dtype=np.bool_) for name in names}
    for at in range(correct.size):
        others = np.arange(correct.size) != at
        kept = {name: column[others] for name, column in values.items()}
        found = threshold_of_correctness(rated[others], kept, floor=floor)
        for name in names:
            setting: Setting | None = getattr(found, name)
            selected[name][at] = setting is not None and values[setting.metric][at] >= setting.threshold
    positives = int(np.count_nonzero(correct))
    return {
        name: Tally(int(np.count_nonzero(chosen)), positives, int(np.count_nonzero(chosen & correct)))
        for name, chosen in selected.items()
    }


def settings_of(name: str, similarity: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Setting, ...]:
    """Every setting of one metric, at the multiples of 0.01 that its values span, the strictest first.

    similarity: float array of shape (n,). correct: bool array of shape (n,).
    Raises DataError on other shapes, or values that are no finite numbers.
    """
    values = _finite(similarity, name)
    labels = np.asarray(correct, dtype=np.bool_)
    if values.shape != labels.shape or values.ndim != 1 or values.size == 0:
        raise DataError(f"{name} must hold one value for each of the {labels.size} items, and at least one.")
    steps = np.arange(int(np.floor(100.0 * values.min())), int(np.ceil(100.0 * values.max())) + 1)[::-1]
    thresholds = steps / 100.0  # the same doubles as the literals 0.29, 0.57
    selected = values.size - np.searchsorted(np.sort(values), thresholds, side="left")
    positive = np.sort(values[labels])
    hits = positive.size - np.searchsorted(positive, thresholds, side="left")
    return tuple(
        Setting(int(s), positive.size, int(h), name, float(t))
        for t, s, h in zip(thresholds, selected, hits, strict=True)
    )


def _ratings(ratings: npt.ArrayLike) -> FloatArray:
    values = _finite(ratings, "ratings")
    if values.ndim != 2 or values.size == 0:
        raise DataError(f"ratings must have shape (items, raters); theirs is {values.shape}.")
    return values


def _finite(values: npt.ArrayLike, name: str) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers: {error}.") from error
    if not np.all(np.isfinite(array)):
        raise DataError(f"{name} must be finite numbers.")
    return array
