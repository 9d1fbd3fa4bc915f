"""The feedback store's file: its tables and their migrations, the key of its hashes, transactions, damage.

The file is private and moved aside when it is damaged; errors say what to do. No column may hold source text,
a path or an address of a document.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import math
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lsp_calib.badges import counted
from lsp_calib.characters import normalised_line
from lsp_calib.confidence.features import FEATURES, PLACES, VERSION
from lsp_calib.edits.history import FEATURES as OF_EDITS
from lsp_calib.errors import DataError, LspCalibError, SettingsError
from lsp_calib.feedback.events import SETTLE_AFTER, Event, EventKind, How
from lsp_calib.files import FULL, check_regular, on_network, open_file, read_file, why, write_atomically
from lsp_calib.home import private_folder
from lsp_calib.languages import bounded
from lsp_calib.values import Evidence, ModelIdentity, Suggestion

_log = logging.getLogger(__name__)
T = TypeVar("T")

_BYTES = 32
# 64 bits: among a million lines two share a hash with a probability of 3 in 100 million.
_DIGITS = 16


class KeyedHash:
    """HMAC-SHA256 with a random key in a file that its owner alone can read, made when first needed.

    Whoever has a plain hash of a line can try lines until one fits. With the key in another file, a copy of
    the store alone, or of its export, tells nothing.
    Not for several processes at once: the store calls it inside its transactions that write.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""
        self._read_from: tuple[int, ...] | None = None

    def of(self, kind: str, text: str) -> str:
        """16 hexadecimal digits; the same text gives others for another kind. Raises OSError."""
        message = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._current(), message, hashlib.sha256).hexdigest()[:_DIGITS]

    def forget(self) -> None:
        """Remove the key: all hashes made with it are random numbers from now on. Raises OSError."""
        self._path.unlink(missing_ok=True)

    def _current(self) -> bytes:
        # Another process may have removed it with all feedback, and made a new one.
        stamp = self._stamp()
        if stamp is None or stamp != self._read_from:
            self._key = b"" if stamp is None else read_file(self._path)
            if len(self._key) != _BYTES:  # none yet, or damaged: hashes made with it cannot be made again
                self._key = secrets.token_bytes(_BYTES)
                write_atomically(self._path, self._key, 0o600)
            self._read_from = self._stamp()
        return self._key

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            status = check_regular(self._path)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


# features: a JSON object of numbers by name. line, workspace: hashes with the installation's key.
# typed, confidence, tier: `events.Moment` when it was first shown; accepted_...: when it was accepted, NULL:
# it was not. was_hidden: it was hidden before.
# The first migration makes this table too: before a column comes here, that one gets this text as its own.
_SUGGESTIONS = """
    CREATE TABLE suggestions (
        id TEXT PRIMARY KEY,
        shown_at REAL NOT NULL,
        kind TEXT NOT NULL,
        language TEXT NOT NULL,
        model TEXT NOT NULL,
        model_sha256 TEXT NOT NULL,
        prompt_version TEXT NOT NULL,
        calibrator_id TEXT NOT NULL,
        measure TEXT NOT NULL,
        first_tokens INTEGER,
        raw REAL,
        confidence REAL,
        tier TEXT NOT NULL,
        logprobs TEXT NOT NULL,
        features TEXT NOT NULL,
        features_version INTEGER NOT NULL,
        place TEXT NOT NULL,
        line TEXT,
        workspace TEXT,
        shown_probability REAL NOT NULL,
        typed INTEGER NOT NULL DEFAULT 0,
        was_hidden INTEGER NOT NULL DEFAULT 0,
        accepted_typed INTEGER,
        accepted_confidence REAL,
        accepted_tier TEXT
    )
    """
