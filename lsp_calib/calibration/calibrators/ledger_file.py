"""A ledger of certificates in its file, changed by one process at a time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.calibration.calibrators.calibrator import MAX_BYTES
from lsp_calib.calibration.document import Fields, parse
from lsp_calib.calibration.policies.certificates import Certificate
from lsp_calib.calibration.policies.drift import RISEN, Watch
from lsp_calib.calibration.policies.ledger import Ledger, Promise
from lsp_calib.errors import CalibratorError, DataError
from lsp_calib.files import write_atomically
from lsp_calib.lockfile import lock

SCHEMA = 1

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
        text = json.dumps(_to_json(self.ledger), indent=2, allow_nan=False) + "\n"
        try:
            write_atomically(self._path, text.encode(), 0o600)
        except OSError as error:
            raise CalibratorError(f"{self._path} cannot be written: {error}.") from error
        self._on_disk = self.ledger


def read_ledger(path: Path) -> Ledger:
    """The ledger in a file; an empty one if there is no file.

    After a damaged one was removed, no label counts that was there when the damage was last seen.
    Raises CalibratorError, naming it, if it cannot be read: without it nobody knows how many certificates
    were asked for, and so what another one is worth.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        seen = _damage_seen(path)
        return Ledger(used_until=seen, read_until=seen, tried_until=seen)
    except OSError as error:
        raise CalibratorError(f"{path} cannot be read: {error}.") from error
    try:
        if len(data) > MAX_BYTES:
            raise CalibratorError(f"{path} is larger than {MAX_BYTES} bytes.")
        return _of_json(Fields.of(parse(data.decode("utf-8"), str(path)), str(path)))
    except (CalibratorError, DataError, UnicodeDecodeError) as error:
        raise DamagedLedgerError(
            f"{error} It records which certificates were asked for: none is given until it is removed, and "
            "then on later labels alone."
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CalibratorError(f"{path} cannot be written: {error}.") from error
    try:
        deadline = time.monotonic() + _PATIENCE
        while not lock(descriptor):
            if time.monotonic() > deadline:
                raise CalibratorError(
                    f"{path} is in use by another lsp-calib, perhaps by a refit: try again later."
                )
            time.sleep(0.02)
        try:
            ledger = read_ledger(path)
        except DamagedLedgerError:
            with contextlib.suppress(OSError):
                _mark_of(path).touch(0o600)
            raise
        held = Held(ledger, path, ledger)
        yield held
        held.save()
    finally:
        os.close(descriptor)


def _to_json(ledger: Ledger) -> dict[str, Any]:
    watch = ledger.watch
    return {
        "schema": SCHEMA,
        "promise": _promise_to_json(ledger.promise),
        "usedUntil": ledger.used_until,
        "key": ledger.key,
        "readUntil": ledger.read_until,
        "aside": ledger.aside,
        "asked": ledger.asked,
        "askedOf": ledger.asked_of,
        "askedFor": _promise_to_json(ledger.asked_for),
        "askedN": ledger.asked_n,
        "refusal": ledger.refusal,
        "refusalOf": ledger.refusal_of,
        "watch": None
        if watch is None
        else {
            "certificate": attrs.asdict(watch.certificate),
            "seen": watch.seen,
            "errors": watch.errors,
            "logEvidence": [None if math.isinf(value) else value for value in watch.log_evidence],
        },
        "given": _promise_to_json(ledger.given),
        "triedUntil": ledger.tried_until,
        "triedN": ledger.tried_n,
    }


def _of_json(fields: Fields) -> Ledger:
    if fields.get("schema") != SCHEMA:
        fields.wrong("schema", f"must be {SCHEMA} (newer files need a newer lsp-calib)")
    watch = None
    if fields.get("watch") is not None:
        inner = fields.object("watch")
        found = inner.object("certificate")
        evidence = inner.get("logEvidence")
        if not isinstance(evidence, list) or len(evidence) != len(RISEN):
            inner.wrong("logEvidence", f"must be a list of {len(RISEN)}")
        p_value = found.get("p_value")
        threshold = found.get("threshold")
        watch = Watch(
            Certificate(
                threshold=None if threshold is None else found.number("threshold"),
                reason=found.text("reason"),
                n=found.count("n"),
                accepted=found.count("accepted"),
                errors=found.count("errors"),
                risk=found.number("risk"),
                delta=found.number("delta"),
                p_value=None if p_value is None else found.number("p_value"),
                calibrator=found.text("calibrator", empty=True),
                revoked=found.get("revoked") is True,
            ),
            inner.count("seen"),
            inner.count("errors"),
            tuple(_log(value, inner) for value in evidence),
        )
    return Ledger(
        promise=_promise(fields, "promise"),
        used_until=fields.number("usedUntil"),
        key=fields.text("key", empty=True),
        read_until=fields.number("readUntil"),
        aside=fields.count("aside"),
        asked=fields.count("asked"),
        asked_of=fields.text("askedOf", empty=True),
        asked_for=_promise(fields, "askedFor"),
        asked_n=fields.count("askedN"),
        refusal=fields.text("refusal", empty=True),
        refusal_of=fields.text("refusalOf", empty=True),
        watch=watch,
        given=_promise(fields, "given"),
        tried_until=fields.number("triedUntil"),
        tried_n=fields.count("triedN"),
    )


def _log(value: object, fields: Fields) -> float:
    if value is None:
        return -math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        fields.wrong("logEvidence", "must hold numbers")
    return float(value)


def _promise_to_json(promise: Promise | None) -> dict[str, Any] | None:
    return None if promise is None else attrs.asdict(promise)


def _promise(fields: Fields, name: str) -> Promise | None:
    if fields.get(name) is None:
        return None
    inner = fields.object(name)
    return Promise(risk=inner.number("risk"), delta=inner.number("delta"), measure=inner.text("measure"))
