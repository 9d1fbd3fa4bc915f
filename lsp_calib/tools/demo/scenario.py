"""`lsp-calib demo`: the main job, end to end, as an editor and its user would do it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import tempfile
import time
from pathlib import Path

from lsprotocol import types

import lsp_calib
from lsp_calib.badges import DOTS
from lsp_calib.characters import shared_ends
from lsp_calib.errors import LspCalibError, ModelError, NoModelError
from lsp_calib.feedback.events import How
from lsp_calib.inference.models.cards import choose
from lsp_calib.settings import Settings, resolve
from lsp_calib.terminal import tell
from lsp_calib.tools.client import SERVER, Document, Editor, suggestion_of
from lsp_calib.tools.demo import user
from lsp_calib.tools.demo.screen import Screen
from lsp_calib.tools.demo.user import DemoReport, Moment, Written, since

# Seconds; enough on a busy machine.
_LOAD, _ANSWER, _REFIT, _SETTLE, _REFRESHED = 180.0, 120.0, 60.0, 10.0, 10.0
# A suggestion shown for less than 0.75 s counts as unread; leaving it alone would give no label.
_READING = 1.5


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
    return code or int(not all(step["ok"] for step in report.steps))


class _Demo:
    """One run. Server and state live in `scratch`: the user's feedback and calibrators stay as they are."""

    def __init__(self, screen: Screen, report: DemoReport, scratch: Path, model: str | None) -> None:
        self.screen, self.report, self.editor = screen, report, Editor()
        self.home, self.folder = scratch / "home", scratch / "project"
        self.folder.mkdir()
        self.trusted, self.problems = resolve(Settings(model=model))
        source = Path(lsp_calib.__file__).parent / user.FILE
        self.before, self.body, after = user.scene_of(source.read_text("utf-8").split("\n"))
        self.path = self.folder / source.name
        self.path.write_text("\n".join((*self.before, "", *after)), "utf-8")

    async def tell(self) -> None:
        """Do everything, show the main things on one screen, then the rest."""
        started = time.perf_counter()
        self.report.busy = await busy_processors()
        self.screen.title(self.path.name, user.FUNCTION, self.report.busy, self.problems)
        try:
            await self._start()
            await self._write()
            await self._hover()
            await self._settle()
            with self.report.step("shutdown") as step:
                step["ok"] = await self.editor.quit() == 0
        finally:
            await self.editor.close()
        self.screen.first(self.report)
        self.screen.rest(self.report)
        self.screen.count(self.report.steps, since(started))

    async def _start(self) -> None:
        # The folder is removed at the end of the demo, so no process may outlive it.
        env = {**os.environ, "LSP_CALIB_HOME": str(self.home), "LSP_CALIB_LINGER": "0"}
        with contextlib.suppress(NoModelError):  # the server itself has to report this
            # By its path: the server's scratch state folder contains no models.
            env["LSP_CALIB_MODEL"] = str(choose(self.trusted.model)[1].absolute())
        trusted = {"threads": self.trusted.threads, "gpuLayers": self.trusted.gpu_layers}
        with self.report.step("initialize") as step:
            await self.editor.start(SERVER, env=env, cwd=self.folder)
            offered = (await self.editor.open_session(self.folder, {"trusted": trusted})).capabilities
            step["ok"] = bool(offered.inline_completion_provider and offered.hover_provider)
        with self.report.step("load model") as step, self.screen.waiting("loading the model"):
            states = ("ready", "noModel", "error")
            await self.editor.until(lambda: self.editor.state in states, "loading the model", _LOAD)
            if self.editor.state != "ready":
                raise ModelError(" ".join(self.editor.messages) or self.editor.state_message)
            self.report.model = str((await self.editor.command("lsp-calib.status"))["model"])
            # A message on a setting: the server does not do what it was started for.
            step["ok"] = not any("lspCalib." in message for message in self.editor.messages)

    async def _write(self) -> None:
        """Write the body line by line; check that just what was inserted was marked, with its tier."""
        self.document = Document(self.editor, self.path, "python")
        first, body = len(self.before), self.body
        with self.report.step("complete") as step:
            for at, target in enumerate(body, 1):
                written = Written(first + at - 1, target)
                self.report.lines.append(written)
                with self.screen.waiting(self._so_far(at, len(body))):
                    await self._line(written, last=at == len(body))
                if at < len(body):
                    self.document.edit((written.line, len(target)), (written.line, len(target)), "\n")
            step["ok"] = len(self.report.shown) > len(body) // 3
        with self.report.step("diagnose") as step:
            taken = [one.wire["id"] for one in self.report.shown if one.action in (How.KEPT, How.EDITED)]
            step["ok"] = taken == [about(one) for one in self.report.diagnostics]

    def _so_far(self, at: int, of: int) -> str:
        """What is on its way, and what the editor showed last."""
        moments = [one.moments[-1] for one in self.report.lines if one.moments]
        last = f"; the last was {moments[-1].tier or 'not shown'}" if moments else ""
        return f"{self.report.model} reads along: line {at} of {of}{last}"

    async def _line(self, written: Written, *, last: bool) -> None:
        """Wait for a suggestion, and react to it. A line without one is typed to its end."""
        item = None
        for column in user.pauses(written.target):
            self._type_on(written, column)
            if (item := await self._ask(written)) is not None:
                written.column, written.wire = column, suggestion_of(item) or {}
                written.action = user.decide(written, self.report.shown[:-1], last=last)
                break
        if written.action is How.KEPT:
            item = await self._along(written, item)
        if written.action is How.IGNORED:
            await asyncio.sleep(_READING)
        elif item is not None and written.action in (How.KEPT, How.EDITED):
            await self._insert(written, item)
            if written.action is How.EDITED:
                self._mend(written)
        else:
            self._type_on(written, len(written.target))

    async def _ask(self, written: Written) -> types.InlineCompletionItem | None:
        """Ask as an editor does at each key, and note what it shows."""
        typed, started = self.document.lines[written.line], time.perf_counter()
        item = await self.document.complete(written.line, len(typed), _ANSWER)
        ms, wire, reason = since(started), suggestion_of(item) or {}, ""
        if not wire:
            said = await self.editor.command("lsp-calib.explain", {"uri": self.document.uri})
            reason = said["message"] if isinstance(said, dict) else ""
        written.moments.append(Moment(typed, wire.get("tier"), wire.get("confidence"), ms, reason))
        return item if wire else None

    async def _along(
        self, written: Written, item: types.InlineCompletionItem | None
    ) -> types.InlineCompletionItem | None:
        """Type a right suggestion along until it is accept, but no more than three quarters of it."""
        most = written.column + 3 * len(written.expected) // 4
        while written.moments[-1].tier != "accept" and len(self.document.lines[written.line]) < most:
            self._type_on(written, len(self.document.lines[written.line]) + 1)
            item = await self._ask(written) or item
        return item

    async def _insert(self, written: Written, item: types.InlineCompletionItem) -> None:
        """Accept as an editor does on Tab: insert the text, run the item's command, pull diagnostics."""
        refreshes, line = self.editor.refreshes, self.document.lines[written.line]
        assert item.command is not None
        self.document.replace(written.line, len(line), len(line), str(item.insert_text))
        await self.editor.command(item.command.command, *(item.command.arguments or ()))
        await self.editor.until(
            lambda: self.editor.refreshes > refreshes, "its request to pull diagnostics", _REFRESHED
        )
        pulled = await self.document.diagnostics()
        self.report.diagnostics += [one for one in pulled if about(one) == written.wire["id"]]

    def _mend(self, written: Written) -> None:
        """Replace what is wrong in the line with the intended text."""
        line, target = written.line, written.target
        start, end = shared_ends(self.document.lines[line], target)
        self.document.replace(line, start, len(self.document.lines[line]) - end, "")
        for at in range(start, len(target) - end):
            self.document.replace(line, at, at, target[at])

    def _type_on(self, written: Written, to: int) -> None:
        """Type the line on to a column, one character after the other, as on a keyboard."""
        for at in range(len(self.document.lines[written.line]), to):
            self.document.replace(written.line, at, at, written.target[at])

    async def _hover(self) -> None:
        """The function that was written has no documentation yet: a summary says what it does."""
        with self.report.step("hover") as step, self.screen.waiting(f"a summary of {user.FUNCTION}"):
            deadline, value, tier = time.monotonic() + _ANSWER, "summarising", None
            while "summarising" in value and time.monotonic() < deadline:
                hover = await self.document.hover(len(self.before) - 1, len("def "), _ANSWER)
                contents = None if hover is None else hover.contents
                value = contents.value if isinstance(contents, types.MarkupContent) else ""
            tier = next((name for name, dot in DOTS.items() if f"\n{dot} " in value), None)
            self.report.hover = {"function": user.FUNCTION, "tier": tier, "markdown": value}
            step["ok"] = bool(value) and "summarising" not in value

    async def _settle(self) -> None:
        """Save and close the file: suggestions become labels. Refit on them."""
        shown = self.report.shown
        with self.report.step("settle") as step, self.screen.waiting("waiting for the labels"):
            self.document.save()
            self.document.close()
            deadline = time.monotonic() + _SETTLE  # the store is written a little later
            while not user.read_labels(self.home, shown) and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
            step["ok"] = all(one.label and one.label["how"] == one.action for one in shown)
        # Repeated suggestions for one line count once, without leaving it; those without a probability never.
        labels = [one.label for one in shown if one.label and one.wire["confidence"] is not None]
        known = {label["episode"] for label in labels if label["correct"] is not None}
        with self.report.step("refit") as step, self.screen.waiting("refitting"):
            self.report.refit = await self.editor.command("lsp-calib.refit", seconds=_REFIT)
            step["ok"] = self.report.refit["n"] == len(known)


async def busy_processors(seconds: float = 0.5) -> float | None:
    """How many processors other programs use, watched for so long; None where that is unknown (only Linux
    tells). What a virtual machine's host takes counts."""

    def times() -> tuple[int, int]:
        line = Path("/proc/stat").read_text("ascii").split("\n", 1)[0]
        user, nice, system, idle, waiting, *rest = map(int, line.split()[1:9])
        return user + nice + system + sum(rest), idle + waiting

    try:
        before = times()
        await asyncio.sleep(seconds)
        used, idle = (now - then for now, then in zip(times(), before, strict=True))
    except (OSError, ValueError):
        return None
    return round((os.cpu_count() or 1) * used / max(1, used + idle), 2)


def about(diagnostic: types.Diagnostic) -> str | None:
    """The id of the suggestion that a diagnostic is about."""
    return diagnostic.data.get("id") if isinstance(diagnostic.data, dict) else None
