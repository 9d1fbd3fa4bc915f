"""Signs of a wrong line: what a linter sees in a Python file once the line is in. Pure.

pyflakes reads the file without the line and with it. The right line would define the names that the text
below uses and nothing defines. Flow is not followed, so nothing is said where names come and go in ways that
a linter cannot see.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.syntax.languages.python import parsed, with_deep_stack
from lsp_calib.syntax.magics import CommandLine

if TYPE_CHECKING:
    from pyflakes.messages import Message

# The words of each kind, the one to be said first of all (models/records/lines has how often each is right).
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
# Does not end a string, nor hold an expression.
_IN_TEXT = re.compile(r"[^\"'\\{]*")
# Characters of a file that may bear on a line. Each takes .2 to .5 microseconds, 1.3 in dense formulas.
_MOST = 40_000
# In characters, of a line that binds names: much longer ones are not read.
_LONGEST = 10_000
_DEFINITION = re.compile(r"\s*(?:@|(?:async|class|def)\b)")
# Around an element of a dictionary, an argument, or a parameter.
_LISTS = (("{", "}"), ("_(", ")"), ("def _(", "): pass"))
# What is imported from these decides how a linter reads other lines.
_READ_BY_LINTERS = frozenset(("__future__", "typing", "typing_extensions"))
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

        None where the file cannot be parsed without the line, or with it, or where too much of it may bear on
        the line.
        """
        if self._known is None or self._known[0] != line:
            self._known = line, self._of(line)
        return self._known[1]

    def read(self) -> None:
        """Read the document, so that `of` takes little time with lines that are indented as its own is."""
        if self._rest is not None:
            self._rest.needed(self._lines[self._row])

    def _of(self, line: str) -> tuple[Sign, ...]:
        rest = self._rest
        if rest is None or any(line.count(quotes) % 2 for quotes in _LONG_QUOTES):
            return ()
        lines = rest.needed(line)
        if sum(map(len, lines)) > _MOST:
            return ()
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

    head, first, last: rows of its head and of its body, from 1.
    """

    head: int
    first: int
    last: int


@attrs.frozen
class _Part:
    """A statement of a module's or of a class's body, or several that share rows.

    first, last: its rows, from 1. bound: the names that it binds in that body; None if it does more to names,
    and so may not be left out. parts: of a class those of its body, if that begins on a line of its own.
    """

    first: int
    last: int
    bound: Sequence[str] | None
    parts: Sequence[_Part]


@attrs.frozen
class _Bound:
    """The names that a line may bind outside of functions, in any scope, those that it may delete, and those
    that it binds as a statement of a module without doubt."""

    outside: frozenset[str]
    inside: frozenset[str]
    deleted: frozenset[str]
    surely: frozenset[str] = frozenset()


_NOTHING = _Bound(frozenset(), frozenset(), frozenset())


@attrs.frozen
class _Sides:
    """The names that matter above a line and below it, and rows that do."""

    above: frozenset[str]
    below: frozenset[str]
    rows: frozenset[int] = frozenset()


class _Rest:
    """A document without a line, in order as it is."""

    def __init__(self, lines: Sequence[str], number: int, given: frozenset[str], tree: ast.Module) -> None:
        """number: of the line, from 1. given: names of which nothing is said. tree: of the lines."""
        self._lines, self._number, self._given = tuple(lines), number, given
        self._functions = [_Outermost(*rows) for rows in _outermost(tree, lines)]
        self._parts, self._imported = self._parts_of(tree.body), frozenset(_imports(tree))
        at_line = list(_over(tree, number))
        # Whether the line stands in a string over several rows.
        self._is_text = any(
            isinstance(one, ast.Constant) and one.lineno < number < (one.end_lineno or 0) for one in at_line
        )
        # What the lines below bind that may be the line's body.
        holding = [one for one in at_line if isinstance(one, ast.If) and one.lineno == number]
        has_stand_in = lines[number - 1] and holding
        self._held = _names_outside_functions(*holding)[0] if has_stand_in else frozenset[str]()
        self._read_by_linters = [
            _Part(one.lineno, one.end_lineno or one.lineno, None, ())
            for one in tree.body
            if isinstance(one, ast.Import | ast.ImportFrom) and _is_read_by_linters(one)
        ]
        self._known: dict[tuple[int, int], frozenset[str]] = {}
        self._of_module, self._of_classes = _names_outside_functions(tree)
        self._classes = [
            (one.lineno, one.end_lineno or 0) for one in tree.body if isinstance(one, ast.ClassDef)
        ]
        # The rows, from 1, at which each name is used that nothing defines.
        self._undefined: dict[str, list[int]] = {}
        uses: list[tuple[str, int]] = []
        for message in _messages(tree):
            if type(message).__name__ in _UNDEFINED:
                uses.append((_name(message), message.lineno))
                self._undefined.setdefault(_name(message), []).append(message.lineno)
        # Those that are used below the line alone, and their uses in the order of the linter.
        self._missing_below = frozenset(
            name for name, rows in self._undefined.items() if min(rows) > number and name not in given
        )
        self._missing = [(name, row) for name, row in uses if name in self._missing_below]
        # Names that are assigned or deleted: binding them in the module does not always define them.
        self._rebound = frozenset(_rebound(tree)) if self._missing else frozenset[str]()
        self._holder = next((one for one in self._functions if self._may_hold(one.head, one.last)), None)

    def _may_hold(self, head: int, last: int) -> bool:
        """Whether the line stands in what has a head and a last row, or may be the last one in it."""
        between = self._lines[last : self._number - 1]
        return head < self._number and all(not one.strip() or one.lstrip()[0] == "#" for one in between)

    def _parts_of(self, body: Sequence[ast.stmt]) -> Sequence[_Part]:
        rows: list[tuple[int, int, list[ast.stmt]]] = []
        for one in body:
            first, last = _first_row(one), one.end_lineno or one.lineno
            if rows and first <= rows[-1][1]:
                rows[-1] = rows[-1][0], max(last, rows[-1][1]), [*rows[-1][2], one]
            else:
                rows.append((first, last, [one]))
        return tuple(self._part(*one) for one in rows)

    def _part(self, first: int, last: int, statements: Sequence[ast.stmt]) -> _Part:
        one, *more = statements
        is_open = isinstance(one, ast.ClassDef) and not more and _begins_row(one.body[0], self._lines)
        parts = self._parts_of(one.body) if isinstance(one, ast.ClassDef) and is_open else ()
        assigns_inside = any(":=" in line for line in self._lines[first - 1 : last])
        return _Part(first, last, None if assigns_inside else _bound_by(statements), parts)

    def _words(self, first: int, last: int) -> frozenset[str]:
        """The words of the rows from `first` to `last`."""
        found = self._known.get((first, last))
        if found is None:
            text = "\n".join(self._lines[first - 1 : last])
            found = self._known[first, last] = frozenset(_WORD.findall(text))
        return found

    def _without_bodies(self, names: _Sides) -> list[str]:
        """The lines, without bodies of other functions that hold none of the names."""
        lines = list(self._lines)
        for one in self._functions:
            if one is not self._holder and self._is_without(one.first, one.last, names):
                lines[one.first - 1] = indentation_of(lines[one.first - 1]) + "pass"
                lines[one.first : one.last] = [""] * (one.last - one.first)
        return lines

    def _is_without(self, first: int, last: int, names: _Sides) -> bool:
        """Whether the rows from `first` to `last` hold none of the names that matter on their side."""
        if any(first <= row <= last for row in names.rows):
            return False
        return (names.above if last < self._number else names.below).isdisjoint(self._words(first, last))

    def _leave_out(
        self, lines: list[str], parts: Sequence[_Part], names: _Sides, beside: _Sides | None
    ) -> None:
        """Put what binds the same names in the place of parts that hold none of the names.

        beside: those for parts of classes beside the line, or around it; None if it is not beside the parts.
            Parts beside it stay, whatever they hold.
        """
        near = range(0) if beside is None else self._near(parts)
        run: list[_Part] = []
        for at, one in enumerate(parts):
            is_near = at in near
            if not is_near and one.bound is not None and self._is_without(one.first, one.last, names):
                run.append(one)
                continue
            _stand_in(lines, run)
            run = []
            if is_near and beside is not None:
                self._leave_out(lines, one.parts, beside, beside)
            else:
                self._leave_out(lines, one.parts, names, None)
        _stand_in(lines, run)

    def needed(self, line: str) -> list[str]:
        """The lines, without those that have nothing to do with the line in their midst."""
        holder, indentation = self._holder, indentation_of(line)
        if holder is not None and holder.head > 1:
            head = indentation_of(self._lines[holder.head - 1])
            if len(indentation) > len(head):
                return self._alone(line, holder, head)
        bound = _NOTHING if self._is_text and _IN_TEXT.fullmatch(line) else _bound(line)
        # An import counts as unused if nothing uses it to the end, and functions are read last.
        hidden = (bound.outside | bound.inside) & self._imported
        gone = hidden | bound.deleted | (self._held if _DEFINITION.match(line) else frozenset())
        missing, rows = self._missing_below, frozenset[int]()
        if not indentation and self._around(self._parts) is None:
            # Those of which the line says nothing are missing as they are without it: the first is enough.
            touched = bound.outside | bound.inside | gone
            rows = self._first_missing(touched)
            missing = (missing & touched) - (bound.surely - self._rebound)
        names = _Sides(bound.outside | gone, missing | gone, rows)
        if indentation and any(self._may_hold(*one) for one in self._classes):
            # Nothing outside of a class sees what it binds, nor do bodies of its functions.
            of_bodies = of_module = _Sides(hidden, hidden)
        else:
            of_bodies, of_module = _Sides(hidden, names.below, names.rows), names
        lines = self._without_bodies(of_bodies)
        # What is left out binds its names where it stands, and not in a body that the line begins.
        if not self._ends_body(indentation):
            self._leave_out(lines, self._parts, of_module, names)
        return lines

    def _around(self, parts: Sequence[_Part]) -> _Part | None:
        """The one of the parts in whose midst the line stands."""
        return next((one for one in parts if one.first < self._number <= one.last), None)

    def _near(self, parts: Sequence[_Part]) -> range:
        """Which of the parts hold the line or stand beside it."""
        below = bisect_left(parts, self._number, key=lambda one: one.last)
        is_in = below < len(parts) and parts[below].first <= self._number
        return range(max(below - 1, 0), min(below + 1 + is_in, len(parts)))

    def _first_missing(self, touched: frozenset[str]) -> frozenset[int]:
        """The rows of the first use of a missing name that is not among those touched, anywhere and in parts
        that are not near the line, in the order of the linter."""
        near = [self._parts[at] for at in self._near(self._parts)]
        rows = [row for name, row in self._missing if name not in touched]
        far = (row for row in rows if not any(one.first <= row <= one.last for one in near))
        return frozenset((*rows[:1], *islice(far, 1)))

    def _ends_body(self, indentation: str) -> bool:
        """Whether a line with this indentation would end the body of a class or of a statement in whose midst
        it stands. Nobody sees what a function binds."""
        parts, around = self._parts, None
        while (within := self._around(parts)) is not None:
            parts, around = within.parts, within
            if parts and len(indentation) < len(indentation_of(self._lines[parts[0].first - 1])):
                return True
        if around is None or around.parts or _DEFINITION.match(self._lines[around.first - 1]):
            return False
        stand_in = self._lines[self._number - 1]
        below = next((one for one in self._lines[self._number :] if one.strip()), "")
        is_head = stand_in and indentation_of(stand_in) == indentation
        return len(indentation) < len(indentation_of(below)) and not is_head

    def _alone(self, line: str, holder: _Outermost, indentation: str) -> list[str]:
        """The function that holds the line, and above it a line that binds what it sees."""
        last = max(holder.last, self._number)
        # Its head sees the names of its class, too.
        head = self._of_classes.intersection(self._words(holder.head, holder.first - 1))
        used = self._words(holder.head, holder.last).union(_WORD.findall(line))
        lines, kept = [""] * len(self._lines), frozenset[str]()
        for one in self._read_by_linters:
            if one.last < holder.head - 1:
                lines[one.first - 1 : one.last] = self._lines[one.first - 1 : one.last]
                kept |= self._words(one.first, one.last)
        names = sorted((self._of_module - kept | head) & used) or ["_"]
        above = f"for {', '.join(names)}, in (): " if indentation else f"{' = '.join(names)} = None"
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


def _bound(line: str) -> _Bound:
    """What a line binds, taken alone; all its words where that is no statement."""
    text = line.strip()
    tree = parsed([f"{text} pass" if text.endswith(":") else text])
    if not isinstance(tree, ast.Module):
        words = frozenset(_WORD.findall(line))
        is_listed = any(isinstance(parsed([f"{a}{text}", b]), ast.Module) for a, b in _LISTS)
        return _Bound(words, words, frozenset() if is_listed else words)
    nodes = list(ast.walk(tree))
    # In a list of targets it is one of them.
    listed = [
        each.id
        for one in tree.body
        if isinstance(one, ast.Expr)
        for each in (one.value.elts if isinstance(one.value, ast.Tuple) else [one.value])
        if isinstance(each, ast.Name)
    ]
    return _Bound(
        _names_outside_functions(tree)[0].union(listed),
        frozenset(name for one in nodes if (name := _binds(one))),
        frozenset(one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Del)),
        frozenset(_bound_by(tree.body) or ()),
    )


def _binds(one: ast.AST) -> str | None:
    """The name that a node binds, or deletes."""
    if isinstance(one, ast.Name):
        return None if isinstance(one.ctx, ast.Load) else one.id
    if isinstance(one, ast.alias):
        return one.asname or one.name.partition(".")[0]
    if isinstance(one, ast.arg):
        return one.arg
    if isinstance(one, ast.MatchMapping):
        return one.rest
    return one.name if isinstance(one, _NAMED) else None


def _bound_by(statements: Sequence[ast.stmt]) -> Sequence[str] | None:
    """The names that statements without assignments in expressions bind, each once; None if they do more to
    names, or to how a linter reads others."""
    found: dict[str, None] = {}
    pending: list[ast.AST] = list(statements)
    while pending:
        one = pending.pop()
        if (
            (isinstance(one, ast.Import | ast.ImportFrom) and _is_read_by_linters(one))
            or isinstance(one, ast.Delete)
            or (isinstance(one, ast.AnnAssign) and one.value is None)
            or (isinstance(one, ast.ExceptHandler) and one.name)
        ):
            return None
        if name := _binds(one):
            found[name] = None
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += [child for child in ast.iter_child_nodes(one) if not _is_value(child)]
    return None if "__all__" in found else tuple(found)


def _is_read_by_linters(one: ast.Import | ast.ImportFrom) -> bool:
    modules = [name.name for name in one.names] if isinstance(one, ast.Import) else [one.module]
    return not _READ_BY_LINTERS.isdisjoint(modules)


def _is_value(node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Load | None)


def _stand_in(lines: list[str], parts: Sequence[_Part]) -> None:
    """Put a line that binds the same names in the place of successive parts."""
    if not parts:
        return
    first, last = parts[0].first, parts[-1].last
    names = dict.fromkeys(name for one in parts for name in one.bound or ())
    text = " = ".join((*names, "None")) if names else "pass"
    if len(text) <= _LONGEST:
        lines[first - 1 : last] = [indentation_of(lines[first - 1]) + text, *[""] * (last - first)]
    elif len(parts) > 1:
        half = len(parts) // 2
        _stand_in(lines, parts[:half])
        _stand_in(lines, parts[half:])


def _over(tree: ast.Module, number: int) -> Iterable[ast.AST]:
    """The nodes that stand over a row, from 1."""
    pending: list[ast.AST] = [tree]
    while pending:
        one = pending.pop()
        if getattr(one, "lineno", number) <= number <= getattr(one, "end_lineno", number):
            yield one
            pending += ast.iter_child_nodes(one)


def _rebound(tree: ast.Module) -> Iterable[str]:
    """The names that a module assigns or deletes, but for imports, definitions and parameters."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Name | ast.excepthandler | ast.pattern) and (name := _binds(one)):
            yield name


