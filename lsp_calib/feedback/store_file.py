"""The feedback store's file: its tables, the key of its hashes, transactions, damage, the journal.

The file is private and moved aside when it is damaged; errors say what to do. No column may hold source text,
a path or an address of a document.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import logging
import os
import secrets
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from lsp_calib import lockfile
from lsp_calib.errors import DataError, LspCalibError, SettingsError
from lsp_calib.files import FULL, check_regular, open_file, read_file, why, write_atomically
from lsp_calib.filesystem import on_network
from lsp_calib.home import private_folder

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

    def made(self) -> float:
        """When the key was made, in Unix seconds; 0 without one. Raises OSError."""
        stamp = self._stamp()
        return 0.0 if stamp is None else stamp[1] / 1e9

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


FORMAT = 8
"""Of the tables; kept in the file as its `user_version`."""

# source: NULL: shown, see `events.Source`. features: a JSON object of numbers by name.
# line, workspace: hashes with the installation's key. typed, confidence, tier: `events.Moment` when it was
# first shown; accepted_...: when it was accepted, NULL: it was not. was_hidden: it was hidden before.
_TABLES = (
    """
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
        source TEXT,
        typed INTEGER NOT NULL DEFAULT 0,
        was_hidden INTEGER NOT NULL DEFAULT 0,
        accepted_typed INTEGER,
        accepted_confidence REAL,
        accepted_tier TEXT
    )
    """,
    # Of suggestions that were shown again while they were typed along: see `events.Moments`.
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
    "CREATE INDEX suggestions_by_model ON suggestions (model_sha256, prompt_version, kind)",
    "CREATE INDEX suggestions_by_time ON suggestions (shown_at)",
    "CREATE INDEX suggestions_not_shown ON suggestions (source, shown_at) WHERE source IS NOT NULL",
    "CREATE INDEX events_by_suggestion ON events (suggestion_id)",
    "CREATE INDEX moments_by_suggestion ON moments (suggestion_id)",
)

# Both ends of every table and index: a few pages each, whatever the size. Damage by a crash of the system or
# in a half-copied file usually shows here; other damage shows when it is read or written.
PROBES = tuple(
    f"SELECT {column} FROM {table} ORDER BY {order.format(way=way)} LIMIT 1"
    for table, column, order in (
        ("suggestions", "rowid", "rowid {way}"),
        ("suggestions", "id", "id {way}"),
        ("suggestions", "kind", "model_sha256 {way}, prompt_version {way}, kind {way}"),
        ("suggestions", "shown_at", "shown_at {way}"),
        ("labels", "rowid", "rowid {way}"),
        ("labels", "suggestion_id", "suggestion_id {way}"),
        ("events", "number", "number {way}"),
        ("events", "suggestion_id", "suggestion_id {way}"),
        ("moments", "number", "number {way}"),
        ("moments", "suggestion_id", "suggestion_id {way}"),
    )
    for way in ("ASC", "DESC")
)

# The source of a row of `suggestions s`, see `events.Source`, and whether that is what was shown.
SOURCE = "COALESCE(s.source, 'shown')"
SHOWN = "s.source IS NULL"
# Whether nothing was known of it when it was first shown but what the model said: what came later, or was
# hidden before, is seen only where the first characters agree.
AT_ONCE = "s.typed = 0 AND NOT s.was_hidden"
# All moments, the first ones too, as rows of `m`.
MOMENTS = (
    "(SELECT id AS suggestion_id, 0 AS number, typed, confidence, tier FROM suggestions "
    "UNION ALL SELECT suggestion_id, number, typed, confidence, tier FROM moments) m"
)


def create_tables(connection: sqlite3.Connection, name: str) -> None:
    """Create the tables in a new file, in one transaction. Several processes may try this at once.

    name: of the file, for messages.
    Raises DataError if another version of lsp-calib, with another format, wrote the file.
    """
    if _is_ready(connection, name):
        return
    with _transaction(connection):
        # Another process may have created them while this one waited for the lock.
        if not _is_ready(connection, name):
            for statement in _TABLES:
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


def _is_ready(connection: sqlite3.Connection, name: str) -> bool:
    """Whether the tables are there."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version not in (0, FORMAT):
        age, advice = "a newer", "Update lsp-calib, or set LSP_CALIB_HOME to another folder."
        if version < FORMAT:
            renamed = f"{Path(name).stem}-{version}.db"
            age, advice = (
                "an older",
                f"Rename it, as to {renamed}: a new one is then begun. Calibrators stay.",
            )
        raise DataError(
            f"{name} was written by {age} lsp-calib (format {version}, this one knows {FORMAT}). "
            f"It was left as it is, and no feedback is recorded. {advice}"
        )
    return version == FORMAT


_log = logging.getLogger(__name__)

# Times that a file is made where others move it aside; each of them does so once.
_TRIES = 100

