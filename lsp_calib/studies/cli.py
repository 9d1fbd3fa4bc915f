"""The commands of the extra `studies`, `eval` and `data`: loaded when they are asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lsp_calib.cli.shared import (
    EXISTING_FOLDER,
    FILE,
    FOLDER,
    SOURCE,
    F,
    Group,
    asking_of,
    held_out_option,
    json_option,
    language_option,
    model_option,
    no_suffix_option,
    print_json,
    quiet_option,
    said,
    say,
    seed_option,
    show,
    tell,
    threads_option,
    warn,
    window_option,
    worker_options,
)
from lsp_calib.errors import DownloadError, SettingsError

REFLECTED = ("ask", "verbalised")
SUMMARIES_OBSERVED = (*REFLECTED, "scale")
_data_dir = click.option(
    "--data-dir", type=FOLDER, help="The folder with the data sets; default: LSP_CALIB_DATA."
)


def _samples(what: str, default: str = "all") -> Callable[[F], F]:
    text = f"Number of {what}, drawn at random; default: {default}."
    return click.option("--samples", type=click.IntRange(20), metavar="N", help=text)


def _one_of(first: str, second: str, text: str) -> Callable[[F], F]:
    """The data set, the first one by default."""
    names = click.Choice([first, second])
    return click.option("--set", "name", type=names, default=first, show_default=True, help=text)


resamples_option = click.option(
    "--resamples",
    type=click.IntRange(20),
    default=1000,
    show_default=True,
    help="Bootstrap resamples for the intervals.",
)


def observe_option(known: Sequence[str]) -> Callable[[F], F]:
    """The option for what records hold besides what every record holds: names among those known, as a set."""

    def read(_context: click.Context, _option: click.Parameter, value: str) -> frozenset[str]:
        names = [name.strip() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
        return frozenset(names)

    return click.option(
        "--observe",
        callback=read,
        default="",
        metavar="LIST",
        help=f"Record more of each answer: any of {', '.join(known)}, separated by commas. "
        "models/records/README.md has the cost of each.",
    )


def run_options(observed: Sequence[str] = ()) -> Callable[[F], F]:
    """How a task is run, or replayed from records, how its answers are scored, and its output. observed: as
    for `observe_option`; none: the command has no such option here."""

    kept = "Keep records and tables in this folder; a stopped run resumes from it."
    replayed = "Score the records in this file, without a model or source."
    options = (
        *(seed_option, held_out_option, resamples_option),
        *([observe_option(observed)] if observed else []),
        click.option("--records", type=FILE, help=replayed),
        click.option("--output", type=FOLDER, help=kept),
        *(worker_options, quiet_option, json_option, model_option, threads_option),
    )

    def decorated(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def default_output(name: str) -> Path:
    """The folder of a task's records and tables, where none is named."""
    return Path("lsp-calib-eval") / name


def run_or_replay(name: str, make_task: Callable[[int], Any], options: dict[str, Any]) -> None:
    """Run a task, drawn by the seed, or replay its records, and print the scores."""
    from lsp_calib.studies.evaluate import ScoringOptions, replay
    from lsp_calib.studies.evaluate import evaluate as run

    as_json, quiet, output = options.pop("as_json"), options.pop("quiet"), options.pop("output")
    records, asking = options.pop("records"), asking_of(options, quiet=quiet or as_json)
    scoring = ScoringOptions(**options)
    if records is not None:
        report = replay(name, records, output, asking, scoring, said("language"))
    else:
        report = run(make_task(asking.seed), output or default_output(name), asking, scoring)
    show(report, as_json=as_json)


@click.group(name="eval", cls=Group)
def evaluate() -> None:
    """Measure models: the tables that the documentation quotes."""