_INDEXES = (
    "CREATE INDEX suggestions_by_model ON suggestions (model_sha256, prompt_version, kind)",
    "CREATE INDEX suggestions_by_time ON suggestions (shown_at)",
)
_TABLES = (
    _SUGGESTIONS,
    *_INDEXES,
    # Of suggestions that were shown again while they were typed along: see `tracked.Moments`.
    """
    CREATE TABLE moments (
        number INTEGER PRIMARY KEY,
        suggestion_id TEXT NOT NULL,
        typed INTEGER NOT NULL,
        confidence REAL,
        tier TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        suggestion_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        at REAL NOT NULL,
        data TEXT NOT NULL
    )
    """,
    # at: when it was first known. settled_at: NULL: it is provisional, see `events.Label`.
    """
    CREATE TABLE labels (
        suggestion_id TEXT PRIMARY KEY,
        correct INTEGER,
        how TEXT NOT NULL,
        at REAL NOT NULL,
        episode TEXT NOT NULL,
        settled_at REAL
    )
    """,
    "CREATE INDEX events_by_suggestion ON events (suggestion_id)",
    "CREATE INDEX moments_by_suggestion ON moments (suggestion_id)",
)

_FIRST = 8
_KEPT = (
    "id, shown_at, kind, language, model, model_sha256, prompt_version, calibrator_id, measure, "
    "first_tokens, raw, confidence, tier, logprobs, features, features_version, place, line, workspace, "
    "shown_probability, typed, was_hidden, accepted_typed, accepted_confidence, accepted_tier"
)
# What brings the tables of format `_FIRST`, and of each one after it, to the next.
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (  # suggestions that were shown to nobody, with their column `source`, are gone
        *(
            f"DELETE FROM {table} WHERE suggestion_id IN "
            "(SELECT id FROM suggestions WHERE source IS NOT NULL)"
            for table in ("labels", "events")
        ),
        *(f"DROP INDEX IF EXISTS suggestions_{name}" for name in ("by_model", "by_time", "not_shown")),
        "ALTER TABLE suggestions RENAME TO earlier",
        _SUGGESTIONS,
        f"INSERT INTO suggestions ({_KEPT}) SELECT {_KEPT} FROM earlier WHERE source IS NULL ORDER BY rowid",
        "DROP TABLE earlier",
        *_INDEXES,
    ),
)
FORMAT = _FIRST + len(_MIGRATIONS)
"""Of the tables; kept in the file as its `user_version`."""

