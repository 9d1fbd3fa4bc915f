"""From what a user did to the calibrator in force: tracker, store, refit and calibrators together."""

from __future__ import annotations

import io
import itertools
import json
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from feedback_scene import Editor, suggestion
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calibration_calibrator import make, platt

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.curve import Curve, Weighted
from lsp_calib.calibration.calibrators.prefix_curve import FOLDER, NAMES, PrefixCurve
from lsp_calib.calibration.calibrators.promotion import MOST_OF_ONE_LINE
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import RefitResult
from lsp_calib.calibration.tiers import TierPolicy
from lsp_calib.confidence.features import PLACES, PREFIX_FEATURES, PREFIX_VERSION, Prefix
from lsp_calib.errors import CalibratorError
from lsp_calib.feedback import learning
from lsp_calib.feedback.events import Event, EventKind, How, Label, Source
from lsp_calib.feedback.learning import LEAST_NEW, is_due, labels_for, refit_from_feedback, refit_languages
from lsp_calib.feedback.report import make_report, to_wire
from lsp_calib.feedback.rows import MOST_ALIKE, REACH, last_of_each
from lsp_calib.feedback.store import FeedbackStore, export_to
from lsp_calib.values import Evidence, ModelIdentity

MODEL = ModelIdentity("m", "Q8_0", "abc123")
PURPOSE = Purpose(MODEL, "p1", "line", "python")
SHAPE = {"promoted", "reason", "n", "before", "after", "calibrator", "model"}
DAY = 86400.0
START = 1_700_000_000.0
TODAY, LATER = "2023-11-14", "2024-12-20"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FeedbackStore]:
    store = FeedbackStore(tmp_path / "home" / "feedback.db")
    yield store
    store.close()


@pytest.fixture
def calibrators(tmp_path: Path) -> CalibratorStore:
    return CalibratorStore(tmp_path / "home" / "calibrators", tmp_path / "shipped")


def show(
    store: FeedbackStore,
    identity: str,
    logprob: float,
    at: float,
    language: str = "python",
    features: dict[str, float] | None = None,
    source: Source = Source.SHOWN,
    label: Label | None = None,
) -> None:
    store.record_shown(
        suggestion("x", identity),
        model=MODEL,
        prompt_version="p1",
        language=language,
        evidence=Evidence((logprob,), features or {}),
        at=at,
        source=source,
        label=label,
    )


def settle(store: FeedbackStore, identity: str, correct: bool, at: float) -> None:
    label = Label(identity, correct, How.KEPT if correct else How.EDITED, at)
    store.record_events([Event(identity, EventKind.SETTLED, at, label=label)])


def live(
    store: FeedbackStore,
    n: int,
    at: float = START,
    language: str = "python",
    name: str = "",
    right: float = 0.1,
) -> None:
    """One suggestion on each of n lines; however sure the model was, few of them were right."""
    chance = random.Random(n)
    for number in range(n):
        identity = f"{name}{language}-{number}"
        show(store, identity, -0.3 * chance.random(), at + number, language)
        # Never all of one class: labels of one class alone are not learned from.
        settle(store, identity, number == 1 or chance.random() < right, at + number + 30)


def type_a_line(store: FeedbackStore, keystrokes: int) -> None:
    """A suggestion at each keystroke of one line, none of them what the user meant; then on to the next."""
    editor = Editor("", "")
    for number in range(keystrokes):
        editor.show(0, f"wrong{number}", f"s{number}")
        show(store, f"s{number}", -0.05, editor.now)
        editor.type(0, "x")
    editor.move_on()
    assert len(editor.labels()) == keystrokes
    store.record_events(editor.events)


class TestEpisodes:
    def test_keystrokes_on_one_line_are_one_label(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """They share one outcome: five of them prove no more than one."""
        type_a_line(store, 5)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY)
        assert not result.promoted
        assert (result.n, result.reason) == (1, "not enough labels yet: 1 of 5")
        assert calibrators.choose(PURPOSE).calibrator.source == "prior"

    def test_n_counts_lines(self, store: FeedbackStore, calibrators: CalibratorStore) -> None:
        live(store, 30)
        type_a_line(store, 20)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY)
        assert result.promoted, result.reason
        assert result.n == 31
        assert calibrators.choose(PURPOSE).calibrator.n == 31


