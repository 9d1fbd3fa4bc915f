"""Requests for completions: for ghost text, and for a menu."""

from __future__ import annotations

from lsprotocol import types

from lsp_calib.server.app import CalibServer
from lsp_calib.server.text import cursor_at


def register(server: CalibServer) -> None:
    # Without options pygls does not advertise the feature.
    @server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())
    async def inline_completion(
        ls: CalibServer, params: types.InlineCompletionParams
    ) -> types.InlineCompletionList | None:
        document = ls.open_document(params.text_document.uri)
        if document is None:
            return None
        cursor = cursor_at(document, params.position)
        return await ls.session.completions.inline(document, cursor, params.context)

    options = types.CompletionOptions(trigger_characters=[".", "(", "=", " "])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, options)
    async def complete(ls: CalibServer, params: types.CompletionParams) -> types.CompletionList | None:
        document = ls.open_document(params.text_document.uri)
        if document is None:
            return types.CompletionList(is_incomplete=False, items=[])
        return await ls.session.completions.menu(
            document, cursor_at(document, params.position), params.context
        )
