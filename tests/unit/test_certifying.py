"""From the store to a certificate: what is set aside, what a fit sees, what is watched."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from msgspec.structs import replace
from test_calibration_calibrator import make, platt
from test_feedback_learning import MODEL, PURPOSE, START, User

from lsp_calib.calibration.calibrators import calibrator_store
from lsp_calib.calibration.calibrators.calibrator import Curve, Weighted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, editing
from lsp_calib.calibration.certificates import AS_BEFORE, Ledger, Promise
from lsp_calib.calibration.tiers import RiskPolicy
from lsp_calib.errors import CalibratorError
from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.feedback.personalisation import LEAST_NEW, try_out, visits
from lsp_calib.values import Evidence

PROMISE = Promise()
SHIPPED = make(purpose=PURPOSE, **platt(1.0, -2.0, "geometric-mean-first-4"))


def begun(folder: Path) -> User:
    SHIPPED.save(folder / "shipped" / "one.json")
    user = User(folder)
    (folder / "home" / "feedback.key").write_bytes(bytes(range(32)))  # the halves are those of this key
    return user


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with closing(begun(tmp_path)) as user:
        yield user


def live(user: User, n: int, *, begin: int = 0, wrong: float = 0.0) -> None:
    """n lines. Half of them are sure ones, of which a share is wrong; of the others most are."""
    chance, events = random.Random(begin), []
    for number in range(begin, begin + n):
        sure = number % 2 == 0
        # No two lines look the same: of one line few visits count.
        user.show(f"s{number:06}", (-0.03 if sure else -1.8) * (1 - number / 1e4), START + number)
        right, at = chance.random() >= (wrong if sure else 0.8), START + number + 0.5
        label = Label(f"s{number:06}", right, How.KEPT if right else How.EDITED, at)
        events.append(Event(label.suggestion_id, EventKind.SETTLED, at, label=label))
    user.store.record_events(events)


@pytest.fixture(scope="module")
def with_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    with closing(begun(folder)) as user:
        live(user, 400)
        assert user.refit(PROMISE).certificate["certified"]
    return folder


@pytest.fixture
def certified(with_certificate: Path, tmp_path: Path) -> Iterator[User]:
    """A user with 400 labels and a certificate that came of them: made once, and copied for each test."""
    shutil.copytree(with_certificate, tmp_path, dirs_exist_ok=True)
    with closing(User(tmp_path)) as user:
        yield user


class TestSettingAside:
    def test_a_fit_sees_the_other_half_and_always_the_same(self, user: User) -> None:
        live(user, 400)
        result = user.refit(PROMISE)
        assert result.promoted, result.reason
        aside = user.aside()
        assert 150 < sum(aside) < 250
        assert result.n == 400 - sum(aside)
        sure = [is_aside for number, is_aside in enumerate(aside) if number % 2 == 0]
        assert result.certificate["aside"] == sum(sure), "those that could be accepted"
        live(user, 100, begin=400)
        assert (user.aside()[:400] == aside).all()
        # In each version: one that divided them differently would certify on what was fitted on.
        assert user.store.holdout(["a", "b", "c", "d"]) == {"a", "d"}

    def test_it_goes_by_the_visit_to_a_line(self, user: User) -> None:
        live(user, 60)
        user.store._connection.execute(
            "UPDATE labels SET episode = 'visit ' || (CAST(substr(suggestion_id, 2) AS INTEGER) / 5)"
        )
        with editing(user.calibrators.ledger_path(PURPOSE)) as held:
            held.ledger = Ledger().opened(PROMISE, key=user.store.key_mark(), used_until=0.0)
        rows = user.rows()
        aside = user.aside()
        for at in range(0, 60, 5):
            assert len(set(aside[at : at + 5])) == 1
        assert len(visits(rows)) == 12
        assert len({row.episode for row in visits(rows)}) == 12

    def test_without_a_promise_a_fit_takes_all_and_none_of_them_can_be_promised_on_later(
        self, user: User
    ) -> None:
        live(user, 300)
        result = user.refit(None)
        assert result.n == 300
        assert result.certificate is None
        later = user.refit(PROMISE)
        assert later.certificate["reason"] == "not enough labels yet: 0 of 27"
        assert later.n == 300, "they are for fitting from now on"

    def test_nothing_is_in_force_whose_labels_do_not_count_as_used(
        self, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a full disk, or if the process is killed between the two files."""
        live(user, 300)
        before = user.in_force()

        def full(*_: object) -> None:
            raise CalibratorError("The file cannot be written: No space left on device.")

        with monkeypatch.context() as context:
            context.setattr(calibrator_store, "write_document", full)
            with pytest.raises(CalibratorError, match="No space left"):
                user.refit(None)
        assert user.in_force() == before

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(CalibratorStore, "promote", killed)
        with pytest.raises(KeyboardInterrupt):
            user.refit(None)
        assert user.ledger().used_until == max(row.at for row in user.rows())

    def test_the_same_where_a_calibrator_is_older_than_the_ledger(self, user: User) -> None:
        live(user, 300)
        user.refit(None)
        user.calibrators.ledger_path(PURPOSE).unlink()
        assert user.refit(PROMISE).certificate["aside"] == 0

    def test_an_import_is_tried_on_labels_that_are_not_set_aside(self, certified: User) -> None:
        aside = sum(certified.aside())
        live(certified, 100, begin=400)
        trial = try_out(certified.store, certified.calibrators, SHIPPED)
        assert trial.n == 100 - (sum(certified.aside()) - aside)


