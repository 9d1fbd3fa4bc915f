"""The cursor, and how much of the document around it the model sees."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lsp_calib.errors import DataError

# The window begins at a multiple of this many lines and so moves in blocks: while it does not move, every
# earlier token of the prompt is unchanged, and the model's cache stays valid.
_BLOCK = 16


@attrs.frozen
class Cursor:
    """A place in a document.

    lines: without line ends. line: from 0. column: in code points, from 0.
    language: an LSP language identifier.
    """

    lines: Sequence[str]
    line: int
    column: int
    language: str = "plaintext"

    @classmethod
    def at(cls, lines: Sequence[str], line: int, column: int, language: str = "plaintext") -> Cursor:
        """A cursor within the document. Raises DataError if there is no such line.

        A column beyond the line's end means its end, as in LSP.
        """
        if not 0 <= line < len(lines):
            raise DataError(f"There is no line {line + 1}: the document has {len(lines)}.")
        return cls(lines, line, min(max(column, 0), len(lines[line])), language)

    @property
    def before(self) -> str:
        """The current line up to the cursor."""
        return self.lines[self.line][: self.column]

    @property
    def after(self) -> str:
        """The current line from the cursor on."""
        return self.lines[self.line][self.column :]


def text_above(cursor: Cursor, most: int) -> str:
    """At most about `most` characters of whole lines above the cursor's, each with its newline."""
    most = max(most, 1)
    start = _window_start(cursor, most)
    text = "".join(line + "\n" for line in cursor.lines[start : cursor.line])
    return text[-most:]


def text_ahead(cursor: Cursor, most: int, ahead: int) -> str:
    """The known part of the text above for the window after its next move; empty if that is far off.

    most: as for `text_above`. ahead: the next move is near if at most so many more characters above the
    cursor's line cause it.
    """
    start, near = _window_start(cursor, max(most, 1)), _window_start(cursor, max(most - ahead, 1))
    soon = min(near, start + _BLOCK)
    if soon == start or soon % _BLOCK or start % _BLOCK:
        return ""
    return "".join(line + "\n" for line in cursor.lines[soon : cursor.line])


def text_below(cursor: Cursor, most: int) -> str:
    """The rest of the cursor's line, then at most about `most` characters of the lines below."""
    pieces = [cursor.after[:most]]
    used = len(pieces[0])
    # No slice: it would copy the rest of a long document.
    for at in range(cursor.line + 1, len(cursor.lines)):
        line = cursor.lines[at]
        used += len(line) + 1
        if used > most:
            break
        pieces.append(line)
    return "\n".join(pieces)


def _window_start(cursor: Cursor, most: int) -> int:
    first = cursor.line
    used = 0
    while first > 0:
        used += len(cursor.lines[first - 1]) + 1
        if used > most:
            break
        first -= 1
    if first == 0:
        return 0
    block = -(-first // _BLOCK) * _BLOCK
    # Very long lines: fewer than a block fit, and a window that moves is better than an empty one.
    return block if block < cursor.line else first
