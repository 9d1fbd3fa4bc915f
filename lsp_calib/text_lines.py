"""Lines of text: where they end, and when two of them are the same."""

from __future__ import annotations

import re

# As LSP counts them: \n, \r\n or \r and nothing else. `str.splitlines` also splits at form feeds and other
# separators that editors leave inside a line.
_END = re.compile(r"\r\n|\n|\r")
_WITH_END = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_FOREIGN_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def split_lines(text: str) -> tuple[str, ...]:
    """Lines without their line ends. A line end at the end of the text is followed by an empty line."""
    return tuple(_END.split(text))


def split_keeping_ends(text: str) -> list[str]:
    """Lines with their line ends. No empty line follows a line end at the end of the text."""
    if _FOREIGN_ENDS.search(text) is None:
        return text.splitlines(keepends=True)  # the fast way for large documents
    return _WITH_END.findall(text)


normalised_line = str.strip
"""The part of a line that counts in comparisons: all but the white space at its ends."""


def same_line(line: str, expected: str) -> bool:
    """Whether a line is the expected one: this makes a suggestion right, in the editor and in evaluation."""
    return normalised_line(line) == normalised_line(expected)
