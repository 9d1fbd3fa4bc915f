"""`lsp-calib data`: which evaluation data there are, and getting them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lsp_calib.cli.shared import Group

_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="LSP_CALIB_DATA",
    help="The folder with evaluation data; else LSP_CALIB_DATA.",
)


@click.group(cls=Group)
def data() -> None:
    """Evaluation data: which there are, what is here, getting the rest."""


@data.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document alone on standard output.")
@_data_dir
def data_list(as_json: bool, data_dir: Path | None) -> None:
    """Known data sets: what they are, whose, and whether they are here with the right checksum."""
    from lsp_calib.evaluation.datasets.status import status_of_all

    rows = status_of_all(data_dir)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for row in rows:
        click.echo(f"{row['name']:20} {row['records']:6}  {row['licence']:27} {_state(row)}")
        click.echo(f"{'':20} {row['what']}")
    if data_dir is None:
        click.echo("Set LSP_CALIB_DATA, or give --data-dir, to say where the data are.")


@data.command("pull")
@click.argument("name")
@_data_dir
def data_pull(name: str, data_dir: Path | None) -> None:
    """Get a data set and verify its checksum; `projects` gets the pinned projects."""
    from lsp_calib.commands.printing import download_progress
    from lsp_calib.errors import SettingsError
    from lsp_calib.evaluation.datasets import catalogue, pinned, pull

    if data_dir is None:
        raise SettingsError("Say where to put it: set LSP_CALIB_DATA to a folder, or give --data-dir.")
    if name == "projects":
        with download_progress("Projects") as progress:
            folders = pinned.pull_projects(data_dir, progress)
        click.echo(f"{len(folders)} projects are in {data_dir / pinned.FOLDER}, their checksums are right.")
        return
    entry = catalogue.data_set(name)
    with download_progress(entry.name) as progress:
        path = pull.pull(entry, data_dir, progress)
    click.echo(f"{name} is at {path}, its checksum is right.")


def _state(row: dict[str, Any]) -> str:
    if not row["present"]:
        return "can be pulled" if row["pullable"] else "-"
    return "here" if row["checksumOk"] else "here, but with the WRONG CHECKSUM"
