"""A curve of a calibrator: a weighted sum of features, its probability, and its form in a file. Pure.

Platt scaling of one measure is its simplest case: one feature, the log-odds of the measure, with mean 0 and
scale 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.document import Count, Document, Text, as_floats
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator, Prior, log_odds, sigmoid
from lsp_calib.confidence.features import VERSION, by_name, first_tokens
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.values import Evidence

# The measures of curves over features: of all features, and of those that do not need something that may be
# missing: an engine may give no entropies, a language have no grammar, an encoder not be installed.
FEATURES_MEASURE = f"features-{VERSION}"
WITHOUT_ENTROPIES = f"{FEATURES_MEASURE}-without-entropies"
WITHOUT_GRAMMAR = f"{FEATURES_MEASURE}-without-grammar"
WITHOUT_ENCODER = f"{FEATURES_MEASURE}-without-encoder"

# Which curve a user wants: the best whose features are known, or that of a plain measure.
Wanted = Literal["best", "geometric-mean", "total"]
_FEATURES = re.compile(r"features-([1-9][0-9]{0,5})(-without-(?:entropies|grammar|encoder))?")
_MOST = 1e6  # of a feature: each is a count, a share or some nats; more is damage, or no number


@lru_cache(maxsize=256)  # asked for each feature of each label of a refit
def is_plain(measure: str) -> bool:
    """Whether a name is that of a measure of log-probabilities alone, as `features.by_name` takes it."""
    try:
        first_tokens(measure)
    except DataError:
        return False
    return True


def value_of(feature: str, evidence: Evidence) -> float | None:
    """The number of a feature; None if it cannot be had, or is absurd.

    feature: a name of `confidence.features.FEATURES`, or a plain measure: its number is the log-odds of the
        measure of the log-probabilities (probabilities count as no nearer than 1e-6 to 0 and 1).
    Raises DataError if a measure refuses the log-probabilities.
    """
    if is_plain(feature):
        if not evidence.logprobs:
            return None
        return float(log_odds(by_name(feature)(evidence.logprobs)))
    value = evidence.features.get(feature)
    return value if value is not None and abs(value) <= _MOST else None


def values_of(feature: str, evidences: Sequence[Evidence]) -> FloatArray:
    """`value_of` n answers, float array of shape (n,); nan where there is none."""
    if not is_plain(feature):
        found = [evidence.features.get(feature, math.nan) for evidence in evidences]
        values = np.array(found, dtype=np.float64)
        return np.where(np.abs(values) <= _MOST, values, math.nan)
    measure = by_name(feature)
    shares = [measure(evidence.logprobs) if evidence.logprobs else math.nan for evidence in evidences]
    values = np.array(shares, dtype=np.float64)
    known = ~np.isnan(values)
    values[known] = log_odds(values[known])
    return values


class Weighted(Document, frozen=True):
    """One feature of a curve: it contributes weight * (x - mean) / scale nats.

    Raises DataError unless the numbers are finite and the scale lies in [1e-9, 1e9].
    """

    name: Text
    mean: float
    scale: float
    weight: float

    def __post_init__(self) -> None:
        as_floats(self, bounded=("mean", "weight"), positive=("scale",))


class Shift(Document, frozen=True, kw_only=True):
    """How a person's (or another model's) curve lies to the one it was made from: slope * score + intercept.

    score: the log-odds of the original curve, in nats. slope_sd, intercept_sd: standard deviations, in
    [1e-9, 1e9], of the Gaussian around slope 1 and intercept 0 that such a shift is expected under.
    Raises DataError for other numbers.
    """

    slope: float = 1.0
    intercept: float = 0.0
    slope_sd: float
    intercept_sd: float

    def __post_init__(self) -> None:
        as_floats(self, bounded=("slope", "intercept"), positive=("slope_sd", "intercept_sd"))


class Offset(Document, frozen=True):
    """Nats added at a kind of place of the cursor."""

    place: str
    offset: float

    def __post_init__(self) -> None:
        as_floats(self, bounded=("offset",))


class Curve(Document, frozen=True, omit_defaults=True):
    """probability = sigmoid(intercept + sum of weight * (x - mean) / scale + offset of the place).

    The first of a calibrator's curves whose features are all known counts, unless a measure is preferred.
    Its probability is then kept within what the calibrator's labels support (`Calibrator.told`).

    measure: a plain measure, whose log-odds are then the one feature; or FEATURES_MEASURE (of any version),
        WITHOUT_ENTROPIES, WITHOUT_GRAMMAR or WITHOUT_ENCODER. A curve over features of another version than
        `confidence.features.VERSION` can be read, but gives no probabilities: the numbers would mean
        something else.
    prior: under which a curve over one feature was fitted. spread: the standard deviation, in nats, of the
        Gaussian around 0 under which the weights of standardised features were fitted.
    offsets: a place that is not among them has 0.
    shift: contained in weights, intercept and offsets already.
    Raises CalibratorError for an unknown measure, and DataError for numbers that are not finite, features
    that are named twice, or a plain measure with other features.
    """

    measure: Text
    features: tuple[Weighted, ...]
    intercept: float
    prior: Prior | None = None
    spread: float | None = None
    offsets: tuple[Offset, ...] = ()
    shift: Shift | None = None

    def __post_init__(self) -> None:
        as_floats(self, bounded=("intercept",), positive=() if self.spread is None else ("spread",))
        names = [feature.name for feature in self.features]
        if not names or len(set(names)) < len(names):
            raise DataError(f"features of {self.measure!r} must be at least one, each once.")
        if is_plain(self.measure):
            if names != [self.measure]:
                raise DataError(f"features of {self.measure!r} must be {self.measure!r} alone.")
        elif not _FEATURES.fullmatch(self.measure):
            raise CalibratorError(f"measure {self.measure!r} is not known.")
        if len({one.place for one in self.offsets}) < len(self.offsets):
            raise DataError("offsets must hold one number for each place.")

    @classmethod
    def of_measure(cls, measure: str, slope: float, intercept: float, prior: Prior | None = None) -> Self:
        """Platt scaling of a plain measure: sigmoid(slope * log-odds + intercept)."""
        return cls(measure, (Weighted(measure, 0.0, 1.0, slope),), intercept, prior)

    @property
    def readable(self) -> bool:
        """Whether the features are of the version that this program computes."""
        match = _FEATURES.fullmatch(self.measure)
        return match is None or int(match[1]) == VERSION

    def contributions(self, evidence: Evidence) -> dict[str, float] | None:
        """Nats by feature: how far each moves the log-odds from those of an average answer.

        None if a feature is missing. Raises DataError as `value_of` does.
        """
        if not self.readable or any(
            not is_plain(one.name) and one.name not in evidence.features for one in self.features
        ):
            return None
        found: dict[str, float] = {}
        for feature in self.features:
            value = value_of(feature.name, evidence)
            if value is None:
                return None
            found[feature.name] = feature.weight * (value - feature.mean) / feature.scale
        return found

    def score(self, evidence: Evidence) -> float | None:
        """The log-odds of the probability, in nats; None if a feature is missing.

        Raises DataError as `value_of` does.
        """
        contributions = self.contributions(evidence)
        if contributions is None:
            return None
        try:
            score = math.fsum((self.intercept, *contributions.values(), self.offset(evidence.place)))
        except (OverflowError, ValueError):  # infinite contributions of either sign
            return None
        return score if math.isfinite(score) else None

    def offset(self, place: str) -> float:
        """Nats added at a kind of place."""
        return next((one.offset for one in self.offsets if one.place == place), 0.0)

    def probability(self, evidence: Evidence) -> float | None:
        """In [0, 1]; None if a feature is missing. Raises DataError as `value_of` does."""
        score = self.score(evidence)
        return None if score is None else float(sigmoid(score))

    def scores(self, evidences: Sequence[Evidence]) -> FloatArray:
        """`score` of n answers, float array of shape (n,); nan where a feature is missing."""
        if not self.readable:
            return np.full(len(evidences), math.nan)
        weights = np.array([feature.weight for feature in self.features])
        scales = np.array([feature.scale for feature in self.features])
        moved = weights * self._from_mean(evidences) / scales
        offsets = self.offsets_at(evidences)
        moved = np.column_stack((np.full(offsets.size, self.intercept), moved, offsets))
        moved[~np.isfinite(moved).all(axis=1)] = math.nan
        return np.array([math.fsum(row) for row in moved.tolist()], dtype=np.float64)

    def standardised(self, evidences: Sequence[Evidence]) -> FloatArray:
        """The features of n answers in standard deviations from their mean, shape (n, d); nan where one is
        missing. Raises DataError as `value_of` does."""
        found: FloatArray = self._from_mean(evidences) / np.array([one.scale for one in self.features])
        return found

    def _from_mean(self, evidences: Sequence[Evidence]) -> FloatArray:
        columns = np.empty((len(evidences), len(self.features)))
        for d, feature in enumerate(self.features):
            columns[:, d] = values_of(feature.name, evidences) - feature.mean
        return columns

    def offsets_at(self, evidences: Sequence[Evidence]) -> FloatArray:
        """`offset` of n answers, shape (n,)."""
        known = {one.place: one.offset for one in self.offsets}
        return np.array([known.get(evidence.place, 0.0) for evidence in evidences], dtype=np.float64)

    def shifted(self, shift: Shift) -> Self:
        """The curve whose score is `shift.slope` times this one's plus `shift.intercept`."""
        return replace(
            self,
            features=tuple(replace(f, weight=shift.slope * f.weight) for f in self.features),
            intercept=shift.slope * self.intercept + shift.intercept,
            offsets=tuple(Offset(one.place, shift.slope * one.offset) for one in self.offsets),
            shift=shift,
        )


