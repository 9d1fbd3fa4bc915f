"""Calibration on a workspace folder, for the editor: `lsp-calib calibrate` in a process of its own.

Reading a folder, or a repository's history, takes seconds of processor time in which this process could
answer nothing. The other process asks the user's one model process, at the lowest priority but one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from pygls.progress import Progress

from lsp_calib import home
from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.feedback.removal import CALIBRATING
from lsp_calib.feedback.workspace import folder_of
from lsp_calib.server.connection import Connection
from lsp_calib.server.convert import language_of
from lsp_calib.server.paths import path_of_folder
from lsp_calib.server.progress import ProgressBar
from lsp_calib.syntax.languages import LANGUAGES

logger = logging.getLogger(__name__)

# Bytes of a line that the other process may write: its answer is some kilobytes.
_LONGEST = 4_000_000
_GRACE = 5.0


@attrs.frozen
class CalibrationWish:
    """What is to be calibrated on. root: a folder. samples: lines. from_git: those of the user's commits.

    language: of the lines; None: Python if there is any, else the only one there is. model: a card's name or
    a file. window, threads, exclude: the values of the settings.
    """

    root: Path
    samples: int
    from_git: bool
    language: str | None
    model: str | None
    window: str
    threads: int = 0
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, connection: Connection, uri: str | None, *, samples: int, from_git: bool) -> CalibrationWish:
        """What a client asks for.

        uri: of a document, whose workspace folder and language are meant; None: the only folder there is.
        Raises SettingsError if that is no folder on this machine, or if the engine is not.
        """
        if connection.trusted.remote_url is not None:
            raise SettingsError(
                "Completions come from another machine (`remote.url`), which may cost money: run `lsp-calib "
                "calibrate FOLDER --remote URL` in a terminal."
            )
        folders = list(connection.workspace.folders)
        folder = folder_of(uri, folders) if uri else folders[0] if len(folders) == 1 else ""
        root = path_of_folder(folder)
        if root is None or not root.is_dir():
            raise SettingsError(
                "There is no folder to calibrate on. Open a document of the workspace folder that is meant, "
                'and send its "uri"; or run `lsp-calib calibrate FOLDER` in a terminal.'
            )
        document = connection.open_document(uri) if uri else None
        language = None if document is None else language_of(document)
        return cls(
            root=root,
            samples=samples,
            from_git=from_git,
            language=language if language in LANGUAGES else None,
            model=connection.trusted.model,
            window=connection.settings.window,
            threads=connection.trusted.threads,
            exclude=tuple(dict.fromkeys((*connection.trusted.exclude, *connection.settings.exclude))),
        )

    def command(self, records: Path) -> list[str]:
        """The command line, without the interpreter. records: the file that a run goes on with."""
        wanted = ["calibrate", str(self.root), "--json", "--progress", "lines", "--records", str(records)]
        wanted += ["--samples", str(self.samples), "--window", self.window]
        wanted += ["--from-git"] if self.from_git else []
        wanted += ["--language", self.language] if self.language else []
        wanted += ["--threads", str(self.threads)] if self.threads else []
        wanted += [f"--exclude={pattern}" for pattern in self.exclude]
        return wanted + (["--model", self.model] if self.model else [])

    @property
    def records(self) -> Path:
        """The file of its records, in the state folder. They hold no source text."""
        parts = [str(self.root), self.from_git, self.language, self.model, self.window, *self.exclude]
        digest = hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return home.private_folder(home.home() / CALIBRATING) / f"{digest}.jsonl"


class WorkspaceCalibration:
    """Runs one calibration at a time, with progress that the user can cancel.

    work_done: the client's progress bars; None if it shows none.
    """

    def __init__(self, work_done: Progress | None) -> None:
        self._work_done = work_done
        self._process: asyncio.subprocess.Process | None = None
        self._running = False
        self._cancelled = False

    async def run(self, wish: CalibrationWish) -> dict[str, Any]:
        """Calibrate; returns the result as it goes to the client.

        Raises SettingsError if another calibration is running, LspCalibError if it fails or is cancelled.
        What was decoded until then is kept: the same wish goes on with it.
        """
        if self._running:
            raise SettingsError("A calibration is running already. Wait for it, or cancel its progress.")
        self._running, self._cancelled = True, False
        title = f"lsp-calib: calibrating on {wish.root.name}"
        bar: ProgressBar | None = None
        message = "stopped"
        try:
            bar = await ProgressBar.begun(self._work_done, title, "choosing lines", self.cancel)
            result = await self._run(wish, bar)
            message = result["sentence"]
            for path in wish.records.parent.glob(f"{wish.records.name}*"):
                path.unlink(missing_ok=True)
            return result
        except LspCalibError as error:
            message = str(error)
            raise
        finally:
            self._running = False
            if bar is not None:
                bar.end(message)

    def cancel(self) -> None:
        """Stop the calibration, if one is running."""
        self._cancelled = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    async def close(self) -> None:
        """Stop it and wait until its process has gone."""
        self.cancel()
        process = self._process
        if process is not None and process.returncode is None:
            try:
                await asyncio.wait_for(process.wait(), _GRACE)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    async def _run(self, wish: CalibrationWish, bar: ProgressBar) -> dict[str, Any]:
        # Not in the workspace, where modules of any name may lie.
        command = (sys.executable, "-P", "-m", "lsp_calib", *wish.command(wish.records))
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=home.home(),
                limit=_LONGEST,
                env={**os.environ, "PYTHONUTF8": "1"},
            )
        except OSError as error:
            raise LspCalibError(f"The calibration cannot be started: {error}.") from error
        if self._cancelled:
            self.cancel()
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            answer, said = await asyncio.gather(process.stdout.read(), _follow(process.stderr, bar))
            code = await process.wait()
        except BaseException:
            self.cancel()
            raise
        finally:
            self._process = None
        if self._cancelled:
            raise LspCalibError(
                "The calibration was cancelled. Its lines so far are kept: calibrate again to go on."
            )
        if code:
            logger.warning("The calibration ended with %d: %s", code, " | ".join(said))
            raise LspCalibError(said[-1] if said else f"The calibration ended with exit status {code}.")
        return _result(json.loads(answer), said)


async def _follow(stream: asyncio.StreamReader, bar: ProgressBar) -> list[str]:
    """Show the progress in a stream of lines; returns the other lines, the last hundred of them."""
    said: list[str] = []
    async for line in stream:
        text = line.decode("utf-8", "replace").strip()
        try:
            row = json.loads(text)
            bar.report(int(row["done"]), int(row["all"]), "lines")
        except (ValueError, TypeError, KeyError):
            said = [*said[-99:], text] if text else said
    return said


def _result(report: dict[str, Any], said: Sequence[str]) -> dict[str, Any]:
    """The report of the command as it goes to the client."""
    calibrator, comparison = report["calibrator"], report["comparison"]
    n = calibrator["n"]
    what = f"{n} of {report['asked']} lines had an answer, {calibrator['nCorrect']} of them right"
    now = "in force now" if report["promoted"] else "not in force"
    return {
        "promoted": report["promoted"],
        "reason": report["reason"],
        "n": n,
        "asked": report["asked"],
        "before": comparison["before"],
        "after": comparison["after"],
        "calibrator": calibrator["id"],
        "notes": list(said),
        "sentence": f"{what}. {calibrator['id']} is {now}: {report['reason']}.",
    }
