"""Labelled suggestions, as they come out of the store, and which of them a refit rests on."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import attrs

from lsp_calib.confidence.features import VERSION
from lsp_calib.feedback.events import How
from lsp_calib.values import Evidence

# Seconds. Later moments were written while the clock was wrong: they are ignored until they have come, or
# refits and watches would stall until that date.
_AHEAD = 86_400.0


def latest() -> float:
    """The latest moment that can have come, in Unix seconds."""
    return time.time() + _AHEAD


def is_ahead(moment: float) -> bool:
    """Whether a stored moment (Unix seconds) cannot have come yet."""
    return moment > latest()


T = TypeVar("T")

# However many there are, a line weighs no more than five visits (`promotion.MOST_OF_ONE_LINE`), and a
# visit no more than one label. So many rows of each say the same, and leave room for others.
MOST_ALIKE = 20
# Rows that are looked at for one that is taken: a store of one line alone is not read to its end.
REACH = 10


def last_of_each(
    rows: Iterable[tuple[T, Hashable, Hashable]], most: int, *, alike: int = MOST_ALIKE
) -> Iterator[T]:
    """The first `most` rows, at most `alike` of each line and of each visit.

    rows: (row, line, visit), the newest first. No more than REACH * `most` of them are looked at.
    Whether a label is right has no part in this, so what is taken is as good a sample as all were.

    >>> list(last_of_each([(n, n // 3, n) for n in range(9)], 4, alike=1))
    [0, 3, 6]
    """
    lines: Counter[Hashable] = Counter()
    visits: Counter[Hashable] = Counter()
    taken = 0
    for number, (row, line, visit) in enumerate(rows, 1):
        if lines[line] < alike and visits[visit] < alike:
            lines[line] += 1
            visits[visit] += 1
            taken += 1
            yield row
        if taken == most or number == REACH * most:
            return


# What `LabelledRow.of` takes, of `suggestions s` and `labels l`.
COLUMNS = (
    "s.id, s.language, s.logprobs, s.features, s.features_version, s.place, s.line, s.shown_probability, "
    "l.correct, l.how, s.shown_at, l.at, l.episode, l.settled_at, s.typed, s.calibrator_id, "
    "s.confidence, (SELECT MAX(m.confidence) FROM moments m WHERE m.suggestion_id = s.id)"
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

    evidence: log-probabilities and features with 5 digits, without the doubtful word, which is text. Features
        of another version than `confidence.features.VERSION` are missing.
    shown_at, at (of the label, when it was first known): Unix seconds. settled_at: None: it is provisional.
    episode: rows that share one come from one visit to one line.
    line: a hash of the line with the suggestion in it, None if it is not known.
    shown_probability: that it was shown, in (0, 1]; below 1 if it was to be hidden.
    typed: characters of it that were typed along when it was first shown. calibrator_id, confidence: the
    calibrator, and its probability then; best: the highest that was shown of it. Both in [0, 1], or None.
    """

    suggestion_id: str
    language: str
    evidence: Evidence
    correct: bool
    how: How
    shown_at: float
    at: float
    episode: str
    line: str | None
    shown_probability: float
    settled_at: float | None = None
    typed: int = 0
    calibrator_id: str = ""
    confidence: float | None = None
    best: float | None = None

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """row: the values of `COLUMNS`."""
        id_, language, logprobs, features, version, place, line, *rest = row
        chance, correct, how, shown, at, episode, settled_at, typed, calibrator, first, later = rest
        return cls(
            suggestion_id=id_,
            language=language,
            evidence=evidence_of(json.loads(logprobs), json.loads(features), version, place),
            correct=bool(correct),
            how=How(how),
            shown_at=shown,
            at=at,
            episode=episode,
            line=line,
            shown_probability=chance,
            settled_at=settled_at,
            typed=typed,
            calibrator_id=calibrator,
            confidence=first,
            best=max((one for one in (first, later) if one is not None), default=None),
        )


def alike(row: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], str]:
    """The values of `COLUMNS`, with what tells their line and their visit from others.

    A line is told by its hash, or by its numbers where it was stored without.
    """
    logprobs, features, line, episode = row[2], row[3], row[6], row[12]
    return row, (line,) if line else (logprobs, features), episode


def evidence_of(
    logprobs: Sequence[float], features: Mapping[str, float], version: int, place: str
) -> Evidence:
    """The evidence of a suggestion in the store, from its columns as `export` gives them."""
    return Evidence(tuple(logprobs), dict(features) if version == VERSION else {}, place)