class TestCertificates:
    def test_a_good_calibrator_earns_one_and_its_tiers_say_so(self, certified: User) -> None:
        current = certified.in_force()
        certificate = certified.ledger().certificate(current.id, PROMISE)
        found = current.assess(Evidence((-0.025,)), RiskPolicy(certificate=certificate))
        assert (found.tier, found.certified) == ("accept", True)
        assert "at most 10 % are wrong (certified on" in found.reason
        assert not current.assess(Evidence((-1.8,)), RiskPolicy(certificate=certificate)).certified

    def test_labels_from_before_there_were_features_carry_none_for_what_weighs_features(
        self, user: User, tmp_path: Path
    ) -> None:
        """Another curve judges them than will judge what comes."""
        curve = Curve("features-2", (Weighted("total", -1.0, 1.0, 2.0),), 0.0, spread=1.0)
        weighing = attrs.evolve(SHIPPED, curves=(curve, *SHIPPED.curves), created="2026-12-01")
        weighing.save(tmp_path / "shipped" / "two.json")
        live(user, 400)
        assert user.refit(PROMISE).certificate["aside"] == 0
        total = attrs.evolve(PROMISE, measure="geometric-mean")
        assert user.refit(total).certificate["aside"] > 50

    def test_what_was_asked_survives_a_rollback(self, certified: User) -> None:
        """The calibrator before has no certificate, and another one costs what the next one costs."""
        assert certified.ledger().asked == 1
        certified.calibrators.rollback(PURPOSE)
        ledger = certified.ledger()
        current = certified.in_force()
        assert current.source == "shipped"
        assert ledger.certificate(current.id, PROMISE).threshold is None
        assert (ledger.asked, ledger.needed) == (1, 40)

    def test_a_calibrator_without_a_certificate_does_not_replace_one_that_has_one(
        self, certified: User
    ) -> None:
        before = certified.in_force().id
        with editing(certified.calibrators.ledger_path(PURPOSE)) as held:
            held.ledger = replace(held.ledger, asked=10_000)  # another one is out of reach
        live(certified, 200, begin=400)
        result = certified.refit(PROMISE)
        assert not result.promoted
        assert result.calibrator is None
        assert certified.in_force().id == before
        if "certificate" not in result.reason:  # the comparison has refused it already
            pytest.fail(result.reason)
        assert result.certificate["certified"]

    def test_a_damaged_ledger_refuses_a_refit(self, user: User) -> None:
        live(user, 40)
        user.refit(PROMISE)
        user.calibrators.ledger_path(PURPOSE).write_text("{}", "utf-8")
        with pytest.raises(CalibratorError, match="which certificates were requested"):
            user.refit(PROMISE)

    def test_a_damaged_one_that_was_removed_makes_no_old_label_count(self, certified: User) -> None:
        path = certified.calibrators.ledger_path(PURPOSE)
        certified.calibrators.rollback(PURPOSE)  # no file tells any more what was fitted on
        path.write_text("{}", "utf-8")
        with pytest.raises(CalibratorError, match="later labels alone"):
            certified.refit(PROMISE)
        path.unlink()
        result = certified.refit(PROMISE)
        assert (result.certificate["certified"], result.certificate["aside"]) == (False, 0)
        assert not any(certified.aside())

    def test_a_model_under_another_name_is_the_same_to_a_promise(self, certified: User) -> None:
        """Labels and calibrators go by its file: a fit under one name uses what is unseen under the other."""
        renamed = attrs.evolve(PURPOSE, model=attrs.evolve(MODEL, name="copy-of-it"))
        assert certified.calibrators.ledger(renamed) == certified.ledger()
        certified.refit(None, purpose=renamed)
        assert certified.refit(PROMISE).certificate["aside"] == 0

    def test_a_wish_without_a_measure_keeps_that_of_before(self, user: User) -> None:
        """The command line knows no editor's settings: its refit takes no certificate away."""
        live(user, 400)
        total = Promise(measure="total")
        user.refit(total)
        before = user.ledger()
        assert before.asked == 1
        user.refit(Promise(measure=AS_BEFORE))
        after = user.ledger()
        assert (after.promise, after.asked, after.watch) == (total, 1, before.watch)

    def test_no_source_text_is_in_the_ledger(self, certified: User) -> None:
        document = json.loads(certified.calibrators.ledger_path(PURPOSE).read_text("utf-8"))
        texts = [value for value in document.values() if isinstance(value, str)]
        assert sorted(texts) == sorted(document[name] for name in ("key", "askedOf", "refusal", "refusalOf"))


