"""Pieces of other places in prompts: of the same document, and of the files around it that a model may see.

A piece of ten lines scores by the words that it shares with the lines before the cursor, rare words counting
more (cosine of word sets, weighted by inverse document frequency). Related: Zhang et al. 2023, "RepoCoder:
Repository-level code completion through iterative retrieval and generation" (arXiv 2303.12570), whose pieces
are ranked by the Jaccard index. The pieces of a place stay while the place does: otherwise nothing of the
cache would fit.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, Snippet, Surroundings
from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import language_of
from lsp_calib.values import LRU
from lsp_calib.workspace_files import (
    exclusion_below,
    is_left_out,
    is_made_by_a_program,
    lines_of,
    stamp_of,
    walk,
)

# In lines. Pieces overlap by half.
_PIECE = 10
_STRIDE = 5
# Lines before the cursor whose words are looked for.
_NEAR = 3
# Of the document's own lines, so many on each side of the cursor are looked at.
_OWN = 2000
# Files that are looked at, and lines of each.
MOST_FILES = 40
_MOST_LINES = 5000
# The lines at the top of a document in which it names what it imports.
_HEAD = 100
# In characters: a shorter piece says little.
_SHORTEST = 40
# Files that are named after their folder.
_OF_FOLDER = frozenset({"__init__", "index", "mod", "lib"})

_WORD = re.compile(r"[^\W\d]\w+")


@attrs.frozen(eq=False)
class SourceFile:
    """A file whose text may be shown.

    name: its path below the project, with `/`. lines: without their ends.
    """

    name: str
    lines: Sequence[str]


def near_files(name: str, head: Iterable[str], names: Sequence[str]) -> list[str]:
    """Of some files, at most `MOST_FILES` that a document is likely to use: those that its first lines name,
    then those in its folder.

    name: of the document; names: of the files, all below one project and of one language. head: the
    document's first lines.
    """
    own = PurePosixPath(name)
    words = {word for line in head for word in _WORD.findall(line)}
    named, beside = [], []
    for other in names:
        path = PurePosixPath(other)
        if path == own:
            continue
        stem = path.parent.name if path.stem in _OF_FOLDER else path.stem
        if stem in words:
            named.append(other)
        elif path.parent == own.parent:
            beside.append(other)
    # Of several files of one name, the nearest is meant.
    named.sort(key=lambda other: (-_shared(own, PurePosixPath(other)), other))
    return [*named, *sorted(beside)][:MOST_FILES]


def head_of(lines: Sequence[str]) -> Sequence[str]:
    """The lines in which a document names what it imports."""
    return lines[:_HEAD]


def related(
    cursor: Cursor, shown: tuple[int, int], name: str, files: Iterable[SourceFile], budget: int
) -> tuple[Snippet, ...]:
    """The pieces that resemble the text before the cursor most, the best one last: next to the cursor.

    shown: first line, and line after the last one, that the prompt shows of the document anyway. name: of the
    document. files: other ones. budget: characters of all pieces together, names included.
    """
    query = {word for line in _before(cursor) for word in _WORD.findall(line)}
    if not query:  # nothing resembles nothing; to read all pieces takes a tenth of a second
        return ()
    first, end = max(cursor.line - _OWN, 0), cursor.line + _OWN
    above = SourceFile(name, cursor.lines[first : max(shown[0], first)])
    below = SourceFile(name, cursor.lines[min(shown[1], end) : end])
    # The document's pieces begin at the same lines wherever the cursor is.
    pieces = [*_pieces(above, first), *_pieces(below, min(shown[1], end))]
    for file in files:
        pieces += _pieces(file)
    frequency = Counter(word for piece in pieces for word in piece.words)
    rarity = {word: math.log1p(len(pieces) / (1 + count)) for word, count in frequency.items()}
    for piece in pieces:
        weight = math.fsum(rarity[word] for word in piece.words)
        piece.score = math.fsum(rarity[word] for word in sorted(piece.words & query)) / math.sqrt(weight)
    # Stable: of equals in the document, what stands above comes first.
    pieces.sort(key=lambda piece: (-piece.score, piece.file.name, piece.start))
    return tuple(reversed(list(_within(pieces, budget))))


@attrs.define(eq=False)
class _Piece:
    """Lines of a file from `start` on, counted from 0."""

    file: SourceFile
    start: int
    words: frozenset[str]
    score: float = 0.0


def _within(pieces: Iterable[_Piece], budget: int) -> Iterator[Snippet]:
    """The best pieces that fit; no line twice."""
    used = 0
    taken: set[tuple[int, int]] = set()
    for piece in pieces:
        if not piece.score or budget - used < _SHORTEST:
            return
        lines = piece.file.lines
        kept = [
            at
            for at in range(piece.start, min(piece.start + _PIECE, len(lines)))
            if (id(piece.file), at) not in taken
        ]
        text, room = [], budget - used - len(piece.file.name)
        for at in kept:
            room -= len(lines[at]) + 1
            if room < 0:
                break
            text.append(lines[at])
        joined = "\n".join(text).strip("\n")
        if len(joined.strip()) < _SHORTEST:
            continue
        taken.update((id(piece.file), at) for at in kept[: len(text)])
        used += len(joined) + 1 + len(piece.file.name)
        yield Snippet(piece.file.name, joined)


def _before(cursor: Cursor) -> list[str]:
    return [*cursor.lines[max(cursor.line - _NEAR, 0) : cursor.line], cursor.before]


def _pieces(file: SourceFile, first: int = 0) -> Iterator[_Piece]:
    """first: the number of the file's first line."""
    words = [frozenset(_WORD.findall(line)) for line in file.lines[:_MOST_LINES]]
    for start in range(-first % _STRIDE, max(len(words) - _STRIDE, 1), _STRIDE):
        found = frozenset().union(*words[start : start + _PIECE])
        if found:
            yield _Piece(file, start, found)


