"""The shipped calibrators of summaries are what the records make of them, and as good as they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_shipped import assert_same

from lsp_calib import home
from lsp_calib.calibration import Calibrator
from lsp_calib.calibration.calibrators.curve import FEATURES_MEASURE, WITHOUT_ENCODER, WITHOUT_ENTROPIES
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.commands.calibration_trial import JUDGED_BY
from lsp_calib.confidence.summary_features import FIT_FEATURES
from lsp_calib.evaluation.records import read_records
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.summarization.prompt import VERSION

FOLDER = home.shipped_models()
SHIPPED = sorted((FOLDER / "calibrators").glob("summary-*.json"))


@pytest.fixture(params=SHIPPED, ids=lambda path: path.stem)
def shipped(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_is_one_for_each_file_of_records() -> None:
    records = {path.stem for path in (FOLDER / "records").glob("summary-*.jsonl")}
    assert {path.stem for path in SHIPPED} == records


def test_it_is_for_the_model_and_the_prompt_of_today(shipped: Path) -> None:
    purpose = Calibrator.load(shipped).purpose
    assert purpose.model.sha256 == load_cards()[purpose.model.name].sha256
    assert (purpose.task, purpose.prompt_version) == (SUMMARY, VERSION)


def test_the_records_make_it(shipped: Path) -> None:
    """Fitted again from the records, without a model or an encoder, it is the same."""
    header, records = read_records(FOLDER / "records" / f"{shipped.stem}.jsonl")
    again = fit_records(header, records, shipped=True, created=header.created)
    assert_same(again.to_json(), Calibrator.load(shipped).to_json())


def test_it_has_skill_and_is_calibrated(shipped: Path) -> None:
    """Out of fold, the choices made inside the folds: skill surely above 0, ECE that calibrated ones have."""
    metrics = Calibrator.load(shipped).metrics
    skill, ece = metrics["skill"], metrics["ece"]
    assert skill.low is not None, "an interval can be had"
    assert skill.low > 0, "a calibrator without skill says nothing: ship none"
    assert ece.high is not None
    assert ece.value < ece.high


def test_what_was_to_be_scored_once_was_not_fitted_on(shipped: Path) -> None:
    calibrator = Calibrator.load(shipped)
    header, records = read_records(FOLDER / "records" / f"{shipped.stem}.jsonl")
    kept = [record for record in records if record.shown and record.group not in set(header.held_out)]
    assert len(kept) < len(records)
    assert calibrator.n == len(kept)
    assert calibrator.n_correct == sum(record.correct[JUDGED_BY[SUMMARY]] for record in kept)


def test_there_is_a_curve_for_who_has_the_encoder_and_one_for_who_has_not(shipped: Path) -> None:
    curves = {
        curve.measure: {feature.name for feature in curve.features}
        for curve in Calibrator.load(shipped).curves
    }
    assert [*curves][:3] == [FEATURES_MEASURE, WITHOUT_ENTROPIES, WITHOUT_ENCODER]
    assert curves[FEATURES_MEASURE] >= FIT_FEATURES
    assert not curves[WITHOUT_ENCODER] & FIT_FEATURES


def test_the_readme_says_its_skill(shipped: Path) -> None:
    calibrator = Calibrator.load(shipped)
    text = " ".join((FOLDER.parent / "README.md").read_text("utf-8").split())
    said = {
        model: dict(zip(("python", "java"), skills, strict=True))
        for *skills, model in re.findall(
            r"([+]0[.]\d\d) and ([+]0[.]\d\d) \(([^,()]+)(?:, Python and Java)?\)", text
        )
    }
    # Written there as the model's authors do, with its size.
    (title,) = (one for one in said if one.lower() == calibrator.purpose.model.name)
    skill = calibrator.metrics["skill"].value
    assert skill is not None
    assert said[title][calibrator.purpose.language] == f"{skill:+.2f}"
