"""`calibrate` refuses before the model is asked, and shows it nothing that the user excludes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lsp_calib.cli import main
from lsp_calib.cli.summaries import MEASURES
from lsp_calib.commands import calibrate as command
from lsp_calib.commands import evaluate
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.documented_source import documented_task
from lsp_calib.evaluation.groups import grouped
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import write_records
from lsp_calib.evaluation.reflective_scores import FORMS, needed_by
from lsp_calib.evaluation.summary_observation import LISTED
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.evaluation.surroundings import surroundings_of
from lsp_calib.evaluation.tasks import Task, line_item_of, line_task
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.values import ModelIdentity

FILE = "".join(f"value_{n} = compute({n}, 'price')\n" for n in range(60))
FUNCTIONS = "".join(
    f'def open_{n}(value):\n    """Open the door number {n}."""\n    return compute(value, {n})\n\n\n'
    for n in range(12)
)


@pytest.mark.parametrize(
    ("items", "groups"),
    [
        (["p/a.py:1:1", "p/b.py:2:1", "q/a.py:1:1"], ["p/a.py", "p/b.py", "q/a.py"]),
        (["p/a.py:0a1b.1:1", "p/b.py:0a1b.2:1"], ["p/a.py", "p/b.py"]),
        (["p:1/x", "p:2/y", "q:1/z"], ["p", "p", "q"]),  # of no files: the user's own groups
        (["p/1", "p/2"], ["p/1", "p/2"]),
    ],
)
def test_few_projects_are_taken_apart_by_file(items: list[str], groups: list[str]) -> None:
    assert grouped([(item, item[0]) for item in items]) == groups


class AskedError(Exception):
    """The model was asked."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """The tasks that the model is asked for."""
    tasks: list[Task] = []

    def collect(task: Task, *_: object, **__: object) -> Any:
        tasks.append(task)
        raise AskedError

    monkeypatch.setattr(command, "collect_records", collect)
    monkeypatch.setattr(evaluate, "collect_records", collect)
    return tasks


def project(folder: Path, *names: str, text: str = FILE) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["calibrate", *map(str, arguments)])


def run_eval(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["eval", *map(str, arguments)])


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("options", [[], ["--task", "summary"]])
def test_source_of_too_few_files_is_named(tmp_path: Path, asked: list[Task], options: list[str]) -> None:
    text = FUNCTIONS * 2 if options else FILE
    one = project(tmp_path / "one", "a.py", text=text)
    for place in (one, one / "a.py"):
        result = run(place, *options)
        assert result.exit_code == DataError.exit_code
        assert "are of 1 files (" in result.stderr
        assert "Name more source" in result.stderr
    two = project(tmp_path / "two", "b.py", text=text)
    assert "are of 2 files" in run(one, two, *options).stderr
    assert not asked
    project(two, "c.py", text=text)
    # Two projects are too few to keep whole ones together: their files are.
    assert isinstance(run(one, two, *options).exception, AskedError)


@pytest.mark.usefixtures("home")
def test_what_is_no_day_is_named(tmp_path: Path, asked: list[Task]) -> None:
    folder = project(tmp_path / "p", "a.py", "b.py", "c.py")
    result = run(folder, "--created", "1.1.2026")
    assert result.exit_code == 2
    assert "such as 2026-01-31" in result.stderr
    assert not asked
    assert isinstance(run(folder, "--created", "2026-01-31").exception, AskedError)


@pytest.mark.parametrize("task", ["line", "summary"])
def test_no_text_of_excluded_files_is_shown(tmp_path: Path, home: Path, asked: list[Task], task: str) -> None:
    """By the user's file, and by the option, with which an editor hands on what is excluded there."""
    text = FUNCTIONS if task == "summary" else FILE
    names = ("a.py", "b.py", "c.py", "mine/secret.py", "generated/d.py")
    folder = project(tmp_path / "p", *names, text=text)
    (home / "config.toml").write_text('exclude = ["mine/**"]\n')
    assert isinstance(run(folder, "--task", task, "--exclude", "generated").exception, AskedError)
    files = {id_.rsplit(":", 2)[0] for id_, _ in asked[0].items}
    assert files == {"p/a.py", "p/b.py", "p/c.py"}


def test_nor_as_context_of_others(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "a.py", "b.py", "secret.py")
    layout = Layout.of(load_cards()["qwen2.5-coder-1.5b"], WindowSize.LARGE)

    def shown(*exclude: str) -> set[str]:
        task = line_task([folder], 40, 0, exclude=exclude)
        items = [line_item_of(payload) for _, payload in task.items]
        return {piece.name for item in items for piece in surroundings_of(item, layout).snippets}

    assert "secret.py" in shown()
    assert shown("secret.py") == {"a.py", "b.py"}


