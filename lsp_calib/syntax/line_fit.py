"""How a line fits into its document: whether it leaves it in order, and which names it uses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from lsp_calib.syntax.continuations import Opening, after_span, continuations, ends_of_spans
from lsp_calib.syntax.languages import LanguageRules
from lsp_calib.syntax.languages.braces import BRACKETS
from lsp_calib.syntax.source_tree import (
    ABOVE,
    BELOW,
    Leaf,
    SourceTree,
    closers,
    errors,
    leaves_of,
    missing_below,
)

if TYPE_CHECKING:
    from tree_sitter import Tree


@attrs.frozen
class LineFit:
    """broken: whether the line leaves code that cannot be parsed, or is indented wrongly.

    names: those that it uses and does not bind.
    """

    broken: bool
    names: frozenset[str]


def fit_of(source: SourceTree, row: int, before: str, text: str, after: str, below: str | None) -> LineFit:
    """How `before` + `text` + `after` fits in as line `row` of a document whose line `row` is empty.

    text: the new part, whose names are returned. below: the next line that is not blank, None at the end.
    Raises Overrun if it takes too long to find out.
    """
    source.ask()
    line = before + text + after
    tree = source.tree_with(row, line)
    leaves = list(leaves_of(tree, row, source.rules))
    rules = source.rules
    first = len(_encoded(before))
    last = first + len(_encoded(text))
    named = [leaf for leaf in leaves if leaf.kind in rules.names]
    bound = {leaf.text for leaf in named if rules.binds(leaf.path)}
    used = {leaf.text for leaf in named if leaf.end > first and leaf.start < last}
    return LineFit(_is_broken(source, tree, row, line, leaves, below), frozenset(used - bound - rules.known))


def _is_broken(
    source: SourceTree, tree: Tree, row: int, line: str, leaves: list[Leaf], below: str | None
) -> bool:
    if any(leaf.kind in source.rules.opaque for leaf in leaves):
        return False
    if not _fails(source, source.tree, tree, row, line, leaves, below):
        return False
    return below is None or not _opens(source, tree, row, line, leaves)


def _fails(
    source: SourceTree, base: Tree, tree: Tree, row: int, line: str, leaves: list[Leaf], below: str | None
) -> bool:
    """Whether a tree with the line, `tree`, is in worse order than the one without it, `base`."""
    if tree.root_node.has_error:
        if below is None:
            return _is_broken_at_end(source, tree, row, line)
        if not base.root_node.has_error:
            return True
        # An error from above that the document has without the line is not the line's.
        around, exact = (row - ABOVE, row + BELOW), source.rules.exact
        if source.rules.brackets and closers(tree, source.rules.brackets) == "":
            # All brackets match. What is left are words that the grammar does not know, such as macros.
            return _count(errors(tree, *around, exact=exact)) > _count(errors(base, *around, exact=exact))
        known = {start for start, _ in errors(base, *around, exact=exact) if start[0] < row - ABOVE}
        if any(start not in known for start, _ in errors(tree, *around, exact=exact)):
            return True
    return below is not None and _misleads(source.rules, row, line, leaves, below)


def _opens(source: SourceTree, tree: Tree, row: int, line: str, leaves: list[Leaf]) -> bool:
    """Whether a line is in order once what it opens, or what is open above it, is written below it.

    Until then a new line that begins a block, a call, a list, a tag, a long string or a comment, or a
    decorator, looks broken in a file that is in order. What is written below is imagined, and as short as
    can be.
    """
    rules = source.rules
    code = _code(leaves, rules)
    brackets = rules.brackets or BRACKETS
    before = missing_below(source.tree, row, brackets) or ()
    imagined: Iterable[str] = list(_ends_of_spans(source, row, line, before))
    if not imagined and code:
        missing = missing_below(tree, row, brackets)
        if missing is None:
            return False
        last = code[-1]
        held_by = frozenset(kind for kind, _ in last.path[:-1])
        imagined = continuations(Opening(line, last.kind, held_by, missing, before), rules)
        if last.kind == "," and missing:
            line = _without(line, last)
    base = source.tree_with(row, "", [" ".join(before)]) if before else source.tree
    indentation = line[: _indentation(line)]
    for text in filter(None, imagined):
        below = [indentation + one for one in text.split("\n")]
        then = source.tree_with(row, line, below)
        if not _fails(source, base, then, row, line, list(leaves_of(then, row, rules)), below[0]):
            return True
    return False


def _ends_of_spans(source: SourceTree, row: int, line: str, before: tuple[str, ...]) -> Iterator[str]:
    """What may end the long string or comment that a line begins, and what it leaves open around this."""
    rules = source.rules
    if any(leaf.start == 0 and leaf.end == sys.maxsize for leaf in leaves_of(source.tree, row, rules)):
        return  # within one from above the mark is its end
    for end in ends_of_spans(line, rules):
        ended = source.tree_with(row, line, [end])
        missing = missing_below(ended, row + 1, rules.brackets or BRACKETS)
        if missing is not None:
            yield from after_span(end, Opening(line, end, frozenset(), missing, before), rules)


def _without(line: str, leaf: Leaf) -> str:
    encoded = _encoded(line)
    return (encoded[: leaf.start] + b" " + encoded[leaf.end :]).decode("utf-8", "replace")


def _is_broken_at_end(source: SourceTree, tree: Tree, row: int, line: str) -> bool:
    """Whether the last line has an error that nothing written below it can repair: one before its end."""
    if line.rstrip().endswith("\\"):
        return False  # it waits for more
    # What the lines above leave open is closed below later, if only that is missing.
    if not source.closable(row) if source.rules.brackets else source.tree.root_node.has_error:
        return False
    lines = [line, *(line + end for start, end in source.rules.spans if start in line)]
    trees = [tree, *(source.tree_with(row, each) for each in lines[1:])]
    closed = [_closed(source, one, row, each) for one, each in zip(trees, lines, strict=True)]
    end = (row, len(_encoded(line.rstrip())))
    return all(
        one is None
        or any(
            start[0] == row and last < end for start, last in errors(one, row, row, exact=source.rules.exact)
        )
        for one in closed
    )


def _closed(source: SourceTree, tree: Tree, row: int, line: str) -> Tree | None:
    """The tree of a last line with what it leaves open closed; None if it closes what is not open."""
    closing = closers(tree, source.rules.brackets)
    return source.tree_with(row, line, [closing]) if closing else None if closing is None else tree


def _count(found: Iterable[object]) -> int:
    return sum(1 for _ in found)


def _misleads(rules: LanguageRules, row: int, line: str, leaves: list[Leaf], below: str) -> bool:
    """Whether the indentation of the line below contradicts the end of this one."""
    code = _code(leaves, rules)
    if not rules.block_openings or not leaves or line.rstrip().endswith("\\"):
        return False
    if not code:
        # A comment stands where something should open the block below.
        return leaves[-1].alone and _indentation(below) > _indentation(line)
    last = code[-1]
    if last.statement[1] > row:
        return False  # it goes on below
    if last.alone and last.kind in rules.block_openings:
        return _indentation(below) <= _indentation(line)
    return last.statement[0] == row and _indentation(below) > _indentation(line)


def _code(leaves: list[Leaf], rules: LanguageRules) -> list[Leaf]:
    return [leaf for leaf in leaves if leaf.kind not in rules.comments and leaf.start < leaf.end]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
