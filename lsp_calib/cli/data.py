"""`lsp-calib data`."""

from __future__ import annotations

from pathlib import Path

import click

from lsp_calib.cli.shared import Group, json_option, print_json, say
from lsp_calib.errors import SettingsError

_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="LSP_CALIB_DATA",
    help="The folder with evaluation data; default: LSP_CALIB_DATA.",
)


@click.group(cls=Group)
def data() -> None:
    """List and get evaluation data."""


@data.command("list")
@json_option
@_data_dir
def data_list(as_json: bool, data_dir: Path | None) -> None:
    """Known data sets: content, licence, and whether they are here with the right checksum."""
    from lsp_calib.commands.data import table
    from lsp_calib.evaluation.datasets.pull import status_of_all

    rows = status_of_all(data_dir)
    if as_json:
        print_json(rows)
        return
    for line in table(rows):
        say(line)
    if data_dir is None:
        say("Set LSP_CALIB_DATA, or give --data-dir, to say where the data are.")


@data.command("pull")
@click.argument("name")
@_data_dir
def data_pull(name: str, data_dir: Path | None) -> None:
    """Get a data set and verify its checksum; `projects` gets the pinned projects in Python,
    `projects-java` and so on those in other languages, `projects-blind` those that nothing is fitted on."""
    from lsp_calib.commands.data import pull_data

    if data_dir is None:
        raise SettingsError("Say where to put it: set LSP_CALIB_DATA to a folder, or give --data-dir.")
    say(pull_data(name, data_dir))
