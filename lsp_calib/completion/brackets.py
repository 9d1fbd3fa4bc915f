"""Brackets of a line and of the lines above it, without a grammar. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lsp_calib.languages import family_of

_OPENING = {")": "(", "]": "[", "}": "{"}
_CLOSING = {opening: closing for closing, opening in _OPENING.items()}
_BRACKET = re.compile(r"[()\[\]{}]")
_QUOTES = "\"'`"
# What is escaped outside of a string is taken with its backslash: else a line of escaped quotes, as of JSON
# in a string, would be read to its end from each of them.
_STRING = re.compile(r"(\\.)|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
# In Rust an apostrophe also begins a lifetime.
_RUST_STRING = re.compile(r"(\\.)|'(?:\\.[^']*|[^'\\])'|\"(?:\\.|[^\"\\])*\"")
_SLASHES = re.compile(r"//")
# What begins a comment that ends with its line. The mark of another language may be code: `this.#items = [`
# in JavaScript, `a // max(` in Python. Taken for a comment it hides an opener, whose closer seems surplus.
_COMMENTS = MappingProxyType(
    {
        **dict.fromkeys(("c", "cpp", "csharp", "go", "java", "javascript", "rust", "typescript"), _SLASHES),
        **dict.fromkeys(("python", "ruby"), re.compile("#")),
        "php": re.compile(r"#(?!\[)|//"),  # `#[` begins an attribute
    }
)
LINES_ABOVE = 2000
"""So many are read at most. What opens a bracket may stand above them: a class ends far below its name."""


def without_surplus_closers(
    text: str, before: str, after: str, above: Sequence[str], language: str, *, more_above: bool = False
) -> str:
    """`text` without closing brackets at its end that close nothing; `text` itself if there are none.

    before, after: the line around the text. above: the lines above it. more_above: whether there are others
    above these, in which any bracket may be opened that is closed here: then nothing is cut.
    Brackets in strings that end on their line, and in comments, do not count. Only what makes the line's
    closers match is cut: a line that is out of order without the text, or because of a closer in the middle
    of it, is left alone; so is one in a language whose comments are not known, where a closer may even need
    no opener (`start)` in a shell's `case`), or where the text ends within a string.
    """
    if more_above or family_of(language) not in _COMMENTS or not text or text[-1] not in _OPENING:
        return text
    if not _surplus(_code(before + text + after, language), {}) or _in_string(before + text, language):
        return text
    open_above = Counter(_open_above(above, language))
    if _surplus(_code(before + after, language), open_above):
        return text
    cut = text
    while cut and cut[-1] in _OPENING and _surplus(_code(before + cut + after, language), open_above):
        cut = cut[:-1].rstrip()
    return text if _surplus(_code(before + cut + after, language), open_above) else cut


def up_to_the_closer_behind(text: str, before: str, after: str, above: Sequence[str], language: str) -> str:
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
    open_above = _open_above(above, language)
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


def is_closers(text: str) -> bool:
    """Whether a text is closing brackets alone."""
    return bool(text.strip()) and _OPENING.keys() >= set("".join(text.split()))


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


def _code(line: str, language: str) -> str:
    """A line without what is in strings and comments; of a language that is not known, comments stay."""
    family = family_of(language)
    # A space for a string: what stands around it is not to become a comment mark. What is escaped outside of
    # one, as in a regular expression, is no bracket.
    without = (_RUST_STRING if family == "rust" else _STRING).sub(" ", line)
    comment = _COMMENTS.get(family)
    return comment.split(without, maxsplit=1)[0] if comment is not None else without


def _in_string(before: str, language: str) -> bool:
    """Whether what follows on a line seems to stand in a string."""
    code = _code(before, language)
    return '"' in code or (language != "rust" and "'" in code) or code.count("`") % 2 == 1


def _open_above(above: Sequence[str], language: str) -> list[str]:
    """The brackets that lines leave open."""
    open_: list[str] = []
    for line in above:
        if _BRACKET.search(line):
            _count_unmatched(_BRACKET.findall(_code(line, language)), open_)
    return open_


def _surplus(code: str, open_above: Mapping[str, int]) -> int:
    """How many closers of a line close nothing: neither a bracket of this line, in order, nor one above.

    open_above: how many of each bracket are open there. Their order does not count: what seems open in the
    text of a long string or of a comment hides none of them.
    """
    open_, above = list[str](), Counter(open_above)
    found = 0
    for char in _BRACKET.findall(code):
        if char in _CLOSING:
            open_.append(char)
        elif open_ and open_[-1] == _OPENING[char]:
            open_.pop()
        elif not open_ and above[_OPENING[char]]:
            above[_OPENING[char]] -= 1
        else:
            found += 1
    return found


def _count_unmatched(text: Iterable[str], open_: list[str]) -> int:
    """How many closers of a line match no opener, in order; `open_` becomes the brackets open after it."""
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
