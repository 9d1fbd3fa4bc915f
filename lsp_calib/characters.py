"""Text: its lines; characters that are invisible or make it look different from what it is; scripts of
letters; text from elsewhere inside Markdown.

A model repeats what it has read: hidden orders in tag characters, lines reversed by bidirectional controls
(CVE-2021-42574, "Trojan Source"), identifiers that look the same. Pure.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import MappingProxyType

# Controls, format characters, halves of surrogate pairs, line and paragraph separators.
_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Invisible characters of other categories: Unicode's default-ignorable ones (fillers, which count as letters;
# variation selectors; reserved code points) and the Braille blank.
_INVISIBLE = re.compile(
    "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2065\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0\\ufff0-\\ufff8"
    "\\U000e0000-\\U000e0fff]"
)
_JOINERS = "\u200c\u200d"
_EMOJI_JOINER = "\u200d"
_PRESENTATION = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"
# Scripts that need joiners: Arabic and its neighbours, those of India, Myanmar, Khmer, Mongolian.
_JOINING = re.compile("[\\u0600-\\u0dff\\u1000-\\u109f\\u1780-\\u18af\\ua8e0-\\ua8ff]")
# Bases of emoji that are not of category So: arrows, squares, punctuation.
_EMOJI_BASES = "\u2194\u25fb\u25fc\u25fd\u25fe\u2934\u2935\u203c\u2049\u2139\u3030\u303d"


def has_hidden(text: str, before: str = "", after: str = "") -> bool:
    """Whether `text` has a hidden character, or one that does not belong in a line. A tab is allowed.

    before, after: the text around `text`. Joiners and variation selectors are allowed only in emoji and in
    scripts that need them; these may begin in `before` or go on in `after`.
    """
    whole = f"{before[-1:]}{text}{after[:1]}"
    start = len(before[-1:])
    return any(_is_hidden(whole, at) for at in range(start, start + len(text)))


def without_hidden(text: str) -> str:
    """`text` without its hidden characters."""
    return "".join(char for at, char in enumerate(text) if not _is_hidden(text, at))


def shown(text: str) -> str:
    """Text from a file, a model or a server, fit for a terminal or a message.

    Lines and tabs stay; controls, bidirectional controls and invisible characters go. Halves of surrogate
    pairs stay: they hold the bytes of a file's name, and an output shows them escaped.

    >>> shown("a\\x1b[31mb\\x9b\\u202ec\\nd")
    'a[31mbc\\nd'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        for at, char in enumerate(text)
        if char == "\n" or "\ud800" <= char <= "\udfff" or not _is_hidden(text, at)
    )


