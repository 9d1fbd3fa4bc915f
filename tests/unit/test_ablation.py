"""Ablation: each row is the prediction of what it names, out of fold, and its numbers are counted right."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from click.testing import CliRunner

from lsp_calib.calibration.calibrators.fitting import RECIPES
from lsp_calib.calibration.scores import skill_score
from lsp_calib.calibration.validation import out_of_fold
from lsp_calib.cli import main
from lsp_calib.confidence.features import FEATURES, PLACES
from lsp_calib.corpus.places import INSERTING, WRITING_ON
from lsp_calib.corpus.records import FeatureList, Header, Record, write_records
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.studies import ablation as ablations
from lsp_calib.studies.ablation import (
    SHIPPED,
    STEPS,
    TARGETS,
    Ablation,
    Stage,
    Step,
    acceptable,
    run_ablation,
)
from lsp_calib.studies.evaluate import Share
from lsp_calib.studies.score import ALL, FIRST_T
from lsp_calib.studies.statistics import fit_curve
from lsp_calib.values import ModelIdentity

LISTED = FeatureList.present()
HEADER = Header("line", "python", ModelIdentity("m", "Q4", "0" * 64), "line-prefix-1", 0, features=LISTED)
FEW = (
    Step.of("first", FIRST_T),
    Step.of("total", "total"),
    Step.of("probabilities", "total", "largest-surprisal"),
    Step.of("text", "total", "broken"),
    Step.of("text above", "total", "broken", below=False),
)


def made_up(n: int = 240, projects: int = 12, seed: int = 0) -> list[Record]:
    """Records whose probabilities say something, and whose text says more: what is broken is wrong."""
    rng = np.random.default_rng(seed)
    records = []
    for at in range(n):
        p = float(rng.uniform(0.1, 0.95))
        broken = bool(rng.random() < 0.3)
        logprobs = tuple(float(x) for x in np.log(p) / 3 + rng.normal(0, 0.01, 3) - 0.02)
        values = dict.fromkeys(LISTED.names, 0.0) | {"broken": float(broken)}
        project = f"project-1.{at % projects}"
        records.append(
            Record(
                item=f"{project}/f.py:{at}:1",
                group=project,
                stratum=PLACES[at // projects % len(PLACES)],
                correct={"exact": bool(rng.random() < p) and not broken},
                shown=at % 10 != 0,
                stop="line",
                tokens=(1, 2, 3),
                logprobs=logprobs,
                typed_logprobs=(0.0,) * 3,
                entropies=(0.5, 0.25, float(rng.uniform())),
                features=LISTED.ordered(values),
                features_above=LISTED.ordered({**values, "broken": 0.0}),
            )
        )
    return records


@pytest.fixture(scope="module")
def ablation() -> Ablation:
    return run_ablation(HEADER, made_up(), FEW, resamples=40)


def stage_of(ablation: Ablation, name: str) -> Stage:
    return next(stage for stage in ablation.stages if stage.name == name)


def skill(stage: Stage) -> float:
    value = stage.row.skill.value
    assert value is not None
    return value


def test_a_row_of_one_measure_is_platt_scaling_of_it_out_of_fold(ablation: Ablation) -> None:
    shown = [record for record in made_up() if record.shown]
    correct = [record.correct["exact"] for record in shown]
    raw = [float(np.exp(sum(record.logprobs))) for record in shown]
    expected = out_of_fold(raw, correct, [record.group for record in shown], fit_curve)
    stage = stage_of(ablation, "total")
    row = stage.row
    assert row.confidence == pytest.approx(expected)
    assert (row.n, row.right) == (len(shown), sum(correct))
    assert skill(stage) == pytest.approx(skill_score(expected, correct))
    assert ablation.correct.tolist() == correct
    assert ablation.asked == 240
    assert list(ablation.groups) == [record.group for record in shown]


def test_what_the_text_tells_shows_only_where_it_may_be_used(ablation: Ablation) -> None:
    assert skill(stage_of(ablation, "text")) > skill(stage_of(ablation, "total")) + 0.1
    assert skill(stage_of(ablation, "text above")) == pytest.approx(
        skill(stage_of(ablation, "total")), abs=0.03
    )


def test_labels_of_a_project_do_not_touch_its_own_predictions() -> None:
    records = made_up()
    apart = records[1].group
    turned = [
        attrs.evolve(one, correct={"exact": one.correct["exact"] != (one.group == apart)}) for one in records
    ]
    mine = [record.group == apart for record in records if record.shown]
    for step in FEW:
        (before,), (after,) = (
            run_ablation(HEADER, r, [step], resamples=20).stages for r in (records, turned)
        )
        assert after.row.confidence[mine] == pytest.approx(before.row.confidence[mine])
        assert after.row.confidence != pytest.approx(before.row.confidence)


def test_rows_whose_features_the_records_lack_are_left_out() -> None:
    bare = [attrs.evolve(record, features=(), features_above=(), entropies=()) for record in made_up()]
    found = run_ablation(attrs.evolve(HEADER, features=None), bare, resamples=20)
    names = [stage.name for stage in found.stages]
    needed = {step.name: {FEATURES[one].needs for one in step.features if one in FEATURES} for step in STEPS}
    complete = [name for name, needs in needed.items() if needs <= {"log-probabilities"}]
    assert names == complete
    with pytest.raises(DataError, match="at least 20"):
        run_ablation(HEADER, made_up(20), FEW)


def test_held_out_projects_are_left_out_and_counted() -> None:
    records = made_up()
    apart = tuple(f"project-1.{n}" for n in range(3))
    found = run_ablation(attrs.evolve(HEADER, held_out=apart), records, FEW[:2], resamples=20)
    kept = [record for record in records if record.group not in apart]
    alone = run_ablation(HEADER, kept, FEW[:2], resamples=20)
    assert (found.asked, found.left_out) == (180, 60)
    assert [stage.to_json() for stage in found.stages] == [stage.to_json() for stage in alone.stages]
    assert found.to_json()["conditions"] == alone.to_json()["conditions"]
    assert "60 further lines, of held-out projects, are left out." in ablations.summary(found)
    assert "left out" not in ablations.summary(alone)
    everything = tuple({record.group for record in records})
    with pytest.raises(DataError, match="of projects that are not held out"):
        run_ablation(attrs.evolve(HEADER, held_out=everything), records, FEW)


@pytest.mark.parametrize(("projects", "words"), [(2, "8 files"), (12, "12 projects")])
def test_files_are_not_called_projects(projects: int, words: str) -> None:
    moved = [
        attrs.evolve(record, item=f"{record.group}/f{at % 8}.py:{at}:1")
        for at, record in enumerate(made_up(projects=projects))
    ]
    found = run_ablation(HEADER, moved, FEW[:1], resamples=20)
    assert f"240 lines of {words} had an answer" in ablations.summary(found)


def test_the_last_row_is_what_ships() -> None:
    assert (STEPS[-1].name, STEPS[-1].recipes) == (SHIPPED, RECIPES)
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_tiers_and_places_add_up(ablation: Ablation) -> None:
    for stage in ablation.stages:
        assert sum(share.n for share in stage.tiers.values()) == stage.row.n
        assert sum(share.right for share in stage.tiers.values()) == stage.row.right
        assert set(stage.errors) == {ALL, *PLACES}
        assert sum(stage.errors[place].n for place in PLACES) == stage.errors[ALL].n == stage.row.n


def test_the_last_row_is_told_apart_by_condition() -> None:
    """Each condition's numbers are those of its own items, predicted with all others."""
    records = made_up()
    # Whole projects, so that the intervals of both conditions have groups to draw.
    writing = [attrs.evolve(one, condition=WRITING_ON) for one in records[::2]]
    mixed = run_ablation(HEADER, [*writing, *records[1::2]], FEW[:3], resamples=40)
    assert list(mixed.parts) == [INSERTING, WRITING_ON]
    last = mixed.stages[-1].row
    assert mixed.parts[WRITING_ON][0] == len(writing)
    assert sum(asked for asked, _ in mixed.parts.values()) == mixed.asked
    assert sum(row.n for _, row in mixed.parts.values()) == last.n
    for condition, (_, row) in mixed.parts.items():
        chosen = np.array([r.condition == condition for r in [*writing, *records[1::2]] if r.shown])
        expected = skill_score(last.confidence[chosen], mixed.correct[chosen])
        assert row.skill.value == pytest.approx(expected)
    few = [attrs.evolve(one, condition=WRITING_ON) for one in records[:12]]
    assert list(run_ablation(HEADER, [*few, *records[12:]], FEW[:2], resamples=40).parts) == [INSERTING]


