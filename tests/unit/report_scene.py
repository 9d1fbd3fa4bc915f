"""A store whose every number is known: suggestions with drawn outcomes, written row by row."""

from __future__ import annotations

import datetime
import json
import math
import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Shift
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.confidence.features import FEATURES, VERSION
from lsp_calib.feedback.report import FeedbackReport, make_report
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.home import shipped_models
from lsp_calib.values import Evidence

SHIPPED = shipped_models() / "calibrators"
BEGINS = 1_760_000_000.0
NOW = 1_770_000_000.0
SURVIVAL = (30, 120, 300, 600)


def shipped_calibrator() -> Calibrator:
    return Calibrator.load(SHIPPED / "line-smollm2-135m.json")


@attrs.frozen
class Shown:
    """A suggestion and what became of it. survived: unchanged after so many seconds, by seconds."""

    id: str
    at: float
    kind: str
    language: str
    tier: str
    confidence: float | None
    evidence: Evidence
    chance: float
    episode: str
    correct: bool | None
    how: str
    labelled_at: float
    survived: dict[int, bool]


def drawn(n: int, seed: int = 3) -> list[Shown]:
    """n suggestions in visits of one to four, whose outcomes come from probabilities that are too high."""
    rng = random.Random(seed)
    found: list[Shown] = []
    at = BEGINS
    visit = 0
    while len(found) < n:
        visit += 1
        at += rng.expovariate(1 / 900.0)
        language = rng.choice(("python", "python", "rust", "go"))
        truth = rng.random() ** 0.7
        correct: bool | None = rng.random() < truth
        label_at = at + 60.0
        for _ in range(rng.choice((1, 1, 2, 4))):
            at += 1.0
            p = min(max(truth + rng.gauss(0.08, 0.12), 0.01), 0.99)
            outcome = None if rng.random() < 0.04 else correct
            if rng.random() < 0.05:
                outcome = outcome if outcome is None else not outcome
            kind = "line-2" if rng.random() < 0.06 else "line"
            tier = "accept" if p >= 0.78 else "reject" if p < 0.25 else "review"
            how = "unread" if outcome is None else "kept" if outcome else "typed over"
            features = {name: rng.gauss(0, 1) for name in list(FEATURES)[:3]} if rng.random() < 0.5 else {}
            survived = {}
            if how == "kept":
                lasted = rng.expovariate(1 / 500.0)
                survived = {seconds: lasted > seconds for seconds in SURVIVAL[: rng.choice((2, 4, 4))]}
            found.append(
                Shown(
                    id=f"{len(found):016x}",
                    at=at,
                    kind=kind,
                    language=language,
                    tier=tier,
                    confidence=None if rng.random() < 0.03 else p,
                    evidence=Evidence(
                        tuple(-rng.expovariate(2.0) for _ in range(rng.randint(1, 9))), features
                    ),
                    chance=0.01 if rng.random() < 0.05 else 1.0,
                    episode=f"visit-{visit}",
                    correct=outcome,
                    how=how,
                    labelled_at=label_at,
                    survived=survived,
                )
            )
    return found[:n]


def write(
    path: Path, suggestions: Iterable[Shown], model: str = "", events: Iterable[tuple[str, str]] = ()
) -> None:
    """Put suggestions into a store, in one transaction. events: further ones, of kind and data."""
    FeedbackStore(path).close()
    identity = shipped_calibrator().purpose
    connection = sqlite3.connect(path)
    for one in suggestions:
        connection.execute(
            "INSERT INTO suggestions VALUES "
            "(?, ?, ?, ?, ?, ?, ?, 'c', 'total', NULL, ?, ?, ?, ?, ?, ?, '', NULL, NULL, ?, "
            "0, 0, NULL, NULL, NULL)",
            (
                *(
                    one.id,
                    one.at,
                    one.kind,
                    one.language,
                    model or identity.model.name,
                    identity.model.sha256,
                ),
                *(identity.prompt_version, one.confidence, one.confidence, one.tier),
                *(
                    json.dumps(one.evidence.logprobs),
                    json.dumps(dict(one.evidence.features)),
                    VERSION,
                    one.chance,
                ),
            ),
        )
        connection.execute(
            "INSERT INTO labels VALUES (?, ?, ?, ?, ?, ?)",
            (one.id, one.correct, one.how, one.labelled_at, one.episode, one.labelled_at),
        )
        for seconds, unchanged in one.survived.items():
            data = json.dumps({"seconds": seconds, "unchanged": unchanged})
            connection.execute(
                "INSERT INTO events (suggestion_id, kind, at, data) VALUES (?, 'survived', ?, ?)",
                (one.id, one.at + seconds, data),
            )
    for kind, data in events:
        connection.execute(
            "INSERT INTO events (suggestion_id, kind, at, data) VALUES ('x', ?, 1.0, ?)", (kind, data)
        )
    connection.commit()
    connection.close()


def calibrators_of(folder: Path, until: float | None = None) -> CalibratorStore:
    """The shipped calibrators and, with `until`, one of the user for Python that knows labels up to then."""
    store = CalibratorStore(folder / "calibrators", SHIPPED)
    store.personal.mkdir(exist_ok=True, parents=True)
    if until is not None:
        base = shipped_calibrator()
        moment = datetime.datetime.fromtimestamp(until, datetime.UTC).isoformat(timespec="milliseconds")
        shift = Shift(slope=0.8, intercept=-0.6, slope_sd=0.5, intercept_sd=0.5)
        personal = attrs.evolve(
            base,
            curves=tuple(curve.shifted(shift) for curve in base.curves),
            source="personal",
            state="ready",
            created=moment[:10],
            parent=base.id,
            provenance=(Origin("feedback", moment, 100), Origin(base.id, base.created, base.n)),
        )
        store.promote(personal)
    return store


@attrs.frozen
class Truth:
    """What became of a group of labels, computed one visit after the other."""

    labels: int
    n: int
    promised: float
    right: float
    brier: float
    skill: float
    half: float


def truth_of(labels: Sequence[tuple[str, float, bool]]) -> Truth:
    """labels: (visit, probability, outcome), as they were shown. Each visit counts by its first one. half: of
    the interval of the skill."""
    visits: dict[str, tuple[float, bool]] = {}
    for visit, p, y in labels:
        visits.setdefault(visit, (p, y))

    def mean(of: Callable[[float, bool], float]) -> float:
        return sum(of(p, y) for p, y in visits.values()) / len(visits)

    rate = mean(lambda _, y: y)
    brier = mean(lambda p, y: (p - y) ** 2)
    reference = mean(lambda _, y: (rate - y) ** 2)
    ratio = brier / reference
    spread = mean(lambda p, y: ((p - y) ** 2 - ratio * (rate - y) ** 2) ** 2)
    return Truth(
        labels=len(labels),
        n=len(visits),
        promised=mean(lambda p, _: p),
        right=rate,
        brier=brier,
        skill=1 - ratio,
        half=1.959964 * math.sqrt(spread / len(visits)) / reference,
    )


def labels_of(rows: Sequence[Shown]) -> list[tuple[str, float, bool]]:
    """Visit, probability and outcome of the suggestions that have both."""
    return [
        (row.episode, row.confidence, row.correct)
        for row in rows
        if row.correct is not None and row.confidence is not None
    ]


def report_on(path: Path, calibrators: CalibratorStore, **more: Any) -> FeedbackReport:
    store = FeedbackStore(path)
    try:
        return make_report(store, calibrators, NOW, **more)
    finally:
        store.close()
