"""The command line: thin commands. Each imports what it needs when it runs."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lsp_calib import __version__
from lsp_calib.characters import shown
from lsp_calib.cli.learning import calibrate, calibrators, feedback, refit, report
from lsp_calib.cli.models import models
from lsp_calib.cli.shared import (
    FILE,
    Group,
    engine_given,
    json_option,
    model_option,
    place_in_file,
    print_json,
    remote_option,
    say,
    serve_model_option,
    threads_option,
    warn,
)
from lsp_calib.errors import LspCalibError, SettingsError, StoppedError
from lsp_calib.installation import how_to_install

if TYPE_CHECKING:
    from lsp_calib.settings import Settings


_GROUPS = {
    "Use": ("serve", "complete", "summarize", "models", "doctor", "demo"),
    "Learn": ("report", "calibrate", "refit", "calibrators", "feedback"),
    "Research": ("eval", "bench", "data"),
}
_STUDIES = {
    "eval": "Measure models: the tables that the documentation quotes.",
    "data": "List and get evaluation data.",
}
"""The commands of the extra `studies`, whose code is imported only when one is asked for, and their help."""
_NEEDED = ("matplotlib", "nltk", "onnxruntime", "rouge_score", "scipy", "sklearn", "tokenizers")
"""What the extra `studies` installs."""


class _Group(Group):
    """Lists its commands by purpose. Prints an error as one line and exits with its code."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.list_commands(ctx)))
        for title, names in _GROUPS.items():
            with formatter.section(title):
                texts = (self._help_of(name, formatter.width - longest) for name in names)
                formatter.write_dl([*zip((f"{name:{longest}}" for name in names), texts, strict=True)])

    def _help_of(self, name: str, width: int) -> str:
        return _STUDIES.get(name) or self.commands[name].get_short_help_str(width)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *_STUDIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Raises SettingsError for a command of the extra `studies` where something of that is missing."""
        if cmd_name not in _STUDIES:
            return super().get_command(ctx, cmd_name)
        missing = [module for module in _NEEDED if find_spec(module) is None]
        if missing:
            raise SettingsError(
                f"`lsp-calib {cmd_name}` needs the extra `studies`; missing here: {', '.join(missing)}. "
                f"Run {how_to_install('studies')}."
            )
        # By name: what serves an editor imports nothing of the studies.
        command: click.Command = importlib.import_module("lsp_calib.studies.cli").COMMANDS[cmd_name]
        return command

    def invoke(self, ctx: click.Context) -> Any:
        # A terminal's or a file's encoding may not have the badges, or a name of a file: it is shown escaped.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = shown(error.message)  # type: ignore[misc]  # it may quote the name of a file
            raise
        except LspCalibError as error:
            with contextlib.suppress(OSError):  # the terminal may be gone
                warn(str(error))
            ctx.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            with contextlib.suppress(OSError):
                warn("Stopped.")
            ctx.exit(StoppedError.exit_code)
        except BrokenPipeError:
            # The program that reads our output has closed it.
            sys.stderr.close()
            ctx.exit(0)
        except OSError as error:
            # No space, no permission: a traceback would explain nothing more.
            warn(str(error))
            ctx.exit(LspCalibError.exit_code)


@click.group(cls=_Group)
@click.version_option(__version__, prog_name="lsp-calib")
def main() -> None:
    """Completions and summaries from a local model, each with a probability that can be believed."""


@main.command()
@click.option(
    "--stdio", is_flag=True, expose_value=False, help="Speak over standard input and output, as always."
)
@click.option("--log-file", type=FILE, help="Write the log to this file.")
@click.option(
    "--trust-editor",
    is_flag=True,
    help="Obey initializationOptions.trusted: for an editor that never takes it from a workspace.",
)
@serve_model_option
@threads_option
@click.option(
    "--gpu-layers",
    type=click.IntRange(0, 100_000),
    help="Layers to put on the GPU; default: all if that is faster.",
)
@remote_option
def serve(
    log_file: Path | None,
    trust_editor: bool,
    model: str | None,
    threads: int,
    gpu_layers: int | None,
    remote: str | None,
) -> None:
    """Serve one editor."""
    from lsp_calib.server import serve as run

    trusted = engine_given(model, remote, threads=threads, gpu_layers=gpu_layers)
    run(trusted, trusts_editor=trust_editor, log_file=log_file)


@main.command()
@json_option
@model_option
def demo(as_json: bool, model: str | None) -> None:
    """Show the main job with a real server, editor client and model."""
    from lsp_calib.tools.demo.scenario import run

    raise SystemExit(run(as_json=as_json, model=model))


@main.command()
@click.argument("place", metavar="FILE:LINE[:COL]")
@json_option
@model_option
@threads_option
@remote_option
@click.option(
    "--window",
    type=click.Choice(["auto", "small", "large"]),
    default="auto",
    help="How much the model is shown, as the setting `window`.",
)
def complete(
    place: str, as_json: bool, model: str | None, threads: int, remote: str | None, window: Any
) -> None:
    """Complete LINE at COL, or at its end without COL. Both count from 1."""
    from lsp_calib.commands.printing import print_suggestions
    from lsp_calib.commands.suggestions import complete_at

    given = engine_given(model, remote, threads=threads, window=window)
    suggestions = complete_at(*place_in_file(place, column=True), given, warn)
    if as_json:
        print_json([suggestion.to_wire() for suggestion in suggestions])
    else:
        print_suggestions(suggestions)


@main.command()
@click.argument("place", metavar="FILE:LINE")
@click.option(
    "--all", "everything", is_flag=True, help="Every function of FILE, or of the files below a folder."
)
@json_option
@model_option
@threads_option
@remote_option
def summarize(
    place: str,
    everything: bool,
    as_json: bool,
    model: str | None,
    threads: int,
    remote: str | None,
) -> None:
    """Summarise the function at LINE. With --all, write a page of all functions.

    LINE is one of its signature or its body. With --all the place is FILE or DIR.
    """
    from lsp_calib.commands.printing import print_suggestions
    from lsp_calib.commands.suggestions import summarize_at

    given = engine_given(model, remote, threads=threads)
    if everything:
        _summarize_all(Path(place), given, as_json=as_json)
        return
    path, line, _ = place_in_file(place, column=False)
    suggestion = summarize_at(path, line, given, warn)
    if as_json:
        print_json(suggestion.to_wire())
    else:
        print_suggestions([suggestion])


def _summarize_all(path: Path, given: Settings, *, as_json: bool) -> None:
    from lsp_calib.commands.printing import item_progress
    from lsp_calib.commands.suggestions import Overview, overview

    if not path.exists():
        raise SettingsError(f"There is no file or folder {path}.")
    page = Overview(path.resolve().name)
    ended: click.exceptions.Exit | LspCalibError | None = None
    try:
        with item_progress("Summarising", quiet=False) as progress:
            overview(path, given, warn, progress, page)
    except KeyboardInterrupt:
        ended = click.exceptions.Exit(StoppedError.exit_code)  # the finished summaries are kept
    except LspCalibError as error:
        if not page.files:
            raise
        ended = error  # nor here
    if as_json:
        print_json(page.to_wire())
    else:
        say(page.markdown(), nl=False)
    if ended is not None:
        raise ended


@main.command()
@json_option
@model_option
@threads_option
@click.option("--steps", type=click.IntRange(12), help="Keystrokes to replay (240; 36 with --short).")
@click.option("--short", is_flag=True, help="The essentials, in about a minute.")
@click.option(
    "--limit",
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="Stop after this time and print what was measured (600); 0: no limit.",
)
def bench(**options: Any) -> None:
    """Measure how fast suggestions come on this machine.

    Recorded typing is replayed through a real server with your model. Ctrl-C stops it and prints the
    measurements so far.
    """
    from lsp_calib.tools.bench.run import run

    raise SystemExit(run(**options))


@main.command()
@json_option
@click.option("--quick", is_flag=True, help="Neither load a model nor measure how fast it is.")
@click.option(
    "--bundle",
    type=FILE,
    help="Write a ZIP file for a bug report here; it holds no source text.",
)
def doctor(as_json: bool, quick: bool, bundle: Path | None) -> None:
    """Check the installation and its speed, and say what to do.

    Exit code 0: completions work.
    """
    from lsp_calib.tools.doctor.run import run

    raise SystemExit(run(as_json=as_json, quick=quick, bundle=bundle))


for command in (calibrate, calibrators, feedback, models, refit, report):
    main.add_command(command)
