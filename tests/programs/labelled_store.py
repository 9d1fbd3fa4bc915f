"""Puts labelled suggestions into a feedback store by statements of many rows: seconds instead of minutes.

For programs that measure what is made of the labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import attrs

from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.confidence.features import VERSION
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import Evidence


@attrs.frozen
class Stored:
    """The evidence of a suggestion, as the store keeps it."""

    logprobs: str
    features: str
    place: str

    @classmethod
    def of(cls, evidence: Evidence) -> Stored:
        return cls(
            json.dumps([round(value, 5) for value in evidence.logprobs], separators=(",", ":")),
            json.dumps({n: round(v, 5) for n, v in evidence.features.items()}, separators=(",", ":")),
            evidence.place,
        )


@attrs.frozen
class Labelled:
    """identity: of the suggestion, and of its visit. line: what tells its line from others. at: when it
    settled, in Unix seconds; it was shown half a minute before."""

    identity: str
    line: str
    stored: Stored
    correct: bool
    at: float


def add(store: FeedbackStore, purpose: Purpose, ones: Iterable[Labelled]) -> None:
    """All of them in one transaction."""
    connection = store._connection
    ones = list(ones)
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(
        "INSERT INTO suggestions (id, shown_at, kind, language, model, model_sha256, prompt_version, "
        "calibrator_id, measure, raw, confidence, tier, logprobs, features, features_version, place, line, "
        "shown_probability) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 'c', 'total', 0.5, 0.5, 'review', ?, ?, ?, ?, ?, 1.0)",
        (
            (
                *(one.identity, one.at - 30.0, purpose.task, purpose.language, purpose.model.name),
                *(purpose.model.sha256, purpose.prompt_version, one.stored.logprobs, one.stored.features),
                *(VERSION, one.stored.place, one.line),
            )
            for one in ones
        ),
    )
    connection.executemany(
        "INSERT INTO labels (suggestion_id, correct, how, at, episode, settled_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            (
                one.identity,
                int(one.correct),
                "kept" if one.correct else "edited",
                one.at,
                one.identity,
                one.at,
            )
            for one in ones
        ),
    )
    connection.execute("COMMIT")
