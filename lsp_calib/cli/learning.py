"""The commands that learn: `report`, `calibrate`, `refit`, `calibrators`, `feedback`."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import click

from lsp_calib.badges import counted
from lsp_calib.cli.shared import (
    EXISTING_FOLDER,
    FILE,
    SOURCE,
    Command,
    Group,
    asking_of,
    engine_given,
    held_out_option,
    json_option,
    language_option,
    model_option,
    no_suffix_option,
    print_json,
    quiet_option,
    remote_option,
    said,
    seed_option,
    show,
    show_sentences,
    tell,
    threads_option,
    warn,
    window_option,
    worker_options,
)
from lsp_calib.errors import SettingsError


@click.command(cls=Command)
@click.option(
    "--html",
    "file",
    type=FILE,
    metavar="FILE",
    help="Write a page to FILE.",
)
@click.option("--open", "opens", is_flag=True, help="Show the page in your browser.")
@json_option
def report(file: Path | None, opens: bool, as_json: bool) -> None:
    """Show whether the probabilities on your suggestions came true.

    Also what learning has changed. In the terminal, or as one page of HTML that needs no network and runs
    no script.
    """
    from lsp_calib.commands.feedback import current_report, open_page, print_report, save_report
    from lsp_calib.feedback.report import to_wire

    page = file is not None or opens
    found = current_report()
    if as_json:
        print_json(to_wire(found))
    elif not page:
        print_report(found)
    if page:
        path = save_report(found, file)
        tell(f"The report is {path}.")
        if opens:
            open_page(path)


def _checked_date(_context: click.Context, _parameter: click.Parameter, day: str | None) -> str | None:
    try:
        return day and datetime.date.fromisoformat(day).isoformat()
    except ValueError:
        raise click.BadParameter(f"it must be a day such as 2026-01-31, not {day!r}.") from None


@click.command(cls=Command)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=SOURCE)
@click.option(
    "--task",
    type=click.Choice(["line", "summary"]),
    default="line",
    show_default=True,
    help="line: completions of lines. summary: summaries of functions; documented ones are summarised with "
    "their documentation hidden, and compared with it (`models pull minilm-l6-v2`, extra `similarity`).",
)
@language_option
@click.option(
    "--samples",
    type=click.IntRange(60),
    default=400,
    show_default=True,
    help="Different lines or functions to ask for, 60 or more.",
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
@no_suffix_option
@window_option
@seed_option
@held_out_option
@click.option(
    "--records",
    type=FILE,
    help="Keep (and resume) generations in this file; without PATH, fit on those in it.",
)
@click.option(
    "--sources",
    type=EXISTING_FOLDER,
    help="Before fitting on --records, compute their text features again from the projects in this folder "
    "(`data pull projects`), and write them into the file. Takes the model's vocabulary, no decoding.",
)
@click.option("--output", type=FILE, help="Write the calibrator to this file only; the one in force stays.")
@click.option(
    "--install",
    is_flag=True,
    help="Put the new calibrator in force even if the present one predicts better, or if it rests on fewer "
    "than 200 different lines or functions.",
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
@worker_options
@quiet_option
@json_option
@model_option
@threads_option
def calibrate(
    as_json: bool,
    quiet: bool,
    sources: Path | None,
    from_git: bool,
    authors: tuple[str, ...],
    commits: int | None,
    **options: Any,
) -> None:
    """Fit a calibrator on source code or on your own lines.

    Each PATH is a project, kept together in cross-validation, or a file of lines (.jsonl; its fields are in
    models/records/README.md). The calibrator is put in force for all your work if it rests on 200 different
    lines or functions. It must also predict them no worse than the present one, in skill as well.
    """
    from lsp_calib.commands.calibrate import CalibrationOptions, FromGit, recompute
    from lsp_calib.commands.calibrate import calibrate as run

    if not from_git and (authors or commits):
        raise SettingsError("--author and --commits choose commits: add --from-git, or leave them out.")
    wish = FromGit(authors, commits or FromGit().commits) if from_git else None
    if sources is not None:
        tell(recompute(options["records"], options["paths"], sources, options["model"]))
        # Its vocabulary gave the records' answers, whatever its file is called.
        options["model"] = None
    asking = asking_of(options, quiet=quiet or as_json)
    options["task"] = said("task")
    show(run(CalibrationOptions(asking=asking, from_git=wish, **options), tell), as_json=as_json)


@click.command(cls=Command)
@json_option
@model_option
@remote_option
def refit(as_json: bool, model: str | None, remote: str | None) -> None:
    """Refit your calibrators on your feedback.

    There is one for each language.
    """
    from lsp_calib.commands.calibrators import refit_now

    refits = refit_now(engine_given(model, remote), warn)
    show_sentences(refits.to_wire(), refits.sentences(), as_json=as_json)


@click.group(cls=Group)
def calibrators() -> None:
    """See, take back and share calibrators."""


@calibrators.command("list")
@json_option
def calibrators_list(as_json: bool) -> None:
    """The calibrators in force, and those that are kept."""
    from lsp_calib.commands.calibrators import list_calibrators

    show(list_calibrators(), as_json=as_json)


@calibrators.command("show")
@click.argument("wanted", metavar="[ID]", required=False)
@json_option
def calibrators_show(wanted: str | None, as_json: bool) -> None:
    """Show the weights of a calibrator in words, and its quality.

    ID: an id of `list`, or a model's name; without one, those in force.
    """
    from lsp_calib.commands.calibrators import show_calibrators

    show(show_calibrators(wanted), as_json=as_json)


@calibrators.command("rollback")
@click.argument("wanted", metavar="[ID]", required=False)
@json_option
def calibrators_rollback(wanted: str | None, as_json: bool) -> None:
    """Take your calibrator out of force: the one before it judges suggestions again.

    ID: the one to go back to, an id of `list`.
    """
    from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore, roll_back

    done = roll_back(CalibratorStore.open(), wanted)
    show_sentences(done.to_wire(), [done.sentence], as_json=as_json)


@calibrators.command("export")
@click.argument("wanted", metavar="ID")
@click.argument("file", type=FILE)
def calibrators_export(wanted: str, file: Path) -> None:
    """Write a calibrator to FILE, to share it. It holds weights and numbers of labels, and no source text."""
    from lsp_calib.commands.calibrators import export_calibrator, provenance_words

    for sentence in provenance_words(export_calibrator(wanted, file)):
        tell(sentence)
    tell(f"It was written to {file}; `lsp-calib calibrators import` reads it.")


@calibrators.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--install", is_flag=True, help="Put it in force whatever your labels say.")
@json_option
def calibrators_import(file: Path, install: bool, as_json: bool) -> None:
    """Try the calibrator in FILE on your own labels, and put it in force if it is no worse there.

    Otherwise it is kept, and `rollback ID` puts it in force.
    """
    from lsp_calib.commands.calibrators import import_and_try, import_words

    imported = import_and_try(file, tell, install=install)
    show_sentences(imported.to_wire(), [import_words(imported)], as_json=as_json)


@click.group(cls=Group)
def feedback() -> None:
    """See, export and remove what is known of your suggestions."""


@feedback.command()
@json_option
def stats(as_json: bool) -> None:
    """How many suggestions, in which languages, and whether the promises of the tiers were kept."""
    from lsp_calib.commands.feedback import feedback_statistics, print_statistics

    found = feedback_statistics()
    if as_json:
        print_json(found.to_wire())
    else:
        print_statistics(found)


@feedback.command()
@click.argument("file", type=FILE, required=False)
def export(file: Path | None) -> None:
    """Write everything that is stored as JSON lines, to FILE or standard output. It holds no source text."""
    from lsp_calib.commands.feedback import export_feedback

    n = export_feedback(file, sys.stdout)
    if file is not None:
        tell(f"Exported: {counted(n, 'suggestion')}, to {file}.")


@feedback.command()
@click.option("--before", metavar="DATE", help="Only what was shown before this day, such as 2026-01-31.")
@click.option(
    "--workspace", type=click.Path(path_type=Path), metavar="FOLDER", help="Only what was shown in it."
)
@click.option("--calibrators", is_flag=True, help="Remove your own calibrators, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def purge(before: str | None, workspace: Path | None, calibrators: bool, yes: bool, as_json: bool) -> None:
    """Remove feedback for good: from the file itself, with logs and damaged copies.

    It works while editors are open. Suggestions that they show later are stored again, unless the setting
    lspCalib.feedback.enabled is false. Without --calibrators your calibrators stay: they hold weights, and no
    feedback.
    """
    from lsp_calib.commands.feedback import Purge, exports_kept, purge_feedback

    what = Purge(before, workspace, calibrators)
    if not yes:
        if as_json:
            raise SettingsError("With --json nothing is asked: add --yes to remove feedback.")
        if not click.confirm(f"Remove {what.words}? It cannot be undone", err=True):
            tell("Nothing was removed.")
            return
    purged = purge_feedback(what)
    if as_json:
        print_json({"n": purged.suggestions, "calibrators": purged.calibrators})
    else:
        more = f", and {counted(purged.calibrators, 'calibrator')}" if calibrators else ""
        tell(f"Removed: {counted(purged.suggestions, 'suggestion')}{more}.")
        for path in exports_kept():
            tell(f"An export of them stays: {path}. Delete it yourself if it is not wanted.")
