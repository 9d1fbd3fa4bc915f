"""Lines of a notebook's cells that its kernel takes for commands: magics, the shell, help. Pure.

IPython rewrites such lines before Python sees them (IPython's documentation, "Built-in magic commands", and
its `core.inputtransformer2`). A grammar of Python would find errors in them, and in all that follows.
"""

from __future__ import annotations

import re

from lsp_calib.characters import indentation_of

# Cell magics whose cell is Python all the same. The text below any other one is of another language, such as
# that of `%%bash`, or is not run as it stands.
_PYTHON_BELOW = frozenset(
    ("capture", "debug", "ipytest", "memit", "prun", "pypy", "python", "python3", "time", "timeit")
)
_CELL_MAGIC = re.compile(r"%%(\w+)")
# Where a statement may begin: a magic, the shell, help on a name before or behind it.
_COMMAND = re.compile(r"%{1,2}[^\W\d]|!|\?|%{0,2}[^\W\d][\w.*\[\]'\"]*\?{1,2}$")
# A name that gets what a magic or the shell puts out.
_ASSIGNED = re.compile(r"\s*[^\W\d][\w.,\s\[\]'\"]*=\s*(?=!|%[^\W\d])")
# What may open or close a string or a bracket, and a comment.
_TOKEN = re.compile(r"\"\"\"|'''|#|\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?|[()\[\]{}]")
_LONG_QUOTES = ('"""', "'''")


class CommandLine(str):
    """A line that the kernel takes for a command. It is another one than a line of code with the same text.

    code: what a grammar reads in its place.
    """

    code: str = ""

    @classmethod
    def reading(cls, text: str, code: str) -> CommandLine:
        line = cls(text)
        line.code = code
        return line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandLine) and str.__eq__(self, other) and self.code == other.code

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def with_commands(lines: tuple[str, ...], language: str) -> tuple[str, ...]:
    """The lines of a cell, those that the kernel takes for commands as `CommandLine`.

    lines: without their ends. In all languages but Python the result is `lines`.
    """
    if language != "python":
        return lines
    first = next((line for line in lines if line.strip()), "")
    magic = _CELL_MAGIC.match(first)
    if magic is not None and magic[1] not in _PYTHON_BELOW:
        return tuple(map(CommandLine, lines))
    found = list[str]()
    # What is open at the end of the line above: brackets, a long string, the line itself over a backslash,
    # and whether a command goes on so.
    depth, quote, goes_on, in_command = 0, "", False, False
    for line in lines:
        begins = not (depth or quote or goes_on or in_command)
        code = "" if in_command else _read(line) if begins else None
        goes_on, in_command = line.endswith("\\"), False
        if code is not None:
            line, goes_on, in_command = CommandLine.reading(line, code), False, goes_on
        else:
            depth, quote = _after(line, depth, quote)
        found.append(line)
    return tuple(found)


def _read(line: str) -> str | None:
    """What a grammar reads where a statement may begin with this line; None: the line itself.

    That is nothing, and in a block a statement that does nothing: without one the block would have no end.
    """
    if "%" not in line and "!" not in line and "?" not in line:
        return None
    text = line.strip()
    if _COMMAND.match(text):
        return indentation_of(line) + "pass" if line[:1].isspace() else ""
    assigned = _ASSIGNED.match(line)
    return None if assigned is None else f"{assigned[0]}..."


def _after(line: str, depth: int, quote: str) -> tuple[int, str]:
    """How many brackets, and which long string, are open after a line."""
    at = 0
    while True:
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return depth, quote
            at, quote = end + len(quote), ""
        for found in _TOKEN.finditer(line, at):
            token = found[0]
            if token in "([{":
                depth += 1
            elif token in ")]}":
                depth = max(depth - 1, 0)
            elif token == "#":
                return depth, ""
            elif token in _LONG_QUOTES:
                at, quote = found.end(), token
                break
        else:
            return depth, ""
