"""What languages with braces have in common: documentation stands in comments above a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from lsp_calib.characters import indentation_of
from lsp_calib.syntax.languages.tool_comments import is_for_tool, without_licences
from lsp_calib.syntax.rules import (
    COMMENTS,
    Fields,
    Function,
    Path,
    Place,
    begins_line,
    last_row,
    words,
)

if TYPE_CHECKING:
    from tree_sitter import Node

COMMENT = ("/*", "*/")
# Comments above a definition that are looked at: no documentation is longer, and a file may hold them alone.
_FARTHEST = 1000
# What a function may be wrapped in on its way to the name that it is bound to.
_AROUND = words(
    """
        argument arguments as_expression call_expression non_null_expression parenthesized_expression
        satisfies_expression
    """
)


def binding(
    within: frozenset[str],
    bindings: Fields,
    wrappings: Fields = frozenset(),
) -> Callable[[Path], bool]:
    """Whether the name at the end of a path is bound.

    within: types of nodes that bind all names in them: imports. bindings: type of a node, and the field of it
    that binds (None: what no field holds). wrappings: the same, of what a name to be bound may be wrapped in.
    Parameters are not among them: their names are as hard to guess as those that a line uses.
    """

    def binds(path: Path) -> bool:
        if any(kind in within for kind, _ in path):
            return True
        for at in range(len(path) - 1, 0, -1):
            held = path[at - 1][0], path[at][1]
            if held in bindings:
                return True
            if held not in wrappings:
                return False
        return False

    return binds


@attrs.frozen
class Parts:
    """A definition taken apart. holder: the node whose child the body is."""

    name: str
    holder: Node
    body: Node


def parts(node: Node) -> Parts | None:
    """Of a node that has the fields "name" and "body"; None without a body."""
    body = node.child_by_field_name("body")
    return None if body is None else Parts(text_of(node.child_by_field_name("name")), node, body)


# Functions without a name, in any of the languages.
_UNNAMED = words(
    "anonymous_function arrow_function function function_expression generator_function lambda_expression"
)


def bound(
    name: str, value: str, inside: Callable[[Node], Node] = lambda value: value
) -> Callable[[Node], Parts | None]:
    """Takes apart what binds a function to a name: the fields of the name and of the function.

    inside: the function that such a value wraps; the value itself if it wraps none.
    """

    def take_apart(node: Node) -> Parts | None:
        function = node.child_by_field_name(value)
        function = function and inside(function)
        found = parts(function) if function is not None and function.type in _UNNAMED else None
        return found and attrs.evolve(found, name=text_of(node.child_by_field_name(name)))

    return take_apart


# Where each language's own tool looks for the documentation of a function, one row a language: tried with
# the tools named here. Comments that the tools show but that are for other tools are left out before.

_ANY = 1_000_000


# Text between documentation and what it documents that is longer belongs to neither.
_MOST_BETWEEN = 10_000


@attrs.frozen
class Placement:
    """tool: that was tried. blank_lines: how many may stand between documentation and function.

    shown: what the comments begin with that the tool shows among the words of a definition. joins: whether
        the tool shows all comments above a function together, rather than the nearest block.
    within: which comments in a definition the tool shows: "equals", between a name and its function, before
        those above; "wins", before the parameters, rather than those above; if none stands above "words",
        before the body, "line", on its first line, and "body", at the beginning of that; "", none.
    hidden: the comments between which the tool shows nothing.
    past: by the type of a node, what it has to match for the tool to look above it. climbs: types of blocks
        whose first function may be documented above the block.
    hiding: the same as `past`, for what stands above a function and hides all that is below it.
    behind: whether comments behind other code document what stands below them. apart: whether the tools
        differ on where documentation stands if a comment is behind what is in `past`.
    after: what a comment begins with that documents what stands before it. own_line: whether a comment has to
        end above the line of the function.
    elsewhere: what a comment holds that documents something else, even right above a function. parts: types
        of nodes whose comments stand as if these nodes were not there. unseen: types of blocks in which the
        tool sees no function.
    """

    tool: str
    blank_lines: int = 0
    shown: re.Pattern[str] = re.compile("")
    joins: bool = False
    within: str = ""
    hidden: tuple[str, ...] = ()
    past: Mapping[str, re.Pattern[str]] = MappingProxyType({})
    climbs: frozenset[str] = frozenset()
    hiding: Mapping[str, re.Pattern[str]] = MappingProxyType({})
    behind: bool = False
    apart: bool = False
    after: re.Pattern[str] = re.compile("(?!)")
    own_line: bool = False
    elsewhere: re.Pattern[str] = re.compile("(?!)")
    parts: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()


_ANYTHING = re.compile("")
# PHP's comment waits for the next function, class, property or constant, up to a closing brace.
_NO_DECLARATION = re.compile(r"(?s)(?!.*(?:\}|\b(?:class|fn|function)\b|/\*\*\s))")
_PHP_STATEMENTS = """
    { ( ) ; : if parenthesized_expression while
    echo_statement empty_statement expression_statement for_statement foreach_statement
    function_static_declaration global_declaration if_statement namespace_definition
    namespace_use_declaration php_tag text_interpolation unset_statement use_declaration while_statement
"""
# RDoc looks above these, YARD below.
_VISIBILITY = re.compile(
    r"(?:module_function|private|private_class_method|protected|public|public_class_method)(?:[ (]:|$)"
)
# Macros alone, of which the grammar makes a statement without a semicolon, with the comments behind them.
_MACRO = re.compile(r"[A-Z_][A-Z0-9_]*(?:[\s(][^;{}/]*)?(?:$|/[/*])")
# A line for the compiler; `once` is of the file.
_PRAGMA = re.compile(r"#\s*pragma\s+(?!once\b)")

_DOXYGEN = Placement(
    "Doxygen 1.9.4",
    _ANY,
    joins=True,
    within="words",
    past=MappingProxyType(
        {
            **dict.fromkeys((":", ";", "{", "access_specifier", "preproc_include"), _ANYTHING),
            **dict.fromkeys(("ERROR", "declaration", "expression_statement", "field_declaration"), _MACRO),
            "preproc_call": _PRAGMA,
        }
    ),
    climbs=frozenset({"declaration_list"}),
    behind=True,
    after=re.compile(r"/\*[*!]<|//[/!]<"),
    elsewhere=re.compile(
        r"[@\\](?:addtogroup|defgroup|dir|file|mainpage|name|namespace|page|typedef|var)\b|[@\\][{}]"
    ),
    parts=frozenset({"preproc_if", "preproc_ifdef"}),
    unseen=frozenset({"compound_statement"}),
)
# Behind these words a line may end, and they belong to what follows: nothing below them is looked for.
_TYPESCRIPT = Placement(
    "TypeScript 5.9.3, quick info",
    _ANY,
    within="equals",
    hiding=MappingProxyType(
        {
            "expression_statement": re.compile(r"export$"),
            "field_definition": re.compile(r"static$"),
            "public_field_definition": re.compile(r"static$"),
        }
    ),
)

PLACEMENTS: Mapping[str, Placement] = MappingProxyType(
    {
        "c": _DOXYGEN,
        "csharp": Placement(
            "none was tried across blank lines", past=MappingProxyType({"preproc_pragma": _PRAGMA})
        ),
        "go": Placement("go doc of Go 1.27.3 and 1.19.8", joins=True, own_line=True),
        "java": Placement("javadoc of JDK 25.0.3", _ANY, behind=True),
        "javascript": _TYPESCRIPT,
        "php": Placement(
            "getDocComment of PHP 8.2.36",
            _ANY,
            within="wins",
            past=MappingProxyType(dict.fromkeys(_PHP_STATEMENTS.split(), _NO_DECLARATION)),
            climbs=frozenset({"colon_block", "compound_statement", "if_statement"}),
            behind=True,
        ),
        "ruby": Placement(
            "RDoc 7.0.3 and 6.4.1.1, YARD 0.9.28",
            _ANY,
            within="line",
            hidden=("#--", "#++"),
            past=MappingProxyType({"call": _VISIBILITY, "identifier": _VISIBILITY}),
            climbs=frozenset({"block_body", "body_statement", "then"}),
            apart=True,
        ),
        "rust": Placement("rustdoc 1.95.0", _ANY, joins=True, within="body"),
        "typescript": attrs.evolve(
            _TYPESCRIPT, hiding=MappingProxyType({**_TYPESCRIPT.hiding, "decorator": _ANYTHING})
        ),
    }
)

# Documentation of something else, or of the file, which no function has that stands further below.
_OF_ANOTHER = re.compile(
    r"[@\\](?:addtogroup|callback|class|defgroup|dir|file|fileoverview|mainpage|module|name|namespace|overview"
    r"|package|packageDocumentation|page|struct|typedef)\b|[@\\][{}]"
)


def is_of_another(comment: str) -> bool:
    """Whether a comment says that it documents something else than what stands below it."""
    return _OF_ANOTHER.search(comment) is not None


def matches(node: Node, patterns: Mapping[str, re.Pattern[str]]) -> bool:
    """Whether a node is among those of a row of a placement."""
    pattern = patterns.get(node.type)
    if pattern is None or node.end_byte - node.start_byte > _MOST_BETWEEN:
        return False
    return pattern.match((node.text or b"").decode("utf-8", "replace").rstrip("\r\n")) is not None


def goes_along(placement: Placement, comment: str, below: str) -> bool:
    """Whether a comment belongs to the documentation that stands right below it."""
    return placement.joins or not (comment.startswith("/*") or below.startswith("/*"))


@attrs.frozen
class Finder:
    """Makes functions of the nodes of a tree.

    language: whose comments for tools are none. parts: takes a definition of each type of node apart, None if
        it is none.
    documents: whether any other comment is documentation, by its text. comments: types of comments.
    between: types of what may stand between documentation and definition, or before its first word:
        annotations, attributes.
    signatures: types of overloads, which stand above the definition that they share: what is said of the
        first one is its documentation; if there is one alone, also what is said of the definition.
    inner: what documentation in a body begins with.
    expressions: types of functions that are values, and may be bound to another name than their own.
    """

    language: str
    parts: Mapping[str, Callable[[Node], Parts | None]]
    documents: Callable[[str], bool]
    comments: frozenset[str] = COMMENTS
    between: frozenset[str] = frozenset()
    signatures: frozenset[str] = frozenset()
    inner: re.Pattern[str] = re.compile("(?!)")
    expressions: frozenset[str] = frozenset()

    @property
    def functions(self) -> Mapping[str, Callable[[Node, Place, Sequence[str]], Function | None]]:
        """As of `LanguageRules`."""
        return dict.fromkeys(self.parts, self._function)

    def _function(self, node: Node, place: Place, lines: Sequence[str]) -> Function | None:
        found = self.parts[node.type](node)
        if found is None or (node.type in self.expressions and self._is_bound(found, place)):
            return None
        first_one, overloads = self._first_overload(place, found.name)
        head = self._head(first_one.node)
        start, end = head.start_point.row, last_row(node) + 1
        placement = PLACEMENTS[self.language]
        is_seen = place.outer is None or place.outer.node.type not in placement.unseen
        above = self._documentation(first_one, lines) if is_seen else []
        if not above and overloads == 1:
            above = self._documentation(place, lines)
        within = self._within(node, place, found) if is_seen else []
        within = [one for one in within if one not in above]
        shown = placement.within
        if above and shown not in ("equals", "wins"):
            within = []
        behind = self._behind(place)
        # TypeScript shows what stands behind the equals sign first, and then what stands above.
        documentation = behind + (above + within if shown == "equals" else within or above)
        rows = above if shown == "equals" and above else within or above or behind
        said = self._rows_of_documentation(place.siblings[first_one.index : place.index], lines)
        text = {row: line for row, line in enumerate(lines[start:end], start) if row not in said}
        for one in behind + within:
            _cut(one, text)
        kept = list(text.values())
        if above and above[0].end_point.row >= start:
            line = lines[start]
            kept[0] = indentation_of(line) + _decoded(
                line.encode("utf-8", "replace")[head.start_point.column :]
            )
        first = found.body.start_point.row
        opens = _opens(found.body)
        return Function(
            name=found.name,
            start=start,
            body=first + (opens and first + 1 < end),
            end=end,
            signature_end=(first if opens else self._row_before(found)) + 1,
            docstring="\n".join(text_of(one) for one in reversed(documentation)) or None,
            code="\n".join(kept),
            documented=(rows[-1].start_point.row, last_row(rows[0]) + 1) if rows else None,
            has_place=is_seen and self._has_place(first_one, lines),
        )

    def _is_bound(self, found: Parts, place: Place) -> bool:
        """Whether a function has a name besides its own."""
        holder = place.outer
        while holder is not None and holder.node.type in _AROUND:
            holder = holder.outer
        take_apart = self.parts.get(holder.node.type) if holder is not None else None
        named = take_apart(holder.node) if holder is not None and take_apart is not None else None
        return named is not None and named.body == found.body

    def _first_overload(self, place: Place, name: str) -> tuple[Place, int]:
        """Where the overloads of a definition begin, and how many they are; its own place if it has none."""
        first, overloads = place.index, 0
        for at in range(place.index - 1, -1, -1) if self.signatures else ():
            node = place.siblings[at]
            if node.type == ";" or node.type in self.comments:
                continue
            overload = next((one for one in (node, *node.children) if one.type in self.signatures), None)
            if overload is None or text_of(overload.child_by_field_name("name")) != name:
                break
            first, overloads = at, overloads + 1
        return attrs.evolve(place, index=first), overloads

    def _rows_of_documentation(self, nodes: Sequence[Node], lines: Sequence[str]) -> set[int]:
        """The rows of comments that document, among overloads."""
        documenting = (
            one
            for one in nodes
            if one.type in self.comments and self._says(text_of(one)) and begins_line(one, lines)
        )
        return {row for one in documenting for row in range(one.start_point.row, last_row(one) + 1)}

    def _head(self, node: Node) -> Node:
        """The first part of a definition that is no annotation."""
        parts = (
            one
            for child in node.children
            for one in (child.children if child.type == "modifiers" and child.children else (child,))
        )
        return next((one for one in parts if one.type not in self.between | self.comments), node)

    def _row_before(self, found: Parts) -> int:
        """The row where what is before the body ends, comments aside."""
        row = found.holder.start_point.row
        for child in found.holder.children:
            if child.start_byte >= found.body.start_byte:
                break
            if child.type not in self.comments:
                row = child.end_point.row
        return row

    def _documentation(self, place: Place, lines: Sequence[str]) -> list[Node]:
        """The comments above a definition that document it, the nearest first."""
        placement = PLACEMENTS[self.language]
        found: list[Node] = []
        # Empty comments below the one looked at, between paragraphs perhaps, and the numbers of a sentence.
        blank: list[Node] = []
        run: list[Node | None] = []  # None: a blank line, where a licence's text ends
        shown = 0
        top = self._below_which_nothing_is_shown(place)
        below = place.siblings[top].start_point.row
        for node, previous in islice(self._above(place, top), _FARTHEST):
            is_comment = node.type in self.comments
            if is_comment and placement.apart and self._is_behind(node, previous, lines):
                continue
            if is_comment or node.type in self.between:
                text = text_of(node)
                says = self.documents(text)
            if is_comment or (node.type in self.between and says):
                blank_lines = max(below - last_row(node) - 1, 0)
                # Comments for tools are text to the tools that show each comment.
                is_next_to = found or (run and self.documents is has_words)
                if blank_lines > (0 if is_next_to and not placement.joins else placement.blank_lines):
                    break
                if not self._stands_apart(node, previous, lines) or (
                    placement.own_line and last_row(node) == below
                ):
                    break
                for_tool = is_for_tool(text, self.language)
                if says and not for_tool and (blank_lines or found) and is_of_another(text):
                    break
                if placement.elsewhere.search(text):
                    break
                run += [None, node] if run and blank_lines else [node]
                if text.strip() in placement.hidden:
                    # From here on down to the mark that ends what is hidden.
                    if text.strip() == placement.hidden[0]:
                        del found[shown:]
                    shown, blank = len(found), []
                elif for_tool:
                    pass
                elif says:
                    if found and not goes_along(placement, text, text_of(found[-1])):
                        break
                    found += [*blank, node]
                    blank = []
                elif _is_number(text) or (
                    found and (self.documents is has_words or not text.strip("/#*! \t"))
                ):
                    blank.append(node)
                elif found and not placement.joins:
                    break
            elif node.type not in self.between and (
                (found and not placement.joins) or not matches(node, placement.past)
            ):
                break
            below = node.start_point.row
        others = without_licences([text_of(one) for one in reversed(run)], self.language)
        kept = {one.start_byte for one, keep in zip(run, reversed(others), strict=True) if keep and one}
        found = [one for one in found if one.start_byte in kept]
        while found and not has_words(text_of(found[-1])):
            found.pop()
        return found

    def _above(self, place: Place, top: int) -> Iterator[tuple[Node, Node | None]]:
        """What stands above a definition, the nearest first, each with what stands before it."""
        placement = PLACEMENTS[self.language]
        while True:
            for at in range(top - 1, -1, -1):
                node = place.siblings[at]
                if node.type in placement.parts and (alone := self._comments_alone(node)):
                    yield from alone
                    continue
                if node.has_error and matches(node, placement.past):
                    held = node.children
                    yield from (
                        (held[n], held[n - 1])
                        for n in range(len(held) - 1, 0, -1)
                        if held[n].type in self.comments
                    )
                yield node, place.siblings[at - 1] if at else None
            holder = place.outer
            while holder is not None and holder.siblings is place.siblings:  # a wrapper
                holder = holder.outer
            if holder is None or holder.node.type not in placement.climbs:
                return
            place = holder.place
            top = place.index

    def _comments_alone(self, node: Node) -> list[tuple[Node, Node | None]]:
        """The comments of a node that holds nothing else besides its first name, from below; else none."""
        comments = [one for one in node.children if one.type in self.comments]
        others = [one for one in node.named_children[1:] if one.type not in self.comments]
        return [] if others else [(one, None) for one in reversed(comments)]

    def _stands_apart(self, comment: Node, previous: Node | None, lines: Sequence[str]) -> bool:
        """Whether a comment may document what is below it, rather than belong to what is before it on its
        line."""
        if begins_line(comment, lines):
            return True
        placement = PLACEMENTS[self.language]
        return placement.behind or (previous is not None and previous.type in self.comments)

    def _has_place(self, place: Place, lines: Sequence[str]) -> bool:
        """Whether documentation can stand on lines of its own above a definition, for each of the tools."""
        placement = PLACEMENTS[self.language]
        top = self._below_which_nothing_is_shown(place)
        for at in range(top, max(top - _FARTHEST, -1), -1):
            node = place.siblings[at]
            if begins_line(node, lines):
                break
            previous = place.siblings[at - 1] if at else None
            if previous is None or not (
                (previous.type in self.comments and not placement.own_line)
                or previous.type in self.between
                or matches(previous, placement.past)
            ):
                return False
        if not placement.apart or top < 2:
            return True
        return not self._is_behind(place.siblings[top - 1], place.siblings[top - 2], lines)

    def _is_behind(self, node: Node, previous: Node | None, lines: Sequence[str]) -> bool:
        """Whether a node is a comment behind what is in `past`."""
        if node.type not in self.comments or previous is None or begins_line(node, lines):
            return False
        return matches(previous, PLACEMENTS[self.language].past)

    def _within(self, node: Node, place: Place, found: Parts) -> list[Node]:
        """The comments that document a definition among its own words, if the tool looks there: the last one,
        or those that its body begins with, the nearest to its end first."""
        placement = PLACEMENTS[self.language]
        if placement.within == "body":
            kinds = self.comments | {"inner_attribute_item"}
            inner = takewhile(lambda one: one.type in kinds, found.body.children[1:])
            return [one for one in inner if self.inner.match(text_of(one))][::-1]
        end = found.body.start_byte
        holders: Sequence[Node] = (place.node, node, found.holder)
        if placement.within == "wins":
            parameters = found.holder.child_by_field_name("parameters")
            end = parameters.start_byte if parameters else end
        elif placement.within == "equals":
            holders = (node,) if node != found.holder else ()
            if node.type in self.expressions:  # `return /** ... */ function f() {}`, or an argument
                holders, end = (place.outer.node,) if place.outer else (), node.start_byte
        elif placement.within == "line":
            parameters = found.holder.child_by_field_name("parameters")
            holders, end = (node, parameters or node), node.end_byte
        elif not placement.within:
            holders = ()
        comments = [
            one
            for holder in holders
            for one in holder.children
            if one.type in self.comments and one.start_byte < end
        ]
        if placement.within == "line":
            comments += place.siblings[place.index + 1 : place.index + 2]
            row = node.start_point.row
            comments = [one for one in comments if one.type in self.comments and one.start_point.row == row]
            return [one for one in comments if self._says(text_of(one))][:1]
        said = [one for one in comments if self._says(shown := text_of(one)) and placement.shown.match(shown)]
        return sorted(said, key=lambda one: one.start_byte)[-1:]

    def _behind(self, place: Place) -> list[Node]:
        """The comments behind a definition that document it, the nearest to the end of the file first."""
        after = PLACEMENTS[self.language].after
        behind = islice(place.siblings, place.index + 1, place.index + _FARTHEST)
        comments = takewhile(lambda one: one.type in self.comments and after.match(text_of(one)), behind)
        return [one for one in comments if not is_for_tool(text_of(one), self.language)][::-1]

    def _below_which_nothing_is_shown(self, place: Place) -> int:
        """The index of the first of the nodes that hide what is below them; of the definition without one."""
        top, hiding = place.index, PLACEMENTS[self.language].hiding
        for at in range(place.index - 1, max(top - _FARTHEST, -1), -1) if hiding else ():
            if matches(place.siblings[at], hiding):
                top = at
            elif place.siblings[at].type not in self.comments:
                break
        return top

    def _says(self, comment: str) -> bool:
        """Whether a comment is documentation."""
        return self.documents(comment) and not is_for_tool(comment, self.language)


def _cut(comment: Node, text: dict[int, str]) -> None:
    """Take a comment out of the lines of a definition, by their rows."""
    first, last = comment.start_point, comment.end_point
    ended = last_row(comment) < last.row  # it holds the end of its line
    if first.row not in text or (last.row not in text and not ended):
        return
    before = text[first.row].encode("utf-8", "replace")[: first.column]
    behind = b"" if ended else text[last.row].encode("utf-8", "replace")[last.column :].lstrip()
    for row in range(first.row + 1, last_row(comment) + 1):
        text.pop(row, None)
    text[first.row] = _decoded(before + behind).rstrip()
    if not text[first.row]:
        del text[first.row]


def _is_number(comment: str) -> bool:
    """Whether a comment has numbers and no words: a line of a sentence, if one stands above it."""
    return any(map(str.isdigit, comment)) and not any(map(str.isalpha, comment))


def text_of(node: Node | None) -> str:
    """The text of a node without the end of its line; "" for none."""
    return "" if node is None or not node.text else _decoded(node.text).rstrip("\r\n")


def has_words(comment: str) -> bool:
    """Whether a comment says something: it is no line of dashes."""
    return any(letter.isalpha() for letter in comment)


def _opens(body: Node) -> bool:
    """Whether a body begins with its brace, rather than being one expression."""
    return bool(body.child_count) and body.children[0].type == "{"


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
