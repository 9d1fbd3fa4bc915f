"""What is pulled: `models`, `data`."""

from __future__ import annotations

from pathlib import Path

import click

from lsp_calib.cli.shared import (
    FOLDER,
    Group,
    json_option,
    model_argument,
    print_json,
    say,
    show_sentences,
    tell,
)
from lsp_calib.errors import SettingsError


@click.group(cls=Group)
def models() -> None:
    """List, get, check and remove models."""


@models.command("list")
@json_option
def models_list(as_json: bool) -> None:
    """Known models: installed or not, licence, memory, speed."""
    from lsp_calib.commands.models import HEADER, recommended, row
    from lsp_calib.inference.models.inventory import encoders, inventory

    models = inventory()
    best = recommended(models)
    entries = [*models, *encoders()]
    wire = [{**entry.to_wire(), "recommended": entry.card.name == best} for entry in entries]
    show_sentences(wire, [HEADER, *(row(entry, best) for entry in entries)], as_json=as_json)


@models.command()
@click.argument("name")
@json_option
def pull(name: str, as_json: bool) -> None:
    """Get a model and verify its checksum. An interrupted pull is resumed."""
    from lsp_calib.commands.models import pull_model

    show_sentences(*pull_model(name, tell, quiet=as_json), as_json=as_json)


@models.command()
@model_argument
@json_option
def path(name: str, as_json: bool) -> None:
    """Print the path of an installed model."""
    from lsp_calib.commands.models import path_of

    show_sentences(*path_of(name), as_json=as_json)


@models.command()
@model_argument
@json_option
def verify(name: str, as_json: bool) -> None:
    """Check a model's file and compute its checksum afresh."""
    from lsp_calib.commands.models import verify_model

    show_sentences(*verify_model(name), as_json=as_json)


@models.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove an installed model, by its name or its file's."""
    from lsp_calib.commands.models import remove_model

    show_sentences(*remove_model(name), as_json=as_json)


_data_dir = click.option(
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
@_data_dir
def data_list(as_json: bool, data_dir: Path | None) -> None:
    """Known data sets: content, licence, and whether they are here with the right checksum."""
    from lsp_calib.studies.pinned import status_of_all

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
@_data_dir
def data_pull(name: str, data_dir: Path | None) -> None:
    """Get a data set and verify its checksum; `projects` gets the pinned projects in Python,
    `projects-java` and so on those in other languages, `projects-blind` those that nothing is fitted on."""
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
    """Get a data set, or a set of pinned projects, with a progress bar. Returns a sentence: where it is."""
    from lsp_calib.commands.printing import download_progress
    from lsp_calib.studies import data as folder
    from lsp_calib.studies import pinned

    if name in pinned.SETS:
        with download_progress("Projects", files=True) as progress:
            folders = pinned.pull_projects(pinned.SETS[name], data_dir, progress)
        return f"{len(folders)} projects are in {data_dir / name}; their checksums are right."
    entry = folder.data_set(name)
    with download_progress(entry.name) as progress:
        path = pinned.pull(entry, data_dir, progress)
    return f"{name} is at {path}; its checksum is right."
