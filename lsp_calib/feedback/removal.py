"""Removing what was learned: for its age, or on request with logs and the user's calibrators."""

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
from lsp_calib.feedback.store_file import translated

_DAY = 86_400.0


def believed(store: FeedbackStore, now: float) -> float:
    """The time of the clock (`now`, Unix seconds) as far as another day bears it out.

    At most a day after the last suggestion, or the last call of this, of another day: one reading of a
    clock that is ahead must not delete everything. The last call is the time of a file beside the store.
    Raises LspCalibError as the store does.
    """
    ((shown,),) = store.read("SELECT MAX(shown_at) FROM suggestions WHERE shown_at < ?", now - _DAY)
    mark = store.path.with_suffix(".expiry")
    with translated(store.path):
        last = mark.stat().st_mtime if mark.exists() else 0.0
        if not now - _DAY < last <= now:
            mark.touch(mode=0o600)
            os.utime(mark, (now, now))
    return min(now, max(shown or 0.0, last if last <= now - _DAY else 0.0) + _DAY)


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
