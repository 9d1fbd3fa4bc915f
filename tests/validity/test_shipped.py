"""The shipped calibrators are what the committed records make of them, and as good as they say."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lsp_calib import home
from lsp_calib.calibration import Calibrator, auc, out_of_fold, skill_score
from lsp_calib.commands.calibrate import fit_records
from lsp_calib.completion.prompt import version_of
from lsp_calib.confidence import by_name
from lsp_calib.evaluation.datasets.pinned import PROJECTS
from lsp_calib.evaluation.lines import STRATA
from lsp_calib.evaluation.records import Record, read_records
from lsp_calib.evaluation.scores import ALL, CHOSEN, score
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.values import Stop

MODELS = home.shipped_models()
SHIPPED = sorted((MODELS / "calibrators").glob("*.json"))
ROOT = Path(__file__).parents[2]
README, DOCS = ROOT / "README.md", ROOT / "docs"
RECORDS = sorted((MODELS / "records").glob("*.jsonl"))
LINES = [file for file in RECORDS if file.stem.startswith("line-")]
INFILLING = [file for file in RECORDS if file.stem.startswith("infill-")]


PLACES = {
    "line-start": "start of the line",
    "after-indentation": "after the indentation",
    "mid-line": "in the line",
    "mid-word": "in a word",
    "": "all",
}


def records_of(path: Path) -> Path:
    return MODELS / "records" / path.with_suffix(".jsonl").name


def fitted_on(path: Path) -> list[Record]:
    """The records that a shipped calibrator was fitted on."""
    header, records = read_records(records_of(path))
    return [record for record in records if record.shown and record.group not in header.held_out]


@pytest.fixture(params=SHIPPED, ids=lambda path: path.stem)
def shipped(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_is_one_for_the_default_model() -> None:
    assert "line-smollm2-135m" in [path.stem for path in SHIPPED]


def test_it_is_for_the_model_and_the_prompt_of_today(shipped: Path) -> None:
    """A changed prompt or model file leaves the calibrator behind: it must be fitted again."""
    calibrator = Calibrator.load(shipped)
    card = load_cards()[calibrator.purpose.model.name]
    assert calibrator.purpose.model.sha256 == card.sha256
    assert calibrator.purpose.prompt_version == version_of(card.completion)
    assert calibrator.source == "shipped"


def test_it_says_what_it_was_fitted_on(shipped: Path) -> None:
    """Sources with versions, n, t, and skill with its interval stand in the file itself."""
    calibrator = Calibrator.load(shipped)
    assert calibrator.n >= 500
    assert sum(origin.items for origin in calibrator.provenance) == calibrator.n
    assert all(origin.name and origin.version for origin in calibrator.provenance)
    skill = calibrator.metrics["skill"]
    assert skill.value is not None
    assert skill.low is not None
    assert skill.high is not None
    assert skill.low < skill.value < skill.high
    assert skill.low > 0, "a calibrator without skill says nothing: ship none"


def test_the_records_make_it(shipped: Path) -> None:
    """Fitted again from the records, without a model, it is the same."""
    calibrator = Calibrator.load(shipped)
    header, records = read_records(records_of(shipped))
    again = fit_records(header, records, shipped=True, created=header.created)
    assert_same(again.to_json(), calibrator.to_json())


def test_the_command_makes_it_byte_for_byte_where_no_model_is_installed(
    shipped: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made.json"
    subprocess.run(
        [
            *(sys.executable, "-m", "lsp_calib", "calibrate", "--quiet"),
            *("--records", str(records_of(shipped)), "--output", str(made)),
        ],
        env={**os.environ, "LSP_CALIB_HOME": str(tmp_path / "home"), "LSP_CALIB_MODEL": "not-installed"},
        cwd=tmp_path,
        check=True,
        timeout=300,
    )
    assert made.read_bytes() == shipped.read_bytes()


def test_records_are_small() -> None:
    assert sum(file.stat().st_size for file in RECORDS) < 20_000_000
    for file in RECORDS:
        assert file.stat().st_size / len(read_records(file)[1]) < 500


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_records_hold_no_source(file: Path) -> None:
    """Ids, numbers and words of the format: nothing that was read or written by a model."""
    _, *lines = file.read_text("utf-8").splitlines()
    texts = {"item": r"[\w.+-]+/[\w./+@-]+(:\d+:\d+)?", "group": r"[\w.+-]+(/\w+)?", "prompt": "[0-9a-f]{16}"}
    texts |= {"stratum": "|".join(STRATA), "stop": "|".join(Stop)}
    numbers = {"tokens", "surprisal", "typed", "entropy"}
    for line in lines:
        row = json.loads(line)
        assert row.keys() <= {*texts, *numbers, "correct", "shown", "doubt"}
        for key in row.keys() & texts.keys():
            assert re.fullmatch(texts[key], row[key])
        for key in row.keys() & numbers:
            assert all(type(value) is int for value in row[key])
        assert all(type(value) is bool for value in row["correct"].values())


@pytest.mark.parametrize("file", LINES, ids=lambda file: file.stem)
def test_lines_are_of_many_pinned_projects_some_of_them_held_out(file: Path) -> None:
    header, records = read_records(file)
    assert len(records) >= 1200
    pinned = {project.folder for project in PROJECTS}
    projects = {record.group for record in records}
    assert len(projects) >= 60
    assert projects <= pinned
    assert sum(source.items for source in header.sources) == len(records)
    assert len(header.held_out) >= 10
    assert set(header.held_out) < projects
    for stratum, share in STRATA.items():
        drawn = sum(record.stratum == stratum for record in records) / len(records)
        assert drawn == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("file", INFILLING, ids=lambda file: file.stem)
def test_infilling_is_judged_exactly_and_by_tests(file: Path) -> None:
    _, records = read_records(file)
    assert len(records) >= 300
    assert all(set(record.correct) == {"exact", "tests"} for record in records)
    # The line that was there passes the tests; but for its indentation, which `exact` leaves aside.
    exact = [record for record in records if record.correct["exact"]]
    failing = sum(not record.correct["tests"] for record in exact)
    assert failing <= max(1, len(exact) // 50)


def test_lines_and_infilling_are_there_for_both_models() -> None:
    models = {"smollm2-135m", "qwen2.5-coder-1.5b"}
    assert {read_records(file)[0].model.name for file in LINES} == models
    assert {read_records(file)[0].model.name for file in INFILLING} == models
    assert {file.stem for file in LINES} == {path.stem for path in SHIPPED}


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_the_documentation_quotes_the_scores(file: Path) -> None:
    text = (DOCS / "evaluation.md").read_text("utf-8")
    for row in score_rows(file):
        assert row in text


def score_rows(file: Path) -> list[str]:
    """The rows of docs/evaluation.md on a file of records, one for each way to judge."""
    header, records = read_records(file)
    scores = score(header, records, frozenset(header.held_out), headline=True)
    words = []
    for judge, right in scores.right.items():
        cells = [
            header.model.name,
            f"{header.task}, {judge}",
            str(scores.asked),
            str(scores.offered),
            str(right),
        ]
        for part in ("fit", "held-out"):
            found = [
                row
                for row in scores.rows
                if (row.part, row.judge, row.stratum, row.rescaled) == (part, judge, ALL, True)
                and row.measure == CHOSEN
            ]
            if not found:
                cells += ["–"] * 3
                continue
            metrics = found[0].metrics
            skill, roc, ece = metrics["skill"], metrics["auc"], metrics["ece"]
            cells.append(f"{skill.value:+.2f} ({skill.low:+.2f} to {skill.high:+.2f})")
            cells.append(f"{roc.value:.2f}")
            cells.append(f"{ece.value:.3f} ({ece.low:.3f} to {ece.high:.3f})")
        words.append("| " + " | ".join(cells) + " |")
    return words


def test_what_is_typed_is_known(shipped: Path) -> None:
    """Probabilities given the typed characters rank suggestions no worse than unconditional ones.

    In the middle of a word, where they differ most, they rank better.
    """
    measure = by_name(Calibrator.load(shipped).measure)
    records = fitted_on(shipped)
    correct = np.array([record.correct["exact"] for record in records])
    groups = [record.group for record in records]
    mid_word = np.array([record.stratum == "mid-word" for record in records])
    plain = np.array([measure(record.logprobs) for record in records])
    given = np.array([measure(record.logprobs_given_typed) for record in records])
    assert auc(given[mid_word], correct[mid_word]) > auc(plain[mid_word], correct[mid_word])
    assert skill_score(out_of_fold(given, correct, groups), correct) > skill_score(
        out_of_fold(plain, correct, groups), correct
    )


def test_the_readme_quotes_it(shipped: Path) -> None:
    calibrator = Calibrator.load(shipped)
    text = README.read_text("utf-8")
    skill = calibrator.metrics["skill"]
    assert skill.value is not None
    assert f"{skill.value:+.2f} ({skill.low:+.2f} to {skill.high:+.2f})" in text
    assert re.search(rf"\b{calibrator.n}\b", text)
    ece, roc = calibrator.metrics["ece"], calibrator.metrics["auc"]
    assert f"{ece.value:.3f}; a calibrated score would show {ece.low:.3f} to {ece.high:.3f}" in text
    assert f"{roc.value:.2f} ({roc.low:.2f} to {roc.high:.2f})" in text


def test_the_documentation_quotes_the_records(shipped: Path) -> None:
    """The table of what is typed, in docs/confidence.md, is what the records say."""
    text = (DOCS / "confidence.md").read_text("utf-8")
    for row in typed_rows(shipped):
        assert row in text


def typed_rows(shipped: Path) -> list[str]:
    """The rows of docs/confidence.md on a shipped calibrator, and its sentence on skill."""
    measure = by_name(Calibrator.load(shipped).measure)
    records = fitted_on(shipped)
    correct = np.array([record.correct["exact"] for record in records])
    groups = [record.group for record in records]
    plain = np.array([measure(record.logprobs) for record in records])
    given = np.array([measure(record.logprobs_given_typed) for record in records])
    strata = np.array([record.stratum for record in records])
    rows = []
    for stratum, words in PLACES.items():
        at = strata == stratum if stratum else np.ones(strata.size, np.bool_)
        ranks = (
            [f"{auc(raw[at], correct[at]):.2f}" for raw in (plain, given)]
            if 0 < correct[at].sum() < at.sum()
            else ["–", "–"]
        )
        cells = [words, str(at.sum()), f"{correct[at].mean():.0%}".replace("%", " %"), *ranks]
        rows.append("| " + " | ".join(cells) + " |")
    without, with_typed = (skill_score(out_of_fold(raw, correct, groups), correct) for raw in (plain, given))
    return [*rows, f"Skill, out of fold: {without:+.2f} without, {with_typed:+.2f} with."]


def assert_same(left: Any, right: Any, where: str = "") -> None:
    """Equal, numbers to nine digits: another processor may round the last ones (and so make another id)."""
    if isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left.keys() - {"id"}:
            assert_same(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list):
        assert len(left) == len(right), where
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            assert_same(one, other, f"{where}[{at}]")
    elif isinstance(left, float) and isinstance(right, float):
        assert math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12), (where, left, right)
    else:
        assert left == right, where
