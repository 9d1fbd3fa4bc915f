"""The functions of a source file, its lines that are no code, and which functions its calls can mean.

Brackets that somebody has yet to close are closed first: while a call is being typed, its open bracket takes
in all that follows, up to the end of a Python file. Where people indent, the next line tells that the bracket
was not meant to hold it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.languages import family_of
from lsp_calib.syntax import source_tree
from lsp_calib.syntax.languages import RULES
from lsp_calib.syntax.rules import Function, LanguageRules, Outer, Place, last_row, stands_alone
from lsp_calib.syntax.source_tree import OFTEN, Deadline, Overrun, code_of

if TYPE_CHECKING:
    from tree_sitter import Node

# A file beyond this is data or generated; parsing it while the user waits would not help.
MOST_BYTES = 2_000_000

# How often the functions of a file may hold it all together: those in others hold the same lines again. A
# small file may hold itself as often as one of this many characters.
_MOST_NESTED, _SMALL = 20, 50_000

# Nodes of the smallest piece of a tree with a function in it: what holds it, and `def f = 1` in Ruby. Most of
# a tree is in smaller ones, and looking at each node takes three times as long as parsing.
_FEWEST_AROUND = 6

# Brackets that are open at once; with more nobody forgot one.
_DEEPEST = 1000

# Nodes of types with a name, or of what implements one.
_CLASS = re.compile(r"(abstract_)?(class|interface|struct|enum|record|trait|impl|object|module)(_|$)(?!body)")

_CLOSING = {"(": ")", "[": "]", "{": "}"}


def has_grammar(language: str) -> bool:
    return language in RULES


def functions(lines: Sequence[str], language: str) -> list[Function]:
    """All functions in the order in which they begin; empty for a language without a grammar, and for a text
    that takes too long."""
    try:
        return list(_each(lines, language))
    except Overrun:
        return []


def innermost_function(lines: Sequence[str], line: int, language: str) -> Function | None:
    """The function that holds `line` (from 0) and no other one that does, None if there is none.

    Its documentation belongs to it, as do lines between that and its definition.
    """
    found = None
    for function in functions(lines, language):  # a function comes before those in it
        documented = function.documented
        first = function.start if documented is None else min(documented[0], function.start)
        if first <= line < function.end and (found is None or function.end <= found.end):
            found = function
    return found


def parse(lines: Sequence[str], language: str) -> Node | None:
    """The syntax tree's root; None for a language without a grammar, a file over `MOST_BYTES`, and a text
    that takes too long."""
    rules = RULES.get(language)
    if rules is None:
        return None
    source = "\n".join(map(code_of, lines)).encode("utf-8", "replace")
    if len(source) > MOST_BYTES:
        return None
    try:
        return source_tree.parse(rules.whole or rules.grammar, source).root_node
    except Overrun:
        return None


def _each(lines: Sequence[str], language: str) -> Iterator[Function]:
    """The functions, one at a time: each holds its own code, and nested ones hold the same lines again and
    again. Raises Overrun."""
    rules, root = RULES.get(language), parse(lines, language)
    if rules is None or root is None:
        return
    size = sum(map(len, lines))
    deadline = Deadline.to_walk(size)
    if root.has_error and (closed := with_brackets_closed(root, rules, lines, deadline)) is not None:
        better = parse(closed, language)
        if better is not None and _is_better(better, root, rules, lines, deadline):
            # Rows are the same in both, so that functions have the code that stands there.
            root = better
    left = _MOST_NESTED * max(size, _SMALL)
    for function in _below(root, rules, lines, deadline):
        left -= len(function.code)
        if left < 0:
            raise Overrun
        yield function


def _is_better(
    tree: Node, than: Node, rules: LanguageRules, lines: Sequence[str], deadline: Deadline
) -> bool:
    """Whether a tree shows more functions; one without an error shows all."""
    if not tree.has_error:
        return True
    shown, before = (sum(1 for _ in _below(one, rules, lines, deadline)) for one in (tree, than))
    return shown > before


def _below(root: Node, rules: LanguageRules, lines: Sequence[str], deadline: Deadline) -> Iterator[Function]:
    # Not recursive: hostile files nest deeper than the interpreter's stack. From the root down: the parent
    # and the siblings of a node, asked for, are looked for from the root.
    pending: list[Iterator[tuple[Node, Sequence[Node], int]]] = [_placed((root,))]
    within = [""]  # the classes that hold each of the pending ones
    holders: list[Outer | None] = [None]  # of each of the pending ones
    steps = count(1)
    while pending:
        place = next(pending[-1], None)
        if place is None:
            pending.pop()
            within.pop()
            holders.pop()
            continue
        node, siblings, index = place
        if (define := rules.functions.get(node.type)) is not None:
            function = define(node, Place(siblings, index, holders[-1]), lines)
            if function is not None:
                yield attrs.evolve(function, within=within[-1])
            deadline.check()
        if node.descendant_count < _FEWEST_AROUND:
            continue
        if not next(steps) % OFTEN:
            deadline.check()
        children = node.children
        within.append(_class_of(node, within[-1]))
        holders.append(Outer(node, siblings, index, holders[-1]))
        if node.type in rules.wrappers:
            pending.append(_wrapped(children, siblings, index))
        elif node.type in rules.bodies and children:
            first = iter([(children[0], siblings, index)])
            pending.append(chain(first, islice(_placed(children), 1, None)))
        else:
            pending.append(_placed(children))


def _class_of(node: Node, holding: str) -> str:
    """The class that a node's children stand in: the node's own in that of its parent, or the parent's."""
    if _CLASS.match(node.type) is None:
        return holding
    name = node.child_by_field_name("name") or node.child_by_field_name("type")
    if name is None or name.text is None:
        return holding
    own = name.text.decode("utf-8", "replace")
    return f"{holding}.{own}" if holding else own


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


