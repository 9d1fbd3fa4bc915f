"""Lines of text: where they end, and when two of them are the same."""

from __future__ import annotations

import re

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
