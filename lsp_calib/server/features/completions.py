"""Completions: `textDocument/inlineCompletion` for ghost text, `textDocument/completion` for a menu.

The menu is for editors without ghost text, and waits `PATIENCE` at most. An answer that
`Completions.newest` does not remember is made by `completion.service.CompletionService.complete`;
docs/architecture.md follows one keystroke through every station.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.capabilities import get_capability

from lsp_calib.badges import BADGES, percent, tier_and_reason
from lsp_calib.server.app import CalibServer
from lsp_calib.server.text import cursor_at, part_of_line, selected_at

if TYPE_CHECKING:
    from lsp_calib.completion.service import Completion
    from lsp_calib.server.text import CalibDocument
    from lsp_calib.values import Suggestion

# Seconds; a completion that takes longer comes with the next request.
PATIENCE = 0.1


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
        session = ls.session
        if not ls.settings.inline_completion:
            from lsp_calib.server.admission import OFF

            session.last_requests.refused(uri, OFF)
            return None
        cursor = cursor_at(document, params.position)
        selected = None
        if (item := params.context.selected_completion_info) is not None:
            selected = selected_at(document, cursor, item)
            if selected is None:
                from lsp_calib.server.admission import SELECTED_ITEM

                session.last_requests.refused(uri, SELECTED_ITEM)
                return types.InlineCompletionList(items=[])
            cursor = selected.cursor
        by_hand = params.context.trigger_kind is types.InlineCompletionTriggerKind.Invoked
        lead = selected.lead if selected is not None else ""
        session.asked(uri, cursor)
        reply = await session.completions.newest(document, cursor, by_hand=by_hand, lead=lead)
        if reply is None:
            return None
        made = [*reply]
        block = await session.completions.block(document, made[0]) if made and selected is None else None
        if made and by_hand and not session.completions.is_superseded(uri, cursor):
            others = await session.completions.alternatives.of(document, made[0])
            made += made[0].beside(others)
        if made and session.completions.is_superseded(uri, cursor):
            return None  # while its follow-ups were made
        items = []
        for at, completion in enumerate(made):
            part = session.completions.offered(document, completion, lead=lead)
            whole: Completion | None = completion
            if selected is not None and part is not None:
                part, whole = selected.extended(part), selected.extended(completion)
            if part and whole and session.shown(document, whole):
                if block and not at and block.lines:
                    items.append(_ghost_text(document, whole, block))
                else:
                    items.append(_ghost_text(document, part, part.suggestion))
        # After null some editors keep the previous ghost text; an empty list removes it.
        return types.InlineCompletionList(items=items)

    options = types.CompletionOptions(trigger_characters=[".", "(", "=", " "])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, options)
    async def complete(ls: CalibServer, params: types.CompletionParams) -> types.CompletionList | None:
        uri = params.text_document.uri
        document = ls.open_document(uri)
        session = ls.session
        if document is None or ls.settings.completion is False:
            if document is not None:
                session.completions.note_menu_off(uri)
            return types.CompletionList(is_incomplete=False, items=[])
        cursor = cursor_at(document, params.position)
        context = params.context
        invoked = context is not None and context.trigger_kind is types.CompletionTriggerKind.Invoked
        until = time.monotonic() + PATIENCE
        # Each typed letter invokes the menu, too.
        by_hand = session.completions.is_at_rest(document) and invoked
        session.asked(uri, cursor)
        reply = await session.completions.newest(document, cursor, patience=PATIENCE, in_comments=by_hand)
        made = [*(reply or ())]
        if made and invoked:
            # Each typed letter invokes the menu: no alternatives are made while the first is typed.
            fresh = made[0].suggestion.source == "model"
            left = max(until - time.monotonic(), 0.001) if fresh else 0.0
            others = await session.completions.alternatives.of(document, made[0], patience=left)
            made += made[0].beside(others)
        start = _word_start(cursor.before)
        edit_range = part_of_line(document, cursor.own_line, cursor.before, start, cursor.column)
        items = [
            _item(ls, part, cursor.before[start:], edit_range)
            for completion in made
            # In a menu nothing behind the cursor is replaced.
            if (part := session.completions.offered(document, completion, before_closers=True))
            and (followed := completion.up_to_closers())
            and session.shown(document, followed)
        ]
        return types.CompletionList(is_incomplete=True, items=items)


def _ghost_text(
    document: CalibDocument, completion: Completion, suggestion: Suggestion
) -> types.InlineCompletionItem:
    """suggestion: that of the completion, or of the block that begins with it."""
    cursor = completion.cursor
    start, end = cursor.column, cursor.column + len(completion.replaced)
    return types.InlineCompletionItem(
        insert_text=suggestion.text,
        range=part_of_line(document, cursor.own_line, completion.present_line, start, end),
        command=types.Command(
            title="Tell lsp-calib", command="lsp-calib.accepted", arguments=[suggestion.to_wire()]
        ),
    )


def _word_start(text: str) -> int:
    """The index at which the word at the end of a text begins."""
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return start


def _item(ls: CalibServer, completion: Completion, word: str, range_: types.Range) -> types.CompletionItem:
    suggestion = completion.suggestion
    tier = suggestion.confidence.tier
    text = word + suggestion.text
    client = ls.client_capabilities
    has_details = get_capability(client, "text_document.completion.completion_item.label_details_support")
    number = percent(suggestion.confidence.calibrated)
    mark = f"{BADGES[tier.value]['mark']} " if ls.client_traits.draws_labels_alone else ""
    return types.CompletionItem(
        label=mark + (text.strip() or text),
        label_details=types.CompletionItemLabelDetails(description=tier.value) if has_details else None,
        detail=number if has_details else f"{tier.value} · {number}",
        documentation=tier_and_reason(suggestion),
        kind=types.CompletionItemKind.Text,
        # Sorted after everything that the language's own server offers.
        sort_text="\U0010ffff" * suggestion.rank,
        filter_text=text,
        text_edit=types.TextEdit(range_, text),
        data=suggestion.to_wire(),
    )
