"""Signs of a wrong line: what a linter sees in a Python file once the line is in. Pure.

pyflakes reads the file without the line and with it. Names that the text below uses and nothing defines, and
imports that nothing uses, are those that the right line would define or use. Flow is not followed, so nothing
is said where names come and go in ways that a linter cannot see.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.syntax.languages.python import parsed, with_deep_stack
from lsp_calib.syntax.magics import CommandLine

if TYPE_CHECKING:
    from pyflakes.messages import Message

# The words of each kind, the one to be said first of all (docs/confidence.md has how often each is right).
_WORDS = {
    "undefined-here": "nothing in this file defines `{}`",
    "redefined": "`{}` is defined above already, and not used since",
    "repeated-key": "the key {} stands in this dictionary already",
    "undefined-below": "`{}` is used below, and nothing would define it",
}
KINDS = tuple(_WORDS)

_WORD = re.compile(r"[^\W\d]\w*")
# Where these stand, names may come from anywhere.
_DYNAMIC = re.compile(r"(?m)^\s*from\s+\S+\s+import\s*\(?\s*\*|\b(?:exec|globals|locals|vars)\s*\(")
_GLOBAL = re.compile(r"(?m)^\s*global\s+(.+)$")
# What notebooks and tools define beside the builtins.
_GIVEN = frozenset(("display", "get_ipython", "reveal_type", "reveal_locals", "unicode", "xrange"))
_UNDEFINED = frozenset(("UndefinedName", "UndefinedLocal"))
_LONG_QUOTES = ('"""', "'''")
_DEEPER = "    "


@attrs.frozen
class Sign:
    """kind: one of KINDS. name: that it is about; a key as it is written."""

    kind: str
    name: str

    @property
    def words(self) -> str:
        """What it says against the line."""
        return _WORDS[self.kind].format(self.name)


class Signs:
    """The signs of lines in the place of one line of a document."""

    def __init__(self, lines: Sequence[str], row: int) -> None:
        self._lines, self._row = lines, row
        self._known: tuple[str, tuple[Sign, ...]] | None = None

    def of(self, line: str) -> tuple[Sign, ...]:
        """Those of a line, the most telling kind first, at most one of each. Those of the last line asked for
        are remembered.

        None where the file cannot be parsed without the line, or with it.
        """
        if self._known is None or self._known[0] != line:
            self._known = line, self._of(line)
        return self._known[1]

    def _of(self, line: str) -> tuple[Sign, ...]:
        base = self._base
        if base is None or any(line.count(quotes) % 2 for quotes in _LONG_QUOTES):
            return ()
        lines = base.without_bodies(base.missing_below.union(_WORD.findall(line)))
        tree = parsed([*lines[: self._row], line, *lines[self._row + 1 :]])
        if tree is None:
            return ()
        found = dict(reversed(list(self._signs(base, tree, _messages(tree)))))
        return tuple(Sign(kind, found[kind]) for kind in KINDS if kind in found)

    def read(self) -> None:
        """Read the document, so that `of` takes little time."""
        _ = self._base

    @cached_property
    def _base(self) -> _Base | None:
        lines = [*self._lines[: self._row], "", *self._lines[self._row + 1 :]]
        text = "\n".join(lines)
        if any(isinstance(one, CommandLine) for one in lines) or _DYNAMIC.search(text):
            return None
        given = _GIVEN.union(*(_WORD.findall(names) for names in _GLOBAL.findall(text)))
        for stand_in in self._stand_ins():
            lines[self._row] = stand_in
            if (tree := parsed(lines)) is not None:
                return _Base.of(lines, tree, self._row, given)
        return None

    def _stand_ins(self) -> Iterable[str]:
        """Lines that may stand for the line: the document should be in order without it."""
        yield ""
        above = next((one for one in reversed(self._lines[: self._row]) if one.strip()), "")
        below = next((one for one in self._lines[self._row + 1 :] if one.strip()), "")
        for indentation in dict.fromkeys((indentation_of(above) + _DEEPER, indentation_of(below))):
            yield indentation + "pass"
        shallower = (indentation_of(below)[: -len(_DEEPER)], indentation_of(above))
        for indentation in dict.fromkeys(shallower):
            yield indentation + "if 1:"

    def _signs(self, base: _Base, tree: ast.Module, messages: Sequence[Message]) -> Iterable[tuple[str, str]]:
        number = self._row + 1
        end = _end_of_function(tree, number)
        # Of parameters that stand one on a line others may still be to be written.
        is_one_of_several = any(
            isinstance(one, ast.arg) and one.lineno == number and one.arg in base.missing_below
            for one in ast.walk(tree)
        )
        for message in messages:
            kind, at, name = type(message).__name__, message.lineno, _name(message)
            if kind in _UNDEFINED and name not in base.given:
                if at == number and name not in base.undefined:
                    yield "undefined-here", name
                elif number < at <= end and not (
                    is_one_of_several or base.is_missing_outside(name, number, end)
                ):
                    yield "undefined-below", name
            elif at == number and kind == "RedefinedWhileUnused":
                yield "redefined", name
            elif at == number and kind.startswith("MultiValueRepeatedKey"):
                yield "repeated-key", name


