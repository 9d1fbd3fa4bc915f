"""Conversions between LSP types and ours: positions and cursors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.languages import bounded, identifier_of
from lsp_calib.server.text import CalibDocument

if TYPE_CHECKING:
    from lsp_calib.completion import Cursor, Selected


def cursor_at(document: CalibDocument, position: types.Position) -> Cursor:
    """The cursor at an LSP position; beyond the end of a line or of the document means that end."""
    from lsp_calib.completion import Cursor

    lines = document.bare_lines
    if position.line >= len(lines):
        return Cursor.at(lines, len(lines) - 1, len(lines[-1]), language_of(document))
    # A position inside a surrogate pair is rounded.
    column = document.position_codec.position_from_client_units(lines, position).character
    return Cursor.at(lines, position.line, column, language_of(document))


def selected_at(
    document: CalibDocument, cursor: Cursor, info: types.SelectedCompletionInfo
) -> Selected | None:
    """The item selected in the editor's menu; None if nothing at `cursor` can go on from it."""
    from lsp_calib.completion import Selected

    span = info.range
    if not span.start.line == span.end.line == cursor.line:
        return None
    start, end = (cursor_at(document, position).column for position in (span.start, span.end))
    return Selected.at(cursor, start, end, info.text)


def position_of(document: CalibDocument, cursor: Cursor) -> types.Position:
    """The LSP position of a cursor, in the client's units."""
    return types.Position(cursor.line, column_units(document, cursor.before, cursor.column))


def language_of(document: CalibDocument) -> str:
    """The identifier of the document's language, of bounded length."""
    return bounded(identifier_of(document.language_id or "plaintext"))


def column_units(document: CalibDocument, line: str, column: int) -> int:
    """A column, given in code points, in the client's units."""
    return int(document.position_codec.client_num_units(line[:column]))


def whole_line(document: CalibDocument, line: int, text: str) -> types.Range:
    """The range of a line's text without its indentation."""
    return part_of_line(document, line, text, len(text) - len(text.lstrip()), len(text))


def part_of_line(document: CalibDocument, line: int, text: str, start: int, end: int) -> types.Range:
    """The range of a part of a line's text, given in code points."""
    return types.Range(
        start=types.Position(line, column_units(document, text, start)),
        end=types.Position(line, column_units(document, text, end)),
    )
