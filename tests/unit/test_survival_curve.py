"""How likely a line is to survive: what counts as surviving, the curves in files, and the one in force."""

from __future__ import annotations

import json
import os
from pathlib import Path

import attrs
import pytest
from feedback_scene import suggestion
from hiding import survives
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    WITHOUT_ENTROPIES,
    Calibrator,
    Curve,
    Weighted,
)
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.line_curves import SURVIVAL, SurvivalCurve
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.document import written
from lsp_calib.errors import CalibratorError
from lsp_calib.values import CalibratorRef, Confidence, Evidence, ModelIdentity

MODEL = ModelIdentity("m", "Q4", "0" * 64)
PURPOSE = Purpose(MODEL, "line-fim-1", "line", "python")
# The log-odds of one half are 0.
HALF = Evidence((-0.6931471805599453,))


def curve(*more: Curve, intercept: float = 0.0) -> SurvivalCurve:
    """Of the total alone, or as the last of several."""
    curves = (*more, Curve.of_measure("total", 1.0, intercept))
    return SurvivalCurve(model=MODEL, prompt_version="line-fim-1", n=10, n_survived=4, curves=curves)


def confidence(unchanged: float | None, source: str = "shipped") -> Confidence:
    ref = CalibratorRef("c", source, "shipped", 9)
    return attrs.evolve(suggestion("").confidence, calibrated=unchanged, calibrator=ref)


@pytest.mark.parametrize(
    ("text", "line", "kept"),
    [
        ("count = other", "count = other", True),
        ("count = other", "count = another", True),
        ("self.count += 1", "self.counts -= 2", True),
        ("return None", "x = [1, 2]", False),
        ("abcd", "ab", True),  # half of it
        ("abcde", "ab", False),
        ("x", "x = net + tax", False),  # it is the whole line that is offered
        ("", "x", False),
    ],
)
def test_a_text_survives_where_at_most_half_of_it_is_changed(text: str, line: str, kept: bool) -> None:
    assert survives(text, line) == kept


@given(unchanged=st.floats(0.0, 1.0), intercept=st.floats(-30.0, 30.0))
def test_a_line_that_ends_unchanged_survives(unchanged: float, intercept: float) -> None:
    p = curve(intercept=intercept).probability(HALF, unchanged)
    assert p is not None
    assert unchanged <= p <= 1.0


def test_the_first_curve_whose_features_are_known_counts() -> None:
    features = (Weighted("total", 0.0, 1.0, 0.0), Weighted("broken", 0.0, 1.0, 1.0))
    both = curve(Curve(FEATURES_MEASURE, features, 0.0), intercept=2.0)
    known = Evidence(HALF.logprobs, {"total": 0.0, "broken": 0.0})
    assert both.probability(known, 0.0) == pytest.approx(0.5)
    assert both.probability(HALF, 0.0) == pytest.approx(0.880797, abs=1e-6)
    assert both.probability(Evidence(), 0.0) is None


def test_shipped_curves_are_whole_and_written_as_they_are_read() -> None:
    folder = home.shipped_models() / SURVIVAL
    beside = (home.shipped_models() / "prefixes").glob("*.json")
    assert {path.name for path in folder.glob("*.json")} == {path.name for path in beside}
    for path in folder.glob("*.json"):
        text, found = path.read_text("utf-8"), SurvivalCurve.load(path)
        assert json.dumps(written(found), indent=2) + "\n" == text
        shipped = Calibrator.load(home.shipped_models() / "calibrators" / path.name)
        assert (found.model, found.prompt_version) == (shipped.purpose.model, shipped.purpose.prompt_version)
        assert found.curves[0].readable, "the features are of this version"
        assert [one.measure for one in found.curves[:2]] == [FEATURES_MEASURE, WITHOUT_ENTROPIES]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schema": 99}, "newer lsp-calib"),
        ({"n": -1}, "n: Expected `int` >= 0"),
        ({"n": 1}, "nSurvived"),
        ({"curves": []}, "curves must"),
        ({"curves": [written(one) for one in (*curve().curves, *curve().curves)]}, "one for each measure"),
        ({"more": 1}, "more"),
    ],
)
def test_a_damaged_curve_is_refused(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(written(curve()) | change))
    with pytest.raises(CalibratorError, match=complaint):
        SurvivalCurve.load(path)


def save(one: SurvivalCurve, folder: Path, name: str = "one.json") -> None:
    """As another program replaces a file: at once, and not within a tick of the file system's clock."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{name}").write_text(json.dumps(written(one)))
    os.utime(folder / f".{name}", (1.0, 1.0))
    (folder / f".{name}").rename(folder / name)


@pytest.fixture
def estimator(tmp_path: Path) -> ConfidenceEstimator:
    return ConfidenceEstimator(CalibratorStore(tmp_path / "own", tmp_path / "shipped" / "calibrators"))


def test_without_labels_of_the_model_it_is_not_known(tmp_path: Path, estimator: ConfidenceEstimator) -> None:
    assert estimator.of(PURPOSE).survives(HALF, confidence(0.2)) is None
    save(curve(), tmp_path / "shipped" / SURVIVAL)
    estimator.reload()
    assert estimator.of(PURPOSE).survives(HALF, confidence(0.2)) == pytest.approx(0.6)
    assert estimator.of(PURPOSE).survives(HALF, confidence(0.2, "prior")) is None, "a guess"
    assert estimator.of(PURPOSE).survives(HALF, confidence(None)) is None
    for other in (
        attrs.evolve(PURPOSE, model=ModelIdentity("m", "Q4", "1" * 64)),
        attrs.evolve(PURPOSE, model=ModelIdentity("m", "Q4", "")),
        attrs.evolve(PURPOSE, prompt_version="line-fim-2"),
    ):
        assert estimator.of(other).survives(HALF, confidence(0.2)) is None
    of_all = estimator.of(attrs.evolve(PURPOSE, language="java"))
    assert of_all.survives(HALF, confidence(0.2)) == pytest.approx(0.6), "of all languages together"


def test_the_user_s_own_goes_first_and_a_damaged_one_is_named(
    tmp_path: Path, estimator: ConfidenceEstimator
) -> None:
    save(curve(), tmp_path / "shipped" / SURVIVAL)
    save(curve(intercept=-50.0), tmp_path / "own" / SURVIVAL)
    assert estimator.of(PURPOSE).survives(HALF, confidence(0.2)) == pytest.approx(0.2)
    (tmp_path / "own" / SURVIVAL / "one.json").unlink()
    (tmp_path / "own" / SURVIVAL / "damaged.json").write_text("{")
    estimator.reload()
    assert estimator.of(PURPOSE).survives(HALF, confidence(0.2)) == pytest.approx(0.6)
    (complaint,) = estimator.complaints
    assert "damaged.json" in complaint
