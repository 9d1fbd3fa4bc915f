"""The output of the demo for people. It knows no server: it only shows the facts it is given."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lsprotocol import types
from rich import box
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.panel import Panel
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from lsp_calib.badges import counted, percent
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.commands.printing import badge
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.tools.demo.user import CURSOR, Action, Shown

_WIDEST = 96
_GUTTER = 10
_GHOST = "dim italic"

_DONE = {
    Action.KEPT: ("kept", "green", "just what the user meant"),
    Action.KEPT_ANYWAY: ("kept", "yellow", "not what was meant, but the best of all"),
    Action.TYPED_OVER: ("typed", "cyan", "the user typed over it"),
    Action.EDITED: ("edited", "cyan", "inserted, then edited into what was meant"),
    Action.LEFT_ALONE: ("left", "cyan", "the user saw it, and left it alone"),
}
_FAILED = {
    "complete": "too few suggestions: the model had nothing to offer at most places",
    "keep": "keep: no suggestion was kept and labelled as kept",
    "type over": "type over: no suggestion was wrong, or its label does not say that it was typed over",
    "edit": "edit: no suggestion was inserted and then edited, or its label does not say so",
    "leave alone": "leave alone: the label does not say that the line was left alone",
    "diagnose": "diagnose: the diagnostics are not those of the inserted suggestions",
    "settle": "settle: not every suggestion has its label",
    "refit": "refit: it compared no calibrators on the labels above",
    "ask again": "ask again: the answer was not assessed by the new calibrator",
}
_MEASURES = {
    "logLoss": "log loss (lower is better)",
    "brier": "Brier score (lower is better)",
    "meanConfidence": "mean confidence",
}
_SEVERITY = {1: "error", 2: "warning", 3: "information", 4: "hint"}


class Screen:
    """Prints to a terminal or a pipe, or nowhere (`quiet`)."""

    def __init__(self, *, quiet: bool) -> None:
        if hasattr(sys.stdout, "reconfigure"):
            # A terminal that cannot show a mark shows a question mark instead of a traceback.
            sys.stdout.reconfigure(errors="replace")
        console = Console(quiet=quiet)
        self.console = Console(quiet=quiet, width=min(console.width, _WIDEST))
        self._section = 0

    def title(self, text: str) -> None:
        self.console.print()
        self.console.print(Text(" lsp-calib demo ", style="bold reverse"))
        self.say(text)

    def section(self, title: str, text: str = "") -> None:
        self._section += 1
        self.console.print()
        self.console.rule(Text(f"{self._section} · {title}", style="bold"), align="left", style="dim")
        if text:
            self.say(text, style="dim")

    def say(self, text: str | Text, style: str = "") -> None:
        self.console.print(Padding(Text(text, style=style) if isinstance(text, str) else text, (0, 0, 0, 1)))

    def paragraph(self, text: str, style: str = "") -> None:
        self.console.print()
        self.say(text, style)

    def check(self, ok: bool, text: str, ms: float | None = None) -> None:
        """Print a step as done or failed, with its time at the right edge."""
        columns = (Column(width=1), Column(ratio=1), Column(justify="right", no_wrap=True))
        line = Table.grid(*columns, expand=True, padding=(0, 1))
        mark = Text("✓", style="green") if ok else Text("✗", style="red")
        line.add_row(mark, text, Text("" if ms is None else duration(ms), style="dim"))
        self.console.print(Padding(line, (0, 0, 0, 1)))

    def failure(self, text: str) -> None:
        """Print the error that ended the demo. It is not wrapped, so that a command in it can be copied."""
        self.console.print()
        self.console.print(Text.assemble(" ", ("✗", "red"), f" {text}"), soft_wrap=True)

    def waiting(self, text: str) -> Status:
        """Show a spinner during the wait, in a terminal."""
        return self.console.status(Text(text, style="dim"))

    def outcome(self, shown: Shown, line: str) -> None:
        """Print a suggestion as it was shown, and the final line."""
        assert shown.action is not None
        word, colour, reason = _DONE[shown.action]
        rewritten = shown.action in (Action.TYPED_OVER, Action.EDITED)
        self.console.print()
        self._row(self._line(f"line {shown.line + 1}", shown.before, shown.text))
        mark = badge(shown.wire["tier"], shown.wire["confidence"])
        label, rest = "" if rewritten else word, f" · {duration(shown.ms)} · {reason}"
        self._row(Text.assemble((f" {label:<{_GUTTER}}", colour), mark, (rest, "dim")))
        if rewritten:
            self._row(self._line(word, line, None, colour))

    def nothing(self, line: int, before: str, ms: float, why: str, then: str) -> None:
        """Print that no suggestion is there, why, and what the user does then."""
        self.console.print()
        self._row(self._line(f"line {line + 1}", before, ""))
        words = f"no suggestion · {duration(ms)} · the user {then}"
        self._row(Text(" " * (_GUTTER + 1) + words, style="dim"))
        self.say(why, style="dim")

    def diagnostics(self, file: str, found: Sequence[types.Diagnostic]) -> None:
        """Print diagnostics like the list of problems in an editor."""
        self.console.print()
        for one in found:
            severity = _SEVERITY.get(one.severity or 0, "")
            where = f"{file}:{one.range.start.line + 1}:{one.range.start.character + 1}"
            self.say(Text.assemble((where, "bold"), (f"  {severity} · {one.source}({one.code})", "dim")))
            tier = badge(str(one.code), None)
            message = Text.assemble((tier.plain[:1], tier.style), f" {one.message}")
            self.console.print(Padding(message, (0, 0, 0, 3)))

    def hover(self, title: str, markdown: str) -> None:
        panel = Panel(
            Markdown(markdown), title=Text(title), title_align="left", border_style="dim", box=box.ROUNDED
        )
        self.console.print(Padding(panel, (0, 0, 0, 1)))

    def labels(self, shown: Sequence[Shown]) -> None:
        table = _new_table(
            Column("line", justify="right"),
            Column("suggestion", no_wrap=True, ratio=1),
            *(Column(title, no_wrap=True) for title in ("marked", "became", "label")),
        )
        for one in shown:
            label = one.label or {"how": "nothing yet", "correct": None}
            table.add_row(
                str(one.line + 1),
                Text(one.text, style=_GHOST, overflow="ellipsis"),
                badge(one.wire["tier"], one.wire["confidence"]),
                str(label["how"]),
                _correct(label["correct"]),
            )
        table.expand = True
        self._table(table)

    def refit(self, result: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> None:
        if result["before"] and result["after"]:
            numbers = (Column(title, justify="right") for title in ("before", "after"))
            table = _new_table(f"on {result['n']} labels, unseen by both", *numbers)
            for key, words in _MEASURES.items():
                table.add_row(words, _number(result["before"].get(key)), _number(result["after"].get(key)))
            self._table(table)
        if changes:
            self.paragraph("What it changed, for the same suggestions:")
            table = _new_table(Column("raw", justify="right"), "before", "", "after", "it was")
            for one in changes:
                table.add_row(
                    f"{one['raw']:.2f}",
                    badge(one["tierBefore"], one["before"]),
                    Text("→", style="dim"),
                    badge(one["tierAfter"], one["after"]),
                    _correct(one["correct"]),
                )
            self._table(table)

    def again(self, before: Shown, now: Mapping[str, Any]) -> None:
        """Print the answer to the same question with the new calibrator."""
        what = "makes the same suggestion" if now["text"] == before.text else f"suggests {now['text']!r}"
        was = before.wire["confidence"]
        self.paragraph(
            f"Line {before.line + 1} was left unchanged. Asked there again, the server {what}, with "
            f"{percent(now['confidence'])} instead of {'nothing' if was is None else percent(was)}."
        )

    def meaning(self, shown: Sequence[Shown], calibrator: Calibrator) -> None:
        """Print the meaning of the numbers, and the next steps."""
        self.section("What this means")
        for text in (_judged(shown), _quality(shown, calibrator), *_next(shown)):
            self.paragraph(text)

    def count(self, steps: Sequence[Mapping[str, Any]], ms: float) -> None:
        """Print which steps failed, and how many did not."""
        done = sum(step["ok"] for step in steps)
        self.console.print()
        for step in steps:
            if not step["ok"]:
                self.check(False, _FAILED.get(step["name"], f"{step['name']}: the step failed"))
        self.check(done == len(steps), f"{done} of {len(steps)} steps happened", ms)

    def _row(self, text: Text) -> None:
        # One `print` of several texts would join them and ignore the overflow setting of each.
        self.console.print(text, no_wrap=True, overflow="ellipsis")

    def _line(self, label: str, line: str, ghost: str | None, colour: str = "dim") -> Text:
        text = Text.assemble((f" {label:<{_GUTTER}}", colour), line.lstrip())
        if ghost is not None:
            # Without styles, the cursor separates the user's text from ghost text.
            text.append(CURSOR, style="cyan")
            text.append(ghost, style=_GHOST)
        return text

    def _table(self, table: Table) -> None:
        self.console.print()
        self.console.print(Padding(table, (0, 0, 0, 2)))


def _new_table(*columns: Column | str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)


def duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _correct(value: bool | None) -> Text:
    if value is None:
        return Text("says nothing", style="dim")
    return Text("✓ right", style="green") if value else Text("✗ wrong", style="red")


def _judged(shown: Sequence[Shown]) -> str:
    tiers = {
        tier: [one for one in shown if one.wire["tier"] == tier] for tier in ("accept", "review", "reject")
    }
    by_tier = ", ".join(f"{len(ones)} {tier}" for tier, ones in tiers.items())
    rejected = tiers["reject"]
    wrong = sum(not one.right for one in rejected)
    judged = f"{counted(len(shown), 'suggestion')}: {by_tier}."
    if rejected:
        judged += f" Of the {len(rejected)} marked reject, {wrong} {'was' if wrong == 1 else 'were'} wrong"
        judged += ": rightly rejected." if wrong == len(rejected) else "."
    return judged


def _quality(shown: Sequence[Shown], calibrator: Calibrator) -> str:
    model = shown[0].wire["model"] if shown else calibrator.purpose.model.name
    if not calibrator.n:
        known = f"{model} has no labels yet: it is not calibrated, and never above review."
    else:
        share = calibrator.n_correct / calibrator.n
        known = (
            f"On {calibrator.n} lines of real source, {percent(share)} of what {model} suggested was "
            "exactly right. Most is marked reject, and should be: a weak model that says so is still useful."
        )
    return f"{known} The places here were chosen to show every case; they are no measurement."


def _next(shown: Sequence[Shown]) -> list[str]:
    words = ["Next: let your editor start `lsp-calib serve`; editor-configs/ has VS Code, Neovim and others."]
    cards = load_cards()
    mine = cards.get(shown[0].wire["model"]) if shown else None
    best = next(iter(cards.values()))
    if mine is not None and best.size > mine.size:
        words.append(
            f"A better model: `lsp-calib models pull {best.name}` ({best.size / 1e9:.1f} GB); this demo then "
            f"uses it."
        )
    return words
