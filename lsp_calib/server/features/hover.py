"""`textDocument/hover` on a function: its summary, and its tier in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
from lsprotocol import types

from lsp_calib.badges import DOTS
from lsp_calib.markdown import escape_markdown, escape_prose, plain_prose
from lsp_calib.server.language_server import CalibServer

if TYPE_CHECKING:
    from lsp_calib.values import Suggestion

_PENDING = "summarising\N{HORIZONTAL ELLIPSIS} hover again in a moment"
_REPORTED = "You reported this summary as wrong."


@attrs.frozen
class _Style:
    """How a client shows text.

    escape: makes any text safe. prose: the same for a sentence of ours with commands between backticks.
    strong, emphasis: the marks around a text.
    """

    kind: types.MarkupKind
    escape: Callable[[str], str]
    prose: Callable[[str], str]
    strong: str
    emphasis: str


_MARKDOWN = _Style(types.MarkupKind.Markdown, escape_markdown, escape_prose, "**", "*")
_PLAIN = _Style(types.MarkupKind.PlainText, str, plain_prose, "", "")


def register(server: CalibServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: CalibServer, params: types.HoverParams) -> types.Hover | None:
        if not ls.settings.hover:
            return None
        from lsp_calib.server.summary_target import parse, target_at

        document = ls.open_document(params.text_document.uri)
        if document is None:
            return None
        lines = document.bare_lines
        await parse(document)
        if document.bare_lines is not lines:
            return None  # the place was one in the version before
        target = target_at(document, params.position, ls.settings.hover_scope)
        if target is None:
            return None
        summaries = ls.session.summaries
        budget = ls.settings.hover_budget_ms / 1e3
        function, language = target.function, target.language
        summary = await summaries.requests.of(document.uri, function, language, patience=budget)
        # Only now: work ahead on this very function is not stopped but waited for.
        summaries.hovered(document.uri, target.function.start)
        if summary is None:
            return None
        style = _style(ls.client_capabilities)
        if summary == "pending":
            text = _pending(function.name, ls.session.status.waits_for, style)
        else:
            ls.session.status.shown(summary)
            text = _text(summary, style, reported=summaries.edits.is_reported(summary.id))
        return types.Hover(types.MarkupContent(style.kind, text), target.range)


def _style(client: types.ClientCapabilities) -> _Style:
    document = client.text_document
    formats = (document and document.hover and document.hover.content_format) or ()
    return _MARKDOWN if types.MarkupKind.Markdown in formats else _PLAIN


def _pending(name: str, engine: str, style: _Style) -> str:
    """What is known of a summary that is being made. engine: what it waits for, "" if for nothing else."""
    what = f"{style.strong}{style.escape(name)}{style.strong}: " if name else ""
    waits = f"{style.escape(engine)}\n\n" if engine else ""
    return f"{waits}{what}{style.emphasis}{_PENDING}{style.emphasis}"


def _text(summary: Suggestion, style: _Style, *, reported: bool) -> str:
    from lsp_calib.summarization.wording import tier_sentence

    tier, escape = summary.confidence.tier.value, style.escape
    sentence = _REPORTED if reported else tier_sentence(summary.confidence)
    return (
        f"{escape(summary.text)}\n\n"
        f"{DOTS[tier]} {style.strong}{tier}{style.strong}: {style.prose(sentence)}\n\n"
        f"{style.emphasis}{escape(f'{summary.model}, lsp-calib')}{style.emphasis}"
    )
