"""A model with labels serves every language and window: by the pooled curves, accept included."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
import pytest
from msgspec.structs import replace
from test_calibration_calibrator import make, platt

from lsp_calib.calibration.calibrators.calibrator import WITHOUT_GRAMMAR, Calibrator, Curve, Weighted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.lent import (
    FOLDER,
    POOLED_INTERCEPT_SD,
    POOLED_SLOPE_SD,
    Pooled,
    PooledCurve,
)
from lsp_calib.calibration.calibrators.promotion import LabelWeights
from lsp_calib.calibration.calibrators.purpose import Origin, Purpose
from lsp_calib.calibration.calibrators.refit import refit
from lsp_calib.calibration.document import read, written
from lsp_calib.calibration.tiers import TierPolicy
from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.features import FEATURES
from lsp_calib.errors import CalibratorError
from lsp_calib.values import Evidence, ModelIdentity, Tier

PURPOSE = make().purpose
SMALL, LARGE = PURPOSE.prompt_version, "prompt-of-the-large-window"
PROMPTS = {SMALL: -0.3, LARGE: 0.0}
TOTAL = Curve("total", (Weighted("total", 0.0, 1.0, 1.0),), -0.5)
# The same with a feature of a grammar, which a language may lack.
PARSED = Curve("features-2", (Weighted("total", 0.0, 1.0, 1.0), Weighted("broken", 0.0, 1.0, -2.0)), -0.5)
SURE = Evidence((-0.02,), {"total": 3.9, "broken": 0.0})


def pooled(**changes: object) -> Pooled:
    values: dict[str, object] = {
        "model": PURPOSE.model,
        "curves": (
            PooledCurve(PARSED, {"go": -0.2, "typescript": 0.4}, PROMPTS),
            PooledCurve(replace(TOTAL, measure=WITHOUT_GRAMMAR), {"go": -0.1}, PROMPTS),
            PooledCurve(TOTAL, {"go": 0.1}, PROMPTS),
        ),
        "raw_measure": "geometric-mean",
        "n": 1521,
        "n_correct": 935,
        "metrics": {"skill": Interval(0.53, 0.49, 0.56, "bootstrap")},
        "provenance": (Origin("line-m-00000000", "2026-11-22", 1521),),
        "created": "2026-11-22",
    }
    return Pooled(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> CalibratorStore:
    """The pooled curves alone, and a calibrator of another model."""
    store = CalibratorStore(tmp_path / "home" / "calibrators", tmp_path / "shipped")
    other = attrs.evolve(PURPOSE, model=ModelIdentity("x", "Q4", "x" * 64))
    make(purpose=other, **platt(0.7, -1.0)).save(store.shipped / "x.json")
    write(store, pooled())
    return store


def write(store: CalibratorStore, one: Pooled) -> Path:
    path = store.shipped / FOLDER / "line-m.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(written(one)), "utf-8")
    return path


def of(language: str, prompt: str = SMALL) -> Purpose:
    return attrs.evolve(PURPOSE, language=language, prompt_version=prompt)


def test_a_language_without_labels_is_accepted_and_says_on_what_grounds(store: CalibratorStore) -> None:
    calibrator = store.choose(of("kotlin")).calibrator
    assert (calibrator.source, calibrator.n) == ("pooled", 1521)
    assert calibrator.purpose == of("kotlin")
    confidence = calibrator.assess(SURE, TierPolicy())
    assert confidence.tier is Tier.ACCEPT
    assert "; about " in confidence.reason
    assert "likely to be right" in confidence.reason
    assert "; calibrated on 1,521 lines in other languages and windows" in confidence.reason
    assert confidence.calibrator.source == "pooled"


def test_a_language_a_dialect_and_a_window_have_their_offsets(store: CalibratorStore) -> None:
    def intercepts(language: str, prompt: str) -> list[float]:
        return [curve.intercept for curve in store.choose(of(language, prompt)).calibrator.curves]

    assert intercepts("kotlin", LARGE) == pytest.approx([-0.5, -0.5, -0.5])
    assert intercepts("kotlin", SMALL) == pytest.approx([-0.8, -0.8, -0.8])
    assert intercepts("go", LARGE) == pytest.approx([-0.7, -0.6, -0.4])
    assert intercepts("typescriptreact", LARGE) == pytest.approx([-0.1, -0.5, -0.5])


def test_without_a_grammar_the_curve_without_its_features_counts(store: CalibratorStore) -> None:
    calibrator = store.choose(of("kotlin")).calibrator
    bare = Evidence((-0.02,), {"total": 3.9})
    assert calibrator.assess(bare, TierPolicy()).measure == WITHOUT_GRAMMAR
    assert calibrator.assess(SURE, TierPolicy()).measure == "features-2"
    assert "broken" in FEATURES


def test_own_labels_go_first_and_another_model_gets_none(store: CalibratorStore) -> None:
    make().save(store.shipped / "own.json")
    assert store.choose(PURPOSE).calibrator == make()
    mine = make(**platt(0.9, -1.0), purpose=of("kotlin"), source="personal", state="learning")
    store.promote(mine)
    assert store.choose(of("kotlin")).calibrator == mine
    assert store.choose(of("kotlin"), personal=False).calibrator.source == "pooled"
    for purpose in (
        of("kotlin", "prompt-of-no-label"),
        attrs.evolve(of("kotlin"), task="summary"),
        attrs.evolve(of("kotlin"), model=ModelIdentity("m", "Q8", "8" * 64)),
    ):
        assert store.choose(purpose).calibrator.source == "prior"


def test_a_model_without_labels_has_no_number(store: CalibratorStore) -> None:
    """Another model's curves are a beginning for its first fit, and no more."""
    new = attrs.evolve(of("kotlin"), model=ModelIdentity("new", "", ""))
    confidence = store.choose(new).calibrator.assess(Evidence((-1e-9,)), TierPolicy())
    assert (confidence.calibrated, confidence.tier) == (None, Tier.REVIEW)
    assert confidence.raw == pytest.approx(1.0)
    assert confidence.reason == "not calibrated: `lsp-calib calibrate PATH`"
    assert confidence.calibrator.to_wire() is None


