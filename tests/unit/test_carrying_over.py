"""What was learned with one prompt, measure or model is not lost with the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from command_scene import document, said
from msgspec.structs import replace

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import Calibrator, Shift
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, roll_back
from lsp_calib.calibration.calibrators.lent import carried_from
from lsp_calib.calibration.calibrators.promotion import LabelWeights
from lsp_calib.calibration.calibrators.purpose import Origin
from lsp_calib.calibration.calibrators.refit import FEEDBACK, refit
from lsp_calib.calibration.logistic import sigmoid
from lsp_calib.errors import CalibratorError
from lsp_calib.values import Evidence, ModelIdentity

CALIBRATORS = state.shipped_models() / "calibrators"
SMALL = Calibrator.load(CALIBRATORS / "line-smollm2-135m.json")
OTHER = Calibrator.load(CALIBRATORS / "line-qwen2.5-coder-1.5b.json")
SHIFT = Shift(slope=0.8, intercept=-1.0, slope_sd=0.25, intercept_sd=0.5)


def learned(shift: Shift = SHIFT, **changes: Any) -> Calibrator:
    """The calibrator of a user whose work differs from the shipped one by a shift."""
    made = attrs.evolve(
        SMALL,
        curves=tuple(curve.shifted(shift) for curve in SMALL.curves),
        source="personal",
        state="ready",
        n=143,
        n_correct=60,
        provenance=(Origin(FEEDBACK, "2026-11-01T00:00:00.000+00:00", 143),),
        created="2026-11-02",
        parent=SMALL.id,
    )
    return attrs.evolve(made, **changes)


def of_prompt(calibrator: Calibrator, version: str) -> Calibrator:
    return attrs.evolve(calibrator, purpose=attrs.evolve(calibrator.purpose, prompt_version=version))


@pytest.fixture
def store(home: Path) -> CalibratorStore:
    """A store in the state folder whose shipped calibrator is for a later prompt than the user's."""
    shipped = home / "shipped"
    of_prompt(SMALL, "line-next").save(shipped / "small.json")
    OTHER.save(shipped / "other.json")
    return CalibratorStore(home / "calibrators", shipped)


NEXT = attrs.evolve(SMALL.purpose, prompt_version="line-next")


def test_the_shift_is_carried_over_to_the_next_prompt(store: CalibratorStore) -> None:
    assert store.choose(NEXT).calibrator.source == "shipped"
    store.promote(learned())
    carried = store.choose(NEXT).calibrator
    base = of_prompt(SMALL, "line-next")
    assert (carried.source, carried.state, carried.n, carried.purpose) == ("personal", "learning", 143, NEXT)
    assert carried_from(carried) == learned().id
    assert carried.metrics == {}, "those of the shipped one say nothing about it"
    for curve, shipped in zip(carried.curves, base.curves, strict=True):
        assert curve.intercept == pytest.approx(0.8 * shipped.intercept - 1.0)
    assert Calibrator.from_json(json.loads(json.dumps(carried.to_json()))) == carried
    assert store.choose(NEXT, personal=False).calibrator == base, "the base of a refit stays what was shipped"


def test_a_calibrator_of_its_own_goes_first(store: CalibratorStore) -> None:
    store.promote(learned())
    own = of_prompt(learned(created="2026-11-03"), "line-next")
    store.promote(own)
    assert store.choose(NEXT).calibrator == own
    assert store.choose(SMALL.purpose).calibrator == learned()


def test_not_to_another_model_or_language(store: CalibratorStore) -> None:
    """There it is no more than where a refit expects the user."""
    store.promote(learned())
    assert store.choose(OTHER.purpose).calibrator == OTHER
    earlier = store.earlier(OTHER.purpose)
    assert (earlier.calibrator, earlier.same_model) == (learned(), False)
    assert store.choose(attrs.evolve(NEXT, language="rust")).calibrator.source == "prior"
    assert store.earlier(attrs.evolve(NEXT, language="rust")) is None
    same = attrs.evolve(NEXT, model=ModelIdentity("another name", "", SMALL.purpose.model.sha256))
    assert carried_from(store.choose(same).calibrator) == learned().id


