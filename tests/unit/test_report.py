"""The numbers of the report: each is computed again here, from the rows, by other means."""

from __future__ import annotations

import json
import math
import sqlite3
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest
from report_scene import (
    NOW,
    SURVIVAL,
    Shown,
    calibrators_of,
    drawn,
    labels_of,
    report_on,
    shipped_calibrator,
    truth_of,
    write,
)
from scipy import stats

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, Listed
from lsp_calib.calibration.calibrators.lent import carried_from
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.calibrators.refit import COMMITS
from lsp_calib.calibration.reliability import ReliabilityBin
from lsp_calib.calibration.validation import Interval
from lsp_calib.feedback.comparison import ENOUGH, Accuracy, Share, Sums, outcome_of
from lsp_calib.feedback.report import LIMITS, AtLimit, FeedbackReport, Latency, from_commits, to_wire
from lsp_calib.feedback.report_data import MOST_PERIODS, PERIOD_LABELS
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.report.page import html_page

close = pytest.approx


@pytest.fixture(scope="module")
def rows() -> list[Shown]:
    return drawn(900)


@pytest.fixture(scope="module")
def until(rows: list[Shown]) -> float:
    """The calibrator in force has seen the first third of the labels."""
    return sorted(row.labelled_at for row in rows)[300]


@pytest.fixture(scope="module")
def calibrators(tmp_path_factory: pytest.TempPathFactory, until: float) -> CalibratorStore:
    return calibrators_of(tmp_path_factory.mktemp("state"), until)


@pytest.fixture(scope="module")
def report(
    rows: list[Shown], calibrators: CalibratorStore, tmp_path_factory: pytest.TempPathFactory
) -> FeedbackReport:
    path = tmp_path_factory.mktemp("home") / "feedback.db"
    events = [("withheld", '{"empty": 1}')] * 3 + [("cut", '{"suffix": 1}')] * 2
    write(path, rows, events=events)
    return report_on(path, calibrators)


def check(outcome: Accuracy, rows: Sequence[Shown]) -> None:
    truth = truth_of(labels_of(rows))
    assert (outcome.labels, outcome.share.n) == (truth.labels, truth.n)
    assert outcome.promised == close(truth.promised)
    assert outcome.brier == close(truth.brier)
    assert outcome.skill == close(truth.skill)
    if truth.n >= ENOUGH:
        assert outcome.skill_low == close(truth.skill - truth.half)
        assert outcome.skill_high == close(truth.skill + truth.half)
    else:
        assert outcome.skill_low is outcome.skill_high is None
    check_share(outcome.share, truth.right)


def check_share(share: Share, value: float) -> None:
    """The interval of Clopper and Pearson, as scipy has it."""
    assert share.value == close(value)
    good, bad = math.floor(value * share.n + 1e-6), math.floor((1 - value) * share.n + 1e-6)
    low = stats.beta.ppf(0.025, good, share.n - good + 1) if good else 0.0
    high = 1 - stats.beta.ppf(0.025, bad, share.n - bad + 1) if bad else 1.0
    assert (share.low, share.high) == (close(low, abs=1e-9), close(high, abs=1e-9))


