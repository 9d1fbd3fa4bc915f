"""The places where an edit probably goes next, each with its probability.

The curve is the model of edits as llama.cpp's is that of lines: what it says is a raw confidence, which the
calibrator of the task `edit` turns into a probability and a tier.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import attrs

from lsp_calib.calibration.calibrators.calibrator import FileDocument, Offset, Weighted
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.document import Count, as_floats, written
from lsp_calib.edits.history import FEATURES, History, features_of, is_defined_near, passed_over
from lsp_calib.edits.rules import Place, Rule, Text
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.home import shipped_models
from lsp_calib.values import Evidence, ModelIdentity

logger = logging.getLogger(__name__)

VERSION = 1
"""Of rules, places and features: a change of what is computed needs another one."""

FILE = Path("edits") / "next-edit.json"
"""Of the curve, in the folder of the models."""

ANY_LANGUAGE = "any"
"""The language of the calibrator of edits: one for all."""

OFFERED_FROM = 0.5
"""The probability from which on an edit is offered."""

MOST_BELOW = 4
"""Places of a rule below a change that are assessed, while one is looked for."""


class EditCurve(FileDocument, frozen=True, kw_only=True, dict=True, tag_field="schema", tag=1):
    """P(the place is changed in the same way), a logistic over `FEATURES`.

    offsets: nats by language, as `Offset.place`; others have 0. n, n_right: the places it was fitted on, and
    how many of them were changed. provenance: the projects, in whose releases.
    Raises DataError for another version, other features, or numbers that contradict each other.
    """

    version: int
    features: tuple[Weighted, ...]
    intercept: float
    offsets: tuple[Offset, ...]
    n: Count
    n_right: Count
    provenance: tuple[Origin, ...]

    def __post_init__(self) -> None:
        as_floats(self, bounded=("intercept",))
        if self.version != VERSION or tuple(one.name for one in self.features) != FEATURES:
            raise DataError("features are not those that this program computes.")
        if self.n_right > self.n:
            raise DataError("nRight must be among n.")

    @classmethod
    def shipped(cls) -> EditCurve:
        """Raises CalibratorError if the file is missing or damaged."""
        return cls.load(shipped_models() / FILE)

    @cached_property
    def identity(self) -> ModelIdentity:
        """The curve as the model of its edits."""
        content = json.dumps(written(self), sort_keys=True).encode()
        return ModelIdentity("next-edit", "", hashlib.sha256(content).hexdigest())

    @property
    def purpose(self) -> Purpose:
        """Of the calibrator of its edits."""
        return Purpose(self.identity, f"edits-{VERSION}", "edit", ANY_LANGUAGE)

    def logprob(self, values: Mapping[str, float], language: str) -> float:
        """The logarithm of the probability. values: by name, see `features_of`."""
        name = language.removesuffix("react")
        score = self.intercept + sum(one.offset for one in self.offsets if one.place == name)
        score += math.fsum(one.weight * (values[one.name] - one.mean) / one.scale for one in self.features)
        return -math.log1p(math.exp(-score)) if score > -500.0 else score


@attrs.frozen
class Candidate:
    """A place where an edit can be made again. words: what speaks for it and against it, for the user."""

    document: Hashable
    rule: Rule
    place: Place
    features: Mapping[str, float]
    words: str


@attrs.frozen
class Offer:
    """A candidate that is assessed. logprob: the logarithm of the curve's probability."""

    candidate: Candidate
    language: str
    logprob: float

    @property
    def evidence(self) -> Evidence:
        """As of an answer of one token."""
        return Evidence((self.logprob,), dict(self.candidate.features), self.language)


Refused = Callable[[Hashable, Rule, Place], bool]


def candidates(
    history: History,
    rules: Sequence[Rule],
    texts: Mapping[Hashable, Text],
    document: Hashable,
    most: int = MOST_BELOW,
    refused: Refused = lambda *_: False,
) -> Iterator[Candidate]:
    """Where the rules of a change can be applied again: the nearest places below, then above, then those of
    other documents.

    rules: of the last change. texts: open documents of its language, as they are now; `document` is the one
    in which it was made. most: places below it for each rule and document; above, half as many. refused: says
    of which places the user does not want them changed: they count as passed over.
    """
    for rule in rules:
        made = history.of(rule)
        if not made:
            continue
        for name, text in sorted(texts.items(), key=lambda one: one[0] != document):
            places = text.places(rule)
            passed = passed_over(places, made, name)
            passed |= {place for place in places if refused(name, rule, place)}
            line = next((one.line for one in reversed(made) if one.document == name and one.line >= 0), 0)
            left = [place for place in places if place not in passed] if passed else places
            below = [place for place in left if place.line >= line][:most]
            above = [place for place in reversed(left) if place.line < line][: most // 2]
            words = _words(len(made), len(passed))
            is_defined_left = is_defined_near(places, made, text.lines, name)
            for place in (*below, *above):
                facts = place, rule, made, text, name, len(places) - 1, len(passed)
                values = features_of(*facts, is_defined_left=is_defined_left)
                yield Candidate(name, rule, place, values, words)


def offers(found: Iterable[Candidate], language: str, curve: EditCurve) -> list[Offer]:
    """Candidates with their probabilities, the likeliest first, of equally likely ones in their order."""
    assessed = [Offer(one, language, curve.logprob(one.features, language)) for one in found]
    return sorted(assessed, key=lambda one: -round(one.logprob, 6))


def _words(times: int, passed: int) -> str:
    done = "done once so far" if times == 1 else f"done {times} times so far"
    left = f"{passed} {'place was' if passed == 1 else 'places were'} left as before"
    return f"{done}, {left if passed else 'no place was passed over'}"


def shipped_curve() -> EditCurve | None:
    """The shipped curve; None if it cannot be read."""
    try:
        return EditCurve.shipped()
    except CalibratorError as error:
        logger.warning("No next edits: %s", error)
        return None