def test_labels_without_log_probabilities_make_no_refit_due(
    store: FeedbackStore, calibrators: CalibratorStore
) -> None:
    """As of prose, and of remote engines that give none. Otherwise each start would refit in vain."""
    for number in range(LEAST_NEW + 5):
        show(store, str(number), -0.1, START + number)
        settle(store, str(number), number % 2 == 0, START + number)
    assert is_due(store, calibrators, PURPOSE)
    store._connection.execute("UPDATE suggestions SET logprobs = '[]'")
    assert not is_due(store, calibrators, PURPOSE)


@pytest.mark.parametrize("before", [None, START + 5])
def test_nothing_is_made_of_labels_that_are_deleted_meanwhile(
    store: FeedbackStore,
    calibrators: CalibratorStore,
    monkeypatch: pytest.MonkeyPatch,
    before: float | None,
) -> None:
    """All of them, or some."""
    live(store, 60)
    fit = learning.refit

    def purged(*arguments: Any, **named: Any) -> RefitResult:
        store.purge(before=before)
        return fit(*arguments, **named)

    monkeypatch.setattr(learning, "refit", purged)
    with pytest.raises(CalibratorError, match="deleted during the refit"):
        refit_from_feedback(store, calibrators, PURPOSE, TODAY)
    assert calibrators.choose(PURPOSE).calibrator.source == "prior"


class TestFreshLabels:
    """A personal calibrator is compared on labels that it has not seen, told by their time."""

    def test_old_ones_may_be_deleted(self, store: FeedbackStore, calibrators: CalibratorStore) -> None:
        """Otherwise a user would have to gather as many labels again before anything is learned."""
        live(store, 40)
        assert refit_from_feedback(store, calibrators, PURPOSE, TODAY).promoted
        live(store, 10, at=START + 400 * DAY, name="new-")
        assert store.purge(before=START + 300 * DAY) == 40
        result = refit_from_feedback(store, calibrators, PURPOSE, LATER)
        assert "on 10 labels" in result.reason
        assert result.n == 10

    def test_a_calibrator_that_only_tells_its_day_has_seen_all_of_that_day(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 40)
        assert refit_from_feedback(store, calibrators, PURPOSE, TODAY).promoted
        mine = calibrators.choose(PURPOSE).calibrator
        feedback = attrs.evolve(mine.provenance[0], version=TODAY)
        calibrators.promote(attrs.evolve(mine, provenance=(feedback, *mine.provenance[1:])))
        live(store, 5, at=START + 3600, name="same-day-")
        live(store, 7, at=START + 3 * DAY, name="later-")
        assert "on 7 labels" in refit_from_feedback(store, calibrators, PURPOSE, LATER).reason


