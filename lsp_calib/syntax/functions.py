"""The functions of a source file, by tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from lsp_calib.syntax.function import Function
from lsp_calib.syntax.languages import LanguageRules, Place, rules_of
from lsp_calib.syntax.repair import with_brackets_closed

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# A file beyond this is data or generated; parsing it while the user waits would not help.
MOST_BYTES = 2_000_000

# Nodes of the smallest piece of a tree with a function in it: what holds it, and `def f = 1` in Ruby. Most of
# a tree is in smaller ones, and looking at each node takes three times as long as parsing.
_FEWEST_AROUND = 6


def has_grammar(language: str) -> bool:
    return rules_of(language) is not None


def functions(lines: Sequence[str], language: str) -> list[Function]:
    """All functions in the order in which they begin; empty for a language without a grammar."""
    return list(_each(lines, language))


def function_at(lines: Sequence[str], line: int, language: str) -> Function | None:
    """The function whose signature holds `line` (from 0), None if there is none."""
    return next((f for f in _each(lines, language) if f.start <= line < f.signature_end), None)


def innermost_function(lines: Sequence[str], line: int, language: str) -> Function | None:
    """The function that holds `line` (from 0) and no other one that does, None if there is none.

    Its documentation belongs to it, as do lines between that and its definition.
    """
    found = None
    for function in _each(lines, language):  # a function comes before those in it
        first = function.start if function.documented is None else min(function.documented[0], function.start)
        if first <= line < function.end and (found is None or function.end <= found.end):
            found = function
    return found


def parse(lines: Sequence[str], language: str) -> Node | None:
    """The syntax tree's root; None for a language without a grammar or a file over `MOST_BYTES`."""
    if not has_grammar(language):
        return None
    source = "\n".join(lines).encode("utf-8", "replace")
    return None if len(source) > MOST_BYTES else _parser(language).parse(source).root_node


def _each(lines: Sequence[str], language: str) -> Iterator[Function]:
    # One at a time: each holds its own code, and nested functions hold the same lines again and again.
    rules, root = rules_of(language), parse(lines, language)
    if rules is None or root is None:
        return iter(())
    if root.has_error and (closed := with_brackets_closed(root, rules, lines)) is not None:
        better = parse(closed, language)
        if better is not None and _is_better(better, root, rules, lines):
            # Rows are the same in both, so that functions have the code that stands there.
            return _below(better, rules, lines)
    return _below(root, rules, lines)


def _is_better(tree: Node, than: Node, rules: LanguageRules, lines: Sequence[str]) -> bool:
    """Whether a tree shows more functions; one without an error shows all."""
    if not tree.has_error:
        return True
    return sum(1 for _ in _below(tree, rules, lines)) > sum(1 for _ in _below(than, rules, lines))


def _below(root: Node, rules: LanguageRules, lines: Sequence[str]) -> Iterator[Function]:
    # Not recursive: hostile files nest deeper than the interpreter's stack. From the root down: the parent
    # and the siblings of a node, asked for, are looked for from the root.
    pending: list[Iterator[tuple[Node, Sequence[Node], int]]] = [_placed((root,))]
    while pending:
        place = next(pending[-1], None)
        if place is None:
            pending.pop()
            continue
        node, siblings, index = place
        if node.type in rules.definitions:
            function = rules.function(node, Place(siblings, index), lines)
            if function is not None:
                yield function
        if node.descendant_count < _FEWEST_AROUND:
            continue
        children = node.children
        if node.type in rules.wrappers:
            pending.append(_wrapped(children, siblings, index))
        elif node.type in rules.bodies and children:
            first = iter([(children[0], siblings, index)])
            pending.append(chain(first, islice(_placed(children), 1, None)))
        else:
            pending.append(_placed(children))


def _placed(siblings: Sequence[Node]) -> Iterator[tuple[Node, Sequence[Node], int]]:
    """Each node with its siblings and its place among them."""
    return ((node, siblings, at) for at, node in enumerate(siblings))


def _wrapped(
    children: Sequence[Node], siblings: Sequence[Node], index: int
) -> Iterator[tuple[Node, Sequence[Node], int]]:
    """The children of a wrapper: the first of each type stands where the wrapper stands."""
    seen: set[str] = set()
    for at, child in enumerate(children):
        yield (child, children, at) if child.type in seen else (child, siblings, index)
        seen.add(child.type)


@lru_cache(maxsize=16)
def _parser(language: str) -> Parser:
    from tree_sitter import Parser

    rules = rules_of(language)
    assert rules is not None
    return Parser((rules.whole or rules.grammar)())
