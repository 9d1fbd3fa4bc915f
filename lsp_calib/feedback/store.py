"""The feedback store: suggestions shown, their events and their labels. SQLite, on the user's machine.

It holds no source text and no path: a suggestion is kept as its numbers alone. When a method returns, its
data are on disk (`synchronous=FULL`), even if the process is killed at once.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lsp_calib.confidence.features import FEATURES, PLACES, VERSION
from lsp_calib.errors import DataError
from lsp_calib.feedback.database import (
    identity,
    is_busy,
    is_corrupt,
    move_aside,
    private_file,
    translated,
)
from lsp_calib.feedback.events import Event
from lsp_calib.feedback.rows import LabelledRow
from lsp_calib.feedback.schema import EPISODE, PROBES, migrate
from lsp_calib.home import private_folder
from lsp_calib.values import Evidence, ModelIdentity, Suggestion

T = TypeVar("T")

# Digits kept of a log-probability: finer than llama.cpp reproduces, and half the size of all digits.
_DIGITS = 5


@attrs.frozen
class Counts:
    """How much the store holds. events, labels: by kind and by how."""

    suggestions: int
    labelled: int
    correct: int
    events: Mapping[str, int]
    labels: Mapping[str, int]


class FeedbackStore:
    """The store in one file, readable by its owner alone.

    May be used from one thread at a time, whichever it is. Several processes may use the same file.
    Every method raises LspCalibError, with what to do, if the disk is full, the file is read-only or another
    program holds it for longer than `timeout` seconds; DataError if the file is damaged.

    A damaged file is never overwritten. No file is checked as a whole, because that would take longer with
    each day of use: damage shows when the file is opened, read or written. The file is then moved to
    `<name>.corrupt-<time>`, with a warning, and a new one is created, which gets the data being written.

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
            self._which = private_file(path)
            try:
                self._connection = self._open()
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
                self._begin_afresh()

    def record_shown(
        self,
        suggestion: Suggestion,
        *,
        model: ModelIdentity,
        prompt_version: str,
        language: str,
        evidence: Evidence,
        at: float,
    ) -> None:
        """Keep the numbers of a suggestion. A suggestion that is known already stays as it is.

        evidence: its log-probabilities (none are kept if any is not finite), its known features and its kind
            of place. The doubtful word is not kept. at: Unix seconds.
        An alternative is kept as a kind of its own, such as "line-2": its labels are not those of the first
        suggestion, and a refit on those of `line` leaves it out.
        """
        c = suggestion.confidence
        believable = all(math.isfinite(value) for value in evidence.logprobs)
        kept = [round(float(value), _DIGITS) for value in evidence.logprobs] if believable else []
        # Only names from the table of features: nothing else can become text in the store.
        features = {
            name: round(float(value), _DIGITS)
            for name, value in evidence.features.items()
            if name in FEATURES and math.isfinite(value)
        }
        row = (
            suggestion.id,
            at,
            _stored_kind(suggestion),
            language,
            model.name,
            model.sha256,
            prompt_version,
            c.calibrator.id,
            c.measure,
            c.first_tokens,
            c.raw,
            c.calibrated,
            c.tier.value,
            json.dumps(kept, separators=(",", ":")),
            json.dumps(features, separators=(",", ":")),
            VERSION,
            evidence.place if evidence.place in PLACES else "",
        )
        self._write(
            lambda connection: connection.execute(
                f"INSERT INTO suggestions VALUES ({', '.join('?' * len(row))}) ON CONFLICT DO NOTHING",
                row,
            )
        )

    def record_events(self, events: Iterable[Event]) -> None:
        """Keep events and the labels they carry: all of them or, on an error, none.

        A later label replaces an earlier one of the same suggestion.
        """
        events = list(events)
        if not events:
            return

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT INTO events (suggestion_id, kind, at, data) VALUES (?, ?, ?, ?)",
                [(e.suggestion_id, e.kind.value, e.at, json.dumps(dict(e.data))) for e in events],
            )
            connection.executemany(
                "INSERT OR REPLACE INTO labels (suggestion_id, correct, how, at, episode) "
                "VALUES (?, ?, ?, ?, ?)",
                [
                    (label.suggestion_id, label.correct, label.how.value, label.at, label.episode)
                    for label in (event.label for event in events)
                    if label is not None
                ],
            )

        self._write(insert)

    def labels(self, model_sha256: str, prompt_version: str, task: str) -> list[LabelledRow]:
        """The suggestions of a kind (`task`) with a known outcome, by time of their label.

        Suggestions shown at successive keystrokes on one line are separate rows of one episode, and far from
        independent.
        """
        with self._reading():
            rows = self._connection.execute(
                "SELECT s.id, s.language, s.raw, s.confidence, s.tier, s.calibrator_id, s.logprobs, "
                f"s.features, s.features_version, s.place, l.correct, l.how, s.shown_at, l.at, {EPISODE} "
                "FROM suggestions s JOIN labels l ON l.suggestion_id = s.id "
                "WHERE s.model_sha256 = ? AND s.prompt_version = ? AND s.kind = ? AND l.correct IS NOT NULL "
                "ORDER BY l.at, s.shown_at, s.id",
                (model_sha256, prompt_version, task),
            ).fetchall()
        return [LabelledRow.of(row) for row in rows]

    def languages(self, model_sha256: str, prompt_version: str, task: str) -> list[str]:
        """The languages of `labels`, the one with most of them first."""
        with self._reading():
            rows = self._connection.execute(
                "SELECT s.language FROM suggestions s JOIN labels l ON l.suggestion_id = s.id "
                "WHERE s.model_sha256 = ? AND s.prompt_version = ? AND s.kind = ? AND l.correct IS NOT NULL "
                "GROUP BY s.language ORDER BY COUNT(*) DESC, s.language",
                (model_sha256, prompt_version, task),
            ).fetchall()
        return [language for (language,) in rows]

    def counts(self) -> Counts:
        """The numbers of suggestions, events and labels."""
        with self._reading():
            query = self._connection.execute
            (suggestions,) = query("SELECT COUNT(*) FROM suggestions").fetchone()
            labelled, correct = query("SELECT COUNT(correct), TOTAL(correct) FROM labels").fetchone()
            events = dict(query("SELECT kind, COUNT(*) FROM events GROUP BY kind ORDER BY kind").fetchall())
            labels = dict(query("SELECT how, COUNT(*) FROM labels GROUP BY how ORDER BY how").fetchall())
        return Counts(suggestions, labelled, int(correct), events, labels)

    def export(self) -> Iterator[dict[str, Any]]:
        """One JSON-ready object per suggestion, oldest first, with its `events` and its `label` (or None)."""
        with self._reading():
            cursor = self._connection.execute(
                f"SELECT s.*, l.correct, l.how, l.at, {EPISODE} FROM suggestions s "
                "LEFT JOIN labels l ON l.suggestion_id = s.id ORDER BY s.shown_at, s.id"
            )
            names = [column[0] for column in cursor.description][:-4]
            for row in cursor:
                correct, how, labelled_at, episode = row[-4:]
                label = {
                    "correct": None if correct is None else bool(correct),
                    "how": how,
                    "at": labelled_at,
                    "episode": episode,
                }
                events = self._connection.execute(
                    "SELECT kind, at, data FROM events WHERE suggestion_id = ? ORDER BY number", (row[0],)
                )
                yield {
                    **dict(zip(names, row, strict=False)),
                    "logprobs": json.loads(row[names.index("logprobs")]),
                    "features": json.loads(row[names.index("features")] or "null"),
                    "label": None if how is None else label,
                    "events": [
                        {"kind": kind, "at": at, "data": json.loads(data)} for kind, at, data in events
                    ],
                }

    def purge(self, *, before: float | None = None) -> int:
        """Delete everything, or the suggestions shown before a time (Unix seconds), from the file itself as
        well.

        Returns how many suggestions were deleted.
        """
        limit = math.inf if before is None else before

        def delete(connection: sqlite3.Connection) -> int:
            for table in ("events", "labels"):
                connection.execute(
                    f"DELETE FROM {table} WHERE "
                    "suggestion_id IN (SELECT id FROM suggestions WHERE shown_at < ?) "
                    "OR (at < ? AND suggestion_id NOT IN (SELECT id FROM suggestions))",
                    (limit, limit),
                )
            return connection.execute("DELETE FROM suggestions WHERE shown_at < ?", (limit,)).rowcount

        n = self._write(delete)
        with self._reading():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return n

    def expire(self, before: float, *, most: int = 200) -> bool:
        """Delete suggestions shown before a time (Unix seconds), at most `most` of them.

        So it takes little time; new data use the space again.
        Returns whether there may be more.
        """

        def forget(connection: sqlite3.Connection, query: str, *values: float) -> bool:
            ids = connection.execute(query, values).fetchall()
            for place in ("events WHERE suggestion_id", "labels WHERE suggestion_id", "suggestions WHERE id"):
                connection.executemany(f"DELETE FROM {place} = ?", ids)
            return len(ids) >= most

        def delete(connection: sqlite3.Connection) -> bool:
            shown = "SELECT id FROM suggestions WHERE shown_at < ? ORDER BY shown_at LIMIT ?"
            # Hints are events that may belong to suggestions not stored here. Events are numbered in order:
            # the first are the oldest, and those of a suggestion that stays are not old.
            hints = (
                "SELECT suggestion_id FROM (SELECT * FROM events ORDER BY number LIMIT ?) e "
                "WHERE at < ? AND NOT EXISTS (SELECT 1 FROM suggestions s WHERE s.id = e.suggestion_id)"
            )
            more = forget(connection, shown, before, most)
            return forget(connection, hints, most, before) or more

        return self._write(delete)

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
            self._begin_afresh()
            return self._transaction(work)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._in_place():
            # Another process has moved the file aside: nobody would find data written to it now.
            self._connection.close()
            self._which = private_file(self.path)
            self._connection = self._open()
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
            try:
                yield
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
                self._connection.close()
                self._begin_afresh()
                raise DataError(
                    f"{self.path} was damaged ({error}). It was moved to {self.moved_aside}, and a new one "
                    "was created. The new one starts without labels."
                ) from error

    def _in_place(self) -> bool:
        try:
            return identity(self.path) == self._which
        except FileNotFoundError:
            return False

    def _begin_afresh(self) -> None:
        """Move the damaged file aside, unless another process has done so. No connection to it may be
        open."""
        self.moved_aside = move_aside(self.path, self._which) or self.moved_aside
        self._which = private_file(self.path)
        self._connection = self._open()

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
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            # Deleted data must not remain in the file.
            connection.execute("PRAGMA secure_delete = ON")
            migrate(connection, str(self.path))
            for probe in PROBES:
                connection.execute(probe).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection


def _stored_kind(suggestion: Suggestion) -> str:
    return suggestion.kind if suggestion.rank == 1 else f"{suggestion.kind}-{suggestion.rank}"
