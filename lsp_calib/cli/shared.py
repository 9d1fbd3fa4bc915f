"""Options, arguments and output that the commands share."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import click
from click.core import ParameterSource

from lsp_calib.characters import shown
from lsp_calib.errors import SettingsError

if TYPE_CHECKING:
    from lsp_calib.corpus.asking import AskingOptions
    from lsp_calib.settings import Settings

# ASCII digits, and fewer than Python converts.
_COUNT = re.compile(r"[0-9]{1,18}")


class Command(click.Command):
    """A command that takes -h as well as --help, in a group and alone.

    Names inherited from the group are not enough: click makes a command's help option once and keeps it, with
    the names of its first run in the process.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings = {"help_option_names": ["-h", "--help"], **self.context_settings}


class Group(Command, click.Group):
    """A group of such commands and groups."""

    command_class = Command
    group_class = type


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document alone on standard output."
)


def _typed_by_hand(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    from lsp_calib.inference.models.cards import typed_by_hand

    return typed_by_hand(name) if name else name


model_option = click.option(
    "--model", metavar="M", callback=_typed_by_hand, help="A model's name, or the path of a GGUF file."
)
# An editor starts the server in the workspace's folder: a relative path would lead into it.
serve_model_option = click.option(
    "--model", metavar="M", help="A model's name, or the absolute path of a GGUF file."
)
model_argument = click.argument("name", callback=_typed_by_hand)
threads_option = click.option(
    "--threads", type=click.IntRange(0, 512), default=0, help="The most threads to decode with; 0: automatic."
)


def checked_url(_context: click.Context, _parameter: click.Parameter, url: str | None) -> str | None:
    from lsp_calib.inference.choice import URL_WORDS, is_url

    if url is not None and not is_url(url):
        # The address is not repeated: it may hold a password.
        raise click.BadParameter(f"it must be {URL_WORDS}.")
    return url


remote_option = click.option(
    "--remote",
    metavar="URL",
    callback=checked_url,
    help="Ask the OpenAI-compatible server at this address instead of a model on this machine.",
)


def engine_given(
    model: str | None,
    remote: str | None,
    *,
    threads: int = 0,
    gpu_layers: int | None = None,
    window: Literal["auto", "small", "large"] = "auto",
) -> Settings:
    """The settings of the command line that choose an engine, and what it is shown. model: the server's name
    if there is one."""
    from lsp_calib.settings import Settings

    # Named defaults such as `--threads 0` override the places below; options that are left out do not.
    given = frozenset(name for name in ("threads", "window") if said(name) is not None)
    named: dict[str, Any] = (
        {"model": model} if remote is None else {"remote_url": remote, "remote_model": model}
    )
    return Settings(**named, threads=threads, gpu_layers=gpu_layers, window=window, given=given)


def place_in_file(text: str, *, column: bool) -> tuple[Path, int, int | None]:
    """FILE:LINE[:COL] with line and column from 0. A file's name may hold colons. Raises SettingsError."""
    parts = text.rsplit(":", 2)
    if column and len(parts) == 3 and _COUNT.fullmatch(parts[1]) and _COUNT.fullmatch(parts[2]):
        name, line, col = parts[0], int(parts[1]), int(parts[2]) - 1
    else:
        name, _, last = text.rpartition(":")
        if not name or not _COUNT.fullmatch(last):
            why = ": it is a folder" if os.path.isdir(text) else ""  # noqa: PTH112 (a text too long for a path is none)
            why = ": the line is missing" if os.path.isfile(text) else why  # noqa: PTH113
            raise SettingsError(
                f"{text!r} is not a place{why}. Give FILE:LINE{'[:COL]' if column else ''}, from 1."
            )
        line, col = int(last), None
    if line < 1 or (col is not None and col < 0):
        raise SettingsError("Lines and columns count from 1.")
    if Path(name).is_dir():
        raise SettingsError(f"There is no file {name}: it is a folder.")
    if not Path(name).exists():
        raise SettingsError(f"There is no file {name}.")
    return Path(name), line - 1, col


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


class Report(Protocol):
    """What a command has found: one JSON document, or output in a terminal."""

    def to_wire(self) -> Any: ...

    def print(self) -> None: ...


def show(report: Report, *, as_json: bool) -> None:
    """Print what a command has found on standard output."""
    if as_json:
        print_json(report.to_wire())
    else:
        report.print()


def show_sentences(wire: Any, sentences: Iterable[str], *, as_json: bool) -> None:
    """Print what a command has done: one JSON document, or sentences."""
    if as_json:
        print_json(wire)
        return
    for sentence in sentences:
        say(sentence)


def say(text: str, *, nl: bool = True) -> None:
    """Print a text on standard output."""
    click.echo(shown(text), nl=nl)


def tell(text: str) -> None:
    """Print a line on standard error, as `terminal.tell` does, without its imports."""
    click.echo(shown(text), err=True)


def warn(text: str) -> None:
    """Print a problem on standard error, after the name of the program."""
    tell(f"lsp-calib: {text}")


F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
SOURCE = click.Path(exists=True, path_type=Path)
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


def worker_options(command: F) -> F:
    """Who asks, and whom."""
    for option in (
        click.option("--remote", metavar="URL", help="Ask the OpenAI-compatible server at this address."),
        click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", help="Worker processes."),
    ):
        command = option(command)
    return command


# The options of `AskingOptions` that have the same names on the command line.
_OF_ASKING = ("model", "threads", "seed", "held_out", "observe", "window", "created", "jobs", "remote")


def asking_of(options: dict[str, Any], *, quiet: bool) -> AskingOptions:
    """How a model is asked, by those of a command's options that say so: they are taken out of `options`."""
    from lsp_calib.corpus.asking import AskingOptions

    given = {name: options.pop(name) for name in _OF_ASKING if name in options}
    return AskingOptions(**given, quiet=quiet, say=warn)


def said(option: str) -> Any:
    """The value of an option of the command that runs; None if the user has not given it."""
    context = click.get_current_context()
    given = context.get_parameter_source(option)
    return None if given in (None, ParameterSource.DEFAULT) else context.params[option]
