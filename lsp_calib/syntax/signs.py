"""Signs of a wrong line: what a linter sees in a Python file once the line is in. Pure.

pyflakes reads the file without the line and with it. The right line would define the names that the text
below uses and nothing defines. Flow is not followed, so nothing is said where names come and go in ways that
a linter cannot see.
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
    "redefined": "`{}` is defined here already",
    "repeated-key": "the key {} stands in this dictionary already",
    "undefined-below": "`{}` is used below, and nothing would define it",
}
KINDS = tuple(_WORDS)

# Not those of attributes.
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
# Where these stand, names may come from anywhere.
_DYNAMIC = re.compile(r"\bimport\s*\*|\b(?:exec|globals)\s*\(")
_GLOBAL = re.compile(r"(?m)^\s*global\s+(.+)$")
# What notebooks and tools define beside the builtins.
_GIVEN = frozenset(("display", "get_ipython", "reveal_type", "reveal_locals", "unicode", "xrange"))
_UNDEFINED = frozenset(("UndefinedName", "UndefinedLocal"))
_LONG_QUOTES = ('"""', "'''")
_DEEPER = "    "
_HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)
_NAMED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
)


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

    def read(self) -> None:
        """Read the document, so that `of` takes little time."""
        _ = self._rest

    def _of(self, line: str) -> tuple[Sign, ...]:
        rest = self._rest
        if rest is None or any(line.count(quotes) % 2 for quotes in _LONG_QUOTES):
            return ()
        lines = rest.needed(line)
        tree = parsed([*lines[: self._row], line, *lines[self._row + 1 :]])
        if not isinstance(tree, ast.Module):
            return ()
        found = dict(reversed(list(rest.signs(tree))))
        return tuple(Sign(kind, found[kind]) for kind in KINDS if kind in found)

    @cached_property
    def _rest(self) -> _Rest | None:
        lines = [*self._lines[: self._row], "", *self._lines[self._row + 1 :]]
        text = "\n".join(lines)
        if any(isinstance(one, CommandLine) for one in lines):
            return None
        given = _GIVEN.union(*(_WORD.findall(names) for names in _GLOBAL.findall(text)))
        tree = parsed(lines)
        below = next((at for at in range(self._row + 1, len(lines)) if lines[at].strip()), None)
        if isinstance(tree, SyntaxError) and (below is None or tree.lineno == below + 1):
            # A body without a head, or above it a head without a body.
            above = next((one for one in reversed(lines[: self._row]) if one.strip()), "")
            stand_ins = [f"{indentation_of(above)}{_DEEPER}pass"]
            if below is not None:
                stand_ins.append(f"{indentation_of(lines[below])[: -len(_DEEPER)]}if 1:")
            for lines[self._row] in stand_ins:
                tree = parsed(lines)
                if isinstance(tree, ast.Module):
                    break
        if not isinstance(tree, ast.Module) or (_DYNAMIC.search(text) and _is_dynamic(tree)):
            return None
        return _Rest(lines, self._row + 1, given, tree)


@attrs.frozen
class _Outermost:
    """A function that none holds, whose body begins on a line of its own.

    head, first, last: rows of its head and of its body, from 1. names: the words of its body.
    """

    head: int
    first: int
    last: int
    names: frozenset[str]


