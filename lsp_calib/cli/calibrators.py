"""`lsp-calib calibrators`."""

from __future__ import annotations

import click

from lsp_calib.cli.shared import Group, json_option, print_json


@click.group(cls=Group)
def calibrators() -> None:
    """List calibrators, and show what they weigh."""


@calibrators.command("list")
@json_option
def calibrators_list(as_json: bool) -> None:
    """The calibrators in force, and those that are kept."""
    from lsp_calib.commands.calibrators import list_calibrators

    listing = list_calibrators()
    if as_json:
        print_json(listing.to_wire())
    else:
        listing.print()


@calibrators.command("show")
@click.argument("wanted", metavar="[ID]", required=False)
@json_option
def calibrators_show(wanted: str | None, as_json: bool) -> None:
    """What a calibrator weighs, in words, and how good it is. ID: an id of `list`, or a model's name; without
    one, those in force."""
    from lsp_calib.commands.calibrators import show_calibrators

    description = show_calibrators(wanted)
    if as_json:
        print_json(description.to_wire())
    else:
        description.print()