COMPANIONS = ("", "-wal", "-shm", "-journal")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def private_file(path: Path) -> tuple[int, int]:
    """Create `path` as an empty file if it does not exist, readable by its owner alone (mode 0600).

    SQLite gives the mode of the main file to the files that it puts beside it.
    Returns the file's identity, which stays the same if it is renamed. Raises OSError.
    """
    for _ in range(_TRIES):
        # Not opened if it is there: to close a file drops the locks this process has on it, SQLite's too.
        with contextlib.suppress(FileExistsError):
            os.close(open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        if os.name == "posix":
            for companion in COMPANIONS:
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{path}{companion}").chmod(0o600)
        with contextlib.suppress(FileNotFoundError):  # moved aside by another process, just now
            return identity(path)
    raise FileNotFoundError(errno.ENOENT, "another program removes it each time it is made", str(path))


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
    with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as held:
        if sys.platform != "win32":  # on Windows a file that is open, here or elsewhere, cannot be renamed
            # Lock the damaged file itself: all processes that want to move it wait here, and no lock file
            # remains.
            lockfile.wait_for_lock(held.enter_context(os.fdopen(open_file(path), "rb")).fileno())
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
        raise _of_system(path, error) from error


def _translation(path: Path, error: sqlite3.Error) -> LspCalibError:
    code = _code(error)
    if code in _DAMAGED:
        return DataError(
            f"{path} is damaged ({error}), so feedback cannot be recorded. Close the editors that use it and "
            "move the file away: a new one is then created."
        )
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
    """The error of a write beside the store. SQLite does not pass it on, as for a used-up quota."""
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


def identity(path: Path) -> tuple[int, int]:
    """The file's identity, independent of its name. Raises OSError, also for anything but a regular file."""
    status = check_regular(path)
    return status.st_dev, status.st_ino


def _code(error: sqlite3.Error) -> int:
    """The primary result code, or 0 for an error of the Python module itself."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


T = TypeVar("T")

# The identity of no file: what a connection is to that is closed and could not be opened again.
_NOWHERE = (-1, -1)


class StoreFile:
    """One SQLite file, readable by its owner alone. See `FeedbackStore` for what its users are promised.

    moved_aside: the new path of a damaged file, the last one if there were several, or None.
    """

    def __init__(self, path: Path, *, timeout: float = 5.0) -> None:
        """Open or create the store.

        Raises SettingsError if the file cannot be created or written, DataError if a newer version wrote it.
        """
        self.path = path
        self.moved_aside: Path | None = None
        self._timeout = timeout
        private_folder(path.parent)
        with translated(path):
            self._reopen()

    def read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query. Raises LspCalibError as every method of the store."""
        with self._reading():
            return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the file. Closing it again does nothing."""
        with translated(self.path):
            self._connection.close()

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """One transaction: on disk when this returns, or undone. If the file is damaged, it is repeated
        in a new one."""
        with translated(self.path):
            try:
                return self._in_transaction(work)
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
            self._connection.close()
            self._begin_afresh(self._which)
            return self._in_transaction(work)

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._in_place():
            # Another process has moved the file aside: nobody would find data written to it now.
            self._connection.close()
            self._reopen()
        with _transaction(self._connection):
            return work(self._connection)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        with translated(self.path):
            if self._which == _NOWHERE:
                self._reopen()
            try:
                yield
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
                self._connection.close()
                self._begin_afresh(self._which)
                raise DataError(
                    f"{self.path} was damaged ({error}). It was moved to {self.moved_aside}, and a new one "
                    "was created. The new one starts without labels."
                ) from error

    def _in_place(self) -> bool:
        try:
            return identity(self.path) == self._which
        except FileNotFoundError:
            return False

    def _reopen(self) -> None:
        """Open the file that is there now, or a new one. No connection may be open.

        If that fails, as on a full disk, the next transaction tries again.
        """
        self._which = _NOWHERE
        which = private_file(self.path)
        try:
            self._connection = self._open()
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error):
                raise
            self._begin_afresh(which)
        else:
            self._which = which

    def _begin_afresh(self, damaged: tuple[int, int]) -> None:
        """Move the damaged file aside, unless another process has done so, and open a new one. No connection
        may be open."""
        self._which = _NOWHERE
        self.moved_aside = move_aside(self.path, damaged) or self.moved_aside
        which = private_file(self.path)
        self._connection = self._open()
        self._which = which

    def _open(self) -> sqlite3.Connection:
        # SQLite does not wait if the wait might never end, as when two processes switch a new file to
        # write-ahead logging at once.
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._connected()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(0.02)

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        # A damaged text is read as one with other characters: the rest of the store is sound.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            # The write-ahead log needs memory that all processes share, which machines do not.
            apart = on_network(self.path.parent)
            connection.execute(f"PRAGMA journal_mode = {'DELETE' if apart else 'WAL'}")
            # EXTRA: a rollback journal whose removal is lost in a power cut would undo the transaction.
            connection.execute(f"PRAGMA synchronous = {'EXTRA' if apart else 'FULL'}")
            # Deleted data must not remain in the file.
            connection.execute("PRAGMA secure_delete = ON")
            # 256 KiB instead of 2 MB for each server: the system's cache, which all share, has the pages too.
            connection.execute("PRAGMA cache_size = -256")
            create_tables(connection, str(self.path))
            for probe in PROBES:
                connection.execute(probe).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection
