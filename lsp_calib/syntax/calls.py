"""Calls of functions that stand in the same file, by their names alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsp_calib.syntax.function import Function
from lsp_calib.syntax.functions import functions, has_grammar

_CALL = re.compile(r"(?<![\w$])([^\W\d][\w$]*)\s*\(")
# What may stand before the dot of a call to a method of the same object.
_OWN = re.compile(r"(?:^|[^\w$.])(?:self|cls|this|Self|super\(\))\s*(?:\.|->|::)\s*$")
_OTHER = re.compile(r"(?:\.|->|::)\s*$")


def called_function(
    lines: Sequence[str], line: int, column: int, language: str
) -> tuple[Function, tuple[int, int]] | None:
    """The function whose name is called at a place, and (start, end) of the name in code points of its line.

    line, column: from 0. None unless exactly one function of the file has the name: which of several is meant
    only the language's own server knows. For the same reason a method counts only if it is called on its own
    object: `items.append(` is not the `append` of this file.
    """
    if not has_grammar(language) or line >= len(lines):
        return None
    text = lines[line]
    for call in _CALL.finditer(text):
        start, end = call.span(1)
        if start <= column <= end:
            before = text[:start]
            if _OTHER.search(before) and not _OWN.search(before):
                return None
            named = [one for one in functions(lines, language) if one.name == call[1]]
            return (named[0], (start, end)) if len(named) == 1 else None
    return None
