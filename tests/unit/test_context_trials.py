"""Trials with another amount of context: what is changed, and what the table compares."""

import json

import attrs
import pytest
from context_trials import changed, pairs, report, rows_of
from test_blind import SCORED

from lsp_calib.errors import DataError
from lsp_calib.evaluation.records import read_records


@pytest.fixture(scope="module")
def recorded():
    header, records = read_records(SCORED[0])
    return header, records[:40]


def rows(records, right, **more):
    amounts = {"window": 3200, "related": 0, "promptTokens": 700, **more}
    return [{"item": one.item, "shown": True, "exact": right, **amounts} for one in records]


def test_only_the_amounts_change(recorded):
    header, _ = recorded
    same, other = changed(header, None, None), changed(header, 800, 99)
    assert same.version == header.prompt_version
    assert (other.window, other.related) == (800, 99)
    assert attrs.evolve(other, window=same.window, related=same.related) == same


def test_a_prompt_that_is_no_longer_made_is_said(recorded):
    header, _ = recorded
    with pytest.raises(DataError, match="line-old-1 is no longer made"):
        changed(attrs.evolve(header, prompt_version="line-old-1"), None, None)


def test_places_are_paired_and_counted(recorded, tmp_path):
    header, records = recorded
    file = tmp_path / "trial.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows(records[:30], True)))
    found = pairs(records, rows_of(file))
    assert len(found) == 30
    wrong = sum(not (one.shown and one.correct["exact"]) for one in records[:30])
    table = report(header, records, rows_of(file))
    assert "other: window 3200, related 0, 700 tokens in the median" in table
    assert f"| both: right by exact | 30 | {1 - wrong / 30:.3f} | 1.000 |" in table
    assert table.endswith(f"| 0 | {wrong} |")


def test_a_file_of_several_amounts_is_refused(recorded):
    header, records = recorded
    with pytest.raises(DataError, match="several amounts"):
        report(header, records, [*rows(records[:2], True), *rows(records[2:4], True, related=800)])
