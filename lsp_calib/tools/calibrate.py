"""`lsp-calib calibrate`: complete lines of real source, compare, fit."""

from __future__ import annotations

import datetime
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from lsp_calib.calibration.calibrator import Calibrator, Origin, Purpose
from lsp_calib.calibration.fitting import fit_calibrator
from lsp_calib.calibration.judge import Judge
from lsp_calib.calibration.shelf import Shelf
from lsp_calib.completion import CompletionService
from lsp_calib.completion.prompt import version_of
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation.collect import collect_lines
from lsp_calib.evaluation.lines import LineItem, sample_lines
from lsp_calib.evaluation.records import Record
from lsp_calib.inference.client import ModelProcess
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.tools.oneshot import with_engine


@attrs.frozen
class Report:
    """A fitted calibrator, where it lies, and how many lines it was asked for."""

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
    task: str,
    samples: int,
    seed: int,
    records: Path | None,
    output: Path | None,
    model: str | None,
    threads: int,
    *,
    quiet: bool = False,
) -> Report:
    """Fit a calibrator of line completion on the Python source below `paths`, each a project.

    records: keeps the generations, and is resumed if it has some already. output: None puts the calibrator
    in force for this user. Raises DataError if there is too little source.
    """
    assert task == "line", "the command line offers no other"
    # Asking takes long: a place that cannot be written to is better named before.
    for wanted in (records, output):
        if wanted is not None and not wanted.absolute().parent.is_dir():
            raise SettingsError(f"There is no folder {wanted.absolute().parent} to write {wanted.name} to.")
    items = draw(paths, samples, seed)

    async def ask(engine: ModelProcess) -> tuple[LoadedModel, list[Record]]:
        service = CompletionService(engine, Judge(Shelf.open()))
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        with (
            tempfile.TemporaryDirectory() as scratch,
            Progress(*columns, console=Console(stderr=True), disable=quiet) as progress,
        ):
            bar = progress.add_task("Completing lines", total=len(items))
            kept = await collect_lines(
                engine,
                service,
                items,
                records or Path(scratch) / "records.jsonl",
                seed=seed,
                on_progress=lambda done, _: progress.update(bar, completed=done),
            )
        return await engine.ready(), kept

    loaded, kept = with_engine(ask, model=model, threads=threads)
    shipped = output is not None
    today = datetime.date.today().isoformat()
    calibrator = fit_records(loaded, kept, shipped=shipped, created=today)
    if output is None:
        path = Shelf.open().promote(calibrator)
    else:
        path = output
        calibrator.save(output)
    return Report(calibrator, path, len(kept))


def draw(paths: tuple[Path, ...], samples: int, seed: int) -> list[LineItem]:
    """About `samples` places, equally many from each project."""
    roots = sorted({path.resolve() for path in paths})
    names = Counter(root.name for root in roots)
    each = -(-samples // len(roots))
    items: list[LineItem] = []
    for root in roots:
        # Two folders called src are two projects.
        name = root.name if names[root.name] == 1 else root.as_posix().lstrip("/")
        items += sample_lines(root, name, each, seed)
    if len(items) < 20:
        raise DataError(f"Only {len(items)} lines of Python could be drawn; at least 20 are needed.")
    return items


def fit_records(loaded: LoadedModel, records: list[Record], *, shipped: bool, created: str) -> Calibrator:
    """The calibrator that records make. Only what would have been shown counts. created: ISO date."""
    shown = [record for record in records if record.shown]
    groups = [record.group for record in shown]
    if len(set(groups)) == 1:
        # One project: its files are the next best thing to keep together.
        groups = [record.item.rsplit(":", 2)[0] for record in shown]
    return fit_calibrator(
        Purpose(loaded.identity, version_of(loaded.card.completion), "line", "python"),
        [record.logprobs_given_typed for record in shown],
        [record.correct for record in shown],
        groups,
        source="shipped" if shipped else "workspace",
        state="shipped" if shipped else "ready",
        created=created,
        strata=dict(sorted(Counter(record.stratum for record in shown).items())),
        provenance=tuple(
            _origin(name, count) for name, count in sorted(Counter(r.group for r in shown).items())
        ),
    )


def _origin(name: str, count: int) -> Origin:
    """Name and version of a project in a folder such as `click-8.1.7`."""
    stem, _, version = name.rpartition("-")
    return Origin(stem, version, count) if stem and version[:1].isdigit() else Origin(name, "", count)
