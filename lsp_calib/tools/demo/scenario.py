"""`lsp-calib demo`: the main job, end to end, as an editor and its user would do it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types

import lsp_calib
from lsp_calib.badges import DOTS
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.characters import shared_ends
from lsp_calib.errors import LspCalibError, ModelError, NoModelError
from lsp_calib.inference.models.cards import choose
from lsp_calib.settings import Settings, resolve
from lsp_calib.terminal import tell
from lsp_calib.tools.client import SERVER, Document, Editor, suggestion_of
from lsp_calib.tools.demo.screen import Screen
from lsp_calib.tools.demo.user import (
    FILE,
    HOVERED,
    PLACES,
    Action,
    DemoReport,
    Place,
    Shown,
    StateReader,
    decide,
    line_of,
    since,
)

T = TypeVar("T")

# Seconds; enough on a busy machine.
_LOAD, _ANSWER, _REFIT, _SETTLE, _STORED, _REFRESHED = 180.0, 120.0, 60.0, 10.0, 10.0, 10.0
# A suggestion shown for less than 0.75 s counts as unread; leaving it alone would give no label.
_READING = 1.0

_STATES = ("ready", "noModel", "error")
_PARTS = {
    "keep": (Action.KEPT, Action.KEPT_ANYWAY),
    "type over": (Action.TYPED_OVER,),
    "edit": (Action.EDITED,),
    "leave alone": (Action.LEFT_ALONE,),
}
_INSERTED = (Action.KEPT, Action.KEPT_ANYWAY, Action.EDITED)


def run(*, as_json: bool, model: str | None) -> int:
    """Show the whole path in a terminal, or report it as JSON; returns the exit code.

    0 only if every step succeeded, 4 without a model, an error's exit code if it ended the demo, else 1.
    """
    # Errors are reported below, once; pygls would log them as well.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    screen, report = Screen(quiet=as_json), DemoReport()
    code = 0
    with tempfile.TemporaryDirectory(prefix="lsp-calib-demo-", ignore_cleanup_errors=True) as scratch:
        try:
            asyncio.run(_Demo(screen, report, Path(scratch), model).tell())
        except LspCalibError as error:
            report.error, code = str(error), error.exit_code
            screen.failure(report.error)
    if as_json:
        print(json.dumps(report.to_json(), indent=2))
        if report.error is not None:
            tell(f"lsp-calib: {report.error}")
    return code or (0 if report.ok else 1)


class _Writer:
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
            item = await document.complete(line, column, _ANSWER)
        ms, before = since(started), document.lines[line]
        reason, why = await self._explained()
        if item is None and reason == "hidden":
            self._screen.nothing(line, before, ms, why, "asks by hand")
            started = time.perf_counter()
            with self._screen.waiting(f"line {line + 1}: asking by hand"):
                item = await document.complete(line, column, _ANSWER, by_hand=True)
            ms, hidden = since(started), why
            _, why = await self._explained()
            self._report.hidden.append({"line": line + 1, "message": hidden, "byHand": why or None})
        wire = suggestion_of(item)
        if item is None or wire is None:
            self._screen.nothing(line, before, ms, why, "types on")
            document.replace(line, column, column, expected)
            return
        shown = Shown(line, column, before, expected, wire, ms)
        shown.action = action or decide(shown, past, last_chance=last_chance)
        # The server's memory may offer a suggestion a second time; the last outcome counts.
        self._report.suggestions[:] = [*(one for one in past if one.id != shown.id), shown]
        started = time.perf_counter()
        await self._act(shown, item)
        shown.spent_ms = since(started)
        self._screen.outcome(shown, document.lines[line])

    async def _explained(self) -> tuple[str, str]:
        """Why there was no suggestion at the last request: key and message; empty if there was one."""
        explained = await self._editor.command("lsp-calib.explain", {"uri": self._document.uri})
        if not isinstance(explained, dict):
            return "", ""
        return str(explained["reason"]), str(explained["message"])

    async def _act(self, shown: Shown, item: types.InlineCompletionItem) -> None:
        if shown.action is Action.LEFT_ALONE:
            await asyncio.sleep(_READING)
        elif shown.action is Action.TYPED_OVER:
            self._type(shown.line, shown.column, shown.expected)
        else:
            await self._insert(shown, item)
        if shown.action is Action.EDITED:
            await self._edit(shown)

    async def _insert(self, shown: Shown, item: types.InlineCompletionItem) -> None:
        """Accept as an editor does on Tab: insert the text, run the item's command, pull diagnostics."""
        refreshes = self._editor.refreshes
        assert item.command is not None
        self._document.replace(shown.line, shown.column, shown.column, shown.text)
        await self._editor.command(item.command.command, *(item.command.arguments or ()))
        await self._editor.until(
            lambda: self._editor.refreshes > refreshes, "its request to pull diagnostics", _REFRESHED
        )
        self._report.diagnostics += await self._diagnostics_about(shown)

    async def _edit(self, shown: Shown) -> None:
        """Replace the wrong part with the intended text. The first change removes the diagnostic."""
        line = shown.line
        inserted, target = self._document.lines[line], self._original[line]
        start, end = shared_ends(inserted, target)
        self._document.replace(line, start, len(inserted) - end, "")
        self._type(line, start, target[start : len(target) - end])
        self._report.stale += [shown.id for _ in await self._diagnostics_about(shown)]

    async def _diagnostics_about(self, shown: Shown) -> list[types.Diagnostic]:
        return [one for one in await self._document.diagnostics() if about(one) == shown.id]

    def _type(self, line: int, at: int, text: str) -> None:
        """Type one character after the other, as on a keyboard. The first one removes the ghost text."""
        for offset, char in enumerate(text):
            self._document.replace(line, at + offset, at + offset, char)

    async def _keep_anyway(self, places: list[Place]) -> None:
        """If none was right: save, return to the place of the most confident one, and keep its suggestion."""
        if not self._report.suggestions:
            return
        best = max(self._report.suggestions, key=lambda one: one.wire["confidence"] or 0.0)
        self._screen.paragraph(
            "No suggestion was what the user meant. "
            "The most confident one is requested again and kept anyway.",
            style="yellow",
        )
        # Save now to settle the suggestions that were typed over, before one of them is kept.
        self._document.save()
        place = next(place for place in places if place.find(self._original)[0] == best.line)
        await self._visit(place, action=Action.KEPT_ANYWAY)


