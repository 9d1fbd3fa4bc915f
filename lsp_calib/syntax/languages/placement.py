"""Where each language's own tool looks for the documentation of a function, one row a language.

Tried with the tools named here; comments that the tools show but that are for other tools are left out before
(`tool_comments`). Python's docstrings are in its own module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tree_sitter import Node

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
