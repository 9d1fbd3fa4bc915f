"""Options that the commands of `eval` share, and what they do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from lsp_calib.cli.shared import json_option, model_option, show, threads_option, warn
from lsp_calib.errors import SettingsError

if TYPE_CHECKING:
    from lsp_calib.commands.records import AskingOptions

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
SOURCE = click.Path(exists=True, path_type=Path)
LINES_OBSERVED = ("margin", "newline", "agreement", "state", "alternatives")
"""What `--observe` adds to the records of lines."""
seed_option = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random draws."
)
quiet_option = click.option("--quiet", is_flag=True, help="No progress on standard error.")
held_out_option = click.option(
    "--held-out",
    type=click.IntRange(0),
    metavar="N",
    help="Hold out N projects: nothing is fitted on them, and they are reported separately. 0: none. "
    "Default: those that the records name, if any.",
)
resamples_option = click.option(
    "--resamples",
    type=click.IntRange(20),
    default=1000,
    show_default=True,
    help="Bootstrap resamples for the intervals.",
)
output_option = click.option(
    "--output", type=FOLDER, help="Keep records and tables in this folder; a stopped run resumes from it."
)
replay_option = click.option(
    "--records", type=FILE, help="Score the records in this file, without a model or source."
)


language_option = click.option(
    "--language",
    metavar="ID",
    help="The language of the source, by its LSP identifier, such as java. Default: python if there is any, "
    "else the only language there is.",
)
no_suffix_option = click.option(
    "--no-suffix",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Also complete N further lines with nothing below them, as where new code is written.",
)


def _sized(_context: click.Context, _option: click.Parameter, value: str) -> Any:
    from lsp_calib.completion.prompt import WindowSize

    return None if value == "auto" else WindowSize(value)


window_option = click.option(
    "--window",
    type=click.Choice(["auto", "small", "large"]),
    default="auto",
    show_default=True,
    callback=_sized,
    help="How much the model sees. large: twice as much of the document as small, and pieces of other files "
    "of the project for models that know of files. auto: as when it serves an editor on this machine.",
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
        "docs/evaluation.md has the cost of each.",
    )


def worker_options(command: F) -> F:
    """The options for workers, which `asking_of` turns into one value."""
    for option in (
        click.option(
            "--remote",
            "remotes",
            metavar="URL",
            multiple=True,
            help="Ask the OpenAI-compatible server at this address; repeat it for several servers.",
        ),
        click.option("--scheduler", metavar="ADDRESS", help="With --backend dask: tcp://host:port."),
        click.option(
            "--backend",
            type=click.Choice(["joblib", "dask"]),
            default="joblib",
            help="Processes on this machine (the default), or a running Dask cluster.",
        ),
        click.option("--model-per-job", is_flag=True, help="Each of the --jobs loads a model of its own."),
        click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", help="Worker processes."),
    ):
        command = option(command)
    return command


def run_options(command: F) -> F:
    """How a task is run, or replayed from records, and its output."""
    command = worker_options(quiet_option(json_option(model_option(threads_option(command)))))
    return replay_option(output_option(command))


# The options of `AskingOptions` that have the same names on the command line.
_OF_ASKING = ("model", "threads", "seed", "held_out", "observe", "window", "augment", "created")


def asking_of(options: dict[str, Any], *, quiet: bool, lines: bool = False) -> AskingOptions:
    """How a model is asked, by those of a command's options that say so: they are taken out of `options`."""
    from lsp_calib.commands.records import AskingOptions
    from lsp_calib.evaluation.collect import ALONE, Workers

    workers = ALONE
    if "backend" in options:
        backend, scheduler = options.pop("backend"), options.pop("scheduler")
        if (backend == "dask") != bool(scheduler):
            raise SettingsError("--backend dask and --scheduler ADDRESS belong together.")
        named = {name: options.pop(name) for name in ("jobs", "model_per_job", "remotes")}
        workers = Workers(**named, scheduler=scheduler or "")
    given = {name: options.pop(name) for name in _OF_ASKING if name in options}
    return AskingOptions(**given, workers=workers, quiet=quiet, lines=lines, say=warn)


def said(option: str) -> Any:
    """The value of an option of the command that runs; None if the user has not given it."""
    context = click.get_current_context()
    given = context.get_parameter_source(option)
    return None if given in (None, ParameterSource.DEFAULT) else context.params[option]


# What these options say is how items are drawn and a model is asked for them.
_DRAWING = ("samples", "no_suffix", "behind_openers", "new_lines", "first", "exclude", "data_dir")
_ASKING = (*_DRAWING, "observe", "augment", "tests", "environment")
_WORKERS = ("remotes", "scheduler", "backend", "model_per_job", "jobs", "threads")


def refuse_with_records(why: str, also: Sequence[str] = ()) -> None:
    """Raises SettingsError if the user gave options that cannot count where records are there and no model is
    asked. why: a sentence that says so, and what to do. also: further options, by parameter."""
    parameters = {option.name: option for option in click.get_current_context().command.params}
    given = [
        _as_typed(parameters[name])
        for name in (*_ASKING, *_WORKERS, *also)
        if name in parameters and said(name) is not None
    ]
    if given:
        raise SettingsError(why.format(options=", ".join(given)))


def _as_typed(option: click.Parameter) -> str:
    """An option as the user would write it; one of two forms, the one that was given."""
    value = click.get_current_context().params[option.name or ""]
    return option.secondary_opts[0] if value is False and option.secondary_opts else option.opts[0]


def default_output(name: str) -> Path:
    """The folder of a task's records and tables, where none is named."""
    return Path("lsp-calib-eval") / name


def run_or_replay(name: str, make_task: Callable[[], Any], options: dict[str, Any]) -> None:
    """Run a task or replay its records, and print the scores."""
    from lsp_calib.commands.evaluate import ScoringOptions, replay
    from lsp_calib.commands.evaluate import evaluate as run

    if options["records"] is not None:
        refuse_with_records(
            "With --records the answers in FILE are scored as they are, and no model is asked: {options} "
            "would change nothing. Leave that out; or leave --records out, to ask a model."
        )
    as_json, quiet, output = options.pop("as_json"), options.pop("quiet"), options.pop("output")
    records, asking = options.pop("records"), asking_of(options, quiet=quiet or as_json)
    scoring = ScoringOptions(**options)
    if records is not None:
        report = replay(name, records, output, asking, scoring, said("language"))
    else:
        report = run(make_task(), output or default_output(name), asking, scoring)
    show(report, as_json=as_json)
