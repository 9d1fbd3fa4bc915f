"""The moments at which a suggestion was shown while it was typed along: what is kept of them, and who judges
by which."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from feedback_scene import KEPT_IN_PARTS, MODEL, URI, Editor, settle, show, tier_of
from hypothesis import given
from hypothesis import strategies as st
from test_certifying import begun
from test_certifying import live as live_certified
from test_feedback_learning import PURPOSE, START, User, live

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.line_curves import PrefixCurve
from lsp_calib.calibration.certificates import Promise
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.confidence.features import PREFIX_FEATURES, Prefix
from lsp_calib.feedback import personalisation
from lsp_calib.feedback.events import Event, EventKind, How, Label, Moment
from lsp_calib.feedback.personalisation import is_due, labels_for, refit_from_feedback, try_out
from lsp_calib.feedback.report import make_report, to_wire
from lsp_calib.feedback.report_data import statistics
from lsp_calib.feedback.store import LabelledRow
from lsp_calib.feedback.tracked import Moments
from lsp_calib.home import shipped_models
from lsp_calib.values import Evidence, Sure, Tier

NOW = START + 1e6


def at(typed: int, p: float) -> Moment:
    return Moment(typed, p, tier_of(p))


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with closing(begun(tmp_path)) as user:
        yield user


def typed_along(
    user: User,
    name: str,
    correct: bool,
    moments: Sequence[tuple[int, float]],
    *,
    accepted: int | None = None,
    logprob: float = -0.4,
    when: float = START,
    **more: bool,
) -> None:
    """A suggestion that was shown at these moments, by the events that a tracker makes of them. accepted: at
    the moment with this number."""
    (first, p), *_ = moments
    user.show(name, logprob, when, p=p, typed=first, **more)
    shown = Moments(at(first, p))
    for number, moment in enumerate(moments):
        if number:
            shown.shown(at(*moment))
        if number == accepted:
            shown.accept()
    how = (How.KEPT if accepted is not None else How.TYPED) if correct else How.TYPED_OVER
    label = Label(name, correct, how, when + 1.0)
    more = {"moments": shown.news(), "accepted": shown.accepted}
    user.store.record_events([Event(name, EventKind.SETTLED, when + 1.0, label=label, **more)])


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=1, max_size=40), st.integers(0, 40))
def test_what_is_kept_of_the_moments(shown: list[tuple[int, float]], accepted: int) -> None:
    """The first of each tier and range, and the best up to the accept, whenever they are told."""
    first, *rest = [at(*one) for one in shown]
    moments = Moments(first)
    seen, told = [first], list[Moment]()
    for number, moment in enumerate(rest):
        if number == accepted:
            moments.accept()
        moments.shown(moment)
        if number < accepted:
            seen.append(moment)
        if number % 7 == 3:  # as at a save
            told += moments.news()
    kept = [first, *told, *moments.news()]
    assert moments.news() == (), "each is told once"
    assert len(set(kept)) == len(kept)
    assert set(kept) <= set(seen)
    assert moments.accepted == (seen[-1] if accepted < len(rest) else None)
    for by in (lambda one: one.tier, lambda one: one.typed_range):
        for stage in {by(one) for one in seen}:
            assert next(one for one in seen if by(one) == stage) in kept
    assert max(one.confidence or 0.0 for one in kept) == max(one.confidence or 0.0 for one in seen)


def test_it_is_accepted_at_the_moment_that_was_on_the_screen() -> None:
    editor = Editor("total = ", "").show(0, "price(x) + 1", p=0.4)
    editor.type(0, "price").show(0, "(x) + 1", typed=5, p=0.85).put(0, "total = price(x) + 1")
    (inserted,) = [one for one in editor.events if one.kind is EventKind.INSERTED]
    assert (inserted.accepted, inserted.moments) == (at(5, 0.85), (at(5, 0.85),))
    ((_, marked),) = editor.tracker.inserted(URI)
    assert marked.confidence.tier is Tier.ACCEPT, "the mark on the line says what the badge said"
    editor.show(0, "", typed=12, p=0.99).move_on()  # after the accept, nothing is promised any more
    (settled,) = [one for one in editor.events if one.kind is EventKind.SETTLED]
    assert (settled.accepted, settled.moments) == (at(5, 0.85), ()), "each moment is told once"


def test_the_first_part_that_is_taken_is_the_accept() -> None:
    editor = Editor("total = ", "").show(0, "price(item) + 1", p=0.4)
    editor.type(0, "pr").show(0, "ice(item) + 1", typed=2, p=0.6).put(0, "total = price(item)")
    editor.show(0, " + 1", typed=11, p=0.97).put(0, "total = price(item) + 1").move_on()
    assert editor.outcome() == KEPT_IN_PARTS
    assert editor.events[-1].accepted == at(2, 0.6)


def test_a_part_that_was_taken_back_is_no_accept() -> None:
    editor = Editor("total = ", "").show(0, "price(item) + 1", p=0.4)
    editor.put(0, "total = price(item)").put(0, "total = ")
    editor.show(0, "price(item) + 1", p=0.5).put(0, "total = price(item) + 1")
    (inserted,) = [one for one in editor.events if one.kind is EventKind.INSERTED]
    assert inserted.accepted == at(0, 0.5)


def test_one_that_was_not_accepted_has_no_such_moment() -> None:
    editor = Editor("total = ", "").show(0, "price(x) + 1", p=0.4)
    editor.type(0, "pri").show(0, "ce(x) + 1", typed=3, p=0.55).type(0, "or").move_on()
    (settled,) = [one for one in editor.events if one.label is not None]
    assert (settled.accepted, settled.moments) == (None, (at(3, 0.55),))
    assert settled.label is not None
    assert settled.label.correct is False


def test_the_tracker_takes_the_moment_of_the_first_showing() -> None:
    """An answer that comes late, or was hidden, is first shown when some of it was typed along."""
    editor = Editor("x = val", "").show(0, "ue + 1", typed=3, p=0.7).put(0, "x = value + 1")
    (inserted,) = [one for one in editor.events if one.kind is EventKind.INSERTED]
    assert (inserted.accepted, inserted.moments) == (at(3, 0.7), ())


class TestReaders:
    """A suggestion shown with p0, and again with p5, and accepted then."""

    P0, P5 = 0.4, 0.9

    @pytest.fixture
    def told(self, user: User) -> User:
        typed_along(user, "a" * 16, True, [(0, self.P0), (5, self.P5)], accepted=1)
        return user

    def test_a_refit_has_the_evidence_of_the_first_moment(self, told: User) -> None:
        (row,) = labels_for(told.store, PURPOSE, at_once=True)
        assert (row.evidence.logprobs, row.confidence, row.typed, row.best) == ((-0.4,), self.P0, 0, self.P5)

    def test_each_tier_counts_it_at_the_first_moment_at_which_it_had_it(self, told: User) -> None:
        report = to_wire(make_report(told.store, told.calibrators, NOW))
        tiers = {one["name"]: (one["n"], one["promised"]) for one in report["tiers"]}
        assert tiers == {"accept": (1, self.P5), "review": (1, self.P0), "reject": (0, None)}
        assert report["tiers"] == [{**one, "labels": one["n"]} for one in report["tiers"]], (
            "a suggestion is one label, however many moments it has"
        )
        accepted = [(one["name"], one["n"], one["promised"], one["right"]) for one in report["accepted"]]
        assert accepted == [("accept", 1, self.P5, 1.0)]
        typed = [(one["name"], one["n"], one["promised"]) for one in report["typed"]]
        assert typed == [("0", 1, self.P0), ("5 to 8", 1, self.P5)]
        assert (report["overall"]["n"], report["overall"]["promised"]) == (1, self.P0)

    def test_what_lasts_is_by_the_tier_of_the_accept(self, told: User) -> None:
        data = {"seconds": 30, "unchanged": True}
        told.store.record_events([Event("a" * 16, EventKind.SURVIVED, START + 31, data)])
        report = make_report(told.store, told.calibrators, NOW)
        assert [(one.tier, one.share.n) for one in report.survival] == [("", 1), ("accept", 1)]

    def test_an_export_has_all_its_moments_by_name(self, told: User) -> None:
        (row,) = told.store.export()
        names = ("typed", "confidence", "tier", "was_hidden")
        assert [row[name] for name in names] == [0, self.P0, "review", False]
        accepted = [row[f"accepted_{name}"] for name in ("typed", "confidence", "tier")]
        assert accepted == [5, self.P5, "accept"]
        assert row["moments"] == [
            {"typed": 0, "confidence": self.P0, "tier": "review"},
            {"typed": 5, "confidence": self.P5, "tier": "accept"},
        ]

    def test_they_go_with_their_suggestion(self, told: User) -> None:
        def moments() -> int:
            return int(told.store.read("SELECT COUNT(*) FROM moments")[0][0])

        typed_along(told, "b" * 16, True, [(0, 0.3), (2, 0.4)], when=START + 100)
        assert moments() == 2
        told.store.expire(START + 50)
        assert moments() == 1
        told.store.purge(before=START + 200)
        assert moments() == 0
        assert told.store.counts().suggestions == 0

    def test_events_of_unknown_suggestions_leave_no_moment(self, user: User) -> None:
        moments = (at(5, 0.9),)
        user.store.record_events([Event("x" * 16, EventKind.ACCEPTED, START, moments=moments)])
        assert user.store.read("SELECT COUNT(*) FROM moments") == [(0,)]


def test_a_hidden_one_that_came_back_is_no_label_of_a_refit(user: User) -> None:
    typed_along(user, "a" * 16, True, [(9, 0.6)], was_hidden=True)
    assert labels_for(user.store, PURPOSE, at_once=True) == []
    assert len(labels_for(user.store, PURPOSE)) == 1
    assert user.store.visits_after(PURPOSE, 0.0) == 0
    report = make_report(user.store, user.calibrators, NOW)
    assert [(one.name, one.share.n) for one in report.sources] == [("hidden at first", 1)]
    assert [(one.name, one.promised) for one in report.typed] == [("9 to 14", 0.6)]
    assert {one.name: one.share.n for one in report.tiers} == {"accept": 0, "review": 1, "reject": 0}
    assert (report.overall, report.languages, report.periods, report.comparison) == (None, (), (), None)


@pytest.mark.parametrize("late", [{"typed": 4}, {"typed": 0, "was_hidden": True}])
def test_no_curve_moves_by_what_was_seen_only_where_it_agrees(tmp_path: Path, late: dict[str, int]) -> None:
    """A refit, an import's trial and the pause before the next refit, with and without such labels, say the
    same."""
    users = []
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
        one = begun(tmp_path / name)
        users.append(one)
        live(one, 60)
    for number in range(200):
        identity = f"late-{number}"
        show(users[1].store, identity, logprobs=(-0.2,), at=START + number + 0.5, p=0.9, **late)
        settle(users[1].store, identity, True, START + number + 40)
    without, with_ = (refit_from_feedback(one.store, one.calibrators, PURPOSE, "2023-11-20") for one in users)
    assert without.promoted, without.reason
    assert without == with_
    assert without.calibrator == with_.calibrator
    again = [try_out(one.store, one.calibrators, shipped_to(one), own=False) for one in users]
    assert again[0] == again[1]
    assert [is_due(one.store, one.calibrators, PURPOSE) for one in users] == [False, False]
    for one in users:
        one.close()


def shipped_to(user: User) -> Calibrator:
    return user.calibrators.choose(PURPOSE, personal=False).calibrator


class TestCertificates:
    """They count a suggestion once, at the first moment at which it was accept."""

    @pytest.fixture
    def certified(self, user: User) -> User:
        live_certified(user, 400)
        assert user.refit(Promise()).certificate["certified"]  # type: ignore[index]
        return user

    def seen(self, user: User) -> tuple[int, int]:
        _, ledger = user.watch()
        assert ledger.watch is not None
        return ledger.watch.seen, ledger.watch.errors

    def test_one_that_became_accept_while_it_was_typed_counts_once(self, certified: User) -> None:
        threshold = certified.ledger().watch.certificate.threshold  # type: ignore[union-attr]
        calibrator = certified.in_force()
        evidence = attrs.evolve(labels_for(certified.store, PURPOSE)[0].evidence, logprobs=(-1.0,))
        p0 = calibrator.probability(evidence)
        assert p0 is not None
        assert p0 < threshold < 0.99
        before = self.seen(certified)
        moments = [(0, p0), (2, 0.99), (7, 0.995), (12, 0.999)]
        typed_along(certified, "c" * 16, False, moments, logprob=-1.0, when=START + 5000)
        assert self.seen(certified) == (before[0] + 1, before[1] + 1)
        assert self.seen(certified) == (before[0] + 1, before[1] + 1), "and it is read once"

    def test_one_that_never_was_accept_does_not_count(self, certified: User) -> None:
        before = self.seen(certified)
        typed_along(certified, "c" * 16, False, [(0, 0.2), (5, 0.3)], logprob=-1.8, when=START + 5000)
        assert self.seen(certified) == before

    def test_one_that_came_later_counts_with_what_was_shown(self, certified: User) -> None:
        """Its calibrator is in force; of another's it would not be known what it had said."""
        before, store = self.seen(certified), certified.store
        for name, when in (("late", START + 5000), ("mine", START + 5002)):
            show(store, name, logprobs=(-1.0,), at=when, p=0.99, typed=6)  # by calibrator "c"
            if name == "mine":
                of = (certified.in_force().id,)
                store._connection.execute("UPDATE suggestions SET calibrator_id = ? WHERE id = 'mine'", of)
            settle(store, name, False, when + 1)
            counted = int(name == "mine")
            assert self.seen(certified) == (before[0] + counted, before[1] + counted)

    def test_labels_from_later_moments_are_set_aside_and_never_fitted_on(self, user: User) -> None:
        live_certified(user, 200)
        n = user.refit(Promise()).n
        for number in range(100):
            when = START + 1000 + number
            show(user.store, f"late{number}", logprobs=(-0.03,), at=when, p=0.9, typed=3)
            settle(user.store, f"late{number}", True, when + 0.5)
        assert user.refit(Promise(), today="2023-11-21").n == n