class _Demo:
    """One run. Server and state live in `scratch`: the user's feedback and calibrators stay as they are."""

    document: Document
    """Open from `_write` on."""

    def __init__(self, screen: Screen, report: DemoReport, scratch: Path, model: str | None) -> None:
        self.screen = screen
        self.report = report
        self.home = scratch / "home"
        self.folder = scratch / "project"
        self.folder.mkdir()
        self.trusted, self.problems = resolve(Settings(model=model))
        self.editor = Editor()

    async def tell(self) -> None:
        started = time.perf_counter()
        self.screen.title(
            "A language server, a client that behaves as an editor does, and a real model. Everything "
            "happens in a temporary folder: your own feedback and calibrators stay as they are. Nothing "
            "leaves this machine."
        )
        try:
            await self._start()
            await self._write()
            self._show_diagnostics()
            await self._hover()
            evidence = await self._settle()
            await self._refit(evidence)
            await self._end()
        finally:
            await self.editor.close()
        self.screen.meaning(self.report.suggestions, evidence.shipped())
        self.screen.count(self.report.steps, since(started))

    async def _start(self) -> None:
        self.screen.section(
            "Start the server",
            "`lsp-calib serve`, over standard input and output, as an editor would start it.",
        )
        for problem in self.problems:
            self.screen.say(problem, style="yellow")
        # The folder is removed at the end of the demo, so no process may outlive it.
        env = {**os.environ, "LSP_CALIB_HOME": str(self.home), "LSP_CALIB_LINGER": "0"}
        if (model := self._model()) is not None:
            env["LSP_CALIB_MODEL"] = model
        trusted = {"threads": self.trusted.threads, "gpuLayers": self.trusted.gpu_layers}
        with self.report.step("initialize") as step:
            await self.editor.start(SERVER, env=env, cwd=self.folder)
            offered = (await self.editor.open_session(self.folder, {"trusted": trusted})).capabilities
            commands = offered.execute_command_provider.commands if offered.execute_command_provider else []
            step["ok"] = bool(
                offered.inline_completion_provider
                and offered.hover_provider
                and offered.diagnostic_provider
                and {"lsp-calib.accepted", "lsp-calib.refit"} <= set(commands)
            )
        self.screen.check(step["ok"], "it answered `initialize`", step["ms"])
        with self.report.step("load model") as step:
            with self.screen.waiting("loading the model"):
                await self.editor.until(lambda: self.editor.state in _STATES, "loading the model", _LOAD)
            step["percentages"] = self.editor.percentages
            if self.editor.state != "ready":
                raise ModelError(" ".join(self.editor.messages) or self.editor.state_message)
            # After the first "ready" the server sends another status, with the calibrator.
            status = await self.editor.command("lsp-calib.status")
            step["model"] = status["model"]
            # A message on a setting: the server does not do what it was started for.
            obeyed = not any("lspCalib." in message for message in self.editor.messages)
            step["ok"] = status["state"] == "ready" and bool(status["model"]) and obeyed
        self.screen.check(step["ok"], self.editor.state_message, step["ms"])

    def _model(self) -> str | None:
        """The model's path, since the server's scratch state folder contains no models."""
        try:
            card, path = choose(self.trusted.model)
            self.screen.say(f"The model is {card.name}.", style="dim")
            return str(path.absolute())
        except NoModelError:
            # The server itself has to report this.
            return self.trusted.model

    async def _write(self) -> None:
        source = Path(lsp_calib.__file__).parent / FILE
        path = self.folder / source.name
        shutil.copyfile(source, path)
        self.document = document = Document(self.editor, path, "python")
        self.screen.section(
            "Write code",
            f"{path.name} ({len(document.lines)} lines). The user rewrites {len(PLACES)} of its lines and "
            "knows what each should be. A suggestion that matches is kept; others are typed over or edited.",
        )
        with self.report.step("complete") as step:
            await _Writer(self.editor, document, self.screen, self.report).write()
            ids = {one.id for one in self.report.suggestions}
            step["n"] = len(ids)
            step["places"] = len(PLACES)
            step["ok"] = len(ids) == len(self.report.suggestions) and len(ids) > len(PLACES) // 2

    def _show_diagnostics(self) -> None:
        """Check the diagnostics: one for each inserted suggestion, with its tier, until an edit."""
        self.screen.section(
            "Diagnostics",
            "As the editor pulled them when a suggestion was inserted, before its line was changed or saved.",
        )
        inserted = {one.id: one.wire["tier"] for one in self.report.suggestions if one.action in _INSERTED}
        with self.report.step("diagnose") as step:
            told = {about(one): one.code for one in self.report.diagnostics}
            step["n"] = len(told)
            step["ok"] = bool(told) and told == inserted and not self.report.stale
        self.screen.diagnostics(self.document.path.name, self.report.diagnostics)

    async def _hover(self) -> None:
        document = self.document
        line = line_of(document.lines, HOVERED)
        what = f"A summary of `{HOVERED}`, made while you wait, and how far to trust it."
        self.screen.section("Hover over a function", what)
        with self.report.step("hover") as step, self.screen.waiting("reading the function"):
            deadline, polls, tier, value = time.monotonic() + _ANSWER, 0, None, ""
            while tier is None and time.monotonic() < deadline:
                polls += 1
                hover = await document.hover(line, len("def "), _ANSWER)
                if hover is None:
                    break
                value = hover.contents.value if isinstance(hover.contents, types.MarkupContent) else ""
                tier = next((name for name, dot in DOTS.items() if f"\n{dot} " in value), None)
            summary = value.split("\n\n")[0].replace("\\", "")
            self.report.hover = {
                "function": HOVERED,
                "line": line + 1,
                "summary": summary,
                "tier": tier,
                "markdown": value,
            }
            step["polls"] = polls
            step["ok"] = tier is not None and bool(summary.strip())
        self.screen.hover(f"def {HOVERED}", value or "The model gave no summary.")

    async def _settle(self) -> StateReader:
        """Save and close the file, and read the resulting labels from the store."""
        self.screen.section(
            "Save and close: suggestions become labels",
            "Saving says whether each suggestion was right, and closing the file it of those still on the "
            "screen. The server saw only the changes to the document; the feedback store holds numbers and "
            "no source text.",
        )
        evidence = StateReader(self.home)
        shown = self.report.suggestions
        with self.report.step("settle") as step, self.screen.waiting("waiting for the feedback store"):
            self.document.save()
            self.document.close()
            await _found(lambda: evidence.label(shown), _SETTLE)
            self.document.open()
            step["n"] = sum(one.label is not None for one in shown)
            step["ok"] = bool(shown) and step["n"] == len(shown)
        for name, actions in _PARTS.items():
            mine = [one for one in shown if one.action in actions]
            self.report.steps.append(
                {
                    "name": name,
                    "ok": bool(mine) and all(one.labelled_as_expected for one in mine),
                    "ms": round(sum(one.spent_ms for one in mine), 1),
                    "n": len(mine),
                }
            )
        self.screen.labels(shown)
        return evidence

    async def _refit(self, evidence: StateReader) -> None:
        self.screen.section(
            "Refit",
            "`lsp-calib.refit` fits the calibrator to this user, and keeps the result only on evidence.",
        )
        # Repeated suggestions for one line, without leaving it, count once.
        known = {
            one.label["episode"]
            for one in self.report.suggestions
            if one.label and one.label["correct"] is not None
        }
        with self.report.step("refit") as step, self.screen.waiting("fitting"):
            result: dict[str, Any] = await self.editor.command("lsp-calib.refit", seconds=_REFIT)
            refitted, changes = evidence.refitted(result)
            step["n"] = result["n"]
            # The refit compared on exactly these labels; if promoted, the new calibrator is in use.
            step["ok"] = (
                result["n"] == len(known)
                and result["before"] is not None
                and result["after"] is not None
                and result["promoted"] == (refitted is not None)
            )
        self.report.refit = {**result, "changes": changes}
        done = "A new calibrator is in force" if result["promoted"] else "The calibrator stays as it was"
        self.screen.paragraph(f"{done} (n = {result['n']}): {result['reason']}.")
        self.screen.refit(result, changes)
        if refitted is not None:
            await self._ask_again(refitted, evidence)

    async def _ask_again(self, calibrator: Calibrator, evidence: StateReader) -> None:
        """Ask again at the unchanged line: the same question, now with the new calibrator."""
        left = next((one for one in self.report.suggestions if one.action is Action.LEFT_ALONE), None)
        if left is None:
            return
        with self.report.step("ask again") as step, self.screen.waiting("asking once more"):
            item = await self.document.complete(left.line, left.column, _ANSWER, by_hand=True)
            now = suggestion_of(item) or {}
            step["suggestion"] = now
            if now and now["confidence"] is not None:
                due = await _found(lambda: evidence.probability(calibrator, now["id"]), _STORED)
                step["ok"] = (
                    now["calibrator"]["id"] == calibrator.id
                    and due is not None
                    # The store rounds to five digits.
                    and abs(now["confidence"] - due) < 1e-3
                )
        if step["ok"]:
            self.screen.again(left, now)

    async def _end(self) -> None:
        with self.report.step("shutdown") as step:
            step["exitCode"] = await self.editor.quit()
            step["ok"] = step["exitCode"] == 0


async def _found(look: Callable[[], T], seconds: float) -> T:
    """What is found, once it is something, or after some seconds: the store is written a little later."""
    deadline = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return found


def about(diagnostic: types.Diagnostic) -> str | None:
    """The id of the suggestion that a diagnostic is about."""
    data = diagnostic.data
    return data.get("id") if isinstance(data, dict) else None