def test_to_features_of_the_next_version(home: Path) -> None:
    """The user's calibrator weighs features that are no longer computed; its shift counts."""
    names = [curve.measure.replace("features-2", "features-999") for curve in SMALL.curves]
    old = [replace(curve, measure=name) for curve, name in zip(SMALL.curves, names, strict=True)]
    mine = learned(curves=tuple(curve.shifted(SHIFT) for curve in old))
    store = CalibratorStore(home / "calibrators", home / "shipped")
    SMALL.save(store.shipped / "small.json")
    store.promote(mine)
    carried = store.choose(SMALL.purpose).calibrator
    assert carried_from(carried) == mine.id
    assert carried.measure == SMALL.measure
    assert carried.curves[0].intercept == pytest.approx(0.8 * SMALL.curves[0].intercept - 1.0)


def test_an_absurd_shift_is_bounded_and_one_without_a_shift_is_not_carried(store: CalibratorStore) -> None:
    store.promote(learned(Shift(slope=-5.0, intercept=90.0, slope_sd=1, intercept_sd=1)))
    (curve, *_) = store.choose(NEXT).calibrator.curves
    assert (curve.shift.slope, curve.shift.intercept) == (0.25, 3.0)
    store.promote(learned(curves=SMALL.curves))
    assert store.choose(NEXT).calibrator.source == "shipped"


def test_a_refit_expects_the_user_where_they_were() -> None:
    """Ten labels of the new prompt: nearer to the truth than a refit that begins at the shipped one."""
    rng = np.random.default_rng(3)
    base = of_prompt(SMALL, "line-next")
    truth = base.curves[-1].shifted(SHIFT)
    losses: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(20):
        answers = [Evidence((float(-rng.exponential(0.7)),)) for _ in range(210)]
        p = sigmoid(truth.scores(answers))
        correct = rng.random(210) < p
        correct[:2] = [True, False]
        for known in (True, False):
            about: dict[str, Any] = {"created": "2026-12-01", "base": base, "seen": 0}
            earlier = learned() if known else None
            result = refit(base, answers[:10], correct[:10], LabelWeights.of(10), earlier=earlier, **about)
            used = result.calibrator or base
            losses[known].append(float(np.mean((used.probabilities(answers[10:]) - p[10:]) ** 2)))
    assert np.mean(losses[True]) < 0.7 * np.mean(losses[False])


def test_the_list_says_so_and_taking_it_back_takes_what_it_came_from(
    store: CalibratorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.promote(learned())
    monkeypatch.setattr(CalibratorStore, "open", classmethod(lambda _: store))
    entries = document("calibrators", "list")["calibrators"]
    (carried,) = [entry for entry in entries if entry["carriedFrom"]]
    assert (carried["inForce"], carried["carriedFrom"], carried["n"]) == (True, learned().id, 143)
    text = said("calibrators", "list")
    assert "What was learned from 143 labels" in text
    assert "line-next" in text
    shipped = of_prompt(SMALL, "line-next").id
    with pytest.raises(CalibratorError, match=f"is carried over from your {learned().id}"):
        roll_back(store, shipped)
    done = roll_back(store, used=carried["id"])
    assert done.before == learned()
    assert store.choose(NEXT).calibrator.source == "shipped"


def test_one_that_replaced_it_is_taken_back_by_its_id(store: CalibratorStore) -> None:
    """No file holds it, and it is in force again once the other one is not."""
    store.promote(learned())
    carried = store.choose(NEXT).calibrator
    own = of_prompt(learned(created="2026-11-03", parent=carried.id), "line-next")
    store.promote(own)
    done = roll_back(store, carried.id)
    assert (done.before, done.after) == (own, carried)
    assert store.choose(NEXT).calibrator == carried
