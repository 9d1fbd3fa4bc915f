"""The shipped calibrators of summaries are what the records make of them, and as good as they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from summary_confidence import beyond_name, table, together
from test_shipped import assert_same

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.curve import FEATURES_MEASURE, WITHOUT_ENCODER, WITHOUT_ENTROPIES
from lsp_calib.calibration.calibrators.purpose import MOST_AGREE
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.confidence.features import FIT_FEATURES
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.evaluation.thresholds import shipped_thresholds
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.summarization.prompt import VERSION

FOLDER = home.shipped_models()
SHIPPED = sorted((FOLDER / "calibrators").glob("summary-*.json"))


@pytest.fixture(params=SHIPPED, ids=lambda path: path.stem)
def shipped(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def records_of(shipped: Path) -> tuple[Header, list[Record]]:
    return together(sorted((FOLDER / "records").glob(f"{shipped.stem}-*.jsonl")))


def test_there_is_one_for_each_model_with_records() -> None:
    records = {path.stem.rpartition("-")[0] for path in (FOLDER / "records").glob("summary-*.jsonl")}
    assert {path.stem for path in SHIPPED} == records


def test_it_is_for_the_model_and_the_prompt_of_today(shipped: Path) -> None:
    purpose = Calibrator.load(shipped).purpose
    assert purpose.model.sha256 == load_cards()[purpose.model.name].sha256
    assert (purpose.task, purpose.prompt_version) == (SUMMARY, VERSION)
    assert (purpose.languages, purpose.criterion) == ({"java", "python"}, MOST_AGREE)


def test_the_records_make_it(shipped: Path) -> None:
    """Fitted again from the records, without a model or an encoder, it is the same."""
    header, records = records_of(shipped)
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
    header, records = records_of(shipped)
    assert header.similarity is not None
    records = shipped_thresholds(header.similarity).judge(header, records)
    kept = [
        record
        for record in records
        if record.shown and record.logprobs and record.group not in set(header.held_out)
    ]
    assert len(kept) < len(records)
    assert calibrator.n == len(kept)
    assert calibrator.n_correct == sum(record.correct[MOST_AGREE] for record in kept)


def test_there_is_a_curve_for_who_has_the_encoder_and_one_for_who_has_not(shipped: Path) -> None:
    curves = {
        curve.measure: {feature.name for feature in curve.features}
        for curve in Calibrator.load(shipped).curves
    }
    assert [*curves][:3] == [FEATURES_MEASURE, WITHOUT_ENTROPIES, WITHOUT_ENCODER]
    assert curves[FEATURES_MEASURE] >= FIT_FEATURES
    assert not curves[WITHOUT_ENCODER] & FIT_FEATURES


TITLES = {"qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B", "smollm2-135m": "SmolLM2-135M"}


@pytest.mark.long
def test_the_page_has_the_table_that_the_records_make(shipped: Path) -> None:
    """If not: `python tests/programs/summary_confidence.py models/records/summary-*.jsonl --table`."""
    page = (FOLDER.parent / "docs" / "summaries.md").read_text("utf-8")
    paths = sorted((FOLDER / "records").glob(f"{shipped.stem}-*.jsonl"))
    assert [row for row in table(paths) if row not in page] == []
    skill, more = re.findall(r"[+]0[.]\d{3}", beyond_name(paths))
    assert f"{more} for {skill}" in page
