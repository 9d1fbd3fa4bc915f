"""What became of a model's lines, and the words in which a rejected one says it."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
from test_calibration_calibrator import MODEL, make

from lsp_calib import home
from lsp_calib.badges import BADGES, rejected_words, tier_and_reason
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.line_curves import LEAST_COUNTED, USAGE, Usage, UsedLines
from lsp_calib.calibration.document import read, written
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.errors import CalibratorError
from lsp_calib.values import Evidence, Generation, ModelIdentity, Stop, Suggestion, Tier, Timing

LINES = ((0.1, 40, 2, 10), (0.25, 60, 10, 30), (0.4, 100, 40, 60), (1.0, 500, 400, 450))
REJECTED, REVIEWED = (-3.0,) * 4, (-0.05,) * 4  # log-probabilities


def usage(
    *lines: tuple[float, int, int, int], model: ModelIdentity = MODEL, prompt: str = "prefix-1"
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


def suggested(estimator: ConfidenceEstimator, logprobs: tuple[float, ...] = REJECTED) -> Suggestion:
    confidence = estimator.of(make().purpose).assess(Evidence(logprobs))
    return Suggestion.new("line", "x = 1", confidence, "m", Generation("x = 1", (), Stop.LINE, Timing()))


@pytest.fixture
def estimator(tmp_path: Path) -> ConfidenceEstimator:
    store = CalibratorStore(tmp_path / "own", tmp_path / "shipped" / "calibrators")
    make().save(store.shipped / "line.json")
    return ConfidenceEstimator(store)


def put(estimator: ConfidenceEstimator, what: Usage) -> None:
    folder = estimator.store.shipped.parent / USAGE
    folder.mkdir(exist_ok=True)
    (folder / "line.json").write_text(json.dumps(written(what)))
    estimator.reload()


def test_a_rejected_line_says_how_often_such_lines_are_used(estimator: ConfidenceEstimator) -> None:
    """In the reason, and in the long form of the words; the words on the wire have no numbers."""
    put(estimator, usage(*LINES))
    one = suggested(estimator)
    assert one.confidence.tier is Tier.REJECT
    said = "rarely used as it is (about 1 in 10; 4 in 10 after an edit)"
    assert one.to_wire()["reason"].endswith(f"; below 25 %; {said}")
    assert tier_and_reason(one) == f"{said.capitalize()}: {one.why}"
    assert said not in one.why
    words = [BADGES[tier]["words"] for tier in ("accept", "review", "reject")]
    assert words == ["usually used as it is", "read it first", "rarely used as it is"]
    # The limit that is in force decides which lines they are.
    estimator.policy = PRESETS["cautious"]
    assert suggested(estimator).usage == "rarely used as it is (about 3 in 10; 5 in 10 after an edit)"


def test_no_other_line_says_it(estimator: ConfidenceEstimator) -> None:
    put(estimator, usage(*LINES))
    one = suggested(estimator, REVIEWED)
    assert one.confidence.tier is not Tier.REJECT
    assert one.usage == ""
    assert "used as it is" not in one.reason
    (other,) = estimator.of(make().purpose).alternatives(0.9, [(0.1, Evidence(REJECTED))])
    assert (other.tier, other.usage) == (Tier.REJECT, "")
    # As it is typed along, its tier may become that of the others.
    moved = attrs.evolve(one, confidence=attrs.evolve(one.confidence, tier=Tier.REJECT))
    assert moved.usage.startswith("rarely used as it is (")


@pytest.mark.parametrize("why", ["no file", "another model", "another prompt", "few lines"])
def test_without_labels_of_the_model_there_are_no_numbers(estimator: ConfidenceEstimator, why: str) -> None:
    there = {
        "another model": usage(*LINES, model=ModelIdentity("n", "Q4", "1" * 64)),
        "another prompt": usage(*LINES, prompt="prefix-2"),
        "few lines": usage((0.25, 49, 5, 20)),
    }
    if why in there:
        put(estimator, there[why])
    found = estimator.of(make().purpose).assess(Evidence(REJECTED))
    assert (found.usage, found.tier) == ("", Tier.REJECT)


def test_a_damaged_file_is_named_and_costs_nothing_else(estimator: ConfidenceEstimator) -> None:
    folder = estimator.store.shipped.parent / USAGE
    folder.mkdir()
    (folder / "line.json").write_text("{")
    assert suggested(estimator).usage == ""
    assert any(str(folder) in one for one in estimator.complaints)


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
