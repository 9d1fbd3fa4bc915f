"""`lsp-calib report`: whether the probabilities came true, in a terminal or as a page."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from rich.table import Column, Table
from rich.text import Text

from lsp_calib import home
from lsp_calib.badges import BADGES
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.commands.printing import bins_text
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.comparison import Accuracy, Comparison
from lsp_calib.feedback.report import PAGE, FeedbackReport, make_report
from lsp_calib.feedback.report_data import read_data
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.report import ThemeName, words
from lsp_calib.report.page import write_page
from lsp_calib.terminal import Console

# Heights of the bars of a line of numbers, from the lowest.
_BARS = "▁▂▃▄▅▆▇█"


def current_report() -> FeedbackReport:
    """The report on the user's store. Raises LspCalibError."""
    store = FeedbackStore(home.state_dir() / "feedback.db")
    try:
        now = time.time()
        return make_report(read_data(store, CalibratorStore.open(), now), now)
    finally:
        store.close()


def save_report(report: FeedbackReport, path: Path | None, theme: ThemeName) -> Path:
    """Write the page; returns its absolute path. path: None: in the state folder. Raises LspCalibError."""
    chosen = (path or home.state_dir() / PAGE).absolute()
    write_page(report, chosen, theme)
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
        if report.sources:
            console.print(_outcomes("source", report.sources))
        return
    console.print(_outcomes("tier", report.tiers))
    if report.comparison:
        _print_comparison(report.comparison, console)
    _print_periods(report, console)
    for name, found in (("language", report.languages), ("source", report.sources)):
        console.print(_outcomes(name, found))
    if report.survival:
        console.print(_survival(report))
    _print_rest(report, console)


def _outcomes(name: str, found: Sequence[Accuracy]) -> Table:
    table = Table(Column(name, no_wrap=True), "visits", "promised", "right", "95 % interval", "skill", "")
    for one in found:
        badge = BADGES.get(one.name)
        style = badge["color"] if badge and name == "tier" else ""
        low, high = words.share(one.share.low), words.share(one.share.high)
        table.add_row(
            Text(one.name, style=style),
            f"{one.share.n:,}",
            words.share(one.promised),
            words.share(one.share.value),
            f"{low} to {high}" if one.share.n else "",
            words.signed(one.skill) if one.skill is not None else "",
            words.verdict(one),
        )
    return table


def _print_comparison(found: Comparison, console: Console) -> None:
    console.print(" ".join(words.comparison(found)), soft_wrap=True)
    for title, one in (("before learning", found.before), ("in force", found.after)):
        if not found.changed and one is found.before:
            continue
        console.print(
            f"\n{title}: Brier {one.brier:.3f}, skill {words.signed(one.skill)}, log loss "
            f"{one.log_loss:.3f}, calibration error {one.ece:.3f}",
            soft_wrap=True,
        )
        console.print(Text(bins_text(one.bins)))


def _print_periods(report: FeedbackReport, console: Console) -> None:
    known = [one.outcome.skill for one in report.periods if one.outcome.skill is not None]
    if len(known) < 2:
        return
    # From 0, "no better than the base rate", to 1.
    bars = "".join(_BARS[min(max(int(skill * len(_BARS)), 0), len(_BARS) - 1)] for skill in known)
    when = words.from_to(report.periods[0].start, report.periods[-1].end)
    console.print(
        f"\nskill over time (0 to 1), {when}: {bars}  {words.signed(known[0])} → {words.signed(known[-1])}",
        soft_wrap=True,
    )


def _survival(report: FeedbackReport) -> Table:
    times = list(dict.fromkeys(one.seconds for one in report.survival))
    found = {(one.tier, one.seconds): one.share for one in report.survival}
    table = Table("inserted", *(words.seconds_words(at) for at in times), title="Unchanged after")
    for tier in dict.fromkeys(one.tier for one in report.survival):
        cells = []
        for at in times:
            share = found.get((tier, at))
            cells.append(f"{words.share(share.value)} of {share.n:,}" if share and share.n else "–")
        table.add_row(tier or "all", *cells)
    return table


def _print_rest(report: FeedbackReport, console: Console) -> None:
    endings = "; ".join(
        f"{n:,} {words.ENDINGS[name]}"
        for name, n in report.statistics.labels.items()
        if name in words.ENDINGS
    )
    console.print(f"how they ended: {endings}", soft_wrap=True)
    if report.costs:
        table = Table(*words.COST_HEAD, title="What may go unread")
        for cost in report.costs:
            table.add_row(*words.cost_row(cost))
        console.print(table)
    console.print(words.explored(report.hidden), soft_wrap=True)
    if report.hidden.limits:
        table = Table("hideBelow", "wrong ones hidden", "right ones hidden")
        for one in report.hidden.limits:
            hidden = f"{one.wrong_hidden:,} of {one.wrong:,}", f"{one.right_hidden:,} of {one.right:,}"
            table.add_row(words.share(one.below), *hidden)
        console.print(table)
    own = [one for one in report.calibrators if words.is_own(one)]
    console.print(
        f"{words.counted(len(own), 'calibrator')} of your own; `lsp-calib calibrators list` has them all. "
        "`lsp-calib report --open` shows all this as a page.",
        soft_wrap=True,
    )
