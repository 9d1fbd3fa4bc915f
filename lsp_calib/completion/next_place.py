"""Where a user goes on once a line is finished, as far as that can be guessed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lsp_calib.completion.context import Cursor

# After one of these, as the line's last character, common editors indent the next line further.
_OPENS = (":", "{", "(", "[")
# After one of these, as the line's first word, editors for Python indent the next line less.
_LEAVES = ("return", "raise", "pass", "break", "continue")
# So many lines above tell how wide a level of indentation is.
_LOOKED_AT = 200
_LEVEL = 4
_WIDEST = 8


def next_place(lines: Sequence[str], line: int, language: str) -> Cursor:
    """The document and the cursor after Enter at the end of a line, with the indentation that an editor is
    most likely to put there.

    lines: without their ends. line: from 0. Raises IndexError if there is no such line.
    """
    text = lines[line]
    indentation = text[: len(text) - len(text.lstrip())]
    end = text.rstrip()
    words = end.split(maxsplit=1)
    # A colon opens a block in Python; elsewhere it follows a label, a key or a type.
    if end.endswith(_OPENS) and (language == "python" or not end.endswith(":")):
        indentation += _level(lines, line)
    elif language == "python" and words and words[0].rstrip(";") in _LEAVES:
        indentation = indentation.removesuffix(_level(lines, line))
    below = [*lines[: line + 1], indentation, *lines[line + 1 :]]
    return Cursor(below, line + 1, len(indentation), language)


def _level(lines: Sequence[str], line: int) -> str:
    """One level of indentation, as it is in the lines above."""
    inner = ""
    for at in range(line, max(line - _LOOKED_AT, -1), -1):
        text = lines[at]
        if not text.strip():
            continue
        outer = text[: len(text) - len(text.lstrip())]
        deeper = inner.removeprefix(outer)
        if (
            inner != outer
            and inner.startswith(outer)
            and (set(deeper) == {"\t"} or 2 <= len(deeper) <= _WIDEST)
        ):
            return "\t" if "\t" in deeper else deeper
        inner = outer
    return "\t" if inner.startswith("\t") else " " * _LEVEL
