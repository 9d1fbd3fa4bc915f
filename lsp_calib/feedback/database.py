"""The feedback database's file: private, moved aside when damaged, with errors that say what to do."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lsp_calib import lockfile
from lsp_calib.errors import DataError, LspCalibError, SettingsError

_log = logging.getLogger(__name__)

COMPANIONS = ("", "-wal", "-shm", "-journal")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def private_file(path: Path) -> tuple[int, int]:
    """Create `path` as an empty file if it does not exist, readable by its owner alone (mode 0600).

    SQLite gives the mode of the main file to the files that it puts beside it.
    Returns the file's identity, which stays the same if it is renamed. Raises OSError.
    """
    while True:
        # Not opened if it is there: to close a file drops the locks this process has on it, SQLite's too.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if os.name == "posix":
            for companion in COMPANIONS:
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{path}{companion}").chmod(0o600)
        with contextlib.suppress(FileNotFoundError):  # moved aside by another process, just now
            return identity(path)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds a lock."""
    return _code(error) in _BUSY


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the file itself is damaged, as opposed to a temporary problem."""
    return _code(error) in _DAMAGED


def move_aside(path: Path, damaged: tuple[int, int]) -> Path | None:
    """Rename a damaged database with the files that belong to it, and log that.

    damaged: the file's identity; another process may have found the same damage, and put a new file in its
    place.
    Returns where it is now, or None if another process was faster. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        if sys.platform != "win32":  # on Windows a file that is open elsewhere cannot be renamed
            # Lock the damaged file itself: all processes that want to move it wait here, and no lock file
            # remains.
            lockfile.wait_for_lock(file.fileno())
        if identity(path) == damaged:
            aside = _free_name(path)
            _move(path, aside)
            return aside
    return None


def _free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    return aside


def _move(path: Path, aside: Path) -> None:
    # The main file is moved last: once it is gone, the others may belong to a new one.
    for companion in reversed(COMPANIONS[1:]):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{companion}").rename(f"{aside}{companion}")
    path.rename(aside)
    _log.warning("%s is damaged. It was moved to %s, and a new one was created.", path, aside)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and the system into one that tells the user what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(path, error) from error
    except OSError as error:
        raise _unusable(path, error) from error


def _translation(path: Path, error: sqlite3.Error) -> LspCalibError:
    code = _code(error)
    if code in _DAMAGED:
        return DataError(
            f"{path} is damaged ({error}), so feedback cannot be recorded. Close the editors that use it and "
            "move the file away: a new one is then created."
        )
    if code == sqlite3.SQLITE_FULL:
        return LspCalibError(
            f"The disk with {path} is full, so feedback cannot be recorded. Free some space."
        )
    if code in _BUSY:
        return LspCalibError(
            f"Another program has locked {path}, so feedback cannot be recorded. Close it and try again."
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return _unusable(path, error)
    return LspCalibError(
        f"Feedback could not be read from or written to {path}: {error}. If this stays, "
        "check the disk, or set LSP_CALIB_HOME to another folder."
    )


def _unusable(path: Path, error: Exception) -> SettingsError:
    return SettingsError(
        f"{path} cannot be written: {error}. Make it writable, or set LSP_CALIB_HOME to a folder that is."
    )


def identity(path: Path) -> tuple[int, int]:
    """The file's identity, independent of its name. Raises OSError."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _code(error: sqlite3.Error) -> int:
    """The primary result code, or 0 for an error of the Python module itself."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
