"""Where state lives: one folder, readable by its owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lsp_calib.errors import SettingsError


def home() -> Path:
    """The state folder: `LSP_CALIB_HOME`, or the platform's user data folder. Created with mode 0700."""
    named = os.environ.get("LSP_CALIB_HOME")
    if named:
        folder = Path(named).expanduser()
    else:
        import platformdirs

        folder = Path(platformdirs.user_data_dir("lsp-calib", appauthor=False))
    return private_folder(folder)


def private_folder(folder: Path) -> Path:
    """Create `folder` for its owner alone (mode 0700).

    Raises SettingsError if it cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name == "posix" and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise SettingsError(
            f"The state folder {folder} cannot be used: {error}. "
            "Set LSP_CALIB_HOME to a folder you can write to."
        ) from error
    return folder


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
