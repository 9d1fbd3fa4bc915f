"""The feedback store: suggestions shown, their events and their labels. SQLite, on the user's machine.

It holds no source text and no path: a suggestion is kept as its numbers alone, its line and its workspace as
hashes with this installation's key. When a method returns, its data are on disk (`synchronous=FULL`), even if
the process is killed at once.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO, TypeVar

import attrs

from lsp_calib.calibration.calibrators.line_curves import ShownPart
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.characters import normalised_line
from lsp_calib.confidence.features import VERSION
from lsp_calib.feedback.events import EventKind, How
from lsp_calib.feedback.store_file import AT_ONCE, HALF, LINE, StoreFile
from lsp_calib.files import exported
from lsp_calib.values import Evidence, ModelIdentity

T = TypeVar("T")

# However many there are, a line weighs no more than five visits (`promotion.MOST_OF_ONE_LINE`), and a
# visit no more than one label. So many rows of each say the same, and leave room for others.
MOST_ALIKE = 20
# Rows that are looked at for one that is taken: a store of one line alone is not read to its end.
REACH = 10


def last_of_each(
    rows: Iterable[tuple[T, Hashable, Hashable]], most: int, *, alike: int = MOST_ALIKE
) -> Iterator[T]:
    """The first `most` rows, at most `alike` of each line and of each visit.

    rows: (row, line, visit), the newest first. No more than REACH * `most` of them are looked at.
    Whether a label is right has no part in this, so what is taken is as good a sample as all were.

    >>> list(last_of_each([(n, n // 3, n) for n in range(9)], 4, alike=1))
    [0, 3, 6]
    """
    lines: Counter[Hashable] = Counter()
    visits: Counter[Hashable] = Counter()
    taken = 0
    for number, (row, line, visit) in enumerate(rows, 1):
        if lines[line] < alike and visits[visit] < alike:
            lines[line] += 1
            visits[visit] += 1
            taken += 1
            yield row
        if taken == most or number == REACH * most:
            return


# What `LabelledRow.of` takes, of `suggestions s` and `labels l`.
COLUMNS = (
    "s.id, s.language, s.logprobs, s.features, s.features_version, s.place, s.line, s.shown_probability, "
    "l.correct, l.how, s.shown_at, l.at, l.episode, l.settled_at, s.typed, s.calibrator_id, "
    "s.confidence, (SELECT MAX(m.confidence) FROM moments m WHERE m.suggestion_id = s.id)"
)


@attrs.frozen
class Counts:
    """How much the store holds of what was shown. events, labels: by kind and by how."""

    suggestions: int
    labelled: int
    correct: int
    events: Mapping[str, int]
    labels: Mapping[str, int]


@attrs.frozen
class LabelledRow:
    """A suggestion with a known outcome, for fitting a calibrator.

    evidence: log-probabilities and features with 5 digits, without the doubtful word, which is text. Features
        of another version than `confidence.features.VERSION` are missing.
    shown_at, at (of the label, when it was first known): Unix seconds. settled_at: None: it is provisional.
    episode: rows that share one come from one visit to one line.
    line: a hash of the line with the suggestion in it, None if it is not known.
    shown_probability: that it was shown, in (0, 1]; below 1 if it was to be hidden.
    typed: characters of it that were typed along when it was first shown. calibrator_id, confidence: the
    calibrator, and its probability then; best: the highest that was shown of it. Both in [0, 1], or None.
    """

    suggestion_id: str
    language: str
    evidence: Evidence
    correct: bool
    how: How
    shown_at: float
    at: float
    episode: str
    line: str | None
    shown_probability: float
    settled_at: float | None = None
    typed: int = 0
    calibrator_id: str = ""
    confidence: float | None = None
    best: float | None = None

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """row: the values of `COLUMNS`."""
        id_, language, logprobs, features, version, place, line, *rest = row
        chance, correct, how, shown, at, episode, settled_at, typed, calibrator, first, later = rest
        return cls(
            suggestion_id=id_,
            language=language,
            evidence=evidence_of(json.loads(logprobs), json.loads(features), version, place),
            correct=bool(correct),
            how=How(how),
            shown_at=shown,
            at=at,
            episode=episode,
            line=line,
            shown_probability=chance,
            settled_at=settled_at,
            typed=typed,
            calibrator_id=calibrator,
            confidence=first,
            best=max((one for one in (first, later) if one is not None), default=None),
        )


def alike(row: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], str]:
    """The values of `COLUMNS`, with what tells their line and their visit from others.

    A line is told by its hash, or by its numbers where it was stored without.
    """
    logprobs, features, line, episode = row[2], row[3], row[6], row[12]
    return row, (line,) if line else (logprobs, features), episode


def evidence_of(
    logprobs: Sequence[float], features: Mapping[str, float], version: int, place: str
) -> Evidence:
    """The evidence of a suggestion in the store, from its columns as `export` gives them.

    One from before signs were looked for counts as one without: nearly all have none.
    """
    known = {"signs": 0.0, **features} if features and version == VERSION else {}
    return Evidence(tuple(logprobs), known, place)


SETTLES_WITHIN = 7 * 86_400.0
"""Seconds within which nearly all suggestions settle: what is new is found by the index of times."""

# SQLite would otherwise take the index by model, and read all.
_BY_TIME = "INDEXED BY suggestions_by_time "
# Seconds. Later moments were written while the clock was wrong: they are ignored until they have come, or
# refits and watches would stall until that date.
_AHEAD = 86_400.0


def is_ahead(moment: float) -> bool:
    """Whether a stored moment (Unix seconds) cannot have come yet."""
    return moment > time.time() + _AHEAD


_AFTER = "AND {} > ? AND s.shown_at > ? AND l.at <= ?"
# Models behind a server have no checksum: those are told apart by their names.
_OF_MODEL = "s.model_sha256 = ? AND (s.model_sha256 <> '' OR s.model = ?)"


# The labels that refits and certificates rest on: the last so many. With these a refit takes seconds, and
# what is fitted is known better than users stay the same (models/records/lines): a million labels, of which
# the oldest are years old, are no better.
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
        values = (*_of(model), prompt_version, task, unsettled, *_after(after))
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
            *(*_of(model), prompt_version, *_after(after), newest),
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
        return self._write(lambda _: {one for one in visits if int(self._hash.of(HALF, one), 16) % 2 == 1})

    def key_mark(self) -> str:
        """Fingerprint of the hash key; it changes with the key, as the halves of `holdout` do."""
        return self._write(lambda _: self._hash.of(HALF, ""))

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

    def visits_after(self, purpose: Purpose, moment: float) -> int:
        """How many visits to a line of a purpose have a label that was first known later (Unix seconds).

        They were shown at most SETTLES_WITHIN before it.
        """
        # Without log-probabilities a label says nothing to a fit, nor does one that came later.
        of = f"AND s.logprobs <> '[]' AND {AT_ONCE} "
        return len(self._visits(purpose, "l.at", moment, moment, math.inf, of))

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
            *(*_after(after), until),
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
        return self._write(lambda _: {line: self._hashed(LINE, normalised_line(line)) for line in lines})

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


def _of(model: ModelIdentity) -> tuple[str, str]:
    """The values of _OF_MODEL."""
    return model.sha256, model.name


def _after(moment: float) -> tuple[float, float, float]:
    """The values of _AFTER."""
    return moment, moment - SETTLES_WITHIN, time.time() + _AHEAD


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
