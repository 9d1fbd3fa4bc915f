"""From what a user did to the calibrator in force: tracker, store, refit and calibrators together."""

from __future__ import annotations

import itertools
import math
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from feedback_scene import MODEL, Editor, fill, in_haste, settle, show, suggestion
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calibration_calibrator import make, platt

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve, Weighted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.line_curves import NAMES, PREFIXES, PrefixCurve, TypedAlong
from lsp_calib.calibration.calibrators.promotion import MOST_OF_ONE_LINE
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import RefitResult
from lsp_calib.calibration.certificates import Ledger, Promise
from lsp_calib.calibration.tiers import TierPolicy
from lsp_calib.confidence.features import PLACES, PREFIX_FEATURES, PREFIX_VERSION, Prefix
from lsp_calib.edits.offers import shipped_curve
from lsp_calib.errors import CalibratorError
from lsp_calib.feedback import personalisation
from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.feedback.personalisation import (
    EDITS,
    LEAST_NEW,
    Refits,
    is_due,
    labels_for,
    refit_from_feedback,
    refit_languages,
    refit_where_due,
    set_aside,
    watch_labels,
)
from lsp_calib.feedback.report_data import statistics
from lsp_calib.feedback.store import MOST_ALIKE, REACH, FeedbackStore, LabelledRow, last_of_each
from lsp_calib.values import Evidence, ModelIdentity

PURPOSE = Purpose(MODEL, "p1", "line", "python")
SHAPE = {"promoted", "reason", "n", "before", "after", "calibrator", "model"}
DAY = 86400.0
START = 1_700_000_000.0
TODAY, LATER = "2023-11-14", "2024-12-20"


