"""Syntax trees within a deadline: of lines that change, and of the part of a document around one line.

All parsing goes through `parse`. tree-sitter (0.26.1) takes minutes, and much memory, for some small texts.
It holds the interpreter's lock meanwhile, so that no other thread could stop it. Given a function to read
from and one for its progress, it calls them all the time: there other threads go on, and a parse can stop.

One stretch has no calls: the end of such a text, where its time grows with the square of the size. Such
a text is slow before its end as well, so the deadline is short: it comes before the end of all but a few
kilobytes.
"""

from __future__ import annotations

import itertools
import re
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter, thread_time
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.magics import CommandLine
from lsp_calib.syntax.rules import LanguageRules

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Point, Tree, TreeCursor

# Seconds that a parse may take. Real files take .2 microseconds a byte, C++ read as C up to 1. The worst ends
# that this lets through take half a second.
_SECONDS, _PER_BYTE = 0.01, 1e-6
# A collection of garbage may come in between, and takes longer than that.
_TRIALS = 2
# Bytes that the parser reads at once.
_PIECE = 4096
# Bytes that a node's text is read in: most are names.
_TEXT_PIECE = 256
# For a walk through a tree: several times what real files take.
_WALK, _WALK_PER_CHARACTER = 0.3, 4e-6
OFTEN = 256
"""Nodes of a walk after which its deadline is checked."""


class Overrun(Exception):
    """A text takes too long: treat its language as one without a grammar until the text changes."""


_times = ContextVar("times", default=1.0)
# Beside other programs a thread's own time doubles: processors share their caches.
_UNHURRIED = 10.0


@contextmanager
def unhurried() -> Iterator[None]:
    """Deadlines are ten times as long. For records: nobody waits for them, and the load of the machine must
    not decide what they say of a line in a long file."""
    before = _times.set(_UNHURRIED)
    try:
        yield
    finally:
        _times.reset(before)


