"""The files around a document that a model may see, for the pieces of them in its prompts.

Only files below a folder, in the document's language, are read: never excluded, ignored, generated or large
ones, and nothing through a link. Open documents are taken as they are in the editor.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import ALONE, Layout, Surroundings
from lsp_calib.completion.related import SourceFile, head_of, near_files, related
from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import language_of
from lsp_calib.workspace_files import is_left_out, is_made_by_a_program, lines_of, stamp_of, walk

# A workspace is listed again after so many seconds, and never for longer than the second number: what is
# nearest to the document comes first.
_STALE, _LISTING = 30.0, 0.3
# Lines of other files that are searched for pieces, together.
_MOST_LINES = 20_000
# Files whose lines are remembered.
_REMEMBERED = 100


@attrs.frozen
class OpenFile:
    """An open document. path: where its file lies or would lie."""

    path: Path
    lines: Sequence[str]


class Neighbourhood:
    """The files of workspaces, read as they are needed. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[Path, tuple[tuple[int, int], tuple[str, ...]]] = OrderedDict()
        self._left_out: dict[tuple[Path, Path], tuple[float, bool]] = {}
        self._listed: dict[tuple[Path, Path, str], tuple[float, list[str]]] = {}

    def around(
        self,
        document: Path,
        root: Path | None,
        opened: Iterable[OpenFile],
        exclusion: Exclusion,
        cursor: Cursor,
        layout: Layout,
    ) -> Surroundings:
        """What a prompt at `cursor` shows of other places.

        document: its path. root: of its workspace folder; None: it is in none, and stands for itself.
        opened: the editor's documents. exclusion: of those that no model may see.
        """
        if not layout.related:
            return ALONE
        if root is None or not document.is_relative_to(root):
            found = related(cursor, layout.shown(cursor), document.name, (), layout.related)
            return Surroundings("", document.name, found)
        with self._lock:
            return self._in_workspace(document, root, opened, exclusion, cursor, layout)

    def _in_workspace(
        self,
        document: Path,
        root: Path,
        opened: Iterable[OpenFile],
        exclusion: Exclusion,
        cursor: Cursor,
        layout: Layout,
    ) -> Surroundings:
        name = document.relative_to(root).as_posix()
        buffers = {
            one.path.relative_to(root).as_posix(): one.lines
            for one in opened
            if one.path.is_relative_to(root)
            and language_of(one.path) == cursor.language
            and not exclusion.reason(str(one.path))
            and not self._is_left_out(one.path, root)
        }
        names = dict.fromkeys([*buffers, *self._names(root, document.parent, cursor.language)])
        allowed = [one for one in names if one in buffers or not exclusion.reason(str(root / one))]
        # What is open is being worked on.
        near = dict.fromkeys([*near_files(name, head_of(cursor.lines), allowed), *buffers])
        files = list(self._within_bounds(root, near, buffers))
        found = related(cursor, layout.shown(cursor), name, files, layout.related)
        return Surroundings(root.name, name, found)

    def _within_bounds(
        self, root: Path, names: Iterable[str], buffers: Mapping[str, Sequence[str]]
    ) -> Iterator[SourceFile]:
        left = _MOST_LINES
        for name in names:
            lines = buffers.get(name) or self._lines(root / name)
            left -= len(lines)
            if left < 0:
                return
            if lines and not is_made_by_a_program(PurePosixPath(name).name, lines):
                yield SourceFile(name, lines)

    def _lines(self, path: Path) -> tuple[str, ...]:
        """The lines of a file; none if it cannot be read."""
        stamp = stamp_of(path)
        if stamp is None:
            return ()
        known = self._files.get(path)
        if known is not None and known[0] == stamp:
            self._files.move_to_end(path)
            return known[1]
        lines = lines_of(path)
        if not lines:
            return ()
        self._files[path] = stamp, lines
        if len(self._files) > _REMEMBERED:
            self._files.popitem(last=False)
        return lines

    def _is_left_out(self, path: Path, root: Path) -> bool:
        """As `is_left_out`, which reads files, of a moment ago."""
        now = time.monotonic()
        at, known = self._left_out.get((path, root), (0.0, False))
        if not at or now - at > _STALE:
            if len(self._left_out) > _REMEMBERED:
                self._left_out.clear()
            known = is_left_out(path, root)
            self._left_out[path, root] = now, known
        return known

    def _names(self, root: Path, nearest: Path, language: str) -> list[str]:
        """The files of a language below a folder, by their paths below it; those near a folder first."""
        key = (root, nearest, language)
        at, names = self._listed.get(key, (0.0, []))
        now = time.monotonic()
        if not at or now - at > _STALE:
            files = walk(root, nearest, lambda path: language_of(path) == language, seconds=_LISTING)
            names = [path.relative_to(root).as_posix() for path in files]
            if len(self._listed) > _REMEMBERED:
                self._listed.clear()
            self._listed[key] = now, names
        return names
