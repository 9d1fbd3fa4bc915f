"""The command `models`."""

from __future__ import annotations

import click

from lsp_calib.cli.shared import (
    Group,
    json_option,
    model_argument,
    show_sentences,
    tell,
)


@click.group(cls=Group)
def models() -> None:
    """List, get, check and remove models."""


@models.command("list")
@json_option
def models_list(as_json: bool) -> None:
    """Known models: installed or not, licence, memory, share of lines right, speed."""
    from lsp_calib.commands.models import HEADER, quality, row
    from lsp_calib.inference.models.inventory import encoders, inventory, recommended

    models = inventory()
    best = entry.card.name if (entry := recommended(models)) else None
    entries = [*models, *encoders()]
    wire = [
        {**entry.to_wire(), "quality": quality(entry.card.name), "recommended": entry.card.name == best}
        for entry in entries
    ]
    show_sentences(wire, [HEADER, *(row(entry, best) for entry in entries)], as_json=as_json)


@models.command()
@click.argument("name", required=False)
@json_option
def pull(name: str | None, as_json: bool) -> None:
    """Get a model and verify its checksum. An interrupted pull is resumed.

    Without NAME: the recommended one where memory and disk allow, else the smallest.
    """
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