def test_first_labels_move_it_as_far_as_languages_differ(store: CalibratorStore) -> None:
    """Further than a shipped calibrator of the same curve, by the spread that it carries."""
    lent = store.choose(of("kotlin")).calibrator
    (shift,) = {curve.shift for curve in lent.curves}
    assert shift is not None
    assert (shift.slope, shift.intercept) == (1, 0)
    assert (shift.slope_sd, shift.intercept_sd) == (POOLED_SLOPE_SD, POOLED_INTERCEPT_SD)
    rng = np.random.default_rng(3)
    totals = rng.normal(0.0, 2.0, 60)
    evidences = [Evidence((-0.5,), {"total": float(x), "broken": 0.0}) for x in totals]
    # The user's truth lies 1.5 below the pooled curve.
    correct = rng.random(60) < 1.0 / (1.0 + np.exp(-(totals - 2.3)))
    weights = LabelWeights.of(len(evidences))
    result = refit(lent, evidences, correct, weights, created="2026-11-25", base=lent, seen=0)
    assert result.promoted, result.reason
    assert result.calibrator is not None
    assert result.calibrator.provenance[-1] == Origin(lent.id, lent.created, lent.n)
    moved = result.calibrator.curves[0].shift
    assert moved is not None
    assert (moved.slope_sd, moved.intercept_sd) == (POOLED_SLOPE_SD, POOLED_INTERCEPT_SD)
    assert moved.intercept < -0.4


def test_a_file_that_cannot_be_used_is_skipped_and_named(store: CalibratorStore) -> None:
    path = write(store, pooled())
    path.write_text('{"schema": 1}', "utf-8")
    choice = store.choose(of("kotlin"))
    assert choice.calibrator.source == "prior"
    assert len(choice.skipped) == 1
    assert str(path) in choice.skipped[0]
    path.write_text(json.dumps({**written(pooled()), "schema": 2}), "utf-8")
    assert "schema" in store.choose(of("kotlin")).skipped[0]


def test_a_file_gives_back_the_same() -> None:
    assert read(json.loads(json.dumps(written(pooled()))), Pooled, "file") == pooled()
    with pytest.raises(CalibratorError, match="same prompts"):
        pooled(curves=(PooledCurve(TOTAL, {}, {SMALL: 0.0}), PooledCurve(PARSED, {}, PROMPTS)))
    with pytest.raises(CalibratorError, match="unknown field `surprise`"):
        read({**written(pooled()), "surprise": 1}, Pooled, "file")
    for document in ({**written(pooled()), "n": -1}, {**written(pooled()), "curves": []}):
        with pytest.raises(CalibratorError):
            read(document, Pooled, "file")


def test_a_lent_calibrator_is_one_in_every_respect(store: CalibratorStore) -> None:
    """It can be written and read, as a refit's base and a rollback's aim are."""
    lent = store.choose(of("kotlin")).calibrator
    assert Calibrator.from_json(json.loads(json.dumps(lent.to_json()))) == lent
    assert lent in store.known(of("kotlin"))
    assert store.base(of("kotlin")) == lent
