"""Which function a place in a document is about."""

from __future__ import annotations

from typing import Literal

import attrs
from lsprotocol import types

from lsp_calib.server.convert import cursor_at, part_of_line, whole_line
from lsp_calib.server.text import CalibDocument
from lsp_calib.syntax import Function, called_function, function_at, innermost_function

Scope = Literal["signature", "function"]


@attrs.frozen
class Target:
    """A function, its language, and the range that stands for it in the document."""

    function: Function
    language: str
    range: types.Range


def target_at(document: CalibDocument, position: types.Position, scope: Scope) -> Target | None:
    """The function that a place is about, None if there is none.

    On a line of a signature it is that function; on the name of a call the one that is called, if this file
    has it. Anywhere else in a body only with the scope "function": there every word has a hover of the
    language's own server, which ours would bury.
    """
    cursor = cursor_at(document, position)
    lines, language = cursor.lines, cursor.language
    function = function_at(lines, cursor.line, language)
    if function is None:
        called = called_function(lines, cursor.line, cursor.column, language)
        if called is not None:
            found, (start, end) = called
            name = part_of_line(document, cursor.line, lines[cursor.line], start, end)
            return Target(found, language, name)
        if scope == "function":
            function = innermost_function(lines, cursor.line, language)
    if function is None:
        return None
    return Target(function, language, whole_line(document, function.start, lines[function.start]))


def function_around(document: CalibDocument, position: types.Position) -> Target | None:
    """The innermost function that holds a place, None if there is none."""
    cursor = cursor_at(document, position)
    function = innermost_function(cursor.lines, cursor.line, cursor.language)
    if function is None:
        return None
    line = whole_line(document, function.start, cursor.lines[function.start])
    return Target(function, cursor.language, line)
