"""The shipped calibrators of summaries are what the records make of them, which hold no text."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest
from summary_confidence import beyond_name, is_apart, table, together
from test_shipped import assert_same

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import (
    FEATURES_MEASURE,
    WITHOUT_ENCODER,
    WITHOUT_ENTROPIES,
    Calibrator,
)
from lsp_calib.calibration.calibrators.purpose import MOST_AGREE
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.confidence.features import FIT_FEATURES
from lsp_calib.corpus.functions import SUMMARY
from lsp_calib.corpus.records import Header, Record, read_records
from lsp_calib.corpus.thresholds import shipped_thresholds
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.summarization.prompt import VERSION
from lsp_calib.values import Stop

FOLDER = home.shipped_models()
SUMMARIES = FOLDER / "records" / "summaries"
read = functools.cache(read_records)  # no test changes what it gets
SHIPPED = sorted((FOLDER / "calibrators").glob("summary-*.json"))


@pytest.fixture(params=SHIPPED, ids=lambda path: path.stem)
def shipped(request: pytest.FixtureRequest) -> Path:
    return request.param


def records_of(shipped: Path) -> tuple[Header, list[Record]]:
    return together(sorted(SUMMARIES.glob(f"{shipped.stem}-*.jsonl")))


def test_there_is_one_for_each_model_with_records() -> None:
    records = {path.stem.rpartition("-")[0] for path in SUMMARIES.glob("summary-*.jsonl")}
    assert {path.stem for path in SHIPPED} == records


def test_it_is_for_the_model_and_the_prompt_of_today(shipped: Path) -> None:
    purpose = Calibrator.load(shipped).purpose
    assert purpose.model.sha256 == load_cards()[purpose.model.name].sha256
    assert (purpose.task, purpose.prompt_version) == (SUMMARY, VERSION)
    assert (purpose.languages, purpose.criterion) == ({"java", "python"}, MOST_AGREE)


def test_the_records_make_it(shipped: Path) -> None:
    """Fitted again from the records, without a model or an encoder, it is the same."""
    header, records = records_of(shipped)
    again = fit_records(header, records, shipped=True, created=header.created)[0].calibrator
    assert_same(again.to_json(), Calibrator.load(shipped).to_json())


def test_it_has_skill_and_is_calibrated(shipped: Path) -> None:
    """Out of fold, the choices made inside the folds: skill surely above 0, ECE that calibrated ones have."""
    metrics = Calibrator.load(shipped).metrics
    skill, ece = metrics["skill"], metrics["ece"]
    assert skill.low is not None, "an interval can be had"
    assert skill.low > 0, "a calibrator without skill says nothing: ship none"
    assert ece.value < ece.high


def test_what_was_to_be_scored_once_was_not_fitted_on(shipped: Path) -> None:
    calibrator = Calibrator.load(shipped)
    header, records = records_of(shipped)
    records = shipped_thresholds(header.similarity).judge(header, records)
    held_out = set(header.held_out)
    kept = [one for one in records if one.shown and one.logprobs and one.group not in held_out]
    assert len(kept) < len(records)
    assert calibrator.n == len(kept)
    assert calibrator.n_correct == sum(record.correct[MOST_AGREE] for record in kept)


def test_there_is_a_curve_for_who_has_the_encoder_and_one_for_who_has_not(shipped: Path) -> None:
    found = Calibrator.load(shipped).curves
    curves = {curve.measure: {feature.name for feature in curve.features} for curve in found}
    assert [*curves][:3] == [FEATURES_MEASURE, WITHOUT_ENTROPIES, WITHOUT_ENCODER]
    assert curves[FEATURES_MEASURE] >= FIT_FEATURES
    assert not curves[WITHOUT_ENCODER] & FIT_FEATURES


TITLES = {"qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B", "smollm2-135m": "SmolLM2-135M"}


@pytest.mark.long
def test_the_page_has_the_table_that_the_records_make(shipped: Path) -> None:
    """If not: `summary_confidence.py models/records/summaries/*.jsonl --table`."""
    page = (SUMMARIES / "README.md").read_text("utf-8")
    paths = sorted(SUMMARIES.glob(f"{shipped.stem}-*.jsonl"))
    assert [row for row in table(paths) if row not in page] == []
    skill, more = re.findall(r"[+]0[.]\d{3}", beyond_name(paths))
    assert f"{more} for {skill}" in page


RECORDS = sorted(SUMMARIES.glob("summary-*.jsonl"))
# With another prompt, or more observed: of repositories that were not set aside.
OTHERS = [
    *sorted((FOLDER / "records").glob("augmented/summary-*.jsonl")),
    *sorted((FOLDER / "records").glob("observed/summary-*.jsonl")),
]


def test_there_are_some_of_both_languages() -> None:
    found = [read(file)[0] for file in RECORDS]
    assert {header.language for header in found} == {"python", "java"}
    assert {header.task for header in found} == {"summary"}


def test_of_what_was_set_aside_nothing_else_was_observed() -> None:
    assert len(OTHERS) == 6
    for file in OTHERS:
        assert not any(is_apart(record.group) for record in read(file)[1])


@pytest.mark.parametrize("file", [*RECORDS, *OTHERS], ids=lambda file: f"{file.parent.name}-{file.stem}")
class TestRecords:
    def test_they_hold_no_text(self, file: Path) -> None:
        """Ids, numbers and words of the format: nothing that a model or a person wrote."""
        _, *lines = file.read_text("utf-8").splitlines()
        texts = {"item": r"[\w./+:@$<>#\[\]-]+", "group": r"[\w.-]+/[\w.-]+", "prompt": "[0-9a-f]{16}"}
        texts |= {"stratum": "function", "stop": "|".join(Stop)}
        numbers = {"tokens", "surprisal", "typed", "entropy", "margin", "similarity"}
        for row in map(json.loads, lines):
            lengths = row.keys() & {"characters", "referenceCharacters", "judgedTokens"}
            assert all(type(row[key]) is int for key in lengths)
            others = {"correct", "shown", "doubt", "observed", "costs"}
            assert row.keys() <= {*texts, *numbers, *lengths, *others}
            for key in row.keys() & texts.keys():
                assert re.fullmatch(texts[key], row[key]), row[key]
            observed = (*row.get("observed", {}).values(), *row.get("costs", {}).values())
            for values in (*(row[key] for key in row.keys() & numbers), *observed):
                assert all(value is None or type(value) is int for value in values)
            assert all(type(value) is bool for value in row["correct"].values())

    def test_their_verdicts_are_those_of_the_shipped_thresholds(self, file: Path) -> None:
        header, records = read(file)
        thresholds = shipped_thresholds(header.similarity)
        for record in records:
            values = dict(zip(header.similarity.names, record.similarity, strict=bool(record.similarity)))
            assert thresholds.verdicts(values) == dict(record.correct)


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_what_is_scored_once_is_held_out(file: Path) -> None:
    header, records = read(file)
    groups = {record.group for record in records}
    assert set(header.held_out) & groups == {group for group in groups if is_apart(group)}
    assert len(groups) >= 50
    assert len(records) >= 400
