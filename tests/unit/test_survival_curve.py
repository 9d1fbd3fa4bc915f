"""What is known of a model's lines: how likely they survive, and how often they are used."""

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
from test_calibration_calibrator import make

from lsp_calib import home
from lsp_calib.badges import BADGES, rejected_words, tier_and_reason
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    WITHOUT_ENTROPIES,
    Calibrator,
    Curve,
    Weighted,
)
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.line_curves import (
    LEAST_COUNTED,
    SURVIVAL,
    USAGE,
    SurvivalCurve,
    Usage,
    UsedLines,
)
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.document import read, written
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.errors import CalibratorError
from lsp_calib.values import (
    CalibratorRef,
    Confidence,
    Evidence,
    Generation,
    ModelIdentity,
    Stop,
    Suggestion,
    Tier,
    Timing,
)

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


LINES = ((0.1, 40, 2, 10), (0.25, 60, 10, 30), (0.4, 100, 40, 60), (1.0, 500, 400, 450))
REJECTED, REVIEWED = (-3.0,) * 4, (-0.05,) * 4  # log-probabilities


JUDGED = make().purpose.model


def usage(
    *lines: tuple[float, int, int, int], model: ModelIdentity = JUDGED, prompt: str = "prefix-1"
) -> Usage:
    return Usage(model=model, prompt_version=prompt, lines=tuple(UsedLines(*one) for one in lines))


