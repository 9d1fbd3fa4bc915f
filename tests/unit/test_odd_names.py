"""The command line with names and outputs that are not UTF-8, and users without a home folder."""

from __future__ import annotations

import json
import os
import pwd
import random
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lsp_calib import home
from lsp_calib.cli import main
from lsp_calib.corpus.places import held_out, sample_lines
from lsp_calib.corpus.source import project_names
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.tools.doctor.bundle import scrubbed


def run(encoding: str, state: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "LSP_CALIB_HOME": str(state)}
    command = [sys.executable, "-m", "lsp_calib", *arguments]
    return subprocess.run(command, capture_output=True, env=environment, check=False, timeout=300)


def test_an_output_that_has_not_every_character_shows_them_escaped(tmp_path: Path) -> None:
    """As on Windows, where what is redirected has the encoding of the system."""
    state = tmp_path / "Иван"
    found = run("cp1252:strict", state, "doctor", "--quick")
    assert b"Traceback" not in found.stderr
    assert found.stdout
    for arguments in (("models", "list", "--json"), ("doctor", "--quick", "--json")):
        found = run("cp1252:strict", state, *arguments)
        assert b"Traceback" not in found.stderr
        assert "Иван" in json.dumps(json.loads(found.stdout), ensure_ascii=False)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no names that are not UTF-8")
def test_a_folder_whose_name_is_not_utf8_is_shown_escaped(tmp_path: Path) -> None:
    """As a state folder, also for a bundle, and as a project, whose name files can hold."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    found = run("utf-8:strict", folder, "models", "list", "--json")
    assert b"Traceback" not in found.stderr
    assert str(folder) in json.dumps(json.loads(found.stdout), ensure_ascii=False)
    bundle = tmp_path / "bundle.zip"
    found = run("utf-8:strict", folder, "doctor", "--quick", "--bundle", str(bundle))
    assert b"Traceback" not in found.stderr
    assert bundle.exists()
    assert project_names([folder]) == [(folder, "caf\\udce9")]


@pytest.mark.skipif(os.name != "posix", reason="other shells close no outputs")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_output_spoils_nothing(tmp_path: Path, closed: str) -> None:
    command = f"'{sys.executable}' -m lsp_calib models list --json {closed}"
    environment = {**os.environ, "LSP_CALIB_HOME": str(tmp_path / "state"), "LSP_CALIB_THREADS": "x"}
    done = subprocess.run(command, shell=True, capture_output=True, env=environment, check=False, timeout=300)
    assert b"Traceback" not in done.stderr
    if closed == "2>&-":
        assert isinstance(json.loads(done.stdout), list | dict)


def test_a_name_of_a_file_directs_no_terminal() -> None:
    result = CliRunner().invoke(main, ["complete", "a.py", "1", "2", "x\x1b]0;owned\x07y"], color=True)
    assert result.exit_code == SettingsError.exit_code
    assert not {"\x1b", "\x07"} & {*result.output}


def test_places_are_drawn_in_a_project_whose_name_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = x + 1\nprint(x, y)\n")
    assert sample_lines(tmp_path, "pr\udce9", 2, 0)
    assert len(held_out(["pr\udce9", "flask", "click", "rich"], 1)) == 1
    # And elsewhere as ever: the bytes draw what the text does.
    assert random.Random("0:flask").random() == random.Random(b"0:flask").random()


def test_a_home_folder_of_nobody_is_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / "state"))
    result = CliRunner().invoke(main, ["feedback", "purge", "--yes", "--workspace", "~no-such-user/x"])
    assert result.exit_code == SettingsError.exit_code
    assert "absolute path" in result.output
    monkeypatch.setenv("LSP_CALIB_DATA", "~no-such-user/x")
    result = CliRunner().invoke(main, ["eval", "infill"])
    assert result.exit_code == DataError.exit_code
    assert "absolute path" in result.output


def test_without_a_home_folder_a_state_folder_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_user: object) -> None:
        raise KeyError("nobody")

    for name in ("LSP_CALIB_HOME", "HOME", "XDG_DATA_HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(SettingsError, match="state folder is not known"):
        home.state_dir()
    assert scrubbed({"file": "/srv/model.gguf"}) == {"file": "/srv/model.gguf"}
