"""Summaries for an editor: the function that a place is about, examples of its workspace, and its summary.

Each summary is requested from the service once and remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs
from lsprotocol import types

from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engine import Priority
from lsp_calib.languages import family_of
from lsp_calib.lru import LRU
from lsp_calib.server.admission import Admission
from lsp_calib.server.messages import Connection
from lsp_calib.server.text import CalibDocument, part_of_line, path_of, path_of_folder, whole_line
from lsp_calib.server.user_messages import SummaryProgress
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.service import Summary, SummaryService
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Call, Function, call_at, functions, has_grammar, may_mean
from lsp_calib.values import ModelIdentity, Suggestion
from lsp_calib.workspace_files import is_left_out

logger = logging.getLogger(__name__)

_MOST_NAMESAKES = 50


@attrs.frozen
class Target:
    """A function, its language, and the range that stands for it.

    document: in which the function stands; another cell of the notebook, where the range is that of a call.
    """

    document: CalibDocument
    function: Function
    language: str
    range: types.Range

    @classmethod
    def at_its_heading(cls, document: CalibDocument, function: Function) -> Target:
        """A function of a document as it is now; the range is its first line."""
        heading = whole_line(document, function.start, document.bare_lines[function.start])
        return cls(document, function, document.language, heading)


def functions_of(document: CalibDocument) -> Sequence[Function]:
    """The functions of a document as it is now; empty for a language without a grammar.

    Each version is parsed once, when it is first asked for.
    """
    language, lines = document.language, document.bare_lines
    if not has_grammar(language):
        return ()
    known = document.functions_of(lines)
    if known is None:
        known = functions(document.read_lines, language)
        document.remember_functions(lines, known)
    return known


async def parse(*documents: CalibDocument) -> None:
    """Find the functions of documents of one language in a thread, unless they are known; `functions_of` then
    has them.

    A long document takes a tenth of a second, in which keystrokes are answered. If it changes meanwhile, the
    functions of the new version are not known.
    """
    language = documents[0].language
    pending = [one for one in documents if one.functions_of(one.bare_lines) is None]
    if not has_grammar(language) or not pending:
        return
    lines = [one.bare_lines for one in pending]
    read = [one.read_lines for one in pending]
    found = await asyncio.to_thread(lambda: [functions(one, language) for one in read])
    for document, its_lines, its_functions in zip(pending, lines, found, strict=True):
        document.remember_functions(its_lines, its_functions)


def target_at(document: CalibDocument, position: types.Position) -> Target | None:
    """The function that a place is about, None if there is none.

    On a line of a signature it is that function; on the name of a call the one that is called, if exactly one
    function of this file or notebook has the name: which of several is meant only the language's own server
    knows.
    Nowhere else in a body: there every word has a hover of that server, which ours would bury.
    """
    line, column = document.place_of(position)
    lines, language = document.bare_lines, document.language
    found = functions_of(document)
    function = next((one for one in found if one.start <= line < one.signature_end), None)
    if function is None:
        call = call_at(lines[line], column)
        called = [] if call is None else list(_called(call, document, language))
        if call is not None and len(called) == 1:
            return Target(*called[0], language, part_of_line(document, line, lines[line], *call.span))
    return None if function is None else Target.at_its_heading(document, function)


def function_around(document: CalibDocument, position: types.Position) -> Target | None:
    """The innermost function that holds a place, None if there is none."""
    line, _ = document.place_of(position)
    function = _innermost(functions_of(document), line)
    return None if function is None else Target.at_its_heading(document, function)


def _called(call: Call, document: CalibDocument, language: str) -> Iterator[tuple[CalibDocument, Function]]:
    """The functions that a call in a document can mean, each with the document in which it stands."""
    named = [(one, found) for one in document.cells for found in functions_of(one) if found.name == call.name]
    # Each looks for its class above. Of so many no single one is meant.
    for one, function in named if len(named) <= _MOST_NAMESAKES else ():
        if may_mean(call, function, one.bare_lines, language):
            yield one, function


def _innermost(found: Sequence[Function], line: int) -> Function | None:
    holding = (one for one in found if one.start <= line < one.end)
    return max(holding, key=lambda one: (one.start, -one.end), default=None)


# Seconds after which a folder is looked through again, and for how long at most, rests included.
_STALE, _LONGEST = 60.0, 300.0
# Seconds that a summary waits for the first examples of a folder: making it takes longer.
_PATIENCE = 1.0
# Seconds for which the search rests after a file at most: as long as that took.
_REST = 0.25
# Seconds between two looks whether a search may go on.
_LOOK = 0.05


@attrs.define(eq=False)
class _Open:
    """An open document. indexed: after how many changes it was put into the index."""

    document: CalibDocument
    path: Path
    indexed: int = -1


@attrs.define(eq=False)
class _Scan:
    """The search through a folder for one language. ended: when, None before the first time."""

    task: asyncio.Task[None] | None = None
    ended: float | None = None


@attrs.define(eq=False, repr=False, slots=False)
class ExampleIndex:
    """The examples of one connection's workspace folders.

    Only for a model on this machine: to another one goes only text of the document itself. patience: seconds
    that a summary waits for the first examples of a folder.
    """

    _connection: Connection
    _admission: Admission
    _patience: float = _PATIENCE

    def __attrs_post_init__(self) -> None:
        # Looked at by the thread: the server runs, and neither a pause nor battery forbids the search.
        self._running = self._allowed = True
        self._open: dict[str, _Open] = {}
        self._indexes: dict[Path, WorkspaceExamples] = {}
        self._scans: dict[tuple[Path, str], _Scan] = {}
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0  # summaries that wait for examples

    def opened(self, document: CalibDocument) -> None:
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

    async def examples_for(self, target: Target) -> Sequence[Example]:
        """Documented functions of the workspace that resemble a function, the best first.

        None for a document outside of it, for a language without a grammar, and for a remote model. It waits
        a second for the first ones of a folder.
        """
        document, function, language = target.document, target.function, target.language
        folder, path = self._connection.folder_of(document), path_of(document.file)
        root = path_of_folder(folder) if folder else None
        if root is None or path is None or not path.is_relative_to(root):
            return ()
        if not has_grammar(language) or self._connection.settings.remote_url is not None:
            return ()
        index = self._indexes.get(root)
        if index is None:
            index = self._indexes[root] = WorkspaceExamples(root, self._admission.exclusion)
        scan = self._scans.setdefault((root, family_of(language)), _Scan())
        self._begin(scan, index, path, language)
        if scan.ended is None and scan.task is not None:
            self._waiting += 1
            try:
                await asyncio.wait({scan.task}, timeout=self._patience)
            finally:
                self._waiting -= 1
        opened = [
            (one, one.document.edits, one.document.bare_lines)
            for one in self._open.values()
            if one.path.is_relative_to(root)
        ]
        return await asyncio.to_thread(self._best, index, function, language, path, opened)

    async def close(self) -> None:
        self._running = False
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
            search = asyncio.create_task(asyncio.to_thread(self._search, index, path, language, opened))
            try:
                while not search.done():
                    self._allowed = self._admission.may_work_ahead()
                    await asyncio.wait({search}, timeout=_LOOK)
            except asyncio.CancelledError:
                # The server ends, perhaps because the editor has gone; it waits for its threads.
                self._running = False
                raise
            if search.result():
                scan.ended = time.monotonic()

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
        return self._running and self._allowed

    def _after_file(self, seconds: float) -> bool:
        """In a thread, after a file that took so many seconds."""
        if not self._waiting:
            time.sleep(min(seconds, _REST))
        return self._running and self._allowed

    def _best(
        self,
        index: WorkspaceExamples,
        function: Function,
        language: str,
        path: Path,
        opened: Sequence[tuple[_Open, int, Sequence[str]]],
    ) -> Sequence[Example]:
        """In a thread."""
        texts: dict[str, Sequence[str]] = {}
        for one, edits, lines in opened:
            name = one.path.relative_to(index.root).as_posix()
            texts[name] = lines
            if one.indexed != edits and family_of(one.document.language) == family_of(language):
                one.indexed = edits
                if self._admission.excluded(one.document) or is_left_out(one.path, index.root):
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
        silence. reload: takes the calibrators in force. made: is told of each summary that the model makes,
        whether or not it is shown. known_anew: of summaries that are known and were not, or are others.
    """

    _service: SummaryService
    _admission: Admission
    _examples: ExampleIndex
    _progress: SummaryProgress
    _reload: Callable[[], object]
    _made: Callable[[Suggestion], object]
    _known_anew: Callable[[], object]

    def __attrs_post_init__(self) -> None:
        self._running: dict[bytes, Running] = {}  # the summaries that are being made
        self._secret = secrets.token_bytes(32)
        self._model: ModelIdentity | None = None
        self._known = LRU[bytes, Summary](_SUMMARIES_KEPT)
        self._nothing_said = LRU[bytes, None](_SUMMARIES_KEPT)
        self._wordings = LRU[bytes, int](_SUMMARIES_KEPT)

    def loaded(self, model: ModelIdentity) -> None:
        """This model answers from now on; summaries of another one stay for its return."""
        self._model = model

    async def of(
        self, target: Target, *, patience: float | None = None
    ) -> Suggestion | Literal["pending"] | None:
        """The summary of a function; "pending" if it is still being made after `patience` seconds.

        It is made at background priority: a completion interrupts it, and it resumes afterwards
        (`inference.process.request_queue`). A remote server is asked for both at once.
        patience: None waits until it is made. None if it could not be made, or if the document is excluded.
        Its confidence is made with it (`summarization.service.SummaryService.summarize`).
        """
        if not await self._admission.admits(target.document):
            return None
        self._reload()
        known = self.known(target)
        if known is not None:
            return known.suggestion
        if self._has_nothing(target):
            return None
        key = self._key(target)
        if key not in self._running:
            self._drop_abandoned()
        running = self._begin(key, target, Priority.BACKGROUND)
        return await self._result(running, target.function.name, patience)

    @property
    def is_busy(self) -> bool:
        """Whether a summary is being made."""
        return bool(self._running)

    def known(self, target: Target) -> Summary | None:
        """The summary of a function of a document if it has been made."""
        return None if self._model is None else self._known.recall(self._key(target, self._model))

    async def prepare(self, target: Target) -> None:
        """Make the summary of a function when nothing else is to be done, unless it is known."""
        if not await self._admission.admits(target.document) or self.known(target) is not None:
            return
        if not self._has_nothing(target):
            await asyncio.wait({self._begin(self._key(target), target, Priority.IDLE).task})

    def give_way(self) -> None:
        """Stop the idle work that nobody has asked for meanwhile."""
        for running in self._running.values():
            if not running.awaited:
                running.task.cancel()

    async def reword(self, target: Target) -> Suggestion | None:
        """Another wording of the summary of a function, which takes its place; None as for `of`."""
        if not await self._admission.admits(target.document):
            return None
        self._reload()
        key = b"another" + self._key(target)
        if key not in self._running:
            self._wordings[key] = self._wordings.get(key, 0) + 1
        # Another seed each time: the same words again would look like a command that does nothing.
        running = self._begin(key, target, Priority.BACKGROUND, seed=self._wordings.get(key, 1))
        made = await self._result(running, target.function.name, None)
        return None if made == "pending" else made

    def assess_again(self) -> None:
        """The calibrator or the policy has changed: give the remembered summaries their new confidence."""
        for key, summary in self._known.items():
            self._known.amend(key, self._service.assessed_again(summary))
        if self._known:
            self._known_anew()

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

    def _has_nothing(self, target: Target) -> bool:
        """Whether the model has been asked, and had nothing to say."""
        return self._model is not None and self._key(target, self._model) in self._nothing_said

    def _begin(self, key: bytes, target: Target, priority: Priority, *, seed: int | None = None) -> Running:
        """The work on the summary of a function, begun now if it was not yet."""
        running = self._running.get(key)
        if running is None or running.task.cancelling():
            task = asyncio.create_task(self._summarize(target, priority, seed))
            running = self._running[key] = Running(task)
            task.add_done_callback(lambda done: self._ended(key, done))
        return running

    def _ended(self, key: bytes, task: asyncio.Task[Summary | None]) -> None:
        if key in self._running and self._running[key].task is task:
            del self._running[key]

    async def _summarize(self, target: Target, priority: Priority, seed: int | None) -> Summary | None:
        try:
            examples = await self._examples.examples_for(target)
            summary = await self._service.summarize(
                *(target.function, target.language, priority),
                examples=examples,
                seed=seed,
                document=target.document.uri,
            )
        except LspCalibError as error:
            logger.warning("No summary: %s", error)
            return None
        if summary is None:
            if seed is None and self._model is not None:
                self._nothing_said[self._key(target, self._model)] = None
            return None
        self._made(summary.suggestion)
        self._model = summary.model
        self._known[self._key(target, summary.model)] = summary
        self._known_anew()
        return summary

    def _key(self, target: Target, model: ModelIdentity | None = None) -> bytes:
        of = "" if model is None else f"{model.name}\0{model.quantisation}\0{model.sha256}"
        # The tier depends on the document (`tiers.overrides`), the prompt's examples on its workspace.
        parts = of, target.document.uri, target.language, target.function.code
        return hmac.digest(self._secret, "\0".join(parts).encode("utf-8", "surrogatepass"), "sha256")