def test_examples_of_summaries_are_of_files_that_are_shown(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "a.py", "b.py", "secret.py", text=FUNCTIONS)
    task = documented_task([folder], 24, 0, exclude=["secret.py"])
    assert "secret.py" not in str(task.items)
    assert "secret.py" in str(documented_task([folder], 24, 0).items)


@pytest.mark.usefixtures("home")
def test_eval_refuses_source_of_too_few_files_before_it_asks(tmp_path: Path, asked: list[Task]) -> None:
    folder = project(tmp_path / "p", "a.py", "b.py")
    out = tmp_path / "out"
    result = run_eval("line", folder, "--output", out)
    assert result.exit_code == DataError.exit_code
    assert "lines are of 2 files (p/a.py, p/b.py)" in result.stderr
    assert not asked
    assert not out.exists()
    project(folder, "c.py")
    assert isinstance(run_eval("line", folder, "--output", out).exception, AskedError)


@pytest.fixture
def summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """`eval summary` asks for these functions, without the data."""
    items = [(f"{n % 5}/f:{n}", {"item": f"{n % 5}/f:{n}", "group": str(n % 5)}) for n in range(30)]
    monkeypatch.setattr(
        "lsp_calib.evaluation.summary_task.summary_task", lambda *_: Task(SUMMARY, tuple(items))
    )


@pytest.mark.usefixtures("home", "summaries")
def test_a_measure_needs_what_it_is_made_of(tmp_path: Path, asked: list[Task]) -> None:
    options = ("summary", "--output", tmp_path / "out", "--measure")
    for measure, observed in (("ask", "scale"), ("normalised", "text"), ("verbalised", "ask"), ("scale", "")):
        result = run_eval(*options, measure, "--observe", observed)
        assert result.exit_code == SettingsError.exit_code
        assert f"--measure {measure} is made of what is observed with --observe" in result.stderr
    assert not asked
    for measure, observed in (("ask", "follow-up"), ("normalised", "ask,text"), ("scale", "scale")):
        assert isinstance(run_eval(*options, measure, "--observe", observed).exception, AskedError)
    # What an earlier run has observed need not be asked for again.
    (tmp_path / "out" / "records.jsonl").touch()
    assert isinstance(run_eval(*options, "scale").exception, AskedError)


@pytest.mark.usefixtures("home", "summaries")
def test_thresholds_are_read_before_anything_is_asked(tmp_path: Path, asked: list[Task]) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text("{}")
    result = run_eval("summary", "--output", tmp_path / "out", "--thresholds", rules)
    assert result.exit_code == DataError.exit_code
    assert f"{rules} is not a file of thresholds" in result.stderr
    assert not asked


def test_each_measure_is_made_of_what_can_be_observed() -> None:
    assert set(FORMS) == set(MEASURES)
    for measure, forms in FORMS.items():
        for name in needed_by(measure):
            numbers = dict(LISTED.names)[name]
            # Some form is known from this observation alone.
            seen = {f"{name}.{number}": 0.0 for number in numbers}
            assert any(form(seen) is not None for form in forms.values()), (measure, name)


@pytest.mark.usefixtures("home")
def test_options_that_contradict_the_records_are_refused(tmp_path: Path) -> None:
    """They were passed over in silence."""
    path = tmp_path / "r.jsonl"
    write_records(path, Header("line", "go", ModelIdentity("m", "Q4", "0" * 64), "line-prefix-1", 0), [])
    for options, what in ((["--task", "summary"], "task 'line'"), (["--language", "java"], "language 'go'")):
        result = run("--records", path, *options)
        assert result.exit_code == DataError.exit_code
        assert f"holds records of the {what}, not of {options[1]!r}" in result.stderr
    assert "language 'go'" in run_eval("line", "--records", path, "--language", "python").stderr
    for result in (
        run("--records", path),
        run("--records", path, "--task", "line", "--language", "go"),
        run_eval("line", "--records", path, "--language", "go"),
    ):
        assert result.exit_code == DataError.exit_code
        assert "not of" not in result.stderr
    write_records(path, Header(SUMMARY, "java", ModelIdentity("m", "Q4", "0" * 64), "summary-1", 0), [])
    # The default of an option contradicts nothing.
    assert "not of" not in run("--records", path).stderr
    assert "not of" not in run_eval("summary", "--records", path).stderr
    assert (
        "language 'java', not of 'python'"
        in run_eval("summary", "--records", path, "--language", "python").stderr
    )
