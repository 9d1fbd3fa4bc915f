"""`textDocument/inlineCompletion`: ghost text."""

from __future__ import annotations

from lsprotocol import types

from lsp_calib.server.convert import cursor_at, position_of
from lsp_calib.server.language_server import CalibServer


def register(server: CalibServer) -> None:
    # Without options pygls does not advertise the feature.
    @server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())
    async def inline_completion(
        ls: CalibServer, params: types.InlineCompletionParams
    ) -> types.InlineCompletionList | None:
        uri = params.text_document.uri
        document = ls.open_document(uri)
        if document is None:
            return None
        if not ls.settings.inline_completion:
            ls.session.inline_completion_is_off(uri)
            return None
        cursor = cursor_at(document, params.position)
        by_hand = params.context.trigger_kind is types.InlineCompletionTriggerKind.Invoked
        reply = await ls.session.completions.newest(uri, cursor, by_hand=by_hand)
        if reply is None:
            return None
        completion = reply.completion
        if completion is None or not ls.session.suggestions.shown(uri, completion):
            # After null some editors keep the previous ghost text; an empty list removes it.
            return types.InlineCompletionList(items=[])
        suggestion = completion.suggestion
        place = position_of(document, cursor)
        item = types.InlineCompletionItem(
            insert_text=suggestion.text,
            range=types.Range(place, place),
            command=types.Command(
                title="Tell lsp-calib", command="lsp-calib.accepted", arguments=[suggestion.to_wire()]
            ),
        )
        return types.InlineCompletionList(items=[item])
