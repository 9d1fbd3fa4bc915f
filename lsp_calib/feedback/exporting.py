"""The store as a file of JSON lines, without any text of a document."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TextIO

from lsp_calib.errors import DataError, SettingsError
from lsp_calib.feedback.store import FeedbackStore


def export_to(store: FeedbackStore, stream: TextIO) -> int:
    """Write one JSON object a line for each suggestion, oldest first; returns how many.

    Raises LspCalibError as the store does, OSError as the stream does.
    """
    n = 0
    for row in store.export():
        stream.write(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n")
        n += 1
    return n


def export_file(store: FeedbackStore, path: Path) -> int:
    """`export_to` a new file that only its owner can read.

    Raises SettingsError if there is a file of this name, DataError if it cannot be written, and LspCalibError
    as the store does. What was written of a file that could not be finished is removed.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SettingsError(
            f"{path} exists, and no export overwrites a file. Give another name, or remove it."
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}. Give another place.") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            return export_to(store, stream)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise DataError(f"{path} cannot be written: {error.strerror}. Give another place.") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise
