"""`lsp-calib calibrate`: complete lines of real source, compare, fit; or fit again from records alone."""

from __future__ import annotations

import datetime
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, overload

import attrs
from rich.console import Console
from rich.table import Table

from lsp_calib.calibration.calibrator import Calibrator, Purpose
from lsp_calib.calibration.fitting import fit_calibrator
from lsp_calib.calibration.shelf import Shelf
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.collect import ALONE, Workers
from lsp_calib.evaluation.records import Header, Record, read_records, sources_of
from lsp_calib.evaluation.scores import groups_of
from lsp_calib.evaluation.tasks import held_out, line_task
from lsp_calib.tools.collecting import generate, writable


@attrs.frozen
class Report:
    """A fitted calibrator, where it lies, and how many lines were asked for (of projects not held out)."""

    calibrator: Calibrator
    path: Path
    asked: int

    def to_wire(self) -> dict[str, Any]:
        return {"path": str(self.path), "asked": self.asked, "calibrator": self.calibrator.to_json()}

    def print(self) -> None:
        console = Console(highlight=False)
        table = Table("measure", "value", "95 % interval", title=self.calibrator.id)
        for name, interval in self.calibrator.metrics.items():
            value = "undefined" if interval.value is None else f"{interval.value:+.3f}"
            known = interval.low is not None and interval.high is not None
            table.add_row(name, value, f"{interval.low:+.3f} to {interval.high:+.3f}" if known else "")
        console.print(table)
        c = self.calibrator
        console.print(
            f"{c.n} of {self.asked} lines had an answer, {c.n_correct} of them right; {c.measure}, "
            f"slope {c.platt.slope:.2f}, intercept {c.platt.intercept:.2f}. It is in {self.path}."
        )


def calibrate(
    paths: tuple[Path, ...],
    samples: int,
    seed: int,
    records: Path | None,
    output: Path | None,
    model: str | None,
    threads: int,
    *,
    created: str | None = None,
    held_out_projects: int | None = None,
    workers: Workers = ALONE,
    quiet: bool = False,
) -> Report:
    """Fit a calibrator of line completion on the Python source below `paths`, each a project.

    records: keeps the generations, and is resumed if it has some already. Without `paths` the calibrator is
        made of what is in there: neither a model nor source is needed.
    output: None puts the calibrator in force for this user. created: ISO date; None: the day of the records.
    held_out_projects: so many are left out of the fit; None: those that the records name.
    Raises DataError if there is too little source, SettingsError if there is nothing to fit on.
    """
    writable(records, output)
    if paths:
        task = line_task(paths, samples, seed)
        groups = [str(payload["group"]) for _, payload in task.items]
        with tempfile.TemporaryDirectory() as scratch:
            header, kept = generate(
                task,
                workers,
                records or Path(scratch) / "records.jsonl",
                model=model,
                threads=threads,
                seed=seed,
                quiet=quiet,
                created=created,
                held_out=held_out(groups, held_out_projects or 0, seed),
            )
    elif records is not None:
        header, kept = read_records(records)
        if held_out_projects is not None:
            apart = held_out([record.group for record in kept], held_out_projects, seed)
            header = attrs.evolve(header, held_out=tuple(sorted(apart)))
    else:
        raise SettingsError("Name the source to calibrate on (PATH...), or records to fit again (--records).")
    shipped = output is not None
    day = created or header.created or datetime.date.today().isoformat()
    calibrator = fit_records(header, kept, shipped=shipped, created=day)
    if output is None:
        path = Shelf.open().promote(calibrator)
    else:
        path = output
        calibrator.save(output)
    return Report(calibrator, path, sum(record.group not in header.held_out for record in kept))


def fit_records(header: Header, records: list[Record], *, shipped: bool, created: str) -> Calibrator:
    """The calibrator that records make, those of held-out projects left out. Only what would have been shown
    counts. created: ISO date.

    Raises DataError if they are of another task, or too few.
    """
    if header.task != "line":
        raise DataError(
            f"The records are of the task {header.task!r}: a calibrator for the editor is made of lines as "
            "people ask for them (task `line`)."
        )
    shown = [
        record
        for record in records
        if record.shown and record.logprobs and record.group not in header.held_out
    ]
    calibrator = fit_calibrator(
        Purpose(header.model, header.prompt_version, "line", header.language),
        [record.logprobs_given_typed for record in shown],
        [record.correct["exact"] for record in shown],
        groups_of(shown),
        source="shipped" if shipped else "workspace",
        state="shipped" if shipped else "ready",
        created=created,
        strata=dict(sorted(Counter(record.stratum for record in shown).items())),
        provenance=sources_of(shown),
    )
    return _rounded(calibrator)


def _rounded(calibrator: Calibrator) -> Calibrator:
    """With numbers of nine significant digits: those beyond are the rounding of one processor, and the same
    records are to make the same file on all."""
    return attrs.evolve(
        calibrator,
        platt=attrs.evolve(
            calibrator.platt, slope=_nine(calibrator.platt.slope), intercept=_nine(calibrator.platt.intercept)
        ),
        metrics={
            name: attrs.evolve(
                interval, value=_nine(interval.value), low=_nine(interval.low), high=_nine(interval.high)
            )
            for name, interval in calibrator.metrics.items()
        },
    )


@overload
def _nine(value: float) -> float: ...
@overload
def _nine(value: None) -> None: ...
def _nine(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")