@evaluate.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=SOURCE)
@language_option
@click.option("--samples", type=click.IntRange(0), default=400, show_default=True, help="Lines to complete.")
@no_suffix_option
@click.option(
    "--behind-openers",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Also complete N further lines behind an opening bracket or quote, half of them with nothing below.",
)
@click.option(
    "--new-lines",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Also complete N further whole lines, of which the rest of the scope is left out as well, as where "
    "it is not written yet; half of them with nothing below.",
)
@click.option(
    "--first",
    type=click.IntRange(20),
    metavar="N",
    help="Complete only N of all these lines, a fair sample; the same command with a larger N goes on.",
)
@click.option(
    "--condition",
    type=click.Choice(["editor", "prefix"]),
    default="editor",
    show_default=True,
    help="The text that the model sees. prefix: one line of each documented Python function, from its "
    "signature down to the line and no more, as Spiess et al. 2024 ask.",
)
@click.option("--no-docstrings", is_flag=True, help="With --condition prefix: the docstrings are left out.")
@click.option(
    "--tests",
    is_flag=True,
    help="Judge lines by their project's own tests as well: those that reach the line, run with pytest in a "
    "sandbox. Lines that no test reaches are left out (`data pull projects-tested`: projects with tests).",
)
@click.option(
    "--environment",
    type=FOLDER,
    help="With --tests: the virtual environment that has pytest and what the tests need. Default: that of "
    "lsp-calib.",
)
@window_option
@run_options(REFLECTED)
def line(
    paths: tuple[Path, ...],
    samples: int,
    no_suffix: int,
    behind_openers: int,
    new_lines: int,
    first: int | None,
    language: str | None,
    condition: str,
    no_docstrings: bool,
    tests: bool,
    environment: Path | None,
    **options: Any,
) -> None:
    """Line completion in source code (each PATH a project) or lines of your own (.jsonl; their fields are in
    models/records/README.md)."""
    from lsp_calib.commands.engine import settings_in_force
    from lsp_calib.corpus.places import Task, line_task
    from lsp_calib.studies.sandbox.suite import is_test

    if paths and options["records"]:
        raise SettingsError("Give source to complete (PATH...) or --records to score, not both.")
    if not paths and not options["records"]:
        raise SettingsError(
            "Nothing was given to measure: name source to complete (PATH...) or records to score (--records)."
        )
    exclude = settings_in_force().exclude
    studied = condition == "prefix"
    if no_docstrings and not studied:
        raise SettingsError("--no-docstrings is for --condition prefix: add that, or leave it out.")
    if studied:
        others = ("no_suffix", "behind_openers", "new_lines", "first", "window", "language")
        given = [f"--{name.replace('_', '-')}" for name in others if said(name) is not None]
        if given:
            raise SettingsError(f"With --condition prefix, {', '.join(given)} cannot be had: leave it out.")
    if environment is not None and not tests:
        raise SettingsError("--environment is for --tests: add that, or leave it out.")
    if options["observe"] and not studied:
        raise SettingsError("--observe is for --condition prefix: add that, or leave it out.")

    def task(seed: int) -> Task:
        if studied:
            from lsp_calib.studies.tasks import prefix_task

            return prefix_task(paths, samples, seed, docstrings=not no_docstrings, exclude=exclude, skip=skip)
        return line_task(
            paths,
            samples,
            seed,
            no_suffix,
            language=language,
            exclude=exclude,
            behind_openers=behind_openers,
            new_lines=new_lines,
            first=first,
            skip=skip,
        )

    def tested(seed: int) -> Task:
        from lsp_calib.commands.printing import item_progress
        from lsp_calib.commands.records import make_folder
        from lsp_calib.corpus.source import project_names
        from lsp_calib.studies.covering_tests import with_tests

        make_folder(output)
        roots = {group: root for root, group in project_names(paths)}
        python = environment or Path(sys.prefix)
        with item_progress("Running tests on the reference", quiet=quiet) as show_progress:
            return with_tests(task(seed), roots, python, output / "tests", warn, show_progress)

    # Tests do not reach their own lines.
    skip = is_test if tests else None
    output, quiet = options["output"] or default_output("line"), options["quiet"] or options["as_json"]
    run_or_replay("line", tested if tests else task, options)


@evaluate.command()
@_data_dir
@_samples("lines", "all 1,033")
@click.option(
    "--tests/--no-tests", default=True, help="Run the functions' tests on the answers as well, in a sandbox."
)
@window_option
@run_options()
def infill(data_dir: Path | None, samples: int | None, tests: bool, **options: Any) -> None:
    """Fill in lines removed from HumanEval's functions: exactly, or so that the tests pass."""
    from lsp_calib.studies.tasks import infill_task

    run_or_replay("infill", lambda seed: infill_task(data_dir, samples, seed, tests=tests), options)


@evaluate.command()
@_one_of(
    "humaneval", "mbpp", "The functions. mbpp: the description is put inside the function as its docstring."
)
@_data_dir
@_samples("functions")
@run_options(REFLECTED)
def synthesis(name: str, data_dir: Path | None, samples: int | None, **options: Any) -> None:
    """Write functions from their docstrings, judged by their tests in a sandbox, as Spiess et al. 2024 do."""
    from lsp_calib.studies.tasks import synthesis_task

    run_or_replay("synthesis", lambda seed: synthesis_task(name, data_dir, samples, seed, warn), options)


