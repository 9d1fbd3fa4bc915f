"""`calibrate` refuses before the model is asked, and shows it nothing that the user excludes."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_scene import invoke
from command_scene import refused as refused_command
from test_runner_scores import HEADER, made_up

from lsp_calib import home as home_folder
from lsp_calib.commands import calibrate as command
from lsp_calib.commands import records
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.corpus.functions import SUMMARY, documented_task
from lsp_calib.corpus.places import Task, grouped, line_item_of, line_task, surroundings_of
from lsp_calib.corpus.records import Header, journal_path, read_records, write_records
from lsp_calib.errors import DataError, LspCalibError, SettingsError, StoppedError
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.studies import evaluate
from lsp_calib.values import ModelIdentity

pytestmark = pytest.mark.usefixtures("home")

FILE = "".join(f"value_{n} = compute({n}, 'price')\n" for n in range(60))
FUNCTIONS = "".join(
    f'def open_{n}(value):\n    """Open the door number {n}."""\n    return compute(value, {n})\n\n\n'
    for n in range(24)
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
    """No two files have a line in common."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("value", f"{folder.name}_{Path(name).stem}"))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project(tmp_path / "p", "a.py", "b.py", "c.py")


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [project(tmp_path / name, "a.py") for name in "pqrs"]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    write_records(tmp_path / "r.jsonl", HEADER, made_up(200))
    return tmp_path / "r.jsonl"


def header(
    prompt: str = "line-prefix-1", *, task: str = "line", language: str = "go", model: str = "m"
) -> Header:
    return Header(task, language, ModelIdentity(model, "Q4", "0" * 64), prompt, 0)


run = functools.partial(invoke, "calibrate")
run_eval = functools.partial(invoke, "eval")


def refused(*arguments: object, error: type[LspCalibError] = DataError) -> str:
    return refused_command(error, "calibrate", *arguments)


def asks(result: Result) -> bool:
    return isinstance(result.exception, AskedError)


@pytest.mark.parametrize("options", [[], ["--task", "summary"]])
def test_source_of_too_few_files_is_named(tmp_path: Path, asked: list[Task], options: list[str]) -> None:
    text = FUNCTIONS if options else FILE
    one = project(tmp_path / "one", "a.py", text=text)
    for place in (one, one / "a.py"):
        complaint = refused(place, *options)
        assert "are of 1 files (" in complaint
        assert "Name more source" in complaint
    two = project(tmp_path / "two", "b.py", text=text)
    assert "are of 2 files" in run(one, two, *options).stderr
    assert not asked
    out = tmp_path / "out"
    if not options:
        assert "lines are of 2 files" in run_eval("line", one, two, "--output", out).stderr
    assert not asked
    assert not out.exists()
    project(two, "c.py", text=text)
    # Two projects are too few to keep whole ones together: their files are.
    assert asks(run(one, two, *options))
    if not options:
        assert asks(run_eval("line", one, two, "--output", out))


@pytest.mark.parametrize("copies", [20, 300])
def test_a_line_is_drawn_once_wherever_it_stands(tmp_path: Path, asked: list[Task], copies: int) -> None:
    """It is one fact about the model, however often it stands there; a test of nothing but it is none."""
    line = "total = compute(1, 'price')\n"
    folder = project(tmp_path / "p", "a.py", "b.py", "c.py", text=line * copies)
    own = tmp_path / "own.jsonl"
    words = {"before": "", "target": line.strip(), "language": "python"}
    own.write_text(3 * copies * (json.dumps(words) + "\n"))
    for options in ((folder,), (folder, "--install"), (own,)):
        assert "Only 1 different lines could be drawn; at least 20 are needed" in refused(*options)
    assert not asked
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text(line * copies + FILE.replace("value", name[0]))
    other = project(tmp_path / "q", "d.py", text=line + FILE)
    mine = [line_item_of(one) for _, one in line_task([folder, other], 400, 0, once=True).items]
    assert len({item.text for item in mine}) == len(mine) == 4 * 60 + 1
    every = line_task([folder, other], 9999, 0).items
    assert len(every) == 3 * copies + 1 + 4 * 60, "`eval line` has them all"


