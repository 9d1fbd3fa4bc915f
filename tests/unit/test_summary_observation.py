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
from lsp_calib.studies.reflective_scores import FORMS, score_reflective


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


def test_each_form_of_a_measure_is_scored_raw_and_rescaled() -> None:
    for measure, forms in FORMS.items():
        scores = score_reflective(OBSERVED, judged(), measure, resamples=20)
        found = {(row.measure, row.rescaled) for row in scores.rows if row.judge == "best-f1"}
        assert found <= {(name, rescaled) for name in forms for rescaled in (False, True)}
        assert {rescaled for _, rescaled in found} == {False, True}
    scores = score_reflective(OBSERVED, judged(), "normalised", resamples=20)
    skill = {
        (row.measure, row.rescaled): row.metrics["skill"].value
        for row in scores.rows
        if row.judge == "best-f1"
    }
    assert (skill["true / (true + false)", True] or 0.0) > 0.4
    nothing = score_reflective(OBSERVED, judged(), "scale", resamples=20)
    (vote,) = (
        row
        for row in nothing.rows
        if (row.judge, row.measure, row.rescaled) == ("best-f1", "vote of five", True)
    )
    assert (vote.metrics["skill"].value or 0.0) < 0.05, "the same vote for all"
    assert any("no rating: 25 %" in note for note in nothing.notes)
    assert any("0.5 for want of a number: 67 %" in note for note in scored("verbalised").notes)
    with pytest.raises(DataError, match="--observe ask,"):
        score_reflective(HEADER, made_up(), "ask")


def test_all_numbers_of_a_measure_are_of_what_is_not_held_out() -> None:
    records = judged()
    apart = frozenset({records[0].group, records[1].group})
    kept = [record for record in records if record.group not in apart]
    found = score_reflective(OBSERVED, records, "ask", apart, resamples=20)
    assert (found.asked, found.offered) == (len(kept), sum(record.shown for record in kept))
    assert found.right["best-f1"] == sum(record.shown and record.correct["best-f1"] for record in kept)
    assert f"{len(records) - len(kept)} further items, of what is held out, are left out." in found.notes
    assert "further items" not in " ".join(scored("ask").notes)


def scored(measure: str):  # type: ignore[no-untyped-def]
    return score_reflective(OBSERVED, judged(), measure, resamples=20)


def judged() -> list[Record]:
    return [
        attrs.evolve(record, correct={"best-f1": record.similarity[0] >= 0.75, "high-precision": False})
        for record in reflecting()
    ]


@pytest.mark.usefixtures("home")
def test_the_command_scores_a_measure_of_records(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", OBSERVED, reflecting())
    arguments = ["--records", str(tmp_path / "r.jsonl"), "--measure", "ask", "--resamples", "20"]
    command = ["eval", "summary", *arguments]
    result = CliRunner().invoke(main, [*command, "--json", "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {row["judge"] for row in document["rows"]} == {"best-f1", "high-recall", "most-agree"}
    assert "true, contained in five" in (tmp_path / "out" / "scores.md").read_text("utf-8")
    printed = CliRunner().invoke(main, command)
    assert printed.exit_code == 0, printed.output
    assert "120 answers, 0 of them invalid" in printed.output
    write_records(tmp_path / "r.jsonl", HEADER, made_up())
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == DataError.exit_code
    assert "--observe ask,verbalised,scale" in refused.stderr
