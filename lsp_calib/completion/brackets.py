"""Brackets of a line and of the lines above it, without a grammar. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPENING = {")": "(", "]": "[", "}": "{"}
_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
# Of most languages. Where one means something else (`//` in Python), what follows on its line is not seen,
# and a bracket may pass for open that is closed: then nothing is called surplus.
_COMMENT = re.compile(r"#|//")
LINES_ABOVE = 200
"""A bracket seldom stays open over more lines."""


def without_surplus_closers(text: str, before: str, after: str, above: Sequence[str]) -> str:
    """`text` without closing brackets at its end that close nothing; `text` itself if there are none.

    before, after: the line around the text. above: the lines above it, the last `LINES_ABOVE` are
    enough. Brackets in strings that end on their
    line, and in comments, do not count. Only what makes the line's closers match is cut: a line that is out
    of order without the text, or because of a closer in the middle of it, is left alone.
    """
    if not text or text[-1] not in _OPENING or not _unmatched(before + text + after, []):
        return text
    open_above: list[str] = []
    for line in above:
        _unmatched(line, open_above)
    if _unmatched(before + after, open_above.copy()):
        return text
    cut = text
    while cut and cut[-1] in _OPENING and _unmatched(before + cut + after, open_above.copy()):
        cut = cut[:-1].rstrip()
    return text if _unmatched(before + cut + after, open_above.copy()) else cut


def is_balanced(text: str) -> bool:
    """Whether each closing bracket has its opening one within `text`, rather than before it."""
    open_: list[str] = []
    for char in text:
        if char in _OPENING.values():
            open_.append(char)
        elif char in _OPENING and (not open_ or open_.pop() != _OPENING[char]):
            return False
    return True


def has_closer(text: str) -> bool:
    """Whether there is a closing bracket in `text`."""
    return not _OPENING.keys().isdisjoint(text)


def _unmatched(line: str, open_: list[str]) -> int:
    """How many closers of a line match no opener; `open_` becomes the brackets open after it."""
    found = 0
    for char in _COMMENT.split(_STRING.sub("", line), maxsplit=1)[0]:
        if char in _OPENING.values():
            open_.append(char)
        elif char in _OPENING:
            if open_ and open_[-1] == _OPENING[char]:
                open_.pop()
            else:
                found += 1
    return found