def test_the_parts_that_can_be_trusted_are_learned_at_once_or_not_at_all(user: User) -> None:
    """What was said to be sure after some of it was typed along was said of another case."""
    for number, typed in enumerate((0, 3)):
        name, when = f"{number:016x}", START + number
        shown = Event(name, EventKind.SHOWN, when, {"sureConfidence": 0.9})
        show(user.store, name, at=when, typed=typed, p=0.4, events=[shown])
        label = Label(name, False, How.TYPED_OVER, when + 1)
        settled = Event(name, EventKind.SETTLED, when + 1, {"sureRight": True}, label=label)
        user.store.record_events([settled])
    (part,) = user.store.sure_parts(MODEL, "p1", after=0.0, newest=10)
    assert (part.whole, part.part, part.at) == (0.4, 0.9, START + 1)


def test_statistics_have_the_tiers_of_the_report(user: User) -> None:
    typed_along(user, "a" * 16, True, [(0, 0.1), (6, 0.5), (9, 0.95)])
    found = statistics(user.store, NOW)
    report = make_report(user.store, user.calibrators, NOW)
    assert [one.promised for one in found.tiers] == [one.promised for one in report.tiers] == [0.95, 0.5, 0.1]


@pytest.mark.parametrize("file", sorted((shipped_models() / "prefixes").glob("*.json")), ids=lambda f: f.stem)
def test_typing_along_moves_the_log_odds_of_each_calibrator_alike(file: Path) -> None:
    """By which certificates judge a moment under a calibrator that did not say anything then: one that lies
    half a nat off, as a refit is expected to."""
    curve = PrefixCurve.load(file)
    scales = curve.features[: len(PREFIX_FEATURES)]
    chance = random.Random(1)
    apart = []
    for _ in range(1000):
        places = [
            Prefix(end, tuple(one.mean + one.scale * chance.gauss(0, 1) for one in scales))
            for end in (4, 9, 15, 24)
        ]
        z, typed = chance.gauss(0, 1.5), chance.randint(1, 25)
        first, other = float(sigmoid(z)), float(sigmoid(z + chance.choice((-0.5, 0.5))))
        now = []
        for p in (first, other):
            right = curve.probabilities(places, p, "mid-line")
            begins = [Sure(one.end, q) for one, q in zip(places, right, strict=True)]
            now.append(curve.typed_along(begins, p, typed, 30)[0])
        show_again = Moments(at(0, first))
        show_again.shown(at(typed, now[0]))
        row = LabelledRow(
            *("s", "python", Evidence((-1.0,)), True, How.KEPT, 0.0, 0.0, "s", None, 1.0),
            calibrator_id="c",
            confidence=first,
            best=show_again.best.confidence,
        )
        apart.append(abs(personalisation.highest(other, row, "another") - now[1]))
    apart.sort()
    assert sum(apart) / len(apart) < 0.003
    assert apart[950] < 0.012
