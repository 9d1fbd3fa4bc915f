"""Python, by tree-sitter-python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from lsp_calib.syntax.languages import gaps
from lsp_calib.syntax.languages.rules import Function, LanguageRules, Path, Place, by_field, grammar_of, words

if TYPE_CHECKING:
    from tree_sitter import Node

# Written out: the names of the interpreter that happens to run change from release to release.
_KNOWN = """
    ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError
    BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError
    ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError Ellipsis
    EncodingWarning EnvironmentError Exception ExceptionGroup FileExistsError FileNotFoundError
    FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning
    IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt
    LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplemented
    NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError
    ProcessLookupError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning
    StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError
    TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError
    UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError __all__
    __builtins__ __class__ __doc__ __file__ __import__ __name__ __path__ abs aiter all anext any
    ascii bin bool breakpoint bytearray bytes callable chr classmethod cls compile complex delattr
    dict dir divmod enumerate eval exit filter float format frozenset getattr globals hasattr hash
    help hex id input int isinstance issubclass iter len list locals map max memoryview min next
    object oct open ord pow property quit range repr reversed round self set setattr slice sorted
    staticmethod str sum super tuple vars zip
    False None True _ and as assert async await break case class continue def del elif else except
    exec finally for from global if import in is lambda match nonlocal not or pass print raise
    return try type while with yield
"""

_IMPORTS = words("import_from_statement import_statement future_import_statement")

# What a name to be bound may be wrapped in: `(a, *b), c = ...`, `with f() as (a, b):`.
_WRAPPINGS = words(
    """
        as_pattern_target expression_list list list_pattern list_splat_pattern dictionary_splat_pattern
        parenthesized_expression pattern_list tuple tuple_pattern
    """
)
# (type of the node, field of it that binds); None: everything in it that no field holds. Parameters are not
# among them: their names are as hard to guess as those that a line uses.
_BINDINGS = by_field(
    name="class_definition function_definition named_expression",
    left="assignment for_in_clause for_statement",
    no_field="global_statement nonlocal_statement",
)


def _binds(path: Path) -> bool:
    if any(kind in _IMPORTS for kind, _ in path):
        return True  # the names of an import stand in no file before it
    at = len(path) - 1
    while at > 0 and path[at - 1][0] in _WRAPPINGS:
        if path[at - 1][0] == "as_pattern_target":
            return True
        at -= 1
    return at > 0 and (path[at - 1][0], path[at][1]) in _BINDINGS


# Statements below a function among which an assignment to its `__doc__` is looked for.
_FARTHEST = 10


def _function(node: Node, place: Place, lines: Sequence[str]) -> Function | None:
    name = node.child_by_field_name("name")
    body = node.child_by_field_name("body")
    if body is None:
        return None
    start, end = node.start_point.row, node.end_point.row + 1
    documentation = _documentation(body)
    kept = list(lines[start:end])
    body_start = body.start_point.row
    text, documented = None, None
    if documentation is not None:
        text = _written(documentation)
        first, last = documentation.start_point.row, documentation.end_point.row
        documented = first, last + 1
        head, tail = _around(documentation, lines)
        same_line = [(head + tail).rstrip()] if head.strip() or tail else []
        kept = [*lines[start:first], *same_line, *lines[last + 1 : end]]
        body_start = last if tail else last + 1
    named = _text(name)
    if (assigned := _assigned(named, place)) is not None:
        text = assigned
    return Function(
        name=named,
        start=start,
        body=body_start,
        end=end,
        signature_end=next(
            (child.end_point.row for child in reversed(node.children) if child.type == ":"), start
        )
        + 1,
        docstring=text,
        code="\n".join(kept),
        documented=documented,
    )


def _documentation(body: Node) -> Node | None:
    first = next((child for child in body.children if child.type != "comment"), None)
    if first is None or not _is_bare_string(first):
        return None
    # Neither bytes nor a formatted string is documentation.
    openings = (one.children[0].text or b"" for one in _strings(first))
    return None if any(set(opening.lower()) & set(b"bf") for opening in openings) else first


def _assigned(name: str, place: Place) -> str | None:
    """What `name.__doc__ = ...` below a function, or below its class, gives it, as written: it stands for the
    docstring."""
    around: Place | None = place
    while around is not None:
        if around.outer is not None and around.outer.node.type == "decorated_definition":
            around = around.outer.place
        for statement in islice(around.siblings, around.index + 1, around.index + 1 + _FARTHEST):
            value = _value_given(statement, f"{name}.__doc__")
            if value is not None:
                return _written(value) if _strings(value) else _text(value)
        holder = around.outer and around.outer.outer
        if holder is None or holder.node.type != "class_definition":
            return None
        name = f"{_text(holder.node.child_by_field_name('name'))}.{name}"
        around = holder.place
    return None


def _value_given(statement: Node, target: str) -> Node | None:
    """What a statement assigns to a target, None if it does something else."""
    assignment = statement.children[0] if statement.type == "expression_statement" else statement
    if assignment.type != "assignment" or _text(assignment.child_by_field_name("left")) != target:
        return None
    return assignment.child_by_field_name("right")


def _text(node: Node | None) -> str:
    return "" if node is None else (node.text or b"").decode("utf-8", "replace")


def _strings(statement: Node) -> list[Node]:
    """The adjacent strings of a statement, in brackets perhaps; none if it has anything else."""
    value = statement
    while value.type in ("expression_statement", "parenthesized_expression"):
        held = [one for one in value.named_children if one.type != "comment"]
        if len(held) != 1:
            return []
        value = held[0]
    if value.type == "concatenated_string":
        return [one for one in value.named_children if one.type == "string"]
    return [value] if value.type == "string" else []


def _written(documentation: Node) -> str:
    """A docstring as written; adjacent strings as one with the quotes of the first."""
    strings = _strings(documentation)
    if len(strings) == 1:
        return _text(strings[0])
    inner = b"".join(part.text or b"" for one in strings for part in one.children[1:-1])
    opening, closing = strings[0].children[0].text or b"", strings[0].children[-1].text or b""
    return (opening + inner + closing).decode("utf-8", "replace")


def _around(documentation: Node, lines: Sequence[str]) -> tuple[str, str]:
    """The text before and after a docstring on its own lines, without a comment after it."""
    head = lines[documentation.start_point.row].encode("utf-8", "replace")[: documentation.start_point.column]
    tail = lines[documentation.end_point.row].encode("utf-8", "replace")[documentation.end_point.column :]
    behind = tail.decode("utf-8", "replace").lstrip("; \t").rstrip()
    return head.decode("utf-8", "replace"), "" if behind.startswith("#") else behind


def _is_bare_string(node: Node) -> bool:
    return node.type == "expression_statement" and bool(_strings(node))


RULES = LanguageRules(
    grammar=grammar_of("tree_sitter_python"),
    names=words("identifier"),
    binds=_binds,
    known=words(_KNOWN),
    functions={"function_definition": _function},
    brackets={},
    is_prose=_is_bare_string,
    block_openings=words(":"),
    blocks=words(
        """
            ERROR block case_clause class_definition decorated_definition elif_clause else_clause
            except_clause except_group_clause finally_clause for_statement function_definition
            if_statement match_statement module try_statement while_statement with_statement
        """
    ),
    spans=(('"""', '"""'), ("'''", "'''")),
    body={"": "pass", "match": "case _: pass"},
    finishes={"try": "finally: pass"},
    marks={"@": ("def _(): pass",)},
    begins=re.compile(r"(?:async|class|def|from|if|import)\b|@"),
    gaps=gaps.PYTHON,
)
