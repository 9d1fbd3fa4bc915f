"""The command line: thin commands over the rooms. Rooms are imported by the command that needs them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import click

from lsp_calib import __version__
from lsp_calib.errors import LspCalibError, SettingsError


class _Group(click.Group):
    """Turns the package's errors into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except LspCalibError as error:
            click.echo(f"lsp-calib: {error}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            # The reader of our output has had enough.
            sys.stderr.close()
            ctx.exit(0)
        except OSError as error:
            # No space, no permission: nothing that a traceback would explain better.
            click.echo(f"lsp-calib: {error}", err=True)
            ctx.exit(LspCalibError.exit_code)


# ASCII digits, and fewer than Python converts.
_COUNT = re.compile(r"[0-9]{1,18}")

_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document alone on standard output."
)
_model = click.option("--model", metavar="M", help="A model's name, or the path of a GGUF file.")
_threads = click.option(
    "--threads", type=click.IntRange(0, 512), default=0, help="Threads to decode with; 0 chooses."
)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lsp-calib")
def main() -> None:
    """Completions and summaries from a local model, each with a probability that can be believed."""


@main.command()
@click.option("--stdio", is_flag=True, help="Speak over standard input and output (the default).")
@click.option("--tcp", metavar="HOST:PORT", help="Listen there for one client instead.")
@click.option(
    "--log-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the log to this file."
)
@_model
@_threads
@click.option("--gpu-layers", type=click.IntRange(0), default=0, help="Layers to put on the GPU.")
def serve(
    stdio: bool, tcp: str | None, log_file: Path | None, model: str | None, threads: int, gpu_layers: int
) -> None:
    """Serve one editor."""
    from lsp_calib.server.app import serve as run
    from lsp_calib.server.settings import Trusted

    if stdio and tcp:
        raise SettingsError("Give --stdio or --tcp, not both.")
    address = None
    if tcp:
        host, _, port = tcp.rpartition(":")
        if not host or not _COUNT.fullmatch(port) or int(port) > 65535:
            raise SettingsError(f"--tcp wants HOST:PORT, such as 127.0.0.1:9000, not {tcp!r}.")
        address = (host, int(port))
    run(Trusted(model=model, threads=threads, gpu_layers=gpu_layers), tcp=address, log_file=log_file)


@main.command()
@_json
@_model
def demo(as_json: bool, model: str | None) -> None:
    """The main job, end to end: a real server, a real client, a real model."""
    from lsp_calib.tools.demo.course import run

    raise SystemExit(run(as_json=as_json, model=model))


@main.command()
@click.argument("place", metavar="FILE:LINE[:COL]")
@_json
@_model
@_threads
def complete(place: str, as_json: bool, model: str | None, threads: int) -> None:
    """Complete LINE at COL; without COL, say what the whole line would be. Both count from 1."""
    from lsp_calib.tools.oneshot import complete_at
    from lsp_calib.tools.print import print_suggestions

    suggestions = complete_at(*_place(place, column=True), model=model, threads=threads)
    if as_json:
        _print_json([suggestion.to_wire() for suggestion in suggestions])
    else:
        print_suggestions(suggestions)


@main.command()
@click.argument("place", metavar="FILE:LINE")
@_json
@_model
@_threads
def summarize(place: str, as_json: bool, model: str | None, threads: int) -> None:
    """Summarise the function at LINE (its signature or its body)."""
    from lsp_calib.tools.oneshot import summarize_at
    from lsp_calib.tools.print import print_suggestions

    path, line, _ = _place(place, column=False)
    suggestion = summarize_at(path, line, model=model, threads=threads)
    if as_json:
        _print_json(suggestion.to_wire())
    else:
        print_suggestions([suggestion])


@main.command()
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option("--task", type=click.Choice(["line"]), default="line", help="What to calibrate.")
@click.option("--samples", type=click.IntRange(20), default=400, show_default=True, help="Lines to complete.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--records", type=click.Path(dir_okay=False, path_type=Path), help="Keep (and resume) generations here."
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the calibrator here; else it is yours.",
)
@_json
@_model
@_threads
def calibrate(as_json: bool, **options: Any) -> None:
    """Fit a calibrator on Python source: each PATH is a project, kept together in cross-validation."""
    from lsp_calib.tools.calibrate import calibrate as run

    report = run(**options, quiet=as_json)
    if as_json:
        _print_json(report.to_wire())
    else:
        report.print()