class Deadline:
    """For work of this thread on a text, from now on. seconds: of the processor, as load is no reason."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds * _times.get()
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
    for _ in range(_TRIALS):
        parser = Parser(grammar())  # loads it for the first text, which takes longer than a parse
        text = _Text(source)
        try:
            if old is None:
                return parser.parse(text.read, progress_callback=text.is_over)
            return parser.parse(text.read, old, progress_callback=text.is_over)
        except ValueError:
            if not text.stopped:
                raise
        finally:
            text.is_parsed = True
    raise Overrun


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


# tree-sitter visits each outermost statement in every parse, changed or not: 10 ms in 50,000 lines. Behind
# an error it reads all of them again: 10 to 30 ms in 2,000 lines. So it gets the block that holds the line,
# one above and `_BELOW` below, and more lines each way, to where an outermost statement begins: a part that
# begins or ends within a statement has errors of its own. A string that the line leaves open is found at the
# next quote below.
# The sizes were chosen on 2,335 recorded suggestions, with and without the lines below the cursor: all gave
# the same `LineFit` as the full bounds. Fewer blocks changed one to three of them, mostly where the line
# opens a string.
_BLOCK = 16
_BELOW = 12

# A statement of data may have any length: the part has at most so many more lines each way.
_FARTHEST = 4096

# An error belongs to a line if it touches one of the lines from so many above to so many below.
ABOVE = 1
BELOW = 3

# Seconds of the processor for a question about a line. Most take a millisecond.
_QUESTION = 0.25

# Brackets that are open at once; with more nothing is to be closed.
_DEEPEST = 1000

# A column behind that of every line.
_END_OF_LINE = (1 << 32) - 1

# So many of the nodes that hold a name decide whether it is bound. Hostile lines nest thousands.
_NEAREST = 16

# In characters. A longer line is data: parsing 200 kB of it would cost a completion up to half a second, and
# an unclosed bracket in it would hide the lines around it.
_LONGEST_LINE = 20_000

# In characters. In a longer line no construct is looked for that the grammar does not know.
_LONGEST_CODE = 400

Place = tuple[int, int]
"""Row, and column in bytes, from 0."""


def code_of(line: str) -> str:
    """A line as a grammar reads it; one of more than `_LONGEST_LINE` characters is blank."""
    if len(line) > _LONGEST_LINE:
        return ""
    return line.code if isinstance(line, CommandLine) else line


def region_of(rules: LanguageRules, lines: Sequence[str], row: int) -> tuple[int, int]:
    """First and (not including) last line to parse for line `row`; it follows from the lines alone.

    It moves in blocks: seldom, that is, while a user goes from line to line.
    """
    block = row // _BLOCK
    first, last = max((block - 1) * _BLOCK, 0), min((block + 1 + _BELOW) * _BLOCK, len(lines))
    lowest, highest = max(first - _FARTHEST, 0), min(last + _FARTHEST, len(lines))
    above, below = range(first, lowest, -1), range(last, highest)
    return (
        next((at for at in above if rules.begins.match(lines[at])), lowest),
        next((at for at in below if rules.begins.match(lines[at])), highest),
    )


class SourceTree:
    """Lines, without their ends, and their tree. Other lines in the place of one are parsed on from it.

    Parsing has a deadline (`parsing`), and so has each question about a line, which may parse dozens of
    times. What exceeds it raises Overrun; then the tree is of no use any more.
    """

    def __init__(self, rules: LanguageRules, lines: Sequence[str]) -> None:
        self.rules = rules
        encoded = [self.read(line) for line in lines]
        self._starts = [0, *itertools.accumulate(map(len, encoded))]
        self._source = b"".join(encoded)
        self.tree = parse(rules.grammar, self._source)
        self._closable: bool | None = None
        self.ask()

    def read(self, line: str) -> bytes:
        """A line as the grammar is to see it."""
        code = code_of(line)
        for row in self.rules.gaps.rows if len(code) <= _LONGEST_CODE else ():
            if row.mark in code:
                code = row.read(code)
        return _encode(code)

    def lines(self, row: int | None = None) -> list[str]:
        """Those above line `row`, or all, as the grammar sees them."""
        source = self._source if row is None else self._source[: self._starts[row]]
        return source.decode("utf-8", "replace").split("\n")[:-1]

    def has_odd_quotes(self) -> bool:
        """Whether the lines seem to begin, or end, within a long string of Python."""
        return any(self._source.count(quotes) % 2 for quotes in (b'"""', b"'''"))

    def in_string(self, row: int) -> bool:
        """Whether the first word of a line stands within a string or a comment."""
        line = self._source[self._starts[row] : self._starts[row + 1]]
        place = row, len(line) - len(line.lstrip())
        node = self.tree.root_node.descendant_for_point_range(place, place)
        return node is not None and (node.type in self.rules.comments or "string" in node.type)

    def ask(self) -> None:
        """Begin a question about a line: it has a deadline of its own."""
        self._deadline = Deadline(_QUESTION)

    def closable(self, row: int) -> bool:
        """Whether the lines, of which those from `row` on are blank, can be parsed once what they leave open
        is closed."""
        if self._closable is None:
            closing = closers(self.tree, self.rules.brackets)
            self._closable = closing is not None and all(
                # What is only missing, such as the semicolon after a class, comes below as well.
                start == end
                for start, end in errors(self.tree_with(row, "", [closing]), 0, sys.maxsize, self.rules)
            )
        return self._closable

    def tree_with(self, row: int, line: str, below: Sequence[str] = ()) -> Tree:
        """The tree with another line `row`; the lines stay as they are.

        below: some further lines below it, before those that stand there.
        """
        self._deadline.check()
        new = b"".join(map(self.read, (line, *below)))
        start, end = self._starts[row : row + 2]
        tree = self.tree.copy()
        tree.edit(start, end, start + len(new), (row, 0), (row + 1, 0), (row + 1 + len(below), 0))
        return parse(self.rules.grammar, self._source[:start] + new + self._source[end:], tree)


# Characters each way in which the tokens are looked for that are next to a column.
_NEAR = 200
_TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|[^\w\s]")


def form_at(line: str, column: int, known: frozenset[str]) -> tuple[str, ...]:
    """The tokens of a line from two before a column, in bytes, to one behind it. Of names, numbers and texts
    it only says that there is one.

    known: names that stay, such as keywords.
    """
    at = len(line.encode("utf-8", "replace")[:column].decode("utf-8", "ignore"))
    first = max(at - _NEAR, 0)
    found = list(_TOKEN.finditer(line[first : at + _NEAR]))
    nearest = bisect_right([one.end() for one in found], at - first)
    return tuple(_kind(one[0], known) for one in found[max(nearest - 2, 0) : nearest + 2])


