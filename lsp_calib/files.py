"""Writing files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lsp_calib.errors import DataError


def replace_file(path: Path, text: str) -> None:
    """Put `text` in the place of `path`, whole or not at all, whatever happens meanwhile.

    A new file may be read by whoever the umask lets; one that was there keeps its permissions.
    Raises DataError if it cannot be written.
    """
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(text.encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error


def sync_folder(folder: Path) -> None:
    """A rename or a new file survives a power cut only once its folder is on disk."""
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
