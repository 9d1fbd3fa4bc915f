"""Pipes, devices and what else is no file, wherever a file is read: an error at once, and no wait without
end."""

from __future__ import annotations

import ast
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_scene import invoke

from lsp_calib import files
from lsp_calib import home as state
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, read_ledger
from lsp_calib.corpus.records import read_records
from lsp_calib.corpus.source import read_lines_of
from lsp_calib.errors import CalibratorError, DataError, ModelFileError, SettingsError
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.feedback.store_file import KeyedHash
from lsp_calib.files import open_file, read_file
from lsp_calib.inference.models import gguf, sidecar
from lsp_calib.inference.remote.server import read_key
from lsp_calib.server import set_up_log
from lsp_calib.settings import Settings, resolve
from lsp_calib.workspace_files import is_left_out, lines_of, walk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes are no files there")

ROOT = Path(__file__).parents[2]
SECONDS = 20.0


def at_once(work: Callable[[], Any]) -> Any:
    """What `work` returns or raises; fails if it waits."""
    found: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), "it waits for the other end of a pipe"
    if errors:
        raise errors[0]
    return found[0]


def made(path: Path, kind: str = "pipe") -> Path:
    """Something that is no regular file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a pipe":
        os.mkfifo(path.with_name("target"))
        path.symlink_to(path.with_name("target"))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "nowhere":
        path.symlink_to(path.with_name("unmounted") / "file")
    return path


NO_FILE = "no regular file"


class TestOneFile:
    @pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_APPEND])
    @pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "device", "nowhere"])
    def test_what_is_no_file_is_named(self, tmp_path: Path, kind: str, flags: int) -> None:
        path = made(tmp_path / "file", kind)
        with pytest.raises(OSError, match="is a drive missing" if kind == "nowhere" else NO_FILE):
            at_once(lambda: open_file(path, flags))
        assert path.is_symlink() or not path.is_file()

    @pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT])
    def test_a_pipe_that_takes_the_place_of_a_file_meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int
    ) -> None:
        """Between the look and the opening."""
        path = made(tmp_path / "file")
        monkeypatch.setattr(files, "check_regular", lambda *_, **__: None)
        with pytest.raises(OSError, match=rf"{NO_FILE}|No such device"):
            at_once(lambda: open_file(path, flags))

    def test_links_are_followed_only_where_that_is_wanted(self, tmp_path: Path) -> None:
        (tmp_path / "target").write_bytes(b"x")
        (tmp_path / "link").symlink_to("target")
        assert read_file(tmp_path / "link") == b"x"
        with pytest.raises(OSError, match=NO_FILE):
            read_file(tmp_path / "link", links=False)

    @pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
    def test_what_is_no_name_of_a_file(self, tmp_path: Path, name: str) -> None:
        for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_EXCL):
            with pytest.raises(OSError, match="no name of a file"):
                open_file(tmp_path / name, flags)


@pytest.mark.usefixtures("home")
class TestWorkspace:
    @pytest.mark.parametrize(
        "name", [".gitignore", "sub/.gitignore", ".git/info/exclude", "p.py", "sub/p.py"]
    )
    def test_it_is_walked_through(self, tmp_path: Path, name: str) -> None:
        root = tmp_path / "root"
        for one in ("a.py", "sub/b.py", ".git/HEAD"):
            (root / one).parent.mkdir(parents=True, exist_ok=True)
            (root / one).write_text("x = 1\n")
        made(root / name)
        walked = at_once(lambda: list(walk(root, root, lambda path: path.suffix == ".py", seconds=60)))
        found = {path.relative_to(root).as_posix() for path in walked}
        assert found >= {"a.py", "sub/b.py"}
        assert not at_once(lambda: is_left_out(root / "sub" / "b.py", root))
        for path in walked:
            lines = ("x = 1", "") if path.name != "p.py" else ()
            assert at_once(lambda path=path: lines_of(path)) == lines
            assert tuple(at_once(lambda path=path: read_lines_of(path, "python"))) == lines

    @pytest.mark.parametrize("options", [("calibrate",), ("summarize", "--all"), ("calibrate", "--from-git")])
    def test_commands_on_a_folder(self, tmp_path: Path, options: tuple[str, ...]) -> None:
        root = tmp_path / "root"
        for name in ("p.py", "sub/p.py", ".gitignore", "sub/.gitignore", ".git/info/exclude"):
            made(root / name)
        said = at_once(lambda: invoke(options[0], root, *options[1:]))
        assert isinstance(said.exception, SystemExit), said.exception
        assert said.exit_code


def store(path: Path) -> None:
    FeedbackStore(path.with_name("feedback.db"))


def hashes(path: Path) -> None:
    with closing(FeedbackStore(path.with_name("feedback.db"))) as store:
        store.line_hashes(["x = 1"])


class TestState:
    @pytest.mark.parametrize(
        ("name", "reads", "error"),
        [
            ("a.json", Calibrator.load, CalibratorError),
            ("a.json", read_ledger, CalibratorError),
            ("a.jsonl", read_records, DataError),
            ("a.gguf", gguf.check_header, ModelFileError),
            ("key", read_key, SettingsError),
            ("log", set_up_log, SettingsError),
            ("feedback.db", store, SettingsError),
            ("feedback.key", hashes, SettingsError),
        ],
    )
    def test_its_files(
        self, home: Path, name: str, reads: Callable[[Path], Any], error: type[Exception]
    ) -> None:
        path = made(home / name)
        with pytest.raises(error, match=NO_FILE):
            at_once(lambda: reads(path))

    def test_the_configuration(self, home: Path) -> None:
        made(home / "config.toml")
        trusted, problems = at_once(lambda: resolve(Settings()))
        assert trusted == resolve(Settings())[0]
        assert NO_FILE in problems[0]
        assert "is ignored" in problems[0]

    def test_a_side_file_counts_as_none(self, home: Path) -> None:
        made(home / "models" / ".speed.json")
        assert at_once(lambda: sidecar.read(".speed.json")) == {}

    def test_a_calibrator_among_others_is_skipped(self, home: Path) -> None:
        made(home / "calibrators" / "line.json")
        _, skipped = at_once(lambda: CalibratorStore.open().listed())
        assert NO_FILE in skipped[0]

    def test_the_key_on_a_drive_that_is_missing_is_not_replaced(self, home: Path) -> None:
        """The hashes of all lines so far were made with it."""
        path = made(home / "feedback.key", "nowhere")
        with pytest.raises(OSError, match="is a drive missing"):
            KeyedHash(path).of("line", "x = 1")
        assert path.is_symlink()
        (home / "unmounted").mkdir()
        (home / "unmounted" / "file").write_bytes(b"k" * 32)
        assert KeyedHash(path).of("line", "x = 1")
        assert path.is_symlink()


class TestDepth:
    """Values in values, many thousand deep; of calibrators and side files their own tests have them."""

    DEEP = "[" * 100_000

    def test_of_the_configuration(self, home: Path) -> None:
        (home / "config.toml").write_text(f"model = {self.DEEP}")
        _, problems = resolve(Settings())
        assert "is ignored: its values are nested too deeply." in problems[0]

    def test_of_records(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text(f'{{"a": {self.DEEP}\n')
        with pytest.raises(DataError, match="it is nested too deeply"):
            read_records(tmp_path / "a.json")


def test_a_file_in_the_place_of_the_calibrators_is_named(home: Path) -> None:
    """The shipped ones count all the same."""
    (home / "calibrators").write_text("x")
    store = CalibratorStore.open()
    entries, skipped = store.listed()
    assert entries
    assert set(skipped) == {
        f"{home}/calibrators is a file: no calibrator of yours can be read or kept. Move it away.",
        f"No certificate is in force: {home}/calibrators is a file: certificates of yours cannot be read.",
    }
    assert len(skipped) == 2
    with pytest.raises(CalibratorError, match="cannot be written"):
        entries[0].calibrator.save(store.personal / "a.json")


@pytest.mark.parametrize("name", ["models", "run"])
def test_a_file_in_the_place_of_another_folder_is_named(home: Path, name: str) -> None:
    (home / name).write_text("x")
    with pytest.raises(SettingsError, match=f"{name} cannot be used: it is a file"):
        state.private_folder(home / name)


# Modules that read other files than those of workspaces and of the state folder: what the system says of
# itself, what the package ships, what was just made, and code that runs in a sandbox of its own.
_ELSEWHERE = {
    *("server/admission.py", "tools/client.py", "report/markup.py", "inference/processor.py"),
    *("inference/models/demands.py", "inference/models/cards.py", "inference/process/starting.py"),
    *("inference/local/compiler.py", "studies/published.py", "studies/data.py", "studies/exact.py"),
    *("studies/covering_tests.py", "studies/headings.py", "studies/page.py", "studies/verdicts.py"),
    *("installation.py", "tools/demo/scenario.py"),
}


def test_all_else_is_opened_in_one_place() -> None:
    found = set()
    for path in (ROOT / "lsp_calib").rglob("*.py"):
        name = path.relative_to(ROOT / "lsp_calib").as_posix()
        if name.startswith(("studies/sandbox/", "tools/bench/")):
            continue
        calls = (one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.Call))
        if any(map(_opens, calls)):
            found.add(name)
    assert found - {"files.py"} == _ELSEWHERE


def _opens(call: ast.Call) -> bool:
    """Whether a call opens a file to read it: `open`, `os.open`, or a method of a path."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "open" and not any(one.arg == "opener" for one in call.keywords)
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in ("read_text", "read_bytes"):
        return True
    of_system = isinstance(call.func.value, ast.Name) and call.func.value.id in ("os", "io")
    modes = [one.value for one in call.args if isinstance(one, ast.Constant)]
    reads = of_system or any(mode in ("r", "rb", "rb+", "ab+") for mode in modes)
    return call.func.attr == "open" and reads
