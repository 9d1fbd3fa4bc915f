"""`lsp-calib feedback`: what became of suggestions: seen in numbers, exported, removed."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import attrs
from rich.table import Table

from lsp_calib import home
from lsp_calib.badges import percent
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.commands.printing import badge
from lsp_calib.errors import SettingsError
from lsp_calib.feedback import removal
from lsp_calib.feedback.events import Source
from lsp_calib.feedback.report_data import Part, Statistics, statistics
from lsp_calib.feedback.store import FeedbackStore, export_file, export_to
from lsp_calib.terminal import Console
from lsp_calib.workspace_files import address

_DRIVE = re.compile(r"(?<=^file:///)[A-Za-z](?=:)")


@attrs.frozen
class Purge:
    """What is to be removed. before: ISO date; only what was shown before this day. workspace: only what was
    shown in this folder. calibrators: the user's own calibrators as well."""

    before: str | None = None
    workspace: Path | None = None
    calibrators: bool = False

    @property
    def everything(self) -> bool:
        return self.before is None and self.workspace is None

    @property
    def words(self) -> str:
        """What is to be removed, to follow "Remove"."""
        parts = ["all feedback" if self.everything else "the feedback"]
        parts += [f"on suggestions shown before {self.before}"] if self.before else []
        parts += [f"on suggestions shown in {self.workspace}"] if self.workspace else []
        parts += ["and empty the logs"] if self.everything else []
        parts += ["and remove your own calibrators"] if self.calibrators else []
        return " ".join(parts)


def feedback_statistics() -> Statistics:
    """The statistics of the user's store. Raises LspCalibError."""
    with _store() as store:
        return statistics(store, time.time())


def print_statistics(found: Statistics) -> None:
    console = Console()
    for part in found.sources:
        if part.name == Source.REPLAY:
            console.print(
                f"{part.suggestions} lines that you had typed were completed afterwards (replayed), "
                f"{part.correct} of them as you had typed them.",
                soft_wrap=True,
            )
    if not found.suggestions:
        console.print(
            "No suggestion has been shown yet, or lspCalib.feedback.enabled is false in your editor.",
            soft_wrap=True,
        )
        return
    first, last = (_day(at) for at in (found.first, found.last))
    console.print(
        f"{found.suggestions} suggestions were shown from {first} to {last}; of {found.labelled} it is known "
        f"what became of them, {found.correct} were right. {found.size / 1e6:.1f} MB.",
        soft_wrap=True,
    )
    console.print(_tiers(found))
    for title, parts in (("language", found.languages), ("model", found.models), ("age", found.ages)):
        console.print(_parts(title, parts))
    for title, counts in (("how they ended", found.labels), ("events", found.events)):
        console.print(f"{title}: {', '.join(f'{n} {name}' for name, n in counts.items())}", soft_wrap=True)


def export_feedback(path: Path | None, stream: TextIO) -> int:
    """Export the user's store to a new file, or to a stream; returns how many suggestions it has.

    Raises LspCalibError.
    """
    with _store() as store:
        return export_to(store, stream) if path is None else export_file(store, path)


def purge_feedback(what: Purge) -> tuple[int, int]:
    """Remove feedback; returns how many suggestions and files of calibrators. Raises LspCalibError."""
    before = None if what.before is None else _midnight(what.before)
    with _store() as store:
        if what.everything:
            n = removal.remove_everything(store, home.state_dir())
        else:
            folders = None if what.workspace is None else addresses(what.workspace)
            n = store.purge(before=before, workspaces=folders)
            removal.remove_report(home.state_dir())
    calibrators = removal.remove_calibrators(CalibratorStore.open().personal) if what.calibrators else 0
    return n, calibrators


def exports_kept() -> list[Path]:
    """The exports in the state folder. A purge does not remove what the user has put aside."""
    return sorted(home.state_dir().glob("feedback-*.jsonl"))


def addresses(folder: Path) -> list[str]:
    """The addresses that an editor may have for a folder: as it is named, and without links."""
    try:
        given = folder.expanduser()
    except RuntimeError as error:
        raise SettingsError(f"The workspace is {str(folder)!r}: {error} Give an absolute path.") from error
    named = (Path.cwd() / given, given.resolve())
    return list(dict.fromkeys(one for path in named for one in spellings(path.as_uri())))


def spellings(uri: str) -> list[str]:
    """The addresses of a URI. Editors write the letter of a drive in either case, VS Code in lower case.

    >>> spellings("file:///C:/a")
    ['file:///C:/a', 'file:///c:/a']
    """
    whole = address(uri)
    return list(dict.fromkeys([whole, _DRIVE.sub(lambda letter: letter[0].swapcase(), whole)]))


@contextmanager
def _store() -> Iterator[FeedbackStore]:
    store = FeedbackStore(home.state_dir() / "feedback.db")
    try:
        yield store
    finally:
        store.close()


def _midnight(date: str) -> float:
    """The beginning of a day, in the local time zone, as Unix seconds. Raises SettingsError."""
    try:
        return datetime.datetime.combine(datetime.date.fromisoformat(date), datetime.time()).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise SettingsError(f"--before needs a date such as 2026-01-31, not {date!r}.") from error


def _day(at: float | None) -> str:
    return "" if at is None else datetime.datetime.fromtimestamp(at).astimezone().date().isoformat()


def _tiers(found: Statistics) -> Table:
    table = Table("tier", "lines", "promised", "kept", "95 % interval", title="Promised and kept")
    for tier in found.tiers:
        if tier.promised is None or tier.kept is None or tier.low is None or tier.high is None:
            table.add_row(badge(tier.tier, None), "0", "", "", "")
        else:
            between = f"{percent(tier.low)} to {percent(tier.high)}"
            table.add_row(
                badge(tier.tier, tier.promised),
                str(tier.n),
                percent(tier.promised),
                percent(tier.kept),
                between,
            )
    return table


def _parts(title: str, parts: Iterable[Part]) -> Table:
    table = Table(title, "suggestions", "known", "right")
    for part in parts:
        right = percent(part.correct / part.labelled) if part.labelled else ""
        table.add_row(part.name, str(part.suggestions), str(part.labelled), right)
    return table
