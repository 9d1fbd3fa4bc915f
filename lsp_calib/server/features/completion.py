"""`textDocument/completion`: for editors without ghost text. It never delays the menu."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.badges import BADGES, percent, tier_words
from lsp_calib.server.convert import column_units, cursor_at, position_of
from lsp_calib.server.language_server import CalibServer

if TYPE_CHECKING:
    from lsp_calib.completion import Completion

# Seconds; a completion that takes longer comes with the next request.
PATIENCE = 0.1


def register(server: CalibServer) -> None:
    options = types.CompletionOptions(trigger_characters=[".", "(", "=", " "])

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, options)
    async def complete(ls: CalibServer, params: types.CompletionParams) -> types.CompletionList | None:
        uri = params.text_document.uri
        document = ls.open_document(uri)
        if document is None or ls.settings.completion is False:
            if document is not None:
                ls.session.completions.note_menu_off(uri)
            return types.CompletionList(is_incomplete=False, items=[])
        cursor = cursor_at(document, params.position)
        context = params.context
        invoked = context is not None and context.trigger_kind is types.CompletionTriggerKind.Invoked
        until = time.monotonic() + PATIENCE
        reply = await ls.session.completions.requests.newest(uri, cursor, patience=PATIENCE)
        made = [] if reply is None or reply.completion is None else [reply.completion]
        if made and invoked:
            # Each typed letter invokes the menu: no alternatives are made while the first is typed.
            fresh = made[0].suggestion.source == "model"
            left = max(until - time.monotonic(), 0.001) if fresh else 0.0
            made += await ls.session.completions.alternatives.of(uri, made[0], patience=left)
        start = _word_start(cursor.before)
        at = column_units(document, cursor.before, start)
        edit_range = types.Range(types.Position(cursor.line, at), position_of(document, cursor))
        items = [
            _item(ls, completion, cursor.before[start:], edit_range)
            for completion in made
            if ls.session.suggestions.shown(uri, completion)
        ]
        return types.CompletionList(is_incomplete=True, items=items)


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
    client = ls.client_capabilities.text_document
    item_support = client and client.completion and client.completion.completion_item
    has_details = bool(item_support and item_support.label_details_support)
    number = percent(suggestion.confidence.calibrated)
    mark = f"{BADGES[tier.value]['mark']} " if ls.client_traits.draws_labels_alone else ""
    return types.CompletionItem(
        label=mark + (text.strip() or text),
        label_details=types.CompletionItemLabelDetails(description=tier.value) if has_details else None,
        detail=number if has_details else f"{tier.value} · {number}",
        documentation=f"{tier_words(tier)}: {suggestion.confidence.reason}",
        kind=types.CompletionItemKind.Text,
        # Sorted after everything that the language's own server offers.
        sort_text="\U0010ffff" * suggestion.rank,
        filter_text=text,
        text_edit=types.TextEdit(range_, text),
        data=suggestion.to_wire(),
    )