def _shared(one: PurePosixPath, other: PurePosixPath) -> int:
    """How many folders two paths have in common."""
    parts = zip(one.parent.parts, other.parent.parts, strict=False)
    return next((at for at, (a, b) in enumerate(parts) if a != b), min(len(one.parts), len(other.parts)) - 1)


# Places of a document that are remembered with pieces: those that the model's cache may hold, and those of a
# block that is made below the cursor.
_MOST = 16
# Lines without pieces that are remembered: as many as completions, which can be recalled only so long.
_MOST_EMPTY = 64
# The window moves by so many lines. At the top of a document, where it stands still, the cursor counts.
_BLOCK = 16
# Characters of a line that are looked at.
_LONGEST = 200
# How lines begin, after their indentation, that name what is imported. goes_on: those that may go on in
# brackets on the lines below, unlike a block such as C#'s `using (...) {` or Rust's `mod tests {`.
_IMPORT = re.compile(
    r"(?P<goes_on>from\b|import\b(?!\()|(?:pub(?:\([^)]*\))? )?use\b(?! ?\())"
    r"|# ?include\b|(?:include|require)(?:_once|_relative)?\b|using\s[^(]*;|(?:pub(?:\([^)]*\))? )?mod\s+\w+;"
)
# A regular expression is slow for a hundred lines at each key.
_BEGINNINGS = ("from", "import", "#", "include", "require", "use", "using", "mod", "pub")
# Those that name it further on.
_FROM = re.compile(r"\b(?:from|require)\b ?\(?['\"]")
_NAME = re.compile(r"\w+")

Find = Callable[[str, Cursor, Layout], Callable[[], Surroundings]]
"""Takes in what is known of the open documents; what it returns finds the surroundings of a place in one of
them. That may read files, so it is called in a thread."""


class _Place(NamedTuple):
    """Where pieces stay as they are. imported: the names in the lines that import something."""

    version: str
    window: int
    block: int
    imported: frozenset[str]

    @classmethod
    def of(cls, cursor: Cursor, layout: Layout) -> _Place:
        window = layout.shown(cursor)[0]
        block = 0 if window else cursor.line // _BLOCK
        return cls(layout.version, window, block, frozenset(_imported(cursor)))