class User:
    """The store and the calibrators of a user, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.store = in_haste(FeedbackStore(folder / "home" / "feedback.db"))
        self.calibrators = CalibratorStore(folder / "home" / "calibrators", folder / "shipped")
        self.close = self.store.close

    def show(self, identity: str, logprob: float, at: float, language: str = "python", **more: Any) -> None:
        show(self.store, identity, logprobs=(logprob,), at=at, language=language, **more)

    def settle(self, identity: str, correct: bool, at: float, episode: str = "") -> None:
        settle(self.store, identity, correct, at, episode)

    def refit(
        self, promise: Promise | str | None = "as before", *, today: str = TODAY, purpose: Purpose = PURPOSE
    ) -> RefitResult:
        return refit_from_feedback(self.store, self.calibrators, purpose, today, promise=promise)

    def refit_languages(self) -> Refits:
        return refit_languages(self.store, self.calibrators, MODEL, "p1", TODAY)

    def refit_where_due(self) -> Refits | None:
        return refit_where_due(self.store, self.calibrators, MODEL, "p1", TODAY, None)

    def is_due(self) -> bool:
        return is_due(self.store, self.calibrators, PURPOSE)

    def in_force(self, language: str = "python") -> Calibrator:
        return self.calibrators.choose(attrs.evolve(PURPOSE, language=language)).calibrator

    def rows(self) -> list[LabelledRow]:
        return labels_for(self.store, PURPOSE)

    def ledger(self) -> Ledger:
        return self.calibrators.ledger(PURPOSE)

    def aside(self) -> list[bool]:
        """Of each label, whether it is kept for certificates."""
        return set_aside(self.store, self.ledger(), self.rows())

    def watch(self) -> tuple[Ledger, Ledger]:
        return watch_labels(self.store, self.calibrators, PURPOSE, Promise())


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with closing(User(tmp_path)) as user:
        yield user


def live(
    user: User, n: int, at: float = START, language: str = "python", name: str = "", right: float = 0.1
) -> None:
    """One suggestion on each of n lines; however sure the model was, few of them were right."""
    chance = random.Random(n)
    for number in range(n):
        identity = f"{name}{language}-{number}"
        user.show(identity, -0.3 * chance.random(), at + number, language)
        # Never all of one class: labels of one class alone are not learned from.
        user.settle(identity, number == 1 or chance.random() < right, at + number + 30)


def type_a_line(user: User, keystrokes: int) -> None:
    """A suggestion at each keystroke of one line, none of them what the user meant; then on to the next."""
    editor = Editor("", "")
    for number in range(keystrokes):
        editor.show(0, f"wrong{number}", f"s{number}")
        user.show(f"s{number}", -0.05, editor.now)
        editor.type(0, "x")
    editor.move_on()
    assert len(editor.labels()) == keystrokes
    user.store.record_events(editor.events)


class TestEpisodes:
    def test_keystrokes_on_one_line_are_one_label(self, user: User) -> None:
        """They share one outcome: five of them prove no more than one."""
        type_a_line(user, 5)
        result = user.refit()
        assert not result.promoted
        assert (result.n, result.reason) == (1, "not enough labels yet: 1 of 5")
        assert user.in_force().source == "prior"

    def test_n_counts_lines(self, user: User) -> None:
        live(user, 30)
        type_a_line(user, 20)
        result = user.refit()
        assert result.promoted, result.reason
        assert result.n == 31
        assert user.in_force().n == 31


def test_labels_without_log_probabilities_make_no_refit_due(user: User) -> None:
    """As of prose, and of remote engines that give none. Otherwise each start would refit in vain."""
    for number in range(LEAST_NEW + 5):
        user.show(str(number), -0.1, START + number)
        user.settle(str(number), number % 2 == 0, START + number)
    assert user.is_due()
    user.store._connection.execute("UPDATE suggestions SET logprobs = '[]'")
    assert not user.is_due()


@pytest.mark.parametrize("before", [None, START + 5])
def test_nothing_is_made_of_labels_that_are_deleted_meanwhile(
    user: User, monkeypatch: pytest.MonkeyPatch, before: float | None
) -> None:
    """All of them, or some."""
    live(user, 60)
    fit = personalisation.refit

    def purged(*arguments: Any, **named: Any) -> RefitResult:
        user.store.purge(before=before)
        return fit(*arguments, **named)

    monkeypatch.setattr(personalisation, "refit", purged)
    with pytest.raises(CalibratorError, match="deleted during the refit"):
        user.refit()
    assert user.in_force().source == "prior"


class TestFreshLabels:
    """A personal calibrator is compared on labels that it has not seen, told by their time."""

    def test_old_ones_may_be_deleted(self, user: User) -> None:
        """Otherwise a user would have to gather as many labels again before anything is learned."""
        live(user, 40)
        assert user.refit().promoted
        live(user, 10, at=START + 400 * DAY, name="new-")
        assert user.store.purge(before=START + 300 * DAY) == 40
        result = user.refit(today=LATER)
        assert "on 10 labels" in result.reason
        assert result.n == 10

    def test_a_calibrator_that_only_tells_its_day_has_seen_all_of_that_day(self, user: User) -> None:
        live(user, 40)
        assert user.refit().promoted
        mine = user.in_force()
        feedback = attrs.evolve(mine.provenance[0], version=TODAY)
        user.calibrators.promote(attrs.evolve(mine, provenance=(feedback, *mine.provenance[1:])))
        live(user, 5, at=START + 3600, name="same-day-")
        live(user, 7, at=START + 3 * DAY, name="later-")
        assert "on 7 labels" in user.refit(today=LATER).reason


class TestLanguages:
    def test_each_language_with_labels_gets_its_own(self, user: User) -> None:
        live(user, 30, language="rust")
        live(user, 20, language="python")
        live(user, 3, language="go")
        refits = user.refit_languages()
        found = [(language, result.promoted, result.n) for language, result in refits.results]
        assert found == [("rust", True, 30), ("python", True, 20), ("go", False, 3)]
        for language, n in (("rust", 30), ("python", 20), ("go", 0)):
            assert user.in_force(language).n == n

    def test_the_answer_is_about_the_first_that_was_promoted(self, user: User) -> None:
        for number in range(31):  # more rows than Python has, of one line
            user.show(f"one-line-{number}", -0.1, START, "go")
            user.settle(f"one-line-{number}", False, START, "one line")
        live(user, 30, language="python")
        wire = user.refit_languages().to_wire()
        assert set(wire) == SHAPE | {"languages"}
        assert (wire["promoted"], wire["n"]) == (True, 30)
        assert wire["reason"].startswith("python: the new calibrator is no worse")
        found = [(one["language"], one["promoted"]) for one in wire["languages"]]
        assert found == [("go", False), ("python", True)]

    def test_next_edits_get_one_for_all_languages(self, user: User) -> None:
        """They are no lines of the model: without its labels they are learned from all the same."""
        curve = shipped_curve()
        assert curve is not None
        purpose, chance = curve.purpose, random.Random(1)
        edit = attrs.evolve(suggestion("width", "e"), kind="edit")
        for number in range(80):
            p, at = 0.2 + 0.7 * chance.random(), START + number
            evidence = Evidence((math.log(p),), {"repeats": 0.5, "no-such": 1.0}, "go" if number % 2 else "c")
            user.store.record_shown(
                attrs.evolve(edit, id=f"edit-{number}"),
                model=purpose.model,
                prompt_version=purpose.prompt_version,
                language=purpose.language,
                evidence=evidence,
                at=at,
            )
            user.settle(f"edit-{number}", number == 1 or chance.random() < 0.1, at + 30)
        rows = labels_for(user.store, purpose)
        assert {row.evidence.place for row in rows} == {"go", "c"}
        assert rows[0].evidence.features["repeats"] == 0.5
        assert "no-such" not in rows[0].evidence.features
        refits = user.refit_languages()
        assert [(language, result.n) for language, result in refits.results] == [("python", 0), (EDITS, 80)]
        refits = user.refit_where_due()
        assert refits is None, "all are learned from"
        sentences = list(user.refit_languages().sentences())
        assert any(sentence.startswith("next edits: ") for sentence in sentences)
        (found,) = statistics(user.store, START + DAY).languages
        assert (found.name, found.suggestions) == (EDITS, 80)

    def test_without_labels_it_says_so(self, user: User) -> None:
        wire = user.refit_languages().to_wire()
        assert wire["reason"] == "not enough labels yet: 0 of 5"
        assert set(wire) == SHAPE


def test_parts_that_were_not_right_move_the_curve_of_how_far_a_line_can_be_trusted(user: User) -> None:
    features = tuple(Weighted(name, 0.0, 1.0, float(name == "total")) for name in NAMES)
    about: Any = {"version": PREFIX_VERSION, "model": MODEL, "prompt_version": "p1", "n": 10, "n_right": 5}
    shipped = PrefixCurve(typed=TypedAlong(0.0, 0.0, 1.0, 10, 5), intercept=0.0, features=features, **about)
    shipped.save(user.calibrators.shipped.parent / PREFIXES)
    for number in range(60):
        identity, at = f"{number}", START + number
        user.show(identity, -0.3, at, language=("python", "go")[number % 2])
        shown = {"shownProbability": 1.0, "sureConfidence": 0.95}
        user.store.record_events([Event(identity, EventKind.SHOWN, at, shown)])
        # Of ten lines seven begin as it was promised, and one is right as a whole.
        label = Label(identity, number % 10 == 9, How.EDITED, at + 30)
        came = {"sureRight": number % 10 > 2}
        user.store.record_events([Event(identity, EventKind.SETTLED, at + 30, came, label=label)])
    folder = user.calibrators.personal / PREFIXES
    estimator = ConfidenceEstimator(user.calibrators)
    whole = suggestion("x", "s").confidence
    whole = attrs.evolve(whole, calibrator=attrs.evolve(whole.calibrator, source="shipped"))
    place = Prefix(1, tuple(2.0 * (name == "total") for name in PREFIX_FEATURES))
    (before,) = estimator.of(PURPOSE).beginnings(whole, [place], PLACES[0])
    refits = user.refit_languages()
    assert refits.sure == refits.to_wire()["sureLabels"] == 54
    assert "m: how far a line can be trusted is judged by 54 of your lines as well." in refits.sentences()
    estimator.reload()
    (after,) = estimator.of(PURPOSE).beginnings(whole, [place], PLACES[0])
    assert after.confidence < before.confidence
    assert user.refit_languages().sure == 0, "each label moves it once"
    assert len(list(folder.iterdir())) == 1


def test_a_damaged_ledger_of_one_language_leaves_the_refits_before_it(user: User) -> None:
    live(user, 80)
    live(user, 40, language="go", at=START + DAY)
    ledger = user.calibrators.ledger_path(attrs.evolve(PURPOSE, language="go"))
    ledger.parent.mkdir(parents=True)
    ledger.write_text("{")
    with pytest.raises(CalibratorError, match=re.escape(ledger.name)):
        user.refit_where_due()
    assert user.in_force().n == 80


def test_labels_of_before_and_after_there_were_features_are_learnt_from_together(user: User) -> None:
    """What the store gives back is what the curve over features is fitted on, place and all."""
    curves = (
        Curve("features-2", (Weighted("total", 0.0, 1.0, 1.0), Weighted("broken", 0.0, 1.0, -1.0)), -0.5),
        Curve.of_measure("total", 0.9, -0.3),
    )
    shipped = make(purpose=PURPOSE, curves=curves, raw_measure="geometric-mean")
    shipped.save(user.calibrators.shipped / "shipped.json")
    for number in range(40):
        at = START + 60.0 * number
        features = {"total": 1.0, "broken": float(number % 2)} if number >= 20 else None
        user.show(f"{number:016x}", -0.2 - number / 1000, at, features=features)
        user.settle(f"{number:016x}", number % 8 == 0, at + 30.0)
    result = user.refit()
    assert (result.promoted, result.n) == (True, 40)
    personal = user.in_force()
    best, total = personal.curves
    assert best.shift.intercept < 0 > total.shift.intercept
    rows = user.store.labels(MODEL, "p1", "line")
    measures = [personal.assess(row.evidence, TierPolicy()).measure for row in rows]
    assert measures == ["total"] * 20 + ["features-2"] * 20


def test_models_without_a_checksum_are_told_apart_by_their_names(user: User) -> None:
    """Those behind a server: the labels of one say nothing of another."""
    asked, other = (attrs.evolve(PURPOSE, model=ModelIdentity(name, "", "")) for name in ("asked", "other"))
    for number in range(40):
        user.show(f"s{number}", -0.3 - number / 100, START + number, model=asked.model)
        user.settle(f"s{number}", number % 3 == 0, START + number + 30)
    for purpose, n in ((asked, 40), (other, 0)):
        assert len(labels_for(user.store, purpose)) == n
        assert user.store.visits_after(purpose, 0.0) == n
        assert user.store.languages(purpose.model, "p1", "line") == (["python"] if n else [])
        assert user.store.latest_prompt(purpose.model, "line", ["p1"]) == ("p1" if n else None)
        assert user.refit(purpose=purpose).n == n


class TestTheClockWasAhead:
    """Once, for a while; some labels, a refit perhaps, are of then."""

    def test_refits_go_on(self, user: User) -> None:
        now = time.time()
        live(user, 40, at=now - 20 * DAY)
        live(user, 3, at=now + 30 * DAY, name="ahead-")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: now + 31 * DAY)
            assert user.refit().n == 43
        live(user, 60, at=now - DAY, name="after-", right=0.9)
        assert user.is_due()
        result = user.refit(today=LATER)
        assert (result.promoted, result.n) == (True, 100), result.reason
        assert not user.is_due()
        live(user, 40, at=now - DAY / 2, name="and-on-")
        assert user.is_due()

    def test_labels_of_then_wait(self, user: User) -> None:
        now = time.time()
        live(user, 10, at=now - DAY)
        live(user, 50, at=now + 30 * DAY, name="ahead-")
        assert user.refit().n == 10
        assert not user.is_due()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: now + 31 * DAY)
            assert user.refit().n == 60


def test_a_refit_begins_at_the_calibrator_of_the_users_own_source(user: User) -> None:
    """The one after it begins there again, not at the personal one, whose labels would count twice."""
    make(purpose=PURPOSE).save(user.calibrators.shipped / "shipped.json")
    workspace = make(purpose=PURPOSE, source="workspace", **platt(1.0, 2.0, "geometric-mean-first-4"))
    user.calibrators.promote(workspace)
    for begin, today in ((0, TODAY), (40, LATER)):
        live(user, 80 + begin, at=START + begin * DAY, name=f"{begin}-", right=0.3 + begin / 80)
        result = user.refit(today=today)
        assert result.calibrator is not None, result.reason
        assert result.calibrator.provenance[-1].name == workspace.id
    user.calibrators.rollback(PURPOSE, to=user.calibrators.choose(PURPOSE, personal=False).calibrator.id)
    assert user.calibrators.base(PURPOSE).source == "shipped"


LINE_AND_VISIT = st.tuples(st.integers(0, 3), st.integers(0, 3))


class TestMany:
    @given(seed=st.integers(0, 10**6), most=st.integers(1, 12))
    @settings(max_examples=25, deadline=None)
    def test_the_last_ones_of_a_purpose_are_taken_in_their_order(self, seed: int, most: int) -> None:
        """Whatever else is in the store, and however often two were shown at the same time."""
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            with closing(User(Path(folder))) as user:
                user.store.most_labels = most
                for number in range(12):
                    shown = START + rng.randrange(5)
                    user.show(f"{number:02}", -0.1, shown, rng.choice(["python", "python", "go"]))
                    if rng.random() < 0.8:
                        user.settle(f"{number:02}", rng.random() < 0.5, shown + rng.randrange(1, 9))
                every = [row for row in user.store.labels(MODEL, "p1", "line") if row.language == "python"]
                found = user.rows()
        last = sorted(every, key=lambda row: (-row.shown_at, row.suggestion_id))[:most]
        assert found == [row for row in every if row in last]

    @given(st.lists(LINE_AND_VISIT, max_size=60), st.integers(1, 20), st.integers(1, 4))
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

    def test_copies_of_one_line_do_not_push_the_others_out(self, user: User) -> None:
        """More copies than the window is long, all of them newer and wrong, count as a few."""
        user.store.most_labels = 300
        rng = random.Random(16)
        for number in range(200):
            logprob = -rng.random()
            user.show(f"own {number:03}", logprob, START + number)
            user.settle(f"own {number:03}", rng.random() < math.exp(logprob), START + number + 30)
        alone = user.refit()
        fill(user.store, 400, logprobs="[-0.05]", correct=0, at=START + 1000)
        rows = user.rows()
        own = [row for row in rows if row.suggestion_id.startswith("own")]
        assert (len(own), len(rows)) == (200, 200 + MOST_ALIKE)
        flooded = user.refit()
        assert flooded.n == alone.n + MOST_OF_ONE_LINE

    def test_a_refit_reads_no_more_of_a_large_store(self, tmp_path: Path) -> None:
        """By the steps of SQLite's machine, counted in tens: ten times the labels, hardly more work."""
        steps = {}
        for n in (200, 2000):
            count = itertools.count()
            with closing(User(tmp_path / str(n))) as user:
                user.store.most_labels = 100
                fill(user.store, n, START)
                user.store._connection.set_progress_handler(lambda count=count: next(count) < 0, 10)
                rows = user.rows()
            steps[n] = next(count)
            assert [row.suggestion_id for row in rows] == [f"{k:016x}" for k in range(n - 100, n)]
        assert steps[2000] <= 1.1 * steps[200]
