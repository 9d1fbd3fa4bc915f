"""Examples for summaries from the workspace of a document, looked for in the background.

The first summary in a workspace folder starts the index of its language: what is nearest to the document
comes first, so that this summary may already profit. Later ones have changed files read again, at most once a
minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import family_of
from lsp_calib.server.paths import path_of, path_of_folder
from lsp_calib.server.text import CalibDocument
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
# Seconds that the index rests after each file: as long as the file took, but no longer than this; while the
# model makes a summary, for the processor's sake; and while the user types, for the interpreter's.
_LONGEST_REST, _BUSY_REST, _TYPING_REST = 0.25, 0.5, 2.0
# The user types for so long after a change. How often pauses and changes are looked for.
_TYPING, _LOOK = 1.0, 0.05


@attrs.define(eq=False)
class _Open:
    """An open document. lines: as they are now. fresh: whether they are not in the index yet."""

    path: Path
    language: str
    lines: Sequence[str]
    fresh: bool = True


@attrs.define(eq=False)
class _Scan:
    """The search through a folder for one language. ended: when, None before the first time."""

    task: asyncio.Task[None] | None = None
    ended: float | None = None


class ExampleIndex:
    """The examples of one connection's workspace folders.

    folder_of: the address of the workspace folder of a document, empty if it is in none. exclusion: of the
    documents that no model may see. local: whether the model runs on this machine: only text of the document
    itself goes to another one. allowed: whether work in the background is wanted now: no pause, no battery.
    busy: whether the model works on a summary.
    """

    def __init__(
        self,
        folder_of: Callable[[str], str],
        exclusion: Callable[[], Exclusion],
        local: Callable[[], bool],
        allowed: Callable[[], bool],
        busy: Callable[[], bool],
    ) -> None:
        self._folder_of = folder_of
        self._exclusion = exclusion
        self._local = local
        self._allowed = allowed
        self._busy = busy
        self._running = True
        # For the thread: whether it goes on, and how long it rests after a file.
        self._goes_on, self._rest = True, 0.0
        self._open: dict[str, _Open] = {}
        self._indexes: dict[Path, WorkspaceExamples] = {}
        self._scans: dict[tuple[Path, str], _Scan] = {}
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0  # summaries that wait for examples
        self._typed = -_TYPING

    def changed(self, document: CalibDocument, language: str) -> None:
        """A document is open, or has changed."""
        self._typed = time.monotonic()
        path = path_of(document.uri)
        if path is not None and has_grammar(language):
            self._open[document.uri] = _Open(path, language, document.bare_lines)

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
        folder, path = self._folder_of(uri), path_of(uri)
        root = path_of_folder(folder) if folder else None
        if root is None or path is None or not path.is_relative_to(root):
            return ()
        if not has_grammar(language) or not self._local():
            return ()
        index = self._indexes.get(root)
        if index is None:
            index = self._indexes[root] = WorkspaceExamples(root, self._exclusion)
        scan = self._scans.setdefault((root, family_of(language)), _Scan())
        self._begin(scan, index, path, language)
        if scan.ended is None and scan.task is not None:
            self._waiting += 1
            try:
                await asyncio.wait({scan.task}, timeout=_PATIENCE)
            finally:
                self._waiting -= 1
        opened = [one for one in self._open.values() if one.path.is_relative_to(root)]
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
        if self._running and old and self._allowed():
            scan.task = asyncio.create_task(self._scan(scan, index, path, language))

    async def _scan(self, scan: _Scan, index: WorkspaceExamples, path: Path, language: str) -> None:
        async with self._turn:
            opened = {
                one.path.relative_to(index.root).as_posix(): one.lines
                for one in self._open.values()
                if one.path.is_relative_to(index.root)
            }
            self._look()
            work = asyncio.create_task(asyncio.to_thread(self._search, index, path, language, opened))
            try:
                while not work.done():
                    await asyncio.wait({work}, timeout=_LOOK)
                    self._look()
            except asyncio.CancelledError:
                # The server ends, perhaps because the editor has gone; it waits for its threads.
                self._goes_on = False
                raise
            if work.result():
                scan.ended = time.monotonic()

    def _look(self) -> None:
        self._goes_on = self._running and self._allowed()
        typing = time.monotonic() - self._typed < _TYPING
        rest = _TYPING_REST if typing else _BUSY_REST if self._busy() else 0.0
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
            time.sleep(min(seconds, _LONGEST_REST))
        while self._goes_on and time.monotonic() - start < self._rest:
            time.sleep(_LOOK)
        return self._goes_on

    def _best(
        self,
        index: WorkspaceExamples,
        function: Function,
        language: str,
        path: Path,
        opened: Sequence[_Open],
    ) -> Sequence[Example]:
        """In a thread."""
        exclusion = self._exclusion()
        texts: dict[str, Sequence[str]] = {}
        for one in opened:
            name = one.path.relative_to(index.root).as_posix()
            texts[name] = one.lines
            if one.fresh and family_of(one.language) == family_of(language):
                one.fresh = False
                if exclusion.reason(str(one.path)) or is_left_out(one.path, index.root):
                    index.drop(name)
                else:
                    index.put(name, one.language, one.lines)
        return index.best(function, language, path.relative_to(index.root).as_posix(), SHOTS, texts)
