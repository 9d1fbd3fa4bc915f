"""Which function a place in a document is about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import attrs
from lsprotocol import types

from lsp_calib.server.convert import cursor_at, language_of, part_of_line, whole_line
from lsp_calib.server.text import CalibDocument
from lsp_calib.syntax import Function, call_at, functions, has_grammar, may_mean

Scope = Literal["signature", "function"]


@attrs.frozen
class Target:
    """A function, its language, and the range that stands for it in the document."""

    function: Function
    language: str
    range: types.Range


def functions_of(document: CalibDocument) -> Sequence[Function]:
    """The functions of a document as it is now; empty for a language without a grammar.

    Each version is parsed once, when it is first asked for.
    """
    language, lines = language_of(document), document.bare_lines
    if not has_grammar(language):
        return ()
    known = document.functions_of(lines)
    if known is None:
        known = functions(lines, language)
        document.remember_functions(lines, known)
    return known


async def parse(document: CalibDocument) -> None:
    """Find the functions of a document in a thread, unless they are known; `functions_of` then has them.

    A long document takes a tenth of a second, in which keystrokes are answered. If it changes meanwhile, the
    functions of the new version are not known.
    """
    language, lines = language_of(document), document.bare_lines
    if has_grammar(language) and document.functions_of(lines) is None:
        document.remember_functions(lines, await asyncio.to_thread(functions, lines, language))


def target_at(document: CalibDocument, position: types.Position, scope: Scope) -> Target | None:
    """The function that a place is about, None if there is none.

    On a line of a signature it is that function; on the name of a call the one that is called, if exactly one
    function of this file has the name: which of several is meant only the language's own server knows.
    Anywhere else in a body only with the scope "function": there every word has a hover of that server, which
    ours would bury.
    """
    cursor = cursor_at(document, position)
    line, lines, language = cursor.line, cursor.lines, cursor.language
    found = functions_of(document)
    function = next((one for one in found if one.start <= line < one.signature_end), None)
    if function is None:
        call = call_at(lines[line], cursor.column)
        called = [one for one in found if call is not None and may_mean(call, one, lines, language)]
        if call is not None and len(called) == 1:
            return Target(called[0], language, part_of_line(document, line, lines[line], *call.span))
        if scope == "function":
            function = _innermost(found, line)
    if function is None:
        return None
    return Target(function, language, whole_line(document, function.start, lines[function.start]))


def function_around(document: CalibDocument, position: types.Position) -> Target | None:
    """The innermost function that holds a place, None if there is none."""
    cursor = cursor_at(document, position)
    function = _innermost(functions_of(document), cursor.line)
    if function is None:
        return None
    line = whole_line(document, function.start, cursor.lines[function.start])
    return Target(function, cursor.language, line)


def _innermost(found: Sequence[Function], line: int) -> Function | None:
    holding = (one for one in found if one.start <= line < one.end)
    return max(holding, key=lambda one: (one.start, -one.end), default=None)
