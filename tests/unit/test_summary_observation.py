"""What is observed of a summary: numbers in the record, their cost, and what tables say of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from test_eval_summary import HEADER, made_up

from lsp_calib.cli import main
from lsp_calib.corpus.records import Journal, Record, read_records, write_records
from lsp_calib.errors import DataError
from lsp_calib.studies.ask import LISTED
from lsp_calib.studies.statistics import OURS


def reflecting(n: int = 120) -> list[Record]:
    """Records whose P(true) says how similar the summary is, and whose verbalised confidence says nothing."""
    records = []
    for at, record in enumerate(made_up(n)):
        noise = np.random.default_rng(at).normal(0, 0.5)
        logit = 12 * (record.similarity[0] - 0.7) + noise
        true, false = -math.log1p(math.exp(-logit)) - 0.1, -math.log1p(math.exp(logit)) - 0.1
        numbers: dict[str, dict[str, float]] = {
            "ask": {"true": true, "false": false, "contained-true": true},
            "verbalised": {
                "confidence": 0.5 if at % 3 else 0.9,
                "answers": 1.0,
                "fell-back": float(at % 3 > 0),
            },
            "scale": {"vote": 1.0, "mean": 0.9, "invalid": 0.25},
        }
        listed = dict(OBSERVED.observations.names)
        observed = {
            name: tuple(values.get(field) for field in listed[name]) for name, values in numbers.items()
        }
        records.append(attrs.evolve(record, observed=observed, costs={"ask": (57, 200, 2)}))
    return records


# The scale as it was asked for before the reasons.
FORMER = attrs.evolve(LISTED, names=(*LISTED.names[:-1], ("scale", ("vote", "mean", "invalid"))))
OBSERVED = attrs.evolve(HEADER, observations=FORMER)


def test_records_are_read_as_they_were_written_and_old_ones_stay_readable(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", OBSERVED, reflecting())
    header, records = read_records(tmp_path / "r.jsonl")
    assert header == OBSERVED
    write_records(tmp_path / "again.jsonl", header, records)
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "r.jsonl").read_bytes()
    assert records[0].costs == {"ask": (57, 200, 2)}
    assert header.asks_the_same_as(HEADER)
    assert HEADER.asks_the_same_as(header)
    assert not header.asks_the_same_as(attrs.evolve(header, observations=attrs.evolve(FORMER, version=0)))
    write_records(tmp_path / "old.jsonl", HEADER, made_up())
    assert "observ" not in (tmp_path / "old.jsonl").read_text("utf-8")
    with Journal(tmp_path / "old.jsonl", OBSERVED) as journal:
        assert journal.header.observations == FORMER
    write_records(tmp_path / "bad.jsonl", HEADER, reflecting())
    with pytest.raises(DataError, match="other observations"):
        read_records(tmp_path / "bad.jsonl")


@pytest.mark.usefixtures("home")
def test_what_a_model_says_of_its_summaries_stands_beside_its_probabilities(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", OBSERVED, reflecting())
    command = ["eval", "summary", "--records", str(tmp_path / "r.jsonl"), "--resamples", "20"]
    result = CliRunner().invoke(main, [*command, "--json", "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    rows = [row for row in json.loads(result.stdout)["rows"] if row["judge"] == "best-f1"]
    skill = {(row["measure"], row["rescaling"]): row["skill"]["value"] for row in rows}
    for name in ("ask", "ask-exact", "normalised", "verbalised", "scale-number"):
        assert (name, "raw") in skill
        assert (name, OURS) in skill
    assert skill["normalised-exact", OURS] > 0.4
    assert skill["scale-number", OURS] < 0.05, "the same vote for all"
    half = [row["half"] for row in rows if row["measure"] == "verbalised" and row["rescaling"] == "raw"]
    assert half == [pytest.approx(2 / 3, abs=1e-6)]
    table = (tmp_path / "out" / "scores.md").read_text("utf-8")
    assert "| verbalised | raw | 120 | 67 % |" in table
