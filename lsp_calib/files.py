"""Atomic file writes: a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lsp_calib.errors import DataError


def replace_file(path: Path, text: str) -> None:
    """Replace a file that the user reads. A new one gets the umask's permissions, an existing file keeps its
    own.

    Raises DataError if it cannot be written.
    """
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        write_atomically(path, text.encode("utf-8"), mode)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error


def write_atomically(path: Path, data: bytes, mode: int, *, durable: bool = True) -> None:
    """Replace the content of `path` with `data`: completely or not at all, even after a crash.

    mode: its permissions. durable: on disk when this returns, so that it survives a power cut.
    Raises OSError if it cannot be written.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a file where there is none. What could not be written whole, as on a full disk, does not stay.

    Raises FileExistsError if there is one, else OSError if it cannot be written.
    """
    stream = path.open("xb")
    try:
        # Closing writes what is left, and may fail as well.
        with stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Write a folder to disk: until then a rename or a new file in it may not survive a power cut."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value
