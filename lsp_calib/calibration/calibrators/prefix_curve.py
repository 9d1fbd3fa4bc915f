"""How far a suggestion can be trusted: the probability that its line is right up to a place in it, and what
that becomes while the user types along it.

There is one small file for each model and version of the prompt, beside the calibrators. Its labels are of
lines in all languages together. A refit moves the shipped curve by the user's labels (`PrefixCurve.moved`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import attrs
import numpy as np
from msgspec.structs import replace

from lsp_calib.calibration.calibrators.calibrator import FileDocument, write_document
from lsp_calib.calibration.calibrators.curve import Weighted
from lsp_calib.calibration.document import Count, Document, Text, as_floats, written
from lsp_calib.calibration.logistic import CLIP, PlattCalibrator, Prior
from lsp_calib.calibration.validation import out_of_fold
from lsp_calib.confidence.features import PLACES, PREFIX_FEATURES, PREFIX_VERSION, Prefix
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.values import ModelIdentity, Sure

FOLDER = "prefixes"
"""The folder with the curves: beside that of the shipped calibrators, and in that of the user's own, which go
first."""

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


def known_up_to(ends: Sequence[int], right: Sequence[float], typed: int) -> list[float]:
    """For each number of characters from 1 to `typed` the logarithm of the probability that the line is right
    up to there, before anything was typed.

    ends, right: places in the text, the first one first, and these probabilities; between two the logarithm
    runs straight.
    """
    found: list[float] = []
    start, before = 0, 0.0
    for end, p in zip(ends, right, strict=True):
        log = math.log(min(max(p, CLIP), 1.0))
        slope = (log - before) / (end - start)
        found += [before + slope * (count - start) for count in range(start + 1, min(end, typed) + 1)]
        start, before = end, log
    return found + [before] * (typed - len(found))


def agreement(typed: int, known: float, end: int, p: float) -> tuple[float, float, float]:
    """What is known of the line up to `end` once so many characters of it were typed, from 1 to `end`.

    known: `known_up_to` them. p: the probability up to `end`, before anything was typed.
    The logarithm of 1 plus the characters, their share of `end`, and by how much the log-odds rise if what is
    typed counts as certain: to P(up to `end`) / P(up to there).
    """
    rise = scalar_log_odds(min(p / math.exp(known), 1.0)) - scalar_log_odds(p)
    return math.log1p(typed), typed / end, rise


def scalar_log_odds(p: float) -> float:
    """`logistic.log_odds` of one number: numpy takes twenty times as long."""
    p = min(max(p, CLIP), 1.0 - CLIP)
    return math.log(p / (1.0 - p))


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
        of_places, of_line, base = self._line
        about = (scalar_log_odds(whole), *(float(place == one) for one in PLACES))
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
        `typed`. Neither falls below what it was, nor the first as more is typed; up to an earlier place the
        line is no less likely to be right. With nothing typed all are what they were.
        """
        later = [one for one in beginnings if one.end > typed]
        if typed <= 0:
            return whole, later
        ends, right = [one.end for one in beginnings], [one.confidence for one in beginnings]
        if not ends or ends[-1] < length:
            ends, right = [*ends, length], [*right, whole]
        known = known_up_to(ends, right, typed)

        def given(end: int, p: float, counts: Iterable[int]) -> float:
            base = scalar_log_odds(p)
            scores = (
                base + sum(map(operator.mul, self.typed.weights, agreement(count, known[count - 1], end, p)))
                for count in counts
            )
            return max(p, 1.0 / (1.0 + math.exp(-max(min(max(scores), _MOST_NATS), -_MOST_NATS))))

        # What agrees to a later character agreed to all earlier ones: each of them was evidence.
        most = given(length, whole, range(1, typed + 1))
        found: list[Sure] = []
        floor = most
        for one in reversed(later):
            floor = max(floor, given(one.end, one.confidence, (typed,)))
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
