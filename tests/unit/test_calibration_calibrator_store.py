"""Which calibrator is in force: the user's own, a shipped one, or a borrowed one; and the way back."""

import math
import os
import time

import attrs
import pytest
from test_calibration_calibrator import make, platt, predict

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.tiers import TierPolicy
from lsp_calib.errors import CalibratorError
from lsp_calib.values import Evidence, ModelIdentity, Tier

PURPOSE = make().purpose


def other(name, slope, intercept, task="line", measure="geometric-mean-first-4", **changes):
    purpose = Purpose(ModelIdentity(name, "Q4", name[0] * 64), "prefix-1", task, "python")
    return make(purpose=purpose, **{**platt(slope, intercept, measure), **changes})


def personal(intercept, **changes):
    return make(**platt(0.9, intercept), source="personal", state="learning", **changes)


@pytest.fixture
def store(tmp_path):
    return CalibratorStore(tmp_path / "home" / "calibrators", tmp_path / "shipped")


def ship(store, *calibrators):
    for calibrator in calibrators:
        calibrator.save(store.shipped / f"{calibrator.id}.json")


def test_shipped_is_chosen_by_model_prompt_task_and_language(store):
    ship(store, make(), other("x", 0.7, -1.0))
    assert store.choose(PURPOSE).calibrator == make()
    for changes in (
        {"prompt_version": "prefix-2"},
        {"task": "summary"},
        {"language": "java"},
        {"model": ModelIdentity("y", "Q4", "y" * 64)},
    ):
        assert store.choose(attrs.evolve(PURPOSE, **changes)).calibrator.source == "prior"


def test_personal_comes_before_shipped(store):
    ship(store, make())
    mine = personal(-1.0)
    store.promote(mine)
    assert store.choose(PURPOSE).calibrator == mine
    assert store.choose(PURPOSE, personal=False).calibrator == make()
    assert store.choose(attrs.evolve(PURPOSE, language="java")).calibrator.source == "prior"


def test_one_of_several_languages_stays_for_those_that_a_new_one_does_not_serve(store):
    both = attrs.evolve(PURPOSE, language="java,python")
    of_both, of_python = personal(-1.0, purpose=both), personal(-2.0)
    java = attrs.evolve(PURPOSE, language="java")
    store.promote(of_both)
    store.promote(of_python)
    assert store.choose(PURPOSE).calibrator == of_python
    assert store.choose(java).calibrator == of_both
    # The other way round it takes the place of both.
    store.promote(of_both)
    assert store.choose(PURPOSE).calibrator == store.choose(java).calibrator == of_both


def test_a_changed_file_counts_though_its_size_and_times_have_not_changed(store):
    """Files that were read before are not parsed again: what counts is what is in them now."""
    one, another = personal(-1.0), personal(-2.0)
    path = store.promote(one)
    before = path.stat()
    assert store.choose(PURPOSE).calibrator == one
    path.write_text(path.read_text().replace("-1.0", "-2.0").replace(one.id, another.id))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_ino) == (before.st_size, before.st_ino)
    assert store.choose(PURPOSE).calibrator == another
    path.write_text(path.read_text().replace(another.id, one.id))
    for _ in range(2):
        assert "the file was changed" in store.choose(PURPOSE).skipped[0]


def test_a_file_is_read_once_however_often_is_chosen(store, monkeypatch):
    """Whatever a first hover, a refit and a list ask for; another file is read when it is there."""
    ship(store, make(), other("x", 0.7, -1.0), other("y", 0.7, -1.0, task="summary"))
    store.promote(mine := personal(-1.0))
    time.sleep(0.1)  # a file that changed just now is not trusted to stay as it is
    load, read = Calibrator.load, []
    monkeypatch.setattr(Calibrator, "load", lambda path: read.append(path.name) or load(path))
    store = CalibratorStore(store.personal, store.shipped)
    for _ in range(3):
        store.choose(attrs.evolve(PURPOSE, task="summary"))
        assert store.choose(PURPOSE).calibrator == mine
        store.earlier(PURPOSE)
        store.base(PURPOSE)
        store.listed()
    assert len(read) == len(set(read)) == 4
    ship(store, make(created="2027-01-01"))
    assert store.choose(PURPOSE, personal=False).calibrator.created == "2027-01-01"
    assert set(read[4:]) == {f"{make(created='2027-01-01').id}.json"}


