"""The commands that measure summaries: `eval thresholds`, `eval summary`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lsp_calib.cli.evaluation_options import (
    FILE,
    FOLDER,
    held_out_option,
    observe_option,
    resamples_option,
    run_options,
    run_or_replay,
    seed_option,
)
from lsp_calib.cli.shared import Command, LongCommand, json_option, show

OBSERVED = (
    *("margin", "text", "encoder", "follow-up", "samples", "agreement"),
    *("ask", "verbalised", "scale", "likelihood"),
)
MEASURES = ("ask", "normalised", "verbalised", "scale")
data_dir_option = click.option(
    "--data-dir", type=FOLDER, help="The folder with the data sets; default: LSP_CALIB_DATA."
)


@click.command(cls=Command)
@data_dir_option
@click.option("--output", type=FILE, help="Write the thresholds to this file.")
@json_option
def thresholds(data_dir: Path | None, output: Path | None, as_json: bool) -> None:
    """From which similarity on people called two summaries similar: for the installed encoder."""
    from lsp_calib.commands.thresholds import derive_thresholds

    report = derive_thresholds(data_dir, output)
    show(report, as_json=as_json)


@click.command(cls=LongCommand)
@data_dir_option
@click.option(
    "--language",
    type=click.Choice(["python", "java"]),
    default="python",
    show_default=True,
    help="The language of the functions.",
)
@click.option(
    "--samples",
    type=click.IntRange(20),
    metavar="N",
    help="Functions to summarise, drawn at random; default: all.",
)
@click.option(
    "--thresholds",
    type=FILE,
    help="Judge by the thresholds in this file (`eval thresholds --output FILE`); default: the shipped ones.",
)
@click.option(
    "--augment",
    is_flag=True,
    help="Show the model facts about the code beside it, as `summarize --augment` does.",
)
@observe_option(OBSERVED)
@click.option(
    "--measure",
    type=click.Choice(MEASURES),
    help="Score what the model says of its own summaries, in the place of their probabilities. The records "
    "must hold it: --observe follow-up,ask,verbalised,scale.",
)
@seed_option
@held_out_option
@resamples_option
@run_options
def summary(data_dir: Path | None, language: str, samples: int | None, **options: Any) -> None:
    """Summaries of functions whose documentation is hidden: how often they are like a person's, and whether
    the confidence knows."""
    from lsp_calib.evaluation.summary_task import SUMMARY, summary_task

    seed = options["seed"]
    if options["records"] is None and options["output"] is None:
        options["output"] = Path("lsp-calib-eval") / f"{SUMMARY}-{language}"
    run_or_replay(SUMMARY, lambda: summary_task(data_dir, language, samples, seed), options)
