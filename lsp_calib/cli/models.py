"""The commands for models: thin, like those in `cli`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lsp_calib.cli.shared import Group, json_option, model_argument, print_json
from lsp_calib.errors import SettingsError

if TYPE_CHECKING:
    from lsp_calib.inference.models.card import ModelCard
    from lsp_calib.inference.models.inventory import Entry


@click.group(cls=Group)
def models() -> None:
    """The models: which there are, getting, checking and removing them."""


@models.command("list")
@json_option
def models_list(as_json: bool) -> None:
    """Known models: installed or not, licence, memory, speed."""
    from lsp_calib.inference.models.inventory import inventory

    entries = inventory()
    if as_json:
        print_json([entry.to_wire() for entry in entries])
        return
    for entry in entries:
        click.echo(_line(entry))


def _line(entry: Entry) -> str:
    card, speed = entry.card, entry.speed
    size = f"{card.size >> 20} MB" if card.size else "size ?"
    state = (entry.fault and "damaged") or ("installed" if entry.installed else "-")
    needs = f"needs {entry.needs / (1 << 30):.1f} GB"
    fits = {True: "fits", False: "too large now", None: ""}[entry.fits]
    pace = f"{speed.prompt_per_s:.0f} + {speed.generation_per_s:.0f} tokens/s" if speed else ""
    columns = (f"{card.name:20}", f"{size:>8}", f"{card.quantisation:7}", f"{card.licence:18}")
    return "  ".join((*columns, needs, f"{fits:13}", f"{state:9}", pace)).rstrip()


@models.command()
@click.argument("name")
@json_option
def pull(name: str, as_json: bool) -> None:
    """Get a model and verify its checksum. An interrupted pull goes on where it was."""
    from lsp_calib.commands.printing import download_progress
    from lsp_calib.inference.models.download import pull as run

    card = _card(name)
    if card.notice:
        click.echo(card.notice, err=True)
    if as_json:
        pulled = run(card, lambda *_: None)
        print_json(
            {"name": card.name, "path": str(pulled.path), "sha256": pulled.sha256, "checked": pulled.checked}
        )
        return
    with download_progress(card.title) as progress:
        pulled = run(card, progress)
    click.echo(f"{card.name} is at {pulled.path}, {pulled.checked.words()}.")
    if not card.sha256:
        click.echo(f"SHA-256 {pulled.sha256}; from now on these bytes are the ones expected.")


@models.command()
@model_argument
@json_option
def path(name: str, as_json: bool) -> None:
    """Print where an installed model lies."""
    from lsp_calib.inference.models.cards import locate

    card, file = locate(name)
    if as_json:
        print_json({"name": card.name, "path": str(file)})
    else:
        click.echo(file)


@models.command()
@model_argument
@json_option
def verify(name: str, as_json: bool) -> None:
    """Check a model's file and compute its checksum afresh."""
    from lsp_calib.inference.models import checksum
    from lsp_calib.inference.models.card import load_cards
    from lsp_calib.inference.models.cards import choose

    card, file = choose(name)
    actual = checksum.verify(file, card.sha256, fresh=True)
    published = load_cards().get(card.name)
    if not card.sha256:
        compared, words = "nothing", "no card to compare it with"
    elif published is None or not published.sha256:
        compared, words = (
            "firstUse",
            "as when it was first pulled; its card has no checksum to compare it with",
        )
    elif not card.verified:
        compared, words = "card", "as its card says; who wrote the card could not verify it"
    else:
        compared, words = "card", "as it should be"
    if as_json:
        print_json({"name": card.name, "path": str(file), "sha256": actual, "checked": compared})
    else:
        click.echo(f"{file}: SHA-256 {actual}, {words}.")


@models.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove an installed model (by its name or its file's)."""
    from lsp_calib.inference.models.inventory import remove as run

    removed = run(name)
    if as_json:
        print_json({"removed": str(removed)})
    else:
        click.echo(f"Removed {removed}.")


def _card(name: str) -> ModelCard:
    from lsp_calib.inference.models.card import load_cards

    cards = load_cards()
    if name not in cards:
        raise SettingsError(f"There is no model called {name!r}. Known models: {', '.join(cards)}.")
    return cards[name]
