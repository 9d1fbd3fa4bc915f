"""What has to be known of a language beyond its grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tree_sitter import Language

Path = Sequence[tuple[str, str | None]]
"""A node and what holds it, the outermost first: the type of each, and the field of its parent it is in."""


@attrs.frozen
class LanguageRules:
    """A grammar, and the meaning of its nodes.

    grammar: loads it. names: types of the leaves that are names. comments: types of comments.
    binds: whether the name at the end of a path is bound there, rather than used. known: names that need no
        binding: keywords, builtins.
    block_openings: the tokens after which a deeper line must follow; empty if indentation means nothing.
    blocks: types of nodes that hold whole lines: statements with a block, their clauses, the file.
    long_quotes: those of strings of several lines.
    begins: matches a line with which a statement of the outermost level begins.
    """

    grammar: Callable[[], Language]
    names: frozenset[str]
    comments: frozenset[str]
    binds: Callable[[Path], bool]
    known: frozenset[str]
    block_openings: frozenset[str]
    blocks: frozenset[str]
    long_quotes: tuple[str, ...]
    begins: re.Pattern[str]
