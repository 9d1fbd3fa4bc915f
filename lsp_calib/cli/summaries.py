"""The commands that measure summaries: `eval thresholds`, `eval summary`."""

from __future__ import annotations

from pathlib import Path

import click

from lsp_calib.cli.evaluation_options import FILE, FOLDER
from lsp_calib.cli.shared import Command, json_option, print_json

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
    if as_json:
        print_json(report.to_wire())
    else:
        report.print()