@evaluate.command()
@_one_of("defects4j", "sstubs", "The bugs: of Defects4J, or of ManySStuBs4J.")
@_data_dir
@_samples("bugs")
@run_options(REFLECTED)
def repair(name: str, data_dir: Path | None, samples: int | None, **options: Any) -> None:
    """Fix one-line bugs in Java, the buggy line shown, judged by exact match, as Spiess et al. 2024 do."""
    from lsp_calib.studies.tasks import repair_task

    known = {"sstubs": "manysstubs4j"}.get(name, name)
    run_or_replay("repair", lambda seed: repair_task(known, data_dir, samples, seed, warn), options)


@evaluate.command()
@_data_dir
@click.option(
    "--positions",
    type=click.IntRange(1000),
    default=100_000,
    show_default=True,
    help="Positions whose distributions are counted.",
)
@click.option(
    "--output",
    type=FOLDER,
    default=default_output("token"),
    help="Keep the counts in this folder; a stopped run resumes from it.",
)
@quiet_option
@json_option
@model_option
@threads_option
def token(as_json: bool, quiet: bool, **options: Any) -> None:
    """Calibration of whole distributions over tokens, on functions: ECE, classwise ECE and Full-ECE."""
    from lsp_calib.studies.full_ece import count_tokens

    asking = asking_of(options, quiet=quiet or as_json)
    show(count_tokens(**options, asking=asking), as_json=as_json)


