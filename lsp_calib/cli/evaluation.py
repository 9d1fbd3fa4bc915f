"""The commands that measure and fit: `eval TASK`, `calibrate`."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import click

from lsp_calib.cli.evaluation_options import (
    FILE,
    FOLDER,
    held_out_option,
    observe_option,
    output_option,
    quiet_option,
    refuse_with_records,
    replay_option,
    resamples_option,
    run_or_replay,
    said,
    seed_option,
    take_workers,
    worker_options,
)
from lsp_calib.cli.shared import (
    Group,
    LongCommand,
    json_option,
    model_option,
    print_json,
    tell,
    threads_option,
    warn,
)
from lsp_calib.errors import SettingsError

_SOURCE = click.Path(exists=True, path_type=Path)

_language = click.option(
    "--language",
    metavar="ID",
    help="The language of the source, by its LSP identifier, such as java. Default: python if there is any, "
    "else the only language there is.",
)
_writing_on = click.option(
    "--writing-on",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Also complete N further lines with nothing below them, as where new code is written.",
)
OBSERVED = ("margin", "newline", "agreement", "state", "alternatives")
_observe = observe_option(OBSERVED)


def _sized(_context: click.Context, _option: click.Parameter, value: str) -> Any:
    from lsp_calib.completion.prompt import WindowSize

    return None if value == "auto" else WindowSize(value)


_window = click.option(
    "--window",
    type=click.Choice(["auto", "small", "large"]),
    default="auto",
    show_default=True,
    callback=_sized,
    help="How much the model sees. large: twice as much of the document as small, and pieces of other files "
    "of the project for models that know of files. auto: as when it serves an editor on this machine.",
)


def _checked_date(_context: click.Context, _parameter: click.Parameter, day: str | None) -> str | None:
    try:
        return day and datetime.date.fromisoformat(day).isoformat()
    except ValueError:
        raise click.BadParameter(f"it must be a day such as 2026-01-31, not {day!r}.") from None


@click.command(cls=LongCommand)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=_SOURCE)
@click.option(
    "--task",
    type=click.Choice(["line", "summary"]),
    default="line",
    show_default=True,
    help="line: completions of lines. summary: summaries of functions; documented ones are summarised with "
    "their documentation hidden, and compared with it (`models pull minilm-l6-v2`, extra `evaluation`).",
)
@_language
@click.option(
    "--samples",
    type=click.IntRange(20),
    default=400,
    show_default=True,
    help="Lines or functions to ask for.",
)
@click.option(
    "--from-git",
    is_flag=True,
    help="Complete the newest lines of your commits in the repositories of PATH instead, each as if the "
    "cursor had been in it then.",
)
@click.option(
    "--author",
    "authors",
    metavar="ADDRESS",
    multiple=True,
    help="With --from-git: the e-mail address (or name) of your commits; repeat it for several. Default: the "
    "user.email of your own git configuration.",
)
@click.option(
    "--commits",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="With --from-git: look at the newest N commits (1000).",
)
@_writing_on
@_window
@seed_option
@held_out_option
@click.option(
    "--records",
    type=FILE,
    help="Keep (and resume) generations in this file; without PATH, fit on those in it.",
)
@click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Before fitting on --records, compute their text features again from the projects in this folder "
    "(`data pull projects`), and write them into the file. Takes the model's vocabulary, no decoding.",
)
@click.option("--output", type=FILE, help="Write the calibrator to this file only; the one in force stays.")
@click.option(
    "--install", is_flag=True, help="Put the new calibrator in force even if the present one predicts better."
)
@click.option(
    "--created",
    metavar="DATE",
    callback=_checked_date,
    help="YYYY-MM-DD; default: the day of the records, or today.",
)
@click.option(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="A pattern of files that no model may see, beside those of `exclude` in config.toml; repeat it for "
    "several.",
)
@_observe
@worker_options
@quiet_option
@click.option("--progress", type=click.Choice(["bar", "lines"]), default="bar", hidden=True)  # for the server
@json_option
@model_option
@threads_option
def calibrate(
    as_json: bool,
    quiet: bool,
    progress: str,
    sources: Path | None,
    from_git: bool,
    authors: tuple[str, ...],
    commits: int | None,
    **options: Any,
) -> None:
    """Fit a calibrator on source code or on lines of your own (.jsonl, docs/data.md). Each PATH is a
    project, kept together in cross-validation.

    The calibrator is put in force for all your work if it predicts these lines no worse than the present one.
    """
    from lsp_calib.commands.calibrate import calibrate as run
    from lsp_calib.commands.committed import FromGit

    if not from_git and (authors or commits):
        raise SettingsError("--author and --commits choose commits: add --from-git, or leave them out.")
    if options["records"] is not None and not options["paths"]:
        # The seed chooses what is held out of records, and nothing else.
        seed = ("seed",) if not options["held_out"] else ()
        refuse_with_records(
            "Without PATH a calibrator is fitted on the answers in --records, and no model is asked: "
            "{options} would change nothing. Leave that out; or name source (PATH...), to ask a model.",
            seed,
        )
    wish = FromGit(authors, commits or FromGit().commits, tell) if from_git else None
    if sources is not None:
        from lsp_calib.commands.recompute import recompute

        tell(recompute(options["records"], options["paths"], sources, options["model"]))
        # Its vocabulary gave the records' answers, whatever its file is called.
        options["model"] = None
    workers = take_workers(options)
    apart = options.pop("held_out")
    options["task"] = said("task")
    report = run(
        **options,
        from_git=wish,
        held_out_projects=apart,
        workers=workers,
        quiet=quiet or as_json,
        lines=progress == "lines",
        say=warn,
    )
    if as_json:
        print_json(report.to_wire())
    else:
        report.print()


@click.group(name="eval", cls=Group)
def evaluate() -> None:
    """Measure models: the tables that the documentation quotes."""


@evaluate.command(cls=LongCommand)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=_SOURCE)
@_language
@click.option("--samples", type=click.IntRange(20), default=400, show_default=True, help="Lines to complete.")
@_writing_on
@_window
@seed_option
@held_out_option
@resamples_option
@_observe
@replay_option
@output_option
@worker_options
@quiet_option
@json_option
@model_option
@threads_option
def line(
    paths: tuple[Path, ...], samples: int, writing_on: int, language: str | None, **options: Any
) -> None:
    """Line completion in source code (each PATH a project) or lines of your own (.jsonl, docs/data.md)."""
    from lsp_calib.commands.engine import settings_in_force
    from lsp_calib.evaluation.tasks import Task, line_task
    from lsp_calib.settings import Trusted

    if paths and options["records"]:
        raise SettingsError("Give source to complete (PATH...) or --records to score, not both.")
    if not paths and not options["records"]:
        raise SettingsError(
            "Nothing was given to measure: name source to complete (PATH...) or records to score (--records)."
        )
    seed = options["seed"]
    exclude = settings_in_force(Trusted(), lambda _: None).exclude

    def task() -> Task:
        return line_task(paths, samples, seed, writing_on, language=language, exclude=exclude)

    run_or_replay("line", task, options)


@evaluate.command(cls=LongCommand)
@click.option("--data-dir", type=FOLDER, help="The folder with the data sets; default: LSP_CALIB_DATA.")
@click.option(
    "--samples", type=click.IntRange(20), help="Number of lines, drawn at random; default: all 1,033."
)
@click.option(
    "--tests/--no-tests", default=True, help="Run the functions' tests on the answers as well, in a sandbox."
)
@_window
@seed_option
@held_out_option
@resamples_option
@_observe
@replay_option
@output_option
@worker_options
@quiet_option
@json_option
@model_option
@threads_option
def infill(data_dir: Path | None, samples: int | None, tests: bool, **options: Any) -> None:
    """Fill in lines removed from HumanEval's functions: exactly, or so that the tests pass."""
    from lsp_calib.evaluation.tasks import infill_task

    seed = options["seed"]
    run_or_replay("infill", lambda: infill_task(data_dir, samples, seed, tests=tests), options)


