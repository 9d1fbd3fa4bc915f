"""`textDocument/hover` on a function: its summary, the tier, and what the tier means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.server.app import CalibServer
from lsp_calib.server.convert import cursor_at, escape_markdown, whole_line
from lsp_calib.server.protocol import BADGES
from lsp_calib.server.words import percent, tier_words

if TYPE_CHECKING:
    from lsp_calib.values import Suggestion


def register(server: CalibServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: CalibServer, params: types.HoverParams) -> types.Hover | None:
        if not ls.settings.hover:
            return None
        from lsp_calib.syntax import function_at

        document = ls.workspace.get_text_document(params.text_document.uri)
        cursor = cursor_at(document, params.position)
        function = function_at(cursor.lines, cursor.line, cursor.language)
        if function is None:
            return None
        budget = ls.settings.hover_budget_ms / 1e3
        summary = await ls.session.summaries.of(function, cursor.language, patience=budget)
        if summary is None:
            return None
        text = (
            "*Still reading this function; hover again in a moment.*"
            if summary == "pending"
            else _text(summary)
        )
        return types.Hover(
            contents=_markup(ls, text),
            range=whole_line(document, function.start, cursor.lines[function.start]),
        )


def _text(summary: Suggestion) -> str:
    confidence = summary.confidence
    badge = BADGES[confidence.tier.value]
    return (
        f"{escape_markdown(summary.text)}\n\n"
        f"{badge['mark']} **{confidence.tier.value}** · {percent(confidence.calibrated)} · "
        f"{tier_words(confidence.tier)}: {escape_markdown(confidence.reason)}\n\n"
        f"*{escape_markdown(summary.model)}, lsp\\-calib*"
    )


def _markup(ls: CalibServer, text: str) -> types.MarkupContent:
    client = ls.client_capabilities.text_document
    formats = (client and client.hover and client.hover.content_format) or [types.MarkupKind.PlainText]
    if types.MarkupKind.Markdown in formats:
        return types.MarkupContent(types.MarkupKind.Markdown, text)
    plain = text.replace("**", "").replace("*", "").replace("\\", "")
    return types.MarkupContent(types.MarkupKind.PlainText, plain)
