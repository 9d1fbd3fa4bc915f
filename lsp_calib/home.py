"""The state folder, readable by its owner alone, and the folder of the models that are shipped.

Source text is in the memory of our processes alone: neither a crash nor another process may carry it out.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path

from lsp_calib.errors import SettingsError
from lsp_calib.files import FULL

_PR_SET_DUMPABLE = 4
_ANOTHER = "Set LSP_CALIB_HOME to a folder of your own."


def leave_no_core() -> None:
    """Keep a crash from writing the memory to a file, here and in all processes that are started from here.

    It lasts: the limit cannot be raised again, but by root. Windows has no such limit.
    """
    if sys.platform == "win32":
        return
    import resource

    # 1, not 0: with 0, a kernel that pipes core dumps to a program would still start that program.
    for most in (1, 0):
        with contextlib.suppress(OSError, ValueError):  # 1 is more than a limit of 0 allows
            resource.setrlimit(resource.RLIMIT_CORE, (most, most))
            return


def close_memory() -> None:
    """Keep the memory of this process from core dumps and from the user's other processes (Linux).

    These can no longer trace it, nor read its `environ` and `fd` in /proc. A program that is started from
    here has to do it again. It imports ctypes, which takes milliseconds.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, *[ctypes.c_ulong(0)] * 4)


def feedback_file() -> Path:
    """The file of the feedback store (`feedback.store`), in the state folder; it may not exist yet."""
    return state_dir() / "feedback.db"


def state_dir() -> Path:
    """The state folder: `LSP_CALIB_HOME`, or the platform's user data folder. Created with mode 0700.

    A folder that the user has named, or that a link leads to, may serve other purposes as well, such as /tmp:
    its permissions are changed only if it is empty.
    Raises SettingsError if it cannot be used or is another user's, or if `LSP_CALIB_HOME` is relative or
    names a folder that is open to others.
    """
    try:
        folder, named = _wanted()
    except RuntimeError as error:
        reason = str(error).rstrip(".")
        raise SettingsError(f"The state folder is not known: {reason}. {_ANOTHER}") from error
    shared = os.name == "posix" and (named or folder.is_symlink())
    try:
        if shared and folder.is_dir():
            _check_owner(folder)
            if _is_open(folder) and any(folder.iterdir()):
                raise _open_to_others(folder)
    except OSError as error:
        raise _unusable(folder, error) from error
    private_folder(folder)
    if shared and _is_open(folder):  # its file system has no permissions
        raise _open_to_others(folder)
    return folder


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


def run_folder() -> Path:
    """The folder with the sockets and locks of model processes, for the user alone.

    Raises SettingsError if another user owns it, or it is no folder of its own.
    """
    folder = private_folder(state_dir() / "run")
    if folder.is_symlink() or (
        os.name == "posix" and (folder.stat().st_uid != os.geteuid() or _is_open(folder))
    ):
        raise SettingsError(
            f"{folder} is a link, belongs to another user, or is open to others, who could read what you "
            "type. Remove it, and lsp-calib creates it again; or set LSP_CALIB_HOME to another folder."
        )
    return folder


def shipped_models() -> Path:
    """The folder with model cards and shipped calibrators: inside the wheel, or beside a source checkout."""
    inside = Path(__file__).resolve().parent / "models"
    return inside if inside.is_dir() else Path(__file__).resolve().parent.parent / "models"


def _wanted() -> tuple[Path, bool]:
    """The state folder, and whether the user has named it. Raises RuntimeError if there is no home folder.

    An editor starts the server in the workspace, which is not trusted: a relative path would read the user's
    configuration from there, and name a different folder for each working directory.
    """
    named = os.environ.get("LSP_CALIB_HOME")
    if not named:
        import platformdirs

        return Path(platformdirs.user_data_dir("lsp-calib", appauthor=False)), False
    with contextlib.suppress(RuntimeError):  # no user of this name
        folder = Path(named).expanduser()
        if folder.is_absolute():
            return folder, True
    raise SettingsError(
        f"LSP_CALIB_HOME is {named!r}, which means another folder in each working directory, or none. Set it "
        "to an absolute path."
    )


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
        f"The state folder {folder} is open to other users, who could read its files or choose another "
        f"model. If only lsp-calib uses it, run `chmod 700 {shlex.quote(str(folder))}`; otherwise set "
        "LSP_CALIB_HOME to a folder for lsp-calib alone."
    )


def _unusable(folder: Path, error: OSError) -> SettingsError:
    if folder.is_symlink() and not folder.exists():
        return SettingsError(
            f"{folder} is a link to {folder.readlink()}, which is not there. Is a drive missing? Connect it, "
            "or remove the link; the folder is then created again."
        )
    if error.errno in FULL:
        return SettingsError(
            f"The disk with the state folder {folder} is full. Free some space, or set LSP_CALIB_HOME to a "
            "folder on another disk."
        )
    what = "it is a file, move it away" if isinstance(error, FileExistsError) else str(error)
    return SettingsError(
        f"The state folder {folder} cannot be used: {what}. Or set LSP_CALIB_HOME to a folder that you "
        "can write to."
    )
