"""The report: whether the probabilities that were shown came true, and what learning has changed. Pure.

The same object becomes a page, a text in a terminal and JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from lsp_calib.calibration.calibrators.calibrator_store import Listed
from lsp_calib.calibration.calibrators.refit import COMMITS
from lsp_calib.feedback.comparison import Compared, Comparison, compare
from lsp_calib.feedback.followed import SURVIVAL
from lsp_calib.feedback.outcomes import Outcome, Share, Sums, outcome_of
from lsp_calib.feedback.replay import MOST_LABELS, Replay
from lsp_calib.feedback.statistics import Statistics
from lsp_calib.values import Tier

PAGE = "report.html"
"""The name of the page in the state folder."""

# Limits for which it is shown what `hideBelow` would have hidden.
LIMITS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


@attrs.frozen
class ReportData:
    """Everything that a report is computed from.

    shown: sums over all labels; None without any. languages, sources: by name.
    periods: (Unix seconds of the first and the last label, sums), oldest first.
    survival: for (seconds after the insertion, tier or "" for all): visits, and those with an unchanged line.
    explored: suggestions shown although they were to be hidden, those with an outcome, the right ones, and
        how many suggestions they stand for.
    withheld, cut: answers by reason.
    """

    statistics: Statistics
    shown: Sums | None
    languages: tuple[tuple[str, Sums], ...]
    sources: tuple[tuple[str, Sums], ...]
    periods: tuple[tuple[float, float, Sums], ...]
    survival: Mapping[tuple[int, str], tuple[float, float]]
    compared: Compared
    explored: tuple[int, int, int, float]
    withheld: Mapping[str, int]
    cut: Mapping[str, int]
    calibrators: tuple[Listed, ...]


@attrs.frozen
class Period:
    """Labels of some time. start, end: Unix seconds of the first and the last one."""

    start: float
    end: float
    outcome: Outcome


@attrs.frozen
class Survival:
    """Inserted suggestions some seconds later: the share of visits whose line was unchanged then.

    tier: "" for all. Those whose document was closed before are not counted.
    """

    seconds: int
    tier: str
    share: Share


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
    limits: tuple[Replay, ...]
    withheld: Mapping[str, int]
    cut: Mapping[str, int]


@attrs.frozen
class Latency:
    """Half of the last answers of a session, and 95 % of them, came within so many milliseconds."""

    p50: float
    p95: float


@attrs.frozen
class Report:
    """All numbers of the report.

    made_at: Unix seconds. overall: None without labels. comparison: None without labels to compare.
    sources: where labels come from, with what calibrators have learned from commits, see `from_commits`.
    """

    made_at: float
    statistics: Statistics
    overall: Outcome | None
    tiers: tuple[Outcome, ...]
    languages: tuple[Outcome, ...]
    sources: tuple[Outcome, ...]
    periods: tuple[Period, ...]
    survival: tuple[Survival, ...]
    comparison: Comparison | None
    hidden: Hidden
    calibrators: tuple[Listed, ...]
    latency: Latency | None = None


def make_report(data: ReportData, now: float, latency: Latency | None = None) -> Report:
    """All numbers of the report. now: Unix seconds."""
    return Report(
        made_at=now,
        statistics=data.statistics,
        overall=outcome_of("", data.shown) if data.shown else None,
        tiers=tuple(
            Outcome(one.tier, one.n, Share(one.n, one.kept, one.low, one.high), one.promised)
            for one in data.statistics.tiers
        ),
        languages=tuple(outcome_of(name, sums) for name, sums in data.languages),
        sources=(
            *(outcome_of(name, sums) for name, sums in data.sources),
            *from_commits(data.calibrators),
        ),
        periods=tuple(Period(start, end, outcome_of("", sums)) for start, end, sums in data.periods),
        survival=_survival(data.survival),
        comparison=compare(data.compared),
        hidden=_hidden(data),
        calibrators=data.calibrators,
        latency=latency,
    )


def from_commits(calibrators: Sequence[Listed]) -> Iterator[Outcome]:
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
        brier, skill = (c.metrics.get(metric) for metric in ("brier", "skill"))
        yield Outcome(
            name,
            c.n,
            Share.of(c.n_correct, c.n),
            None,
            brier.value if brier else None,
            skill.value if skill else None,
            skill.low if skill else None,
            skill.high if skill else None,
        )


def _survival(found: Mapping[tuple[int, str], tuple[float, float]]) -> tuple[Survival, ...]:
    tiers = ["", *(tier.value for tier in Tier)]
    return tuple(
        Survival(seconds, tier, Share.of(found[seconds, tier][1], found[seconds, tier][0]))
        for tier in tiers
        for seconds in SURVIVAL
        if (seconds, tier) in found
    )


def _hidden(data: ReportData) -> Hidden:
    last = slice(-MOST_LABELS, None)
    confidences, correct = data.compared.after[last].tolist(), data.compared.correct[last].tolist()
    shown, known, right, stands_for = data.explored
    return Hidden(
        explored=shown,
        explored_known=known,
        explored_right=right,
        stands_for=stands_for,
        limits=tuple(Replay.of(limit, confidences, correct) for limit in LIMITS) if correct else (),
        withheld=data.withheld,
        cut=data.cut,
    )