def in_one_line(text: str, most: int) -> str:
    """Such text in one line of at most `most` characters, which cannot pass for a line of ours."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _is_hidden(text: str, at: int) -> bool:
    char = text[at]
    if char == "\t" or " " <= char <= "~":
        return False
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    if char in _JOINERS:
        return not _joins(char, before, after)
    if char in _PRESENTATION:
        return not _presents(before, after)
    return unicodedata.category(char) in _CATEGORIES or _INVISIBLE.match(char) is not None


def _joins(joiner: str, before: str, after: str) -> bool:
    """Whether a joiner stands between letters of a script that uses it, or between two emoji."""
    if not before or not after:
        return False
    if all(_JOINING.match(char) and unicodedata.category(char)[0] in "LM" for char in (before, after)):
        return True
    if joiner != _EMOJI_JOINER or unicodedata.category(after) != "So":
        return False
    # The text before may end in a variation selector or a skin tone.
    return (
        unicodedata.category(before) == "So" or before == "\ufe0f" or "\U0001f3fb" <= before <= "\U0001f3ff"
    )


def _presents(before: str, after: str) -> bool:
    """Whether a variation selector follows a possible emoji, whose form it selects."""
    if not before:
        return False
    if before in "#*0123456789":
        return after == _KEYCAP
    return before in _EMOJI_BASES or unicodedata.category(before) == "So"


# By the first word of a letter's name. Chinese and Japanese share letters; Korean is written without them.
_SCRIPTS = MappingProxyType(
    {
        **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO"), "han and kana"),
        **{
            name.upper(): name
            for name in (
                *("arabic", "armenian", "bengali", "cyrillic", "devanagari", "ethiopic", "georgian", "greek"),
                *("gujarati", "gurmukhi", "hangul", "hebrew", "kannada", "khmer", "lao", "malayalam"),
                *("mongolian", "myanmar", "oriya", "sinhala", "syriac", "tamil", "telugu", "thaana", "thai"),
                "tibetan",
            )
        },
    }
)
_WIDTHS = ("FULLWIDTH", "HALFWIDTH")
_OTHER_LETTERS = re.compile(r"[^\W\d_a-zA-Z]+")
# Fewer letters in a row are symbols in any language: `Δx`, `μs`, `λ`.
_SHORTEST_WORD = MappingProxyType({"greek": 3})


@lru_cache(maxsize=4096)
def script_of(char: str) -> str:
    """The script of a letter; "" for Latin, which code has in any document, and for what is none: the signs
    of micro and ohm and the letters of mathematics are symbols.

    >>> script_of("я"), script_of("か") == script_of("字"), script_of("µ"), script_of("é")
    ('cyrillic', True, '', '')
    """
    first, _, rest = unicodedata.name(char, "").partition(" ")
    return _SCRIPTS.get(rest.partition(" ")[0] if first in _WIDTHS else first, "")


def words_by_script(text: str) -> Iterator[tuple[str, int, int]]:
    """The words in other scripts than Latin: script, start and end in the text. Single symbols are none.

    >>> list(words_by_script("the мир of Δx")), list(words_by_script("naïve"))
    ([('cyrillic', 4, 7)], [])
    """
    for letters in () if text.isascii() else _OTHER_LETTERS.finditer(text):
        at = letters.start()
        for script, group in itertools.groupby(letters[0], script_of):
            start, at = at, at + len(list(group))
            if script and at - start >= _SHORTEST_WORD.get(script, 1):
                yield script, start, at


def has_script(text: str, script: str) -> bool:
    """Whether a text has a letter of a script."""
    return not text.isascii() and any(script_of(char) == script for char in text)


# As LSP counts them: \n, \r\n or \r and nothing else. `str.splitlines` also splits at form feeds and other
# separators that editors leave inside a line.
_END = re.compile(r"\r\n|\n|\r")


def split_lines(text: str) -> tuple[str, ...]:
    """Lines without their line ends. A line end at the end of the text is followed by an empty line."""
    return tuple(_END.split(text))


def indentation_of(line: str) -> str:
    """The white space that a line begins with; all of a blank line."""
    return line[: len(line) - len(line.lstrip())]


normalised_line = str.strip
"""The part of a line that counts in comparisons: all but the white space at its ends."""


def same_line(line: str, expected: str) -> bool:
    """Whether a line is the expected one: this makes a suggestion right, in the editor and in evaluation."""
    return normalised_line(line) == normalised_line(expected)


# Marks of emphasis, code, links, HTML, tables and entities, and those of GitHub's bare addresses and smileys.
# An underscore inside a word means nothing, nor do round brackets.
_MARKS = re.compile(
    r"[\\`*\[\]<>~|@]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|:(?=//|[\w+-]+:)|(?<=www)\.", re.IGNORECASE
)
# Marks of headings, lists and rules; they are some at the beginning of a line alone.
_FIRST = re.compile(r"^(\s*)([#+=-])", re.MULTILINE)
_NUMBERED = re.compile(r"^(\s*\d+)([.)])", re.MULTILINE)
_TICKS = re.compile(r"`+")
_SPAN = re.compile(r"`([^`\n]+)`")


def escape_markdown(text: str) -> str:
    """Text escaped for Markdown, so that links and markup that a model has generated are not rendered.

    Only what would be read as a mark: the text is also read by people, in files and where nothing renders it.

    >>> print(escape_markdown("Return snake_case, *not* a <b>list</b>."))
    Return snake_case, \\*not\\* a \\<b\\>list\\</b\\>.
    """
    escaped = _MARKS.sub(r"\\\g<0>", shown(text))
    return _NUMBERED.sub(r"\1\\\2", _FIRST.sub(r"\1\\\2", escaped))


def escape_prose(text: str) -> str:
    """As `escape_markdown`, but what stands between two backticks, such as a command in a message, is code.

    >>> print(escape_prose("run `lsp-calib refit`, *now*"))
    run `lsp-calib refit`, \\*now\\*
    """
    parts = _SPAN.split(text)
    return "".join(code_span(part) if at % 2 else escape_markdown(part) for at, part in enumerate(parts))


def plain_prose(text: str) -> str:
    """The same text where no Markdown is rendered: with quotation marks in place of backticks.

    >>> plain_prose("run `lsp-calib refit`")
    'run "lsp-calib refit"'
    """
    return _SPAN.sub(r'"\1"', text)


def code_span(text: str) -> str:
    """One line of text as code.

    >>> code_span("a"), code_span("a`b")
    ('`a`', '`` a`b ``')
    """
    text = shown(text)
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


# Lines compared at once while trimming: slices compare in C, so that 100,000 lines cost about a millisecond.
_AT_ONCE = 1024


def shared_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many items two sequences (of characters, of lines) share at the start, and of the rest at the end.

    Blocks are compared in C: a minified line of a megabyte costs no more than a long document.
    """
    limit = min(len(old), len(new))
    before = 0
    while before < limit and old[before : before + _AT_ONCE] == new[before : before + _AT_ONCE]:
        before += _AT_ONCE
    while before < limit and old[before] == new[before]:
        before += 1
    before = min(before, limit)
    limit -= before
    after = 0
    while after + _AT_ONCE <= limit and _from_end(old, after) == _from_end(new, after):
        after += _AT_ONCE
    while after < limit and old[-1 - after] == new[-1 - after]:
        after += 1
    return before, after


def _from_end(items: Sequence[str], skipped: int) -> Sequence[str]:
    """The last block of items before the `skipped` last ones."""
    end = len(items) - skipped
    return items[end - _AT_ONCE : end]
