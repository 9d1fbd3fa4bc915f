"""`lsp-calib calibrate`: complete lines of real source and fit a calibrator; or fit one from records."""

from __future__ import annotations

import datetime
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, overload

import attrs
import numpy as np
from rich.console import Console
from rich.table import Table

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Purpose
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.fitting import Fitted, fit_calibrator
from lsp_calib.calibration.calibrators.promotion import may_replace
from lsp_calib.calibration.calibrators.refit import MIN_LABELS
from lsp_calib.commands.collect import collect_records
from lsp_calib.commands.engine import Say
from lsp_calib.confidence import raw_confidences
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.collect import ALONE, Workers
from lsp_calib.evaluation.records import Header, Record, read_records, sources_of
from lsp_calib.evaluation.scores import groups_of
from lsp_calib.evaluation.tasks import held_out, line_task


@attrs.frozen
class Report:
    """A fitted calibrator, its file, and how many lines the model was asked for (of projects not held out).

    promoted: whether it is in force now. reason: why, or why not. present: id of the calibrator that it was
    compared with, and that it replaced if it was promoted; None if it was only written to a file.
    """

    calibrator: Calibrator
    path: Path
    asked: int
    promoted: bool
    reason: str
    present: str | None

    def to_wire(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "asked": self.asked,
            "promoted": self.promoted,
            "reason": self.reason,
            "present": self.present,
            "calibrator": self.calibrator.to_json(),
        }

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
        if self.promoted:
            console.print(f"It is now in force instead of {self.present}: {self.reason}.")
        elif self.present is not None:
            console.print(
                f"It is not in force; {self.present} stays: {self.reason}. "
                "To put it in force nevertheless, add --install."
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
    say: Say,
    created: str | None = None,
    held_out_projects: int | None = None,
    install: bool = False,
    workers: Workers = ALONE,
    quiet: bool = False,
) -> Report:
    """Fit a calibrator of line completion on the Python source below `paths`, each a project.

    records: the file that keeps the generations; a run continues with those it already holds. Without `paths`
        the calibrator is fitted on these records: neither a model nor source is needed.
    output: write the calibrator to this file, and leave the one in force alone. None puts it in force for
        this user, in every workspace, if it is no worse than the present one by the rule of a refit, or else
        keeps it beside the earlier ones.
    install: put it in force without that proof. created: ISO date; None: the day of the records.
    held_out_projects: the number of projects left out of the fit; None: those that the records name.
    model, threads, quiet, say: as for `collect_records`.
    Raises DataError if there is too little source, SettingsError if there is nothing to fit on.
    """
    if install and output is not None:
        raise SettingsError("Give --output (write a file) or --install (put it in force), not both.")
    _check_writable(records, output)
    if paths:
        task = line_task(paths, samples, seed)
        groups = [str(payload["group"]) for _, payload in task.items]
        with tempfile.TemporaryDirectory() as scratch:
            header, kept = collect_records(
                task,
                workers,
                records or Path(scratch) / "records.jsonl",
                say,
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
    day = created or header.created or datetime.date.today().isoformat()
    asked = sum(record.group not in header.held_out for record in kept)
    fitted, shown = _fit(header, kept, shipped=output is not None, created=day)
    if output is None:
        return _put_in_force(fitted, shown, asked, install=install)
    fitted.calibrator.save(output)
    return Report(fitted.calibrator, output, asked, False, "it was written to a file only", None)


def _check_writable(*paths: Path | None) -> None:
    """Raises SettingsError for a file that cannot be written, before the model is asked for hours."""
    for wanted in paths:
        if wanted is not None and not wanted.absolute().parent.is_dir():
            raise SettingsError(f"There is no folder {wanted.absolute().parent} to write {wanted.name} to.")


def _put_in_force(fitted: Fitted, shown: list[Record], asked: int, *, install: bool) -> Report:
    """Put a new calibrator in force if it is no worse than the present one, or if `install` says so."""
    store = CalibratorStore.open()
    present = store.choose(fitted.calibrator.purpose).calibrator
    calibrator = attrs.evolve(fitted.calibrator, parent=present.id)
    promoted, reason = _proof(fitted, shown, present)
    if install and not promoted:
        promoted, reason = True, f"installed because of --install, although {reason}"
    path = store.promote(calibrator) if promoted else store.keep(calibrator)
    return Report(calibrator, path, asked, promoted, reason, present.id)


def _proof(fitted: Fitted, shown: list[Record], present: Calibrator) -> tuple[bool, str]:
    """Whether a new calibrator may replace the present one, by the rule of a refit; and why.

    It applies to every workspace, not only to the one whose lines it was fitted on. Lines that the present
    one was fitted on do not count: they would make it look better than it is.
    """
    seen = {(origin.name, origin.version) for origin in present.provenance}
    sources = [sources_of([record])[0] for record in shown]
    fresh = np.array([(source.name, source.version) not in seen for source in sources], dtype=np.bool_)
    n = int(np.count_nonzero(fresh))
    if n < MIN_LABELS:
        few = f"{n} of {len(shown)} are of projects that the present one was not fitted on"
        return False, f"too few lines to compare it with the present calibrator: {few}"
    correct = np.array([record.correct["exact"] for record in shown])
    raw = raw_confidences(present.measure, [record.logprobs_given_typed for record in shown])
    old = present.platt.predict(raw)
    return may_replace(
        fitted.calibrator.platt,
        fitted.confidence[fresh],
        old[fresh],
        correct[fresh],
        compared=f"{n} lines",
        used=f"{len(shown)} lines",
    )


def fit_records(header: Header, records: list[Record], *, shipped: bool, created: str) -> Calibrator:
    """The calibrator fitted on records, without those of held-out projects. Only answers that would have been
    shown count. created: ISO date.

    Raises DataError if they are of another task, or too few.
    """
    return _fit(header, records, shipped=shipped, created=created)[0].calibrator


def _fit(
    header: Header, records: list[Record], *, shipped: bool, created: str
) -> tuple[Fitted, list[Record]]:
    """The calibrator of `fit_records`, and the records it was fitted on."""
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
    fitted = fit_calibrator(
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
    return attrs.evolve(fitted, calibrator=_rounded(fitted.calibrator)), shown


def _rounded(calibrator: Calibrator) -> Calibrator:
    """The calibrator with numbers of nine significant digits: further digits depend on the processor, and the
    same records must give the same file on all of them."""
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