def test_a_function_is_drawn_once(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "a.py", "b.py", text=FUNCTIONS)
    (folder / "copy.py").write_text((folder / "a.py").read_text())
    other = project(tmp_path / "q", "a.py", text=FUNCTIONS)
    codes = [payload["code"] for _, payload in documented_task([folder, other], 400, 0).items]
    assert len(set(codes)) == len(codes) == 72


@pytest.mark.parametrize(
    ("option", "wrong", "good", "said"),
    [
        ("--samples", "59", "60", "'--samples': 59 is not in the range x>=60"),
        ("--created", "1.1.2026", "2026-01-31", "such as 2026-01-31"),
        ("--seed", "-1", "1", "'--seed': -1 is not in the range"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_before_anything_is_asked(
    asked: list[Task], option: str, wrong: str, good: str, said: str, folder: Path
) -> None:
    result = run(folder, option, wrong)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not asked
    assert asks(run(folder, option, good))


@pytest.mark.parametrize("task", ["line", "summary"])
def test_no_text_of_excluded_files_is_shown(tmp_path: Path, home: Path, asked: list[Task], task: str) -> None:
    """By the user's file, and by the option, with which an editor hands on what is excluded there."""
    text = FUNCTIONS if task == "summary" else FILE
    names = ("a.py", "b.py", "c.py", "mine/secret.py", "generated/d.py")
    folder = project(tmp_path / "p", *names, text=text)
    (home / "config.toml").write_text('exclude = ["mine/**"]\n')
    assert asks(run(folder, "--task", task, "--exclude", "generated"))
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


@pytest.mark.parametrize(("said", "count"), [("", None), ("--held-out 0", 0), ("--held-out 1", 1)])
def test_to_hold_out_nothing_is_told_from_saying_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, count: int | None, folders: list[Path]
) -> None:
    """A run that goes on keeps what was held out unless something is said."""
    given: list[Any] = []

    def collect(*arguments: Any) -> Any:
        given.append(arguments[3].held_out)
        raise AskedError

    monkeypatch.setattr(records, "collect", collect)
    run(*folders, *said.split())
    run_eval("line", *folders, "--output", tmp_path / "out", *said.split())
    assert given == [count, count]


def test_options_that_contradict_the_records_are_refused(tmp_path: Path) -> None:
    """They were passed over in silence."""
    path = tmp_path / "r.jsonl"
    write_records(path, header(), [])
    for options, what in ((["--task", "summary"], "task 'line'"), (["--language", "java"], "language 'go'")):
        assert f"holds records of the {what}, not of {options[1]!r}" in refused("--records", path, *options)
    assert "language 'go'" in run_eval("line", "--records", path, "--language", "python").stderr
    for result in (
        run("--records", path),
        run("--records", path, "--task", "line", "--language", "go"),
        run_eval("line", "--records", path, "--language", "go"),
    ):
        assert result.exit_code == DataError.exit_code
        assert "not of" not in result.stderr
    write_records(path, header("summary-1", task=SUMMARY, language="java"), [])
    # The default of an option contradicts nothing.
    assert "not of" not in run("--records", path).stderr
    assert "not of" not in run_eval("summary", "--records", path).stderr
    said = run_eval("summary", "--records", path, "--language", "python").stderr
    assert "language 'java', not of 'python'" in said


def test_eval_says_whether_nothing_or_too_much_was_given(tmp_path: Path) -> None:
    nothing, both = run_eval("line"), run_eval("line", tmp_path, "--records", tmp_path / "r.jsonl")
    assert nothing.exit_code == both.exit_code == SettingsError.exit_code
    assert "Nothing was given to measure" in nothing.stderr
    assert "not both" not in nothing.stderr
    assert "not both" in both.stderr


def test_only_a_calibrator_is_overwritten(tmp_path: Path, asked: list[Task], folder: Path) -> None:
    output = tmp_path / "thesis.tex"
    output.write_text("years of work")
    assert f"{output} exists and is no calibrator" in refused(folder, "--output", output, error=SettingsError)
    assert output.read_text() == "years of work"
    refused(folder, "--output", "/dev/null", error=SettingsError)
    assert not asked
    shipped = next((home_folder.shipped_models() / "calibrators").glob("line-*.json"))
    output.write_bytes(shipped.read_bytes())
    assert asks(run(folder, "--output", output))
    assert output.read_bytes() == shipped.read_bytes()
    output.write_bytes(b"")  # as `mktemp` makes it
    assert asks(run(folder, "--output", output))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root cannot write")
def test_a_place_that_cannot_be_written_is_named_before_anything_is_asked(
    tmp_path: Path, asked: list[Task], folder: Path
) -> None:
    for option in ("--output", "--records"):
        text = refused(folder, option, "/proc/foo.json")
        assert "/proc/foo.json cannot be written" in text
        assert "tmp" not in text.replace(str(tmp_path), "")
    assert not asked
    assert not list(tmp_path.glob("*.tmp"))


class TestGoingOn:
    """Without --records the answers so far are kept in the state folder: the same command goes on."""

    @pytest.fixture
    def kept_in(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """The files in which answers were to be kept; the user stops each run."""
        files: list[Path] = []

        def collect(_task: Task, path: Path, _asking: object) -> Any:
            files.append(path)
            journal_path(path).write_text("an answer")
            raise StoppedError("Stopped")

        monkeypatch.setattr(command, "collect_records", collect)
        return files

    def test_the_same_command_keeps_its_answers_in_the_same_file(
        self, home: Path, kept_in: list[Path], folder: Path
    ) -> None:
        for _ in range(2):
            refused(folder, error=StoppedError)
        assert kept_in[0] == kept_in[1]
        assert kept_in[0].parent == home / "calibrating"
        assert journal_path(kept_in[0]).read_text() == "an answer"

    def test_another_command_does_not(self, tmp_path: Path, home: Path, kept_in: list[Path]) -> None:
        folder = project(tmp_path / "p", "a.py", "b.py", "c.py", "d.py")
        other = project(tmp_path / "q", "a.py", "b.py", "c.py")
        for options in (
            *([], ["--samples", "90"], ["--seed", "1"], ["--window", "large"], ["--no-suffix", "3"]),
            *(["--model", "m"], ["--exclude", "d.py"]),
            *(["--remote", "http://127.0.0.1:9"], ["--remote", "http://127.0.0.1:8"]),
        ):
            run(folder, *options)
        run(other)
        (home / "config.toml").write_text('model = "m2"\n')
        run(folder)
        assert len(kept_in) == len(set(kept_in)) == 11

    def test_after_an_edit_no_answer_is_kept_for_what_stood_there(
        self, tmp_path: Path, kept_in: list[Path], folder: Path
    ) -> None:
        run(folder)
        edited = folder / "a.py"
        edited.write_text("number = 1\n" + edited.read_text())
        run(folder)
        own = tmp_path / "own.jsonl"
        for target in ("1", "2"):
            usual = {"target": target, "language": "python"}
            lines = [{"before": f"x_{n} = ", "group": f"{n % 3}", **usual} for n in range(30)]
            own.write_text("".join(json.dumps(line) + "\n" for line in lines))
            run(own)
        assert len(kept_in) == len(set(kept_in)) == 4

    def test_nothing_is_kept_once_it_is_complete(
        self, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        (home / "calibrating").mkdir()
        other = home / "calibrating" / "other.jsonl"
        other.touch()

        def collect(_task: Task, path: Path, _asking: object) -> Any:
            write_records(path, HEADER, made_up(60, 3))
            journal_path(path).touch()
            return read_records(path)

        monkeypatch.setattr(command, "collect_records", collect)
        result = run(folder, "--json")
        assert result.exit_code == 0, result.output
        assert list((home / "calibrating").iterdir()) == [other]
        given = tmp_path / "r.jsonl"
        assert run(folder, "--records", given).exit_code == 0
        assert given.exists()


def test_where_all_files_are_left_out_it_is_said_why(tmp_path: Path, asked: list[Task], folder: Path) -> None:
    (folder / "latin.py").write_bytes("name = 'Jos\xe9'\n".encode("latin-1"))
    said = run(folder, "--exclude", "?.py").stderr
    assert f"There is no Python source below {folder}. Files left out: 3 excluded; 1 not UTF-8 text." in said
    assert "Files left out: 1 not UTF-8 text." in run(folder / "latin.py").stderr
    empty = project(tmp_path / "e", "a.py", text="")
    assert "Files left out" not in run(empty).stderr
    assert not asked
