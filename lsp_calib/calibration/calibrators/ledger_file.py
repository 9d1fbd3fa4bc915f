"""A ledger of certificates in its file, changed by one process at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.calibration.calibrators.calibrator import MAX_BYTES, write_document
from lsp_calib.calibration.certificates import Ledger
from lsp_calib.calibration.document import parse, read, written
from lsp_calib.errors import CalibratorError
from lsp_calib.files import read_file

# Seconds to wait for another process; a refit that holds the lock takes seconds at most.
_PATIENCE = 60.0


class DamagedLedgerError(CalibratorError):
    """The file of a ledger does not hold one."""


@attrs.define
class Held:
    """A ledger that this process alone may change now: set `ledger`."""

    ledger: Ledger
    _path: Path
    _on_disk: Ledger

    def remove(self) -> None:
        """Remove the file: nothing of it is to stay. Raises CalibratorError if it cannot be removed."""
        try:
            remove_ledger(self._path)
        except OSError as error:
            raise CalibratorError(f"{self._path} cannot be removed: {error}.") from error
        self.ledger = self._on_disk = Ledger()

    def save(self) -> None:
        """Write it now if it was changed, before something that must not happen without it.

        Raises CalibratorError if it cannot be written.
        """
        if self.ledger == self._on_disk:
            return
        write_document(self._path, written(self.ledger))
        self._on_disk = self.ledger


def read_ledger(path: Path) -> Ledger:
    """The ledger in a file; an empty one if there is no file.

    After a damaged one was removed, no label counts that was there when the damage was last seen.
    Raises CalibratorError, naming it, if it cannot be read: without it nobody knows how many certificates
    were asked for, and so what another one is worth.
    """
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        seen = _damage_seen(path)
        return Ledger(used_until=seen, read_until=seen, tried_until=seen)
    except NotADirectoryError as error:
        file = next(folder for folder in path.parents if folder.exists())
        raise CalibratorError(f"{file} is a file: certificates of yours cannot be read.") from error
    except OSError as error:
        raise CalibratorError(f"{path} cannot be read: {error}.") from error
    try:
        return read(parse(data, str(path)), Ledger, str(path))
    except CalibratorError as error:
        raise DamagedLedgerError(
            f"{error} It records which certificates were requested. Delete this file to re-enable "
            "certificates; they will then rest on later labels alone."
        ) from error


def remove_ledger(path: Path) -> None:
    """Remove a file, damaged or not, and what is known of its damage. Raises OSError."""
    for one in (path, _mark_of(path)):
        one.unlink(missing_ok=True)


def _mark_of(path: Path) -> Path:
    """A file whose time is when damage was seen in another."""
    return path.with_suffix(".damaged")


def _damage_seen(path: Path) -> float:
    """When damage was last seen in a file, in Unix seconds; 0: never."""
    try:
        return _mark_of(path).stat().st_mtime
    except OSError:
        return 0.0


@contextlib.contextmanager
def editing(path: Path) -> Iterator[Held]:
    """The ledger, locked; written when the block ends without an error, if it was changed.

    Raises CalibratorError if it cannot be read, locked or written.
    """
    from filelock import FileLock, Timeout  # takes 40 ms

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(path.with_suffix(".lock"), timeout=_PATIENCE, mode=0o600).acquire(poll_interval=0.02)
    except Timeout:
        raise CalibratorError(
            f"{path} is in use by another lsp-calib, perhaps by a refit: try again later."
        ) from None
    except OSError as error:
        raise CalibratorError(f"{path} cannot be written: {error}.") from error
    with lock:
        try:
            ledger = read_ledger(path)
        except DamagedLedgerError:
            with contextlib.suppress(OSError):
                _mark_of(path).touch(0o600)
            raise
        held = Held(ledger, path, ledger)
        yield held
        held.save()
