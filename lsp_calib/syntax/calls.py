"""Calls, by the text of a line alone."""

from __future__ import annotations

import re

_CALL = re.compile(r"(?<![\w$])([^\W\d][\w$]*)\s*\(")
# What may stand before the dot of a call to a method of the same object.
_OWN = re.compile(r"(?:^|[^\w$.])(?:self|cls|this|Self|super\(\))\s*(?:\.|->|::)\s*$")
_OTHER = re.compile(r"(?:\.|->|::)\s*$")


def called_name(text: str, column: int) -> tuple[str, tuple[int, int]] | None:
    """The name that is called at a column of a line, and its (start, end), in code points; None if none is.

    A method counts only if it is called on its own object: `items.append(` is not the `append` of this file.
    """
    for call in _CALL.finditer(text):
        start, end = call.span(1)
        if start <= column <= end:
            before = text[:start]
            return None if _OTHER.search(before) and not _OWN.search(before) else (call[1], (start, end))
    return None
