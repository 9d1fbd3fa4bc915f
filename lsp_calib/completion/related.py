"""Pieces of other places that resemble the text around the cursor: of the same document, and of other files.

A piece of ten lines scores by the words that it shares with the lines before the cursor, rare words
counting more (cosine of word sets, weighted by inverse document frequency). Related: Zhang et al. 2023,
"RepoCoder: Repository-level code completion through iterative retrieval and generation" (arXiv 2303.12570),
whose pieces are ranked by the Jaccard index. Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

import attrs

from lsp_calib.completion.context import Cursor

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


@attrs.frozen
class Snippet:
    """Whole lines of a file, without the last line's end. name: as in `SourceFile`."""

    name: str
    text: str


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
