"""The blind set: disjoint from what is fitted on, refused where a calibrator is made for others."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from blind import table
from click.testing import CliRunner, Result
from offered_lines import shipped_for
from test_runner_scores import HEADER, made_up

from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.cli import main
from lsp_calib.corpus.records import read_records, sources_of, write_records
from lsp_calib.errors import DataError
from lsp_calib.studies import pinned
from lsp_calib.studies.pinned import BLIND_SET, blind_among

BLIND = pinned.SETS[BLIND_SET]
FITTED_ON = sorted((state.shipped_models() / "records").glob("line-*.jsonl"))
SCORED = sorted((state.shipped_models() / "records" / "blind").glob("*.jsonl"))
PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
CALIBRATORS = sorted((state.shipped_models() / "calibrators").glob("*.json"))


def test_it_is_40_python_projects() -> None:
    assert BLIND.language == "python"
    assert len({project.name for project in BLIND.projects}) == 40


@pytest.mark.parametrize("name", [name for name in pinned.SETS if name != BLIND_SET])
def test_no_project_of_another_set_is_in_it(name: str) -> None:
    other = pinned.SETS[name]
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


@pytest.mark.usefixtures("home")
class TestCalibrate:
    def invoke(self, *arguments: str | Path) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    def records(self, path: Path, held_out: tuple[str, ...] = ()) -> Path:
        """Records of which a quarter is of another version of a blind project."""
        renamed = {"project-1.1": "Django-9.9"}
        found = [attrs.evolve(r, group=renamed.get(r.group, r.group)) for r in made_up(240, 4)]
        write_records(path, attrs.evolve(HEADER, held_out=held_out), found)
        return path

    def test_for_others_it_is_refused_and_nothing_is_written(self, tmp_path: Path) -> None:
        made = tmp_path / "made.json"
        result = self.invoke(
            "calibrate", "--records", self.records(tmp_path / "r.jsonl"), "--output", made, "--quiet"
        )
        assert result.exit_code == DataError.exit_code
        assert "Django" in result.stderr
        assert "leave --output out" in result.stderr
        assert not made.exists()

    def test_for_others_the_model_is_not_even_asked(self, tmp_path: Path) -> None:
        """There is no model here: being asked would be another error."""
        project = tmp_path / "django"
        project.mkdir()
        (project / "a.py").write_text("".join(f"value_{n} = compute({n})\n" for n in range(90)))
        result = self.invoke("calibrate", project, "--samples", "60", "--output", tmp_path / "made.json")
        assert result.exit_code == DataError.exit_code
        assert BLIND_SET in result.stderr

    def test_held_out_it_is_fitted_on_by_nobody(self, tmp_path: Path) -> None:
        kept = self.records(tmp_path / "r.jsonl", ("Django-9.9",))
        made = tmp_path / "made.json"
        result = self.invoke("calibrate", "--records", kept, "--output", made, "--quiet")
        assert result.exit_code == 0, result.output
        assert blind_among(source.name for source in Calibrator.load(made).provenance) == ()

    def test_who_works_on_such_a_project_calibrates_for_himself(self, tmp_path: Path) -> None:
        result = self.invoke("calibrate", "--records", self.records(tmp_path / "r.jsonl"), "--quiet")
        assert result.exit_code == 0, result.output
        assert "now in force" in result.stdout


@pytest.mark.parametrize("name", ["smollm2-135m-large", "qwen2.5-coder-1.5b"])
def test_the_documentation_says_what_shipped_calibrators_are_worth_on_human_eval(name: str) -> None:
    header, records = read_records(state.shipped_models() / "records" / f"infill-{name}.jsonl")
    _, _, *rows = table(header, records, shipped_for(header))
    assert "\n".join(rows[2:]) in PAGE
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