def in_order(curves: Sequence[Curve], wanted: Wanted) -> list[Curve]:
    """The curves in the order in which they are tried.

    wanted: "best": the order of the file. "geometric-mean" or "total": such a curve first, if there is one.
    """
    if wanted == "best":
        return list(curves)
    return sorted(curves, key=lambda curve: not curve.measure.startswith(wanted))


# With fewer labels, or fewer right ones, a curve would be little more than its prior.
_FEWEST, _FEWEST_RIGHT = 100, 5

Ranked = Sequence[tuple[float, bool]]
"""The alternatives at one place from rank 2 on: the share that the model gives to each of what its first
answer leaves (`completion.alternatives.shares`), and whether it is right."""


class RankCurve(Document, frozen=True):
    """P(the answer of a rank is right, if the first is not) = sigmoid(slope * log-odds(share) + intercept).

    n, n_correct: the places it was fitted on, where the first answer was wrong, and how many of them this
    rank had right.
    Raises DataError for numbers that are not finite or contradict each other.
    """

    slope: float
    intercept: float
    n: Count
    n_correct: Count

    def __post_init__(self) -> None:
        as_floats(self, bounded=("slope", "intercept"))
        if not 0 <= self.n_correct <= self.n:
            raise DataError(f"nCorrect {self.n_correct} is not among n {self.n}.")

    def predict(self, share: float) -> float:
        """The probability, in (0, 1), of a share in [0, 1]."""
        return PlattCalibrator(self.slope, self.intercept).predict(share)