class _Rest:
    """A document without a line, in order as it is."""

    def __init__(self, lines: Sequence[str], number: int, given: frozenset[str], tree: ast.Module) -> None:
        """number: of the line, from 1. given: names of which nothing is said. tree: of the lines."""
        self._lines, self._number, self._given = tuple(lines), number, given
        self._functions = [
            _Outermost(head, first, last, frozenset(_WORD.findall("\n".join(lines[first - 1 : last]))))
            for head, first, last in _outermost(tree)
        ]
        self._of_module, self._of_classes = _names_outside_functions(tree)
        self._classes = [
            (one.lineno, one.end_lineno or 0) for one in tree.body if isinstance(one, ast.ClassDef)
        ]
        # The rows, from 1, at which each name is used that nothing defines.
        self._undefined: dict[str, list[int]] = {}
        for message in _messages(tree):
            if type(message).__name__ in _UNDEFINED:
                self._undefined.setdefault(_name(message), []).append(message.lineno)
        # Those that are used below the line alone.
        self._missing_below = frozenset(name for name, rows in self._undefined.items() if min(rows) > number)
        self._holder = next((one for one in self._functions if self._may_hold(one.head, one.last)), None)

    def _may_hold(self, head: int, last: int) -> bool:
        """Whether the line stands in what has a head and a last row, or may be the last one in it."""
        between = self._lines[last : self._number - 1]
        return head < self._number and all(not one.strip() or one.lstrip()[0] == "#" for one in between)

    def _with(self, names: frozenset[str]) -> list[str]:
        """The lines, without bodies of other functions that hold none of the names."""
        lines = list(self._lines)
        for one in self._functions:
            if one is not self._holder and names.isdisjoint(one.names):
                lines[one.first - 1] = indentation_of(lines[one.first - 1]) + "pass"
                lines[one.first : one.last] = [""] * (one.last - one.first)
        return lines

    def needed(self, line: str) -> list[str]:
        """The lines, without those that have nothing to do with the line in their midst."""
        holder = self._holder
        if holder is not None and holder.head > 1:
            head = indentation_of(self._lines[holder.head - 1])
            if len(indentation_of(line)) > len(head):
                return self._alone(holder, head)
        # Nor what a class binds.
        if indentation_of(line) and any(self._may_hold(*one) for one in self._classes):
            return self._with(frozenset())
        return self._with(self._missing_below | _bound(line))

    def _alone(self, holder: _Outermost, indentation: str) -> list[str]:
        """The function that holds the line, and above it a line that binds what it sees."""
        # Its head sees the names of its class, too.
        head = "\n".join(self._lines[holder.head - 1 : holder.first - 1])
        names = sorted(self._of_module | self._of_classes.intersection(_WORD.findall(head))) or ["_"]
        above = f"for {', '.join(names)}, in (): " if indentation else f"{' = '.join(names)} = None"
        last = max(holder.last, self._number)
        lines = [""] * len(self._lines)
        lines[holder.head - 2 : last] = [above, *self._lines[holder.head - 1 : last]]
        return lines

    def signs(self, tree: ast.Module) -> Iterable[tuple[str, str]]:
        """Kind and name of each sign. tree: of the document with the line, perhaps without such bodies."""
        number = self._number
        end = _end_of_scope(tree, number) or len(self._lines)
        for message in _messages(tree):
            kind, at, name = type(message).__name__, message.lineno, _name(message)
            if kind in _UNDEFINED and name not in self._given:
                if at == number and not self._is_missing_outside(name, number):
                    yield "undefined-here", name
                elif (
                    number < at <= end
                    and not self._is_missing_outside(name, end)
                    # Of parameters that stand one on a line others may still be to be written.
                    and self._undefined.keys().isdisjoint(_parameters(tree, number))
                ):
                    yield "undefined-below", name
            elif at == number and kind == "RedefinedWhileUnused":
                yield "redefined", name
            elif at == number and kind.startswith("MultiValueRepeatedKey"):
                yield "repeated-key", name

    def _is_missing_outside(self, name: str, end: int) -> bool:
        """Whether nothing defines a name that is used outside of the rows from the line to `end`, either: not
        for want of the line."""
        return any(not self._number <= at <= end for at in self._undefined.get(name, ()))


def _bound(line: str) -> frozenset[str]:
    """The names that a line binds, taken alone; all its words where that is no statement."""
    text = line.strip()
    tree = parsed([f"{text} pass" if text.endswith(":") else text])
    if not isinstance(tree, ast.Module):
        return frozenset(_WORD.findall(line))
    return _names_outside_functions(tree)[0]


