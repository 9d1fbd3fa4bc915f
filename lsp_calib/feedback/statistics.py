"""What the feedback store holds, in numbers: how much, of what, how old, and whether promises were kept."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import attrs

from lsp_calib.feedback.outcomes import Share
from lsp_calib.feedback.schema import EPISODE, SHOWN, SOURCE
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import Tier

DAY = 86_400.0
# Upper ends of the groups of ages, in days. The last group has none.
_AGES = (1, 7, 30, 90, 365)
# Times that a clock can have shown, up to the year 9892: others are of damaged rows.
_POSSIBLE = "s.shown_at BETWEEN 0 AND 2.5e11"


@attrs.frozen
class Part:
    """One language, model or age: suggestions, those with an outcome, and those of them that were right."""

    name: str
    suggestions: int
    labelled: int
    correct: int


@attrs.frozen
class Promise:
    """What was promised of a tier, and what became true.

    n: visits to a line (episodes): the suggestions shown during one visit count once, together.
    promised: their mean confidence. kept: the share that was right, with a 95 % interval (`low`, `high`) that
    takes visits as independent. All three None without any.
    """

    tier: str
    n: int
    promised: float | None
    kept: float | None
    low: float | None
    high: float | None


@attrs.frozen
class Statistics:
    """The whole store. events: by kind. labels: by how the suggestion ended. first, last: Unix seconds of the
    oldest and the newest suggestion, None without any. size: of the file, in bytes.

    sources: by where the labels come from. All else is of suggestions that were shown.
    """

    suggestions: int
    labelled: int
    correct: int
    events: Mapping[str, int]
    labels: Mapping[str, int]
    languages: tuple[Part, ...]
    models: tuple[Part, ...]
    ages: tuple[Part, ...]
    sources: tuple[Part, ...]
    tiers: tuple[Promise, ...]
    first: float | None
    last: float | None
    size: int

    def to_wire(self) -> dict[str, Any]:
        """The statistics as JSON types; times as ISO dates with time zone."""
        return {
            **attrs.asdict(self),
            "events": dict(self.events),
            "labels": dict(self.labels),
            "first": moment(self.first),
            "last": moment(self.last),
        }


def moment(at: float | None) -> str | None:
    """A time as an ISO date with time zone."""
    return None if at is None else datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat("T", "seconds")


def statistics(store: FeedbackStore, now: float) -> Statistics:
    """The statistics of a store. now: Unix seconds. Raises LspCalibError as the store does."""
    counts = store.counts()
    ((first, last),) = store.read(
        f"SELECT MIN(shown_at), MAX(shown_at) FROM suggestions s WHERE {SHOWN} AND {_POSSIBLE}"
    )
    return Statistics(
        suggestions=counts.suggestions,
        labelled=counts.labelled,
        correct=counts.correct,
        events=counts.events,
        labels=counts.labels,
        languages=_parts(store, "s.language"),
        models=_parts(store, "s.model"),
        ages=_ages(store, now),
        sources=_parts(store, SOURCE, of="TRUE"),
        tiers=_promises(store),
        first=first,
        last=last,
        size=store.path.stat().st_size,
    )


def _parts(store: FeedbackStore, by: str, *values: float, of: str = SHOWN) -> tuple[Part, ...]:
    """The suggestions by an expression of SQL, the largest part first. of: which ones, in SQL."""
    rows = store.read(
        f"SELECT {by}, COUNT(*), COUNT(l.correct), CAST(TOTAL(l.correct) AS INTEGER) FROM suggestions s "
        f"LEFT JOIN labels l ON l.suggestion_id = s.id WHERE {of} GROUP BY 1 ORDER BY 2 DESC, 1",
        *values,
    )
    return tuple(Part(str(name), *numbers) for name, *numbers in rows)


def _ages(store: FeedbackStore, now: float) -> tuple[Part, ...]:
    """The suggestions by age, the youngest first."""
    cases = " ".join(f"WHEN s.shown_at > ? THEN {at}" for at in range(len(_AGES)))
    limits = (now - days * DAY for days in _AGES)
    found = {int(part.name): part for part in _parts(store, f"CASE {cases} ELSE {len(_AGES)} END", *limits)}
    names = [f"under {days} day{'s' * (days > 1)}" for days in _AGES] + [f"{_AGES[-1]} days and more"]
    return tuple(attrs.evolve(found[at], name=name) for at, name in enumerate(names) if at in found)


def _promises(store: FeedbackStore) -> tuple[Promise, ...]:
    rows = store.read(
        "SELECT tier, SUM(weight), SUM(weight * confidence), SUM(weight * correct) FROM ("
        "SELECT s.tier, s.confidence, l.correct, "
        f"1.0 / COUNT(*) OVER (PARTITION BY s.tier, {EPISODE}) AS weight "
        "FROM labels l JOIN suggestions s ON s.id = l.suggestion_id "
        f"WHERE {SHOWN} AND l.correct IS NOT NULL AND s.confidence IS NOT NULL AND s.kind <> 'summary') "
        "GROUP BY tier"
    )
    found = {tier: numbers for tier, *numbers in rows}
    return tuple(_promise(tier.value, *found.get(tier.value, (0.0, 0.0, 0.0))) for tier in Tier)


def _promise(tier: str, n: float, promised: float, kept: float) -> Promise:
    share = Share.of(kept, n)
    mean = promised / n if share.n else None
    return Promise(tier, share.n, mean, share.value, share.low, share.high)