def fit_ranks(places: Sequence[Ranked], first_correct: npt.ArrayLike) -> tuple[RankCurve, ...]:
    """A curve for each rank from 2 on, as far as there are labels enough; for none after a rank without.

    places: of n places. first_correct: bool array of shape (n,): where the first answer is right, no other
    is, and the place says nothing.
    """
    wrong: BoolArray = ~np.asarray(first_correct, dtype=np.bool_)
    curves: list[RankCurve] = []
    while True:
        found = [
            place[len(curves)]
            for place, counts in zip(places, wrong, strict=True)
            if counts and len(place) > len(curves)
        ]
        right = sum(correct for _, correct in found)
        if len(found) < _FEWEST or right < _FEWEST_RIGHT:
            return tuple(curves)
        shares, correct = zip(*found, strict=True)
        platt = PlattCalibrator.fit(shares, correct, prior=LOOSE_PRIOR)
        curves.append(RankCurve(platt.slope, platt.intercept, len(found), right))


def rank_probabilities(
    curves: Sequence[RankCurve], first: float | None, shares: Sequence[float]
) -> tuple[float | None, ...]:
    """How likely each alternative is to be right; with the first answer, all together at most 1.

    first: the calibrated probability of the first answer, in [0, 1]; None: there is none for any.
    shares: from rank 2 on, each in [0, 1]. A rank without a curve has its share of what the first one leaves.

    >>> rank_probabilities((), 0.6, (0.5, 0.25))
    (0.2, 0.1)
    """
    if first is None:
        return (None,) * len(shares)
    found: FloatArray = np.array(
        [curves[rank].predict(share) if rank < len(curves) else share for rank, share in enumerate(shares)],
        dtype=np.float64,
    )
    # Each curve is right about its rank; together they may promise more than there is.
    within = found / max(1.0, float(found.sum()))
    return tuple((1.0 - first) * float(p) for p in within)