class TestLanguages:
    def test_each_language_with_labels_gets_its_own(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 30, language="rust")
        live(store, 20, language="python")
        live(store, 3, language="go")
        refits = refit_languages(store, calibrators, PURPOSE, TODAY)
        assert [(language, r.promoted, r.n) for language, r in refits.results] == [
            ("rust", True, 30),
            ("python", True, 20),
            ("go", False, 3),
        ]
        for language, n in (("rust", 30), ("python", 20), ("go", 0)):
            assert calibrators.choose(attrs.evolve(PURPOSE, language=language)).calibrator.n == n

    def test_the_answer_is_about_the_first_that_was_promoted(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        for number in range(31):  # more rows than Python has, of one line
            show(store, f"one-line-{number}", -0.1, START, "go")
            label = Label(f"one-line-{number}", False, How.EDITED, START, "one line")
            store.record_events([Event(label.suggestion_id, EventKind.SETTLED, START, label=label)])
        live(store, 30, language="python")
        wire = refit_languages(store, calibrators, PURPOSE, TODAY).to_wire()
        assert set(wire) == SHAPE | {"languages"}
        assert (wire["promoted"], wire["n"]) == (True, 30)
        assert wire["reason"].startswith("python: the new calibrator is no worse")
        assert [(one["language"], one["promoted"]) for one in wire["languages"]] == [
            ("go", False),
            ("python", True),
        ]

    def test_without_labels_it_says_so(self, store: FeedbackStore, calibrators: CalibratorStore) -> None:
        wire = refit_languages(store, calibrators, PURPOSE, TODAY).to_wire()
        assert wire["reason"] == "not enough labels yet: 0 of 5"
        assert set(wire) == SHAPE


def test_parts_that_were_not_right_move_the_curve_of_how_far_a_line_can_be_trusted(
    store: FeedbackStore, calibrators: CalibratorStore
) -> None:
    features = tuple(Weighted(name, 0.0, 1.0, float(name == "total")) for name in NAMES)
    PrefixCurve(
        version=PREFIX_VERSION,
        model=MODEL,
        prompt_version="p1",
        n=10,
        n_right=5,
        intercept=0.0,
        features=features,
    ).save(calibrators.shipped.parent / FOLDER)
    for number in range(61):
        identity, at = f"{number}", START + number
        show(store, identity, -0.3, at, language=("python", "go")[number % 2])
        # The last one is no probability, as in a file that was edited: it says nothing.
        shown = {"shownProbability": 1.0, "sureConfidence": 0.95 if number < 60 else 1.5}
        store.record_events([Event(identity, EventKind.SHOWN, at, shown)])
        # Of ten lines seven begin as it was promised, and one is right as a whole.
        label = Label(identity, number % 10 == 9, How.EDITED, at + 30)
        came = {"sureRight": number % 10 > 2}
        store.record_events([Event(identity, EventKind.SETTLED, at + 30, came, label=label)])
    folder = calibrators.personal / FOLDER
    estimator = ConfidenceEstimator(calibrators)
    whole = suggestion("x", "s").confidence
    whole = attrs.evolve(whole, calibrator=attrs.evolve(whole.calibrator, source="shipped"))
    place = Prefix(1, tuple(2.0 * (name == "total") for name in PREFIX_FEATURES))
    (before,) = estimator.beginnings(PURPOSE, whole, [place], PLACES[0])
    refits = refit_languages(store, calibrators, PURPOSE, TODAY)
    assert refits.sure == refits.to_wire()["sureLabels"] == 54
    assert "m: how far a line can be trusted is judged by 54 of your lines as well." in refits.sentences()
    estimator.reload()
    (after,) = estimator.beginnings(PURPOSE, whole, [place], PLACES[0])
    assert after.confidence < before.confidence
    assert refit_languages(store, calibrators, PURPOSE, TODAY).sure == 0, "each label moves it once"
    assert len(list(folder.iterdir())) == 1


def test_labels_of_before_and_after_there_were_features_are_learnt_from_together(
    store: FeedbackStore, calibrators: CalibratorStore
) -> None:
    """What the store gives back is what the curve over features is fitted on, place and all."""
    curves = (
        Curve("features-1", (Weighted("total", 0.0, 1.0, 1.0), Weighted("broken", 0.0, 1.0, -1.0)), -0.5),
        Curve.of_measure("total", 0.9, -0.3),
    )
    shipped = make(purpose=PURPOSE, curves=curves, raw_measure="geometric-mean")
    shipped.save(calibrators.shipped / "shipped.json")
    for number in range(40):
        at = START + 60.0 * number
        features = {"total": 1.0, "broken": float(number % 2)} if number >= 20 else None
        show(store, f"{number:016x}", -0.2 - number / 1000, at, features=features)
        settle(store, f"{number:016x}", number % 8 == 0, at + 30.0)
    result = refit_from_feedback(store, calibrators, PURPOSE, TODAY)
    assert (result.promoted, result.n) == (True, 40)
    personal = calibrators.choose(PURPOSE).calibrator
    best, total = personal.curves
    assert best.shift is not None
    assert total.shift is not None
    assert best.shift.intercept < 0 > total.shift.intercept
    rows = store.labels(MODEL, "p1", "line")
    measures = [personal.assess(row.evidence, TierPolicy()).measure for row in rows]
    assert measures == ["total"] * 20 + ["features-1"] * 20


def test_models_without_a_checksum_are_told_apart_by_their_names(
    store: FeedbackStore, calibrators: CalibratorStore
) -> None:
    """Those behind a server: the labels of one say nothing of another."""
    asked, other = (attrs.evolve(PURPOSE, model=ModelIdentity(name, "", "")) for name in ("asked", "other"))
    for number in range(40):
        suggested = suggestion("x", f"s{number}")
        store.record_shown(
            suggested,
            model=asked.model,
            prompt_version="p1",
            language="python",
            evidence=Evidence((-0.3 - number / 100,)),
            at=START + number,
        )
        settle(store, suggested.id, number % 3 == 0, START + number + 30)
    for purpose, n in ((asked, 40), (other, 0)):
        assert len(labels_for(store, purpose)) == n
        assert store.visits_after(purpose, 0.0) == n
        assert store.languages(purpose.model, "p1", "line") == (["python"] if n else [])
        assert store.latest_prompt(purpose.model, "line", ["p1"]) == ("p1" if n else None)
        assert refit_from_feedback(store, calibrators, purpose, TODAY).n == n


class TestTheClockWasAhead:
    """Once, for a while; some labels, a refit perhaps, are of then."""

    def test_refits_go_on(self, store: FeedbackStore, calibrators: CalibratorStore) -> None:
        now = time.time()
        live(store, 40, at=now - 20 * DAY)
        live(store, 3, at=now + 30 * DAY, name="ahead-")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: now + 31 * DAY)
            assert refit_from_feedback(store, calibrators, PURPOSE, TODAY).n == 43
        live(store, 60, at=now - DAY, name="after-", right=0.9)
        assert is_due(store, calibrators, PURPOSE)
        result = refit_from_feedback(store, calibrators, PURPOSE, LATER)
        assert (result.promoted, result.n) == (True, 100), result.reason
        assert not is_due(store, calibrators, PURPOSE)
        live(store, 40, at=now - DAY / 2, name="and-on-")
        assert is_due(store, calibrators, PURPOSE)

    def test_labels_of_then_wait(self, store: FeedbackStore, calibrators: CalibratorStore) -> None:
        now = time.time()
        live(store, 10, at=now - DAY)
        live(store, 50, at=now + 30 * DAY, name="ahead-")
        assert refit_from_feedback(store, calibrators, PURPOSE, TODAY).n == 10
        assert not is_due(store, calibrators, PURPOSE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: now + 31 * DAY)
            assert refit_from_feedback(store, calibrators, PURPOSE, TODAY).n == 60