class TestTheWatch:
    def test_a_visit_counts_once_however_often_the_line_is_saved(self, certified: User) -> None:
        counted = certified.ledger()
        for number in range(400, 412):
            at = START + number
            certified.show(f"s{number}", -0.001, at)
            certified.settle(f"s{number}", False, at + 0.5, episode="the visit")
            _, ledger = certified.watch()
            assert (ledger.watch.seen, ledger.watch.errors) == (1, 1)
            assert ledger.aside - counted.aside <= 1
            assert ledger.read_until == at + 0.5
        assert not ledger.watch.certificate.revoked

    def test_what_is_provisional_does_not_count_until_it_settles(self, certified: User) -> None:
        """Neither for the watch nor among what is set aside."""
        counted = certified.ledger()
        events = []
        for number in range(400, 440):
            certified.show(f"s{number}", -0.03 * (1 - number / 1e4), START + number)
            label = Label(f"s{number}", True, How.KEPT, START + number + 0.5, settled=False)
            events.append(Event(label.suggestion_id, EventKind.PROVISIONAL, label.at, label=label))
        certified.store.record_events(events)
        certified.store.settle_left = lambda _: None  # type: ignore[method-assign] # these are young
        _, ledger = certified.watch()
        assert (ledger.aside, ledger.watch.seen) == (counted.aside, 0)
        for one in events:
            label = attrs.evolve(one.label, settled=True, at=one.at + 30)
            settled = Event(one.suggestion_id, EventKind.SETTLED, label.at, label=label)
            certified.store.record_events([settled])
        _, ledger = certified.watch()
        assert ledger.watch.seen == 40

    def test_drift_revokes_and_later_labels_earn_another(self, certified: User) -> None:
        live(certified, 100, begin=400)
        before, good = certified.watch()
        assert good.watch.seen == 50, "both halves are watched"
        assert good.aside > before.aside
        assert not good.watch.certificate.revoked
        live(certified, 100, begin=500, wrong=0.6)
        _, bad = certified.watch()
        assert bad.is_drifted(certified.in_force().id)
        assert certified.ledger() == bad, "on disk"
        assert certified.watch() == (bad, bad), "nothing counts twice"
        live(certified, 1200, begin=600)
        result = certified.refit(PROMISE)
        assert result.certificate["certified"], result.certificate["reason"]

    def test_labels_under_another_calibrator_say_nothing_of_the_promise(self, certified: User) -> None:
        certified.calibrators.rollback(PURPOSE)
        live(certified, 100, begin=400, wrong=1.0)
        _, after = certified.watch()
        assert after.watch.seen == 0


class TestByItself:
    def test_a_refit_is_due_after_thirty_lines_and_a_fifth(self, user: User) -> None:
        live(user, LEAST_NEW - 1)
        assert not user.is_due()
        live(user, 1, begin=LEAST_NEW - 1)
        assert user.is_due()
        done = user.refit_where_due()
        assert [language for language, _ in done.results] == ["python"]
        assert user.refit_where_due() is None
        live(user, 370, begin=LEAST_NEW)
        user.refit_where_due()
        live(user, 79, begin=400)
        assert not user.is_due(), "a fifth of 400 is 80"
        live(user, 1, begin=479)
        assert user.is_due()

    def test_a_refused_refit_is_not_repeated_at_once(self, user: User) -> None:
        for number in range(40):
            user.show(f"s{number}", -0.1, START + number)
            user.settle(f"s{number}", True, START + number)
        (_, result) = user.refit_where_due().results[0]  # type: ignore[union-attr]
        assert not result.promoted
        assert not user.is_due()
