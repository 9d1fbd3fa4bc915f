"""`lsp-calib models`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lsp_calib.cli.shared import Group, LongCommand, json_option, model_argument, print_json, say, tell

if TYPE_CHECKING:
    from lsp_calib.commands.models import CommandResult
    from lsp_calib.inference.models.encoders import EncoderCard
    from lsp_calib.inference.models.inventory import Entry


@click.group(cls=Group)
def models() -> None:
    """List, get, check and remove models."""


@models.command("list")
@json_option
def models_list(as_json: bool) -> None:
    """Known models: installed or not, licence, memory, speed."""
    from lsp_calib.commands.models import HEADER, recommended, row
    from lsp_calib.inference.models.encoders import load_encoders
    from lsp_calib.inference.models.inventory import inventory

    models = inventory()
    best = recommended(models)
    entries: list[Entry | EncoderCard] = [*models, *load_encoders().values()]
    if as_json:
        print_json([{**entry.to_wire(), "recommended": entry.to_wire()["name"] == best} for entry in entries])
        return
    say(HEADER)
    for entry in entries:
        say(row(entry, best))


@models.command(cls=LongCommand)
@click.argument("name")
@json_option
def pull(name: str, as_json: bool) -> None:
    """Get a model and verify its checksum. An interrupted pull is resumed."""
    from lsp_calib.commands.models import pull_model

    _print(pull_model(name, tell, quiet=as_json), as_json=as_json)


@models.command()
@model_argument
@json_option
def path(name: str, as_json: bool) -> None:
    """Print the path of an installed model."""
    from lsp_calib.commands.models import path_of

    _print(path_of(name), as_json=as_json)


@models.command()
@model_argument
@json_option
def verify(name: str, as_json: bool) -> None:
    """Check a model's file and compute its checksum afresh."""
    from lsp_calib.commands.models import verify_model

    _print(verify_model(name), as_json=as_json)


@models.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove an installed model, by its name or its file's."""
    from lsp_calib.commands.models import remove_model

    _print(remove_model(name), as_json=as_json)


def _print(outcome: CommandResult, *, as_json: bool) -> None:
    if as_json:
        print_json(outcome.wire)
        return
    for sentence in outcome.sentences:
        say(sentence)
