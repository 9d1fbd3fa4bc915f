"""`textDocument/codeLens`: a line above each function with its summary and the tier's colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.badges import DOTS
from lsp_calib.server.convert import language_of, whole_line
from lsp_calib.server.language_server import CalibServer

if TYPE_CHECKING:
    from lsp_calib.values import Suggestion

_UNKNOWN = "\N{WHITE CIRCLE} summarise"
# An editor asks after each pause in typing: a file of generated functions would be a megabyte each time.
_MOST = 500
# Characters of a document that is worth parsing for it.
_LARGEST = 200_000


def register(server: CalibServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def lenses(ls: CalibServer, params: types.CodeLensParams) -> list[types.CodeLens] | None:
        """Shows what is known, and makes nothing: a click does."""
        if not ls.settings.code_lens:
            return None
        from lsp_calib.server.summary_target import functions_of, parse

        uri = params.text_document.uri
        document = ls.open_document(uri)
        if document is None or not await ls.session.admits(uri):
            return None
        lines, language = document.bare_lines, language_of(document)
        if sum(map(len, lines)) > _LARGEST:
            return None
        await parse(document)
        lines, functions = document.bare_lines, functions_of(document)
        found = []
        for function in functions[:_MOST]:
            known = ls.session.summaries.requests.known(uri, function, language)
            place = whole_line(document, function.start, lines[function.start])
            start = {"line": place.start.line, "character": place.start.character}
            title = _UNKNOWN if known is None else _title(known.suggestion)
            command = types.Command(
                title, "lsp-calib.showSummary", arguments=[{"uri": uri, "position": start}]
            )
            found.append(types.CodeLens(place, command))
        return found


def _title(summary: Suggestion) -> str:
    tier = summary.confidence.tier.value
    return f"{DOTS[tier]} {tier}: {summary.text}"