class TestWhereARefitBegins:
    def test_at_the_calibrator_of_the_users_own_source(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """The one after it begins there again, not at the personal one, whose labels would count twice."""
        make(purpose=PURPOSE).save(calibrators.shipped / "shipped.json")
        workspace = make(purpose=PURPOSE, source="workspace", **platt(1.0, 2.0, "geometric-mean-first-4"))
        calibrators.promote(workspace)
        for begin, today in ((0, TODAY), (40, LATER)):
            live(store, 80 + begin, at=START + begin * DAY, name=f"{begin}-", right=0.3 + begin / 80)
            result = refit_from_feedback(store, calibrators, PURPOSE, today)
            assert result.calibrator is not None, result.reason
            assert result.calibrator.provenance[-1].name == workspace.id
        calibrators.rollback(PURPOSE, to=calibrators.choose(PURPOSE, personal=False).calibrator.id)
        assert calibrators.base(PURPOSE).source == "shipped"


class TestDamagedRows:
    """SQLite notices no damage in a value. One row is not worth the others."""

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE suggestions SET logprobs = '[-1,2' WHERE rowid = 5",
            "UPDATE suggestions SET logprobs = '[-1,\"a\"]' WHERE rowid = 5",
            "UPDATE suggestions SET features = '[1]', features_version = 1 WHERE rowid = 5",
            "UPDATE suggestions SET language = x'ff00' WHERE rowid = 5",
            "UPDATE suggestions SET logprobs = CAST(x'5b2dff5d' AS TEXT) WHERE rowid = 5",
            "UPDATE suggestions SET language = CAST(x'ff' AS TEXT) WHERE rowid = 5",
            "UPDATE suggestions SET model_sha256 = x'ff' WHERE rowid = 5",
            "UPDATE suggestions SET prompt_version = x'ff' WHERE rowid = 5",
            "UPDATE suggestions SET shown_at = 1e15 WHERE rowid = 5",
            "UPDATE suggestions SET shown_at = 'abc' WHERE rowid = 5",
            "UPDATE suggestions SET source = 'zzz' WHERE rowid = 5",
            "UPDATE labels SET how = 'strange' WHERE rowid = 5",
            "UPDATE labels SET at = 'abc' WHERE rowid = 5",
            "UPDATE events SET data = '{\"sec' WHERE number = 5",
        ],
    )
    def test_the_others_are_read(
        self, store: FeedbackStore, calibrators: CalibratorStore, change: str
    ) -> None:
        live(store, 40)
        store._connection.execute(change)
        assert len(labels_for(store, PURPOSE)) >= 39
        assert refit_from_feedback(store, calibrators, PURPOSE, TODAY).n >= 39
        stream = io.StringIO()
        assert export_to(store, stream) == 40
        assert len([json.loads(line) for line in stream.getvalue().splitlines()]) == 40
        report = make_report(store, calibrators, START + DAY)
        assert report.statistics.suggestions >= 39
        json.dumps(to_wire(report), allow_nan=False)


