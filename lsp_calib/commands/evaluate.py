"""`lsp-calib eval TASK`: generate answers (or replay records), score them, write the tables."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.table import Table

from lsp_calib.commands.collect import collect_records
from lsp_calib.commands.engine import Say, settings_in_force
from lsp_calib.commands.printing import item_progress
from lsp_calib.commands.record_files import check_question
from lsp_calib.completion.prompt import PLAIN_VERSION, WindowSize
from lsp_calib.errors import DataError, SettingsError
from lsp_calib.evaluation import report
from lsp_calib.evaluation.collect import Workers
from lsp_calib.evaluation.header import Header
from lsp_calib.evaluation.records import Record, check_header, read_records
from lsp_calib.evaluation.reflective_scores import needed_by, score_reflective
from lsp_calib.evaluation.scores import RESAMPLES, Scores, counted, score
from lsp_calib.evaluation.summary_task import SUMMARY
from lsp_calib.evaluation.tasks import REPAIR, SYNTHESIS, Task, check_groups, held_out, project_names
from lsp_calib.evaluation.thresholds import Thresholds, shipped_thresholds
from lsp_calib.settings import Trusted, engine_choice
from lsp_calib.terminal import Console

RECORDS, TOKENS = "records.jsonl", "token.jsonl"


@attrs.frozen
class EvaluationReport:
    """Scores, and the folder that holds them (None: they are only shown). recorded: the records, too."""

    scores: Scores
    folder: Path | None
    recorded: bool

    def to_wire(self) -> dict[str, Any]:
        return {"folder": None if self.folder is None else str(self.folder), **self.scores.to_json()}

    def print(self) -> None:
        console = Console()
        report.print_scores(self.scores, console)
        if self.folder is not None:
            what = "Tables and records" if self.recorded else "Tables"
            console.print(f"{what} are in {self.folder}.", soft_wrap=True)


def evaluate(
    task: Task,
    output: Path,
    workers: Workers,
    say: Say,
    *,
    model: str | None,
    threads: int,
    seed: int,
    held_out_projects: int | None = None,
    resamples: int = RESAMPLES,
    observe: frozenset[str] = frozenset(),
    window: WindowSize | None = None,
    augment: bool = False,
    thresholds: Path | None = None,
    measure: str | None = None,
    quiet: bool = False,
) -> EvaluationReport:
    """Ask the model for all items of a task and score its answers. All files go to the folder `output`.

    The same call resumes a run that was stopped. held_out_projects: their number; None: those that a run that
    is there has held out. thresholds, measure: as for `replay`. The other arguments
    are as for `collect_records`.
    Raises SettingsError if the folder cannot be made, or if nothing that `measure` needs is observed;
    DataError for items of too few files; and what `collect` and `score` raise.
    """
    # What cannot be scored fails before the model is asked.
    groups = [(id_, str(payload["group"])) for id_, payload in task.items]
    apart = held_out([group for _, group in groups], held_out_projects or 0, seed)
    check_groups(groups, apart, "functions" if task.name in (SUMMARY, SYNTHESIS) else "lines")
    rules = None if thresholds is None else Thresholds.load(thresholds)
    _make(output)
    if measure is not None and not (output / RECORDS).exists():
        _check_observed(measure, observe)
    header, records = collect_records(
        task,
        workers,
        output / RECORDS,
        say,
        model=model,
        threads=threads,
        seed=seed,
        quiet=quiet,
        held_out=None if held_out_projects is None else apart,
        observe=observe,
        window=window,
        augment=augment,
    )
    apart = frozenset(header.held_out).intersection(record.group for record in records)
    records = _judged(header, records, rules)
    scores = _scores(header, records, apart, measure, resamples=resamples, seed=seed)
    report.write(scores, output)
    return EvaluationReport(scores, output, recorded=True)


def replay(
    task: str,
    records: Path,
    output: Path | None,
    *,
    seed: int,
    held_out_projects: int | None = None,
    resamples: int = RESAMPLES,
    thresholds: Path | None = None,
    measure: str | None = None,
    language: str | None = None,
    model: str | None = None,
    window: WindowSize | None = None,
) -> EvaluationReport:
    """Score existing records, without a model.

    held_out_projects: their number; None: those that the records name. thresholds: of similarities, by which
    records that hold some are judged; None: the shipped ones. measure: of `reflective_scores.FORMS`, to score
    what the model says of its answers in the place of their probabilities; None: these. language,
    model, window: that they are said to be of. Raises DataError if the records are of another task, language,
    model or window, or the thresholds are for other similarities.
    """
    header, found = read_records(records)
    if header.task != task:
        raise DataError(f"{records} holds records of the task {header.task!r}, not of {task!r}.")
    check_header(records, header, None, language)
    check_question(records, header, model, window)
    groups = [record.group for record in found]
    if held_out_projects is None:
        apart = frozenset(header.held_out).intersection(groups)
    else:
        apart = held_out(groups, held_out_projects, seed)
    judged = _judged(header, found, None if thresholds is None else Thresholds.load(thresholds))
    scores = _scores(header, judged, apart, measure, resamples=resamples, seed=seed)
    if output is not None:
        _make(output)
        report.write(scores, output)
    return EvaluationReport(scores, output, recorded=False)


def judged_by_tests(
    task: Task,
    paths: Sequence[Path],
    environment: Path | None,
    output: Path,
    say: Say,
    *,
    quiet: bool = False,
) -> Task:
    """The lines of a task that their projects' tests reach; see `covering_tests.with_tests`, whose errors it
    raises. environment: None: the one that lsp-calib runs in. output: the folder of the run."""
    from lsp_calib.evaluation.covering_tests import with_tests

    _make(output)
    with item_progress("Running tests on the reference", quiet=quiet) as show:
        return with_tests(
            task,
            {group: root for root, group in project_names(paths)},
            environment or Path(sys.prefix),
            output / "tests",
            say,
            show,
        )


@attrs.frozen
class TokenReport:
    """The numbers of `token_study.study`, and the file that holds them."""

    header: Header
    numbers: Mapping[str, Any]
    path: Path

    def to_wire(self) -> dict[str, Any]:
        return {"file": str(self.path), "model": attrs.asdict(self.header.model), **self.numbers}

    def print(self) -> None:
        console, numbers = Console(), self.numbers
        table = Table(title=f"{self.header.model.name}: {numbers['positions']:,} positions")
        for column in ("temperature", "M", "ECE", "cw-ECE x 1e6", "Full-ECE"):
            table.add_column(column)
        for row in numbers["rows"]:
            told = (f"{row['temperature']:.3f}", str(row["bins"]), f"{row['ece']:.4f}")
            table.add_row(*told, f"{1e6 * row['classwise']:.3f}", f"{row['full']:.4f}")
        for row in numbers["relativeDeviation"]:
            shares = (f"{100 * row[name]:.1f} %" for name in ("ece", "classwise", "full"))
            table.add_row(f"{row['temperature']:.3f}", "deviation", *shares)
        console.print(table)
        shares = (f"{name}: {100 * share:.1f} %" for name, share in numbers["rarity"].items())
        console.print(f"How often each of {numbers['tokens']:,} tokens occurs: {', '.join(shares)}.")
        console.print(f"The numbers are in {self.path}.", soft_wrap=True)


def count_tokens(
    positions: int,
    data_dir: Path | None,
    output: Path,
    say: Say,
    *,
    model: str | None,
    threads: int,
    quiet: bool = False,
) -> TokenReport:
    """Count the distributions over tokens of a model on functions, see `token_study.study`, whose errors it
    raises. output: the folder. SettingsError if it cannot be made, or for a remote engine."""
    from lsp_calib.evaluation import token_study

    choice = engine_choice(settings_in_force(Trusted(model=model, threads=threads), say))
    if choice.remote is not None:
        raise SettingsError(
            "`eval token` needs a model on this machine: a server does not report whole distributions. "
            "Leave `remote.url` out."
        )
    items = token_study.texts(data_dir)
    _make(output)
    with item_progress("Counting distributions", quiet=quiet) as show:
        header, numbers = token_study.study(
            choice,
            items,
            output / TOKENS,
            positions=positions,
            created=datetime.date.today().isoformat(),
            on_progress=show,
        )
    return TokenReport(header, numbers, output / TOKENS)


def _scores(
    header: Header,
    records: list[Record],
    apart: frozenset[str],
    measure: str | None,
    *,
    resamples: int,
    seed: int,
) -> Scores:
    if measure is not None:
        return score_reflective(header, records, measure, apart, resamples=resamples, seed=seed)
    try:
        scores = score(header, records, apart, resamples=resamples, seed=seed)
    except DataError as error:
        # A share of right answers of 0 is a result of a study, and no reason to ask for more.
        if header.task not in (SYNTHESIS, REPAIR) and header.prompt_version != PLAIN_VERSION:
            raise
        scores = counted(header, records, apart, str(error))
    repeats = sum(record.repeats_bug is True for record in records)
    note = f"{repeats} of {len(records)} answers are the buggy line again."
    return attrs.evolve(scores, notes=(*scores.notes, note)) if header.task == REPAIR else scores


def _check_observed(measure: str, observe: Collection[str]) -> None:
    """Raises SettingsError if the records will hold nothing that a measure is made of."""
    needed = needed_by(measure)
    if not needed.intersection(observe):
        raise SettingsError(
            f"--measure {measure} is made of what is observed with --observe {' or '.join(sorted(needed))}: "
            "add it, or leave --measure out."
        )


def _judged(header: Header, records: list[Record], thresholds: Thresholds | None) -> list[Record]:
    """The records, those with similarities judged by these thresholds and not by those of their time."""
    if header.similarity is None and thresholds is None:
        return records
    if thresholds is not None:
        return thresholds.judge(header, records)
    assert header.similarity is not None
    return shipped_thresholds(header.similarity).judge(header, records)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"The folder {folder} cannot be created: {error.strerror or error}.") from error
