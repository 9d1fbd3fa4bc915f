"""Python, by tree-sitter-python, and as the running interpreter parses it.

Text up to a line can be parsed as far as it goes, or it has an error before its end. That error stays
whatever is written below. So it is no sign of what is not written yet, nor of what is wrong further down.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from lsp_calib.characters import indentation_of
from lsp_calib.syntax.rules import (
    Function,
    Gap,
    Gaps,
    LanguageRules,
    Path,
    Place,
    by_field,
    grammar_of,
    words,
)
from lsp_calib.syntax.source_tree import SourceTree, code_of, form_at

if TYPE_CHECKING:
    from tree_sitter import Node

T = TypeVar("T")

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


_BRACKETED = r"\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\]"

_GAPS = Gaps(
    "tree-sitter-python 0.25.0",
    (Gap("3.13", "=", rf"^\s*(?:(?:async\s+)?def|class|type)\s+\w+\s*(?=\[[^\]]*=)({_BRACKETED})"),),
)

NEWER_PYTHON = (
    Gap("3.12", "type", rf"^\s*(type)\s+\w+\s*({_BRACKETED})?\s*=(?!=)", "0;"),
    Gap("3.12", "[", rf"^\s*(?:(?:async\s+)?def|class)\s+\w+\s*({_BRACKETED})"),
    Gap("3.12", "[", r"^\s*(?:(?:async\s+)?def|class|type)\s+\w+\s*\[[^\]]*$"),
    Gap("3.12", "{", r"(?<!\w)(?:[fF][rR]?|[rR][fF])(?:\"[^{]*\{.*?[\"\\#].*\}|'[^{]*\{.*?['\\#].*\})"),
    Gap("3.14", "except", r"^\s*except\b\*?\s*([\w.]+(?:\s*,\s*[\w.]+)+)\s*:", "_"),
    Gap("3.14", "", r"(?<!\w)[rR]?([tT])[rR]?(?=['\"])", "f"),
)
"""What Python has since a version. Python before it finds an error there. A row whose pattern has no group
is not read otherwise: an error on such a line is no sign."""


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
    gaps=_GAPS,
)


# Characters that are parsed at once. Python takes .3 microseconds for each in real files, up to 3 in a dense
# one, and nothing stops it meanwhile.
_MOST = 100_000

# Of Python's own `codeop`: text that ends too soon has an error of its own.
_ALLOW_INCOMPLETE = 0x4000
_INCOMPLETE = "incomplete input"

# Where a part of a document may begin.
_DEFINITION = re.compile(r"\s*(?:@|(?:async\s+def|class|def)\b)")
# What makes an indented part one of its own.
_HOLDER = "if 1:"
_CLAUSE = re.compile(r"(?:elif|else|except|finally)\b")
# The message of most errors; others say more.
_ANY = "invalid syntax"
# Other lines that may show that a document has errors of the same form throughout.
_MOST_LIKE = 100
_QUOTED = re.compile(r"'[^']*'")

# Bytes. Python limits the depth of what it parses to what the stack of a main thread has room for; other
# threads have half a mebibyte on macOS, where deep text ends the process (CPython 3.11.7).
_STACK = 16 << 20
_starting = threading.Lock()

_VERSION = sys.version_info[:2]


def _newer(since: str) -> bool:
    major, minor = since.split(".")
    return (int(major), int(minor)) > _VERSION


_NEWER = tuple(row for row in NEWER_PYTHON if _newer(row.since))


def may_go_on(source: SourceTree, row: int, line: str) -> bool | None:
    """Whether something written below `line`, as line `row`, lets Python parse it with what is above.

    None if that cannot be said: there is an error above it as well, such as a bracket that is never closed,
    the part to parse is too long, or the error lies at a construct that is newer than the running Python, or
    is of a form that other lines of the document have, as in one of Python 2. source: the document's lines,
    of which line `row` is empty.
    """
    lines = source.lines(row)
    start = _start(source, lines, line)
    head = [*([_HOLDER] if lines[start : start + 1] and lines[start][:1].isspace() else []), *lines[start:]]
    if sum(map(len, head)) + len(line) > _MOST:
        return None
    error = _error([*head, line])
    if error is None:
        return True
    if (error.lineno or 0) <= len(head) or _error(head) is not None:
        return None
    return None if _is_newer(line) or _is_usual(line, source) else False


class PythonDocument:
    """A document of which one line changes."""

    def __init__(self, lines: Sequence[str], row: int) -> None:
        self._lines, self._row = lines, row
        self._known: tuple[str, ast.Module | None] | None = None

    def tree_with(self, line: str) -> ast.Module | None:
        """Its tree with another line in the place of its own; None if Python cannot parse it, or if it is too
        long. That of the last line asked for is remembered."""
        if self._known is None or self._known[0] != line:
            self._known = line, self._parsed(line)
        return self._known[1]

    def _parsed(self, line: str) -> ast.Module | None:
        found = parsed([*self._lines[: self._row], line, *self._lines[self._row + 1 :]])
        return found if isinstance(found, ast.Module) else None


def parsed(lines: Sequence[str]) -> ast.Module | SyntaxError | None:
    """The tree of a document, or its first error; None if Python gives up, or if it is too long."""
    lines = list(map(code_of, lines))
    return _compiled(lines) if sum(map(len, lines)) <= _MOST else None


def _start(source: SourceTree, lines: Sequence[str], line: str) -> int:
    """The nearest line above at which a definition begins that nothing between it and `line` stands out of.

    What is open above such a line holds it, as `if` does: no clause of that comes before `line`.
    """
    least = _width(line)
    for at in range(len(lines) - 1, 0, -1):
        if not lines[at].strip():
            continue
        least = min(least, _width(lines[at]))
        if _width(lines[at]) == least and _DEFINITION.match(lines[at]) and not source.in_string(at):
            return at
    return 0


def _width(line: str) -> int:
    return len(indentation_of(line).expandtabs())


def _error(lines: Sequence[str]) -> SyntaxError | None:
    """The first error of lines that may go on below."""
    found = _compiled([_read(line) for line in lines], _ALLOW_INCOMPLETE)
    return found if isinstance(found, SyntaxError) and _INCOMPLETE not in str(found.msg) else None


def _compiled(lines: Sequence[str], flags: int = 0) -> ast.Module | SyntaxError | None:
    """The tree of lines, or their first error; None if Python gives up."""
    return with_deep_stack(lambda: _parse("\n".join((*lines, "")), flags))


def with_deep_stack(work: Callable[[], T]) -> T:
    """What `work` returns, on the thread on which Python can parse any text."""
    with _starting:
        parser = _parser()
    return parser.submit(work).result()


@functools.cache
def _parser() -> ThreadPoolExecutor:
    """A thread on which Python can parse any text; only one, since `warnings.catch_warnings` is for one."""
    usual = threading.stack_size(_STACK)
    try:
        thread = ThreadPoolExecutor(1, "python source")
        thread.submit(int).result()  # starts it
    finally:
        threading.stack_size(usual)
    return thread


if hasattr(os, "register_at_fork"):  # threads stay behind
    os.register_at_fork(after_in_child=_parser.cache_clear)


def _parse(text: str, flags: int) -> ast.Module | SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compile(text, "", "exec", ast.PyCF_ONLY_AST | flags, dont_inherit=True)
    except SyntaxError as error:
        return error
    except (MemoryError, RecursionError, ValueError):
        return None
    assert isinstance(found, ast.Module)
    return found


def _read(line: str) -> str:
    """A line without what is newer than the running Python."""
    for row in _NEWER:
        if row.pattern.search(line):
            line = row.read(line)
    return line


def _is_newer(line: str) -> bool:
    """Whether a line has such a construct all the same."""
    return any(not row.pattern.groups and row.pattern.search(line) for row in _NEWER)


def _is_usual(line: str, source: SourceTree) -> bool:
    """Whether other lines of the document have an error of the same form, each taken alone."""
    known = source.rules.known
    form = _form(line, known)
    if form is None:
        return False
    word = _first_word(line, known)
    like = dict.fromkeys(text.strip() for text in source.lines() if _first_word(text, known) == word)
    like.pop(line.strip(), None)
    return any(_form(text, known) == form for text in islice(like, _MOST_LIKE))


def _first_word(line: str, known: frozenset[str]) -> str:
    found = re.match(r"\s*(\w*)", line)
    return found[1] if found and found[1] in known else ""


def _form(line: str, known: frozenset[str]) -> tuple[str, ...] | None:
    """That of the error of a line by itself; None if it has none, or only where it stands."""
    text = line.strip()
    above = ["try:", " pass"] if _CLAUSE.match(text) else []
    error = _error([*above, text])
    if error is None or error.lineno != len(above) + 1:
        return None
    if error.msg != _ANY:
        return (_QUOTED.sub("", error.msg),)
    column = len(text[: (error.offset or 1) - 1].encode("utf-8", "replace"))
    return form_at(text, column, known)