@main.command()
@_json
@_model
def refit(as_json: bool, model: str | None) -> None:
    """Refit your calibrator on what became of the suggestions you were shown."""
    from lsp_calib.tools.oneshot import refit_now

    result = refit_now(model)
    if as_json:
        _print_json(result)
    else:
        done = "A new calibrator is in force" if result["promoted"] else "The calibrator stays"
        click.echo(f"{done} ({result['n']} labels): {result['reason']}.")


@main.group(name="eval")
def evaluate() -> None:
    """Measure: the tables and figures that the documentation quotes."""


@evaluate.command("excess-loss")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("docs/excess-loss.md"),
    show_default=True,
    help="Write the page here.",
)
@click.option(
    "--most", type=click.IntRange(10), default=1000, show_default=True, help="Data sets a truth and n."
)
@click.option("--seed", type=int, default=0, show_default=True)
def excess_loss(output: Path, most: int, seed: int) -> None:
    """What calibrators lose against the truth, by number of labels (minutes; needs scikit-learn)."""
    from importlib.util import find_spec

    if find_spec("sklearn") is None:
        raise SettingsError("The table compares with scikit-learn: run `pip install scikit-learn` first.")
    from lsp_calib.evaluation.excess_loss import write_page

    write_page(output, most=most, seed=seed, progress=lambda text: click.echo(text, err=True))
    click.echo(f"The table is in {output}.")


@main.group()
def models() -> None:
    """The models: which there are, getting, checking and removing them."""


@models.command("list")
@_json
def models_list(as_json: bool) -> None:
    """Known models, and whether they are installed."""
    from lsp_calib.inference.cards import load_cards

    rows: list[dict[str, Any]] = [
        {
            "name": card.name,
            "title": card.title,
            "licence": card.licence,
            "quantisation": card.quantisation,
            "bytes": card.size,
            "installed": card.path.is_file(),
            "path": str(card.path),
        }
        for card in load_cards().values()
    ]
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        state = "installed" if row["installed"] else "-"
        click.echo(
            f"{row['name']:20} {row['bytes'] >> 20:6} MB  {row['quantisation']:8} {row['licence']:12} {state}"
        )


@models.command()
@click.argument("name")
def pull(name: str) -> None:
    """Get a model and verify its checksum."""
    from lsp_calib.inference.download import pull as run
    from lsp_calib.tools.print import download_progress

    card = _card(name)
    with download_progress(card.title) as progress:
        path = run(card, progress)
    click.echo(f"{card.name} is at {path}, its checksum is right.")


@models.command()
@click.argument("name")
def path(name: str) -> None:
    """Print where an installed model lies."""
    from lsp_calib.inference.cards import choose

    click.echo(choose(name)[1])


@models.command()
@click.argument("name")
def verify(name: str) -> None:
    """Compute a model's checksum afresh."""
    from lsp_calib.inference import checksum, gguf
    from lsp_calib.inference.cards import choose

    card, file = choose(name)
    gguf.check_header(file)
    if card.size:
        gguf.check_size(file, card.size)
    actual = checksum.verify(file, card.sha256, fresh=True)
    known = "as it should be" if card.sha256 else "no card to compare it with"
    click.echo(f"{file}: SHA-256 {actual}, {known}.")


@models.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove an installed model (by its name or its file's)."""
    from lsp_calib.inference.cards import load_cards

    for card in load_cards().values():
        if name in (card.name, card.file):
            if not card.path.exists():
                raise SettingsError(f"{card.name} is not installed.")
            card.path.unlink()
            click.echo(f"Removed {card.path}.")
            return
    raise SettingsError(f"There is no model called {name!r} among those that lsp-calib manages.")


def _card(name: str) -> Any:
    from lsp_calib.inference.cards import load_cards

    cards = load_cards()
    if name not in cards:
        raise SettingsError(f"There is no model called {name!r}. Known models: {', '.join(cards)}.")
    return cards[name]


def _place(text: str, *, column: bool) -> tuple[Path, int, int | None]:
    """FILE:LINE[:COL] with line and column from 0. A file's name may hold colons."""
    parts = text.rsplit(":", 2)
    if column and len(parts) == 3 and _COUNT.fullmatch(parts[1]) and _COUNT.fullmatch(parts[2]):
        name, line, col = parts[0], int(parts[1]), int(parts[2]) - 1
    else:
        name, _, last = text.rpartition(":")
        if not name or not _COUNT.fullmatch(last):
            raise SettingsError(
                f"{text!r} is not a place. Give FILE:LINE{'[:COL]' if column else ''}, from 1."
            )
        line, col = int(last), None
    if line < 1 or (col is not None and col < 0):
        raise SettingsError("Lines and columns count from 1.")
    if not Path(name).is_file():
        raise SettingsError(f"There is no file {name}.")
    return Path(name), line - 1, col


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