def _costs(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    """NEED=MS pairs as a table."""
    costs = {}
    for pair in given:
        need, _, number = pair.partition("=")
        try:
            costs[need] = float(number)
        except ValueError:
            raise click.BadParameter(f"{pair!r} must be such as text=1.5, in milliseconds.") from None
        if not 0.0 <= costs[need] < math.inf:
            raise click.BadParameter(f"{pair!r} must be a number of milliseconds from 0 on.")
        if need not in ("entropies", "text", "log-probabilities"):
            raise click.BadParameter(f"{need!r} must be log-probabilities, entropies or text.")
    return costs


@evaluate.command()
@click.argument(
    "records", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--output", type=FOLDER, help="Write the tables to this folder.")
@click.option(
    "--figure", is_flag=True, help="Draw the figures of one or two files as well, to the --output folder."
)
@click.option(
    "--cost",
    "costs",
    metavar="NEED=MS",
    multiple=True,
    callback=_costs,
    help="Milliseconds a suggestion for features that need entropies or text (text=1.5), for the table.",
)
@seed_option
@resamples_option
@json_option
def confidence(as_json: bool, **options: Any) -> None:
    """What each step of evidence adds to the confidence of lines: a ladder for each file of records."""
    from lsp_calib.commands.confidence import compare_evidence

    report = compare_evidence(**options)
    if as_json:
        print_json(report.to_wire())
    else:
        report.print()
