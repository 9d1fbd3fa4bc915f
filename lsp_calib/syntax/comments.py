"""Comments as nodes of a tree, and the lines that they take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_BLANK = re.compile(r"\s*")


def last_row(node: Node) -> int:
    """The last row that a node has text on. Some comments hold the end of their line."""
    start, end = node.start_point, node.end_point
    return end.row - 1 if end.row > start.row and not end.column else end.row


def begins_line(node: Node, lines: Sequence[str]) -> bool:
    """Whether a node has nothing but white space before it on its line."""
    line, column = lines[node.start_point.row], node.start_point.column
    # Columns count bytes; they only need to be right if there is nothing else. A line may hold thousands of
    # comments: it is read to its first word.
    blank = _BLANK.match(line, 0, column)
    return blank is not None and blank.end() >= min(column, len(line))


def stands_alone(node: Node, lines: Sequence[str]) -> bool:
    """Whether the lines of a node hold nothing else."""
    row = last_row(node)
    if not begins_line(node, lines):
        return False
    if row != node.end_point.row or row >= len(lines):
        return True
    return not lines[row].encode("utf-8", "replace")[node.end_point.column :].strip()
