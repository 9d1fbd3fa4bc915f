"""What the feedback store holds, in numbers, and what a report is computed from.

Sums over all labels are formed by SQLite, so that memory does not grow with the store. Only the last labels
are read one by one, because what a calibrator would say of them has to be computed.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.arrays import group_codes
from lsp_calib.calibration.calibrators.calibrator import Wanted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.feedback.comparison import Accuracy, Compared, Share, Sums, outcome_of
from lsp_calib.feedback.events import SURVIVAL, TYPED, EventKind
from lsp_calib.feedback.personalisation import believable, seen_by
from lsp_calib.feedback.store import COLUMNS, Counts, FeedbackStore, LabelledRow
from lsp_calib.feedback.store_file import AT_ONCE, MOMENTS
from lsp_calib.languages import bounded
from lsp_calib.values import ModelIdentity, Tier

DAY = 86_400.0
# Upper ends of the groups of ages, in days. The last group has none.
_AGES = (1, 7, 30, 90, 365)


LANGUAGE = "CASE s.kind WHEN 'edit' THEN 'next edits' ELSE s.language END"
"""Of `suggestions s`: those of all languages have one calibrator where they are edits."""


@attrs.frozen
class Part:
    """One language, model or age.

    suggestions: of every kind. visits: of those with a label and a probability, as `outcomes_by` counts them.
    right: how many of the visits.
    """

    name: str
    suggestions: int
    visits: int
    right: int


@attrs.frozen
class Statistics(Counts):
    """The whole store. events: by kind. labels: by how the suggestion ended. first, last: Unix seconds of the
    oldest and the newest suggestion, None without any. size: of the file, in bytes.

    tiers, and the visits of parts, count a visit once. tiers: at the first moment at which a suggestion had
    the tier, so that one may count in several.
    """

    languages: tuple[Part, ...]
    models: tuple[Part, ...]
    ages: tuple[Part, ...]
    tiers: tuple[Accuracy, ...]
    first: float | None
    last: float | None
    size: int

    def to_wire(self) -> dict[str, Any]:
        """The statistics as JSON types; times as ISO dates with time zone."""
        return {
            **attrs.asdict(self),
            "events": dict(self.events),
            "labels": dict(self.labels),
            "tiers": [
                {
                    "tier": one.name,
                    "n": one.share.n,
                    "promised": one.promised,
                    "kept": one.share.value,
                    "low": one.share.low,
                    "high": one.share.high,
                }
                for one in self.tiers
            ],
            "first": moment(self.first),
            "last": moment(self.last),
        }


def moment(at: float | None) -> str | None:
    """A time as an ISO date with time zone."""
    return None if at is None else datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat("T", "seconds")


def statistics(store: FeedbackStore, now: float) -> Statistics:
    """The statistics of a store. now: Unix seconds. Raises LspCalibError as the store does."""
    ((first, last),) = store.read("SELECT MIN(shown_at), MAX(shown_at) FROM suggestions")
    return Statistics(
        **attrs.asdict(store.counts(), recurse=False),
        languages=_parts(store, LANGUAGE),
        models=_parts(store, "s.model"),
        ages=_ages(store, now),
        tiers=tuple(_by_tier(store)),
        first=first,
        last=last,
        size=store.path.stat().st_size,
    )


def _parts(store: FeedbackStore, by: str, *values: float) -> tuple[Part, ...]:
    """The suggestions by an expression of SQL with these values, the largest part first."""
    rows = store.read(f"SELECT {by}, COUNT(*) FROM suggestions s GROUP BY 1 ORDER BY 2 DESC, 1", *values)
    known = dict(_sums_by(store, by, LABELLED, *values))

    def part(name: str, suggestions: int) -> Part:
        sums = known.get(name)
        return (
            Part(name, suggestions, round(sums.n), round(sums.right))
            if sums
            else Part(name, suggestions, 0, 0)
        )

    return tuple(part(str(name), n) for name, n in rows)


def _ages(store: FeedbackStore, now: float) -> tuple[Part, ...]:
    """The suggestions by age, the youngest first."""
    cases = " ".join(f"WHEN s.shown_at > ? THEN {at}" for at in range(len(_AGES)))
    limits = (now - days * DAY for days in _AGES)
    found = {int(part.name): part for part in _parts(store, f"CASE {cases} ELSE {len(_AGES)} END", *limits)}
    names = [f"under {days} day{'s' * (days > 1)}" for days in _AGES] + [f"{_AGES[-1]} days and more"]
    return tuple(attrs.evolve(found[at], name=name) for at, name in enumerate(names) if at in found)


def _by_tier(store: FeedbackStore) -> Iterator[Accuracy]:
    """What each tier promised and kept, without the scores."""
    found = {one.name: one for one in outcomes_by(store, "m.tier", EVERY_MOMENT)}
    for tier in Tier:
        one = found.get(tier.value) or Accuracy(tier.value, 0, Share.of(0.0, 0.0), None)
        yield Accuracy(one.name, one.labels, one.share, one.promised)


MOST_COMPARED = 10_000
"""The last so many labels are assessed anew by two calibrators: all of a large store would take minutes."""

# Pairs of a model and a language that are compared: those with most of these labels.
_MOST_PURPOSES = 30
# Parts of the time line: at most so many, of about so many labels or more.
MOST_PERIODS, PERIOD_LABELS = 20, 40

# Where a label of `suggestions s` comes from. Alternatives and explored suggestions are other populations
# than what is shown by itself, and so is what is seen only where its beginning agrees.
POPULATION = (
    "CASE WHEN s.kind LIKE '%-_' THEN 'alternatives' WHEN s.kind = 'edit' THEN 'next edits' "
    "WHEN s.shown_probability < 1 THEN 'below hideBelow' WHEN s.was_hidden THEN 'hidden at first' "
    "WHEN s.typed > 0 THEN 'shown later' ELSE 'shown' END"
)


def _judged(confidence: str, where: str = "TRUE", moments: str = "", order: str = "0") -> str:
    """In SQL the visit, the confidence and the outcome of labels that have one (SQLite keeps a NaN as NULL),
    with what tells the order in which they were shown."""
    return (
        f"l.episode AS e, {confidence} AS c, l.correct AS y, s.shown_at AS t, s.id AS i, {order} AS n "
        f"FROM labels l JOIN suggestions s ON s.id = l.suggestion_id {moments}"
        f"WHERE l.correct IS NOT NULL AND {confidence} BETWEEN 0 AND 1 AND s.kind <> 'summary' AND {where}"
    )


LABELLED = _judged("s.confidence")
# What a calibrator says by itself is seen in those alone of which nothing was typed along at first.
SHOWN_AT_ONCE = _judged("s.confidence", AT_ONCE)
# What was accepted, by what was shown then. Users take what they see to be right: of these more is right than
# was promised, and that says nothing against the promise.
ACCEPTED = _judged("s.accepted_confidence")

# Each moment at which one of them was shown. Judged is the first one in a tier, or in a range of characters:
# when that comes is decided by what was typed before. The last one before a line becomes another, or the one
# at which it was accepted, is chosen by what the user goes on to write, which no probability can know: judged
# there, even true probabilities look false (tests/validity/test_judged_moments.py).
EVERY_MOMENT = _judged("m.confidence", moments=f"JOIN {MOMENTS} ON m.suggestion_id = s.id ", order="m.number")


def typed_ranges(store: FeedbackStore) -> tuple[Accuracy, ...]:
    """What was promised and right when so many characters of a suggestion were typed along, fewest first."""
    cases = " ".join(f"WHEN m.typed < {end} THEN {at}" for at, end in enumerate(TYPED[1:]))
    found = outcomes_by(store, f"CASE {cases} ELSE {len(TYPED) - 1} END", EVERY_MOMENT)
    ends = (*(end - 1 for end in TYPED[1:]), None)
    names = [
        f"{begin} and more" if end is None else str(begin) if begin == end else f"{begin} to {end}"
        for begin, end in zip(TYPED, ends, strict=True)
    ]
    ordered = sorted(found, key=lambda one: int(one.name))
    return tuple(attrs.evolve(one, name=names[int(one.name)]) for one in ordered)


def outcomes_by(store: FeedbackStore, by: str, labels: str = SHOWN_AT_ONCE) -> tuple[Accuracy, ...]:
    """The outcome for each value of an expression of SQL, that with most visits first. labels: which ones, as
    of `_judged`."""
    found = sorted(_sums_by(store, by, labels), key=lambda pair: (-pair[1].n, pair[0]))
    return tuple(outcome_of(name, sums) for name, sums in found)


def _sums_by(store: FeedbackStore, by: str, labels: str, *values: float) -> list[tuple[str, Sums]]:
    rows = store.read(_summed(f"SELECT {by} AS g, {labels}"), *values)
    return [(str(name), Sums(*numbers)) for name, *numbers in rows]


def _summed(labels: str, extra: str = "") -> str:
    """The query for `g` and the numbers of `Sums`, from one for labels: a group `g` and what `_judged` has. A
    visit counts once in each group, by its first label (as in `promotion`), at its first moment there. extra:
    further columns, each after a comma."""
    return (
        "SELECT g, COUNT(DISTINCT i), SUM(w), SUM(w * c), SUM(w * y), SUM(w * d), SUM(w * d * d), "
        f"SUM(w * d * y){extra} FROM ("
        "SELECT *, (c - y) * (c - y) AS d, "
        "CASE ROW_NUMBER() OVER (PARTITION BY g, e ORDER BY t, i, n) WHEN 1 THEN 1.0 ELSE 0.0 END AS w "
        f"FROM ({labels})) GROUP BY g"
    )


@attrs.frozen
class Period:
    """Labels of some time. start, end: Unix seconds of the first and the last one."""

    start: float
    end: float
    outcome: Accuracy


def periods(store: FeedbackStore, now: float) -> tuple[Period, ...]:
    """The labels by time, oldest first.

    In parts of equally many: a part by the calendar would have none in a holiday.
    """
    # A clock that was wrong once would stretch the time line: such labels are left out here.
    possible = f"{SHOWN_AT_ONCE} AND l.at BETWEEN 0 AND ?"
    ((labels,),) = store.read(f"SELECT COUNT(*) FROM (SELECT {possible})", now + DAY)
    if not labels:
        return ()
    parts = min(max(labels // PERIOD_LABELS, 1), MOST_PERIODS)
    rows = store.read(
        _summed(
            "SELECT (ROW_NUMBER() OVER (ORDER BY l.at, s.shown_at, s.id) - 1) * ? / ? AS g, "
            f"l.at AS at, {possible}",
            ", MIN(at), MAX(at)",
        )
        + " ORDER BY g",
        parts,
        labels,
        now + DAY,
    )
    return tuple(Period(first, last, outcome_of("", Sums(*numbers))) for _, *numbers, first, last in rows)


@attrs.frozen
class Survival:
    """Inserted suggestions some seconds later: the share of visits whose line was unchanged then.

    tier: "" for all. Those whose document was closed before are not counted.
    """

    seconds: int
    tier: str
    share: Share


def survival(store: FeedbackStore) -> tuple[Survival, ...]:
    """For all inserted suggestions, then for those of each tier when they were accepted, after each time."""
    # The data of these events are two numbers in a fixed form: {"seconds": 30, "unchanged": true}.
    events = (
        "SELECT CAST(substr(e.data, 13) AS INTEGER) AS seconds, {by} AS tier, "
        "COALESCE(l.episode, e.suggestion_id) AS episode, e.data LIKE '%true%' AS kept FROM events e "
        "LEFT JOIN labels l ON l.suggestion_id = e.suggestion_id "
        "LEFT JOIN suggestions s ON s.id = e.suggestion_id WHERE e.kind = ?"
    )
    found = {}
    for by in ("''", "COALESCE(s.accepted_tier, s.tier)"):
        rows = store.read(
            "SELECT seconds, tier, SUM(w), SUM(w * kept) FROM ("
            "SELECT *, 1.0 / COUNT(*) OVER (PARTITION BY seconds, tier, episode) AS w "
            f"FROM ({events.format(by=by)})) WHERE tier IS NOT NULL GROUP BY seconds, tier",
            EventKind.SURVIVED.value,
        )
        found.update({(tier, seconds): Share.of(kept, n) for seconds, tier, n, kept in rows})
    return tuple(
        Survival(seconds, tier, found[tier, seconds])
        for tier in ("", *(tier.value for tier in Tier))
        for seconds in SURVIVAL
        if (tier, seconds) in found
    )


def explored(store: FeedbackStore) -> tuple[int, int, int, float]:
    """Suggestions shown although they were to be hidden, those with an outcome, the right ones, and how many
    suggestions they stand for."""
    ((shown, known, right, standing),) = store.read(
        "SELECT COUNT(*), COUNT(l.correct), CAST(TOTAL(l.correct) AS INTEGER), "
        "TOTAL(1.0 / s.shown_probability) "
        "FROM suggestions s LEFT JOIN labels l ON l.suggestion_id = s.id "
        "WHERE s.shown_probability > 0 AND s.shown_probability < 1"
    )
    return shown, known, right, standing


def reasons(store: FeedbackStore, kind: EventKind) -> dict[str, int]:
    """How often each reason was recorded, the most frequent first."""
    rows = store.read(
        "SELECT data, COUNT(*) FROM events WHERE kind = ? GROUP BY data ORDER BY 2 DESC, 1 LIMIT 50",
        kind.value,
    )
    return {bounded(name): n for data, n in rows for name in json.loads(data)}


def compared(store: FeedbackStore, calibrators: CalibratorStore, measure: Wanted, newest: int) -> Compared:
    """The last labels of lines, by the calibrators of their model, prompt and language."""
    rows = store.read(
        f"SELECT s.model, s.model_sha256, s.prompt_version, {COLUMNS} FROM suggestions s "
        f"JOIN labels l ON l.suggestion_id = s.id WHERE s.kind = 'line' AND {AT_ONCE} "
        "AND l.correct IS NOT NULL ORDER BY l.at DESC, s.shown_at DESC, s.id DESC LIMIT ?",
        newest,
    )
    by_purpose: dict[tuple[str, str, str, str], list[LabelledRow]] = {}
    names: dict[tuple[str, str, str, str], str] = {}
    for model, sha256, prompt, *columns in reversed(rows):
        row = LabelledRow.of(columns)
        if believable(row):
            # Models with a checksum are the same if the checksums are, whatever their names.
            key = ("" if sha256 else model, sha256, prompt, row.language)
            names[key] = model
            by_purpose.setdefault(key, []).append(row)
    most = sorted(by_purpose.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:_MOST_PURPOSES]
    labels: list[tuple[LabelledRow, int, bool, float, float, float]] = []
    parts = []
    for part, (key, found) in enumerate(most):
        _, sha256, prompt, language = key
        purpose = Purpose(ModelIdentity(names[key], "", sha256), prompt, "line", language)
        before = calibrators.choose(purpose, personal=False).calibrator
        after = calibrators.choose(purpose).calibrator
        parts.append((names[key], language, before, after))
        evidences, same = [row.evidence for row in found], after.id == before.id
        old = before.probabilities(evidences, measure).tolist()
        new = old if same else after.probabilities(evidences, measure).tolist()
        curve = calibrators.line_curves(purpose).survival if after.source != "prior" else None
        survives = [
            None if curve is None or math.isnan(q) else curve.probability(evidence, q)
            for q, evidence in zip(new, evidences, strict=True)
        ]
        seen = set() if same else {row.episode for row in found[: seen_by(after, found)]}
        labels += [
            (row, part, row.episode in seen, p, q, math.nan if kept is None else kept)
            for row, p, q, kept in zip(found, old, new, survives, strict=True)
            if math.isfinite(p) and math.isfinite(q)
        ]
    labels.sort(key=lambda one: (one[0].shown_at, one[0].suggestion_id))
    shown = [row for row, *_ in labels]
    return Compared(
        before=np.array([one[3] for one in labels], dtype=np.float64),
        after=np.array([one[4] for one in labels], dtype=np.float64),
        correct=np.array([row.correct for row in shown], dtype=np.bool_),
        visit=group_codes(np.array([row.episode for row in shown], dtype=np.str_), len(shown)),
        seen=np.array([one[2] for one in labels], dtype=np.bool_),
        survives=np.array([one[5] for one in labels], dtype=np.float64),
        part=np.array([one[1] for one in labels], dtype=np.intp),
        parts=tuple(parts),
    )
