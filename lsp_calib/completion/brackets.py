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
# In a template literal, which may have expressions in it, and in a raw string of Go brackets are text too.
_STRINGS = MappingProxyType(
    {
        "rust": _RUST_STRING,
        "go": re.compile(rf"{_STRING.pattern}|`[^`]*`"),
        **dict.fromkeys(("javascript", "typescript"), re.compile(rf"{_STRING.pattern}|`(?:\\.|[^`\\])*`")),
    }
)
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
# The number or letter of a list: `1) first`, in a long string or in a comment over several lines. It closes
# nothing. Code seldom has a word behind such a bracket; where it has, one more seems open, and less is cut.
_LIST_MARK = re.compile(r"(?:^\s*(?:\*+\s*)?|(?:/\*+|[\"'`])\s*)(?:\d{1,2}|[A-Za-z])\)(?=\s+\w)")
# What may begin or end a string, and what stands for neither: an escaped quote, a character of Rust.
_STRING_MARK = re.compile(r"\\(?:.|$)|\"\"\"|'''|[\"'`]|#|//")
_RUST_MARK = re.compile(rf"'(?:\\.[^'\\]*|[^'\\])'|{_STRING_MARK.pattern}")
_LONG_STRINGS = frozenset(("csharp", "java", "python"))
# Of a string in which a quote or a backslash may mean something else: `@"..."` in C#, `r#"..."#` in Rust.
_OTHER_STRING = re.compile(r"[@#]\$?$|R$")
# What may stand before the quote that begins a string.
_STRING_PREFIX = re.compile(r"\b(?:[bfrtuBFRTUL]|[bfrtBFRT]{2}|u8)$")
_GENERICS = frozenset(("cpp", "csharp", "java", "rust", "typescript"))
# A list of types that is still open, and what may stand in one.
_OPEN_TYPES = re.compile(r"(?:\w|::|\btemplate )<[\w\s,.:?&*'\[\]]*$")
_TYPES = re.compile(r"[\w\s,.:?&*'|@()\[\]{}<>=-]*")
_ANGLE = re.compile(r"[-=]>|[<>]")
_FOR = re.compile(r"\bfor\s*\([^()]*$")
# In characters. What is open in a longer line, which is data, is not worth reading it for; nor in more lines
# above.
_LONGEST_READ = 100_000
_MOST_READ = 500_000
_CLOSERS = re.compile(r"[)\]]+")  # in braces a statement may end
# So many lines are read at most. What opens a bracket may stand above them: a class ends far below its name.
_LINES_ABOVE = 2000


def lines_above(lines: Sequence[str], line: int) -> Sequence[str]:
    """Those of the lines above a line in which its brackets are looked for: the nearest ones.

    >>> lines_above(["a(", "b"], 2), len(lines_above(["x" * 300_000] * 4, 4))
    (['a(', 'b'], 1)
    """
    above = lines[max(line - _LINES_ABOVE, 0) : line]
    left, first = _MOST_READ, len(above)
    while first and (left := left - len(above[first - 1])) >= 0:
        first -= 1
    return above[first:] if first else above


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
    if len(before) + len(after) > _LONGEST_READ:
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
    """`text` up to the bracket or quote with which it closes what the text behind it closes; else `text`.

    Editors close brackets and quotes as they are opened: between those of `def f()` a model that does not see
    what stands behind the cursor writes `self, x):`, and between those of `print("")` `Name:", name)`. A
    comment does not end the line at brackets: it would hide what stands behind. A line that is out of order
    without the text is left alone. The parameters are those of `without_surplus_closers`.
    """
    if after[:1] and after[0] in _QUOTES:
        return _up_to_quote(text, before, after, language)
    closer = after.lstrip()[:1]
    if closer == ">":
        return _up_to_angle(text, before, language)
    if closer not in _OPENING or len(before) + len(after) > _LONGEST_READ:
        return text
    at = _first_unmatched(text, language)
    if at is None or text[at] != closer:
        return text
    open_above = _open_above(above, language)
    if _count_unmatched(_without_strings(before + after, language), open_above.copy()):
        return text
    out_of_order = _count_unmatched(_without_strings(before + text + after, language), open_above)
    return text[:at].rstrip() if out_of_order else text


def without_end_behind(text: str, before: str, after: str) -> str:
    """`text` without its end that stands behind the closers of the rest as well; else `text` itself.

    Of `bar();` in `foo(|);` the bracket is the text's own, and what ends the statement is there already.

    >>> without_end_behind("bar();", "foo(", ");"), without_end_behind("x;", "f(", ");")
    ('bar()', 'x')
    """
    if len(before) + len(after) > _LONGEST_READ:
        return text
    closers = _CLOSERS.match(after)
    end = after[closers.end() :].rstrip() if closers else ""
    if closers is None or not end or has_closer(end) or not closed_by_editors(before).startswith(closers[0]):
        return text
    if end == ";" and _FOR.search(before):
        return text  # between its brackets semicolons are its own
    # Nothing but the end of a statement is known for one without the closer before it.
    if not text.endswith(end if end == ";" else closers[0][-1] + end):
        return text
    cut = text[: -len(end)].rstrip()
    return cut if is_balanced(cut) and not closed_by_editors(cut) else text


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


def is_own_closer(text: str, before: str, rest: str, language: str) -> bool:
    """Whether a text that ends with the rest of the line opens itself what it closes there.

    >>> is_own_closer("g(x)", "f(", ")", "c"), is_own_closer("x)", "f(", ")", "c")
    (True, False)
    """
    if not rest.strip(">") and _in_types(before, language):
        return _angles(text) == (None, 0)
    return has_closer(rest) and is_balanced(text)


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