# Whether nothing was known of a row of `suggestions s` when it was first shown but what the model said: what
# came later, or was hidden before, is seen only where the first characters agree.
AT_ONCE = "s.typed = 0 AND NOT s.was_hidden"
# All moments, the first ones too, as rows of `m`.
MOMENTS = (
    "(SELECT id AS suggestion_id, 0 AS number, typed, confidence, tier FROM suggestions "
    "UNION ALL SELECT suggestion_id, number, typed, confidence, tier FROM moments) m"
)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in a new file, or bring those of an earlier format up to date, in one transaction.

    Raises DataError if the file is of a format that is not known here.
    """

    def version() -> int:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])

    if version() == FORMAT:
        return
    with _transaction(connection):
        found = version()  # another process may have done it while this one waited for the lock
        if found and not _FIRST <= found <= FORMAT:
            raise DataError(
                f"{path} was written by another version of lsp-calib (format {found}, this one knows "
                f"{FORMAT}). It was left as it is, and no feedback is recorded. Update lsp-calib, or move "
                "the file away: a new one is then begun. Calibrators stay."
            )
        steps = _MIGRATIONS[found - _FIRST :] if found else (_TABLES,)
        for statement in (statement for step in steps for statement in step):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """On disk when the block ends, or undone if it raises."""
    # IMMEDIATE: a transaction that reads first and writes later cannot wait for another's lock.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_COMPANIONS = ("-wal", "-shm", "-journal")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: sqlite3.Error) -> int:
    """The primary result code, or 0 for an error of the Python module itself."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells the file at a path from another one put in its place; None if there is none. Raises OSError,
    also for anything but a regular file."""
    try:
        status = check_regular(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _make_private(path: Path) -> None:
    """Create an empty file if there is none, readable by its owner alone: SQLite gives its mode to the files
    that it puts beside it. Raises OSError."""
    # Not opened if it is there: to close a file drops the locks this process has on it, SQLite's too.
    with contextlib.suppress(FileExistsError):
        os.close(open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    if os.name == "posix":
        for companion in ("", *_COMPANIONS):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{companion}").chmod(0o600)


def _move_aside(path: Path) -> Path:
    """Rename a damaged file with those that belong to it; returns where it is now. Raises OSError."""
    stamp, number = time.strftime("%Y%m%dT%H%M%S"), 1
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    # The main file is moved last: once it is gone, the others may belong to a new one.
    for companion in _COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{companion}").rename(f"{aside}{companion}")
    path.rename(aside)
    _log.warning("%s is damaged. It was moved to %s, and a new one was created.", path, aside)
    return aside


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and the system into one that tells the user what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translation(path, error) from error
    except OSError as error:
        raise _of_system(path, error) from error


def _translation(path: Path, error: sqlite3.Error) -> LspCalibError:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return _full(path)
    if code in _BUSY:
        return LspCalibError(
            f"Another program has locked {path}, so feedback cannot be recorded. Close it and try again."
        )
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and (cause := _trouble(path.parent)):
        return _of_system(path, cause)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return _unusable(path, error)
    return LspCalibError(
        f"Feedback could not be read from or written to {path}: {error}. If this stays, "
        "check the disk, or set LSP_CALIB_HOME to another folder."
    )


def _of_system(path: Path, error: OSError) -> LspCalibError:
    return _full(path) if error.errno in FULL else _unusable(Path(error.filename or path), error)


def _trouble(folder: Path) -> OSError | None:
    """The error of a write beside the store. SQLite does not pass it on, as of a full disk or a quota."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 16))
    except OSError as error:
        error.filename = None  # a made-up name
        return error
    return None


def _full(path: Path) -> LspCalibError:
    return LspCalibError(f"The disk with {path} is full, so feedback cannot be recorded. Free some space.")


def _unusable(path: Path, error: Exception) -> SettingsError:
    return SettingsError(
        f"{path} cannot be written: {why(error)}. Make it writable, or set LSP_CALIB_HOME to a folder "
        "that is."
    )


_NAMES = frozenset((*FEATURES, *OF_EDITS))
# Digits kept of a log-probability: finer than llama.cpp reproduces, and half the size of all digits.
_KEPT_DIGITS = 5
# What the hashes are of: these names are part of them.
LINE, WORKSPACE, HALF = "line", "workspace", "half"
# Seconds within which a provisional label is settled, or revised, by the server that has written it.
_REVISED_WITHIN = 2 * SETTLE_AFTER
# What is kept without a stored suggestion: hints, which are acknowledged, and counts of answers that were not
# shown whole.
_LOOSE = frozenset({EventKind.ACCEPTED, EventKind.REJECTED, EventKind.WITHHELD, EventKind.CUT})


