"""`textDocument/hover` on a function: its summary, its tier and the meaning of the tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from lsprotocol import types

from lsp_calib.badges import BADGES, tier_words
from lsp_calib.server.convert import cursor_at, escape_markdown, whole_line
from lsp_calib.server.language_server import CalibServer

if TYPE_CHECKING:
    from lsp_calib.values import Suggestion

_PENDING = "The summary is not ready yet: hover again in a moment."


def register(server: CalibServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: CalibServer, params: types.HoverParams) -> types.Hover | None:
        if not ls.settings.hover:
            return None
        from lsp_calib.syntax import function_at

        document = ls.open_document(params.text_document.uri)
        if document is None:
            return None
        cursor = cursor_at(document, params.position)
        function = function_at(cursor.lines, cursor.line, cursor.language)
        if function is None:
            return None
        budget = ls.settings.hover_budget_ms / 1e3
        summary = await ls.session.summaries.of(document.uri, function, cursor.language, patience=budget)
        if summary is None:
            return None
        if summary != "pending":
            ls.session.status.shown(summary)
        return types.Hover(
            contents=_contents(ls, summary),
            range=whole_line(document, function.start, cursor.lines[function.start]),
        )


def _contents(ls: CalibServer, summary: Suggestion | Literal["pending"]) -> types.MarkupContent:
    client = ls.client_capabilities.text_document
    formats = (client and client.hover and client.hover.content_format) or ()
    if types.MarkupKind.Markdown in formats:
        text = _text(summary, escape=escape_markdown, strong="**", emphasis="*")
        return types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.MarkupContent(types.MarkupKind.PlainText, _text(summary, escape=str, strong="", emphasis=""))


def _text(
    summary: Suggestion | Literal["pending"], *, escape: Callable[[str], str], strong: str, emphasis: str
) -> str:
    if summary == "pending":
        return f"{emphasis}{_PENDING}{emphasis}"
    confidence = summary.confidence
    tier = confidence.tier
    return (
        f"{escape(summary.text)}\n\n"
        f"{BADGES[tier.value]['mark']} {strong}{tier.value}{strong} · "
        f"{tier_words(tier)}: {escape(confidence.reason)}\n\n"
        f"{emphasis}{escape(summary.model)}, {escape('lsp-calib')}{emphasis}"
    )