@attrs.define
class _DocumentCache:
    """What is remembered of a document. looked: when its files were looked for last. empty: where no pieces
    were found, by the line too."""

    language: str
    looked: float = 0.0
    found: LRU[_Place, Surroundings] = attrs.field(factory=lambda: LRU(_MOST))
    empty: LRU[tuple[_Place, int], Surroundings] = attrs.field(factory=lambda: LRU(_MOST_EMPTY))

    def of(self, place: _Place, line: int) -> Surroundings | None:
        return self.found.recall(place) or self.empty.get((place, line))

    def keep(self, place: _Place, line: int, surroundings: Surroundings) -> None:
        if surroundings.snippets:
            self.found[place] = surroundings
        else:
            self.empty[place, line] = surroundings


# Documents whose surroundings are remembered.
_MOST_DOCUMENTS = 32
# Seconds after which it is looked again whether their files are still there.
_LOOK = 2.0


class Nearby:
    """The surroundings of places in open documents, found once for each place.

    Pieces come first in a prompt: others make the model evaluate the whole of it. So they are looked for
    again when the window moves, after which it has to do that anyway, every 16 lines where the window stands
    still, and when the document imports something else or a document is opened or closed. Where there are
    none, they are looked for on each line, as in a new file. What comes from a file goes with it.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._documents = LRU[str, _DocumentCache](_MOST_DOCUMENTS)
        self._cleared = 0

    async def of(self, document: str, cursor: Cursor, layout: Layout) -> Surroundings:
        """The surroundings for a prompt at `cursor`."""
        known = self.known(document, cursor, layout)
        if known is not None and not await self._has_lost_files(document, known):
            return known
        # Of a document that is closed meanwhile nothing is kept: `forget` lets go of this.
        kept = self._documents.setdefault(document, _DocumentCache(cursor.language))
        cleared = -1
        while cleared != self._cleared:  # what was found before may show what is excluded now
            cleared = self._cleared
            found = await asyncio.to_thread(self._find(document, cursor, layout))
        kept.looked = time.monotonic()
        place = _Place.of(cursor, layout)
        # Another request may have been faster: its prompt is the one that is cached.
        faster = kept.of(place, cursor.line)
        if faster is not None:
            return faster
        kept.keep(place, cursor.line, found)
        return found

    async def _has_lost_files(self, document: str, known: Surroundings) -> bool:
        """Whether a file of these surroundings is gone; then what is remembered of the document goes."""
        kept, now = self._documents.get(document), time.monotonic()
        if kept is None or not known.files or now - kept.looked < _LOOK:
            return False
        kept.looked = now
        # In a thread: a drive may not answer.
        if await asyncio.to_thread(lambda: all(map(os.path.lexists, known.files))):
            return False
        if self._documents.get(document) is kept:
            del self._documents[document]
        return True

    def known(self, document: str, cursor: Cursor, layout: Layout) -> Surroundings | None:
        """The surroundings for a prompt at `cursor`, None if they have to be looked for first."""
        kept = self._documents.get(document)
        return None if kept is None else kept.of(_Place.of(cursor, layout), cursor.line)

    def forget(self, document: str) -> None:
        """A document is opened or closed: drop what is remembered of it, and of those that it may be shown
        in."""
        language = language_of(PurePosixPath(document))
        for one, kept in list(self._documents.items()):
            if one == document or kept.language == language:
                del self._documents[one]

    def clear(self) -> None:
        """Drop everything: other documents may be excluded now."""
        self._documents.clear()
        self._cleared += 1


def _imported(cursor: Cursor) -> Iterator[str]:
    """The names in the lines at the document's top that import something; as a set they are the same once
    sorted. Not in the cursor's line, which changes with each key."""
    inside = False  # brackets that an import has opened
    for at, whole in enumerate(head_of(cursor.lines)):
        line = "" if at == cursor.line else whole[:_LONGEST].lstrip()
        begins = _IMPORT.match(line) if line.startswith(_BEGINNINGS) else None
        if inside or begins or (("from" in line or "require" in line) and _FROM.search(line)):
            yield from _NAME.findall(line)
            closed = max(line.rfind(")"), line.rfind("}"))
            opened = max(line.rfind("("), line.rfind("{"))
            opens = begins is not None and bool(begins["goes_on"]) and opened > closed
            inside = opens or (inside and closed < 0)


