"""What has to be known of a language beyond its grammar, and what its rules find: functions, comments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from tree_sitter import Language, Node

# White space at the beginning of a line.
_BLANK = re.compile(r"\s*")

Path = Sequence[tuple[str, str | None]]
"""A node and what holds it, the outermost first: the type of each, and the field of its parent it is in."""


Fields = frozenset[tuple[str, str | None]]
"""Types of nodes, each with a field of it; None: what no field holds."""


def by_field(**types: str) -> Fields:
    """types: for each field the types of nodes, a word each; of what no field holds those at `no_field`."""
    named = {None if field == "no_field" else field: words.split() for field, words in types.items()}
    return frozenset((one, field) for field, words in named.items() for one in words)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BRACKETS: Mapping[str, str] = MappingProxyType({"{": "}", "(": ")", "[": "]"})

COMMENTS = words("comment")
"""The types of comments in most grammars."""


@attrs.frozen
class Function:
    """A function or method; lines count from 0, ends are exclusive.

    start: the line where its definition begins, decorators, annotations and attributes left out.
    signature_end: after the line where its signature ends: that of the colon, the opening brace or the arrow.
    body: first line of the body after documentation in it.
    docstring: the documentation as written, with its quotes or comment marks, None if there is none.
    code: its source without the documentation.
    documented: first line of the documentation, and the line after it; None if there is none.
    within: the class that it is a method of, after those that this one stands in; "" if there is none.
    has_place: whether documentation can stand on lines of its own where the language's tool looks for it.
    """

    name: str
    start: int
    body: int
    end: int
    signature_end: int
    docstring: str | None
    code: str
    documented: tuple[int, int] | None = None
    within: str = ""
    has_place: bool = True


class Outer(NamedTuple):
    """A node that holds others, and its own place: at `at` among its siblings."""

    node: Node
    siblings: Sequence[Node]
    at: int
    outer: Outer | None

    @property
    def place(self) -> Place:
        return Place(self.siblings, self.at, self.outer)


@attrs.frozen
class Place:
    """Where a definition stands: what is before it is `siblings[:index]`. outer: what holds the siblings."""

    siblings: Sequence[Node]
    index: int
    outer: Outer | None = None

    @property
    def node(self) -> Node:
        """The definition with all that belongs to it, such as `export` or `template <...>`."""
        return self.siblings[self.index]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@attrs.frozen
class Gap:
    """A construct that a language has and its grammar's wheel does not know.

    It is read as one that the wheel knows and that stands in the same places, so that an error in what is
    around it is still found. The text keeps its length: columns stay what they are.

    since: the version of the language that brought it. mark: text that each line with it has: it is looked
    for first. pattern: finds it in a line; its groups are what the grammar does not see. instead: what stands
    in the place of the first group, no longer than that.
    """

    since: str
    mark: str
    pattern: re.Pattern[str] = attrs.field(converter=_compiled)
    instead: str = ""

    def read(self, line: str) -> str:
        """A line as the grammar is to see it; it has as many bytes of UTF-8."""
        return self.pattern.sub(self._without, line)

    def _without(self, found: re.Match[str]) -> str:
        text, end = "", found.start()
        for at in range(1, self.pattern.groups + 1):
            start, last = found.span(at)
            if start < end:
                continue  # a group that took no part
            hidden = len(found[at].encode("utf-8", "replace"))
            shown = self.instead if at == 1 else ""
            text += found.string[end:start] + shown + " " * (hidden - len(shown))
            end = last
        return text + found.string[end : found.end()]


@attrs.frozen
class Gaps:
    """The gaps of a wheel. wheel: its name and the version that was looked through.

    `tests/unit/test_gaps.py` holds each row to the wheel: one that the wheel has mended has to go.
    """

    wheel: str = ""
    rows: tuple[Gap, ...] = ()


@attrs.frozen
class LanguageRules:
    """A grammar, and the meaning of its nodes.

    grammar: loads it. whole: loads that of whole documents, None if it is the same.
    names: types of the leaves that are names. comments: types of comments.
    binds: whether the name at the end of a path is bound there, rather than used. known: names that need no
        binding: keywords, builtins.
    spans: opening and closing marks of what may go on over several lines: long strings, comments.
    begins: matches a line with which a statement of the outermost level begins.
    functions: by the types of nodes that may define a function: the function that such a node defines, None
        if it defines none. wrappers: types of nodes that belong to the definition in them. bodies: types of
        nodes that begin with their first statement: comments above it stand before them.
    is_prose: whether a node is text though it is no comment.
    block_openings: the tokens after which a deeper line must follow; empty if indentation means nothing.
    blocks: types of nodes that hold whole lines: statements with a block, their clauses, the file. Only
        needed with `block_openings`.
    brackets: the closing bracket for each opening one; {} if blocks end by their indentation.
    body: what may stand in a block that an opening of `block_openings` begins, by the word that the statement
        begins with; "": any other. finishes: what has to follow the block or the brackets of a statement, by
        the word that it begins with. heads: what has to stand in the parentheses that follow a word. marks:
        what a line begins with that belongs to what is defined below it, and such definitions. tags: whether
        there are some, as in JSX. braces_below: whether a brace may stand on the line below what it begins.
    opaque: types of leaves whose line is not judged: it is not of the language's own grammar, such as a line
        for a preprocessor.
    macros: whether a program may define words of its own that stand where the grammar has none.
    gaps: what the grammar does not know of the language.
    misplaced: whether a clause of a statement stands where the grammar reads it and the language does not, by
        the types of the node that holds it, of its own, and of the one before it, "" for none.
    """

    grammar: Callable[[], Language]
    names: frozenset[str]
    binds: Callable[[Path], bool]
    known: frozenset[str]
    spans: tuple[tuple[str, str], ...]
    begins: re.Pattern[str]
    functions: Mapping[str, Callable[[Node, Place, Sequence[str]], Function | None]]
    comments: frozenset[str] = COMMENTS
    whole: Callable[[], Language] | None = None
    wrappers: frozenset[str] = frozenset()
    bodies: frozenset[str] = frozenset()
    is_prose: Callable[[Node], bool] = lambda _: False
    block_openings: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()
    brackets: Mapping[str, str] = BRACKETS
    body: Mapping[str, str] = MappingProxyType({})
    finishes: Mapping[str, str] = MappingProxyType({})
    heads: Mapping[str, str] = MappingProxyType({})
    marks: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    tags: bool = False
    braces_below: bool = False
    opaque: frozenset[str] = frozenset()
    macros: bool = False
    gaps: Gaps = Gaps()
    misplaced: Callable[[str, str, str], bool] | None = None


def grammar_of(package: str, name: str = "language") -> Callable[[], Language]:
    """Loads a grammar when it is called: seldom are all of them needed. name: of the function of the package
    that gives it."""

    @functools.cache
    def load() -> Language:
        from tree_sitter import Language

        return Language(getattr(import_module(package), name)())

    return load


def last_row(node: Node) -> int:
    """The last row that a node has text on. Some comments hold the end of their line."""
    start, end = node.start_point, node.end_point
    return end.row - 1 if end.row > start.row and not end.column else end.row


def begins_line(node: Node, lines: Sequence[str]) -> bool:
    """Whether a node has nothing but white space before it on its line."""
    line, column = lines[node.start_point.row], node.start_point.column
    # Columns count bytes; they only need to be right if there is nothing else. A line may hold thousands of
    # comments: it is read to its first word.
    blank = _BLANK.match(line, 0, column)
    return blank is not None and blank.end() >= min(column, len(line))


def stands_alone(node: Node, lines: Sequence[str]) -> bool:
    """Whether the lines of a node hold nothing else."""
    row = last_row(node)
    if not begins_line(node, lines):
        return False
    if row != node.end_point.row or row >= len(lines):
        return True
    return not lines[row].encode("utf-8", "replace")[node.end_point.column :].strip()