def _imports(tree: ast.Module) -> Iterable[str]:
    """The names that a module imports, outside of functions and classes."""
    pending: list[ast.AST] = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.Import | ast.ImportFrom):
            yield from filter(None, map(_binds, one.names))
        elif not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            pending += [child for child in ast.iter_child_nodes(one) if isinstance(child, _HOLDERS)]


def _begins_row(statement: ast.stmt, lines: Sequence[str]) -> bool:
    """Whether nothing stands before a statement on its first row."""
    decorators: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    column = min([statement.col_offset, *(one.col_offset - 1 for one in decorators)])
    return not lines[_first_row(statement) - 1][:column].strip()


def _first_row(statement: ast.stmt) -> int:
    """With its decorators, from 1."""
    marks: Sequence[ast.expr] = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(one.lineno for one in marks)])


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


def _outermost(tree: ast.Module, lines: Sequence[str]) -> Iterable[tuple[int, int, int]]:
    """Of the outermost functions whose bodies begin on a line of their own: the row of the head, and first
    and last row of the body, from 1."""
    pending: list[ast.AST] = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            start = _first_row(one.body[0])
            if start > one.lineno and _begins_row(one.body[0], lines):
                yield one.lineno, start, one.end_lineno or start
        else:
            pending += [child for child in ast.iter_child_nodes(one) if isinstance(child, _HOLDERS)]


def _names_outside_functions(tree: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a module binds, and those that its classes do."""
    of_module: set[str] = set()
    of_classes: set[str] = set()
    pending: list[tuple[ast.AST, set[str]]] = [(tree, of_module)]
    while pending:
        one, found = pending.pop()
        if name := _binds(one):
            found.add(name)
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
    if any(hasattr(one, "_pyflakes_parent") for one in tree.body):  # before pyflakes 4
        for node in ast.walk(tree):
            vars(node).pop("_pyflakes_parent", None)
    return messages


def _name(message: Message) -> str:
    given = message.message_args
    return given if isinstance(given, str) else str(given[0]) if given else ""
