"""What is known of a model's lines beside their calibrators: how far a line can be trusted, and what that
becomes while the user types along it; how likely it is to survive; how often lines of a low probability are
used; what a second answer, to the prompt of the other window, says of the first.

There is one small file of each for each model and version of the prompt. Its labels are of lines in all
languages together.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import attrs
import numpy as np
from msgspec.structs import replace

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.calibration.calibrators.calibrator import Curve, FileDocument, Weighted, write_document
from lsp_calib.calibration.document import Count, Document, Text, as_floats, written
from lsp_calib.calibration.logistic import CLIP, PlattCalibrator, Prior, log_odds, sigmoid
from lsp_calib.calibration.validation import out_of_fold
from lsp_calib.confidence.features import PLACES, PREFIX_FEATURES, PREFIX_VERSION, Prefix
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.values import Evidence, ModelIdentity, Sure

PREFIXES, SURVIVAL, USAGE, SECOND = "prefixes", "survival", "usage", "second"
"""The folders with the files: beside that of the shipped calibrators, and all but that of usage in that of
the user's own, which go first."""

NAMES = (*PREFIX_FEATURES, "whole", *PLACES)
"""What a curve weighs: the features of the beginning, the log-odds of the whole line, and 1 for the place of
the cursor."""

_MOST_NATS = 500.0

# Lines that are wrong as a whole from which on a curve may be moved, and the standard deviation of its offset
# and of its slope before any of them, in nats.
LEAST_LINES = 30
_SPREAD = 0.25


@attrs.frozen
class ShownPart:
    """A part that was said to be sure, of a line that was wrong as a whole.

    whole: the probability of the line, part: that it is right up to the end of the part, as they were shown,
    in [0, 1]. right: whether it was. line: the same for parts of one line. at: of the label, in Unix seconds.
    """

    whole: float
    part: float
    right: bool
    line: str
    at: float


class TypedAlong(Document, frozen=True):
    """What agreement says: weights of `agreement`, fitted on moments at which the beginning of a suggestion
    was typed.

    n, n_right: these moments, and at how many of them the line was right.
    """

    characters: float
    share: float
    quotient: float
    n: Count
    n_right: Count

    def __post_init__(self) -> None:
        as_floats(self, bounded=("characters", "share", "quotient"))
        if not 0 <= self.n_right <= self.n:
            raise DataError("nRight must be among n.")

    @property
    def weights(self) -> tuple[float, float, float]:
        return self.characters, self.share, self.quotient


def agreement(
    typed: IntArray, ends: Sequence[int], right: Sequence[float], end: Sequence[int], p: Sequence[float]
) -> FloatArray:
    """What is known of the line up to each `end` once so many characters of it were typed; shape (m, k, 3).

    typed: k numbers of characters, from 1 to the first of the m `end`. ends, right: places in the text, and
    how likely the line was to be right up to each before anything was typed. p: the same up to each `end`.
    The last axis: the logarithm of 1 plus the characters, their share of `end`, and by how much the log-odds
    rise if what is typed counts as certain: to P(up to `end`) / P(up to there).
    """
    known = np.log(np.clip((1.0, *right), CLIP, 1.0))
    up_to = np.maximum(np.exp(np.interp(typed, (0, *ends), known)), CLIP)
    of, here = np.reshape(end, (-1, 1)), np.reshape(p, (-1, 1))
    rise = log_odds(np.minimum(here / up_to, 1.0)) - log_odds(here)
    return np.stack(np.broadcast_arrays(np.log1p(typed), typed / of, rise), axis=-1)