def prose_lines(lines: Sequence[str], language: str) -> set[int]:
    """Indices (from 0) of lines wholly taken by comments or documentation; empty without a grammar, and for a
    text that takes too long."""
    rules, root = RULES.get(language), parse(lines, language)
    rows = set[int]()
    if rules is None or root is None:
        return rows
    pending = [root]
    deadline, steps = Deadline.to_walk(sum(map(len, lines))), count(1)
    try:
        while pending:
            if not next(steps) % OFTEN:
                deadline.check()
            node = pending.pop()
            if rules.is_prose(node) or (node.type in rules.comments and stands_alone(node, lines)):
                rows.update(range(node.start_point.row, last_row(node) + 1))
            else:
                pending.extend(node.children)
    except Overrun:
        return set()
    return rows


@attrs.frozen
class _Open:
    """A bracket that is not closed yet. indentation: of its line."""

    bracket: str
    row: int
    indentation: int


def with_brackets_closed(
    root: Node, rules: LanguageRules, lines: Sequence[str], deadline: Deadline
) -> tuple[str, ...] | None:
    """The lines with the missing brackets in them, None if none is missed. Rows stay as they are.

    A bracket counts as missed if a line begins as far left as the bracket's line and is not the one that
    closes it; a brace, except in Python, only if the line begins further left: labels, and what is in a
    namespace, are often not indented. root: of the tree of `lines`. Raises Overrun.
    """
    missed = _missed(
        _pieces(root, deadline), lines, indented=bool(rules.block_openings), comments=rules.comments
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
    end = (0, 0)  # of what stands before: row, and column in bytes
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


def _pieces(root: Node, deadline: Deadline) -> Iterator[Node]:
    """The nodes that can be parsed, and the leaves between them, in order: each bracket in one of the former
    has its partner there."""
    pending, steps = [root], count(1)
    while pending:
        if not next(steps) % OFTEN:
            deadline.check()
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


_CALL = re.compile(r"(?<![\w$])([^\W\d][\w$]*)\s*\(")
# What may stand before the dot of a call to a method of the same object; `super()` is of another class.
_OWN = re.compile(r"(?:^|[^\w$.])(?:self|cls|\$?this|Self|static)\s*(?:\.|->|::)\s*$")
_OTHER = re.compile(r"(?:\.|->|::)\s*$")
# A line that holds methods, and the words with which a function is declared that is none.
_HOLDS_METHODS = re.compile(
    r"\s*(?:(?:abstract|default|export|final|pub(?:\([^)]*\))?|readonly|unsafe)\s+)*"
    r"(?:class|enum|impl|interface|trait)\b"
)
# Lines that hold nothing: empty ones, comments, attributes, the end of a heading over several lines.
_BESIDE = re.compile(r"\s*(?:$|[{)\]#]|//|/?\*|where\b)")
_MODIFIERS = (
    r"\s*(?:(?:abstract|accessor|async|get|override|private|protected|public|readonly|set|static)\s+|\*\s*)*"
)
_GO_METHOD = re.compile(r"\s*func\s*\(")


@attrs.frozen
class Call:
    """A call in a line. span: of the name, (start, end), in code points. bare: nothing stands before it that
    it is called on."""

    name: str
    span: tuple[int, int]
    bare: bool


def call_at(text: str, column: int) -> Call | None:
    """The call whose name is at a column of a line; None if none is.

    A method counts only if it is called on its own object: `items.append(` is not the `append` of this file.
    """
    for call in _CALL.finditer(text):
        start, end = call.span(1)
        if start <= column <= end:
            before = text[:start]
            bare = not _OTHER.search(before)
            return Call(call[1], (start, end), bare) if bare or _OWN.search(before) else None
    return None


def may_mean(call: Call, function: Function, lines: Sequence[str], language: str) -> bool:
    """Whether a call can be one of a function of the same file, by its name and by what it is called on.

    In most languages a method has to be called on something: a bare `open(path)` is not `Store.open`.
    """
    if call.name != function.name:
        return False
    return not call.bare or not _needs_object(function, lines, language)


def _needs_object(function: Function, lines: Sequence[str], language: str) -> bool:
    first = lines[function.start]
    match family_of(language):
        case "go":
            return bool(_GO_METHOD.match(first))
        case "javascript" | "typescript":
            heading = re.match(rf"{_MODIFIERS}{re.escape(function.name)}\s*([(<:=])", first)
            if heading is not None and heading[1] == "=":
                return bool(_HOLDS_METHODS.match(_holder(function, lines)))
            return heading is not None
        case "python" | "rust" | "php":
            return bool(_HOLDS_METHODS.match(_holder(function, lines)))
    return False  # in Java, C++, C# and Ruby a method may call another one by its name alone


def _holder(function: Function, lines: Sequence[str]) -> str:
    """The line that the function stands below, by indentation; "" if it stands at the outermost level."""
    deep = len(indentation_of(lines[function.start]))
    if not deep:
        return ""
    for at in range(function.start - 1, -1, -1):
        line = lines[at]
        if not _BESIDE.match(line) and len(indentation_of(line)) < deep:
            return line
    return ""
