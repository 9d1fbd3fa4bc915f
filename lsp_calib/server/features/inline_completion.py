"""`textDocument/inlineCompletion`: ghost text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.server.convert import cursor_at, part_of_line, selected_at
from lsp_calib.server.language_server import CalibServer

if TYPE_CHECKING:
    from lsp_calib.completion import Completion
    from lsp_calib.server.text import CalibDocument
    from lsp_calib.values import Suggestion


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
        selected = None
        if (item := params.context.selected_completion_info) is not None:
            selected = selected_at(document, cursor, item)
            if selected is None:
                ls.session.nothing_extends_the_selected_item(uri)
                return types.InlineCompletionList(items=[])
            cursor = selected.cursor
        by_hand = params.context.trigger_kind is types.InlineCompletionTriggerKind.Invoked
        reply = await ls.session.completions.requests.newest(uri, cursor, by_hand=by_hand)
        if reply is None:
            return None
        made = [] if reply.completion is None else [reply.completion]
        block = await ls.session.completions.block(uri, made[0]) if made and selected is None else None
        if made and by_hand and not ls.session.completions.is_superseded(uri, cursor):
            made += await ls.session.completions.alternatives.of(uri, made[0])
        if made and ls.session.completions.is_superseded(uri, cursor):
            return None  # while its follow-ups were made
        if selected is not None:
            made = [selected.extended(completion) for completion in made]
        # After null some editors keep the previous ghost text; an empty list removes it.
        return types.InlineCompletionList(
            items=[
                _item(document, completion, block if block and not at else completion.suggestion)
                for at, completion in enumerate(made)
                if ls.session.suggestions.shown(uri, completion, block if not at else None)
            ]
        )


def _item(
    document: CalibDocument, completion: Completion, suggestion: Suggestion
) -> types.InlineCompletionItem:
    """suggestion: that of the completion, or of the block that begins with it."""
    from lsp_calib.completion.block import covered

    cursor = completion.cursor
    replaced = covered(cursor) if suggestion.kind == "block" else completion.replaced
    start, end = cursor.column, cursor.column + len(replaced)
    return types.InlineCompletionItem(
        insert_text=suggestion.text,
        range=part_of_line(document, cursor.line, completion.present_line, start, end),
        command=types.Command(
            title="Tell lsp-calib", command="lsp-calib.accepted", arguments=[suggestion.to_wire()]
        ),
    )
