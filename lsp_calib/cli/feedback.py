"""`lsp-calib feedback`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lsp_calib.cli.shared import Group, json_option, print_json, tell
from lsp_calib.errors import SettingsError


@click.group(cls=Group)
def feedback() -> None:
    """See, export and remove what is known of your suggestions."""


@feedback.command()
@json_option
def stats(as_json: bool) -> None:
    """How many suggestions, in which languages, and whether the promises of the tiers were kept."""
    from lsp_calib.commands.feedback import feedback_statistics, print_statistics

    found = feedback_statistics()
    if as_json:
        print_json(found.to_wire())
    else:
        print_statistics(found)


@feedback.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
def export(file: Path | None) -> None:
    """Write everything that is stored as JSON lines, to FILE or standard output. It holds no source text."""
    from lsp_calib.commands.feedback import export_feedback

    n = export_feedback(file, sys.stdout)
    if file is not None:
        tell(f"{n} suggestions were exported to {file}.")


@feedback.command()
@click.option("--before", metavar="DATE", help="Only what was shown before this day, such as 2026-01-31.")
@click.option(
    "--workspace", type=click.Path(path_type=Path), metavar="FOLDER", help="Only what was shown in it."
)
@click.option("--calibrators", is_flag=True, help="Remove your own calibrators, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def purge(before: str | None, workspace: Path | None, calibrators: bool, yes: bool, as_json: bool) -> None:
    """Remove feedback for good: from the file itself, with logs and damaged copies.

    It works while editors are open. Suggestions that they show later are stored again, unless the setting
    lspCalib.feedback.enabled is false. Without --calibrators your calibrators stay: they hold weights, and no
    feedback.
    """
    from lsp_calib.commands.feedback import Purge, exports_kept, purge_feedback

    what = Purge(before, workspace, calibrators)
    if not yes:
        if as_json:
            raise SettingsError("With --json nothing is asked: add --yes to remove feedback.")
        if not click.confirm(f"Remove {what.words}? It cannot be undone", err=True):
            tell("Nothing was removed.")
            return
    n, files = purge_feedback(what)
    if as_json:
        print_json({"n": n, "calibrators": files})
    else:
        more = f", and {files} files of calibrators" if calibrators else ""
        tell(f"{n} suggestions were removed{more}.")
        for path in exports_kept():
            tell(f"An export of them stays: {path}. Delete it yourself if it is not wanted.")