@pytest.mark.parametrize(
    ("below", "shares"),
    [
        (0.25, (12 / 100, 40 / 100)),
        (0.4, (52 / 200, 100 / 200)),
        (0.39, (12 / 100, 40 / 100)),  # no part of the lines below 40 % is known
        (1.0 - 0.6, (52 / 200, 100 / 200)),
        (0.1, None),  # 40 lines
        (0.0, None),
    ],
)
def test_shares_are_of_all_lines_below_a_limit(below: float, shares: tuple[float, float] | None) -> None:
    assert LEAST_COUNTED == 50
    assert usage(*LINES).shares(below) == shares


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"lines": [{"below": 0.1, "n": 3, "unchanged": 2, "survived": 1}]}, "unchanged must be among"),
        ({"lines": [{"below": 0.1, "n": 3, "unchanged": 2, "survived": 4}]}, "these among n"),
        ({"lines": [{"below": b, "n": 0, "unchanged": 0, "survived": 0} for b in (0.2, 0.1)]}, "must rise"),
        ({"schema": 2}, "schema"),
        ({"more": 1}, "more"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(document: dict[str, object], problem: str) -> None:
    with pytest.raises(CalibratorError, match=problem):
        read({**written(usage(*LINES)), **document}, Usage, "file")


def suggested(judging: ConfidenceEstimator, logprobs: tuple[float, ...] = REJECTED) -> Suggestion:
    confidence = judging.of(make().purpose).assess(Evidence(logprobs))
    return Suggestion.new("line", "x = 1", confidence, "m", Generation("x = 1", (), Stop.LINE, Timing()))


@pytest.fixture
def judging(tmp_path: Path) -> ConfidenceEstimator:
    store = CalibratorStore(tmp_path / "own", tmp_path / "shipped" / "calibrators")
    make().save(store.shipped / "line.json")
    return ConfidenceEstimator(store)


def put(judging: ConfidenceEstimator, what: Usage) -> None:
    folder = judging.store.shipped.parent / USAGE
    folder.mkdir(exist_ok=True)
    (folder / "line.json").write_text(json.dumps(written(what)))
    judging.reload()


def test_a_rejected_line_says_how_often_such_lines_are_used(judging: ConfidenceEstimator) -> None:
    """In the reason, and in the long form of the words; the words on the wire have no numbers."""
    put(judging, usage(*LINES))
    one = suggested(judging)
    assert one.confidence.tier is Tier.REJECT
    said = "rarely used as it is (about 1 in 10; 4 in 10 after an edit)"
    assert one.to_wire()["reason"].endswith(f"; below 25 %; {said}")
    assert tier_and_reason(one) == f"{said.capitalize()}: {one.why}"
    assert said not in one.why
    words = [BADGES[tier]["words"] for tier in ("accept", "review", "reject")]
    assert words == ["usually used as it is", "read it first", "rarely used as it is"]
    # The limit that is in force decides which lines they are.
    judging.policy = PRESETS["cautious"]
    assert suggested(judging).usage == "rarely used as it is (about 3 in 10; 5 in 10 after an edit)"


def test_no_other_line_says_it(judging: ConfidenceEstimator) -> None:
    put(judging, usage(*LINES))
    one = suggested(judging, REVIEWED)
    assert one.confidence.tier is not Tier.REJECT
    assert one.usage == ""
    assert "used as it is" not in one.reason
    (other,) = judging.of(make().purpose).alternatives(0.9, [(0.1, Evidence(REJECTED))])
    assert (other.tier, other.usage) == (Tier.REJECT, "")
    # As it is typed along, its tier may become that of the others.
    moved = attrs.evolve(one, confidence=attrs.evolve(one.confidence, tier=Tier.REJECT))
    assert moved.usage.startswith("rarely used as it is (")


@pytest.mark.parametrize("why", ["no file", "another model", "another prompt", "few lines"])
def test_without_labels_of_the_model_there_are_no_numbers(judging: ConfidenceEstimator, why: str) -> None:
    there = {
        "another model": usage(*LINES, model=ModelIdentity("n", "Q4", "1" * 64)),
        "another prompt": usage(*LINES, prompt="prefix-2"),
        "few lines": usage((0.25, 49, 5, 20)),
    }
    if why in there:
        put(judging, there[why])
    found = judging.of(make().purpose).assess(Evidence(REJECTED))
    assert (found.usage, found.tier) == ("", Tier.REJECT)


def test_a_damaged_file_is_named_and_costs_nothing_else(judging: ConfidenceEstimator) -> None:
    folder = judging.store.shipped.parent / USAGE
    folder.mkdir()
    (folder / "line.json").write_text("{")
    assert suggested(judging).usage == ""
    assert any(str(folder) in one for one in judging.complaints)


@pytest.mark.parametrize(
    ("unchanged", "survived", "said"),
    [
        (0.17, 0.42, "about 2 in 10; 4 in 10 after an edit"),
        (0.053, 0.3, "about 1 in 20; 3 in 10 after an edit"),
        (0.02, 0.14, "fewer than 1 in 20; 1 in 10 after an edit"),
        (0.02, 0.02, "fewer than 1 in 20; fewer than 1 in 20 after an edit"),
    ],
)
def test_shares_in_words(unchanged: float, survived: float, said: str) -> None:
    assert rejected_words(unchanged, survived) == f"rarely used as it is ({said})"


def test_each_model_and_prompt_with_a_shipped_calibrator_of_python_has_its_counts() -> None:
    folder = home.shipped_models() / USAGE
    files = {path.name: Usage.load(path) for path in sorted(folder.glob("*.json"))}
    shipped = [Calibrator.load(path) for path in (home.shipped_models() / "calibrators").glob("line-*.json")]
    wanted = {(one.purpose.model.sha256, one.purpose.prompt_version) for one in shipped}
    assert {(one.model.sha256, one.prompt_version) for one in files.values()} == wanted
    for name, one in files.items():
        assert json.dumps(written(one), indent=2) + "\n" == (folder / name).read_text("utf-8")
        for policy in PRESETS.values():
            shares = one.shares(policy.reject_below)
            assert shares is None or shares[0] < policy.reject_below + 0.05, "as its probabilities have it"
        balanced = one.shares(PRESETS["balanced"].reject_below)
        assert balanced is not None
        assert 0.0 < balanced[0] < balanced[1] < 1.0