class PrefixCurve(
    FileDocument, frozen=True, kw_only=True, dict=True, omit_defaults=True, tag_field="schema", tag=2
):
    """P(the line is right up to a place, if it is wrong as a whole), by logistic regression.

    version: of the features, which are in the order of `NAMES`. model: whose answers it was fitted on; its
    SHA-256 counts. n, n_right: the places it was fitted on, all in lines that are wrong as a whole, and up to
    how many these are right. typed: what becomes of probabilities while the beginning is typed.
    base: `id` of the shipped curve that it was moved from, until: the last label that moved it, in Unix
    seconds; "" and 0 of a shipped curve.
    Raises DataError for other features or numbers that contradict each other.
    """

    version: int
    model: ModelIdentity
    prompt_version: Text
    n: Count
    n_right: Count
    intercept: float
    features: tuple[Weighted, ...]
    typed: TypedAlong
    base: str = ""
    until: float = 0.0

    def __post_init__(self) -> None:
        as_floats(self, bounded=("intercept",))
        if self.version != PREFIX_VERSION:
            raise CalibratorError(f"version is {self.version}; this lsp-calib reads {PREFIX_VERSION}.")
        if tuple(one.name for one in self.features) != NAMES:
            raise DataError(f"features must be {', '.join(NAMES)}, in this order.")
        if not 0 <= self.n_right <= self.n:
            raise DataError("nRight must be among n.")

    def probabilities(self, places: Sequence[Prefix], whole: float, place: str) -> list[float]:
        """For each place the probability that the line is right up to there, in [0, 1], never growing.

        places: of the suggestion, the first one first. whole: the calibrated probability of its line, in
        [0, 1]. place: of the cursor, one of `PLACES`.
        """
        p = min(max(whole, CLIP), 1.0 - CLIP)
        of_places, of_line, base = self._line
        about = (math.log(p / (1.0 - p)), *(float(place == one) for one in PLACES))
        base += sum(map(operator.mul, of_line, about))
        found: list[float] = []
        most = whole
        for prefix in reversed(places):
            score = base + sum(map(operator.mul, of_places, prefix.values))
            score = min(max(score, -_MOST_NATS), _MOST_NATS)
            # What is right as a whole is right up to each place, and up to an earlier one no less likely.
            most = max(most, whole + (1.0 - whole) / (1.0 + math.exp(-score)))
            found.append(most)
        return found[::-1]

    def typed_along(
        self, beginnings: Sequence[Sure], whole: float, typed: int, length: int
    ) -> tuple[float, list[Sure]]:
        """The probability that the line is right, and that it is right up to each later place, given that its
        first `typed` characters were typed as suggested.

        beginnings, whole: the same before anything was typed. length: of the text, in characters, above
        `typed`. None falls below what it was, nor as more is typed; up to an earlier place the line is no
        less likely to be right. With nothing typed all are what they were.
        """
        later = [one for one in beginnings if one.end > typed]
        if typed <= 0:
            return whole, later
        ends, right = [one.end for one in beginnings], [one.confidence for one in beginnings]
        if not ends or ends[-1] < length:
            ends, right = [*ends, length], [*right, whole]

        # What agrees to a later character agreed to all earlier ones: each of them was evidence. Arrays have
        # one shape at each key: in another numpy rounds otherwise, and a probability would fall by that.
        counts = np.arange(1, length)

        of, p = [length, *(one.end for one in beginnings)], [whole, *(one.confidence for one in beginnings)]
        score = agreement(counts, ends, right, of, p) @ self.typed.weights
        moved = np.maximum(p, sigmoid(log_odds(p) + score[:, :typed].max(axis=1))).tolist()
        most, given = moved[0], moved[len(moved) - len(later) :]
        found: list[Sure] = []
        floor = most
        for one, now in zip(reversed(later), reversed(given), strict=True):
            floor = max(floor, now)
            found.append(Sure(one.end, floor))
        return most, found[::-1]

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits that tell this curve from others."""
        return hashlib.sha256(json.dumps(written(self), sort_keys=True).encode()).hexdigest()[:16]

    def moved(self, shown: Sequence[ShownPart]) -> Self | None:
        """The curve with another offset and slope, by what came of parts that it has promised; None without
        evidence that it then predicts better.

        The evidence is the log loss on lines that were left out: the gain must exceed its standard error. Of
        parts of one line the last counts.
        """
        last = {one.line: one for one in sorted(shown, key=lambda one: one.at) if one.part > one.whole}
        if len(last) < LEAST_LINES:
            return None
        parts = list(last.values())
        # As the curve has it: of lines that are wrong as a whole.
        promised = np.array([(one.part - one.whole) / (1.0 - one.whole) for one in parts])
        promised = np.clip(promised, CLIP, 1.0 - CLIP)
        right = np.array([one.right for one in parts])
        prior = Prior(1.0, 0.0, slope_sd=_SPREAD, intercept_sd=_SPREAD)
        fit = functools.partial(PlattCalibrator.fit, prior=prior, targets="plain")
        unseen = out_of_fold(promised, right, list(last), fit)
        gain = np.log(np.where(right, unseen, 1.0 - unseen) / np.where(right, promised, 1.0 - promised))
        if gain.sum() <= math.sqrt(gain.size) * gain.std():
            return None
        found = fit(promised, right)
        return replace(
            self,
            features=tuple(replace(one, weight=found.slope * one.weight) for one in self.features),
            intercept=found.slope * self.intercept + found.intercept,
            n=self.n + right.size,
            n_right=self.n_right + int(right.sum()),
            base=self.base or self.id,
            until=max(one.at for one in parts),
        )

    @cached_property
    def _line(self) -> tuple[tuple[float, ...], tuple[float, ...], float]:
        """Of features as they are: the weights of `PREFIX_FEATURES`, those of the rest, and the intercept."""
        weights = tuple(one.weight / one.scale for one in self.features)
        base = self.intercept - math.fsum(one.mean * w for one, w in zip(self.features, weights, strict=True))
        return weights[: len(PREFIX_FEATURES)], weights[len(PREFIX_FEATURES) :], base

    def save(self, folder: Path) -> None:
        """Write the file that `CalibratorStore.prefix_curves` finds in a folder. Raises CalibratorError if
        that fails."""
        write_document(folder / f"{self.model.sha256[:16]}-{self.prompt_version}.json", written(self))


class SurvivalCurve(FileDocument, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """P(the line survives, if it does not end unchanged), by logistic regression.

    A line survives that is kept as it is, or after an edit of at most half of it. What
    the probability of the whole line leaves is weighed: so a line that ends unchanged survives, and a user's
    refit moves both.

    model: whose answers it was fitted on; its SHA-256 counts. curves: the preferred first; that of the first
    whose features are all known counts, as in a `Calibrator`. n, n_survived: the lines it was fitted on, none
    of which was right as it stood, and how many of them survived.
    Raises DataError for numbers that contradict each other.
    """

    model: ModelIdentity
    prompt_version: Text
    n: Count
    n_survived: Count
    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        measures = [curve.measure for curve in self.curves]
        if not measures or len(set(measures)) < len(measures):
            raise DataError("curves must be at least one, one for each measure.")
        if not 0 <= self.n_survived <= self.n:
            raise DataError("nSurvived must be among n.")

    def probability(self, evidence: Evidence, unchanged: float) -> float | None:
        """That a line survives, in [unchanged, 1]; None if no curve has its features, or they are impossible.

        evidence: of the line. unchanged: the calibrated probability that it ends as it stands, in [0, 1].
        """
        try:
            of_changed = (curve.probability(evidence) for curve in self.curves)
            edited = next((p for p in of_changed if p is not None), None)
        except DataError:
            return None
        return None if edited is None else unchanged + (1.0 - unchanged) * edited


LEAST_COUNTED = 50
"""Lines below which no share is told: in tenths it would be chance."""

# What a limit may differ by and still be the same: of a preset, or computed from costs.
_SAME = 1e-9


class UsedLines(Document, frozen=True):
    """Lines with a probability below a limit, and not below that of the entry before.

    n: of them were shown. unchanged: so many stand in the source as they are. survived: so many as they are
    or after an edit of at most half of it.
    """

    below: float
    n: Count
    unchanged: Count
    survived: Count

    def __post_init__(self) -> None:
        as_floats(self, bounded=("below",))
        if not self.unchanged <= self.survived <= self.n:
            raise DataError("unchanged must be among survived, and these among n.")


class Usage(FileDocument, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """What became of a model's lines, by their probability, from the lowest on.

    Raises DataError for limits that do not rise.
    """

    model: ModelIdentity
    prompt_version: Text
    lines: tuple[UsedLines, ...]

    def __post_init__(self) -> None:
        limits = [one.below for one in self.lines]
        if limits != sorted(set(limits)):
            raise DataError("below must rise from one to the next of lines.")

    def shares(self, below: float) -> tuple[float, float] | None:
        """Of the lines with a probability below a limit the shares that are used as they are, and as they are
        or after an edit; None if there are too few. Of a limit between two, those up to the lower one count.
        """
        found = [one for one in self.lines if one.below <= below + _SAME]
        n = sum(one.n for one in found)
        if n < LEAST_COUNTED:
            return None
        return sum(one.unchanged for one in found) / n, sum(one.survived for one in found) / n


class OfTwo(Document, frozen=True):
    """P(an answer is right) = sigmoid(intercept + own * a + beside * b + other), by logistic regression.

    a, b: the log-odds of its own probability and of that of the answer beside it. other: nats added for an
    answer to the prompt of the other window. n, n_right: the pairs it was fitted on, and of how many this
    answer was right.
    """

    n: Count
    n_right: Count
    intercept: float
    own: float
    beside: float
    other: float = 0.0

    def __post_init__(self) -> None:
        as_floats(self, bounded=("intercept", "own", "beside", "other"))
        if not 0 <= self.n_right <= self.n:
            raise DataError("nRight must be among n.")

    def probability(self, own: float, beside: float, *, is_other: bool = False) -> float:
        """In [0, 1]. own, beside: probabilities in [0, 1], that of the answer and of the one beside it."""
        a, b = of_pair(own), of_pair(beside)
        score = self.intercept + self.own * a + self.beside * b + (self.other if is_other else 0.0)
        return 1.0 / (1.0 + math.exp(-min(max(score, -_MOST_NATS), _MOST_NATS)))


_MOST_ODDS = 8.0


def of_pair(p: float) -> float:
    """What `OfTwo` weighs of a probability in [0, 1]: its log-odds, at most 8 nats from 0."""
    p = min(max(p, CLIP), 1.0 - CLIP)
    return min(max(math.log(p / (1.0 - p)), -_MOST_ODDS), _MOST_ODDS)


class SecondOpinion(FileDocument, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """What the answer to the prompt of the other window, at the same place, says of a line.

    other_version: of that prompt. agreed: of answers that say the same. chosen: of two that differ, the one
    with the higher probability; rest: the other one. Their curves are those of a choice: the surer of two is
    less often right than its own probability says.
    """

    model: ModelIdentity
    prompt_version: Text
    other_version: Text
    agreed: OfTwo
    chosen: OfTwo
    rest: OfTwo

    def both_say(self, first: float, other: float) -> float:
        """That an answer is right which both prompts give. first, other: its probability by the calibrator of
        each window, in [0, 1]."""
        return self.agreed.probability(first, other)

    def surer(self, first: float, other: float) -> tuple[bool, float, float]:
        """Of two answers that differ: whether that to the other window's prompt is the surer one, and the
        probabilities of the surer one and of the one behind it, which is not above it; together at most 1.

        first, other: their probabilities by the calibrator of each window, in [0, 1].
        """
        is_other = other > first
        own, beside = max(first, other), min(first, other)
        p = self.chosen.probability(own, beside, is_other=is_other)
        q = self.rest.probability(beside, own, is_other=not is_other)
        return is_other, p, min(q, p, 1.0 - p)
