"""Syntax trees within a budget of time. All parsing goes through `parse`.

tree-sitter (0.26.1) takes minutes, and much memory, for some small texts. It holds the interpreter's lock
meanwhile, so that no other thread could stop it. Given a source as bytes it never looks up. Given a function
to read from and one for its progress, it calls them all the time: there other threads go on, and a parse can
stop.

One stretch has no calls: the end of such a text, which may take longer than all before it. So a text whose
parse falls behind is tried first with its end where the parse was stopped, and then with at most twice as
much slow work before the end. A text whose end takes long is given up while it still takes a fraction of a
second.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Point, Tree

# Bytes that the parser reads at once. Each piece is an occasion to stop.
_PIECE = 4096
# Of so many bytes none takes longer than 20 ms: they are given at once, which is faster.
_HARMLESS = 512
# Bytes that a node's text is read in: most are names.
_TEXT_PIECE = 256
# Parsers of a grammar that are kept for the next text.
_MOST_IDLE = 4


class Overrun(Exception):
    """A text takes too long: treat its language as one without a grammar until the text changes."""


@attrs.frozen
class Budget:
    """How long a parse may take. Times are of the thread's processor, in seconds: load does not change them.

    pace: per byte. Real files take .2 microseconds a byte; C++ in a C header, up to 2.
    seconds, per_byte: how far behind the pace the whole of a text may be. patience: how far behind it a part
        may be before the text is tried. end, end_per_byte: for the end of such a trial, without a look at the
        clock; a long list is balanced there.
    walk, walk_per_character: for a walk through the tree.
    interval: of the wall clock between two looks at `clock`, which takes 2 microseconds on some systems.
    """

    pace: float = 1e-6
    seconds: float = 0.06
    per_byte: float = 0.5e-6
    patience: float = 0.004
    end: float = 0.005
    end_per_byte: float = 0.05e-6
    walk: float = 0.3
    walk_per_character: float = 4e-6
    interval: float = 0.002
    clock: Callable[[], float] = time.thread_time


BUDGET = Budget()


# Nodes of a walk after which the clock is looked at.
_OFTEN = 256


class Allowance:
    """Processor time of this thread for other work on a text, from now on. seconds: how much."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._steps = 0
        self._wall = time.perf_counter()
        self._began: float | None = None

    @classmethod
    def to_walk(cls, size: int) -> Allowance:
        """For a walk through the tree of a text of so many characters: several times what real files take."""
        return cls(BUDGET.walk + BUDGET.walk_per_character * size)

    def step(self) -> None:
        """Called for each node of a walk, of which it checks every `_OFTEN`th. Raises Overrun."""
        self._steps += 1
        if not self._steps % _OFTEN:
            self.check()

    def check(self) -> None:
        """Raises Overrun once the time is spent, or twice of it if the thread never rests."""
        now = time.perf_counter()
        if now - self._wall < self._seconds:
            return
        clock = BUDGET.clock()
        if self._began is None:  # the clock is dear: most work ends before it is looked at
            self._wall, self._began = now, clock
        elif clock - self._began > self._seconds:
            raise Overrun


def parse(grammar: Callable[[], Language], source: bytes, old: Tree | None = None, new: int = 0) -> Tree:
    """The tree of a source. It is the one that tree-sitter gives for the bytes at once.

    grammar: loads it; the same object each time. source: UTF-8. old: the tree of an earlier source, after
    `Tree.edit`. new: how many lines have come since one was parsed without `old`, or with more than
    `MOST_NEW` of them. Any thread may call it. Raises Overrun.
    """
    if (old is None or new > MOST_NEW) and _is_deep(source):
        raise Overrun
    checked, patience = 0, BUDGET.patience
    while True:
        run = _Run(source, checked, patience)
        tree = run.tree(grammar, old)
        if tree is not None:
            return tree
        # It fell behind. With this end it takes no longer than up to here, but for the end itself.
        checked, patience = run.reached, max(4 * patience, run.behind)
        trial = _Run(source[:checked], checked, patience, exact=True)
        most = BUDGET.end + BUDGET.end_per_byte * checked
        if trial.tree(grammar, None) is None or trial.longest > most:
            raise Overrun


