"""The examples of the workspace that prompts for summaries show: when its folders are searched."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from lsp_calib.languages import family_of
from lsp_calib.server.admission import Admission
from lsp_calib.server.documents import CalibDocument, path_of, path_of_folder
from lsp_calib.server.messages import Connection
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.prompt import SHOTS
from lsp_calib.summarization.workspace_examples import WorkspaceExamples
from lsp_calib.syntax import Function, has_grammar
from lsp_calib.workspace_files import is_left_out

logger = logging.getLogger(__name__)

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
        for root, index in self._indexes.items():
            if document is not None and document.path.is_relative_to(root):
                index.drop(document.path.relative_to(root).as_posix())

    async def examples_for(
        self, document: CalibDocument, function: Function, language: str
    ) -> Sequence[Example]:
        """Documented functions of the workspace that resemble a function, the best first.

        None for a document outside of it, for a language without a grammar, and for a remote model. It waits
        a second for the first ones of a folder.
        """
        folder, path = self._connection.folder_of(document), path_of(document.file)
        root = path_of_folder(folder) if folder else None
        if root is None or path is None or not path.is_relative_to(root):
            return ()
        if not has_grammar(language) or self._connection.settings.remote_url is not None:
            return ()
        if root not in self._indexes:
            self._indexes[root] = WorkspaceExamples(root, self._admission.exclusion)
        index = self._indexes[root]
        scan = self._scans.setdefault((root, family_of(language)), _Scan())
        old = scan.ended is None or time.monotonic() - scan.ended > _STALE
        idle = scan.task is None or scan.task.done()
        if idle and old and self._running and self._admission.may_work_ahead():
            scan.task = asyncio.create_task(self._scan(scan, index, path, language))
        if scan.ended is None and scan.task is not None:
            self._waiting += 1
            try:
                await asyncio.wait({scan.task}, timeout=self._patience)
            finally:
                self._waiting -= 1
        opened = [(one, one.document.edits, one.document.bare_lines) for one in self._below(root)]
        return await asyncio.to_thread(self._best, index, function, language, path, opened)

    async def close(self) -> None:
        self._running = False
        tasks = [scan.task for scan in self._scans.values() if scan.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _below(self, root: Path) -> list[_Open]:
        return [one for one in self._open.values() if one.path.is_relative_to(root)]

    async def _scan(self, scan: _Scan, index: WorkspaceExamples, path: Path, language: str) -> None:
        async with self._turn:
            opened = {
                one.path.relative_to(index.root).as_posix(): one.document.bare_lines
                for one in self._below(index.root)
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
            index.scan(language, path.parent, seconds=_LONGEST, goes_on=self._after_file, open_=opened)
        except Exception:
            # No file of a workspace may end this; a summary without examples is better than none.
            logger.exception("The examples of a workspace folder could not be read.")
            return True
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
