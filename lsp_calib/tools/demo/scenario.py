"""`lsp-calib demo`: the main job, end to end, as an editor and its user would do it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lsprotocol import types

import lsp_calib
from lsp_calib.badges import tier_shown
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.errors import LspCalibError, ModelError, NoModelError
from lsp_calib.inference.models.cards import choose, explained
from lsp_calib.settings import Trusted, resolve_trusted
from lsp_calib.tools.client import SERVER, Document, Editor, suggestion_of
from lsp_calib.tools.demo import words
from lsp_calib.tools.demo.evidence import StateReader
from lsp_calib.tools.demo.report import DemoReport, since
from lsp_calib.tools.demo.screen import Screen
from lsp_calib.tools.demo.user import FILE, HOVERED, PLACES, Action, line_of
from lsp_calib.tools.demo.writing import ANSWER, Writer, about

# Seconds; enough on a busy machine.
_LOAD, _HOVER, _REFIT, _SETTLE, _STORED = 180.0, 120.0, 60.0, 10.0, 10.0

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
            print(f"lsp-calib: {report.error}", file=sys.stderr)
    return code or (0 if report.ok else 1)


class _Demo:
    """One run. Server and state live in `scratch`: the user's feedback and calibrators stay as they are."""

    def __init__(self, screen: Screen, report: DemoReport, scratch: Path, model: str | None) -> None:
        self.screen = screen
        self.report = report
        self.home = scratch / "home"
        self.folder = scratch / "project"
        self.folder.mkdir()
        self.trusted, self.problems = resolve_trusted(Trusted(model=model), Trusted())
        self.editor = Editor(screen.load_progress)
        self.document: Document | None = None

    async def tell(self) -> None:
        started = time.perf_counter()
        self.screen.title(words.INTRODUCTION)
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
        self.screen.section("What this means")
        for text in words.closing(self.report.suggestions, evidence.shipped()):
            self.screen.paragraph(text)
        self._count(since(started))

    def _count(self, ms: float) -> None:
        steps = self.report.steps
        done = sum(step["ok"] for step in steps)
        self.screen.console.print()
        for step in steps:
            if not step["ok"]:
                self.screen.check(False, words.failed(step["name"]))
        self.screen.check(done == len(steps), f"{done} of {len(steps)} steps happened", ms)

    async def _start(self) -> None:
        self.screen.section("Start the server", words.START)
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
            with self.screen.loading("loading the model"):
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
            self.screen.say(explained(self.trusted.model, card), style="dim")
            return str(path.absolute())
        except NoModelError:
            # The server itself has to report this.
            return self.trusted.model

    async def _write(self) -> None:
        source = Path(lsp_calib.__file__).parent / FILE
        path = self.folder / source.name
        shutil.copyfile(source, path)
        self.document = document = Document(self.editor, path, "python")
        task = words.WRITE.format(file=path.name, n=len(document.lines), places=len(PLACES))
        self.screen.section("Write code", task)
        with self.report.step("complete") as step:
            await Writer(self.editor, document, self.screen, self.report).write()
            ids = {one.id for one in self.report.suggestions}
            step["n"] = len(ids)
            step["places"] = len(PLACES)
            step["ok"] = len(ids) == len(self.report.suggestions) and len(ids) > len(PLACES) // 2

    def _show_diagnostics(self) -> None:
        """Check the diagnostics: one for each inserted suggestion, with its tier, until an edit."""
        self.screen.section("Diagnostics", words.DIAGNOSTICS)
        inserted = {one.id: one.wire["tier"] for one in self.report.suggestions if one.action in _INSERTED}
        with self.report.step("diagnose") as step:
            told = {about(one): one.code for one in self.report.diagnostics}
            step["n"] = len(told)
            step["ok"] = bool(told) and told == inserted and not self.report.stale
        self.screen.diagnostics(self._document().path.name, self.report.diagnostics)

    async def _hover(self) -> None:
        document = self._document()
        line = line_of(document.lines, HOVERED)
        self.screen.section("Hover over a function", words.HOVER.format(function=HOVERED))
        with self.report.step("hover") as step, self.screen.waiting("reading the function"):
            deadline, polls, tier, value = time.monotonic() + _HOVER, 0, None, ""
            while tier is None and time.monotonic() < deadline:
                polls += 1
                hover = await document.hover(line, len("def "), _HOVER)
                if hover is None:
                    break
                value = hover.contents.value if isinstance(hover.contents, types.MarkupContent) else ""
                tier = tier_shown(value)
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
        self.screen.hover(f"def {HOVERED}", value or words.NO_SUMMARY)

    async def _settle(self) -> StateReader:
        """Save and close the file, and read the resulting labels from the store."""
        self.screen.section("Save and close: suggestions become labels", words.SAVE)
        evidence = StateReader(self.home)
        shown = self.report.suggestions
        with self.report.step("settle") as step, self.screen.waiting("waiting for the feedback store"):
            self._document().save()
            self._document().reopen()
            deadline = time.monotonic() + _SETTLE
            while not all(one.label for one in shown) and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
                labels = evidence.labels()
                for one in shown:
                    one.label = labels.get(one.id)
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
        self.screen.section("Refit", words.REFIT)
        # Repeated suggestions for one line, without leaving it, count once.
        known = {
            one.label["episode"]
            for one in self.report.suggestions
            if one.label and one.label["correct"] is not None
        }
        with self.report.step("refit") as step, self.screen.waiting("fitting"):
            result: dict[str, Any] = await self.editor.command("lsp-calib.refit", seconds=_REFIT)
            refitted = evidence.refitted(result)
            step["n"] = result["n"]
            # The refit compared on exactly these labels; if promoted, the new calibrator is in use.
            step["ok"] = (
                result["n"] == len(known)
                and result["before"] is not None
                and result["after"] is not None
                and result["promoted"] == (refitted is not None)
            )
        self.report.refit = {**result, "changes": refitted.changes if refitted else []}
        self.screen.paragraph(words.refitted(result))
        self.screen.refit(result, self.report.refit["changes"])
        if refitted is not None:
            await self._ask_again(refitted.calibrator, evidence)

    async def _ask_again(self, calibrator: Calibrator, evidence: StateReader) -> None:
        """Ask again at the unchanged line: the same question, now with the new calibrator."""
        left = next((one for one in self.report.suggestions if one.action is Action.LEFT_ALONE), None)
        if left is None:
            return
        with self.report.step("ask again") as step, self.screen.waiting("asking once more"):
            now = suggestion_of(await self._asked_by_hand(left.line, left.column)) or {}
            step["suggestion"] = now
            if now and now["confidence"] is not None:
                due = await self._due(calibrator, evidence, now["id"])
                step["ok"] = (
                    now["calibrator"]["id"] == calibrator.id
                    and due is not None
                    # The store rounds to five digits.
                    and abs(now["confidence"] - due) < 1e-3
                )
        if step["ok"]:
            self.screen.paragraph(words.again(left, now))

    async def _asked_by_hand(self, line: int, column: int) -> types.InlineCompletionItem | None:
        return await self._document().complete(line, column, ANSWER, by_hand=True)

    async def _due(self, calibrator: Calibrator, evidence: StateReader, suggestion_id: str) -> float | None:
        """What the calibrator says of a suggestion, once the server has written it to its store."""
        deadline = time.monotonic() + _STORED
        while (due := evidence.probability(calibrator, suggestion_id)) is None:
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.05)
        return due

    async def _end(self) -> None:
        with self.report.step("shutdown") as step:
            step["exitCode"] = await self.editor.quit()
            step["ok"] = step["exitCode"] == 0

    def _document(self) -> Document:
        assert self.document is not None
        return self.document
