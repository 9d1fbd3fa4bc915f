"""Brackets of a line and of the lines above it, without a grammar. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPENING = {")": "(", "]": "[", "}": "{"}
_CLOSING = {opening: closing for closing, opening in _OPENING.items()}
_QUOTES = "\"'`"
# What is escaped outside of a string is taken with its backslash: else a line of escaped quotes, as of JSON
# in a string, would be read to its end from each of them.
_STRING = re.compile(r"(\\.)|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
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


def up_to_the_closer_behind(text: str, before: str, after: str, above: Sequence[str]) -> str:
    """`text` up to the bracket with which it closes what the text behind it closes; else `text` itself.

    Editors close brackets as they are opened: between those of `def f()` a model that does not see what
    stands behind the cursor writes `self, x):`. A comment does not end the line here: it would hide what
    stands behind. A line that is out of order without the text is left alone. The parameters are those of
    `without_surplus_closers`.
    """
    closer = after.lstrip()[:1]
    if closer not in _OPENING:
        return text
    at = _first_unmatched(text)
    if at is None or text[at] != closer:
        return text
    open_above: list[str] = []
    for line in above:
        _unmatched(line, open_above)
    if _count_unmatched(_without_strings(before + after), open_above.copy()):
        return text
    return text[:at] if _count_unmatched(_without_strings(before + text + after), open_above) else text


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


def closed_by_editors(typed: str) -> str:
    """The closers of what a typed text leaves open, as editors add them behind the cursor.

    >>> closed_by_editors("f(x[") + closed_by_editors('print("') + closed_by_editors("f(x)")
    '])")'
    """
    open_: list[str] = []
    for char in _without_strings(typed):
        if char in _CLOSING:
            open_.append(_CLOSING[char])
        elif open_ and char == open_[-1]:
            open_.pop()
        elif char in _QUOTES:
            open_.append(char)
    return "".join(reversed(open_))


def _first_unmatched(text: str) -> int | None:
    """The place of the first closer that has no opener before it in the text; None if there is none."""
    open_: list[str] = []
    for at, char in enumerate(_STRING.sub(lambda found: found[1] or " " * len(found[0]), text)):
        if char in _CLOSING:
            open_.append(char)
        elif char in _OPENING and (not open_ or open_.pop() != _OPENING[char]):
            return at
    return None


def _without_strings(line: str) -> str:
    return _STRING.sub(lambda found: found[1] or "", line)


def _unmatched(line: str, open_: list[str]) -> int:
    """How many closers of a line match no opener; `open_` becomes the brackets open after it."""
    return _count_unmatched(_COMMENT.split(_without_strings(line), maxsplit=1)[0], open_)


def _count_unmatched(text: str, open_: list[str]) -> int:
    """As `_unmatched`, with what is in strings and comments."""
    found = 0
    for char in text:
        if char in _OPENING.values():
            open_.append(char)
        elif char in _OPENING:
            if open_ and open_[-1] == _OPENING[char]:
                open_.pop()
            else:
                found += 1
    return found
