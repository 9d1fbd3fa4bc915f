"""The command line: every command explains itself, every error is one line and its exit code."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import Result
from command_scene import document, invoke, refused, said
from openai_server import serving
from test_runner_scores import HEADER, made_up

import lsp_calib
from lsp_calib import errors
from lsp_calib.calibration.calibrators.refit import RefitResult
from lsp_calib.cli import _NEEDED, main
from lsp_calib.corpus.records import write_records
from lsp_calib.feedback.personalisation import Refits
from lsp_calib.inference.models import demands, download, sidecar
from lsp_calib.inference.models.cards import ModelCard, load_cards, load_encoders
from lsp_calib.inference.models.demands import Speed, remember_speed
from lsp_calib.inference.models.download import Checked, Pulled
from lsp_calib.installation import how_to_install
from lsp_calib.languages import language_of

pytestmark = pytest.mark.usefixtures("home")

# The smallest file that passes for a model: a header that promises nothing.
EMPTY_MODEL = b"GGUF\3\0\0\0" + bytes(16)
SOURCE = "def area(r):\n    return 3.14 * r\n"


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    return path


def fails_last(result: Result, error: type[errors.LspCalibError]) -> str:
    """As `refused`, for a command that has said something before."""
    assert result.exit_code == error.exit_code, result.output
    return result.output.splitlines()[-1]


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        result = invoke(*path, flag)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")
        described = [line for line in result.stdout.splitlines()[1:] if line.strip()]
        assert described, "what it does"
        assert not described[0].startswith("Options")


def test_the_help_lists_every_command_by_purpose() -> None:
    lines = invoke("--help").stdout.splitlines()
    assert [line for line in lines if line.endswith(":")][1:] == ["Use:", "Learn:", "Research:"]
    listed = {line.split()[0] for line in lines[lines.index("Use:") :] if line.startswith("  ")}
    assert listed == set(main.list_commands(click.Context(main)))
    of_studies = [line.split(maxsplit=1) for line in lines if line.startswith(("  eval", "  data"))]
    for name, text in of_studies:
        assert invoke(name, "--help").stdout.splitlines()[2].strip() == text


@pytest.mark.parametrize("command", ["eval paper", "data list"])
def test_what_needs_the_extra_for_studies_says_how_to_install_it(command: str) -> None:
    result = python(
        f"""
        import sys
        from importlib.machinery import PathFinder
        found = PathFinder.find_spec
        hidden = lambda name, *rest: None if name in ("sklearn", "nltk") else found(name, *rest)
        PathFinder.find_spec = hidden
        from lsp_calib.cli import main
        main({command.split()!r})
        """
    )
    assert result.returncode == errors.SettingsError.exit_code
    assert result.stderr == (
        f"lsp-calib: `lsp-calib {command.split()[0]}` needs the extra `studies`; missing here: nltk, "
        f"sklearn. Run {how_to_install('studies')}.\n"
    )


def test_the_extra_for_studies_is_what_the_command_line_looks_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    installed = {re.split("[><=]", one)[0] for one in project["optional-dependencies"]["studies"]}
    module = {"scikit-learn": "sklearn", "rouge-score": "rouge_score"}
    assert {module.get(name, name) for name in installed} == set(_NEEDED)


def test_each_error_has_the_exit_code_of_its_page() -> None:
    names = {
        1: "LspCalibError",
        2: "SettingsError",
        3: "DataError CalibratorError",
        4: "ModelError NoModelError ModelFileError DownloadError",
        5: "EngineError EngineDiedError RequestCancelledError SupersededError DeadlineError",
        6: "SandboxError",
        130: "StoppedError",
    }
    codes = {kind.__name__: kind.exit_code for kind in vars(errors).values() if isinstance(kind, type)}
    assert codes == {name: code for code, of_code in names.items() for name in of_code.split()}


SAYS = "What happened. What to do."


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        *((one(SAYS), one.exit_code, SAYS) for one in vars(errors).values() if isinstance(one, type)),
        *((one(), errors.StoppedError.exit_code, "Stopped.") for one in (KeyboardInterrupt, click.Abort)),
        (OSError(28, "No space", "a"), errors.LspCalibError.exit_code, "[Errno 28] No space: 'a'"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, BaseException) else "",
)
def test_any_error_is_one_line_and_its_exit_code(
    error: BaseException, code: int, words: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_named: object) -> None:
        raise error

    monkeypatch.setattr("lsp_calib.commands.suggestions.complete_at", fail)
    result = invoke("complete", f"{source}:1")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"lsp-calib: {words}\n")


def test_refit_prints_one_line_for_each_language(monkeypatch: pytest.MonkeyPatch) -> None:
    python = RefitResult(False, "not enough labels yet: 3 of 5", 3)
    rust = RefitResult(False, "the present calibrator is better: log loss 0.5 against 0.4 on 9 labels", 9)
    refits = Refits((("rust", rust), ("python", python)), "smollm2-135m")
    monkeypatch.setattr("lsp_calib.commands.calibrators.refit_now", lambda *_: refits)
    assert invoke("refit").stdout.splitlines() == [
        f"smollm2-135m, rust: the calibrator stays (9 labels): {rust.reason}.",
        f"smollm2-135m, python: the calibrator stays (3 labels): {python.reason}.",
    ]
    document = json.loads(invoke("refit", "--json").stdout)
    assert [one["language"] for one in document["languages"]] == ["rust", "python"]
    assert document["model"] == "smollm2-135m"


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "python"),
        ("a.rs", "rust"),
        ("A.CPP", "cpp"),
        ("a.tsx", "typescriptreact"),
        ("a", "plaintext"),
    ],
)
def test_a_file_is_of_the_language_that_editors_say(name: str, language: str) -> None:
    assert language_of(Path(name)) == language


@pytest.mark.parametrize(
    ("place", "message"),
    [
        *((place, "not a place") for place in ("FILE", "FILE:", "FILE:x", "FILE:²", "FILE:1:²", "FILE:-1")),
        *((place, "not a place") for place in ("FILE:" + "9" * 5000, ":1", "")),
        ("FILE:0", "count from 1"),
        ("FILE:1:0", "count from 1"),
        ("FILE.missing:1", "no file"),
    ],
    ids=lambda value: value[:12],
)
@pytest.mark.parametrize("command", ["complete", "summarize"])
def test_a_wrong_place_is_a_settings_error(command: str, place: str, message: str, source: Path) -> None:
    assert message in refused(errors.SettingsError, command, place.replace("FILE", str(source)))


@pytest.mark.parametrize("command", ["complete", "summarize"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\x01\x01\x00\x00", "binary"),
        (b"\xff\xfe\x00x", "not UTF-8"),
        (b"x = 1\n" * 1_000_000, "too large"),
    ],
    ids=["binary", "encoding", "huge"],
)
def test_a_file_that_is_no_source_is_named(
    command: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(content)
    error = refused(errors.DataError, command, f"{path}:1")
    assert message in error
    assert str(path) in error


def test_a_line_beyond_the_end_says_how_many_there_are(source: Path) -> None:
    assert "no line 99: the document has 3" in refused(errors.DataError, "complete", f"{source}:99")
    assert "line 99" in refused(errors.DataError, "summarize", f"{source}:99")
    huge = f"{source}:{'9' * 18}"
    assert "999" in refused(errors.DataError, "complete", huge)


def test_a_place_that_is_none_says_what_it_is(source: Path) -> None:
    for command, form in (("complete", "FILE:LINE[:COL]"), ("summarize", "FILE:LINE")):
        folder = refused(errors.SettingsError, command, str(source.parent))
        assert f"is not a place: it is a folder. Give {form}, from 1." in folder
        assert "it is a folder" in refused(errors.SettingsError, command, f"{source.parent}:1")
        assert "the line is missing" in refused(errors.SettingsError, command, str(source))


def test_without_a_model_the_command_that_gets_one_is_named(source: Path) -> None:
    commands = (["complete", f"{source}:1"], ["summarize", f"{source}:1"], ["refit"], ["bench", "--json"])
    for arguments in commands:
        assert "lsp-calib models pull" in refused(errors.NoModelError, *arguments)


def test_an_unknown_model_is_named_wherever_it_comes_from(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (("complete", f"{source}:1"), ("demo",)):
        assert "'gpt-9'" in fails_last(invoke(*command, "--model", "gpt-9"), errors.SettingsError)
    monkeypatch.setenv("LSP_CALIB_MODEL", "gpt-8")
    assert "'gpt-8'" in refused(errors.SettingsError, "complete", f"{source}:1")
    assert "'gpt-9'" in refused(errors.SettingsError, "models", "pull", "gpt-9")
    assert "'gpt-9'" in refused(errors.SettingsError, "models", "verify", "gpt-9")


@pytest.mark.parametrize("command", ["complete PLACE", "summarize PLACE", "bench", "demo"])
def test_a_relative_path_counts_where_it_is_typed_by_hand_and_nowhere_else(
    command: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is a damaged one: that it is named as such shows that it was found."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.gguf").write_bytes(b"PK" + bytes(100))
    words = command.replace("PLACE", f"{source}:1").split()
    for name in ("own.gguf", "./own.gguf"):
        error = fails_last(invoke(*words, "--model", name), errors.ModelFileError)
        assert str(tmp_path / "own.gguf") in error
    monkeypatch.setenv("LSP_CALIB_MODEL", "own.gguf")
    assert "absolute path" in fails_last(invoke(*words), errors.SettingsError)


def test_a_relative_path_is_found_by_the_commands_for_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.gguf").write_bytes(EMPTY_MODEL)
    assert invoke("models", "path", "own.gguf").stdout.strip() == str(tmp_path / "own.gguf")
    assert json.loads(invoke("models", "verify", "own.gguf", "--json").stdout)["name"] == "own"


def test_an_unusable_state_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / "file" / "home"))
    assert "LSP_CALIB_HOME" in refused(errors.SettingsError, "models", "list")


def test_models_list_is_one_json_document(home: Path) -> None:
    rows = document("models", "list")
    assert [row["name"] for row in rows] == [*load_cards(), *load_encoders()]
    assert {row["kind"] for row in rows[: len(load_cards())]} == {"language"}
    assert {row["kind"] for row in rows[len(load_cards()) :]} == {"encoder"}
    fitting = [row["name"] for row in rows if row["fits"] is not False]
    labelled = [name for name in fitting if name in ("qwen2.5-coder-1.5b", "smollm2-135m")]
    assert [row["name"] for row in rows if row["recommended"]] == labelled[:1]
    lines = said("models", "list").splitlines()
    assert [line.split()[0] for line in lines if "recommended" in line] == labelled[:1]
    assert not any(row["installed"] for row in rows)
    measured = {row["name"]: row["quality"] for row in rows if row["quality"]}
    assert measured.keys() == {"qwen2.5-coder-1.5b", "smollm2-135m"}, "those with a calibrator"
    assert all(0 < one["right"] < 1 and one["n"] > 2000 for one in measured.values())
    assert all(row["path"].startswith(str(home)) for row in rows)
    assert all(row["memoryBytes"] > 1e8 for row in rows)
    assert {row["checksum"] for row in rows} == {"verified", "none"}
    Path(rows[len(load_cards()) - 1]["path"]).write_bytes(b"")
    (home / "models" / "own.gguf").write_bytes(EMPTY_MODEL)
    (home / "models" / "odd.gguf").write_bytes(b"PK")
    remember_speed(load_cards()["smollm2-135m"], Speed(0.0412, 40))
    rows = document("models", "list")
    assert [row["name"] for row in rows if row["installed"]] == ["smollm2-135m", "odd", "own"]
    mine, odd, own, encoder = rows[-4:]
    assert (encoder["installed"], encoder["fault"]) == (False, "")
    assert "0 of 98362432 bytes" in mine["fault"]
    assert mine["speed"] == {"p50Ms": 41.2, "answers": 40}
    assert "truncated" in odd["fault"]
    assert (own["fault"], own["bytes"]) == ("", 24)
    header, *lines = said("models", "list").splitlines()
    assert header.split() == ["name", "download", "weights", "licence", "memory", "right", "here"]
    assert len(lines) == len(rows)
    ends = lines[0].index(" GB") + 3, header.index("memory") + len("memory")
    assert ends[0] == ends[1], "columns stand below their names"
    assert "damaged" in lines[-4]
    assert "41 ms a key" in lines[-4]
    assert "installed" in lines[-2]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_model_can_be_found_verified_and_removed(home: Path, tmp_path: Path, as_json: bool) -> None:
    option = ["--json"] if as_json else []
    card = load_cards()["smollm2-135m"]
    refused(errors.NoModelError, "models", "path", card.name, *option)
    refused(errors.SettingsError, "models", "remove", card.name, *option)
    (home / "models").mkdir(exist_ok=True)
    card.path.write_bytes(EMPTY_MODEL)
    found = invoke("models", "path", card.name, *option).stdout
    assert (json.loads(found)["path"] if as_json else found.strip()) == str(card.path)
    assert "truncated" in refused(errors.ModelFileError, "models", "verify", card.name, *option)
    own = tmp_path / "own.gguf"
    own.write_bytes(EMPTY_MODEL)
    verified = said("models", "verify", own, *option)
    assert json.loads(verified)["checked"] == "nothing" if as_json else "no card" in verified
    said("models", "remove", card.file, *option)
    assert not card.path.exists()


@pytest.mark.parametrize(
    "name",
    ["OWN", "../own.gguf", "models/../../own.gguf", "", ".", "..", "config.toml", ".sha256.json", "a\0b"],
)
def test_only_what_lies_in_the_models_folder_is_removed(home: Path, tmp_path: Path, name: str) -> None:
    own = tmp_path / "own.gguf"
    for path in (own, home / "own.gguf", home / "config.toml"):
        path.write_bytes(EMPTY_MODEL)
    (home / "models").mkdir()
    (home / "models" / ".sha256.json").write_text("{}")
    refused(errors.SettingsError, "models", "remove", name.replace("OWN", str(own)))
    assert len([*tmp_path.rglob("*.gguf"), *home.glob("config.toml"), *home.rglob(".sha256.json")]) == 4


def test_a_model_without_a_card_in_the_models_folder_is_removed_by_name_or_path(home: Path) -> None:
    folder = home / "models"
    folder.mkdir()
    elsewhere = home / "elsewhere.gguf"
    elsewhere.write_bytes(EMPTY_MODEL)
    (folder / "link.gguf").symlink_to(elsewhere)
    (folder / "own.gguf").write_bytes(EMPTY_MODEL)
    for name in ("link.gguf", str(folder / "own.gguf")):
        assert invoke("models", "remove", name).exit_code == 0
    assert list(folder.glob("*.gguf")) == []
    assert elsewhere.exists(), "of a link the link goes, not what it leads to"


def test_what_an_unfinished_pull_left_is_removed_with_the_model(home: Path) -> None:
    card = load_cards()["smollm2-135m"]
    rest = home / "models" / f".pull-{card.file}.part"
    rest.parent.mkdir()
    rest.write_bytes(b"half")
    assert invoke("models", "remove", card.name).exit_code == 0
    assert not rest.exists()


def test_terms_are_shown_before_a_model_is_pulled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_cards()["gemma-3-270m"]
    monkeypatch.setattr(download, "pull", lambda *_: Pulled(card.path, "0" * 64, Checked.CARD))
    for option in ([], ["--json"]):
        result = invoke("models", "pull", card.name, *option)
        assert "https://ai.google.dev/gemma/terms" in result.stderr
    path = str(home / "models" / card.file)
    expected = {"name": card.name, "path": path, "sha256": "0" * 64, "checked": "card"}
    assert json.loads(result.stdout) == expected


def test_pulling_a_model_says_when_another_one_stays_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    best, *_, smallest = load_cards().values()
    for card, words in (
        (best, ""),
        (smallest, f'{best.name} is used: to use {smallest.name}, set `model = "'),
    ):
        pulled = Pulled(card.path, "0" * 64, Checked.CARD)
        monkeypatch.setattr(download, "pull", lambda *_, pulled=pulled: pulled)
        text = said("models", "pull", card.name)
        assert words in text
        assert ("config.toml" in text) == bool(words)
        card.path.parent.mkdir(exist_ok=True)
        card.path.write_bytes(EMPTY_MODEL)
    monkeypatch.setenv("LSP_CALIB_MODEL", smallest.name)
    assert "config.toml" not in said("models", "pull", smallest.name)


@pytest.mark.parametrize(("memory", "disk", "said_of"), [(64, 64, ""), (1, 64, "memory"), (64, 1, "disk")])
def test_without_a_name_the_recommended_model_is_pulled_where_it_fits(
    monkeypatch: pytest.MonkeyPatch, memory: int, disk: int, said_of: str
) -> None:
    best, *_, smallest = load_cards().values()
    taken = []
    monkeypatch.setattr(demands, "available", lambda: memory << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=disk << 30))
    monkeypatch.setattr(
        download, "pull", lambda card, _: taken.append(card) or Pulled(card.path, "0" * 64, Checked.CARD)
    )
    result = invoke("models", "pull")
    assert taken == [smallest if said_of else best]
    assert said_of in result.stderr
    assert (f"{smallest.name} is taken instead" in result.stderr) == bool(said_of)


def test_a_model_that_nobody_vouches_for_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_cards()["granite-code-3b"]
    monkeypatch.setattr(download, "pull", lambda *_: Pulled(card.path, "ab" * 32, Checked.NOTHING))
    text = said("models", "pull", card.name)
    assert "could not be compared" in text
    assert "lsp-calib models pull minilm-l6-v2" in text, "the encoder is named, and nothing else is fetched"
    assert "ab" * 32 in text
    card.path.parent.mkdir(exist_ok=True)
    card.path.write_bytes(EMPTY_MODEL)
    assert "no card to compare" in invoke("models", "verify", card.name).stdout
    sidecar.keep_first_use(card.file, sidecar.sha256_of(card.path))
    assert "as when it was first pulled" in invoke("models", "verify", card.name).stdout
    sidecar.keep_first_use(card.file, "0" * 64)
    assert "wrong checksum" in refused(errors.ModelFileError, "models", "verify", card.name)


def test_calibrate_names_a_folder_that_cannot_be_written_to_before_it_asks_anything(source: Path) -> None:
    for option in ("--records", "--output"):
        folder = source.parent / "no" / "such"
        assert str(folder) in refused(errors.SettingsError, "calibrate", source, option, folder / "file")


@pytest.mark.parametrize(
    ("command", "observe", "words"),
    [
        ("eval line SOURCE", "ask, colour", "'colour' is not one of ask, verbalised"),
        ("eval summary", "ask,newline", "'newline' is not one of ask, verbalised, scale"),
    ],
)
def test_what_can_be_recorded_is_listed_where_something_else_is_asked_for(
    command: str, observe: str, words: str, source: Path
) -> None:
    result = invoke(*command.replace("SOURCE", str(source)).split(), "--observe", observe)
    assert result.exit_code == errors.SettingsError.exit_code
    assert words in result.stderr


def test_the_command_line_names_all_that_can_be_recorded() -> None:
    from lsp_calib.studies.ask import Reflected
    from lsp_calib.studies.cli import SUMMARIES_OBSERVED

    assert tuple(Reflected) == SUMMARIES_OBSERVED


def test_two_projects_of_one_name_are_two_projects(tmp_path: Path) -> None:
    from lsp_calib.corpus.places import line_task

    roots = tuple(tmp_path / name / "src" for name in ("one", "two"))
    for root in roots:
        root.mkdir(parents=True)
        (root / "code.py").write_text("value = compute(1)\n" * 40)
    items = [payload for _, payload in line_task((*roots, roots[0]), 40, 0).items]
    assert len({item["group"] for item in items}) == 2
    assert len({item["item"] for item in items}) == len(items)


def test_module_and_command_are_the_same() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "lsp_calib", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip().endswith(lsp_calib.__version__)


@pytest.mark.parametrize(
    ("program", "late"),
    [
        (
            "from lsp_calib.cli import main; main(['--help'], standalone_mode=False)",
            "numpy pygls lsprotocol sklearn scipy llama_cpp tree_sitter rich",
        ),
        (
            "from lsp_calib.inference.models import cards; from lsp_calib.server import create_server; "
            "create_server()",
            "sklearn scipy llama_cpp httpx onnxruntime tokenizers nltk",
        ),
    ],
    ids=["help", "a server before it answers"],
)
def test_nothing_heavy_is_imported_before_it_is_used(program: str, late: str) -> None:
    code = f"{program}; import sys; print('heavy:', sorted(set({late!r}.split()) & sys.modules.keys()))"
    result = python(code)
    assert result.stdout.endswith("heavy: []\n"), result.stderr


def test_the_core_imports_without_the_local_extra(tmp_path: Path) -> None:
    """Every module but those that only the model process imports."""
    (tmp_path / "llama_cpp.py").write_text("raise ImportError('no llama_cpp here')\n")
    result = python(
        """
        import importlib, pkgutil, sys
        import lsp_calib
        for module in pkgutil.walk_packages(lsp_calib.__path__, "lsp_calib."):
            # Programs that are run, not imported, and what only the model process imports.
            inside = module.name.startswith(("lsp_calib.inference.local.", "lsp_calib.inference.prebuilt."))
            if not inside and not module.name.endswith(("__main__", ".raw_child")):
                importlib.import_module(module.name)
        print("llama_cpp" in sys.modules, "lsp_calib.server.app" in sys.modules)
        """,
        PYTHONPATH=str(tmp_path),
    )
    assert result.stdout == "False True\n", result.stderr


COMMANDS = (
    "complete {source}:2:12 --remote {url}",
    "summarize {source}:2 --remote {url}",
    "refit --remote {url}",
    "calibrate --records {records} --output {folder}/calibrator.json",
    "eval line --records {records} --resamples 20",
    "eval line {source} --samples 20 --remote {url} --output {folder}/eval --resamples 20",
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.split()[:3]))
async def test_a_command_without_a_server_imports_nothing_of_one(command: str, tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(SOURCE + "value = compute(1)\n" * 60)
    records = tmp_path / "records.jsonl"
    write_records(records, HEADER, made_up(60, 3))
    async with serving() as server:
        names = {"source": source, "url": server.url, "records": records, "folder": tmp_path}
        arguments = command.format(**names).split()
        result = await asyncio.to_thread(
            python,
            f"""
            import sys
            from lsp_calib.cli import main
            try:
                main({arguments!r})
            except SystemExit as end:
                # 3: the answers of the scripted server are too much alike to choose a confidence from.
                assert end.code in (None, 0, 3), end.code
            rooms = {{name for name in sys.modules if name.startswith("lsp_calib.server")}}
            print("imported:", sorted(rooms | ({{"pygls", "lsprotocol"}} & sys.modules.keys())))
            """,
        )
    assert result.stdout.endswith("imported: []\n"), (result.stdout, result.stderr)


WIRE = {
    *("id", "kind", "text", "confidence", "rawConfidence", "measure", "tier", "reason", "certified"),
    *("calibrator", "model", "tokens", "firstTokens", "source", "timing", "rank", "doubt", "sure"),
}


def is_suggestion(found: dict[str, Any], kind: str, card: ModelCard) -> None:
    assert found.keys() == WIRE
    assert (found["kind"], found["model"], found["source"]) == (kind, card.name, "model")
    assert found["tier"] in ("accept", "review", "reject")
    assert found["rawConfidence"] is None or 0 <= found["rawConfidence"] <= 1
    assert found["text"].strip()
    assert found["timing"]["promptTokens"] > 0


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
def test_complete_and_summarize_print_the_suggestion_object(source: Path, model_card: ModelCard) -> None:
    for suggestion in document("complete", f"{source}:2:12", "--threads", "1"):
        is_suggestion(suggestion, "line", model_card)
    is_suggestion(document("summarize", f"{source}:2", "--threads", "1"), "summary", model_card)


@pytest.mark.parametrize("command", ["complete", "summarize"])
@pytest.mark.parametrize("name", [".env", "module.py", "link.py"])
def test_an_excluded_file_is_named_and_not_read(command: str, name: str, home: Path, tmp_path: Path) -> None:
    """`.env` for its name, `module.py` by the user's own `exclude`, a link for what it leads to."""
    (home / "config.toml").write_text('exclude = ["module.py"]\n')
    (tmp_path / "module.py").write_text(SOURCE)
    (tmp_path / ".env").write_text(SOURCE)
    (tmp_path / "link.py").symlink_to(tmp_path / ".env")
    error = refused(errors.DataError, command, f"{tmp_path / name}:1", "--remote", "http://127.0.0.1:9")
    assert "is excluded" in error
    assert ("`exclude`" if name == "module.py" else "secrets") in error
    # No setting takes a name off the list of those that hold secrets.
    assert error.rstrip().endswith("change `exclude` in config.toml.") == (name == "module.py")
    assert str(tmp_path / name) in error
