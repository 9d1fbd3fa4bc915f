"""Lines that are not code: comments, and strings that are statements (docstrings)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsp_calib.syntax.functions import parse

if TYPE_CHECKING:
    from tree_sitter import Node


def prose_lines(lines: Sequence[str], language: str) -> set[int]:
    """Indices (from 0) of lines wholly taken by comments or documentation; empty without a grammar."""
    root = parse(lines, language)
    if root is None:
        return set()
    prose: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        bare_string = node.type == "expression_statement" and [c.type for c in node.children] == ["string"]
        if bare_string or (node.type == "comment" and _begins_line(node, lines)):
            prose.update(range(node.start_point.row, node.end_point.row + 1))
        else:
            pending.extend(node.children)
    return prose


def _begins_line(node: Node, lines: Sequence[str]) -> bool:
    # Columns count bytes; they only need to be right if the node has nothing but white space before it.
    return not lines[node.start_point.row][: node.start_point.column].strip()