@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [
        # On the first fold all from 0.6 on are right; on the second all from 0.8 on. Of the first by the
        # second's 0.8: one item. Of the second by the first's 0.6: three, one wrong.
        ([0.9, 0.7, 0.6, 0.2, 0.9, 0.8, 0.6, 0.2], [1, 1, 1, 0, 1, 1, 0, 0], Share(4, 3, 8)),
        # The first fold's right item at 0.9 cannot be told from its wrong one: no threshold reaches 1 there.
        ([0.9, 0.9, 0.5, 0.9, 0.5, 0.5], [1, 0, 0, 1, 1, 1], Share(3, 1, 6)),
        ([0.1, 0.5, 0.9, 0.1, 0.5, 0.9], [0, 0, 0, 0, 0, 0], Share(0, 0, 6)),
    ],
)
def test_a_threshold_is_chosen_on_other_folds_than_it_is_counted_on(
    confidence: list[float], correct: list[int], expected: Share
) -> None:
    fold = np.repeat([0, 1], len(correct) // 2)
    assert acceptable(np.array(confidence), np.array(correct, np.bool_), fold, 1.0) == expected


def test_tables_are_whole_and_say_the_same_as_the_numbers(ablation: Ablation) -> None:
    quality, errors, _ = ablations.tables(ablation)
    for stage, words, limits in zip(ablation.stages, quality.rows, errors.rows, strict=True):
        interval = stage.row.skill
        shown = f"{interval.value:+.2f} ({interval.low:+.2f} to {interval.high:+.2f})".replace("-", "−")
        assert words[1] == shown
        error = stage.errors["mid-word"]
        assert f"{error.value:.3f} ({error.limit:.3f})" in " ".join(limits)
    lines = list(csv.DictReader(io.StringIO(ablations.comma_separated([ablation]))))
    found = {(line["evidence"], line["metric"]): line for line in lines}
    assert len(found) == len(lines)
    document = json.loads(json.dumps(ablation.to_json()))
    for row in document["rows"]:
        assert float(found[row["name"], "skill"]["value"]) == pytest.approx(row["skill"]["value"], abs=1e-6)
        assert float(found[row["name"], "ece.all"]["high"]) == row["errors"][ALL]["limit"]
        for target in TARGETS:
            share = row["acceptable"][f"{target:g}"]
            assert float(found[row["name"], f"at-{target:g}.share"]["value"]) == share["share"]


def test_the_figures_checksum_changes_with_what_it_shows(ablation: Ablation) -> None:
    assert ablations.checksum([ablation]) == ablations.checksum([ablation])
    fewer = attrs.evolve(ablation, stages=ablation.stages[:-1])
    assert ablations.checksum([fewer]) != ablations.checksum([ablation])


class TestCommand:
    """`lsp-calib eval confidence`."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "r.jsonl"
        write_records(path, HEADER, made_up(100, 4))
        return path

    def invoke(self, *arguments: object) -> Any:
        words = ["eval", "confidence", "--resamples", "20", *(str(argument) for argument in arguments)]
        return CliRunner(env={"COLUMNS": "200"}).invoke(main, words)

    def test_it_prints_and_writes_tables(self, file: Path, tmp_path: Path) -> None:
        out = tmp_path / "a" / "b"
        result = self.invoke(file, "--output", out, "--json")
        assert result.exit_code == 0, result.output
        assert {path.name for path in out.iterdir()} == {"confidence.csv", "confidence.json"}
        written = json.loads((out / "confidence.json").read_text("utf-8"))["ablations"]
        assert json.loads(result.stdout)["ablations"] == written
        assert written[0]["rows"][-1]["name"] == SHIPPED

    def test_two_prompts_of_a_model_are_told_apart(
        self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ablations, "run_ablation", partial(run_ablation, steps=FEW[:2]))
        other = tmp_path / "other.jsonl"
        write_records(other, attrs.evolve(HEADER, prompt_version="line-prefix-2"), made_up(100, 4, seed=1))
        report = ablations.compare_evidence([file, other], tmp_path / "out", figure=True, resamples=20)
        report.print()
        (drawn,) = [path for path in report.files if path.suffix == ".svg"]
        assert ablations.checksum(report.ablations) in drawn.read_text("utf-8")
        text = (tmp_path / "out" / "confidence.csv").read_text("utf-8")
        lines = list(csv.DictReader(io.StringIO(text)))
        assert {line["prompt"] for line in lines} == {"line-prefix-1", "line-prefix-2"}
        keys = [(line["model"], line["prompt"], line["evidence"], line["metric"]) for line in lines]
        assert len(set(keys)) == len(keys)

    def test_more_files_than_a_figure_shows_are_refused_before_anything_is_computed(
        self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ablations, "run_ablation", None)
        result = self.invoke(file, file, file, "--output", tmp_path / "out", "--figure")
        assert result.exit_code == SettingsError.exit_code
        assert "at most 2 files of records; 3 were given" in result.stderr
        assert "leave --figure out" in result.stderr
        assert not (tmp_path / "out").exists()

    def test_records_of_another_task_are_refused(self, file: Path, tmp_path: Path) -> None:
        assert self.invoke(file, "--figure").exit_code == SettingsError.exit_code
        write_records(tmp_path / "i.jsonl", attrs.evolve(HEADER, task="infill"), made_up())
        result = self.invoke(tmp_path / "i.jsonl")
        assert result.exit_code == DataError.exit_code
        assert "'infill'" in result.stderr