def test_borrowed_has_the_mean_and_spread_of_the_task(store):
    ship(
        store,
        other("a", 0.6, -1.0, n=100, n_correct=40),
        other("b", 1.0, -3.0),
        other("c", 5.0, 5.0, task="summary"),
        other("d", 9.0, 9.0, measure="total"),
    )
    purpose = attrs.evolve(PURPOSE, model=ModelIdentity("new", "", ""))
    borrowed = store.choose(purpose).calibrator
    assert (borrowed.source, borrowed.n, borrowed.state) == ("prior", 0, "learning")
    assert borrowed.purpose == purpose
    assert borrowed.raw_measure == "geometric-mean-first-4"
    curve, of_one = borrowed.curves
    assert curve.features[0].weight == pytest.approx(0.8)
    assert curve.intercept == pytest.approx(-2.0)
    relative = 0.2 / 0.8  # each slope's distance from the mean, in mean slopes
    assert curve.shift.slope_sd == pytest.approx(math.sqrt((2 * relative**2 + 0.25) / 2))
    assert curve.shift.intercept_sd == pytest.approx(math.sqrt((1 + 1 + 4) / 2))
    assert (curve.shift.slope, curve.shift.intercept) == (1.0, 0.0)
    assert (of_one.measure, of_one.intercept, of_one.shift.intercept_sd) == ("total", 9.0, 2.0)
    assert sorted(origin.items for origin in borrowed.provenance) == [100, 400, 400]
    assert borrowed.assess(Evidence(tuple([-1e-6] * 4)), TierPolicy()).tier is Tier.REVIEW


def test_summaries_borrow_from_no_other_model_but_from_other_languages(store):
    """A summary that one model makes of sentences it likes says nothing of another's."""
    ship(store, other("a", 0.6, 1.0, task="summary"))
    model = ModelIdentity("a", "Q4", "a" * 64)
    purpose = attrs.evolve(PURPOSE, task="summary")
    policy = TierPolicy()
    assert store.choose(purpose).calibrator.assess(Evidence((-0.001,)), policy).calibrated is None
    same = store.choose(attrs.evolve(purpose, model=model, language="go")).calibrator
    assert (same.source, len(same.provenance)) == ("prior", 1)
    assert same.assess(Evidence((-0.001,)), policy).calibrated is not None


def test_without_anything_a_cautious_default(store):
    choice = store.choose(PURPOSE)
    assert choice.skipped == ()
    assert choice.calibrator.source == "prior"
    assert predict(choice.calibrator, 0.9) < 0.6
    shift = choice.calibrator.curves[0].shift
    assert (shift.slope_sd, shift.intercept_sd) == (0.5, 2.0)
    assert choice.calibrator.assess(Evidence((-1e-9,)), TierPolicy()).tier is Tier.REVIEW


def test_a_corrupt_or_foreign_file_is_skipped_and_named(store):
    ship(store, make())
    slot = store.promote(personal(-1.0))
    slot.write_text("{not json")
    (store.personal / "half.json").write_text('{"schema": 1}')
    choice = store.choose(PURPOSE)
    assert choice.calibrator == make()
    assert len(choice.skipped) == 2
    assert any("half.json" in reason for reason in choice.skipped)
    assert any(slot.name in reason for reason in choice.skipped)

    foreign = other("z", 1.0, 0.0, source="personal")
    foreign.save(slot)
    (store.personal / "half.json").unlink()
    choice = store.choose(PURPOSE)
    assert choice.calibrator == make()
    assert len(choice.skipped) == 1
    assert "is for" in choice.skipped[0]


def test_promoting_over_a_corrupt_file_keeps_it_for_inspection(store):
    slot = store.promote(personal(-1.0))
    slot.write_text("{not json")
    store.promote(personal(-1.5))
    assert store.choose(PURPOSE).calibrator == personal(-1.5)
    assert (store.personal / "history" / f"{slot.name}.unreadable").read_text() == "{not json"


def test_languages_and_models_have_slots_of_their_own(store):
    java = personal(-1.1, purpose=attrs.evolve(PURPOSE, language="java"))
    bigger = personal(-1.2, purpose=attrs.evolve(PURPOSE, model=ModelIdentity("q", "", "d" * 64)))
    for calibrator in (personal(-1.0), java, bigger):
        store.promote(calibrator)
    for calibrator in (personal(-1.0), java, bigger):
        assert store.choose(calibrator.purpose).calibrator == calibrator


def test_a_crash_while_promoting_leaves_one_in_force(store, monkeypatch):
    store.promote(personal(-1.0))
    save = Calibrator.save

    def crash(self, path):
        if path.parent == store.personal:
            raise CalibratorError("power cut")
        save(self, path)

    monkeypatch.setattr(Calibrator, "save", crash)
    with pytest.raises(CalibratorError, match="power cut"):
        store.promote(personal(-2.0))
    assert store.choose(PURPOSE).calibrator == personal(-1.0)


def test_open_uses_the_users_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path))
    opened = CalibratorStore.open()
    assert opened.personal == tmp_path / "calibrators"
    assert opened.shipped.name == "calibrators"
