"""Text from elsewhere inside Markdown, so that it is read as text. Pure."""

from __future__ import annotations

import re

from lsp_calib.characters import shown

_MARKS = re.compile(r"([\\`*_{}\[\]()#+\-.!<>|~&:@])")
_TICKS = re.compile(r"`+")
_SPAN = re.compile(r"`([^`\n]+)`")


def escape_markdown(text: str) -> str:
    """Text escaped for Markdown, so that links and markup that a model has generated are not rendered."""
    return _MARKS.sub(r"\\\1", shown(text))


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
