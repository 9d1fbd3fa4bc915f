"""The committed records of summaries hold no text, and say what is said of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import summary_confidence

from lsp_calib import home
from lsp_calib.evaluation.records import read_records
from lsp_calib.evaluation.thresholds import shipped_thresholds
from lsp_calib.values import Stop

FOLDER = home.shipped_models() / "records"
RECORDS = sorted(FOLDER.glob("summary-*.jsonl"))
# With another prompt, or more observed: of repositories that were not set aside.
OTHERS = [*sorted(FOLDER.glob("augmented/summary-*.jsonl")), *sorted(FOLDER.glob("observed/summary-*.jsonl"))]


def test_there_are_some_of_both_languages() -> None:
    found = [read_records(file)[0] for file in RECORDS]
    assert {header.language for header in found} == {"python", "java"}
    assert {header.task for header in found} == {"summary"}


def test_of_what_was_set_aside_nothing_else_was_observed() -> None:
    assert len(OTHERS) == 7
    for file in OTHERS:
        assert not any(summary_confidence.is_apart(record.group) for record in read_records(file)[1])


@pytest.mark.parametrize("file", [*RECORDS, *OTHERS], ids=lambda file: f"{file.parent.name}-{file.stem}")
class TestRecords:
    def test_they_hold_no_text(self, file: Path) -> None:
        """Ids, numbers and words of the format: nothing that a model or a person wrote."""
        _, *lines = file.read_text("utf-8").splitlines()
        texts = {"item": r"[\w./+:@$<>#\[\]-]+", "group": r"[\w.-]+/[\w.-]+", "prompt": "[0-9a-f]{16}"}
        texts |= {"stratum": "function", "stop": "|".join(Stop)}
        numbers = {"tokens", "surprisal", "typed", "entropy", "margin", "similarity"}
        for row in map(json.loads, lines):
            lengths = row.keys() & {"characters", "referenceCharacters"}
            assert all(type(row[key]) is int for key in lengths)
            others = {"correct", "shown", "doubt", "observed", "costs"}
            assert row.keys() <= {*texts, *numbers, *lengths, *others}
            for key in row.keys() & texts.keys():
                assert re.fullmatch(texts[key], row[key]), row[key]
            for values in [
                *(row[key] for key in row.keys() & numbers),
                *row.get("observed", {}).values(),
                *row.get("costs", {}).values(),
            ]:
                assert all(value is None or type(value) is int for value in values)
            assert all(type(value) is bool for value in row["correct"].values())

    def test_their_verdicts_are_those_of_the_shipped_thresholds(self, file: Path) -> None:
        header, records = read_records(file)
        assert header.similarity is not None
        thresholds = shipped_thresholds(header.similarity)
        for record in records:
            values = (
                dict(zip(header.similarity.names, record.similarity, strict=True))
                if record.similarity
                else {}
            )
            assert thresholds.verdicts(values) == dict(record.correct)


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_what_is_scored_once_is_held_out(file: Path) -> None:
    header, records = read_records(file)
    groups = {record.group for record in records}
    assert set(header.held_out) & groups == {group for group in groups if summary_confidence.is_apart(group)}
    assert len(groups) >= 50
    assert len(records) >= 400