class StoreFile:
    """One SQLite file, readable by its owner alone, and what is written to it. See `store.FeedbackStore` for
    what its users are promised.

    moved_aside: the new path of a damaged file, the last one if there were several, or None.
    """

    def __init__(self, path: Path, *, timeout: float = 5.0) -> None:
        """Open or create the store.

        Raises SettingsError if the file cannot be created or written, DataError if another version wrote it.
        """
        self.path = path
        self._hash = KeyedHash(path.with_suffix(".key"))
        self.moved_aside: Path | None = None
        self._which: tuple[int, int] | None = None
        self._timeout = timeout
        private_folder(path.parent)
        with translated(path):
            self._open()

    def read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query. Raises LspCalibError as every method of the store."""
        with self._reading():
            return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file. Closing it again does nothing."""
        with translated(self.path):
            self._connection.close()

    def record_shown(
        self,
        suggestion: Suggestion,
        *,
        model: ModelIdentity,
        prompt_version: str,
        language: str,
        evidence: Evidence,
        at: float,
        line: str = "",
        workspace: str = "",
        shown_probability: float = 1.0,
        typed: int = 0,
        was_hidden: bool = False,
        as_first: bool = False,
        events: Sequence[Event] = (),
    ) -> None:
        """Keep the numbers of a suggestion. A suggestion that is known already stays as it is.

        evidence: its log-probabilities (none are kept if any is not finite), its known features and its kind
            of place. The doubtful word is not kept. at: Unix seconds.
        line: the line with the suggestion in it. workspace: the address of the folder that its document
            belongs to. Their hashes are kept; empty: unknown.
        shown_probability: in (0, 1]; below 1 for a suggestion that was to be hidden.
        typed: characters of it that were typed along by now. was_hidden: it was hidden before.
        events: what has happened to it, and to others; as for `record_events`, in the same transaction.
        An alternative is kept as a kind of its own, such as "line-2": its labels are not those of the first
        suggestion, and a refit on those of `line` leaves it out. as_first: it is kept as a first one all the
        same, since it would be but for a surer one.
        """
        c, first = suggestion.confidence, as_first or suggestion.rank == 1
        believable = all(math.isfinite(value) for value in evidence.logprobs)
        kept = [round(float(value), _KEPT_DIGITS) for value in evidence.logprobs] if believable else []
        # Only names from the tables of features: nothing else can become text in the store.
        features = {
            name: round(float(value), _KEPT_DIGITS)
            for name, value in evidence.features.items()
            if name in _NAMES and math.isfinite(value)
        }
        row = {
            "id": suggestion.id,
            "shown_at": at,
            "kind": suggestion.kind if first else f"{suggestion.kind}-{suggestion.rank}",
            "language": bounded(language),
            "model": model.name,
            "model_sha256": model.sha256,
            "prompt_version": prompt_version,
            "calibrator_id": c.calibrator.id,
            "measure": c.measure,
            "first_tokens": c.first_tokens,
            "raw": c.raw,
            "confidence": c.calibrated,
            "tier": c.tier.value,
            "logprobs": json.dumps(kept, separators=(",", ":")),
            "features": json.dumps(features, separators=(",", ":")),
            "features_version": VERSION,
            "place": bounded(evidence.place) if suggestion.kind == "edit" or evidence.place in PLACES else "",
            "shown_probability": shown_probability,
            "typed": typed,
            "was_hidden": was_hidden,
        }
        statement = (
            f"INSERT INTO suggestions ({', '.join(row)}, line, workspace) "
            f"VALUES ({', '.join('?' * (len(row) + 2))}) ON CONFLICT DO NOTHING"
        )

        def insert(connection: sqlite3.Connection) -> None:
            hashes = self._hashed(LINE, normalised_line(line)), self._hashed(WORKSPACE, workspace)
            connection.execute(statement, (*row.values(), *hashes))
            _insert_events(connection, events)

        self._write(insert)

    def record_events(self, events: Iterable[Event]) -> None:
        """Keep events and the labels they carry: all of them or, on an error, none.

        A later label replaces a provisional one of the same suggestion; one that has settled stays, unless
        the user reports that it is wrong. Of a suggestion that is not stored, because it was purged or
        feedback was off when it was shown, only `_LOOSE` events are kept.
        """
        events = list(events)
        if events:
            self._write(lambda connection: _insert_events(connection, events))

    def settle_left(self, now: float) -> None:
        """Settle the provisional labels that nobody revises any more: their server was killed.

        now: Unix seconds.
        """
        statement = "UPDATE labels SET settled_at = ? WHERE settled_at IS NULL AND at < ?"
        self._write(lambda connection: connection.execute(statement, (now, now - _REVISED_WITHIN)))

    def purge(self, *, before: float | None = None, workspaces: Sequence[str] | None = None) -> int:
        """Delete suggestions with their events and labels, from the file itself as well.

        before: only those shown before a time (Unix seconds). workspaces: only those of documents in the
            workspace folders with these addresses. With neither, everything goes: the key of the hashes and
            damaged files that were moved aside, too.
        Returns how many suggestions were deleted. Raises LspCalibError as well if they are deleted, but
        another program keeps the file from being cleaned.
        """
        everything = before is None and workspaces is None
        limit = math.inf if before is None else before

        def delete(connection: sqlite3.Connection) -> int:
            chosen: str = "shown_at < ?"
            values: list[Any] = [limit]
            if workspaces is not None:
                chosen += f" AND workspace IN ({', '.join('?' * len(workspaces))})"
                values += [self._hashed(WORKSPACE, one) for one in workspaces]
            for table in ("events", "labels", "moments"):
                connection.execute(
                    f"DELETE FROM {table} WHERE suggestion_id IN (SELECT id FROM suggestions WHERE {chosen})",
                    values,
                )
                # Hints may belong to suggestions that are not stored here.
                if workspaces is None and table != "moments":
                    connection.execute(
                        f"DELETE FROM {table} "
                        "WHERE at < ? AND suggestion_id NOT IN (SELECT id FROM suggestions)",
                        values,
                    )
            n = connection.execute(f"DELETE FROM suggestions WHERE {chosen}", values).rowcount
            if everything:
                self._hash.forget()
            return n

        n = self._write(delete)
        if everything:
            with translated(self.path):
                for aside in self.path.parent.glob(f"{self.path.name}.corrupt-*"):
                    aside.unlink(missing_ok=True)
        with self._reading():
            self._connection.execute("VACUUM")
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise LspCalibError(
                f"Deleted: {counted(n, 'suggestion')}. Another program is reading {self.path}: the file may "
                "still hold what was deleted. Run the command again, or close the editors that use it."
            )
        return n

    def expire(self, before: float, *, most: int = 200) -> bool:
        """Delete suggestions shown before a time (Unix seconds), at most `most` of them.

        So it takes little time; new data use the space again.
        Returns whether there may be more.
        """

        def forget(connection: sqlite3.Connection, query: str, *values: float) -> bool:
            ids = connection.execute(query, values).fetchall()
            for table in ("moments", "events", "labels"):
                connection.executemany(f"DELETE FROM {table} WHERE suggestion_id = ?", ids)
            connection.executemany("DELETE FROM suggestions WHERE id = ?", ids)
            return len(ids) >= most

        def delete(connection: sqlite3.Connection) -> bool:
            shown = "SELECT id FROM suggestions WHERE shown_at < ? ORDER BY shown_at LIMIT ?"
            # Hints are events that may belong to suggestions not stored here.
            hints = (
                "SELECT e.suggestion_id FROM events e WHERE e.at < ? AND NOT EXISTS "
                "(SELECT 1 FROM suggestions s WHERE s.id = e.suggestion_id) LIMIT ?"
            )
            more = forget(connection, shown, before, most)
            return forget(connection, hints, before, most) or more

        return self._write(delete)

    def _hashed(self, kind: str, text: str) -> str | None:
        """Only inside a transaction that writes."""
        return self._hash.of(kind, text) if text else None

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """One transaction: on disk when this returns, or undone. If the file is damaged, it is repeated
        in a new one."""
        with translated(self.path):
            try:
                return self._in_transaction(work)
            except sqlite3.DatabaseError as error:
                if _code(error) not in _DAMAGED:
                    raise
            self._connection.close()
            self._open(self._which)
            return self._in_transaction(work)

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._which is None or self._which != _identity(self.path):
            # The file was moved, by the user or another process: nobody would find data written to it now.
            self._connection.close()
            self._open()
        with _transaction(self._connection):
            return work(self._connection)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        with translated(self.path):
            if self._which is None:
                self._open()
            try:
                yield
            except sqlite3.DatabaseError as error:
                if _code(error) not in _DAMAGED:
                    raise
                self._connection.close()
                self._open(self._which)
                raise DataError(
                    f"{self.path} was damaged ({error}). It was moved to {self.moved_aside}, and a new one "
                    "was created. The new one starts without labels."
                ) from error

    def _open(self, damaged: tuple[int, int] | None = None) -> None:
        """Open the file that is there now, or a new one. No connection may be open.

        damaged: a file that is moved aside before, unless another process has done so.
        If that fails, as on a full disk, the next use of the store tries again.
        """
        self._which = None
        if damaged is not None and _identity(self.path) == damaged:
            self.moved_aside = _move_aside(self.path)
        _make_private(self.path)
        which = _identity(self.path)
        try:
            self._connection = self._connected()
        except sqlite3.DatabaseError as error:
            if damaged is not None or _code(error) not in _DAMAGED:
                raise
            self._open(which)
        else:
            self._which = which

    def _connected(self) -> sqlite3.Connection:
        # SQLite does not wait where two processes switch a new file to write-ahead logging at once.
        deadline = time.monotonic() + self._timeout
        while True:
            connection = sqlite3.connect(
                self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up(connection)
                return connection
            except BaseException as error:
                connection.close()
                busy = isinstance(error, sqlite3.OperationalError) and _code(error) in _BUSY
                if not busy or time.monotonic() >= deadline:
                    raise
            time.sleep(0.02)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        # The write-ahead log takes a third of the time, and needs memory that all processes share, which
        # machines do not. A rollback journal whose removal is lost in a power cut would undo the transaction,
        # but for EXTRA.
        journal, safety = ("DELETE", "EXTRA") if on_network(self.path.parent) else ("WAL", "FULL")
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute(f"PRAGMA synchronous = {safety}")
        # Deleted data must not remain in the file.
        connection.execute("PRAGMA secure_delete = ON")
        # 256 KiB instead of 2 MB for each server: the system's cache, which all share, has the pages too.
        connection.execute("PRAGMA cache_size = -256")
        _prepare(connection, self.path)


def _insert_events(connection: sqlite3.Connection, events: Sequence[Event]) -> None:
    # In the transaction: another process may purge at any time.
    stored = "SELECT 1 FROM suggestions WHERE id = ?"
    ids = {event.suggestion_id for event in events}
    known = {one for one in ids if connection.execute(stored, (one,)).fetchone()}
    kept = [event for event in events if event.suggestion_id in known or event.kind in _LOOSE]
    connection.executemany(
        "INSERT INTO events (suggestion_id, kind, at, data) VALUES (?, ?, ?, ?)",
        [(e.suggestion_id, e.kind.value, e.at, json.dumps(dict(e.data))) for e in kept],
    )
    of_known = [event for event in kept if event.suggestion_id in known]
    connection.executemany(
        "INSERT INTO moments (suggestion_id, typed, confidence, tier) VALUES (?, ?, ?, ?)",
        [(e.suggestion_id, m.typed, m.confidence, m.tier.value) for e in of_known for m in e.moments],
    )
    connection.executemany(
        "UPDATE suggestions SET accepted_typed = ?, accepted_confidence = ?, accepted_tier = ? WHERE id = ?",
        [
            (m.typed, m.confidence, m.tier.value, e.suggestion_id)
            for e in of_known
            if (m := e.accepted) is not None
        ],
    )
    connection.executemany(
        "INSERT INTO labels (suggestion_id, correct, how, at, episode, settled_at) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET correct = excluded.correct, how = excluded.how, "
        "episode = excluded.episode, settled_at = excluded.settled_at "
        "WHERE labels.settled_at IS NULL OR excluded.how = ?",
        [
            (
                *(one.suggestion_id, one.correct, one.how.value, one.at, one.episode),
                *(one.at if one.settled else None, How.REPORTED.value),
            )
            for event in kept
            if (one := event.label) is not None
        ],
    )
