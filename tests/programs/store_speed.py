"""How fast the feedback store is: `python tests/programs/store_speed.py [--events N] [--labels N]`.

Opening a store with many events beside an empty one; adding an event beside a bare insert into a table with
the same events, index and pragmas. The two of each pair take turns, so that what else the machine does meets
both. Then refits on many labels and on as many as a refit takes at most, each in a process of its own; and
how far the confidences of a refit that takes five times as many differ. Quote ratios from a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from labelled_store import Labelled, Stored, add

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.corpus.records import read_records
from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.personalisation import refit_languages
from lsp_calib.feedback.store import MOST_LABELS, FeedbackStore

EVENTS_OF_ONE = 4
MODELS = Path(__file__).parents[2] / "models"
RECORDS = MODELS / "records" / "line-smollm2-135m-large.jsonl"
BEGIN = 1.7e9


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=1_000_000, help="events in the large store")
    arguments.add_argument("--opens", type=int, default=200, help="times that each store is opened")
    arguments.add_argument("--writes", type=int, default=3000, help="events added each way")
    arguments.add_argument("--folder", type=Path, help="where the stores lie; by default the system's own")
    arguments.add_argument("--labels", type=int, default=1_000_000, help="labels to refit on; 0: no refit")
    arguments.add_argument("--refit", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.refit is not None:
        print(json.dumps(refitted(given.refit)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        large, empty = folder / "large" / "feedback.db", folder / "empty" / "feedback.db"
        fill(large, given.events)
        FeedbackStore(empty).close()
        opened = pairs(lambda: opening(large), lambda: opening(empty), given.opens)
        store, bare = FeedbackStore(large), bare_table(folder / "bare.db", given.events)
        number = iter(range(10**9))
        added = pairs(
            lambda: timed(lambda: store.record_events([event(next(number))])),
            lambda: timed(lambda: bare_insert(bare, event(next(number)))),
            given.writes,
        )
        size = large.stat().st_size
        store.close()
        most = MOST_LABELS
        refits = {n: refit_apart(folder / f"refit-{n}", n) for n in (most, given.labels) if given.labels}
        differ = difference(folder / "difference", most) if given.labels else None
    result = {
        "events": given.events,
        "bytes": size,
        "openMs": {"large": quantiles(opened[0]), "empty": quantiles(opened[1])},
        "openRatio": round(float(np.median(opened[0]) / np.median(opened[1])), 3),
        "addMs": {"store": quantiles(added[0]), "bare": quantiles(added[1])},
        "addRatioP99": round(float(np.percentile(added[0], 99) / np.percentile(added[1], 99)), 3),
        "addRatioP50": round(float(np.median(added[0]) / np.median(added[1])), 3),
        "refit": refits,
        "confidencesDiffer": differ,
    }
    print(json.dumps(result, indent=2))


def refit_apart(folder: Path, labels: int) -> dict[str, Any]:
    """Seconds and bytes of a refit on so many labels, in a process that does nothing else."""
    fill_labels(folder / "feedback.db", labels)
    command = [sys.executable, __file__, "--refit", str(folder)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def refitted(folder: Path, most: int = MOST_LABELS) -> dict[str, Any]:
    store = FeedbackStore(folder / "feedback.db", most_labels=most)
    calibrators = CalibratorStore(folder / "calibrators", MODELS / "calibrators")
    start, cpu = time.perf_counter(), time.process_time()
    lines = purpose()
    refits = refit_languages(
        store, calibrators, lines.model, lines.prompt_version, "2026-01-01", promise=None
    )
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    store.close()
    _, result = refits.leading
    return {
        "seconds": round(seconds, 2),
        "processorSeconds": round(cpu, 2),
        "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "promoted": result.promoted,
        "n": result.n,
        "reason": result.reason,
    }


def difference(folder: Path, most: int) -> float:
    """The root mean square difference between the confidences of two refits on the same store: on the last
    `most` labels, and on five times as many."""
    fill_labels(folder / "feedback.db", 5 * most)
    header, records = read_records(RECORDS)
    evidences = [record.evidence(header) for record in records if record.shown and not record.doubt]
    confidences = []
    for newest in (most, 5 * most):
        refitted(folder, newest)
        calibrators = CalibratorStore(folder / "calibrators", MODELS / "calibrators")
        confidences.append(calibrators.choose(purpose()).calibrator.probabilities(evidences))
        calibrators.rollback(purpose())
    return round(float(np.sqrt(np.mean((confidences[0] - confidences[1]) ** 2))), 5)


def purpose() -> Purpose:
    header, _ = read_records(RECORDS)
    return Purpose(header.model, header.prompt_version, "line", header.language)


def fill_labels(path: Path, labels: int, *, shift: float = 0.5, seed: int = 0) -> None:
    """A store with so many labelled suggestions of a user.

    Their evidence is that of committed records, drawn with replacement; right is what was right there, and a
    share `shift` / 4 of the wrong ones, which this user keeps. Each has a line and a visit of its own.
    """
    header, records = read_records(RECORDS)
    shown = [record for record in records if record.shown and not record.doubt]
    stored = [Stored.of(record.evidence(header)) for record in shown]
    right = np.array([record.correct["exact"] for record in shown])
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(shown), labels)
    kept = right[drawn] | (rng.random(labels) < shift / 4.0)
    store = FeedbackStore(path)
    user = purpose()
    for begin in range(0, labels, 10_000):
        ones = range(begin, min(begin + 10_000, labels))
        add(
            store,
            user,
            [Labelled(f"{n:016x}", f"{n:016x}", stored[drawn[n]], bool(kept[n]), BEGIN + n) for n in ones],
        )
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


def fill(path: Path, events: int) -> None:
    """A store with so many events, four for each suggestion, and a label of each suggestion."""
    store = FeedbackStore(path)
    connection = store._connection
    connection.execute("BEGIN")
    n = events // EVENTS_OF_ONE
    logprobs = json.dumps([-0.12345] * 8)
    features = json.dumps(dict.fromkeys(("total", "least", "broken", "new-names", "length"), 0.12345))
    connection.executemany(
        "INSERT INTO suggestions (id, shown_at, kind, language, model, model_sha256, prompt_version, "
        "calibrator_id, measure, raw, confidence, tier, logprobs, features, features_version, place, line, "
        "workspace, shown_probability) VALUES (?, ?, 'line', 'python', 'm', 'abc', 'p1', 'c', 'total', 0.5, "
        f"0.5, 'review', '{logprobs}', '{features}', 1, '', ?, 'a', 1.0)",
        ((f"{k:016x}", 1e9 + k, f"{k % 5000:016x}") for k in range(n)),
    )
    connection.executemany(
        "INSERT INTO events (suggestion_id, kind, at, data) VALUES (?, ?, ?, '{}')",
        (
            (f"{k:016x}", kind, 1e9 + k)
            for k in range(n)
            for kind in ("shown", "inserted", "survived", "settled")
        ),
    )
    connection.executemany(
        "INSERT INTO labels (suggestion_id, correct, how, at, episode, settled_at) "
        "VALUES (?, ?, 'kept', ?, ?, 1e9)",
        ((f"{k:016x}", k % 2, 1e9 + k, f"{k:016x}") for k in range(n)),
    )
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


def opening(path: Path) -> float:
    start = time.perf_counter()
    store = FeedbackStore(path)
    seconds = time.perf_counter() - start
    store.close()
    return seconds


def event(number: int) -> Event:
    return Event(f"{number:016x}", EventKind.ACCEPTED, 1e9 + number)


def bare_table(path: Path, events: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE TABLE events (number INTEGER PRIMARY KEY, suggestion_id TEXT NOT NULL, kind TEXT NOT NULL, "
        "at REAL NOT NULL, data TEXT NOT NULL)"
    )
    connection.execute("CREATE INDEX events_by_suggestion ON events (suggestion_id)")
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO events (suggestion_id, kind, at, data) VALUES (?, 'shown', ?, '{}')",
        ((f"{k // EVENTS_OF_ONE:016x}", 1e9 + k) for k in range(events)),
    )
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return connection


def bare_insert(connection: sqlite3.Connection, one: Event) -> None:
    connection.execute(
        "INSERT INTO events (suggestion_id, kind, at, data) VALUES (?, ?, ?, '{}')",
        (one.suggestion_id, one.kind.value, one.at),
    )


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def pairs(one: Callable[[], float], other: Callable[[], float], n: int) -> tuple[list[float], list[float]]:
    """Seconds of each, in turns; the first of a pair changes."""
    found: tuple[list[float], list[float]] = [], []
    for number in range(n):
        for which in (0, 1) if number % 2 else (1, 0):
            found[which].append((one, other)[which]())
    return found


def quantiles(seconds: list[float]) -> dict[str, float]:
    milliseconds = np.array(seconds) * 1e3
    return {f"p{q}": round(float(np.percentile(milliseconds, q)), 3) for q in (50, 95, 99)}


if __name__ == "__main__":
    main()
