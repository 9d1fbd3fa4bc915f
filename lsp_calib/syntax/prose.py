"""Lines that are not code: comments, and strings that are statements (docstrings)."""

from __future__ import annotations

from collections.abc import Sequence

from lsp_calib.syntax.comments import last_row, stands_alone
from lsp_calib.syntax.functions import parse
from lsp_calib.syntax.languages import rules_of


def prose_lines(lines: Sequence[str], language: str) -> set[int]:
    """Indices (from 0) of lines wholly taken by comments or documentation; empty without a grammar."""
    rules, root = rules_of(language), parse(lines, language)
    if rules is None or root is None:
        return set()
    prose: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if rules.is_prose(node) or (node.type in rules.comments and stands_alone(node, lines)):
            prose.update(range(node.start_point.row, last_row(node) + 1))
        else:
            pending.extend(node.children)
    return prose