@attrs.frozen
class _Base:
    """A document that stands without a line.

    undefined: the rows, from 1, at which each name is used that nothing defines. missing_below: those of them
    that are not used above. given: names of which nothing is said. bodies: first and last row, from 1, of
    those of outermost functions, and the words in them.
    """

    lines: Sequence[str]
    undefined: dict[str, list[int]]
    missing_below: frozenset[str]
    given: frozenset[str]
    bodies: Sequence[tuple[int, int, frozenset[str]]]

    @classmethod
    def of(cls, lines: Sequence[str], tree: ast.Module, row: int, given: frozenset[str]) -> _Base:
        undefined: dict[str, list[int]] = {}
        for message in _messages(tree):
            if type(message).__name__ in _UNDEFINED:
                undefined.setdefault(_name(message), []).append(message.lineno)
        bodies = [
            (first, last, frozenset(_WORD.findall("\n".join(lines[first - 1 : last]))))
            for first, last in _bodies(tree)
            if not first <= row + 1 <= last
        ]
        below = frozenset(name for name, rows in undefined.items() if min(rows) > row)
        return cls(tuple(lines), undefined, below, given, bodies)

    def is_missing_outside(self, name: str, number: int, end: int) -> bool:
        """Whether nothing defines a name elsewhere than from row `number` to `end`, either: not for want of
        the line."""
        return any(not number < at <= end for at in self.undefined.get(name, ()))

    def without_bodies(self, names: frozenset[str]) -> list[str]:
        """The lines, without bodies of functions that hold none of the names."""
        lines = list(self.lines)
        for first, last, words in self.bodies:
            if names.isdisjoint(words):
                lines[first - 1] = indentation_of(lines[first - 1]) + "pass"
                lines[first:last] = [""] * (last - first)
        return lines


def _bodies(tree: ast.Module) -> Iterable[tuple[int, int]]:
    """First and last row, from 1, of the bodies of outermost functions that begin on a line of their own."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        one = pending.pop()
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            first = one.body[0]
            above = max([one.lineno, *(part.end_lineno or 0 for part in _parts_of_head(one))])
            start = min([first.lineno, *(mark.lineno for mark in getattr(first, "decorator_list", ()))])
            if start > above:
                yield start, one.end_lineno or start
        elif isinstance(one, ast.ClassDef | ast.If):
            pending += [*one.body, *getattr(one, "orelse", ())]


def _parts_of_head(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.expr | ast.arg]:
    given = function.args
    parts: Sequence[ast.expr | ast.arg | None] = (
        *(*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg),
        *(*given.defaults, *given.kw_defaults, function.returns),
    )
    yield from (one for one in parts if one is not None)


def _end_of_function(tree: ast.Module, number: int) -> int:
    """The last row of the innermost function that holds a row, from 1; that of the file outside of them."""
    pending: list[ast.AST] = [tree]
    ends = []
    while pending:
        one = pending.pop()
        for child in ast.iter_child_nodes(one):
            if isinstance(child, ast.stmt) and child.lineno <= number <= (child.end_lineno or 0):
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                    ends.append(child.end_lineno or 0)
                pending.append(child)
            elif isinstance(child, ast.excepthandler | ast.match_case):
                pending.append(child)
    return min(ends, default=1 << 31)


def _messages(tree: ast.Module) -> Sequence[Message]:
    from pyflakes.checker import Checker

    try:
        return with_deep_stack(lambda: Checker(tree, withDoctest=False).messages)
    except RecursionError:
        return ()


def _name(message: Message) -> str:
    given = message.message_args
    return given if isinstance(given, str) else str(given[0]) if given else ""
