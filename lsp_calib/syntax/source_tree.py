"""The syntax tree of lines that change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lsp_calib.syntax.languages import LanguageRules

if TYPE_CHECKING:
    from tree_sitter import Tree, TreeCursor

# An error belongs to a line if it touches one of the lines from so many above to so many below.
ABOVE = 1
BELOW = 3

# A column behind that of every line.
_END_OF_LINE = (1 << 32) - 1

Place = tuple[int, int]
"""Row, and column in bytes, from 0."""


class SourceTree:
    """Lines, without their ends, and their tree. A change costs time for the lines that it changes.

    The parser gets all bytes at once, and no other thread runs meanwhile: about 4 ms for 1,000 new lines. It
    could read them in pieces from a function, but keeps a reference to each piece forever (tree-sitter
    0.26.1).
    """

    def __init__(self, rules: LanguageRules, lines: Sequence[str]) -> None:
        from tree_sitter import Parser

        self.rules = rules
        self._parser = Parser(rules.grammar())
        encoded = [_encode(line) for line in lines]
        self._sizes = [len(line) for line in encoded]
        self._source = b"".join(encoded)
        self._tree = self._parser.parse(self._source)
        self._closable: bool | None = None

    def replace(self, first: int, last: int, lines: Sequence[str]) -> None:
        """Put `lines` in the place of the lines from `first` to (not including) `last`. `parse` after it."""
        if first == last and not lines:
            return
        encoded = [_encode(line) for line in lines]
        start = sum(self._sizes[:first])
        end = start + sum(self._sizes[first:last])
        new = b"".join(encoded)
        self._tree.edit(start, end, start + len(new), (first, 0), (last, 0), (first + len(encoded), 0))
        self._sizes[first:last] = [len(line) for line in encoded]
        self._source = self._source[:start] + new + self._source[end:]
        self._closable = None

    def parse(self, row: int) -> None:
        """Bring the tree up to date, for questions about line `row`."""
        self._tree = self._parser.parse(self._source, self._tree)
        if any(True for _ in errors(self._tree, row - ABOVE, row + BELOW, exact=self.rules.exact)):
            # Which errors are found may depend on the tree before: in 1 of 2,000 random edits they did. Those
            # of a new tree depend on the lines alone.
            self._tree = self._parser.parse(self._source)

    @property
    def tree(self) -> Tree:
        """The tree of the lines when they were parsed last."""
        return self._tree

    def closable(self, row: int) -> bool:
        """Whether the lines, of which those from `row` on are blank, can be parsed once what they leave open
        is closed. They must have been parsed."""
        if self._closable is None:
            closing = closers(self._tree, self.rules.brackets)
            self._closable = closing is not None and all(
                # What is only missing, such as the semicolon after a class, comes below as well.
                start == end
                for start, end in errors(self.tree_with(row, "", [closing]), 0, len(self._sizes), exact=True)
            )
        return self._closable

    def tree_with(self, row: int, line: str, below: Sequence[str] = ()) -> Tree:
        """The tree with another line `row`; the lines stay as they are, and must have been parsed.

        below: further lines below it, before those that stand there.
        """
        new = b"".join(map(_encode, (line, *below)))
        start = sum(self._sizes[:row])
        end = start + self._sizes[row]
        tree = self._tree.copy()
        tree.edit(start, end, start + len(new), (row, 0), (row + 1, 0), (row + 1 + len(below), 0))
        return self._parser.parse(self._source[:start] + new + self._source[end:], tree)


def errors(tree: Tree, first: int, last: int, *, exact: bool) -> Iterator[tuple[Place, Place]]:
    """Start and end, as row and column in bytes, of the errors that touch the rows from `first` to `last`.

    exact: as for `to_child`.
    """
    cursor = tree.walk()
    while True:
        node = cursor.node
        assert node is not None
        start, end = node.start_point, node.end_point
        within = node.has_error and start.row <= last and end.row >= first
        if within and (node.is_error or node.is_missing):
            yield (start.row, start.column), (end.row, end.column)
        if within and to_child(cursor, first, exact=exact):
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


def to_child(cursor: TreeCursor, row: int, *, exact: bool) -> bool:
    """Move to the first child that ends in `row` or below it, and say whether there is one.

    exact: tree-sitter (0.26.1) does not find a child behind a hidden node that ends in `row`, such as the
        ends of lines in Go; look for it then. The calibrators for Python rest on features without that.
    """
    if row <= 0:
        return cursor.goto_first_child()
    if cursor.goto_first_child_for_point((row - 1, _END_OF_LINE)) is not None:
        return True
    if not exact or not cursor.goto_first_child():
        return False
    while cursor.node.end_point.row < row:  # type: ignore[union-attr]
        if not cursor.goto_next_sibling():
            cursor.goto_parent()
            return False
    return True


def _encode(line: str) -> bytes:
    # A line end within a line, which no editor sends, would shift all lines below.
    return line.encode("utf-8", "replace").replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
