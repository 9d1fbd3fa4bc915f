"""The demo's user at the keyboard: asks at each place, and reacts to the answer like a user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from lsprotocol import types

from lsp_calib.feedback.lines import shared_ends
from lsp_calib.tools.client import Document, Editor, suggestion_of
from lsp_calib.tools.demo import words
from lsp_calib.tools.demo.report import DemoReport, since
from lsp_calib.tools.demo.screen import Screen
from lsp_calib.tools.demo.user import PLACES, Action, Place, Shown, decide

# Seconds; enough on a busy machine.
ANSWER = 120.0
_REFRESH = 10.0
# A suggestion shown for less than 0.75 s counts as unread; leaving it alone would give no label.
_READING = 1.0
_BETWEEN_KEYS = 0.015

_Show = Callable[[str, str], None]


class Writer:
    """Rewrites the lines of `PLACES`; all events go to the report and to the screen."""

    def __init__(self, editor: Editor, document: Document, screen: Screen, report: DemoReport) -> None:
        self._editor = editor
        self._document = document
        self._screen = screen
        self._report = report
        self._original = tuple(document.lines)

    async def write(self) -> None:
        """Visit all places. Keep at least one suggestion if there is any; leave the last one alone."""
        *places, last = PLACES
        for place in places:
            await self._visit(place, last_chance=place is places[-1])
        if not any(one.action is Action.KEPT for one in self._report.suggestions):
            await self._keep_anyway(places)
        await self._visit(last, action=Action.LEFT_ALONE)

    async def _visit(self, place: Place, *, last_chance: bool = False, action: Action | None = None) -> None:
        """Write one line: ask there, and react to the answer as the user would, or as `action` demands."""
        document, past = self._document, list(self._report.suggestions)
        line, column = place.find(self._original)
        expected = self._original[line][column:]
        document.replace(line, column, len(document.lines[line]), "")
        started = time.perf_counter()
        with self._screen.waiting(f"line {line + 1}: asking the model"):
            item = await document.complete(line, column, ANSWER)
        ms, before = since(started), document.lines[line]
        if item is None and (why := await self._hidden(line)):
            self._screen.hidden(line, before, why, ms)
            started = time.perf_counter()
            with self._screen.waiting(f"line {line + 1}: asking by hand"):
                item = await document.complete(line, column, ANSWER, by_hand=True)
            ms = since(started)
        wire = suggestion_of(item)
        if item is None or wire is None:
            self._screen.nothing(line, before, ms)
            document.replace(line, column, column, expected)
            return
        shown = Shown(line, column, before, expected, wire, ms)
        shown.action = action or decide(shown, past, last_chance=last_chance)
        # The server's memory may offer a suggestion a second time; the last outcome counts.
        self._report.suggestions[:] = [*(one for one in past if one.id != shown.id), shown]
        started = time.perf_counter()
        with self._screen.typing(shown) as show:
            await self._act(shown, item, show)
        shown.spent_ms = since(started)
        self._screen.outcome(shown, document.lines[line])

    async def _hidden(self, line: int) -> str:
        """Why the server hides the suggestion that was asked for last; empty if it hides none."""
        explained = await self._editor.command("lsp-calib.explain", {"uri": self._document.uri})
        if not isinstance(explained, dict) or explained.get("reason") != "hidden":
            return ""
        why = str(explained["message"])
        self._report.hidden.append({"line": line + 1, "message": why})
        return why

    async def _act(self, shown: Shown, item: types.InlineCompletionItem, show: _Show) -> None:
        # Give a person time to read; output to a pipe needs no pause.
        reading = _READING if self._screen.alive else 0.0
        match shown.action:
            case Action.LEFT_ALONE:
                await asyncio.sleep(_READING)
            case Action.TYPED_OVER:
                await asyncio.sleep(reading)
                await self._type(shown.line, shown.column, shown.expected, show)
            case Action.EDITED:
                await asyncio.sleep(reading)
                await self._insert(shown, item, show)
                await asyncio.sleep(reading)
                await self._edit(shown, show)
            case _:
                await asyncio.sleep(reading)
                await self._insert(shown, item, show)

    async def _insert(self, shown: Shown, item: types.InlineCompletionItem, show: _Show) -> None:
        """Accept as an editor does on Tab: insert the text, run the item's command, pull diagnostics."""
        refreshes = self._editor.refreshes
        assert item.command is not None
        self._document.replace(shown.line, shown.column, shown.column, shown.text)
        show(self._document.lines[shown.line], "")
        await self._editor.command(item.command.command, *(item.command.arguments or ()))
        await self._editor.until(
            lambda: self._editor.refreshes > refreshes, "its request to pull diagnostics", _REFRESH
        )
        self._report.diagnostics += await self._diagnostics_about(shown)

    async def _edit(self, shown: Shown, show: _Show) -> None:
        """Replace the wrong part with the intended text. The first change removes the diagnostic."""
        line = shown.line
        inserted, target = self._document.lines[line], self._original[line]
        start, end = shared_ends(inserted, target)
        self._document.replace(line, start, len(inserted) - end, "")
        await self._type(line, start, target[start : len(target) - end], show)
        self._report.stale += [shown.id for _ in await self._diagnostics_about(shown)]

    async def _diagnostics_about(self, shown: Shown) -> list[types.Diagnostic]:
        return [one for one in await self._document.diagnostics() if about(one) == shown.id]

    async def _type(self, line: int, at: int, text: str, show: _Show) -> None:
        """Type one character after the other, as on a keyboard. The first one removes the ghost text."""
        for offset, char in enumerate(text):
            self._document.replace(line, at + offset, at + offset, char)
            show(self._document.lines[line], "")
            await asyncio.sleep(_BETWEEN_KEYS if self._screen.alive else 0.0)

    async def _keep_anyway(self, places: list[Place]) -> None:
        """If none was right: save, return to the place of the most confident one, and keep its suggestion."""
        if not self._report.suggestions:
            return
        best = max(self._report.suggestions, key=lambda one: one.wire["confidence"] or 0.0)
        self._screen.none_right(words.NONE_RIGHT)
        # Save now to settle the suggestions that were typed over, before one of them is kept.
        self._document.save()
        place = next(place for place in places if place.find(self._original)[0] == best.line)
        await self._visit(place, action=Action.KEPT_ANYWAY)


def about(diagnostic: types.Diagnostic) -> str | None:
    """The id of the suggestion that a diagnostic is about."""
    data = diagnostic.data
    return data.get("id") if isinstance(data, dict) else None
