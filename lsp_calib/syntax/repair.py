"""Closes brackets that somebody has yet to close, so that what stands below them can be parsed. Pure.

While a call is being typed, its open bracket takes in all that follows, up to the end of a Python file. Where
people indent, the next line tells that the bracket was not meant to hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.languages import LanguageRules
from lsp_calib.syntax.parsing import Allowance

if TYPE_CHECKING:
    from tree_sitter import Node

# Brackets that are open at once; with more nobody forgot one.
_DEEPEST = 1000

_CLOSING = {"(": ")", "[": "]", "{": "}"}

Place = tuple[int, int]
"""Row, and column in bytes, from 0."""


@attrs.frozen
class _Open:
    """A bracket that is not closed yet. indentation: of its line."""

    bracket: str
    row: int
    indentation: int


def with_brackets_closed(
    root: Node, rules: LanguageRules, lines: Sequence[str], allowance: Allowance
) -> tuple[str, ...] | None:
    """The lines with the missing brackets in them, None if none is missed. Rows stay as they are.

    A bracket counts as missed if a line begins as far left as the bracket's line and is not the one that
    closes it; a brace, except in Python, only if the line begins further left: labels, and what is in a
    namespace, are often not indented. root: of the tree of `lines`. Raises Overrun.
    """
    missed = _missed(
        _pieces(root, allowance), lines, indented=bool(rules.block_openings), comments=rules.comments
    )
    if not missed:
        return None
    closed = [*lines]
    for row, column, brackets in reversed(missed):
        source = closed[row].encode("utf-8", "replace")
        closed[row] = (source[:column] + brackets.encode() + source[column:]).decode("utf-8", "replace")
    return tuple(closed)


def _missed(
    pieces: Iterable[Node], lines: Sequence[str], *, indented: bool, comments: frozenset[str]
) -> list[tuple[int, int, str]]:
    """Where brackets are missed, in order: row, column, and the brackets."""
    missed: list[tuple[int, int, str]] = []
    open_: list[_Open] = []
    end: Place = (0, 0)  # of what stands before
    last_row = -1
    opened_row, opened_by = -1, 0  # a long line may open thousands: its indentation is counted once
    for node in pieces:
        row, column = node.start_point.row, node.start_point.column
        if node.type in comments:
            continue
        kind = "" if node.is_named else node.type
        if row > last_row and row < len(lines):
            indentation = _indentation(lines[row])
            if column == indentation:
                closing = ""
                while open_ and _is_over(open_[-1], row, indentation, kind, indented=indented):
                    closing += _CLOSING[open_.pop().bracket]
                if closing:
                    missed.append((*end, closing))
        last_row, end = node.end_point.row, (node.end_point.row, node.end_point.column)
        if kind in _CLOSING:
            if row != opened_row:
                opened_row, opened_by = row, _indentation(lines[row])
            open_.append(_Open(kind, row, opened_by))
            if len(open_) > _DEEPEST:
                return []
        elif open_ and kind == _CLOSING[open_[-1].bracket]:
            open_.pop()
    return missed


def _is_over(one: _Open, row: int, indentation: int, kind: str, *, indented: bool) -> bool:
    """Whether a line with this indentation, which begins with `kind`, cannot be in a bracket."""
    if row == one.row or indentation > one.indentation:
        return False
    if indentation < one.indentation:
        return True
    return kind not in _CLOSING.values() and (indented or one.bracket != "{")


def _pieces(root: Node, allowance: Allowance) -> Iterator[Node]:
    """The nodes that can be parsed, and the leaves between them, in order: each bracket in one of the former
    has its partner there."""
    pending = [root]
    for looked_at in count(1):
        if not pending:
            return
        if not looked_at % allowance.often:
            allowance.check()
        node = pending.pop()
        if node.is_missing or node.start_byte == node.end_byte:
            continue
        if node.has_error and node.child_count:
            pending.extend(reversed(node.children))
        else:
            yield node


def _indentation(line: str) -> int:
    """Bytes of white space that a line begins with."""
    return len(line.encode("utf-8", "replace")) - len(line.lstrip().encode("utf-8", "replace"))
