"""From the store to a certificate: what is set aside, what a fit sees, what is watched."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from msgspec.structs import replace
from test_calibration_calibrator import make, platt
from test_feedback_learning import MODEL, PURPOSE, START, TODAY, settle, show

from lsp_calib.calibration.calibrators import ledger_file
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.curve import Curve, Weighted
from lsp_calib.calibration.calibrators.ledger_file import editing
from lsp_calib.calibration.certificates import AS_BEFORE, Ledger, Promise
from lsp_calib.calibration.tiers import RiskPolicy
from lsp_calib.errors import CalibratorError
from lsp_calib.feedback.events import Event, EventKind, How, Label, Source
from lsp_calib.feedback.learning import (
    LEAST_NEW,
    is_due,
    labels_for,
    refit_from_feedback,
    refit_where_due,
    set_aside,
    try_out,
    visits,
    watch_labels,
)
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import Evidence

PROMISE = Promise()
SHIPPED = make(purpose=PURPOSE, **platt(1.0, -2.0, "geometric-mean-first-4"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FeedbackStore]:
    store = FeedbackStore(tmp_path / "home" / "feedback.db")
    (tmp_path / "home" / "feedback.key").write_bytes(bytes(range(32)))  # the halves are those of this key
    yield store
    store.close()


@pytest.fixture
def calibrators(tmp_path: Path) -> CalibratorStore:
    SHIPPED.save(tmp_path / "shipped" / "one.json")
    return CalibratorStore(tmp_path / "home" / "calibrators", tmp_path / "shipped")


def live(store: FeedbackStore, n: int, *, begin: int = 0, wrong: float = 0.0) -> None:
    """n lines. Half of them are sure ones, of which a share is wrong; of the others most are."""
    chance, events = random.Random(begin), []
    for number in range(begin, begin + n):
        sure = number % 2 == 0
        # No two lines look the same: of one line few visits count.
        show(store, f"s{number:06}", (-0.03 if sure else -1.8) * (1 - number / 1e4), START + number)
        right, at = chance.random() >= (wrong if sure else 0.8), START + number + 0.5
        label = Label(f"s{number:06}", right, How.KEPT if right else How.EDITED, at)
        events.append(Event(label.suggestion_id, EventKind.SETTLED, at, label=label))
    store.record_events(events)


def replay(store: FeedbackStore, n: int, *, begin: int, right: bool) -> None:
    """n lines that were completed after they had been typed, sure ones."""
    for number in range(begin, begin + n):
        name, at = f"r{number:06}", START + number + 0.5
        label = Label(name, right, How.TYPED if right else How.TYPED_OVER, at)
        show(store, name, -0.03 * (1 - number / 1e4), at, source=Source.REPLAY, label=label)


def refit(store: FeedbackStore, calibrators: CalibratorStore, promise: Promise | None = PROMISE) -> object:
    return refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=promise)


class TestSettingAside:
    def test_a_fit_sees_the_other_half_and_always_the_same(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert result.promoted, result.reason
        rows = labels_for(store, PURPOSE)
        aside = set_aside(store, calibrators.ledger(PURPOSE), rows)
        assert 150 < sum(aside) < 250
        assert result.n == 400 - sum(aside)
        assert result.certificate is not None
        sure = [is_aside for number, is_aside in enumerate(aside) if number % 2 == 0]
        assert result.certificate["aside"] == sum(sure), "those that could be accepted"
        live(store, 100, begin=400)
        more = set_aside(store, calibrators.ledger(PURPOSE), labels_for(store, PURPOSE))
        assert more[:400] == aside
        # In each version: one that divided them differently would certify on what was fitted on.
        assert store.holdout_mask(["a", "b", "c", "d"]) == [True, False, False, True]

    def test_replayed_lines_are_fitted_on_and_never_set_aside(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """The promise is of what is shown."""
        live(store, 200)
        replay(store, 100, begin=200, right=True)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        rows = labels_for(store, PURPOSE)
        aside = set_aside(store, calibrators.ledger(PURPOSE), rows)
        assert not any(
            is_aside for row, is_aside in zip(rows, aside, strict=True) if row.source is Source.REPLAY
        )
        assert any(aside)
        assert result.n == 300 - sum(aside)

    def test_it_goes_by_the_visit_to_a_line(self, store: FeedbackStore, calibrators: CalibratorStore) -> None:
        live(store, 60)
        store._connection.execute(
            "UPDATE labels SET episode = 'visit ' || (CAST(substr(suggestion_id, 2) AS INTEGER) / 5)"
        )
        with editing(calibrators.ledger_path(PURPOSE)) as held:
            held.ledger = Ledger().opened(PROMISE, key=store.key_mark(), used_until=0.0)
        rows = labels_for(store, PURPOSE)
        aside = set_aside(store, calibrators.ledger(PURPOSE), rows)
        for at in range(0, 60, 5):
            assert len(set(aside[at : at + 5])) == 1
        assert len(visits(rows)) == 12
        assert len({row.episode for row in visits(rows)}) == 12

    def test_of_one_line_few_visits_count(self, store: FeedbackStore) -> None:
        for number in range(15):
            show(store, f"s{number}", -0.1, START + number)
            settle(store, f"s{number}", True, START + number)
        rows = labels_for(store, PURPOSE)
        assert len(visits(rows)) == 15
        assert [row.suggestion_id for row in visits(rows, most_of_a_line=3)] == ["s0", "s1", "s2"]

    def test_without_a_promise_a_fit_takes_all_and_none_of_them_can_be_promised_on_later(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 300)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=None)
        assert result.n == 300
        assert result.certificate is None
        later = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert later.certificate is not None
        assert later.certificate["reason"] == "not enough labels yet: 0 of 27"
        assert later.n == 300, "they are for fitting from now on"

    def test_nothing_is_in_force_whose_labels_do_not_count_as_used(
        self, store: FeedbackStore, calibrators: CalibratorStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a full disk, or if the process is killed between the two files."""
        live(store, 300)
        before = calibrators.choose(PURPOSE).calibrator

        def full(*_: object) -> None:
            raise CalibratorError("The file cannot be written: No space left on device.")

        with monkeypatch.context() as context:
            context.setattr(ledger_file, "write_document", full)
            with pytest.raises(CalibratorError, match="No space left"):
                refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=None)
        assert calibrators.choose(PURPOSE).calibrator == before

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(CalibratorStore, "promote", killed)
        with pytest.raises(KeyboardInterrupt):
            refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=None)
        assert calibrators.ledger(PURPOSE).used_until == max(row.at for row in labels_for(store, PURPOSE))

    def test_the_same_where_a_calibrator_is_older_than_the_ledger(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 300)
        refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=None)
        calibrators.ledger_path(PURPOSE).unlink()
        later = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert later.certificate is not None
        assert later.certificate["aside"] == 0

    def test_an_import_is_tried_on_labels_that_are_not_set_aside(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        refit(store, calibrators)
        aside = sum(set_aside(store, calibrators.ledger(PURPOSE), labels_for(store, PURPOSE)))
        live(store, 100, begin=400)
        trial = try_out(store, calibrators, SHIPPED)
        more = sum(set_aside(store, calibrators.ledger(PURPOSE), labels_for(store, PURPOSE)))
        assert trial.n == 100 - (more - aside)


class TestCertificates:
    def test_a_good_calibrator_earns_one_and_its_tiers_say_so(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert result.certificate is not None
        assert result.certificate["certified"], result.certificate["reason"]
        current = calibrators.choose(PURPOSE).calibrator
        certificate = calibrators.ledger(PURPOSE).certificate(current.id, PROMISE)
        found = current.assess(Evidence((-0.025,)), RiskPolicy(certificate=certificate))
        assert (found.tier, found.certified) == ("accept", True)
        assert "at most 10 % are wrong (certified on" in found.reason
        assert not current.assess(Evidence((-1.8,)), RiskPolicy(certificate=certificate)).certified

    def test_labels_from_before_there_were_features_carry_none_for_what_weighs_features(
        self, store: FeedbackStore, calibrators: CalibratorStore, tmp_path: Path
    ) -> None:
        """Another curve judges them than will judge what comes."""
        curve = Curve("features-1", (Weighted("total", -1.0, 1.0, 2.0),), 0.0, spread=1.0)
        weighing = attrs.evolve(SHIPPED, curves=(curve, *SHIPPED.curves), created="2026-12-01")
        weighing.save(tmp_path / "shipped" / "two.json")
        live(store, 400)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert result.certificate is not None
        assert result.certificate["aside"] == 0
        total = attrs.evolve(PROMISE, measure="geometric-mean")
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=total)
        assert result.certificate is not None
        assert result.certificate["aside"] > 50

    def test_what_was_asked_survives_a_rollback(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """The calibrator before has no certificate, and another one costs what the next one costs."""
        live(store, 400)
        refit(store, calibrators)
        assert calibrators.ledger(PURPOSE).asked == 1
        calibrators.rollback(PURPOSE)
        ledger = calibrators.ledger(PURPOSE)
        current = calibrators.choose(PURPOSE).calibrator
        assert current.source == "shipped"
        assert ledger.certificate(current.id, PROMISE).threshold is None
        assert (ledger.asked, ledger.needed) == (1, 40)

    def test_a_calibrator_without_a_certificate_does_not_replace_one_that_has_one(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        refit(store, calibrators)
        before = calibrators.choose(PURPOSE).calibrator.id
        with editing(calibrators.ledger_path(PURPOSE)) as held:
            held.ledger = replace(held.ledger, asked=10_000)  # another one is out of reach
        live(store, 200, begin=400)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert not result.promoted
        assert result.calibrator is None
        assert calibrators.choose(PURPOSE).calibrator.id == before
        if "certificate" not in result.reason:  # the comparison has refused it already
            pytest.fail(result.reason)
        assert result.certificate is not None
        assert result.certificate["certified"]

    def test_a_damaged_ledger_refuses_a_refit(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 40)
        refit(store, calibrators)
        calibrators.ledger_path(PURPOSE).write_text("{}", "utf-8")
        with pytest.raises(CalibratorError, match="which certificates were requested"):
            refit(store, calibrators)

    def test_a_damaged_one_that_was_removed_makes_no_old_label_count(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        path = calibrators.ledger_path(PURPOSE)
        refit(store, calibrators)
        calibrators.rollback(PURPOSE)  # no file tells any more what was fitted on
        path.write_text("{}", "utf-8")
        with pytest.raises(CalibratorError, match="later labels alone"):
            refit(store, calibrators)
        path.unlink()
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert result.certificate is not None
        assert (result.certificate["certified"], result.certificate["aside"]) == (False, 0)
        assert not any(set_aside(store, calibrators.ledger(PURPOSE), labels_for(store, PURPOSE)))

    def test_a_model_under_another_name_is_the_same_to_a_promise(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """Labels and calibrators go by its file: a fit under one name uses what is unseen under the other."""
        live(store, 400)
        refit(store, calibrators)
        renamed = attrs.evolve(PURPOSE, model=attrs.evolve(MODEL, name="copy-of-it"))
        assert calibrators.ledger(renamed) == calibrators.ledger(PURPOSE)
        refit_from_feedback(store, calibrators, renamed, TODAY, promise=None)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert result.certificate is not None
        assert result.certificate["aside"] == 0

    def test_a_wish_without_a_measure_keeps_that_of_before(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """The command line knows no editor's settings: its refit takes no certificate away."""
        live(store, 400)
        total = Promise(measure="total")
        refit(store, calibrators, total)
        before = calibrators.ledger(PURPOSE)
        assert before.asked == 1
        refit(store, calibrators, Promise(measure=AS_BEFORE))
        after = calibrators.ledger(PURPOSE)
        assert (after.promise, after.asked, after.watch) == (total, 1, before.watch)

    def test_without_one_before_it_is_the_best_measure(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 40)
        refit(store, calibrators, Promise(measure=AS_BEFORE))
        assert calibrators.ledger(PURPOSE).promise == PROMISE

    def test_no_source_text_is_in_the_ledger(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        refit(store, calibrators)
        document = json.loads(calibrators.ledger_path(PURPOSE).read_text("utf-8"))
        texts = [value for value in document.values() if isinstance(value, str)]
        assert sorted(texts) == sorted(document[name] for name in ("key", "askedOf", "refusal", "refusalOf"))


class TestTheWatch:
    def test_a_visit_counts_once_however_often_the_line_is_saved(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        refit(store, calibrators)
        counted = calibrators.ledger(PURPOSE)
        for number in range(400, 412):
            at = START + number
            label = Label(f"s{number}", False, How.EDITED, at + 0.5, episode="the visit")
            show(store, f"s{number}", -0.001, at)
            store.record_events([Event(f"s{number}", EventKind.SETTLED, at + 0.5, label=label)])
            _, ledger = watch_labels(store, calibrators, PURPOSE, PROMISE)
            assert ledger.watch is not None
            assert (ledger.watch.seen, ledger.watch.errors) == (1, 1)
            assert ledger.aside - counted.aside <= 1
            assert ledger.read_until == at + 0.5
        assert not ledger.watch.certificate.revoked

    def test_drift_revokes_and_later_labels_earn_another(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        refit(store, calibrators)
        live(store, 100, begin=400)
        before, good = watch_labels(store, calibrators, PURPOSE, PROMISE)
        assert good.watch is not None
        assert good.watch.seen == 50, "both halves are watched"
        assert good.aside > before.aside
        assert not good.watch.certificate.revoked
        live(store, 100, begin=500, wrong=0.6)
        _, bad = watch_labels(store, calibrators, PURPOSE, PROMISE)
        current = calibrators.choose(PURPOSE).calibrator
        assert bad.is_drifted(current.id)
        assert calibrators.ledger(PURPOSE) == bad, "on disk"
        assert watch_labels(store, calibrators, PURPOSE, PROMISE) == (bad, bad), "nothing counts twice"
        live(store, 1200, begin=600)
        result = refit_from_feedback(store, calibrators, PURPOSE, TODAY, promise=PROMISE)
        assert result.certificate is not None
        assert result.certificate["certified"], result.certificate["reason"]

    def test_replayed_lines_say_nothing_of_the_promise(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        """As many shown ones revoke it, see above."""
        live(store, 400)
        refit(store, calibrators)
        live(store, 100, begin=400)
        _, good = watch_labels(store, calibrators, PURPOSE, PROMISE)
        replay(store, 200, begin=500, right=False)
        assert watch_labels(store, calibrators, PURPOSE, PROMISE) == (good, good)

    def test_labels_under_another_calibrator_say_nothing_of_the_promise(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, 400)
        refit(store, calibrators)
        calibrators.rollback(PURPOSE)
        live(store, 100, begin=400, wrong=1.0)
        _, after = watch_labels(store, calibrators, PURPOSE, PROMISE)
        assert after.watch is not None
        assert after.watch.seen == 0


class TestByItself:
    def test_a_refit_is_due_after_thirty_lines_and_a_fifth(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        live(store, LEAST_NEW - 1)
        assert not is_due(store, calibrators, PURPOSE)
        live(store, 1, begin=LEAST_NEW - 1)
        assert is_due(store, calibrators, PURPOSE)
        done = refit_where_due(store, calibrators, PURPOSE, TODAY, None)
        assert done is not None
        assert [language for language, _ in done.results] == ["python"]
        assert refit_where_due(store, calibrators, PURPOSE, TODAY, None) is None
        live(store, 370, begin=LEAST_NEW)
        refit_where_due(store, calibrators, PURPOSE, TODAY, None)
        live(store, 79, begin=400)
        assert not is_due(store, calibrators, PURPOSE), "a fifth of 400 is 80"
        live(store, 1, begin=479)
        assert is_due(store, calibrators, PURPOSE)

    def test_keystrokes_on_one_line_are_one(self, store: FeedbackStore, calibrators: CalibratorStore) -> None:
        live(store, 100)
        store._connection.execute("UPDATE labels SET episode = 'one'")
        assert store.visits_after(PURPOSE, 0.0) == 1
        assert not is_due(store, calibrators, PURPOSE)

    def test_a_refused_refit_is_not_repeated_at_once(
        self, store: FeedbackStore, calibrators: CalibratorStore
    ) -> None:
        for number in range(40):
            show(store, f"s{number}", -0.1, START + number)
            settle(store, f"s{number}", True, START + number)
        (_, result) = refit_where_due(store, calibrators, PURPOSE, TODAY, None).results[0]  # type: ignore[union-attr]
        assert not result.promoted
        assert not is_due(store, calibrators, PURPOSE)
