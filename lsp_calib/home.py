"""Where state lives: one folder, readable by its owner alone."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from lsp_calib.errors import SettingsError

_ANOTHER = "Set LSP_CALIB_HOME to a folder of your own."


def home() -> Path:
    """The state folder: `LSP_CALIB_HOME`, or the platform's user data folder. Created with mode 0700.

    Raises SettingsError if it cannot be used, is another user's, or has been named and is open to others.
    """
    named = os.environ.get("LSP_CALIB_HOME")
    if named:
        return _named_folder(Path(named).expanduser())
    import platformdirs

    folder = Path(platformdirs.user_data_dir("lsp-calib", appauthor=False))
    # A link leads to a folder that may be for something else.
    return _named_folder(folder) if folder.is_symlink() else private_folder(folder)


def _named_folder(folder: Path) -> Path:
    """A state folder that somebody has chosen. It may be for other things as well, such as /tmp: it is closed
    to others only where that changes nothing for anybody.

    Raises SettingsError if it cannot be used, is another user's, or is open to others and not empty.
    """
    try:
        if os.name == "posix" and folder.is_dir():
            _check_owner(folder)
            if _is_open(folder) and any(folder.iterdir()):
                raise _open_to_others(folder)
    except OSError as error:
        raise _unusable(folder, error) from error
    private_folder(folder)
    if os.name == "posix" and _is_open(folder):
        raise _open_to_others(folder)
    return folder


def _check_owner(folder: Path) -> None:
    """Raises SettingsError for another user's folder, or another user's link to one."""
    mine = os.geteuid()
    if folder.is_symlink() and folder.lstat().st_uid not in (mine, 0):
        raise SettingsError(f"The state folder {folder} is a link that another user made. {_ANOTHER}")
    if folder.stat().st_uid != mine:
        raise SettingsError(f"The state folder {folder} belongs to another user. {_ANOTHER}")


def _is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o077)


def _open_to_others(folder: Path) -> SettingsError:
    return SettingsError(
        f"The state folder {folder} is open to other users, who could read what is kept there or change "
        "which model is run. If it is for lsp-calib alone, run "
        f"`chmod 700 {shlex.quote(str(folder))}`; else, or if that changes nothing, set LSP_CALIB_HOME to a "
        "folder of its own."
    )


def private_folder(folder: Path) -> Path:
    """Create `folder` for its owner alone (mode 0700).

    Raises SettingsError if it cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name == "posix" and _is_open(folder):
            folder.chmod(0o700)
    except OSError as error:
        raise _unusable(folder, error) from error
    return folder


def _unusable(folder: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"The state folder {folder} cannot be used: {error}. Set LSP_CALIB_HOME to a folder you can write to."
    )


def run_folder() -> Path:
    """Where model processes and their clients meet: sockets and locks, for the user alone.

    Raises SettingsError if others own it or can look into it.
    """
    return owned_folder(private_folder(home() / "run"))


def owned_folder(folder: Path) -> Path:
    """The folder, if it is this user's and nobody else's. Raises SettingsError if not."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise SettingsError(f"{folder} is not a folder of its own. Remove it; it is made again.")
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
        raise SettingsError(
            f"The folder {folder} belongs to somebody else or is open to others: whoever can write there "
            "could read what you type. Remove it; it is made again."
        )
    return folder


def shipped_models() -> Path:
    """The folder with model cards and shipped calibrators: inside the wheel, or beside a source checkout."""
    inside = Path(__file__).resolve().parent / "models"
    return inside if inside.is_dir() else Path(__file__).resolve().parent.parent / "models"