def _parameters(tree: ast.Module, number: int) -> Iterable[str]:
    """The names of the parameters in a row, from 1, of functions whose heads go over several."""
    for one in ast.walk(tree):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.lineno < _end_of_head(one):
            for part in ast.walk(one.args):
                if isinstance(part, ast.arg) and part.lineno == number:
                    yield part.arg


def _is_dynamic(tree: ast.Module) -> bool:
    return any(
        (isinstance(one, ast.alias) and one.name == "*")
        or (isinstance(one, ast.Call) and getattr(one.func, "id", "") in ("exec", "globals"))
        for one in ast.walk(tree)
    )


def _outermost(tree: ast.Module) -> Iterable[tuple[int, int, int]]:
    """Of the outermost functions whose bodies begin on a line of their own: the row of the head, and first
    and last row of the body, from 1."""
    pending: list[ast.AST] = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            first = one.body[0]
            start = min([first.lineno, *(mark.lineno for mark in getattr(first, "decorator_list", ()))])
            if start > _end_of_head(one):
                yield one.lineno, start, one.end_lineno or start
        else:
            pending += [child for child in ast.iter_child_nodes(one) if isinstance(child, _HOLDERS)]


def _names_outside_functions(tree: ast.Module) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a module binds, and those that its classes do."""
    of_module: set[str] = set()
    of_classes: set[str] = set()
    pending: list[tuple[ast.AST, set[str]]] = [(tree, of_module)]
    while pending:
        one, found = pending.pop()
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            found.add(one.id)
        elif isinstance(one, ast.alias):
            found.add(one.asname or one.name.partition(".")[0])
        elif isinstance(one, ast.MatchMapping):
            found.add(one.rest or "_")
        elif isinstance(one, _NAMED):
            found.add(one.name or "_")
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            scope = of_classes if isinstance(one, ast.ClassDef) else found
            pending += [(child, scope) for child in ast.iter_child_nodes(one)]
    return frozenset(of_module), frozenset(of_classes)


def _end_of_head(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The last row, from 1, of what stands before the body, but for what closes it."""
    given = function.args
    parts: Sequence[ast.expr | ast.arg | None] = (
        *(*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg),
        *(*given.defaults, *given.kw_defaults, function.returns),
    )
    return max([function.lineno, *(one.end_lineno or 0 for one in parts if one is not None)])


def _end_of_scope(tree: ast.Module, number: int) -> int | None:
    """The last row, from 1, in which what a row binds is seen; None if that is the module's.

    What a class binds its functions do not see, but of a function's head they see the parameters.
    """
    end = None
    pending: list[ast.AST] = [tree]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if isinstance(child, ast.excepthandler | ast.match_case):
                pending.append(child)
            elif isinstance(child, ast.stmt) and child.lineno <= number <= (child.end_lineno or 0):
                pending.append(child)  # what it holds is narrower
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                is_scope = is_function or isinstance(child, ast.ClassDef)
                if is_scope and (number > child.lineno or (is_function and end is not None)):
                    end = child.end_lineno
    return end


def _messages(tree: ast.Module) -> Sequence[Message]:
    try:
        return with_deep_stack(lambda: _checked(tree))
    except RecursionError:
        return ()


def _checked(tree: ast.Module) -> Sequence[Message]:
    from pyflakes.checker import Checker

    checker = Checker(tree, withDoctest=False)
    messages: Sequence[Message] = checker.messages
    # All of it refers to itself in circles: megabytes would wait for the collector of garbage at each key.
    for scope in checker.deadScopes:
        scope.clear()
    vars(checker).clear()
    for node in ast.walk(tree):
        vars(node).pop("_pyflakes_parent", None)
    return messages


def _name(message: Message) -> str:
    given = message.message_args
    return given if isinstance(given, str) else str(given[0]) if given else ""