class TestMany:
    @given(seed=st.integers(0, 10**6), most=st.integers(1, 12))
    @settings(max_examples=25, deadline=None)
    def test_the_last_ones_of_a_purpose_are_taken_in_their_order(self, seed: int, most: int) -> None:
        """Whatever else is in the store, and however often two were shown at the same time."""
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            store = FeedbackStore(Path(folder) / "feedback.db", most_labels=most)
            try:
                for number in range(12):
                    shown = START + rng.randrange(5)
                    show(store, f"{number:02}", -0.1, shown, rng.choice(["python", "python", "go"]))
                    if rng.random() < 0.8:
                        settle(store, f"{number:02}", rng.random() < 0.5, shown + rng.randrange(1, 9))
                every = [row for row in store.labels(MODEL, "p1", "line") if row.language == "python"]
                found = labels_for(store, PURPOSE)
            finally:
                store.close()
        last = sorted(every, key=lambda row: (-row.shown_at, row.suggestion_id))[:most]
        assert found == [row for row in every if row in last]

    @given(
        shape=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60),
        most=st.integers(1, 20),
        alike=st.integers(1, 4),
    )
    def test_of_each_line_and_visit_the_last_ones(
        self, shape: list[tuple[int, int]], most: int, alike: int
    ) -> None:
        """No line or visit has more than its share, and none is passed over before it has it."""
        rows = [(n, line, visit) for n, (line, visit) in enumerate(shape)]
        found = list(last_of_each(rows, most, alike=alike))
        assert found == sorted(found)
        assert len(found) <= most
        reached = range(min(len(rows), REACH * most) if len(found) < most else found[-1] + 1)
        for which in (0, 1):
            counts = Counter(shape[n][which] for n in found)
            assert all(count <= alike for count in counts.values())
        for n in set(reached) - set(found):
            before = [shape[m] for m in found if m < n]
            same = [sum(one[which] == shape[n][which] for one in before) for which in (0, 1)]
            assert max(same) == alike, "left out though there was room"

    def test_copies_of_one_line_do_not_push_the_others_out(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """More copies than the window is long, all of them newer and wrong, count as a few."""
        store.most_labels = 300
        rng = random.Random(16)
        for number in range(200):
            logprob = -rng.random()
            show(store, f"own {number:03}", logprob, START + number)
            settle(store, f"own {number:03}", rng.random() < math.exp(logprob), START + number + 30)
        alone = refit_from_feedback(store, calibrators, PURPOSE, TODAY)
        fill_labels(store, 400, logprobs="[-0.05]", correct=0, at=START + 1000)
        rows = labels_for(store, PURPOSE)
        own = [row for row in rows if row.suggestion_id.startswith("own")]
        assert (len(own), len(rows)) == (200, 200 + MOST_ALIKE)
        flooded = refit_from_feedback(store, calibrators, PURPOSE, TODAY)
        assert flooded.n == alone.n + MOST_OF_ONE_LINE

    def test_a_refit_reads_no_more_of_a_large_store(self, tmp_path: Path) -> None:
        """By the steps of SQLite's machine, counted in tens: ten times the labels, hardly more work."""
        steps = {}
        for n in (200, 2000):
            store = FeedbackStore(tmp_path / str(n) / "feedback.db", most_labels=100)
            fill_labels(store, n)
            count = itertools.count()
            store._connection.set_progress_handler(lambda count=count: next(count) < 0, 10)
            rows = labels_for(store, PURPOSE)
            store._connection.set_progress_handler(None, 10)
            steps[n] = next(count)
            assert [row.suggestion_id for row in rows] == [f"{k:05}" for k in range(n - 100, n)]
            store.close()
        assert steps[2000] <= 1.1 * steps[200]


def fill_labels(
    store: FeedbackStore, n: int, logprobs: str = "", correct: int | None = None, at: float = START
) -> None:
    """n labelled suggestions, in two statements.

    logprobs, correct: of all of them; by default all differ, and every other one is right.
    """
    connection = store._connection
    connection.executemany(
        "INSERT INTO suggestions (id, shown_at, kind, language, model, model_sha256, prompt_version, "
        "calibrator_id, measure, tier, logprobs, features, features_version, place, shown_probability) "
        "VALUES (?, ?, 'line', 'python', 'm', 'abc123', 'p1', 'c', 'total', 'review', ?, '{}', 1, '', 1.0)",
        ((f"{k:05}", at + k, logprobs or f"[-0.1{k:05}]") for k in range(n)),
    )
    connection.executemany(
        "INSERT INTO labels VALUES (?, ?, 'kept', ?, ?)",
        ((f"{k:05}", k % 2 if correct is None else correct, at + k + 30, f"{k:05}") for k in range(n)),
    )
