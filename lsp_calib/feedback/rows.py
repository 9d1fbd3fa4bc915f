"""Labelled suggestions, as they come out of the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs

from lsp_calib.confidence.features import VERSION
from lsp_calib.feedback.events import How, Source
from lsp_calib.feedback.schema import EPISODE, SOURCE
from lsp_calib.values import Evidence

# What `LabelledRow.of` takes, of `suggestions s` and `labels l`.
COLUMNS = (
    "s.id, s.language, s.raw, s.confidence, s.tier, s.calibrator_id, s.logprobs, s.features, "
    f"s.features_version, s.place, s.line, s.shown_probability, l.correct, l.how, s.shown_at, l.at, "
    f"{EPISODE}, {SOURCE}"
)


@attrs.frozen
class Counts:
    """How much the store holds of what was shown. events, labels: by kind and by how."""

    suggestions: int
    labelled: int
    correct: int
    events: Mapping[str, int]
    labels: Mapping[str, int]


@attrs.frozen
class LabelledRow:
    """A suggestion with a known outcome, for fitting a calibrator.

    raw, confidence: in [0, 1], or None.
    evidence: log-probabilities and features with 5 digits, without the doubtful word, which is text. Features
        of another version than `confidence.features.VERSION`, or from before there were any, are missing.
    shown_at, at (of the label): Unix seconds. episode: rows that share one come from one visit to one line.
    line: a hash of the line with the suggestion in it (of a replayed one: of the user's line), None if it is
    not known.
    shown_probability: that it was shown, in (0, 1]; below 1 if it was to be hidden.
    source: where the label comes from. A replayed one was never shown; `shown_at` is when it was made.
    """

    suggestion_id: str
    language: str
    raw: float | None
    confidence: float | None
    tier: str
    calibrator_id: str
    evidence: Evidence
    correct: bool
    how: How
    shown_at: float
    at: float
    episode: str
    line: str | None
    shown_probability: float
    source: Source = Source.SHOWN

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Self:
        """row: the values of `COLUMNS`."""
        id_, language, raw, confidence, tier, calibrator_id, logprobs, *rest = row
        features, version, place, line, chance, correct, how, shown, at, episode, source = rest
        return cls(
            suggestion_id=id_,
            language=language,
            raw=raw,
            confidence=confidence,
            tier=tier,
            calibrator_id=calibrator_id,
            evidence=evidence_of(json.loads(logprobs), json.loads(features or "null"), version, place),
            correct=bool(correct),
            how=How(how),
            shown_at=shown,
            at=at,
            episode=episode,
            line=line,
            shown_probability=1.0 if chance is None else chance,
            source=Source(source),
        )


def alike(row: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], str]:
    """The values of `COLUMNS`, with what tells their line and their visit from others.

    A line is told by its hash, or by its numbers where it was stored without.
    """
    logprobs, features, line, episode = row[6], row[7], row[10], row[16]
    return row, (line,) if line else (logprobs, features), episode


def evidence_of(
    logprobs: Sequence[float], features: Mapping[str, float] | None, version: int | None, place: str | None
) -> Evidence:
    """The evidence of a suggestion in the store, from its columns as `export` gives them."""
    return Evidence(
        tuple(logprobs), features if features is not None and version == VERSION else {}, place or ""
    )
