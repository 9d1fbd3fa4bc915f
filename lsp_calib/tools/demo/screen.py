"""The output of the demo for people. It knows no server: it only shows the facts it is given."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from lsp_calib.badges import counted, percent
from lsp_calib.commands.models import quality
from lsp_calib.commands.printing import badge
from lsp_calib.feedback.events import How
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.demo.user import DemoReport, Written

_WIDEST, _GUTTER, _GHOST = 96, 10, "dim italic"
# Processors in use by others from which answers are slow.
_BUSY = 0.3
_DONE = {How.KEPT: "Tab", How.IGNORED: "left alone", None: "typed"}


class Screen:
    """Prints to a terminal or a pipe, or nowhere (`quiet`)."""

    def __init__(self, *, quiet: bool) -> None:
        if hasattr(sys.stdout, "reconfigure"):
            # A terminal that cannot show a mark shows a question mark instead of a traceback.
            sys.stdout.reconfigure(errors="replace")
        self.console = Console(quiet=quiet, width=min(Console().width, _WIDEST))

    def title(self, file: str, function: str, busy: float | None, problems: Sequence[str]) -> None:
        self.console.print(Text("\n lsp-calib demo ", style="bold reverse"))
        self.say(
            f"A user writes `{function}` of {file}, beside the real server with a real model. It all happens "
            "in a temporary folder on this machine."
        )
        if busy is not None and busy > _BUSY:
            used = f"other programs use {busy:.1f} of {counted(os.cpu_count() or 1, 'processor')}"
            self.say(f"This machine is busy: {used}. Answers take longer.", style="yellow")
        for problem in problems:
            self.say(problem, style="yellow")

    def waiting(self, text: str) -> Status:
        """Show a spinner during the wait, in a terminal."""
        return self.console.status(Text(text, style="dim"))

    def failure(self, text: str) -> None:
        """Print the error that ended the demo. It is not wrapped, so that a command in it can be copied."""
        self.console.print(Text.assemble("\n ", ("✗", "red"), f" {text}"), soft_wrap=True)

    def first(self, report: DemoReport) -> None:
        """The main things: a sure and right suggestion, a wrong one, one that turns, a summary, a refit."""
        by_surety = sorted(report.shown, key=lambda one: one.moments[-1].confidence or 0.0)
        right = [one for one in by_surety if one.right]
        wrong = [one for one in by_surety if not one.right and one.moments[-1].tier == "reject"]
        sure = right[-1] if right else None
        # Another line than the surest, where there is another.
        turned = next((one for one in right if len({moment.tier for moment in one.moments}) > 1), None)
        self._heading("Sure, and right")
        self._moments(sure, "No suggestion was right.", -1, "Tab takes it")
        self._heading("Wrong, and it says so")
        self._moments(wrong[0] if wrong else None, "No wrong one was marked reject.", -1, "the user meant:")
        self._row(Text(f"{'':{_GUTTER + 1}}{wrong[0].target.lstrip()}" if wrong else ""))
        self._heading("The badge turns while you type")
        self._moments(turned, "No right suggestion changed its tier.", 0, "")
        self._moments(turned, "", -1, "Tab takes it")
        self._heading(f"What does {report.hover['function']} do? The hover says")
        said, *more = report.hover["markdown"].replace("\\", "").replace("*", "").split("\n\n")
        self.say(said or "The model gave no summary.")
        self.say(more[0] if more else "", style="dim")
        self._heading("A refit on what was kept and changed")
        done = "A new calibrator is in force" if report.refit["promoted"] else "The calibrator stays"
        self.say(f"{counted(report.refit['n'], 'label')}. {done}: {report.refit['reason']}.")

    def rest(self, report: DemoReport) -> None:
        """Every line, the mark in the document, what it means, what comes next; in a terminal on Enter."""
        if self.console.is_terminal and sys.stdin.isatty():
            with contextlib.suppress(EOFError):
                self.console.input(Text("\n Enter: every line, and what the numbers mean ", style="bold"))
        self._heading("All lines")
        names = ("at first", "then", "after", "was", "the user")
        columns = (Column("", justify="right"), Column("suggestion", ratio=1), *map(Column, names))
        table = Table(*columns, box=None, padding=(0, 1), pad_edge=False, expand=True)
        for column in table.columns:
            column.no_wrap = True
        for one in report.lines:
            if one.moments:
                table.add_row(*_cells(one))
        self.console.print(Padding(table, (0, 0, 0, 1)))
        for one in [one for one in report.lines if one.moments and not one.wire][:1]:
            self.say(f"Line {one.line + 1}: {one.moments[0].reason}", style="dim")
        for mark in report.diagnostics[:1]:
            self.say(f"The mark of what was inserted, until it is saved: {mark.message}", style="dim")
        self._heading("What this means")
        for text in _meaning(report):
            self.say(text)

    def count(self, steps: Sequence[Mapping[str, Any]], ms: float) -> None:
        """Print which steps failed, and how many did not."""
        failed = ", ".join(step["name"] for step in steps if not step["ok"])
        words = f" {sum(step['ok'] for step in steps)} of {len(steps)} steps happened, in {duration(ms)}"
        if failed:
            words += f"; not as they should: {failed}"
        self.say(Text.assemble("\n", ("✗", "red") if failed else ("✓", "green"), words))

    def say(self, text: str | Text, style: str = "") -> None:
        if text:
            said = Text(text, style=style) if isinstance(text, str) else text
            self.console.print(Padding(said, (0, 0, 0, 1)))

    def _heading(self, title: str) -> None:
        self.console.print()
        self.console.rule(Text(title, style="bold"), align="left", style="dim")

    def _moments(self, one: Written | None, without: str, at: int, note: str) -> None:
        """A line as it was on the screen at one of its moments, and the badge below."""
        if one is None:
            self.say(without, style="dim")
            return
        moment = one.moments[at]
        ghost = (one.target if one.right else one.target[: one.column] + one.text)[len(moment.typed) :]
        # Without styles, the cursor separates the user's text from ghost text.
        text = Text.assemble(
            (f" {f'line {one.line + 1}':{_GUTTER}}", "dim"), moment.typed.lstrip(), ("▏", "cyan")
        )
        self._row(text.append(ghost if moment.tier else "", style=_GHOST))
        mark = badge(moment.tier, moment.confidence) if moment.tier else Text("nothing shown", style="dim")
        notes = "".join(f" · {word}" for word in (duration(moment.ms), note) if word)
        self._row(Text.assemble(" " * (_GUTTER + 1), mark, (notes, "dim")))

    def _row(self, text: Text) -> None:
        # One `print` of several texts would join them and ignore the overflow setting of each.
        self.console.print(text, no_wrap=True, overflow="ellipsis")


def _cells(one: Written) -> Iterator[str | Text]:
    shown = [moment for moment in one.moments if moment.tier]
    yield str(one.line + 1)
    yield Text(one.text or "nothing shown", style=_GHOST, overflow="ellipsis")
    for moment in (shown[0], shown[-1]) if shown else (None, None):
        # Mark and number: the tier's name is known by now.
        mark = badge(moment.tier, moment.confidence) if moment and moment.tier else Text()
        yield Text(f"{mark.plain[:1]} {mark.plain[-5:]}".strip(), style=mark.style)
    yield duration((shown or one.moments)[0].ms)
    yield (Text("right", style="green") if one.right else Text("wrong", style="red")) if one.wire else ""
    yield _DONE.get(one.action, str(one.action))


def duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _meaning(report: DemoReport) -> Iterator[str]:
    """What the tiers were worth here, what the model is worth, and what comes next."""
    parts = []
    for tier, verdict in (("accept", True), ("review", True), ("reject", False)):
        ones = [one.right for one in report.shown if one.moments[-1].tier == tier]
        if ones:
            parts.append(
                f"{len(ones)} {tier}, of which {ones.count(verdict)} {'right' if verdict else 'wrong'}"
            )
    yield f"{counted(len(report.shown), 'suggestion')} here: {'; '.join(parts)}."
    known, cards = quality(report.model), load_cards()
    if known is None:
        yield f"{report.model} has no labels yet. `lsp-calib calibrate FOLDER` fits it to your own code."
    else:
        lines, share = counted(known["n"], "line"), percent(known["right"])
        yield f"Of {lines} in the projects of its calibrator {report.model} wrote {share} exactly right."
    best, mine = next(iter(cards.values())), cards.get(report.model)
    if mine is not None and mine.parameters < best.parameters:
        yield f"A better model: `lsp-calib models pull {best.name}` ({best.size / 1e9:.1f} GB)."
    yield "Next: docs/tutorial.md. Your editor starts `lsp-calib serve`: docs/editors.md."
