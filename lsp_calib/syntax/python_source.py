"""Python as the running interpreter parses it: lines that nothing below can put right, and trees. Pure.

Text up to a line can be parsed as far as it goes, or it has an error before its end. That error stays
whatever is written below. So it is no sign of what is not written yet, nor of what is wrong further down.
"""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
import sys
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lsp_calib.syntax.languages.gaps import NEWER_PYTHON
from lsp_calib.syntax.source_tree import SourceTree, code_of, form_at
from lsp_calib.text_lines import indentation_of

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
        lines = [*map(code_of, self._lines[: self._row]), line, *map(code_of, self._lines[self._row + 1 :])]
        if sum(map(len, lines)) > _MOST:
            return None
        found = _compiled(lines)
        return found if isinstance(found, ast.Module) else None


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
    with _starting:
        parser = _parser()
    return parser.submit(_parse, "\n".join((*lines, "")), flags).result()


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
    return any(_form(text, known) == form for text in itertools.islice(like, _MOST_LIKE))


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
