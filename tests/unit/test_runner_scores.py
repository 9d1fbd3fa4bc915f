"""Scores come from the library's own functions; tables say the same as the numbers beside them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from click.testing import CliRunner, Result

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.cli import main
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.corpus.records import Header, Record, read_records, write_records
from lsp_calib.corpus.thresholds import shipped_thresholds
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.studies import evaluate
from lsp_calib.studies.evaluate import FIRST, Scores, score, tiers_of
from lsp_calib.studies.score import ALL, APART, HELD_OUT, RAW, Row
from lsp_calib.studies.statistics import OURS
from lsp_calib.values import ModelIdentity

SHIPPED = state.shipped_models() / "records" / "lines" / "line-smollm2-135m.jsonl"
# Answers to be scored, and of how many projects: more are more folds, and each choice is made in every one.
N, PROJECTS = 160, 5
HEADER = Header("line", "python", ModelIdentity("m", "Q4", "0" * 64), "line-prefix-1", 0)


def made_up(n: int, projects: int = 8, seed: int = 0) -> list[Record]:
    """Records whose probabilities say something, but too much."""
    rng = np.random.default_rng(seed)
    records = []
    for at in range(n):
        p = rng.uniform(0.2, 0.99)
        exact = bool(rng.random() < p**3)
        logprobs = tuple(float(x) for x in np.log(p) + rng.normal(0, 0.01, 1 + at % 5) - 0.02)
        records.append(
            Record(
                item=f"project-1.{at % projects}/f.py:{at}:1",
                group=f"project-1.{at % projects}",
                stratum=("mid-line", "mid-word")[at // projects % 2],
                correct={"exact": exact, "tests": exact or bool(rng.random() < 0.1)},
                shown=at % 10 != 0,
                stop="line",
                tokens=tuple(range(len(logprobs))),
                logprobs=logprobs,
                typed_logprobs=(0.0,) * len(logprobs),
            )
        )
    return records


@pytest.fixture(scope="module")
def scores() -> Scores:
    return score(HEADER, made_up(N, PROJECTS), frozenset({"project-1.1", "project-1.3"}), resamples=50)


def row_of(scores: Scores, **wanted: object) -> Row:
    (row,) = [r for r in scores.rows if all(getattr(r, name) == value for name, value in wanted.items())]
    return row


def test_the_main_row_is_what_the_calibrator_says_of_itself() -> None:
    """One computation: a calibrator's metrics and the table's are the same numbers."""
    header, records = read_records(SHIPPED)
    calibrator = Calibrator.load(state.shipped_models() / "calibrators" / "line-smollm2-135m.json")
    scores = score(header, records, frozenset(header.held_out), resamples=20, headline=True)
    row = row_of(scores, measure=calibrator.measure, rescaling=OURS, stratum=ALL, folds=APART)
    assert scores.best == calibrator.measure
    assert (row.n, row.right) == (calibrator.n, calibrator.n_correct)
    for name in ("skill", "auc", "ece"):
        assert getattr(row, name).value == pytest.approx(calibrator.metrics[name].value, rel=1e-8)
    # Reports try more numbers of first tokens than calibrators, and say the choice of each fold.
    assert scores.first["exact"] in FIRST
    assert len(scores.per_fold["exact"]) == 5
    assert set(scores.per_fold["exact"]) <= {*range(1, 20), 24, None}


def test_without_an_encoder_and_held_out_projects_it_is_what_the_calibrator_says() -> None:
    """No held-out answers lack no feature: that does not mean that they have them all."""
    header, every = read_records(
        state.shipped_models() / "records" / "summaries" / "summary-smollm2-135m-python.jsonl"
    )
    text = [attrs.evolve(one, observed={"text": one.observed["text"]}) for one in every if one.observed]
    assert header.similarity is not None
    records = shipped_thresholds(header.similarity).judge(header, text[:300])
    header = attrs.evolve(header, held_out=())
    scores = score(header, records, resamples=20, headline=True)
    calibrator = fit_records(header, records, shipped=True, created="2026-11-25")[0].calibrator
    skill = calibrator.metrics["skill"].value
    assert [row.skill.value for row in scores.rows if row.judge == "most-agree"] == [pytest.approx(skill)]


def test_a_headline_is_what_it_is_among_all_rows(scores: Scores) -> None:
    alone = score(HEADER, made_up(N, PROJECTS), frozenset(scores.held_out), resamples=50, headline=True)
    same = [r for r in scores.rows if (r.measure, r.stratum, r.rescaling) == (scores.best, ALL, OURS)]
    assert {(r.judge, r.folds) for r in same} == {
        (judge, folds) for judge in ("exact", "tests") for folds in (APART, HELD_OUT)
    }
    assert [r.to_json() for r in alone.rows] == [r.to_json() for r in same]
    assert attrs.evolve(alone, rows=()) == attrs.evolve(scores, rows=())


def test_what_is_held_out_is_in_no_row_of_the_fit(scores: Scores) -> None:
    offered = [r for r in made_up(N, PROJECTS) if r.shown]
    apart = [r for r in offered if r.group in scores.held_out]
    fit = row_of(scores, judge="exact", folds=APART, stratum=ALL, measure=scores.best, rescaling=OURS)
    held = row_of(scores, judge="exact", folds=HELD_OUT, stratum=ALL)
    assert (fit.n, held.n) == (len(offered) - len(apart), len(apart))
    assert held.right == sum(r.correct["exact"] for r in apart)


def test_labels_of_held_out_projects_do_not_touch_the_others(scores: Scores) -> None:
    apart = frozenset(scores.held_out)
    turned = [
        attrs.evolve(r, correct={name: not value for name, value in r.correct.items()})
        if r.group in apart
        else r
        for r in made_up(N, PROJECTS)
    ]
    again = score(HEADER, turned, apart, resamples=50)

    def of(found: Scores, *, apart: bool) -> list[dict[str, Any]]:
        return [row.to_json() for row in found.rows if (row.folds == HELD_OUT) == apart]

    assert of(again, apart=False) == of(scores, apart=False)
    assert of(again, apart=True) != of(scores, apart=True)


def test_strata_tiers_and_judges_add_up(scores: Scores) -> None:
    for judge in ("exact", "tests"):
        for part in (APART, HELD_OUT):
            rows = [
                r
                for r in scores.rows
                if (r.judge, r.folds, r.measure, r.rescaling) == (judge, part, scores.best, OURS)
            ]
            (whole,) = [r for r in rows if r.stratum == ALL]
            kinds = [r for r in rows if r.stratum != ALL]
            assert [r.stratum for r in kinds] == ["mid-line", "mid-word"]
            assert whole.n == sum(r.n for r in kinds)
            assert whole.right == sum(r.right for r in kinds)
            for row in rows:
                assert sum(one["n"] for one in tiers_of(row).values()) == row.n
                assert sum(one["right"] for one in tiers_of(row).values()) == row.right
    assert scores.right["tests"] >= scores.right["exact"]


def test_answers_whose_probabilities_cannot_be_believed_are_counted_apart() -> None:
    records = [attrs.evolve(r, correct={"exact": r.correct["exact"]}) for r in made_up(60, 3)]
    doubtful = [
        attrs.evolve(r, logprobs=(), typed_logprobs=(), doubt=True) if at in (1, 2) else r
        for at, r in enumerate(records)
    ]
    scores = score(HEADER, doubtful, resamples=20)
    assert scores.doubtful == 2
    assert row_of(scores, judge="exact", measure="total", rescaling=OURS).n == scores.offered - 2


def test_too_few_answers_and_mixed_records_are_data_errors() -> None:
    with pytest.raises(DataError, match="at least 20"):
        score(HEADER, made_up(20))
    records = made_up(60)
    with pytest.raises(DataError, match="tests"):
        score(HEADER, [*records[:-1], attrs.evolve(records[-1], correct={"exact": True})])


def test_csv_and_json_hold_every_number(scores: Scores) -> None:
    lines = list(csv.DictReader(io.StringIO(evaluate.comma_separated(scores))))
    names = ("judge", "measure", "rescaling", "folds", "stratum")
    found = {(*(line[name] for name in names), line["metric"]): line["value"] for line in lines}
    assert len(found) == len(lines)
    document = json.loads(json.dumps(scores.to_json()))
    for row in document["rows"]:
        key = tuple(row[name] for name in names)
        for name in ("skill", "auc", "ece"):
            if row[name] is not None:
                text = found[(*key, name)]
                value = float(text) if text else None
                assert value == pytest.approx(row[name]["value"], abs=1e-6)
    assert document["header"]["model"]["name"] == "m"
    assert (document["profile"], document["asked"]) == ("editor", N)


def test_markdown_tables_are_whole(scores: Scores) -> None:
    text = evaluate.markdown(scores)
    for block in text.split("## ")[1:]:
        widths = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(widths) == 1, block
    assert "project-1.1" in text
    best = row_of(scores, judge="exact", folds=APART, stratum=ALL, measure=scores.best, rescaling=OURS)
    skill, ece = best.skill, best.ece
    words = f"{skill.value:+.2f} ({skill.low:+.2f} to {skill.high:+.2f})".replace("-", "−")
    assert ece is not None
    assert f"| {words} |" in text
    assert "ECE; a calibrated score would show" in text
    assert f"| {ece.value:.3f}; {ece.low:.3f} to {ece.high:.3f} |" in text


@pytest.mark.usefixtures("home")
class TestCommand:
    """`lsp-calib eval` and `calibrate` where no model is installed."""

    def invoke(self, *arguments: str | Path) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Path:
        path = tmp_path / "r.jsonl"
        write_records(path, HEADER, made_up(240, PROJECTS))
        return path

    def test_records_are_scored_without_a_model(self, tmp_path: Path) -> None:
        kept = tmp_path / "r.jsonl"
        write_records(kept, HEADER, made_up(60, PROJECTS))
        result = self.invoke(
            *("eval", "line", "--records", kept, "--output", tmp_path / "out" / "deep", "--json"),
            *("--held-out", "2", "--resamples", "20"),
        )
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        assert document["asked"] == 60
        assert len(document["held_out"]) == 2
        names = {file.name for file in (tmp_path / "out" / "deep").iterdir()}
        assert names == {"scores.md", "scores.csv", "scores.json"}
        write_records(
            kept, HEADER, [attrs.evolve(r, correct={"exact": r.correct["exact"]}) for r in made_up(60, 3)]
        )
        said = self.invoke(
            *("eval", "line", "--records", kept, "--output", tmp_path / "out", "--resamples", "20")
        )
        assert f"Tables are in {tmp_path / 'out'}" in said.stdout
        assert "records are in" not in said.stdout
        shown = self.invoke("eval", "line", "--records", kept, "--resamples", "20")
        assert shown.exit_code == 0
        assert "geometric-mean" in shown.stdout

    def test_records_of_another_task_are_refused(self, kept: Path) -> None:
        result = self.invoke("eval", "infill", "--records", kept)
        assert result.exit_code == DataError.exit_code
        assert "'line'" in result.stderr
        write_records(kept, attrs.evolve(HEADER, task="infill"), made_up(200))
        result = self.invoke("calibrate", "--records", kept)
        assert result.exit_code == DataError.exit_code
        assert "infill" in result.stderr

    def calibrate(self, kept: Path, *options: str) -> dict[str, Any]:
        result = self.invoke("calibrate", "--records", kept, "--json", *options)
        assert result.exit_code == 0, result.output
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    def in_force(self) -> str:
        return (
            CalibratorStore.open()
            .choose(Purpose(HEADER.model, HEADER.prompt_version, "line", "python"))
            .calibrator.id
        )

    def test_a_calibrator_that_predicts_better_is_put_in_force(self, kept: Path) -> None:
        before = self.in_force()
        document = self.calibrate(kept, "--created", "2026-03-04")
        assert document["promoted"], document["reason"]
        assert (document["present"], document["calibrator"]["parent"]) == (before, before)
        assert document["calibrator"]["created"] == "2026-03-04"
        assert document["calibrator"]["source"] == "workspace"
        comparison = document["comparison"]
        assert (comparison["before"]["id"], comparison["fresh"]) == (before, True)
        assert comparison["n"] == document["calibrator"]["n"]
        skill = document["calibrator"]["metrics"]["skill"]["value"]
        assert comparison["after"]["skill"]["value"] == pytest.approx(skill)
        assert comparison["gain"]["value"] > 0
        assert document["calibrator"]["id"] == self.in_force()
        assert Path(document["path"]).is_file()

    def test_one_that_predicts_worse_is_not_unless_it_is_installed(self, kept: Path) -> None:
        """The present one knows these lines better than a fit can that is judged out of fold."""
        document = self.calibrate(kept)
        knowing = attrs.evolve(Calibrator.load(Path(document["path"])), provenance=())
        CalibratorStore.open().promote(knowing)
        document = self.calibrate(kept)
        assert not document["promoted"]
        assert document["reason"].startswith("the present calibrator is better: log loss 0.")
        assert document["present"] == self.in_force() == knowing.id
        assert Calibrator.load(Path(document["path"])).id == document["calibrator"]["id"], "it is kept"
        said = self.invoke("calibrate", "--records", kept).stdout.replace("\n", " ")
        assert f"{knowing.id} stays: the present calibrator is better" in said
        assert "--install" in said
        document = self.calibrate(kept, "--install")
        assert document["promoted"]
        assert (document["present"], self.in_force()) == (knowing.id, document["calibrator"]["id"])
        assert "because of --install" in document["reason"]
        store = CalibratorStore.open()
        store.rollback(knowing.purpose)
        assert store.choose(knowing.purpose).calibrator.id == knowing.id, "the way back"

    def test_lines_that_the_present_one_was_fitted_on_prove_nothing(self, kept: Path) -> None:
        first = self.calibrate(kept)
        assert first["promoted"]
        second = self.calibrate(kept)
        assert not second["promoted"]
        assert second["reason"].startswith(
            "too few lines to compare it with the present calibrator: 0 of 216"
        )
        assert (second["comparison"]["n"], second["comparison"]["fresh"]) == (216, False)
        assert self.in_force() == first["calibrator"]["id"]

    def test_the_intervals_of_one_project_are_of_its_files(self, kept: Path) -> None:
        """Of fewer than three groups none can be drawn again: then there were no intervals."""
        write_records(kept, HEADER, [attrs.evolve(record, group="one") for record in made_up(200)])
        gain = self.calibrate(kept)["comparison"]["gain"]
        assert gain["low"] < gain["value"] < gain["high"]

    def test_a_file_and_a_place_in_force_are_two_things(self, kept: Path, tmp_path: Path) -> None:
        before = self.in_force()
        document = self.calibrate(kept, "--output", str(tmp_path / "c.json"))
        assert (document["promoted"], document["present"], self.in_force()) == (False, None, before)
        result = self.invoke("calibrate", "--records", kept, "--install", "--output", tmp_path / "d.json")
        assert result.exit_code == SettingsError.exit_code
        assert "not both" in result.stderr

    @pytest.mark.parametrize("arguments", [("eval", "line"), ("calibrate",)])
    def test_what_is_not_said_is_a_settings_error(self, arguments: tuple[str, ...]) -> None:
        result = self.invoke(*arguments)
        assert result.exit_code == SettingsError.exit_code, result.output
        assert result.stderr.startswith("lsp-calib: ")


class TestHeldOutInRecords:
    """Which projects nothing is fitted on stands in the records: who replays them cannot forget it."""

    APART = ("project-1.1", "project-1.5")

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "records.jsonl"
        write_records(path, attrs.evolve(HEADER, held_out=self.APART), made_up(400))
        return path

    def run(self, *arguments: object) -> dict[str, Any]:
        result = CliRunner().invoke(main, [str(one) for one in arguments])
        assert result.exit_code == 0, result.output
        document: dict[str, Any] = json.loads(result.stdout)
        return document

    def test_a_calibrator_is_fitted_on_the_others(self, file: Path, tmp_path: Path) -> None:
        command = ("calibrate", "--records", file, "--output", tmp_path / "c.json", "--json")
        fitted = self.run(*command)["calibrator"]
        others = [r for r in made_up(400) if r.shown and r.group not in self.APART]
        assert (fitted["n"], fitted["nCorrect"]) == (len(others), sum(r.correct["exact"] for r in others))
        names = {f"{origin['name']}-{origin['version']}" for origin in fitted["provenance"]}
        assert names == {r.group for r in others}
        assert self.run(*command, "--held-out", 0)["calibrator"]["n"] == sum(r.shown for r in made_up(400))

    def test_they_are_scored_apart(self, file: Path) -> None:
        command = ("eval", "line", "--records", file, "--json", "--resamples", 20)
        assert self.run(*command)["held_out"] == list(self.APART)
        assert self.run(*command, "--held-out", 0)["held_out"] == []
        assert len(self.run(*command, "--held-out", 3)["held_out"]) == 3


def test_a_task_at_which_a_model_fails_has_no_scores_and_a_sentence_that_says_so(tmp_path: Path) -> None:
    """SmolLM2 with the small window solves 3 of 320: an ECE of 0.013 stood beside a skill of -0.29."""
    header, records = read_records(state.shipped_models() / "records" / "lines" / "infill-smollm2-135m.jsonl")
    scores = score(header, records, resamples=20)
    assert scores.rows == ()
    assert [note.split(". ")[0] for note in scores.notes] == [
        "Right (exact): 1 of 320 items asked for, at most 1 %",
        "Right (tests): 3 of 320 items asked for, at most 1 %",
    ]
    evaluate.write(scores, tmp_path)
    text = (tmp_path / "scores.md").read_text("utf-8")
    assert "3 of 320" in text
    assert "0.013" not in text


def test_a_study_is_scored_on_every_item_asked_and_says_so() -> None:
    header, records = read_records(
        state.shipped_models() / "records" / "studies" / "synthesis-mbpp-smollm2-135m.jsonl"
    )
    kept = [record for record in records if not record.shown] + records[:300]
    scores = score(header, kept, resamples=20)
    assert scores.profile == "paper"
    assert {row.n for row in scores.rows if row.folds != HELD_OUT} == {len(kept)}
    assert "every item asked for counts, an empty answer as a failure" in evaluate.markdown(scores)
    raw = next(row for row in scores.rows if (row.measure, row.rescaling) == ("total", RAW))
    assert not raw.confidence[[not record.tokens for record in kept]].any()