# A workspace is listed again after so many seconds, and never for longer than the second number: what is
# nearest to the document comes first.
_STALE, _LISTING = 30.0, 0.3
# Lines of other files that are searched for pieces, together.
_MOST_LINES_TOGETHER = 20_000
# Files whose lines are remembered.
_REMEMBERED = 100


@attrs.frozen
class OpenFile:
    """An open document. path: where its file lies or would lie."""

    path: Path
    lines: Sequence[str]


class Neighbourhood:
    """The files of workspaces, read as they are needed. For any thread.

    Only files below a folder, in the document's language, are read: never excluded, ignored, generated or
    large ones, and nothing through a link. Open documents are taken as they are in the editor.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files = LRU[Path, tuple[tuple[int, int], tuple[str, ...]]](_REMEMBERED)
        self._left_out = LRU[tuple[Path, Path], tuple[float, bool]](_REMEMBERED)
        self._listed = LRU[tuple[Path, Path, str], tuple[float, list[str]]](_REMEMBERED)

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
        if root is None or not document.is_relative_to(root):
            found = related(cursor, layout.shown(cursor), document.name, (), layout.related)
            return Surroundings("", document.name, found)
        name = document.relative_to(root).as_posix()
        is_excluded = exclusion_below(root, exclusion)
        with self._lock:
            buffers = {
                one.path.relative_to(root).as_posix(): one.lines
                for one in opened
                if one.path.is_relative_to(root)
                and language_of(one.path) == cursor.language
                and not is_excluded(one.path.relative_to(root).as_posix())
                and not self._is_left_out(one.path, root)
            }
            names = dict.fromkeys([*buffers, *self._names(root, document.parent, cursor.language)])
            allowed = [one for one in names if one in buffers or not is_excluded(one)]
            # What is open is being worked on.
            near = dict.fromkeys([*near_files(name, head_of(cursor.lines), allowed), *buffers])
            files = list(self._within_bounds(root, near, buffers))
            found = related(cursor, layout.shown(cursor), name, files, layout.related)
            read = dict.fromkeys(one.name for one in found if one.name != name and one.name not in buffers)
            return Surroundings(root.name, name, found, tuple(str(root / one) for one in read))

    def _within_bounds(
        self, root: Path, names: Iterable[str], buffers: Mapping[str, Sequence[str]]
    ) -> Iterator[SourceFile]:
        left = _MOST_LINES_TOGETHER
        for name in names:
            lines = buffers.get(name) or self._lines(root / name)
            if not lines or is_made_by_a_program(PurePosixPath(name).name, lines):
                continue
            left -= min(len(lines), _MOST_LINES)
            if left < 0:
                return
            yield SourceFile(name, lines)

    def _lines(self, path: Path) -> tuple[str, ...]:
        """The lines of a file; none if it cannot be read."""
        stamp = stamp_of(path)
        if stamp is None:
            self._files.pop(path, None)
            return ()
        known = self._files.recall(path)
        if known is not None and known[0] == stamp:
            return known[1]
        lines = lines_of(path)
        if not lines:
            return ()
        self._files[path] = stamp, lines
        return lines

    def _is_left_out(self, path: Path, root: Path) -> bool:
        """As `is_left_out`, which reads files, of a moment ago."""
        now = time.monotonic()
        at, known = self._left_out.get((path, root), (0.0, False))
        if not at or now - at > _STALE:
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
            self._listed[key] = now, names
        return names
