"""`lsp-calib feedback`: what became of suggestions: seen in numbers, exported, removed. `lsp-calib report`:
whether the probabilities came true, in a terminal or as a page."""

from __future__ import annotations

import datetime
import re
import time
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import attrs
from rich.table import Column, Table
from rich.text import Text

from lsp_calib import home
from lsp_calib.badges import BADGES, counted
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.feedback import removal
from lsp_calib.feedback.comparison import Accuracy
from lsp_calib.feedback.report import PAGE, FeedbackReport, make_report
from lsp_calib.feedback.report_data import Statistics, statistics
from lsp_calib.feedback.store import FeedbackStore, export_file, export_to
from lsp_calib.report import words
from lsp_calib.report.page import write_page
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
    with feedback_store() as store:
        return statistics(store, time.time())


def print_statistics(found: Statistics) -> None:
    console = Console()
    if not found.suggestions:
        console.print(
            "No suggestion has been shown yet, or lspCalib.feedback.enabled is false in your editor.",
            soft_wrap=True,
        )
        return
    first, last = (words.iso_day(at) for at in (found.first, found.last))
    console.print(
        f"{counted(found.suggestions, 'suggestion')} shown from {first} to {last}; of {found.labelled:,} "
        f"of them it is known what became of them, {found.correct:,} were right. {found.size / 1e6:.1f} MB.",
        soft_wrap=True,
    )
    for title, parts in (("language", found.languages), ("model", found.models), ("age", found.ages)):
        of = ", ".join(f"{part.suggestions:,} {part.name}" for part in parts)
        console.print(f"by {title}: {of}", soft_wrap=True)
    for title, counts in (("how they ended", found.labels), ("events", found.events)):
        console.print(f"{title}: {', '.join(f'{n} {name}' for name, n in counts.items())}", soft_wrap=True)
    console.print("`lsp-calib report` shows whether the tiers kept their promises.", soft_wrap=True)


def export_feedback(path: Path | None, stream: TextIO) -> int:
    """Export the user's store to a new file, or to a stream; returns how many suggestions it has.

    Raises LspCalibError.
    """
    with feedback_store() as store:
        return export_to(store, stream) if path is None else export_file(store, path)


@attrs.frozen
class Purged:
    """How many suggestions and files of calibrators were removed."""

    suggestions: int
    calibrators: int


def purge_feedback(what: Purge) -> Purged:
    """Remove feedback. Raises LspCalibError."""
    before = None if what.before is None else _midnight(what.before)
    with feedback_store() as store:
        if what.everything:
            n = removal.remove_everything(store, home.state_dir())
        else:
            folders = None if what.workspace is None else addresses(what.workspace)
            n = store.purge(before=before, workspaces=folders)
            removal.remove_report(home.state_dir())
    calibrators = removal.remove_calibrators(CalibratorStore.open().personal) if what.calibrators else 0
    return Purged(n, calibrators)


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
def feedback_store() -> Iterator[FeedbackStore]:
    """The user's store, closed afterwards. Raises LspCalibError."""
    store = FeedbackStore(home.feedback_file())
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


def current_report() -> FeedbackReport:
    """The report on the user's store. Raises LspCalibError."""
    with feedback_store() as store:
        return make_report(store, CalibratorStore.open(), time.time())


def save_report(report: FeedbackReport, path: Path | None) -> Path:
    """Write the page; returns its absolute path. path: None: in the state folder. Raises LspCalibError."""
    chosen = (path or home.state_dir() / PAGE).absolute()
    write_page(report, chosen)
    return chosen


def open_page(path: Path) -> None:
    """Show a page in the user's browser. Raises LspCalibError if there is none."""
    try:
        opened = webbrowser.open(path.as_uri())
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        raise LspCalibError(f"No browser could be started. The report is {path}: open it yourself.")


def print_report(report: FeedbackReport) -> None:
    console = Console()
    if not report.statistics.suggestions:
        console.print("There is nothing to report yet: no suggestion was shown.")
    else:
        console.print(words.headline(report), style="bold", soft_wrap=True)
        console.print(words.period(report), style="dim", soft_wrap=True)
    if not report.overall:
        for text in words.WHAT_TO_DO:
            console.print(f"- {text}", soft_wrap=True)
        return
    console.print(_outcomes(report.tiers))
    for tier in report.tiers:
        if advice := words.advice(tier):
            console.print(Text(f"{tier.name}: {advice}"), soft_wrap=True)
    console.print(
        "`lsp-calib report --open` shows more as a page: languages and sources, the diagrams, what was "
        "learned, how suggestions ended, what is hidden, and your calibrators.",
        soft_wrap=True,
    )


def _outcomes(tiers: Sequence[Accuracy]) -> Table:
    table = Table(Column("tier", no_wrap=True), "visits", "promised", "right", "95 % interval", "skill", "")
    for one in tiers:
        low, high = words.share(one.share.low), words.share(one.share.high)
        table.add_row(
            Text(one.name, style=BADGES[one.name]["color"]),
            f"{one.share.n:,}",
            words.share(one.promised),
            words.share(one.share.value),
            f"{low} to {high}" if one.share.n else "",
            words.signed(one.skill) if one.skill is not None else "",
            words.verdict(one),
        )
    return table