# tree-sitter-python (0.25) ends the process at indentations far deeper than people write.
_MOST_INDENTATIONS = 350
# Lines that may come before the source is looked at again: each brings one indentation at most.
MOST_NEW = 100
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


_idle: dict[Callable[[], Language], list[tuple[Parser, bytearray]]] = {}


class _Run:
    """A parse of a source, which stops itself.

    checked: bytes that are not slow. patience: seconds behind the pace at which it stops. exact: whether the
    first look at the clock is at the beginning, rather than after `Budget.interval`.
    reached: bytes that were parsed. behind: seconds behind the pace, beyond `checked`. longest: seconds
    without a look at the clock.
    """

    def __init__(self, source: bytes, checked: int, patience: float, *, exact: bool = False) -> None:
        self._budget = BUDGET
        self._source = source
        self._piece: bytearray | None = None
        # Behind the last token a tree is only balanced.
        self._checked, self._patience = checked, patience
        self._last = len(source.rstrip())
        self._limit = self._budget.seconds + self._budget.per_byte * len(source)
        self._stopped = False
        self._looked = time.perf_counter()
        self._clock = self._budget.clock() if exact else None
        self._spent = self.longest = 0.0
        self._seen = self.reached = 0
        self.behind = 0.0

    def tree(self, grammar: Callable[[], Language], old: Tree | None) -> Tree | None:
        """None if the parse fell behind. Raises Overrun."""
        idle = _idle.setdefault(grammar, [])
        try:
            parser, self._piece = idle.pop()
        except IndexError:
            from tree_sitter import Parser

            parser, self._piece = Parser(grammar()), bytearray()
        piece = self._piece
        try:
            if len(self._source) <= _HARMLESS:
                tree = parser.parse(self._source) if old is None else parser.parse(self._source, old)
            elif old is None:
                tree = parser.parse(self.read, progress_callback=self._is_over)
            else:
                tree = parser.parse(self.read, old, progress_callback=self._is_over)
        except ValueError:
            if not self._stopped:
                raise
            tree = None
            parser.reset()
        except SystemError as error:
            # Ctrl-C came in one of these functions, and tree-sitter still called the other.
            cause: BaseException | None = error
            while isinstance(cause, SystemError):
                cause = cause.__cause__
            raise cause or error from None
        finally:
            self._piece = None
        if len(idle) < _MOST_IDLE:
            idle.append((parser, piece))
        if self._clock is not None:
            self.longest = max(self.longest, self._budget.clock() - self._clock)
        if self._is_spent():
            raise Overrun
        return None if self._stopped else tree

    def read(self, at: int, _: Point | tuple[int, int]) -> bytes | bytearray:
        """Bytes from a place on.

        tree-sitter (0.26.1) never lets go of what it is given while it parses. So this is always the same
        object. Later it reads the texts of nodes from here, which have to be bytes.
        """
        if self._piece is None:
            return self._source[at : at + _TEXT_PIECE]
        if at >= len(self._source) or self._is_over(self.reached, False):
            return b""
        end = at + _PIECE
        # The piece ends with a whole character: tree-sitter (0.26.1) does not survive a stop within one.
        while self._source[end : end + 1] and self._source[end] & 0xC0 == 0x80:
            end += 1
        self._piece[:] = self._source[at:end]
        return self._piece

    def _is_over(self, at: int, _: bool) -> bool:
        """Whether to stop, `at` bytes from the beginning."""
        now = time.perf_counter()
        if now - self._looked < self._budget.interval or self._stopped:
            return self._stopped
        clock = self._budget.clock()
        # The first time, what passed on the wall is at most what the thread has worked.
        took = (
            min(now - self._looked, 2 * self._budget.interval) if self._clock is None else clock - self._clock
        )
        self._looked, self._clock = now, clock
        self._spent += took
        self.longest = max(self.longest, took)
        self.reached = max(self.reached, at)
        credit = self._budget.pace * (self.reached - self._seen)
        self._seen = self.reached
        new = self._checked < self.reached < self._last
        self.behind = max(self.behind + took - credit, 0.0) if new else 0.0
        self._stopped = self.behind > self._patience or self._is_spent()
        return self._stopped

    def _is_spent(self) -> bool:
        return self._spent - self._budget.pace * self.reached > self._limit