def _kind(token: str, known: frozenset[str]) -> str:
    if token in known:
        return token
    first = token[0]
    return (
        "0"
        if first.isdigit()
        else '"'
        if first in "\"'"
        else "a"
        if first.isalpha() or first == "_"
        else token
    )


def errors(tree: Tree, first: int, last: int, rules: LanguageRules) -> Iterator[tuple[Place, Place]]:
    """Start and end, as row and column in bytes, of the errors that touch the rows from `first` to `last`."""
    cursor = tree.walk()
    while True:
        node = cursor.node
        assert node is not None
        start, end = node.start_point, node.end_point
        within = node.has_error and start.row <= last and end.row >= first
        # What is missing may be a hidden node: names in C# hold one.
        if within and (node.is_error or node.is_missing or not node.child_count):
            yield (start.row, start.column), (end.row, end.column)
        if within and _to_child(cursor, first, rules):
            continue
        while start.row > last or not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            start = cursor.node.start_point  # type: ignore[union-attr]


def closers(tree: Tree, brackets: Mapping[str, str]) -> str | None:
    """What closes the brackets that a tree leaves open, the innermost first; None if it closes others."""
    missing = missing_below(tree, sys.maxsize, brackets)
    return None if missing is None else " ".join(missing)


def missing_below(tree: Tree, row: int, brackets: Mapping[str, str]) -> tuple[str, ...] | None:
    """What has to be closed right below line `row` so that all brackets of a tree match, the innermost first.

    None if that alone cannot do it: others are closed, or opened below. Only where a tree has errors can a
    bracket be open. brackets: the closing one for each opening one.
    """
    ends = frozenset(brackets.values())
    open_: list[str] = []
    opened_below: list[str] = []
    closed_below: list[str] = []
    pending = [tree.root_node]
    while pending:
        node = pending.pop()
        if node.is_missing:
            continue
        first = node.start_point.row
        if node.is_named:
            # Words that open blocks have the same names as the blocks.
            if node.has_error or first <= row < node.end_point.row:
                pending.extend(reversed(node.children))
            continue
        opened = open_ if first <= row else opened_below
        if node.type in brackets:
            opened.append(brackets[node.type])
            if len(opened) > _DEEPEST:
                return None
        elif node.type in ends:
            if opened:
                if opened.pop() != node.type:
                    return None
            elif first <= row:
                return None
            else:
                closed_below.append(node.type)
    outer = len(open_) - len(closed_below)
    open_.reverse()
    return None if opened_below or outer < 0 or open_[outer:] != closed_below else tuple(open_[:outer])


@attrs.frozen
class Balance:
    """The brackets of a tree without a partner, and those of one row.

    unmatched: closers. missing: openers. left: openers of the row that are not closed on it. of_text: those
    of them in its middle part. behind: closers behind that part which close what is open above the row.
    """

    unmatched: int = 0
    missing: int = 0
    left: int = 0
    of_text: int = 0
    behind: int = 0


def balance(tree: Tree, row: int, text: tuple[int, int], brackets: Mapping[str, str]) -> Balance:
    """What has no partner in a tree, and on a row. A closer closes the nearest bracket of its kind, and what
    is open within it stays so.

    text: first and (not including) last column, in bytes, of the row's middle part. brackets: the closing one
    for each opening one.
    """
    ends = frozenset(brackets.values())
    open_: list[tuple[str, Place]] = []
    left: list[Place] = []
    unmatched = missing = behind = 0
    pending = [tree.root_node]
    while pending:
        node = pending.pop()
        if node.is_missing:
            continue
        first, column = node.start_point
        if node.is_named:
            if node.has_error or first <= row <= node.end_point.row != first:
                pending.extend(reversed(node.children))
        elif node.type in brackets and len(open_) < _DEEPEST:
            open_.append((brackets[node.type], (first, column)))
        elif node.type in ends:
            at = next((n for n in range(len(open_) - 1, -1, -1) if open_[n][0] == node.type), None)
            if at is None:
                unmatched += 1
                continue
            missing += len(open_) - at - 1
            opener = open_[at][1]
            left += [place for _, place in open_[at if first > row else at + 1 :]]
            behind += opener[0] < row == first and column >= text[1]
            del open_[at:]
    left += [place for _, place in open_]
    on_row = [column for first, column in left if first == row]
    of_text = sum(text[0] <= column < text[1] for column in on_row)
    return Balance(unmatched, missing + len(open_), len(on_row), of_text, behind)


