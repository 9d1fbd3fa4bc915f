"""Summaries for an editor: each is requested from the service once and remembered."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engine import Priority
from lsp_calib.languages import family_of
from lsp_calib.lru import LRU
from lsp_calib.server import events as on
from lsp_calib.server.admission import Admission
from lsp_calib.server.connection import Connection
from lsp_calib.server.events import Events
from lsp_calib.server.text import CalibDocument, path_of, path_of_folder
from lsp_calib.server.user_messages import SummaryProgress
from lsp_calib.summarization import Summary, SummaryService
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function, has_grammar
from lsp_calib.values import ModelIdentity, Suggestion
from lsp_calib.workspace_files import is_left_out

logger = logging.getLogger(__name__)

# Seconds after which a folder is looked through again, and for how long at most, rests included.
_STALE, _LONGEST = 60.0, 300.0
# The user types for so long after a change.
_TYPING = 1.0


@attrs.frozen
class Rests:
    """In seconds. patience: of a summary for the first examples of a folder: making it takes longer.

    after_file: for which the index rests after a file at most: as long as that took. busy: the same while the
    model makes a summary, for the processor's sake. typing: while the user types, for the interpreter's.
    look: between two looks for pauses and changes.
    """

    patience: float = 1.0
    after_file: float = 0.25
    busy: float = 0.5
    typing: float = 2.0
    look: float = 0.05


@attrs.define(eq=False)
class _Open:
    """An open document. indexed: the lines of it that are in the index."""

    document: CalibDocument
    path: Path
    indexed: Sequence[str] = ()


@attrs.define(eq=False)
class _Scan:
    """The search through a folder for one language. ended: when, None before the first time."""

    task: asyncio.Task[None] | None = None
    ended: float | None = None


@attrs.define(eq=False, repr=False, slots=False)
class ExampleIndex:
    """The examples of one connection's workspace folders.

    Only for a model on this machine: to another one goes only text of the document itself. making: the
    summaries on which the model works now.
    """

    _connection: Connection
    _admission: Admission
    _making: Collection[object]
    _events: Events
    _rests: Rests = Rests()

    def __attrs_post_init__(self) -> None:
        self._events.on(on.DocumentOpened, lambda one: self.opened(one.document))
        self._events.on(on.DocumentClosed, lambda one: self.closed(one.uri))
        self._running = True
        # For the thread: whether it goes on, and how long it rests after a file.
        self._goes_on, self._rest = True, 0.0
        self._open: dict[str, _Open] = {}
        self._indexes: dict[Path, WorkspaceExamples] = {}
        self._scans: dict[tuple[Path, str], _Scan] = {}
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0  # summaries that wait for examples
        self._typed = -_TYPING
        self._texts: list[Sequence[str]] = []  # of the open documents, at the last look

    def opened(self, document: CalibDocument) -> None:
        self._typed = time.monotonic()
        path = path_of(document.uri)
        if path is not None and has_grammar(document.language):
            self._open[document.uri] = _Open(document, path)

    def closed(self, uri: str) -> None:
        """A document was closed: from now on its file counts."""
        document = self._open.pop(uri, None)
        if document is not None:
            for root, index in self._indexes.items():
                if document.path.is_relative_to(root):
                    index.drop(document.path.relative_to(root).as_posix())

    async def examples_for(self, uri: str, function: Function, language: str) -> Sequence[Example]:
        """Documented functions of the workspace that resemble a function, the best first.

        None for a document outside of it. It waits a second for the first ones of a folder.
        """
        folder, path = self._connection.folder_of(uri), path_of(self._connection.file_of(uri))
        root = path_of_folder(folder) if folder else None
        if root is None or path is None or not path.is_relative_to(root):
            return ()
        if not has_grammar(language) or self._connection.trusted.remote_url is not None:
            return ()
        index = self._indexes.get(root)
        if index is None:
            index = self._indexes[root] = WorkspaceExamples(root, self._admission.exclusion)
        scan = self._scans.setdefault((root, family_of(language)), _Scan())
        self._begin(scan, index, path, language)
        if scan.ended is None and scan.task is not None:
            self._waiting += 1
            try:
                await asyncio.wait({scan.task}, timeout=self._rests.patience)
            finally:
                self._waiting -= 1
        opened = [
            (one, one.document.bare_lines) for one in self._open.values() if one.path.is_relative_to(root)
        ]
        return await asyncio.to_thread(self._best, index, function, language, path, opened)

    async def close(self) -> None:
        self._running = self._goes_on = False
        tasks = [scan.task for scan in self._scans.values() if scan.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, scan: _Scan, index: WorkspaceExamples, path: Path, language: str) -> None:
        """Start a search where none is running and the last one is old."""
        if scan.task is not None and not scan.task.done():
            return
        old = scan.ended is None or time.monotonic() - scan.ended > _STALE
        if self._running and old and self._admission.may_work_ahead():
            scan.task = asyncio.create_task(self._scan(scan, index, path, language))

    async def _scan(self, scan: _Scan, index: WorkspaceExamples, path: Path, language: str) -> None:
        async with self._turn:
            opened = {
                one.path.relative_to(index.root).as_posix(): one.document.bare_lines
                for one in self._open.values()
                if one.path.is_relative_to(index.root)
            }
            self._texts = self._read()
            self._look()
            work = asyncio.create_task(asyncio.to_thread(self._search, index, path, language, opened))
            try:
                while not work.done():
                    await asyncio.wait({work}, timeout=self._rests.look)
                    self._look()
            except asyncio.CancelledError:
                # The server ends, perhaps because the editor has gone; it waits for its threads.
                self._goes_on = False
                raise
            if work.result():
                scan.ended = time.monotonic()

    def _read(self) -> list[Sequence[str]]:
        return [document.bare_lines for document in self._connection.open_documents()]

    def _look(self) -> None:
        if (texts := self._read()) != self._texts:
            self._texts, self._typed = texts, time.monotonic()
        self._goes_on = self._running and self._admission.may_work_ahead()
        typing = time.monotonic() - self._typed < _TYPING
        rest = self._rests.typing if typing else self._rests.busy if self._making else 0.0
        self._rest = 0.0 if self._waiting else rest

    def _search(
        self, index: WorkspaceExamples, path: Path, language: str, opened: Mapping[str, Sequence[str]]
    ) -> bool:
        """In a thread. Returns whether it went on to its end."""
        try:
            done = index.scan(language, path.parent, seconds=_LONGEST, goes_on=self._after_file, open_=opened)
        except Exception:
            # No file of a workspace may end this; a summary without examples is better than none.
            logger.exception("The examples of a workspace folder could not be read.")
            return True
        logger.debug("Examples: %d files read, %d functions in all.", done.files, done.functions)
        return self._goes_on

    def _after_file(self, seconds: float) -> bool:
        """In a thread, after a file that took so many seconds."""
        start = time.monotonic()
        if not self._waiting:
            time.sleep(min(seconds, self._rests.after_file))
        while self._goes_on and time.monotonic() - start < self._rest:
            time.sleep(self._rests.look)
        return self._goes_on

    def _best(
        self,
        index: WorkspaceExamples,
        function: Function,
        language: str,
        path: Path,
        opened: Sequence[tuple[_Open, Sequence[str]]],
    ) -> Sequence[Example]:
        """In a thread."""
        exclusion = self._admission.exclusion()
        texts: dict[str, Sequence[str]] = {}
        for one, lines in opened:
            name = one.path.relative_to(index.root).as_posix()
            texts[name] = lines
            if one.indexed is not lines and family_of(one.document.language) == family_of(language):
                one.indexed = lines
                if exclusion.reason(str(one.path)) or is_left_out(one.path, index.root):
                    index.drop(name)
                else:
                    index.put(name, one.document.language, lines)
        return index.best(function, language, path.relative_to(index.root).as_posix(), SHOTS, texts)


_SUMMARIES_KEPT = 500
"""More than the functions of the files that somebody works on; each takes about a kilobyte."""


_QUIET = 1.0
"""Seconds for which a command works without showing that it does."""


@attrs.define
class Running:
    """awaited: whether somebody has asked for it; idle work is not awaited until then. waiting: how many wait
    for it now. is_shown: whether the editor shows that it is being made.
    """

    task: asyncio.Task[Summary | None]
    awaited: bool = False
    waiting: int = 0
    is_shown: bool = False


@attrs.define(eq=False, repr=False, slots=False)
class SummaryRequests:
    """Summaries by the code they describe: a changed function gets a new one, a moved one keeps its own.

    Keys are keyed hashes of document, code, language and model, so that a remembered summary does not keep
    the text of a closed document, nor anything from which it could be guessed.

    admission: whether a document may be used for a prompt. examples: functions of its workspace that resemble
        one, with their documentation. progress: shows work that takes longer than its request waits in
        silence. running: the summaries that are being made, which is theirs to fill.
    """

    _service: SummaryService
    _admission: Admission
    _examples: ExampleIndex
    _progress: SummaryProgress
    _running: dict[bytes, Running]
    _events: Events

    def __attrs_post_init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._model: ModelIdentity | None = None
        self._known = LRU[bytes, Summary](_SUMMARIES_KEPT)
        self._nothing_said = LRU[bytes, None](_SUMMARIES_KEPT)
        self._wordings = LRU[bytes, int](_SUMMARIES_KEPT)

    def loaded(self, model: ModelIdentity) -> None:
        """This model answers from now on; summaries of another one stay for its return."""
        self._model = model

    async def of(
        self, uri: str, function: Function, language: str, *, patience: float | None = None
    ) -> Suggestion | Literal["pending"] | None:
        """The summary of a function; "pending" if it is still being made after `patience` seconds.

        patience: None waits until it is made. None if it could not be made, or if the document is excluded.
        """
        if not await self._admission.admits(uri):
            return None
        self._events.send(on.SummaryRequested())
        known = self.known(uri, function, language)
        if known is not None:
            return known.suggestion
        if self._has_nothing(uri, function, language):
            return None
        key = self._key(uri, function, language)
        if key not in self._running:
            self._drop_abandoned()
        running = self._begin(key, uri, function, language, Priority.BACKGROUND)
        return await self._result(running, function.name, patience)

    @property
    def is_busy(self) -> bool:
        """Whether a summary is being made."""
        return bool(self._running)

    def known(self, uri: str, function: Function, language: str) -> Summary | None:
        """The summary of a function of a document if it has been made."""
        if self._model is None:
            return None
        return self._known.recall(self._key(uri, function, language, self._model))

    async def prepare(self, uri: str, function: Function, language: str) -> None:
        """Make the summary of a function when nothing else is to be done, unless it is known."""
        if not await self._admission.admits(uri) or self.known(uri, function, language) is not None:
            return
        if self._has_nothing(uri, function, language):
            return
        key = self._key(uri, function, language)
        await asyncio.wait({self._begin(key, uri, function, language, Priority.IDLE).task})

    def give_way(self) -> None:
        """Stop the idle work that nobody has asked for meanwhile."""
        for running in self._running.values():
            if not running.awaited:
                running.task.cancel()

    async def reword(self, uri: str, function: Function, language: str) -> Suggestion | None:
        """Another wording of the summary of a function, which takes its place; None as for `of`."""
        if not await self._admission.admits(uri):
            return None
        self._events.send(on.SummaryRequested())
        key = b"another" + self._key(uri, function, language)
        if key not in self._running:
            self._wordings[key] = self._wordings.get(key, 0) + 1
        # Another seed each time: the same words again would look like a command that does nothing.
        running = self._begin(
            key, uri, function, language, Priority.BACKGROUND, seed=self._wordings.get(key, 1)
        )
        made = await self._result(running, function.name, None)
        return None if made == "pending" else made

    def assess_again(self) -> None:
        """The calibrator or the policy has changed: give the remembered summaries their new confidence."""
        for key, summary in self._known.items():
            self._known.amend(key, self._service.assessed_again(summary))
        if self._known:
            self._events.send(on.SummaryKnown())

    async def close(self) -> None:
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _result(
        self, running: Running, name: str, patience: float | None
    ) -> Suggestion | Literal["pending"] | None:
        """What comes of the work on a summary, as for `of`. name: of its function."""
        running.awaited = True
        running.waiting += 1
        try:
            # `wait` leaves the task running: an editor cancels a hover at the slightest movement of the
            # mouse, and the next hover still wants the summary.
            await asyncio.wait({running.task}, timeout=_QUIET if patience is None else patience)
            if not running.task.done():
                if not running.is_shown:
                    running.is_shown = True
                    self._progress.follow(running.task, name)
                if patience is not None:
                    return "pending"
                await asyncio.wait({running.task})
        finally:
            running.waiting -= 1
        summary = None if running.task.cancelled() else running.task.result()
        return None if summary is None else summary.suggestion

    def _drop_abandoned(self) -> None:
        """Cancel summaries that nobody waits for any more, such as of functions that the mouse passed over.

        They would all be made before the next one. The oldest may be all but done, and stays; so do those
        that the editor shows to be under way.
        """
        awaited = [running for running in self._running.values() if running.awaited]
        for running in awaited[1:]:
            if not running.waiting and not running.is_shown:
                running.task.cancel()

    def _has_nothing(self, uri: str, function: Function, language: str) -> bool:
        """Whether the model has been asked, and had nothing to say."""
        return (
            self._model is not None and self._key(uri, function, language, self._model) in self._nothing_said
        )

    def _begin(
        self,
        key: bytes,
        uri: str,
        function: Function,
        language: str,
        priority: Priority,
        *,
        seed: int | None = None,
    ) -> Running:
        """The work on the summary of a function, begun now if it was not yet."""
        running = self._running.get(key)
        if running is None or running.task.cancelling():
            task = asyncio.create_task(self._summarize(uri, function, language, priority, seed))
            running = self._running[key] = Running(task)
            task.add_done_callback(lambda done: self._ended(key, done))
        return running

    def _ended(self, key: bytes, task: asyncio.Task[Summary | None]) -> None:
        if key in self._running and self._running[key].task is task:
            del self._running[key]

    async def _summarize(
        self, uri: str, function: Function, language: str, priority: Priority, seed: int | None
    ) -> Summary | None:
        try:
            examples = await self._examples.examples_for(uri, function, language)
            summary = await self._service.summarize(
                function, language, priority, examples=examples, seed=seed, document=uri
            )
        except LspCalibError as error:
            logger.warning("No summary: %s", error)
            return None
        if summary is None:
            if seed is None and self._model is not None:
                self._nothing_said[self._key(uri, function, language, self._model)] = None
            return None
        self._events.send(on.SuggestionMade(summary.suggestion))
        self._model = summary.model
        self._known[self._key(uri, function, language, summary.model)] = summary
        self._events.send(on.SummaryKnown())
        return summary

    def _key(self, uri: str, function: Function, language: str, model: ModelIdentity | None = None) -> bytes:
        of = "" if model is None else f"{model.name}\0{model.quantisation}\0{model.sha256}"
        # The tier depends on the document (`tiers.overrides`), the prompt's examples on its workspace.
        text = f"{of}\0{uri}\0{language}\0{function.code}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, text, "sha256")
