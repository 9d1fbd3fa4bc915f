"""The blind set: nothing that ships was fitted on a project of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from blind import BLIND, blind_among, table
from offered_lines import shipped_for

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.corpus.records import read_records, sources_of
from lsp_calib.studies.data import SETS

FITTED_ON = sorted((state.shipped_models() / "records" / "lines").glob("line-*.jsonl"))
SCORED = sorted((state.shipped_models() / "records" / "blind").glob("*.jsonl"))
PAGE, ON_LINES = (
    (state.shipped_models() / "records" / folder / "README.md").read_text("utf-8")
    for folder in ("blind", "lines")
)
CALIBRATORS = sorted((state.shipped_models() / "calibrators").glob("*.json"))


def test_it_is_40_python_projects() -> None:
    assert BLIND.language == "python"
    assert len({project.name for project in BLIND.projects}) == 40


@pytest.mark.parametrize("name", [name for name in SETS if name != BLIND.name])
def test_no_project_of_another_set_is_in_it(name: str) -> None:
    other = SETS[name]
    assert blind_among((project.name for project in other.projects), other.language) == ()


@pytest.mark.parametrize("file", FITTED_ON, ids=lambda file: file.stem)
def test_no_committed_record_that_is_fitted_on_is_of_it(file: Path) -> None:
    assert blind_among(source.name for source in sources_of(read_records(file)[1])) == ()


@pytest.mark.parametrize("file", CALIBRATORS, ids=lambda file: file.stem)
def test_no_shipped_calibrator_was_fitted_on_it(file: Path) -> None:
    calibrator = Calibrator.load(file)
    names = [source.name for source in calibrator.provenance]
    assert blind_among(names, calibrator.purpose.language) == ()


def test_names_are_compared_as_the_index_does_and_versions_are_not() -> None:
    assert blind_among(["Prompt_Toolkit", "click", "django", "django"]) == ("Prompt_Toolkit", "django")
    assert blind_among(["django-extensions", "my-django", ""]) == ()
    assert blind_among(["redis"]) == ("redis",)
    assert blind_among(["redis"], "c") == ()


@pytest.mark.parametrize("name", ["smollm2-135m-large", "qwen2.5-coder-1.5b"])
def test_the_documentation_says_what_shipped_calibrators_are_worth_on_human_eval(name: str) -> None:
    header, records = read_records(state.shipped_models() / "records" / "lines" / f"infill-{name}.jsonl")
    _, _, *rows = table(header, records, shipped_for(header))
    assert "\n".join(rows[2:]) in ON_LINES
    assert len(rows) == 4, "exactly right, and right by tests"


@pytest.mark.parametrize("file", SCORED, ids=lambda file: file.stem)
def test_the_documentation_says_what_the_blind_records_and_the_shipped_calibrator_say(file: Path) -> None:
    """A calibrator that was fitted again after its score fails here: the page must say what was scored."""
    header, records = read_records(file)
    assert len(blind_among(source.name for source in sources_of(records))) == 40
    _, _, *rows = table(header, records, shipped_for(header))
    assert "\n".join(rows) in PAGE


def test_the_documentation_says_what_the_blind_records_say_of_each_kind_of_place() -> None:
    header, records = read_records(next(file for file in SCORED if "qwen" in file.stem))
    _, _, *rows = table(header, records, shipped_for(header), "stratum")
    assert "\n".join(rows) in PAGE
