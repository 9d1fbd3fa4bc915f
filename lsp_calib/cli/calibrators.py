"""`lsp-calib calibrators`."""

from __future__ import annotations

from pathlib import Path

import click

from lsp_calib.cli.shared import Group, json_option, print_json, say, show, tell


@click.group(cls=Group)
def calibrators() -> None:
    """See, take back and share calibrators."""


@calibrators.command("list")
@json_option
def calibrators_list(as_json: bool) -> None:
    """The calibrators in force, and those that are kept."""
    from lsp_calib.commands.calibrators import list_calibrators

    show(list_calibrators(), as_json=as_json)


@calibrators.command("show")
@click.argument("wanted", metavar="[ID]", required=False)
@json_option
def calibrators_show(wanted: str | None, as_json: bool) -> None:
    """Show the weights of a calibrator in words, and its quality.

    ID: an id of `list`, or a model's name; without one, those in force.
    """
    from lsp_calib.commands.calibrators import show_calibrators

    show(show_calibrators(wanted), as_json=as_json)


@calibrators.command("rollback")
@click.argument("wanted", metavar="[ID]", required=False)
@json_option
def calibrators_rollback(wanted: str | None, as_json: bool) -> None:
    """Take your calibrator out of force: the one before it judges suggestions again.

    ID: the one to go back to, an id of `list`.
    """
    from lsp_calib.commands.calibrators import roll_back_calibrator

    done = roll_back_calibrator(wanted)
    if as_json:
        print_json(done.to_wire())
    else:
        say(done.sentence)


@calibrators.command("export")
@click.argument("wanted", metavar="ID")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def calibrators_export(wanted: str, file: Path) -> None:
    """Write a calibrator to FILE, to share it. It holds weights and numbers of labels, and no source text."""
    from lsp_calib.commands.calibrators import export_calibrator, provenance_words

    for sentence in provenance_words(export_calibrator(wanted, file)):
        tell(sentence)
    tell(f"It was written to {file}; `lsp-calib calibrators import` reads it.")


@calibrators.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--install", is_flag=True, help="Put it in force whatever your labels say.")
@json_option
def calibrators_import(file: Path, install: bool, as_json: bool) -> None:
    """Try the calibrator in FILE on your own labels, and put it in force if it is no worse there.

    Otherwise it is kept, and `rollback ID` puts it in force.
    """
    from lsp_calib.commands.calibrators import (
        import_words,
        provenance_words,
        read_calibrator,
        try_and_import,
    )

    foreign = read_calibrator(file)
    for sentence in provenance_words(foreign):
        tell(sentence)
    imported = try_and_import(foreign, install=install)
    if as_json:
        print_json(imported.to_wire())
    else:
        say(import_words(imported))
