"""The state folder: its owner's alone, and never at the expense of a folder that is for something else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lsp_calib import home
from lsp_calib.errors import SettingsError
from lsp_calib.inference.models import sidecar
from lsp_calib.tools.doctor import checks

posix = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX ones")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to give a folder to another user"
)


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that LSP_CALIB_HOME names; it is not there yet."""
    folder = tmp_path / "state of mine"
    monkeypatch.setenv("LSP_CALIB_HOME", str(folder))
    return folder


def make(folder: Path, permissions: int, *files: str) -> None:
    folder.mkdir()
    for name in files:
        (folder / name).write_text("x")
    folder.chmod(permissions)


def test_a_folder_that_is_not_there_is_made(folder: Path) -> None:
    assert home.state_dir() == folder
    assert mode(folder) == 0o700


@pytest.mark.parametrize("named", ["state", "./state", "../state", ".", "~no such user/state"])
def test_a_path_that_depends_on_the_working_directory_is_refused(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor starts the server in a workspace: a `config.toml` from there is not the user's."""
    (tmp_path / "state").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LSP_CALIB_HOME", named)
    with pytest.raises(SettingsError, match="absolute path") as caught:
        home.state_dir()
    assert repr(named) in str(caught.value)
    assert [*tmp_path.rglob("*")] == [tmp_path / "state"], "nothing is created"


@posix
@pytest.mark.parametrize("permissions", [0o755, 0o750, 0o777, 0o1777, 0o701])
def test_a_folder_with_files_that_is_open_to_others_is_left_as_it_is(folder: Path, permissions: int) -> None:
    """`LSP_CALIB_HOME=/tmp` would close /tmp for everybody."""
    make(folder, permissions, "somebodys")
    with pytest.raises(SettingsError, match=r"chmod 700 '.*state of mine'"):
        home.state_dir()
    assert mode(folder) == permissions


@posix
def test_an_empty_folder_of_ones_own_is_closed(folder: Path) -> None:
    make(folder, 0o755)
    assert home.state_dir() == folder
    assert mode(folder) == 0o700


@as_root
@pytest.mark.parametrize("permissions", [0o700, 0o755])
def test_another_users_folder_is_refused(folder: Path, permissions: int) -> None:
    """Whoever owns it can change what is set there; empty or not."""
    make(folder, permissions)
    os.chown(folder, 12345, 12345)
    with pytest.raises(SettingsError, match="belongs to another user"):
        home.state_dir()
    assert mode(folder) == permissions


@posix
def test_a_link_is_followed_to_a_folder_that_is_looked_at_alike(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    make(target, 0o755, "somebodys")
    folder.symlink_to(target)
    with pytest.raises(SettingsError, match="chmod 700"):
        home.state_dir()
    assert mode(target) == 0o755
    target.chmod(0o700)
    assert home.state_dir() == folder


@posix
def test_a_link_to_a_drive_that_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "models").symlink_to(tmp_path / "drive")
    with pytest.raises(SettingsError, match="drive missing"):
        sidecar.models_folder()
    (finding,) = checks.state_folder()
    assert "drive missing" in finding.says


@as_root
def test_another_users_link_is_refused(folder: Path, tmp_path: Path) -> None:
    make(tmp_path / "target", 0o700)
    folder.symlink_to(tmp_path / "target")
    os.chown(folder, 12345, 12345, follow_symlinks=False)
    with pytest.raises(SettingsError, match="a link that another user made"):
        home.state_dir()


def test_a_file_in_its_place_is_named(folder: Path) -> None:
    folder.write_text("x")
    with pytest.raises(SettingsError, match="cannot be used"):
        home.state_dir()


@posix
@pytest.mark.parametrize("linked", [False, True], ids=["a folder", "a link"])
def test_the_platforms_folder_is_for_this_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """It bears this package's name, so it is closed, as ever; but not through a link."""
    monkeypatch.delenv("LSP_CALIB_HOME", raising=False)
    place, target = tmp_path / "lsp-calib", tmp_path / "target"
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(place))
    if linked:
        place.symlink_to(target)
    make(target if linked else place, 0o755, "config.toml")
    if linked:
        with pytest.raises(SettingsError, match="chmod 700"):
            home.state_dir()
    assert linked or home.state_dir() == place
    assert mode(place) == (0o755 if linked else 0o700)


@posix
def test_where_permissions_do_nothing_no_model_process_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system without them: others could connect."""
    monkeypatch.delenv("LSP_CALIB_HOME", raising=False)
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "lsp-calib"))
    make(tmp_path / "lsp-calib", 0o755)
    make(tmp_path / "lsp-calib" / "run", 0o755)
    monkeypatch.setattr(Path, "chmod", lambda *_, **__: None)
    with pytest.raises(SettingsError, match="open to others"):
        home.run_folder()
