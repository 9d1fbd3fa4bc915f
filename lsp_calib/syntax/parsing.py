"""Syntax trees within a deadline. All parsing goes through `parse`.

tree-sitter (0.26.1) takes minutes, and much memory, for some small texts. It holds the interpreter's lock
meanwhile, so that no other thread could stop it. Given a function to read from and one for its progress, it
calls them all the time: there other threads go on, and a parse can stop.

One stretch has no calls: the end of such a text, where its time grows with the square of the size. Such
a text is slow before its end as well, so the deadline is short: it comes before the end of all but a few
kilobytes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Point, Tree

# Seconds that a parse may take. Real files take .2 microseconds a byte, C++ read as C up to 1. The worst ends
# that this lets through take half a second.
_SECONDS, _PER_BYTE = 0.01, 1e-6
# Bytes that the parser reads at once.
_PIECE = 4096
# Bytes that a node's text is read in: most are names.
_TEXT_PIECE = 256
# For a walk through a tree: several times what real files take.
_WALK, _WALK_PER_CHARACTER = 0.3, 4e-6
# Nodes of a walk after which the clock is looked at.
_OFTEN = 256


class Overrun(Exception):
    """A text takes too long: treat its language as one without a grammar until the text changes."""


class Deadline:
    """For work of this thread on a text, from now on. seconds: of the processor, as load is no reason."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._steps = 0
        self._wall, self._began = perf_counter(), thread_time()

    @classmethod
    def to_walk(cls, size: int) -> Deadline:
        """For a walk through the tree of a text of so many characters."""
        return cls(_WALK + _WALK_PER_CHARACTER * size)

    @property
    def is_over(self) -> bool:
        # The thread's clock is dear on some systems, and never ahead of the wall's.
        over = perf_counter() - self._wall > self._seconds
        return over and thread_time() - self._began > self._seconds

    def step(self) -> None:
        """Called for each node of a walk, of which it checks every `_OFTEN`th. Raises Overrun."""
        self._steps += 1
        if not self._steps % _OFTEN:
            self.check()

    def check(self) -> None:
        """Raises Overrun once the time is spent."""
        if self.is_over:
            raise Overrun


def parse(grammar: Callable[[], Language], source: bytes, old: Tree | None = None) -> Tree:
    """The tree of a source. It is the one that tree-sitter gives for the bytes at once.

    grammar: loads it. source: UTF-8. old: the tree of an earlier source, after `Tree.edit`, which had nearly
    all of its lines. Any thread may call it. Raises Overrun.
    """
    from tree_sitter import Parser

    if old is None and _is_deep(source):
        raise Overrun
    text = _Text(source)
    parser = Parser(grammar())
    try:
        if old is None:
            tree = parser.parse(text.read, progress_callback=text.is_over)
        else:
            tree = parser.parse(text.read, old, progress_callback=text.is_over)
    except ValueError:
        if text.stopped:
            raise Overrun from None
        raise
    finally:
        text.is_parsed = True
    return tree


class _PieceOfThread(threading.local):
    """tree-sitter (0.26.1) never lets go of what it is given while it parses. So it is always one object."""

    def __init__(self) -> None:
        self.bytes = bytearray()


_piece = _PieceOfThread()


class _Text:
    """A source as tree-sitter reads it, with the deadline of its parse. stopped: whether that has passed."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._deadline = Deadline(_SECONDS + _PER_BYTE * len(source))
        self.stopped = self.is_parsed = False

    def read(self, at: int, _: Point | tuple[int, int]) -> bytes | bytearray:
        """Bytes from a place on. After the parse they are for texts of nodes, and have to be `bytes`."""
        if self.is_parsed:
            return self._source[at : at + _TEXT_PIECE]
        if at >= len(self._source) or self.is_over(at, False):
            return b""
        end = at + _PIECE
        # The piece ends with a whole character: tree-sitter (0.26.1) does not survive a stop within one.
        while self._source[end : end + 1] and self._source[end] & 0xC0 == 0x80:
            end += 1
        _piece.bytes[:] = self._source[at:end]
        return _piece.bytes

    def is_over(self, _: int, __: bool) -> bool:
        """Whether to stop."""
        self.stopped = self.stopped or self._deadline.is_over
        return self.stopped


# tree-sitter-python (0.25) ends the process at indentations far deeper than people write.
_MOST_INDENTATIONS = 350
_INDENTATION = re.compile(rb"^[ \t\f\r]+", re.M)
_AS_SPACES = bytes.maketrans(b"\t\f\r", b"   ")
_WIDTH_OF_TAB = 8
# A tab is as wide as eight spaces: the last of so many indentations has no fewer characters.
_WIDEST = _MOST_INDENTATIONS // _WIDTH_OF_TAB


def _is_deep(source: bytes) -> bool:
    """Whether a source has more different indentations than a scanner's stack may hold.

    The stack holds none twice. Only a source with a long run of white space is looked at closely.
    """
    if len(source) < _WIDEST * _MOST_INDENTATIONS // 2:
        return False
    for end in (b"\\\r\n", b"\\\n"):  # at the end of an indentation: the next line goes on with it
        if end in source:
            source = source.replace(end, b"")
    is_spaced = not any(one in source for one in (b"\t", b"\f", b"\r"))
    if b" " * _WIDEST not in (source if is_spaced else source.translate(_AS_SPACES)):
        return False
    found = set(_INDENTATION.findall(source))
    found |= {re.split(rb"[\f\r]", one)[-1] for one in found}  # these begin anew
    widths = {one.count(b" ") + _WIDTH_OF_TAB * one.count(b"\t") for one in found}
    return len(widths) > _MOST_INDENTATIONS