@evaluate.command()
@click.argument(
    "records", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--output", type=FOLDER, help="Write the tables to this folder.")
@click.option(
    "--figure", is_flag=True, help="Draw the figure of one or two files as well, to the --output folder."
)
@seed_option
@resamples_option
@json_option
def confidence(as_json: bool, **options: Any) -> None:
    """Measure the gain of each step of evidence for lines: an ablation for each file of records."""
    from lsp_calib.studies.ablation import compare_evidence

    show(compare_evidence(**options), as_json=as_json)


@evaluate.command()
@click.option(
    "--study",
    type=click.Choice(["spiess", "virk", "full-ece", "all"]),
    default="all",
    show_default=True,
    help="spiess: completion, synthesis, repair. virk: summaries. full-ece: distributions over tokens.",
)
@click.option(
    "--records",
    type=EXISTING_FOLDER,
    help="The folder with the records, such as models/records; folders in it count, too. Without it the "
    "model is asked for those that are missing in records/ of --output.",
)
@click.option(
    "--output", type=FOLDER, help="Write the page, the tables, the numbers and the figures to this folder."
)
@click.option(
    "--model",
    metavar="M",
    help="Only records of this model, by its name (default: of all); or the model to ask.",
)
@click.option(
    "--import",
    "imported",
    multiple=True,
    type=FILE,
    help="Also show a file of lm-evaluation-harness (samples_TASK_DATE.jsonl) or bigcode-evaluation-harness, "
    "in a table of its own; several times for several files.",
)
@_data_dir
@threads_option
@seed_option
@quiet_option
@json_option
def paper(as_json: bool, quiet: bool, threads: int, data_dir: Path | None, **options: Any) -> None:
    """Repeat the studies behind this project on records: their tables and figures beside ours, and which of
    their claims hold."""
    from lsp_calib.studies.page import decode_missing, repeat_studies

    if options["records"] is None and options["output"] is None:
        raise SettingsError(
            "Name the --records to repeat the studies on; or an --output folder, to ask a model for them."
        )
    if options["records"] is None:
        folder: Path = options["output"] / "records"
        named = {name: options[name] for name in ("model", "seed")}
        asking = asking_of({**named, "threads": threads}, quiet=quiet or as_json)
        decode_missing(options["study"], folder, asking, data_dir)
        options |= {"records": folder, "model": None}
    report = repeat_studies(**options, say=(lambda _: None) if quiet or as_json else tell)
    show(report, as_json=as_json)


@evaluate.command()
@_data_dir
@click.option("--output", type=FILE, help="Write the thresholds to this file.")
@json_option
def thresholds(data_dir: Path | None, output: Path | None, as_json: bool) -> None:
    """From which similarity on people called two summaries similar: for the installed encoder."""
    from lsp_calib.studies.thresholds import derive_thresholds

    report = derive_thresholds(data_dir, output)
    show(report, as_json=as_json)


@evaluate.command()
@_data_dir
@click.option(
    "--language",
    type=click.Choice(["python", "java"]),
    default="python",
    show_default=True,
    help="The language of the functions.",
)
@_samples("functions")
@click.option(
    "--thresholds",
    type=FILE,
    help="Judge by the thresholds in this file (`eval thresholds --output FILE`); default: the shipped ones.",
)
@click.option(
    "--augment",
    is_flag=True,
    help="Show the model facts about the code beside it: where it stands, names, data flow.",
)
@run_options(SUMMARIES_OBSERVED)
def summary(data_dir: Path | None, language: str, samples: int | None, augment: bool, **options: Any) -> None:
    """Summaries of functions whose documentation is hidden: how often they are like a person's, and whether
    the confidence knows."""
    from lsp_calib.corpus.functions import SUMMARY
    from lsp_calib.studies.tasks import summary_task

    if options["records"] is None and options["output"] is None:
        options["output"] = default_output(f"{SUMMARY}-{language}")
    run_or_replay(
        SUMMARY, lambda seed: summary_task(data_dir, language, samples, seed, augment=augment), options
    )


@evaluate.command()
@_data_dir
@click.option("--records", type=EXISTING_FOLDER, help="Judge by the records in this folder, without sources.")
@click.option("--output", type=FOLDER, help="Write the records to this folder.")
@quiet_option
@json_option
def edit(
    data_dir: Path | None, records: Path | None, output: Path | None, quiet: bool, as_json: bool
) -> None:
    """Edits that repeat, on consecutive releases of projects (`data pull releases`): how often what would be
    offered is what the newer release has."""
    from lsp_calib.commands.printing import item_progress
    from lsp_calib.studies.next_edit_fit import measure_edits

    if records is not None and output is not None:
        raise SettingsError("Give --records to judge by, or --output to write them to, not both.")
    with item_progress("Comparing releases", quiet=quiet or as_json) as show_progress:
        report = measure_edits(data_dir, records, output, show_progress)
    show(report, as_json=as_json)


_pulled_to = click.option(
    "--data-dir",
    type=FOLDER,
    envvar="LSP_CALIB_DATA",
    help="The folder with evaluation data; default: LSP_CALIB_DATA.",
)


@click.group(cls=Group)
def data() -> None:
    """List and get evaluation data."""


@data.command("list")
@json_option
@_pulled_to
def data_list(as_json: bool, data_dir: Path | None) -> None:
    """Known data sets: content, licence, and whether they are here with the right checksum."""
    from lsp_calib.studies.data import status_of_all

    rows = status_of_all(data_dir)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = "can be pulled" if row["pullable"] else "-"
        if row["present"]:
            state = "here" if row["checksumOk"] else "here, but with the WRONG CHECKSUM"
        say(f"{row['name']:20} {row['records']:6}  {row['licence']:27} {state}")
        say(f"{'':20} {row['what']}")
    if data_dir is None:
        say("Set LSP_CALIB_DATA, or give --data-dir, to say where the data are.")


@data.command("pull")
@click.argument("name")
@_pulled_to
def data_pull(name: str, data_dir: Path | None) -> None:
    """Get a data set and verify its checksum; `projects` gets the pinned projects in Python,
    `projects-java` and so on those in other languages, `projects-blind` those that nothing is fitted on;
    `releases` gets two consecutive releases of each of other projects, in four sets."""
    if data_dir is None:
        raise SettingsError("Say where to put it: set LSP_CALIB_DATA to a folder, or give --data-dir.")
    try:
        say(_pulled(name, data_dir))
    except OSError as error:
        raise SettingsError(
            f"{error.filename or data_dir} cannot be used: {error.strerror or error}. Give a folder that "
            "you can write in, with --data-dir or as LSP_CALIB_DATA."
        ) from error


def _pulled(name: str, data_dir: Path) -> str:
    """Get a data set, or sets of pinned projects, with a progress bar. Returns a sentence for each."""
    from lsp_calib.commands.printing import download_progress
    from lsp_calib.studies.data import data_set, pull, pull_projects, sets_named

    if sets := sets_named(name):
        said, complaints = [], []
        for one in sets:
            with download_progress("Projects", files=True) as progress:
                try:
                    count = len(pull_projects(one, data_dir, progress))
                except DownloadError as error:
                    # A registry without its client does not keep the other sets of a group away.
                    complaints.append(f"{one.name}: {error}")
                    continue
            what = "releases" if one.of_releases else "projects"
            said.append(f"{count} {what} are in {data_dir / one.name}; their checksums are right.")
        if complaints:
            raise DownloadError("\n".join(complaints))
        return "\n".join(said)
    entry = data_set(name)
    with download_progress(entry.name) as progress:
        path = pull(entry, data_dir, progress)
    return f"{name} is at {path}; its checksum is right."


COMMANDS = {"eval": evaluate, "data": data}
