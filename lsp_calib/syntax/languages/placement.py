"""Where each language's own tool looks for the documentation of a function, one row a language.

Tried with the tools named here; comments that the tools show but that are for other tools are left out before
(`tool_comments`). Python's docstrings are in its own module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import attrs

_ANY = 1_000_000


@attrs.frozen
class Placement:
    """tool: that was tried. blank_lines: how many may stand between documentation and function.

    shown: what the comments begin with that the tool shows, where others are taken for documentation too:
        only these are joined or stand above a blank line. joins: whether the tool shows all comments above a
        function together, rather than the nearest block.
    within: which comments in a definition the tool shows: "equals", between a name and its function, and
        "words", before the body, both if none stands above; "wins", before the parameters, rather than those
        above; "body", at its beginning, if none stands above; "", none.
    hidden: the comments between which the tool shows nothing.
    hiding: types of nodes above a function below which the tool looks for nothing.
    """

    tool: str
    blank_lines: int = 0
    shown: re.Pattern[str] = re.compile("")
    joins: bool = False
    within: str = ""
    hidden: tuple[str, ...] = ()
    hiding: frozenset[str] = frozenset()


_DOXYGEN = Placement(
    "Doxygen 1.9.4", _ANY, re.compile(r"/\*[*!](?![*/<])|//[/!](?![/<])"), joins=True, within="words"
)
_TYPESCRIPT = Placement("TypeScript 5.9.3, quick info", _ANY, within="equals")

PLACEMENTS: Mapping[str, Placement] = MappingProxyType(
    {
        "c": _DOXYGEN,
        "csharp": Placement("none was tried across blank lines"),
        "go": Placement("go doc of Go 1.27.3 and 1.19.8", joins=True),
        "java": Placement("javadoc of JDK 25.0.3", _ANY),
        "javascript": _TYPESCRIPT,
        "php": Placement("getDocComment of PHP 8.2.36", _ANY, within="wins"),
        # YARD shows nothing above two blank lines, RDoc does.
        "ruby": Placement("RDoc 7.0.3, YARD 0.9.28", 1, hidden=("#--", "#++")),
        "rust": Placement("rustdoc 1.95.0", _ANY, joins=True, within="body"),
        "typescript": attrs.evolve(_TYPESCRIPT, hiding=frozenset({"decorator"})),
    }
)

# Documentation of something else, or of the file, which no function has that stands further below.
_OF_ANOTHER = re.compile(
    r"[@\\](?:addtogroup|callback|class|defgroup|dir|file|fileoverview|mainpage|module|name|namespace|overview"
    r"|package|packageDocumentation|page|struct|typedef)\b|[@\\][{}]"
)


def reaches(placement: Placement, comment: str, blank_lines: int) -> bool:
    """Whether a comment can document what stands below it behind some blank lines."""
    if not blank_lines:
        return True
    return placement.shown.match(comment) is not None and _OF_ANOTHER.search(comment) is None


def goes_along(placement: Placement, comment: str, below: str) -> bool:
    """Whether a comment belongs to the documentation that stands right below it."""
    if below.startswith("/*"):
        return placement.joins and all(map(placement.shown.match, (comment, below)))
    return placement.joins or not comment.startswith("/*")
