"""What refits on many labels cost: `python tests/programs/store_speed.py [--labels N]`.

Refits on so many labels and on as many as a refit takes at most, each in a process of its own; and how far
the confidences of a refit that takes five times as many differ. Quote the figures of a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from labelled_store import Labelled, Stored, add

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.corpus.records import read_records
from lsp_calib.feedback.personalisation import refit_languages
from lsp_calib.feedback.store import MOST_LABELS, FeedbackStore

MODELS = Path(__file__).parents[2] / "models"
RECORDS = MODELS / "records" / "lines" / "line-smollm2-135m-large.jsonl"
BEGIN = 1.7e9


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, help="where the stores lie; by default the system's own")
    arguments.add_argument("--labels", type=int, default=1_000_000, help="labels to refit on")
    arguments.add_argument("--refit", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.refit is not None:
        print(json.dumps(refitted(given.refit)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        refits = {n: refit_apart(Path(name, f"refit-{n}"), n) for n in (MOST_LABELS, given.labels)}
        differ = difference(Path(name, "difference"), MOST_LABELS)
    print(json.dumps({"refit": refits, "confidencesDiffer": differ}, indent=2))


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


if __name__ == "__main__":
    main()
