"""The report: whether the probabilities that were shown came true, and what learning has changed.

The same object becomes a page, a text in a terminal and JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.calibrators.calibrator import Wanted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, Listed
from lsp_calib.calibration.calibrators.refit import COMMITS
from lsp_calib.calibration.validation import Interval
from lsp_calib.feedback import report_data
from lsp_calib.feedback.comparison import Accuracy, Comparison, Share, compare
from lsp_calib.feedback.events import EventKind
from lsp_calib.feedback.report_data import Period, Statistics, Survival, moment
from lsp_calib.feedback.store import FeedbackStore

MOST_LABELS = 1000
"""So many last labels tell what a limit would have hidden: older ones may be of another way of working."""

COSTS = (4.5, 10.0, 20.0)
"""What a wrong line that nobody read may cost, in readings. The best thresholds are 0.78 (`balanced`), 0.9
(`cautious`) and 0.95."""


@attrs.frozen
class AtCost:
    """What would be accepted unread where a wrong such line costs so many readings.

    accept_from: the best threshold, 1 - 1 / cost. accepted, right: suggestions from there on, and those that
    were right. saved: readings, by not reading what is accepted, less what its wrong lines cost.
    """

    cost: float
    accept_from: float
    accepted: int
    right: int

    @classmethod
    def of(cls, cost: float, confidence: FloatArray, correct: BoolArray) -> AtCost:
        """cost: more than 1. confidence: calibrated, in [0, 1]. correct: of the same suggestions, whether
        they were right. Both of shape (n,)."""
        accept_from = 1.0 - 1.0 / cost
        taken = correct[confidence >= accept_from]
        return cls(cost, accept_from, taken.size, int(taken.sum()))

    @property
    def saved(self) -> float:
        return self.accepted - self.cost * (self.accepted - self.right)


@attrs.frozen
class AtLimit:
    """How many labelled suggestions were right (wrong), and how many of them survive with a probability below
    a limit."""

    below: float
    right: int
    wrong: int
    right_hidden: int
    wrong_hidden: int

    @classmethod
    def of(cls, below: float, survives: FloatArray, correct: BoolArray) -> AtLimit:
        """survives: the probabilities, in [0, 1], nan for a suggestion without one, which is never hidden.
        correct: of the same suggestions, whether they were right. Both of shape (n,)."""
        right, hidden = int(correct.sum()), correct[survives < below]
        right_hidden = int(hidden.sum())
        return cls(below, right, correct.size - right, right_hidden, hidden.size - right_hidden)


PAGE = "report.html"
"""The name of the page in the state folder."""

# Limits for which it is shown what `hideBelow` would have hidden.
LIMITS = (0.05, 0.125, 0.2, 0.3, 0.4, 0.5)


@attrs.frozen
class Hidden:
    """What is not shown.

    explored: suggestions shown although they were to be hidden; explored_known, explored_right: those with an
        outcome, and the right ones. stands_for: about so many were to be hidden, the explored ones with them.
    limits: what a limit would have hidden of the last labels. withheld, cut: answers by reason.
    """

    explored: int
    explored_known: int
    explored_right: int
    stands_for: float
    limits: tuple[AtLimit, ...]
    withheld: Mapping[str, int]
    cut: Mapping[str, int]


@attrs.frozen
class Latency:
    """Half of the last answers of a session, and 95 % of them, came within so many milliseconds."""

    p50: float
    p95: float


@attrs.frozen
class FeedbackReport:
    """All numbers of the report.

    made_at: Unix seconds. overall: None without labels. comparison: None without labels to compare.
    tiers, typed: by the moments at which suggestions were shown, see `report_data.EVERY_MOMENT`; typed: by
    the characters typed along. accepted: by the tier when they were accepted. All else is of what was shown
    before anything was typed along.
    sources: where labels come from, with what calibrators have learned from commits, see `from_commits`.
    costs: what the last labels say of accepting unread, by what a wrong line costs; none without labels.
    """

    made_at: float
    statistics: Statistics
    overall: Accuracy | None
    tiers: tuple[Accuracy, ...]
    typed: tuple[Accuracy, ...]
    accepted: tuple[Accuracy, ...]
    languages: tuple[Accuracy, ...]
    sources: tuple[Accuracy, ...]
    periods: tuple[Period, ...]
    survival: tuple[Survival, ...]
    comparison: Comparison | None
    hidden: Hidden
    costs: tuple[AtCost, ...]
    calibrators: tuple[Listed, ...]
    latency: Latency | None = None


def make_report(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    now: float,
    measure: Wanted = "best",
    latency: Latency | None = None,
    *,
    most_compared: int = report_data.MOST_COMPARED,
) -> FeedbackReport:
    """All numbers of the report. now: Unix seconds. measure: the preferred curve, see `Calibrator.assess`.
    most_compared: see `MOST_COMPARED`.

    Raises LspCalibError as store and calibrators do.
    """
    listed = tuple(calibrators.listed()[0])
    found = report_data.statistics(store, now)
    compared = report_data.compared(store, calibrators, measure, most_compared)
    last, correct = compared.after[-MOST_LABELS:], compared.correct[-MOST_LABELS:]
    survives = compared.survives[-MOST_LABELS:]
    return FeedbackReport(
        made_at=now,
        statistics=found,
        overall=next(iter(report_data.outcomes_by(store, "''")), None),
        tiers=found.tiers,
        typed=report_data.typed_ranges(store),
        accepted=report_data.outcomes_by(store, "s.accepted_tier", report_data.ACCEPTED),
        languages=report_data.outcomes_by(store, report_data.LANGUAGE),
        sources=(
            *report_data.outcomes_by(store, report_data.POPULATION, report_data.LABELLED),
            *from_commits(listed),
        ),
        periods=report_data.periods(store, now),
        survival=report_data.survival(store),
        comparison=compare(compared),
        hidden=Hidden(
            *report_data.explored(store),
            limits=tuple(AtLimit.of(limit, survives, correct) for limit in LIMITS) if correct.size else (),
            withheld=report_data.reasons(store, EventKind.WITHHELD),
            cut=report_data.reasons(store, EventKind.CUT),
        ),
        costs=tuple(AtCost.of(cost, last, correct) for cost in COSTS) if correct.size else (),
        calibrators=listed,
        latency=latency,
    )


def from_commits(calibrators: Sequence[Listed]) -> Iterator[Accuracy]:
    """For each model and language the lines of the user's commits that the newest workspace calibrator has
    learned from, as its file says: they are not in the store.

    Their skill is that of its own probabilities, out of fold; what would have been promised before is not
    known.
    """
    found = {}
    for one in sorted(calibrators, key=lambda one: (one.calibrator.created, one.in_force)):
        c = one.calibrator
        if c.source == "workspace" and any(origin.name == COMMITS for origin in c.provenance):
            found[c.purpose] = c
    for purpose, c in found.items():
        name = "git" if len(found) == 1 else f"git, {purpose.language}, {purpose.model.name}"
        share = Share.of(c.n_correct, c.n)
        brier, skill = (c.metrics.get(metric, Interval(None, None, None)) for metric in ("brier", "skill"))
        yield Accuracy(name, c.n, share, None, brier.value, skill.value, skill.low, skill.high)


def to_wire(report: FeedbackReport) -> dict[str, Any]:
    """The report as JSON types; times as ISO dates with time zone, None for what is not known."""
    return {
        "madeAt": moment(report.made_at),
        "statistics": report.statistics.to_wire(),
        "overall": _outcome(report.overall) if report.overall else None,
        "tiers": [_outcome(one) for one in report.tiers],
        "typed": [_outcome(one) for one in report.typed],
        "accepted": [_outcome(one) for one in report.accepted],
        "languages": [_outcome(one) for one in report.languages],
        "sources": [_outcome(one) for one in report.sources],
        "periods": [
            {"start": moment(one.start), "end": moment(one.end), **_outcome(one.outcome)}
            for one in report.periods
        ],
        "survival": [
            {"seconds": one.seconds, "tier": one.tier or None, **_share_wire(one.share)}
            for one in report.survival
        ],
        "comparison": _wire(report.comparison),
        "hidden": _wire(report.hidden),
        "costs": [{**_wire(one), "saved": one.saved} for one in report.costs],
        "calibrators": [_calibrator_wire(one) for one in report.calibrators],
        "latencyMs": _wire(report.latency),
    }


def _wire(value: Any) -> Any:
    """The fields of an object, and of all objects in them, in the spelling of the wire."""
    if attrs.has(type(value)):
        fields = attrs.asdict(value, recurse=False).items()
        return {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): _wire(one) for name, one in fields}
    return [_wire(one) for one in value] if isinstance(value, tuple) else value


def _outcome(outcome: Accuracy) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "labels": outcome.labels,
        **_share_wire(outcome.share),
        "promised": outcome.promised,
        "brier": outcome.brier,
        "skill": outcome.skill,
        "skillLow": outcome.skill_low,
        "skillHigh": outcome.skill_high,
        "verdict": outcome.verdict,
    }


def _share_wire(share: Share) -> dict[str, Any]:
    return {"n": share.n, "right": share.value, "low": share.low, "high": share.high}


def _calibrator_wire(listed: Listed) -> dict[str, Any]:
    c = listed.calibrator
    skill = c.metrics.get("skill")
    return {
        "id": c.id,
        "inForce": listed.in_force,
        "model": c.purpose.model.name,
        "language": c.purpose.language,
        "source": c.source,
        "state": c.state,
        "n": c.n,
        "skill": None if skill is None else skill.value,
        "created": c.created,
    }
