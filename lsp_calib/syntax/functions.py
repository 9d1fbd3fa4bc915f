"""The functions of a source file, by tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# A file beyond this is data or generated; parsing it while the user waits would not help.
MOST_BYTES = 2_000_000


@attrs.frozen
class Function:
    """A function or method; lines count from 0, ends are exclusive.

    start: its `def` line, decorators left out. signature_end: after the line of the signature's colon.
    body: first line of the body after a docstring.
    docstring: the documentation as written, quotes included, None if there is none.
    code: its source without the docstring.
    """

    name: str
    start: int
    body: int
    end: int
    signature_end: int
    docstring: str | None
    code: str


def has_grammar(language: str) -> bool:
    return language == "python"


def functions(lines: Sequence[str], language: str) -> list[Function]:
    """All functions in the order of their `def` lines; empty for a language without a grammar."""
    return list(_each(lines, language))


def function_at(lines: Sequence[str], line: int, language: str) -> Function | None:
    """The function whose signature holds `line` (from 0), None if there is none."""
    return next((f for f in _each(lines, language) if f.start <= line < f.signature_end), None)


def parse(lines: Sequence[str], language: str) -> Node | None:
    """The syntax tree's root; None for a language without a grammar or a file over `MOST_BYTES`."""
    if not has_grammar(language):
        return None
    source = "\n".join(lines).encode("utf-8", "replace")
    return None if len(source) > MOST_BYTES else _python().parse(source).root_node


def _each(lines: Sequence[str], language: str) -> Iterator[Function]:
    # One at a time: each holds its own code, and nested functions hold the same lines again and again.
    root = parse(lines, language)
    return iter(()) if root is None else (_function(node, lines) for node in _definitions(root))


@lru_cache(maxsize=1)
def _python() -> Parser:
    import tree_sitter_python
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_python.language()))


def _definitions(root: Node) -> Iterator[Node]:
    # Not recursive: hostile files nest deeper than the interpreter's stack.
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type == "function_definition" and node.child_by_field_name("body") is not None:
            yield node
        pending.extend(reversed(node.children))


def _function(node: Node, lines: Sequence[str]) -> Function:
    name = node.child_by_field_name("name")
    body = node.child_by_field_name("body")
    assert body is not None
    start, end = node.start_point.row, node.end_point.row + 1
    documentation = _documentation(body)
    kept = list(lines[start:end])
    body_start = body.start_point.row
    text = None
    if documentation is not None:
        text = (documentation.text or b"").decode("utf-8", "replace")
        first, last = documentation.start_point.row, documentation.end_point.row
        head, tail = _around(documentation, lines)
        same_line = [(head + tail).rstrip()] if head.strip() or tail else []
        kept = [*lines[start:first], *same_line, *lines[last + 1 : end]]
        body_start = last if tail else last + 1
    return Function(
        name=name.text.decode("utf-8", "replace") if name is not None and name.text else "",
        start=start,
        body=body_start,
        end=end,
        signature_end=next(
            (child.end_point.row for child in reversed(node.children) if child.type == ":"), start
        )
        + 1,
        docstring=text,
        code="\n".join(kept),
    )


def _documentation(body: Node) -> Node | None:
    first = next((child for child in body.children if child.type != "comment"), None)
    if (
        first is None
        or first.type != "expression_statement"
        or [c.type for c in first.children] != ["string"]
    ):
        return None
    # Neither bytes nor a formatted string is documentation.
    opening = first.children[0].children[0].text or b""
    return None if set(opening.lower()) & set(b"bf") else first


def _around(documentation: Node, lines: Sequence[str]) -> tuple[str, str]:
    """The text before and after a docstring on its own lines, without a comment after it."""
    head = lines[documentation.start_point.row].encode("utf-8", "replace")[: documentation.start_point.column]
    tail = lines[documentation.end_point.row].encode("utf-8", "replace")[documentation.end_point.column :]
    behind = tail.decode("utf-8", "replace").lstrip("; \t").rstrip()
    return head.decode("utf-8", "replace"), "" if behind.startswith("#") else behind