def is_comment(tree: Tree, row: int, line: str, rules: LanguageRules) -> bool:
    """Whether a line of the tree begins within a comment, or with one."""
    start = row, len(_encode(line)) - len(_encode(line.lstrip()))
    node = tree.root_node.descendant_for_point_range(start, start)
    return node is not None and node.type in rules.comments


def prose_at(root: Node, rules: LanguageRules, row: int, before: str) -> Node | None:
    """The comment or documentation string that a place stands in, behind the mark that opens it; None if it
    stands in none.

    row: of the place in the tree. before: its line up to there.
    """
    column = len(before.encode("utf-8", "replace"))
    found = root.descendant_for_point_range((row, max(column - 1, 0)), (row, column))
    # Comments and strings lie near the leaves. Each parent is looked for from the root on.
    for _ in range(_NEAREST):
        if found is None:
            break
        is_text = rules.is_prose(found)
        if is_text or found.type in rules.comments:
            is_at_end = tuple(found.end_point) == (row, column)
            # Some comments hold the end of their line, and end on the next one.
            is_over = is_at_end and (is_text or not column or before.endswith("*/"))
            return found if tuple(found.start_point) < (row, column) and not is_over else None
        found = found.parent
    return None


def _to_child(cursor: TreeCursor, row: int, rules: LanguageRules) -> bool:
    """Move to the first child that ends in `row` or below it, and say whether there is one.

    tree-sitter (0.26.1) does not find a child behind a hidden node that ends in `row`, such as the ends of
    lines in Go: it is looked for. The calibrators for Python rest on features without that.
    """
    if row <= 0:
        return cursor.goto_first_child()
    if cursor.goto_first_child_for_point((row - 1, _END_OF_LINE)) is not None:
        return True
    if not rules.brackets or not cursor.goto_first_child():
        return False
    while cursor.node.end_point.row < row:  # type: ignore[union-attr]
        if not cursor.goto_next_sibling():
            cursor.goto_parent()
            return False
    return True


@attrs.frozen
class Leaf:
    """A leaf of the tree on the line.

    kind: its type. path: this and its field, and before it those of the nodes that hold it, the nearest last.
    start, end: columns in bytes, within the line. statement: first and last row of the largest node that
    holds it, blocks aside. alone: whether that is the leaf itself.
    """

    kind: str
    path: tuple[tuple[str, str | None], ...]
    text: str
    start: int
    end: int
    statement: tuple[int, int]
    alone: bool


def leaves_of(tree: Tree, row: int, rules: LanguageRules) -> Iterator[Leaf]:
    """The leaves that touch a row."""
    cursor = tree.walk()
    path: list[tuple[str, str | None]] = []
    rows: list[tuple[int, int]] = []
    block = [-1]  # for each node of the path and for none: how deep the nearest block is
    while True:
        node = cursor.node
        assert node is not None
        start, end = node.start_point, node.end_point
        if start.row <= row <= end.row:
            path.append((node.type, cursor.field_name))
            rows.append((start.row, end.row))
            if _to_child(cursor, row, rules):
                block.append(len(path) - 1 if node.type in rules.blocks else block[-1])
                continue
            if not node.child_count:
                yield Leaf(
                    kind=node.type,
                    path=tuple(path[-_NEAREST:]),
                    text=(node.text or b"").decode("utf-8", "replace") if node.type in rules.names else "",
                    start=start.column if start.row == row else 0,
                    end=end.column if end.row == row else sys.maxsize,
                    statement=rows[block[-1] + 1],
                    alone=block[-1] + 1 == len(path) - 1,
                )
            path.pop()
            rows.pop()
        while start.row > row or not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            path.pop()
            rows.pop()
            block.pop()
            start = cursor.node.start_point  # type: ignore[union-attr]


def _encode(line: str) -> bytes:
    # A line end within a line, which no editor sends, would shift all lines below.
    return code_of(line).encode("utf-8", "replace").replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
