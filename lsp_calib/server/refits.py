"""What the labels of a session lead to: the watch over certificates, refits, the offer to calibrate on
commits."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.progress import Progress

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import roll_back
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import LENT
from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.feedback.personalisation import (
    LEAST_NEW,
    Refits,
    refit_languages,
    refit_where_due,
    watch_labels,
)
from lsp_calib.feedback.removal import CALIBRATING, OFFERED
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.files import read_file, write_atomically
from lsp_calib.server import events as on
from lsp_calib.server.events import Events, Idle, Pace
from lsp_calib.server.messages import Connection, UserMessages
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.text import path_of_folder
from lsp_calib.server.user_messages import ProgressBar
from lsp_calib.settings.tiers import tier_policy
from lsp_calib.syntax.languages import LANGUAGES
from lsp_calib.values import CalibratorRef
from lsp_calib.workspace_files import folder_of

logger = logging.getLogger(__name__)

# Bytes of a line that the other process may write: its answer is some kilobytes.
_LONGEST = 4_000_000
_GRACE = 5.0
# Lines that a calibration on the workspace completes, unless the client says how many: 200 answers are needed
# to replace a calibrator, and some lines get none, however often others take their place.
SAMPLES = 240


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
        folders = tuple(connection.workspace.folders)
        folder = folder_of(uri, folders) if uri else folders[0] if len(folders) == 1 else ""
        root = path_of_folder(folder)
        if root is None or not root.is_dir():
            raise SettingsError(
                "There is no folder to calibrate on. Open a document of the workspace folder that is meant, "
                'and send its "uri"; or run `lsp-calib calibrate FOLDER` in a terminal.'
            )
        document = connection.open_document(uri) if uri else None
        language = None if document is None else document.language
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
        return home.private_folder(home.state_dir() / CALIBRATING) / f"{digest}.jsonl"


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
                cwd=home.state_dir(),
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
            bar.report(int(row["done"]), int(row["all"]))
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


YES, NO = "Calibrate", "Not for this workspace"
# More are of no use: the oldest is forgotten, and offered again.
_MOST = 1000


class GitOffer:
    """Asks whether to calibrate on commits, and begins if the answer is yes.

    calibrate: begins it for a folder. Raises LspCalibError, which has been shown in its progress and is
    logged. memory: the file that knows where it was offered, by hashes of the folders.
    """

    def __init__(
        self, connection: Connection, calibrate: Callable[[Path], Awaitable[object]], memory: Path
    ) -> None:
        self._connection = connection
        self._calibrate = calibrate
        self._memory = memory
        self._task: asyncio.Task[None] | None = None

    def make(self, folder: Path, samples: int) -> None:
        """Ask for this workspace folder, unless that was done before, or it is in no checkout."""
        if self._task is not None and not self._task.done():
            return
        self._task = asyncio.create_task(self._make(folder, samples))

    def stop(self) -> None:
        """Wait for no answer, and begin nothing more."""
        if self._task is not None:
            self._task.cancel()

    async def _make(self, folder: Path, samples: int) -> None:
        if not await asyncio.to_thread(self._is_new, folder):
            return
        question = (
            f"lsp-calib can calibrate itself on lines that you have committed in {folder.name}, before it "
            f"has seen what you keep: it completes {samples} of them in the background, on this machine, and "
            "compares. That takes a while; its progress can be cancelled."
        )
        answers = [types.MessageActionItem(YES), types.MessageActionItem(NO)]
        try:
            answer = await self._connection.window_show_message_request_async(
                types.ShowMessageRequestParams(types.MessageType.Info, question, answers)
            )
            if answer is not None and answer.title == YES:
                await self._calibrate(folder)
        except (LspCalibError, JsonRpcException) as error:
            logger.warning("No calibration on commits: %s", error)

    def _is_new(self, folder: Path) -> bool:
        """Whether the folder is in a checkout and nothing was offered for it before; from now on it was."""
        if not any(os.path.lexists(one / ".git") for one in (folder, *folder.parents)):
            return False
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        try:
            known = read_file(self._memory).decode("ascii").split()
        except (OSError, ValueError):
            known = []
        if digest in known:
            return False
        try:
            write_atomically(self._memory, "\n".join([*known[1 - _MOST :], digest]).encode(), 0o600)
        except OSError:
            return False  # it would be offered at each start
        return True


def folder_to_ask_about(connection: Connection, language: str) -> Path | None:
    """The workspace folder that the question is about; None if it is not to be asked. language: of the
    lines."""
    folders = [path_of_folder(one) for one in connection.workspace.folders if one.startswith("file:")]
    trusted = connection.trusted
    if not trusted.git_history or trusted.remote_url is not None:
        return None
    if len(folders) != 1 or folders[0] is None or language not in LANGUAGES:
        return None
    return folders[0]


@attrs.define(eq=False, repr=False, slots=False)
class Learning:
    """Watches over certificates soon after labels, and refits when the user pauses.

    It looks whether a refit is due (`feedback.personalisation.is_due`) once after the start, then after every
    LEAST_NEW labels and after a change of settings.
    """

    _connection: Connection
    _model: Model
    _estimator: ConfidenceEstimator
    _recorder: Recorder
    _calibration: WorkspaceCalibration
    _status: Status
    _messages: UserMessages
    _idle: Idle
    _pace: Pace
    _events: Events

    def __attrs_post_init__(self) -> None:
        self._git_offer = GitOffer(self._connection, self._calibrate_on_commits, home.state_dir() / OFFERED)
        self._new = 0
        self._due = False
        self._soon: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stopped = False
        self._idle.run("refit", self._refit_where_due)
        self._events.on(on.LabelsRecorded, lambda one: self._labelled(one.n))
        # Perhaps some are left from an earlier session.
        self._events.on(on.ModelLoaded, lambda _: self._begin())
        self._events.on(on.SettingsChanged, lambda _: self._settings_changed())

    async def refit(self) -> dict[str, Any]:
        """Refit the calibrators of the loaded model on the labels so far, each language on its own.

        Returns the result as it goes to the client. Raises LspCalibError.
        """
        lines, estimator = await self._model.purpose(), self._estimator
        model, prompt, today = lines.model, lines.prompt_version, datetime.date.today().isoformat()
        refits = await self._recorder.run(
            lambda store: refit_languages(
                store, estimator.store, model, prompt, today, promise=estimator.promise
            )
        )
        self._refitted(refits)
        return refits.to_wire()

    def in_force(self, ref: CalibratorRef) -> None:
        """A refit or a rollback over this connection has put a calibrator in force."""
        self._estimator.reload()
        if self._status.calibrator != ref:
            self._events.send(on.CalibratorChanged(ref))

    async def roll_back(self, wanted: str | None) -> dict[str, Any]:
        """Take the user's calibrator out of force, and say what changed, as it goes to the client.

        wanted: id of the calibrator to go back to; None: that before the one of the last suggestion.
        Raises LspCalibError.
        """
        used = self._status.calibrator
        if wanted is None and used is None:
            self._estimator.reload()
            used = self._estimator.calibrator(await self._model.purpose()).ref
        done = await asyncio.to_thread(
            roll_back, self._estimator.store, wanted, used=used.id if used else None
        )
        self._estimator.reload()
        if used is None or wanted is not None or done.before.id == used.id:
            self.in_force(done.after.ref)
        return done.to_wire()

    async def calibrate(self, wish: CalibrationWish) -> dict[str, Any]:
        """Calibrate on a workspace folder; returns the result as it goes to the client. Raises
        LspCalibError."""
        result = await self._calibration.run(wish)
        self._estimator.reload()
        self._messages.inform(result["sentence"])
        return result

    def stop(self) -> None:
        """Begin nothing more, and stop what goes on."""
        self._stopped = True
        self._git_offer.stop()
        if self._soon is not None:
            self._soon.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _begin(self) -> None:
        """Labels may be left from an earlier session, or be used in another way from now on."""
        self._due = True
        self._labelled(0)

    def _labelled(self, n: int) -> None:
        """There are n new labels."""
        if self._stopped:
            return
        self._new += n
        self._due = self._due or self._new >= LEAST_NEW
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(self._pace.watch, self._begin_watch)
        self._idle.wait("refit")

    def _begin_watch(self) -> None:
        self._soon = None
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Count the new labels for certificates, and watch what was promised."""
        promise = self._estimator.promise
        purposes = [one for one in self._estimator.purposes if one.task == "line"]
        if promise is None or not purposes:
            return

        def watch(store: FeedbackStore) -> list[str]:
            revoked = []
            for purpose in purposes:
                before, now = watch_labels(store, self._estimator.store, purpose, promise)
                if now.watch is not None and now.watch.certificate.revoked and now.watch != before.watch:
                    revoked.append(
                        f"The certificate for {purpose.language} by {purpose.model.name} is "
                        f"{now.watch.certificate.reason}. Nothing is marked accept until a new "
                        "certificate is issued."
                    )
            return revoked

        try:
            for sentence in await self._recorder.learn(watch) or ():
                self._messages.log(sentence)
        except LspCalibError as error:
            logger.warning("New labels could not be used: %s", error)
            return
        self._estimator.reload()

    async def _refit_where_due(self) -> None:
        if not self._due:
            return
        self._new, self._due = 0, False
        self._estimator.reload()
        await self._offer_commits()
        if not self._connection.settings.auto_refit:
            return
        lines, estimator = await self._model.purpose(), self._estimator
        model, prompt, today = lines.model, lines.prompt_version, datetime.date.today().isoformat()

        def refit(store: FeedbackStore) -> Refits | None:
            return refit_where_due(store, estimator.store, model, prompt, today, estimator.promise)

        refits = await self._recorder.learn(refit)
        if refits is not None:
            self._refitted(refits)
            for sentence in refits.sentences():
                self._messages.log(sentence)
        estimator.reload()

    def _refitted(self, refits: Refits) -> None:
        _, result = refits.leading
        if result.calibrator is not None:
            self.in_force(result.calibrator.ref)

    def _settings_changed(self) -> None:
        trusted, settings = self._connection.trusted, self._connection.settings
        overrides = (*trusted.overrides, *settings.overrides)
        now = (tier_policy(trusted, settings)[0], settings.measure, overrides)
        estimator = self._estimator
        if now != (estimator.policy, estimator.measure, estimator.overrides):
            estimator.policy, estimator.measure, estimator.overrides = now
            self._events.send(on.AssessmentsOutdated())
            self._begin()  # a promise may be wanted now

    async def _offer_commits(self) -> None:
        """In the first pause: with no labels of the user's there is nothing better."""
        language = self._model.language
        folder = folder_to_ask_about(self._connection, language)
        if folder is None:
            return
        purpose = await self._model.purpose(language)
        if self._estimator.calibrator(purpose).source in (*LENT, "shipped"):
            self._git_offer.make(folder, SAMPLES)

    async def _calibrate_on_commits(self, folder: Path) -> None:
        try:
            wish = CalibrationWish.of(self._connection, None, samples=SAMPLES, from_git=True)
            language = self._model.language
            if wish.root == folder and language in LANGUAGES:
                wish = attrs.evolve(wish, language=language)
            await self.calibrate(wish)
        except LspCalibError as error:
            # Whoever has said yes waits for it, perhaps without seeing its progress.
            self._messages.warn(f"lsp-calib was not calibrated on your commits: {error}")
            raise
