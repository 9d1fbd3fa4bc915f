"""Removing what was learned on request: the feedback, logs, and the user's calibrators."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from lsp_calib.calibration.calibrators.calibrator_store import (
    CERTIFICATES,
    DamagedLedgerError,
    editing,
    remove_ledger,
)
from lsp_calib.calibration.calibrators.line_curves import PREFIXES
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.report import PAGE
from lsp_calib.feedback.store import FeedbackStore

CALIBRATING = "calibrating"
"""The folder with the records of calibrations that are not finished."""


def _empty_logs(state: Path) -> None:
    """Empty the logs in the state folder.

    They are emptied rather than deleted: a running model process goes on writing to its own.
    Raises LspCalibError if one cannot be emptied.
    """
    for path in sorted((state / "log").glob("*.log")):
        try:
            if path.stat().st_size:
                os.truncate(path, 0)
        except OSError as error:
            raise LspCalibError(f"The log {path} cannot be emptied: {error.strerror}.") from error


def remove_everything(store: FeedbackStore, state: Path) -> int:
    """Remove all feedback, the report on it, and unfinished calibrations, and empty the logs.

    state: the state folder. The user's calibrators stay. Returns how many suggestions there were. Raises
    LspCalibError.
    """
    n = store.purge()
    remove_report(state)
    shutil.rmtree(state / CALIBRATING, ignore_errors=True)
    _empty_logs(state)
    return n


def remove_report(state: Path) -> None:
    """Remove the report in the state folder: its numbers are those of what was removed, too.

    Raises LspCalibError if it cannot be removed.
    """
    try:
        for path in (state / PAGE, *state.glob(f".{PAGE}.*.tmp")):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise LspCalibError(f"The report {error.filename} cannot be removed: {error.strerror}.") from error


def remove_calibrators(folder: Path) -> int:
    """Remove the user's calibrators, the earlier ones as well; returns how many files there were.

    Of their certificates stays how many were asked for. Raises LspCalibError if one cannot be removed.
    """
    removed = 0
    below = folder / "history", folder / PREFIXES
    for path in (path for each in (folder, *below) for path in each.glob("*")):
        try:
            if path.is_file() or path.is_symlink():
                path.unlink()
                removed += 1
        except OSError as error:
            raise LspCalibError(f"{path} cannot be removed: {error.strerror}.") from error
    for each in below:
        with contextlib.suppress(OSError):
            each.rmdir()
    for path in sorted((folder / CERTIFICATES).glob("*.json")):
        _begin_anew(path)
    return removed


def _begin_anew(path: Path) -> None:
    """Keep of a ledger how many certificates were asked for; nothing if none was, or if it is damaged."""
    try:
        with editing(path) as held:
            held.ledger = held.ledger.reset()
            if not held.ledger.asked:
                held.remove()
    except DamagedLedgerError:
        try:
            remove_ledger(path)
        except OSError as error:
            raise LspCalibError(f"{path} cannot be removed: {error.strerror}.") from error