class TestEveryNumber:
    def test_overall(self, report: FeedbackReport, rows: list[Shown]) -> None:
        assert report.overall is not None
        check(report.overall, rows)
        assert report.statistics.suggestions == 900
        assert report.statistics.labelled == sum(row.correct is not None for row in rows)
        assert report.statistics.labels == Counter(row.how for row in rows)

    def test_tiers(self, report: FeedbackReport, rows: list[Shown]) -> None:
        assert [one.name for one in report.tiers] == ["accept", "review", "reject"]
        for one in report.tiers:
            truth = truth_of(labels_of([row for row in rows if row.tier == one.name]))
            assert (one.labels, one.share.n) == (truth.labels, truth.n)
            assert one.promised == close(truth.promised)
            check_share(one.share, truth.right)

    def test_languages(self, report: FeedbackReport, rows: list[Shown]) -> None:
        assert {one.name for one in report.languages} == {"python", "rust", "go"}
        sizes = [one.share.n for one in report.languages]
        assert sizes == sorted(sizes, reverse=True)
        for one in report.languages:
            check(one, [row for row in rows if row.language == one.name])

    def test_sources(self, report: FeedbackReport, rows: list[Shown]) -> None:
        """What was shown by itself, alternatives, and what was shown to keep learning are told apart."""
        parts: dict[str, list[Shown]] = {}
        for row in rows:
            explored = "below hideBelow" if row.chance < 1 else "shown"
            parts.setdefault("alternatives" if row.kind == "line-2" else explored, []).append(row)
        assert {one.name for one in report.sources} == set(parts)
        for one in report.sources:
            check(one, parts[one.name])

    def test_over_time(self, report: FeedbackReport, rows: list[Shown]) -> None:
        known = [row for row in rows if row.correct is not None and row.confidence is not None]
        known.sort(key=lambda row: (row.labelled_at, row.at, row.id))
        parts = min(len(known) // PERIOD_LABELS, MOST_PERIODS)
        assert len(report.periods) == parts > 10
        for number, period in enumerate(report.periods):
            mine = [row for at, row in enumerate(known) if at * parts // len(known) == number]
            check(period.outcome, mine)
            assert (period.start, period.end) == (mine[0].labelled_at, mine[-1].labelled_at)

    def test_survival(self, report: FeedbackReport, rows: list[Shown]) -> None:
        expected = {}
        for tier in ("", "accept", "review", "reject"):
            for seconds in SURVIVAL:
                visits: dict[str, list[bool]] = {}
                for row in rows:
                    if seconds in row.survived and tier in ("", row.tier):
                        visits.setdefault(row.episode, []).append(row.survived[seconds])
                if visits:
                    expected[seconds, tier] = visits
        assert {(one.seconds, one.tier) for one in report.survival} == set(expected)
        for one in report.survival:
            visits = expected[one.seconds, one.tier]
            assert one.share.n == len(visits)
            check_share(one.share, sum(sum(kept) / len(kept) for kept in visits.values()) / len(visits))

    def test_what_was_hidden(self, report: FeedbackReport, rows: list[Shown]) -> None:
        explored = [row for row in rows if row.chance < 1]
        hidden = report.hidden
        assert hidden.explored == len(explored)
        assert hidden.explored_known == sum(row.correct is not None for row in explored)
        assert hidden.explored_right == sum(bool(row.correct) for row in explored)
        assert hidden.stands_for == close(100 * len(explored))
        assert (hidden.withheld, hidden.cut) == ({"empty": 3}, {"suffix": 2})

    def test_before_and_after(
        self, report: FeedbackReport, rows: list[Shown], calibrators: CalibratorStore, until: float
    ) -> None:
        """On the visits that the calibrator in force has not seen, for each language its own calibrators."""
        base = shipped_calibrator().purpose
        chosen = {}
        for language in ("python", "rust", "go"):
            purpose = attrs.evolve(base, language=language)
            both = (calibrators.choose(purpose, personal=own) for own in (False, True))
            chosen[language] = [one.calibrator for one in both]
        last = [row for row in rows if row.correct is not None and row.kind == "line"]
        last.sort(key=lambda row: (row.labelled_at, row.at, row.id))
        judged = []
        for row in last:
            old, new = (calibrator.probability(row.evidence) for calibrator in chosen[row.language])
            assert old is not None
            assert new is not None
            judged.append((row, old, new))
        seen = {row.episode for row in last if row.language == "python" and row.labelled_at <= until}
        fresh = [one for one in judged if not (one[0].language == "python" and one[0].episode in seen)]
        fresh.sort(key=lambda one: (one[0].at, one[0].id))
        found = report.comparison
        assert found is not None
        assert (found.unseen, found.changed) == (True, True)
        assert (found.n, found.labels) == (len({row.episode for row, _, _ in fresh}), len(fresh))
        for judged_by, at in ((found.before, 1), (found.after, 2)):
            labels = [(one[0].episode, one[at], bool(one[0].correct)) for one in fresh]
            truth = truth_of(labels)
            assert (judged_by.brier, judged_by.skill) == (close(truth.brier), close(truth.skill))
            assert judged_by.mean_confidence == close(truth.promised)
            episodes = [one[0].episode for one in fresh]
            weights = np.array([episodes.index(episode) == place for place, episode in enumerate(episodes)])
            p = np.array([one[at] for one in fresh])
            y = np.array([bool(one[0].correct) for one in fresh])
            assert judged_by.log_loss == close(-np.average(np.log(np.where(y, p, 1 - p)), weights=weights))
            gaps = [
                abs(np.sum(weights[mine] * (p[mine] - y[mine])))
                for k in range(10)
                if (mine := np.floor(np.minimum(p, 0.999999) * 10) == k).any()
            ]
            assert judged_by.ece == close(sum(gaps) / weights.sum())
            self.check_bins(judged_by.bins, labels)
        visits: dict[str, float] = {}
        for row, old, new in fresh:
            gained = (old - bool(row.correct)) ** 2 - (new - bool(row.correct)) ** 2
            visits.setdefault(row.episode, gained)
        means = [*visits.values()]
        interval = stats.norm.interval(0.95, np.mean(means), stats.sem(means))
        assert found.gain == close(np.mean(means))
        assert (found.gain_low, found.gain_high) == (close(interval[0]), close(interval[1]))
        assert {part.language for part in found.parts} == {"python", "rust", "go"}
        for part in found.parts:
            mine = [one for one in fresh if one[0].language == part.language]
            before = truth_of([(row.episode, old, bool(row.correct)) for row, old, _ in mine])
            after = truth_of([(row.episode, new, bool(row.correct)) for row, _, new in mine])
            assert part.n == before.n
            assert (part.before.brier, part.before.skill) == (close(before.brier), close(before.skill))
            assert (part.after.brier, part.after.skill) == (close(after.brier), close(after.skill))
            assert (part.before.calibrator != part.after.calibrator) == (part.language == "python")

        confidences = [new for _, _, new in judged][-1000:]
        outcomes = [bool(row.correct) for row, _, _ in judged][-1000:]
        curve = calibrators.line_curves(base).survival
        assert curve is not None
        survives = [curve.probability(row.evidence, new) or 1.0 for row, _, new in judged][-1000:]
        assert any(limit.wrong_hidden for limit in report.hidden.limits)
        for limit in report.hidden.limits:
            hidden = [y for p, y in zip(survives, outcomes, strict=True) if p < limit.below]
            assert (limit.right_hidden, limit.wrong_hidden) == (sum(hidden), len(hidden) - sum(hidden))
            assert (limit.right, limit.wrong) == (sum(outcomes), len(outcomes) - sum(outcomes))
        assert [limit.below for limit in report.hidden.limits] == list(LIMITS)
        assert [one.cost for one in report.costs] == [4.5, 10.0, 20.0]
        for one in report.costs:
            taken = [y for p, y in zip(confidences, outcomes, strict=True) if p >= one.accept_from]
            assert (one.accepted, one.right) == (len(taken), sum(taken))
            # What is accepted unread is not read; each wrong one costs so many readings.
            assert one.saved == close(sum(1.0 if y else 1.0 - one.cost for y in taken))

    def check_bins(self, bins: Sequence[ReliabilityBin], labels: Sequence[tuple[str, float, bool]]) -> None:
        assert len(bins) == 10
        for k, item in enumerate(bins):
            mine = [one for one in labels if min(int(one[1] * 10), 9) == k]
            if not mine:
                assert item.n == 0
                continue
            visits: dict[str, tuple[float, bool]] = {}
            for visit, p, y in mine:
                visits.setdefault(visit, (p, y))
            n = len(visits)
            mean = sum(p for p, _ in visits.values()) / n
            right = sum(y for _, y in visits.values()) / n
            assert (item.n, item.confidence, item.accuracy) == (n, close(mean), close(right))
            check_share(Share(n, item.accuracy, item.low, item.high), right)
            band = [stats.binom.ppf(q, n, mean) / n for q in (0.025, 0.975)]
            assert [item.band_low, item.band_high] == close(band)

    def test_calibrators(self, report: FeedbackReport, calibrators: CalibratorStore) -> None:
        assert list(report.calibrators) == calibrators.listed()[0]
        own = [one.calibrator for one in report.calibrators if one.calibrator.source == "personal"]
        # What was learned is carried over to the model's other prompt.
        assert sum(carried_from(one) is None for one in own) == 1

    def test_json_has_the_same_numbers(self, report: FeedbackReport) -> None:
        wire = json.loads(json.dumps(to_wire(report), allow_nan=False))
        assert wire["overall"]["skill"] == report.overall.skill  # type: ignore[union-attr]
        assert [one["right"] for one in wire["tiers"]] == [one.share.value for one in report.tiers]
        assert wire["comparison"]["after"]["brier"] == report.comparison.after.brier  # type: ignore[union-attr]
        assert len(wire["periods"]) == len(report.periods)
        assert wire["survival"][0]["tier"] is None
        assert wire["latencyMs"] is None


def test_what_was_learned_from_commits_is_a_source_of_its_own(
    report: FeedbackReport, rows: list[Shown], calibrators: CalibratorStore, tmp_path: Path
) -> None:
    """As the calibrator's file says; it stays in the report when a refit has replaced it."""
    path = tmp_path / "home" / "feedback.db"
    write(path, rows)
    base = shipped_calibrator()
    skill = Interval(0.31, 0.2, 0.4)
    metrics = {"skill": skill, "brier": Interval(0.15, 0.1, 0.2)}
    of = (Origin("project", "", 143), Origin(COMMITS, base.created, 143))
    learned = attrs.evolve(base, source="workspace", state="ready", n=143, n_correct=57, metrics=metrics)
    learned = attrs.evolve(learned, provenance=of)
    other = attrs.evolve(learned, provenance=(Origin("folder", "", 143),))
    assert list(from_commits([Listed(path, other, True)])) == []
    own = CalibratorStore(tmp_path / "calibrators", calibrators.shipped)
    own.personal.mkdir(parents=True)
    own.promote(learned)
    own.promote(attrs.evolve(learned, source="personal", provenance=(Origin("feedback", "2026-11-20", 9),)))
    found = report_on(path, own)
    (git,) = [one for one in found.sources if one.name == "git"]
    assert (git.labels, git.share.n, git.promised, git.verdict) == (143, 143, None, "notPromised")
    assert (git.skill, git.skill_low, git.skill_high, git.brier) == (0.31, 0.2, 0.4, 0.15)
    check_share(git.share, 57 / 143)
    assert found.sources[:-1] == report.sources
    (wire,) = [one for one in to_wire(found)["sources"] if one["name"] == "git"]
    assert (wire["promised"], wire["skill"]) == (None, 0.31)
    assert "of your commits, not shown" in html_page(found)


class TestLittleOrOddData:
    def test_an_empty_store(self, tmp_path: Path) -> None:
        found = report_on(tmp_path / "feedback.db", calibrators_of(tmp_path))
        assert (found.overall, found.comparison, found.periods, found.survival) == (None, None, (), ())
        assert [one.verdict for one in found.tiers] == ["tooFew"] * 3
        assert to_wire(found)["statistics"]["suggestions"] == 0

    @pytest.mark.parametrize("correct", [True, False])
    def test_labels_of_one_class(self, tmp_path: Path, correct: bool) -> None:
        """There are shares, with intervals, and no skill."""
        rows = [attrs.evolve(row, correct=correct) for row in drawn(80)]
        write(tmp_path / "feedback.db", rows)
        found = report_on(tmp_path / "feedback.db", calibrators_of(tmp_path))
        assert found.overall is not None
        assert found.overall.share.value == float(correct)
        assert found.overall.skill is found.overall.skill_low is None
        assert found.comparison is not None
        assert found.comparison.after.skill is None
        assert not found.comparison.changed

    def test_what_is_no_number_is_left_out(self, tmp_path: Path) -> None:
        """Confidences that are not there or impossible, log-probabilities above 0, broken events."""
        path = tmp_path / "feedback.db"
        rows = drawn(60)
        write(path, rows)
        expected = report_on(path, calibrators_of(tmp_path)).overall
        odd = []
        for at, confidence in enumerate((math.nan, math.inf, -0.5, None)):
            name, impossible = f"odd{at}", type(rows[at].evidence)((0.5,))
            changes = {"id": name, "episode": name, "confidence": confidence, "evidence": impossible}
            odd.append(attrs.evolve(rows[at], correct=True, **changes))
        events = [("survived", "nonsense"), ("survived", '{"seconds": 77, "unchanged": true}')]
        write(path, odd, events=events)
        found = report_on(path, calibrators_of(tmp_path))
        assert found.overall == expected
        assert {one.seconds for one in found.survival} <= set(SURVIVAL)

    def test_a_clock_that_was_wrong_stretches_no_time_line(self, tmp_path: Path) -> None:
        rows = drawn(200)
        rows[7] = attrs.evolve(rows[7], labelled_at=9e15, correct=True, confidence=0.5)
        write(tmp_path / "feedback.db", rows)
        found = report_on(tmp_path / "feedback.db", calibrators_of(tmp_path))
        assert max(period.end for period in found.periods) < NOW

    def test_a_calibrator_that_has_seen_everything_is_said_to_have(self, tmp_path: Path) -> None:
        rows = drawn(200)
        write(tmp_path / "feedback.db", rows)
        found = report_on(tmp_path / "feedback.db", calibrators_of(tmp_path, until=NOW)).comparison
        assert found is not None
        assert (found.changed, found.unseen) == (True, False)
        assert found.n == len({row.episode for row in rows if row.kind == "line" and row.correct is not None})

    def test_a_model_that_is_not_known_any_more(self, tmp_path: Path) -> None:
        """Its labels are judged by what would be borrowed for it."""
        write(tmp_path / "feedback.db", drawn(100), model="forgotten")
        found = report_on(tmp_path / "feedback.db", calibrators_of(tmp_path)).comparison
        assert found is not None
        assert {part.model for part in found.parts} == {"forgotten"}


def test_the_memory_does_not_grow_with_the_store(tmp_path: Path) -> None:
    """200,000 labelled suggestions, of which the last are compared, take hardly more memory than 20,000."""
    path = tmp_path / "feedback.db"
    FeedbackStore(path).close()
    calibrators = calibrators_of(tmp_path)
    logprobs = "[-0.1,-0.2,-0.3,-0.4,-0.5,-0.6]"
    peaks = []
    for begin, end in ((0, 20_000), (20_000, 200_000)):
        connection = sqlite3.connect(path)
        connection.executemany(
            "INSERT INTO suggestions VALUES (?, ?, 'line', 'python', 'm', 'abc', 'p', 'c', 'x', NULL, ?, ?, "
            "'review', ?, '{}', 1, '', NULL, NULL, 1.0, 0, 0, NULL, NULL, NULL)",
            ((str(at), 1e9 + at, at % 100 / 100, at % 100 / 100, logprobs) for at in range(begin, end)),
        )
        connection.executemany(
            "INSERT INTO labels VALUES (?, ?, 'kept', ?, ?, ?)",
            ((str(at), at % 3 == 0, 1e9 + at, str(at // 2), 1e9 + at) for at in range(begin, end)),
        )
        connection.commit()
        connection.close()
        tracemalloc.start()
        found = report_on(path, calibrators, most_compared=2_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.overall is not None
        assert (found.overall.labels, found.overall.share.n) == (end, end // 2)
    assert peaks[1] < 1.5 * peaks[0]
    assert peaks[1] < 16e6


def test_the_interval_of_the_skill_score_holds_it_as_often_as_it_says() -> None:
    """200 visits, calibrated confidences, whose skill is known in closed form: 0.2."""
    rng = np.random.default_rng(5)
    n, covered, runs = 200, 0, 600
    for _ in range(runs):
        # Uniform on [0, 1] has a variance of 1/12, against 1/4 of the outcomes: a skill of 1/3.
        p = rng.random(n)
        y = rng.random(n) < p
        d = (p - y) ** 2
        sums = Sums(n, n, p.sum(), y.sum(), d.sum(), (d * d).sum(), (d * y).sum())
        found = outcome_of("", sums)
        assert found.skill_low is not None
        assert found.skill_high is not None
        covered += found.skill_low <= 1 / 3 <= found.skill_high
    assert 0.92 <= covered / runs <= 0.98


@pytest.mark.parametrize(
    ("right", "n", "promised", "verdict"),
    [
        (50, 100, 0.5, "asPromised"),
        (50, 100, 0.7, "less"),
        (50, 100, 0.3, "more"),
        (10, 19, 0.6, "tooFew"),
        # Few visits, and yet no chance: the interval is 29 to 76 %.
        (10, 19, 1.0, "less"),
        (10, 19, 0.2, "more"),
        (0, 0, 0.5, "tooFew"),
    ],
)
def test_the_verdict_says_no_more_and_no_less_than_the_interval(
    right: int, n: int, promised: float, verdict: str
) -> None:
    assert Accuracy("", n, Share.of(right, n), promised).verdict == verdict


def test_the_latency_of_a_session_is_passed_on(tmp_path: Path) -> None:
    found = report_on(tmp_path / "feedback.db", calibrators_of(tmp_path), latency=Latency(120.0, 480.0))
    assert to_wire(found)["latencyMs"] == {"p50": 120.0, "p95": 480.0}


def test_those_below_the_limit_are_counted_those_without_a_probability_are_not_hidden() -> None:
    survives = np.array([0.1, 0.19, 0.2, 0.9, np.nan, 0.05, 0.6])
    correct = np.array([False, False, False, True, False, True, True])
    found = AtLimit.of(0.2, survives, correct)
    assert found == AtLimit(0.2, right=3, wrong=4, right_hidden=1, wrong_hidden=2)
    assert AtLimit.of(0.2, survives[:0], correct[:0]) == AtLimit(0.2, 0, 0, 0, 0)
