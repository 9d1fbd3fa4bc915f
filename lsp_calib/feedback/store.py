"""The feedback store: suggestions shown, their events and their labels. SQLite, on the user's machine.

It holds no source text and no path: a suggestion is kept as its numbers alone, its line and its workspace as
hashes with this installation's key. When a method returns, its data are on disk (`synchronous=FULL`), even if
the process is killed at once.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from lsp_calib.badges import counted
from lsp_calib.calibration.calibrators.line_curves import ShownPart
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.characters import normalised_line
from lsp_calib.confidence.features import FEATURES, PLACES, VERSION
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.events import SETTLE_AFTER, Event, EventKind, How
from lsp_calib.feedback.rows import (
    COLUMNS,
    Counts,
    LabelledRow,
    alike,
    last_of_each,
)
from lsp_calib.feedback.store_file import AT_ONCE, KeyedHash, StoreFile, translated
from lsp_calib.files import exported
from lsp_calib.languages import bounded
from lsp_calib.values import Evidence, ModelIdentity, Suggestion

# Digits kept of a log-probability: finer than llama.cpp reproduces, and half the size of all digits.
_DIGITS = 5
# What the hashes are of: these names are part of them.
_LINE, _WORKSPACE, _HALF = "line", "workspace", "half"
SETTLES_WITHIN = 7 * 86_400.0
"""Seconds within which nearly all suggestions settle: what is new is found by the index of times."""

# Seconds within which a provisional label is settled, or revised, by the server that has written it.
_REVISED_WITHIN = 2 * SETTLE_AFTER
# SQLite would otherwise take the index by model, and read all.
_BY_TIME = "INDEXED BY suggestions_by_time "
# What is kept without a stored suggestion: hints, which are acknowledged, and counts of answers that were not
# shown whole.
_LOOSE = frozenset({EventKind.ACCEPTED, EventKind.REJECTED, EventKind.WITHHELD, EventKind.CUT})
_AFTER = "AND {} > ? AND s.shown_at > ?"
# Models behind a server have no checksum: those are told apart by their names.
_OF_MODEL = "s.model_sha256 = ? AND (s.model_sha256 <> '' OR s.model = ?)"


# The labels that refits and certificates rest on: the last so many. With these a refit takes seconds, and
# what is fitted is known better than users stay the same (docs/confidence.md): a million labels, of which the
# oldest are years old, are no better.
MOST_LABELS = 20_000


class FeedbackStore(StoreFile):
    """The store in one file, readable by its owner alone.

    May be used from one thread at a time, whichever it is. Several processes may use the same file.
    Every method raises LspCalibError, with what to do, if the disk is full, the file is read-only or another
    program holds it for longer than `timeout` seconds; DataError if the file is damaged.

    A damaged file is never overwritten. No file is checked as a whole, because that would take longer with
    each day of use: damage shows when the file is opened, read or written. The file is then moved to
    `<name>.corrupt-<time>`, with a warning, and a new one is created, which gets the data being written.

    moved_aside: the new path of a damaged file, the last one if there were several, or None.
    """

    def __init__(self, path: Path, *, timeout: float = 5.0, most_labels: int = MOST_LABELS) -> None:
        """Open or create the store. The key of its hashes lies beside it, in `feedback.key`.

        most_labels: of a purpose, so many of the last are learned from.
        Raises SettingsError if the file cannot be created or written, DataError if another version wrote it.
        """
        super().__init__(path, timeout=timeout)
        self.most_labels = most_labels
        self._hash = KeyedHash(path.with_suffix(".key"))

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
        row = {
            "id": suggestion.id,
            "shown_at": at,
            "kind": suggestion.kind if suggestion.rank == 1 else f"{suggestion.kind}-{suggestion.rank}",
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
            "place": evidence.place if evidence.place in PLACES else "",
            "shown_probability": shown_probability,
            "typed": typed,
            "was_hidden": was_hidden,
        }
        statement = (
            f"INSERT INTO suggestions ({', '.join(row)}, line, workspace) "
            f"VALUES ({', '.join('?' * (len(row) + 2))}) ON CONFLICT DO NOTHING"
        )

        def insert(connection: sqlite3.Connection) -> None:
            hashes = self._hashed(_LINE, normalised_line(line)), self._hashed(_WORKSPACE, workspace)
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

    def labels(
        self,
        model: ModelIdentity,
        prompt_version: str,
        task: str,
        *,
        after: float = 0.0,
        language: str | None = None,
        newest: int = MOST_LABELS,
        mixed: bool = False,
        at_once: bool = False,
    ) -> list[LabelledRow]:
        """The suggestions of a kind (`task`) with a known outcome, by time of their label.

        after: only those that settled later (Unix seconds), and were shown at most SETTLES_WITHIN before it;
            0: all, provisional ones as well.
        language: only those in it. newest: at most so many, those that were shown last.
        mixed: of these no more than some of one line or one visit, see `last_of_each`.
        at_once: none that came later, or was hidden before: see `store_file.AT_ONCE`.
        Suggestions shown at successive keystrokes on one line are separate rows of one episode, and far from
        independent.
        """
        chosen = "" if language is None else "AND s.language = ? "
        chosen += f"AND {AT_ONCE} " if at_once else ""
        unsettled = 0.0 if after else math.inf
        values = (*_of(model), prompt_version, task, unsettled, after, after - SETTLES_WITHIN)
        with self._reading():
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM suggestions s {_BY_TIME}"
                "JOIN labels l ON l.suggestion_id = s.id "
                f"WHERE {_OF_MODEL} AND s.prompt_version = ? AND s.kind = ? AND l.correct IS NOT NULL "
                f"{_AFTER.format('COALESCE(l.settled_at, ?)')} {chosen}ORDER BY s.shown_at DESC, s.id",
                values if language is None else (*values, language),
            )
            # The rows come one by one: what is not taken is not read.
            taken = last_of_each(map(alike, rows), newest) if mixed else rows.fetchmany(newest)
            found = [LabelledRow.of(row) for row in taken]
            rows.close()
        return sorted(found, key=lambda row: (row.at, row.shown_at, row.suggestion_id))

    def sure_parts(
        self, model: ModelIdentity, prompt_version: str, *, after: float, newest: int
    ) -> list[ShownPart]:
        """What came of the parts of lines that were said to be sure, where the line was wrong as a whole, and
        nothing was typed along yet.

        after: only those that settled later (Unix seconds). newest: at most so many, those that settled last.
        """
        rows = self.read(
            "SELECT s.confidence, shown.data, settled.data, COALESCE(s.line, s.id), l.at "
            f"FROM suggestions s {_by_time(after)}JOIN labels l ON l.suggestion_id = s.id "
            "JOIN events shown ON shown.suggestion_id = s.id AND shown.kind = 'shown' "
            "JOIN events settled ON settled.suggestion_id = s.id AND settled.kind = 'settled' "
            f"WHERE {_OF_MODEL} AND s.prompt_version = ? AND s.kind = 'line' AND l.correct = 0 "
            f"AND {AT_ONCE} AND s.confidence IS NOT NULL {_AFTER.format('l.at')} "
            "ORDER BY l.at DESC, settled.number DESC LIMIT ?",
            *(*_of(model), prompt_version, after, after - SETTLES_WITHIN, newest),
        )
        found = []
        for whole, shown, settled, line, at in reversed(rows):
            part = json.loads(shown).get("sureConfidence")
            right = json.loads(settled).get("sureRight")
            if part is not None and right is not None and whole < 1.0:
                found.append(ShownPart(whole, part, right, line, at))
        return found

    def lacks(self, suggestions: Sequence[str]) -> bool:
        """Whether some of these suggestions, by their ids, have no label any more: they were deleted."""
        known = self.read(
            "SELECT COUNT(*) FROM labels WHERE suggestion_id IN (SELECT value FROM json_each(?))",
            json.dumps(suggestions),
        )
        return int(known[0][0]) < len(set(suggestions))

    def holdout(self, visits: Collection[str]) -> set[str]:
        """Those of some visits to lines that are of the half that certificates may rest on.

        Decided by a hash with this installation's key: always the same for one visit, and as good as drawn.
        """
        if not visits:
            return set()
        return self._write(lambda _: {one for one in visits if int(self._hash.of(_HALF, one), 16) % 2 == 1})

    def key_mark(self) -> str:
        """Fingerprint of the hash key; it changes with the key, as the halves of `holdout` do."""
        return self._write(lambda _: self._hash.of(_HALF, ""))

    def languages(self, model: ModelIdentity, prompt_version: str, task: str) -> list[str]:
        """The languages of `labels`, the one with most of them first."""
        rows = self.read(
            "SELECT s.language FROM suggestions s JOIN labels l ON l.suggestion_id = s.id "
            f"WHERE {_OF_MODEL} AND s.prompt_version = ? AND s.kind = ? AND l.correct IS NOT NULL "
            "GROUP BY s.language ORDER BY COUNT(*) DESC, s.language",
            *(*_of(model), prompt_version, task),
        )
        return [language for (language,) in rows]

    def latest_prompt(self, model: ModelIdentity, task: str, versions: Sequence[str]) -> str | None:
        """Of these versions of the prompt, that of the last suggestion of a model and task with a known
        outcome; None without one."""
        found = self.read(
            "SELECT s.prompt_version FROM suggestions s JOIN labels l ON l.suggestion_id = s.id "
            f"WHERE {_OF_MODEL} AND s.kind = ? AND l.correct IS NOT NULL "
            f"AND s.prompt_version IN ({', '.join('?' * len(versions))}) ORDER BY s.shown_at DESC LIMIT 1",
            *(*_of(model), task, *versions),
        )
        return str(found[0][0]) if found else None

    def visits_after(self, purpose: Purpose, moment: float, *, until: float = math.inf) -> int:
        """How many visits to a line of a purpose have a label that was first known later, but not after
        `until` (both in Unix seconds).

        They were shown at most SETTLES_WITHIN before it.
        """
        # Without log-probabilities a label says nothing to a fit, nor does one that came later.
        of = f"AND s.logprobs <> '[]' AND {AT_ONCE} "
        return len(self._visits(purpose, "l.at", moment, moment, until, of))

    def visited_before(self, purpose: Purpose, visits: Iterable[str], moment: float) -> set[str]:
        """Those of some visits to lines of a purpose (`LabelledRow.episode`) that also have a label that
        settled at a moment (Unix seconds) or before, by at most SETTLES_WITHIN."""
        found = self._visits(purpose, "l.settled_at", moment, moment - SETTLES_WITHIN, moment, "")
        return found.intersection(visits)

    def _visits(
        self, purpose: Purpose, time: str, moment: float, after: float, until: float, of: str
    ) -> set[str]:
        """The visits to lines of a purpose with a label in a time. time, of: when, and which ones, in SQL."""
        rows = self.read(
            f"SELECT DISTINCT l.episode "
            f"FROM suggestions s {_by_time(moment)}JOIN labels l ON l.suggestion_id = s.id "
            f"WHERE l.correct IS NOT NULL {of}AND {_OF_MODEL} AND s.prompt_version = ? "
            f"AND s.kind = ? AND s.language = ? {_AFTER.format(time)} AND {time} <= ?",
            *(*_of(purpose.model), purpose.prompt_version, purpose.task, purpose.language),
            *(after, after - SETTLES_WITHIN, until),
        )
        return {visit for (visit,) in rows}

    def accepted_lines(self) -> Callable[[Iterable[str]], frozenset[str]]:
        """Tells which lines of some were made by suggestions so far: they were inserted or accepted, and the
        line was theirs.

        Of a block only the first line is known. What is returned raises LspCalibError as the store does.
        """
        rows = self.read(
            "SELECT DISTINCT s.line FROM suggestions s JOIN events e ON e.suggestion_id = s.id "
            "WHERE s.line IS NOT NULL AND e.kind IN (?, ?)",
            EventKind.INSERTED.value,
            EventKind.ACCEPTED.value,
        )
        known = {line for (line,) in rows}

        def among(lines: Iterable[str]) -> frozenset[str]:
            hashes = self.line_hashes(lines) if known else {}
            return frozenset(line for line, hashed in hashes.items() if hashed in known)

        return among

    def line_hashes(self, lines: Iterable[str]) -> dict[str, str | None]:
        """The hashes with which suggestions for these lines would be kept, by line; white space at the ends
        does not count."""
        # Hashes are made in transactions that write.
        return self._write(lambda _: {line: self._hashed(_LINE, normalised_line(line)) for line in lines})

    def counts(self) -> Counts:
        """The numbers of suggestions shown, of their events and labels."""
        with self._reading():
            query = self._connection.execute
            (suggestions,) = query("SELECT COUNT(*) FROM suggestions").fetchone()
            labelled, correct = query("SELECT COUNT(correct), TOTAL(correct) FROM labels").fetchone()
            events = dict(query("SELECT kind, COUNT(*) FROM events GROUP BY kind ORDER BY kind").fetchall())
            labels = dict(query("SELECT how, COUNT(*) FROM labels GROUP BY how ORDER BY how").fetchall())
        return Counts(suggestions, labelled, int(correct), events, labels)

    def export(self) -> Iterator[dict[str, Any]]:
        """One JSON-ready object per suggestion, oldest first, with its `events`, its `moments` (all of them,
        the first one too) and its `label` (or None)."""
        with self._reading():
            query = self._connection.execute
            cursor = query(
                "SELECT s.*, l.how, l.correct, l.at, l.episode, l.settled_at FROM suggestions s "
                "LEFT JOIN labels l ON l.suggestion_id = s.id ORDER BY s.shown_at, s.id"
            )
            names = [column[0] for column in cursor.description][:-5]
            for *values, how, correct, labelled_at, episode, settled_at in cursor:
                one = dict(zip(names, values, strict=True))
                label = {
                    "correct": None if correct is None else bool(correct),
                    "how": how,
                    "at": labelled_at,
                    "episode": episode,
                    "settled_at": settled_at,
                }
                events = query(
                    "SELECT kind, at, data FROM events WHERE suggestion_id = ? ORDER BY number", (one["id"],)
                )
                later = query(
                    "SELECT typed, confidence, tier FROM moments WHERE suggestion_id = ? ORDER BY number",
                    (one["id"],),
                )
                first = one["typed"], one["confidence"], one["tier"]
                yield {
                    **one,
                    "was_hidden": bool(one["was_hidden"]),
                    "logprobs": json.loads(one["logprobs"]),
                    "features": json.loads(one["features"]),
                    "label": None if how is None else label,
                    "events": [
                        {"kind": kind, "at": at, "data": json.loads(data)} for kind, at, data in events
                    ],
                    "moments": [
                        {"typed": typed, "confidence": confidence, "tier": tier}
                        for typed, confidence, tier in (first, *later)
                    ],
                }

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
                values += [self._hashed(_WORKSPACE, one) for one in workspaces]
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


def _of(model: ModelIdentity) -> tuple[str, str]:
    """The values of _OF_MODEL."""
    return model.sha256, model.name


def _by_time(after: float) -> str:
    """Of the new ones, few are read."""
    return _BY_TIME if after > SETTLES_WITHIN else ""


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
    """`export_to` a new file that only its owner can read. Raises LspCalibError as `files.exported` and the
    store do."""
    with exported(path) as stream:
        return export_to(store, stream)