def _up_to_quote(text: str, before: str, after: str, language: str) -> str:
    """`text` up to the quote that ends the string before it, if another one stands behind it for that.

    Not where the text opens a string anew for the quote behind: `a", "b` in `f("|")`. Nor in doubt: where an
    expression may stand in the string, or a quote is doubled, as languages do that escape it so.
    """
    if len(before) + len(after) > _LONGEST_READ:
        return text
    quote, start = _open_string(before, language)
    if not quote or not after.startswith(quote) or _open_string(before + text, language)[0] == quote:
        return text
    # Else it is no end that stands there, but the beginning of another string.
    if after[len(quote) : len(quote) + 1].isalnum() or _open_string(before + after, language)[0]:
        return text
    marks = _STRING_MARK.finditer(text)
    at = next((mark.start() for mark in marks if mark[0].startswith(quote)), len(text))
    within = before[start:] + text[:at]
    if within.count("{") > within.count("}") or text.startswith(quote, at + len(quote)):
        return text
    # Of a template: `<%= url("x") %>`.
    if any(within.count(start) > within.count(end) for start, end in (("<%", "%>"), ("<?", "?>"))):
        return text
    # What escapes in a shell or in Swift begins an expression with a bracket.
    if ("$(" in within or "\\(" in within) and within.count("(") > within.count(")"):
        return text
    return text[:at]


def _open_string(line: str, language: str) -> tuple[str, int]:
    """The quote of the string that is open at the end of a line, "" for none or in doubt, and where it
    begins."""
    family = family_of(language)
    comment = _COMMENTS.get(family)
    quote, start = "", 0
    for found in (_RUST_MARK if family == "rust" else _STRING_MARK).finditer(line):
        mark, at = found[0], found.start()
        if mark == "\\":
            return "", at  # it escapes what follows
        if quote:
            quote = "" if mark.startswith(quote) else quote
        elif comment is not None and comment.match(line, at):
            return "", at
        elif mark[0] in _QUOTES:
            word = line[max(at - 3, 0) : at]
            if mark[0] == "'" and (family == "rust" or _is_apostrophe(word)):
                continue
            if _OTHER_STRING.search(word) or (len(mark) == 3 and comment is None):
                return "", at
            # Elsewhere three quotes are an empty string and the beginning of the next.
            quote, start = mark if family in _LONG_STRINGS else mark[0], at
    return quote, start


def _is_apostrophe(word: str) -> bool:
    """Whether a quote behind a word begins no string, as in `don't` and `1'000`."""
    return word[-1:].isalnum() and not _STRING_PREFIX.search(word)


def _up_to_angle(text: str, before: str, language: str) -> str:
    """`text` up to the `>` that closes the types before it, where another one stands behind it for that."""
    if not _in_types(before, language):
        return text
    at, open_ = _angles(text)
    # What is open at the end is closed by the one behind.
    if at is None or open_ > 0 or not _TYPES.fullmatch(text, 0, at) or not is_balanced(text[:at]):
        return text
    return text[:at].rstrip()


def _in_types(before: str, language: str) -> bool:
    """Whether what follows on a line stands between the `<` and `>` of types."""
    if family_of(language) not in _GENERICS or _in_string(before, language):
        return False
    return _OPEN_TYPES.search(_code(before, language)) is not None


def _angles(text: str) -> tuple[int | None, int]:
    """The place of the first `>` that has no `<` before it in the text, if there is one, and how many are
    open after it."""
    at, open_ = None, 0
    for found in _ANGLE.finditer(text):
        if len(found[0]) == 2:
            continue  # an arrow
        open_ += 1 if found[0] == "<" else -1
        if open_ < 0 and at is None:
            at, open_ = found.start(), 0
    return at, open_


def _first_unmatched(text: str, language: str) -> int | None:
    """The place of the first closer that has no opener before it in the text; None if there is none."""
    open_: list[str] = []
    strings = _STRINGS.get(family_of(language), _STRING)
    for at, char in enumerate(strings.sub(lambda found: found[1] or " " * len(found[0]), text)):
        if char in _CLOSING:
            open_.append(char)
        elif char in _OPENING and (not open_ or open_.pop() != _OPENING[char]):
            return at
    return None


def _without_strings(line: str, language: str = "") -> str:
    return _STRINGS.get(family_of(language), _STRING).sub(lambda found: found[1] or "", line)


def _code(line: str, language: str) -> str:
    """A line without what is in strings and comments; of a language that is not known, comments stay."""
    family = family_of(language)
    # A space for a string: what stands around it is not to become a comment mark. What is escaped outside of
    # one, as in a regular expression, is no bracket.
    without = _STRINGS.get(family, _STRING).sub(" ", line)
    comment = _COMMENTS.get(family)
    if comment is None:
        return without
    if comment.match("//"):
        without = _without_block_comments(without)
    return comment.split(without, maxsplit=1)[0]


def _without_block_comments(code: str) -> str:
    """`code` without comments that end on their line; one that does not may be a pattern: `src/*.ts`."""
    parts: list[str] = []
    end = 0
    while (start := code.find("/*", end)) >= 0 and (last := code.find("*/", start + 2)) >= 0:
        parts.append(code[end:start])
        end = last + 2
    return " ".join((*parts, code[end:]))


def _in_string(before: str, language: str) -> bool:
    """Whether what follows on a line seems to stand in a string."""
    code = _code(before, language)
    return '"' in code or (language != "rust" and "'" in code) or code.count("`") % 2 == 1


def _open_above(above: Sequence[str], language: str) -> list[str]:
    """The brackets that lines leave open. What is only text closes none of them."""
    open_: list[str] = []
    for line in above:
        if _BRACKET.search(line):
            code = _LIST_MARK.sub(" ", _code(line, language))
            _count_unmatched(_BRACKET.findall(code), open_)
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
