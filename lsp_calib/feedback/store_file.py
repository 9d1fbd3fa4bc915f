"""The feedback store's file and the connection to it: transactions, damage, the journal."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from lsp_calib.errors import DataError
from lsp_calib.feedback.database import (
    identity,
    is_busy,
    is_corrupt,
    move_aside,
    private_file,
    translated,
)
from lsp_calib.feedback.schema import PROBES, migrate
from lsp_calib.filesystem import on_network
from lsp_calib.home import private_folder

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
                return self._transaction(work)
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
            self._connection.close()
            self._begin_afresh(self._which)
            return self._transaction(work)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._in_place():
            # Another process has moved the file aside: nobody would find data written to it now.
            self._connection.close()
            self._reopen()
        connection = self._connection
        # IMMEDIATE: a transaction that reads first and writes later cannot wait for another's lock.
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

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
        try:
            # The write-ahead log needs memory that all processes share, which machines do not.
            apart = on_network(self.path.parent)
            connection.execute(f"PRAGMA journal_mode = {'DELETE' if apart else 'WAL'}")
            # EXTRA: a rollback journal whose removal is lost in a power cut would undo the transaction.
            connection.execute(f"PRAGMA synchronous = {'EXTRA' if apart else 'FULL'}")
            # Deleted data must not remain in the file.
            connection.execute("PRAGMA secure_delete = ON")
            migrate(connection, str(self.path))
            for probe in PROBES:
                connection.execute(probe).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection
