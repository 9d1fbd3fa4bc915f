"""Text from elsewhere inside Markdown, so that it is read as text. Pure."""

from __future__ import annotations

import re

from lsp_calib.characters import shown

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
