"""The functions of a document, and which one a place in it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import attrs
from lsprotocol import types

from lsp_calib.server.documents import CalibDocument, part_of_line, whole_line
from lsp_calib.syntax import Call, Function, call_at, functions, has_grammar, may_mean

_MOST_NAMESAKES = 50


@attrs.frozen
class Target:
    """A function, its language, and the range that stands for it.

    document: in which the function stands; another cell of the notebook, where the range is that of a call.
    """

    document: CalibDocument
    function: Function
    language: str
    range: types.Range

    @classmethod
    def at_its_heading(cls, document: CalibDocument, function: Function) -> Target:
        """A function of a document as it is now; the range is its first line."""
        heading = whole_line(document, function.start, document.bare_lines[function.start])
        return cls(document, function, document.language, heading)


def functions_of(document: CalibDocument) -> Sequence[Function]:
    """The functions of a document as it is now; empty for a language without a grammar.

    Each version is parsed once, when it is first asked for.
    """
    language, lines = document.language, document.bare_lines
    if not has_grammar(language):
        return ()
    known = document.functions_of(lines)
    if known is None:
        known = functions(document.read_lines, language)
        document.remember_functions(lines, known)
    return known


async def parse(*documents: CalibDocument) -> None:
    """Find the functions of documents of one language in a thread, unless they are known; `functions_of` then
    has them.

    A long document takes a tenth of a second, in which keystrokes are answered. If it changes meanwhile, the
    functions of the new version are not known.
    """
    language = documents[0].language
    pending = [one for one in documents if one.functions_of(one.bare_lines) is None]
    if not has_grammar(language) or not pending:
        return
    lines = [one.bare_lines for one in pending]
    read = [one.read_lines for one in pending]
    found = await asyncio.to_thread(lambda: [functions(one, language) for one in read])
    for document, its_lines, its_functions in zip(pending, lines, found, strict=True):
        document.remember_functions(its_lines, its_functions)


def target_at(document: CalibDocument, position: types.Position) -> Target | None:
    """The function that a place is about, None if there is none.

    On a line of a signature it is that function; on the name of a call the one that is called, if exactly one
    function of this file or notebook has the name: which of several is meant only the language's own server
    knows. Nowhere else in a body: there every word has a hover of that server, which ours would bury.
    """
    line, column = document.place_of(position)
    lines, language = document.bare_lines, document.language
    function = next((one for one in functions_of(document) if one.start <= line < one.signature_end), None)
    if function is not None:
        return Target.at_its_heading(document, function)
    call = call_at(lines[line], column)
    called = [] if call is None else list(_called(call, document, language))
    if call is None or len(called) != 1:
        return None
    return Target(*called[0], language, part_of_line(document, line, lines[line], *call.span))


def function_around(document: CalibDocument, position: types.Position) -> Target | None:
    """The innermost function that holds a place, None if there is none."""
    line, _ = document.place_of(position)
    holding = (one for one in functions_of(document) if one.start <= line < one.end)
    function = max(holding, key=lambda one: (one.start, -one.end), default=None)
    return None if function is None else Target.at_its_heading(document, function)


def _called(call: Call, document: CalibDocument, language: str) -> Iterator[tuple[CalibDocument, Function]]:
    """The functions that a call in a document can mean, each with the document in which it stands."""
    named = [(one, found) for one in document.cells for found in functions_of(one) if found.name == call.name]
    # Each looks for its class above. Of so many no single one is meant.
    for one, function in named if len(named) <= _MOST_NAMESAKES else ():
        if may_mean(call, function, one.bare_lines, language):
            yield one, function
