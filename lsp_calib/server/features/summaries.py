"""Summaries of functions: hovers, code lenses and code actions, which also mark a suggestion as reviewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from lsprotocol import types
from pygls.capabilities import get_capability

from lsp_calib.badges import DOTS, tier_sentence, tier_words
from lsp_calib.characters import shown
from lsp_calib.markdown import escape_markdown, escape_prose, plain_prose
from lsp_calib.server.app import CalibServer
from lsp_calib.values import is_suggestion_id

if TYPE_CHECKING:
    from lsp_calib.server.text import CalibDocument
    from lsp_calib.values import Suggestion

_PENDING = "summarising\N{HORIZONTAL ELLIPSIS} hover again in a moment"
_REPORTED = "You reported this summary as wrong."


_Write = Callable[[str], str]


@attrs.frozen
class _Style:
    """How a client shows text.

    escape: makes any text safe. prose: the same for a sentence of ours with commands between backticks.
    strong, emphasis: the marks around a text.
    """

    kind: types.MarkupKind
    escape: _Write
    prose: _Write
    strong: str
    emphasis: str


_MARKDOWN = _Style(types.MarkupKind.Markdown, escape_markdown, escape_prose, "**", "*")
_PLAIN = _Style(types.MarkupKind.PlainText, shown, plain_prose, "", "")

_UNKNOWN = "\N{WHITE CIRCLE} summarise"
# An editor asks after each pause in typing: a file of generated functions would be a megabyte each time.
_MOST = 500
# Characters of a document that is worth parsing for it.
_LARGEST = 200_000

# Lines that are parsed in a few milliseconds.
_LONG = 1_000
_KINDS = (types.CodeActionKind.RefactorRewrite, types.CodeActionKind.QuickFix)


def register(server: CalibServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(ls: CalibServer, params: types.HoverParams) -> types.Hover | None:
        if not ls.settings.hover:
            return None
        from lsp_calib.server.summary_requests import parse, target_at

        document = ls.open_document(params.text_document.uri)
        if document is None:
            return None
        edits = document.edits
        await parse(*document.cells)
        if document.edits != edits:
            return None  # the place was one in the version before
        target = target_at(document, params.position)
        if target is None:
            return None
        summaries = ls.session.summaries
        function = target.function
        summary = await summaries.requests.of(target, patience=ls.client_traits.hover_patience)
        # Only now: work ahead on this very function is not stopped but waited for.
        summaries.hovered(target.document.uri, function.start)
        if summary is None:
            return None
        style = _style(ls.client_capabilities)
        if summary == "pending":
            text = _pending(function.name, ls.session.status.waits_for, style)
        else:
            ls.session.status.shown(summary)
            text = _text(summary, style, reported=summaries.is_reported(summary.id))
        return types.Hover(types.MarkupContent(style.kind, text), target.range)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def lenses(ls: CalibServer, params: types.CodeLensParams) -> list[types.CodeLens] | None:
        """Shows what is known, and makes nothing: a click does."""
        if not ls.settings.code_lens:
            return None
        from lsp_calib.server.summary_requests import Target, functions_of, parse

        uri = params.text_document.uri
        document = ls.open_document(uri)
        if document is None or not await ls.session.admission.admits(document):
            return None
        if sum(map(len, document.bare_lines)) > _LARGEST:
            return None
        await parse(document)
        found = []
        for function in functions_of(document)[:_MOST]:
            target = Target.at_its_heading(document, function)
            known, place = ls.session.summaries.requests.known(target), target.range
            start = {"line": place.start.line, "character": place.start.character}
            title = _UNKNOWN if known is None else _title(known.suggestion)
            command = types.Command(
                title, "lsp-calib.showSummary", arguments=[{"uri": uri, "position": start}]
            )
            found.append(types.CodeLens(place, command))
        return found

    options = types.CodeActionOptions(code_action_kinds=list(_KINDS))

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    async def actions(
        ls: CalibServer, params: types.CodeActionParams
    ) -> list[types.CodeAction | types.Command] | None:
        """Asks no model: editors request actions at each movement of the cursor."""
        uri = params.text_document.uri
        document = ls.open_document(uri)
        if document is None:
            return None
        only = params.context.only
        offered = [
            *_reviews(params.context.diagnostics),
            *(await _summaries(ls, document, params) if await ls.session.admission.admits(document) else ()),
        ]
        wanted = [one for one in offered if only is None or any(_is_of(one.kind, kind) for kind in only)]
        # Clients from before code actions had kinds take commands.
        client = ls.client_capabilities
        takes = get_capability(client, "text_document.code_action.code_action_literal_support") is not None
        return [one if takes else one.command for one in wanted if one.command]


def _style(client: types.ClientCapabilities) -> _Style:
    formats = get_capability(client, "text_document.hover.content_format") or ()
    return _MARKDOWN if types.MarkupKind.Markdown in formats else _PLAIN


def _pending(name: str, engine: str, style: _Style) -> str:
    """What is known of a summary that is being made. engine: what it waits for, "" if for nothing else."""
    what = f"{style.strong}{style.escape(name)}{style.strong}: " if name else ""
    waits = f"{style.escape(engine)}\n\n" if engine else ""
    return f"{waits}{what}{style.emphasis}{_PENDING}{style.emphasis}"


def _text(summary: Suggestion, style: _Style, *, reported: bool) -> str:
    tier, escape = summary.confidence.tier, style.escape
    words = tier_words(tier)
    notes = "".join(f"{style.prose(note)}\n\n" for note in summary.confidence.notes)
    sentence = _REPORTED if reported else tier_sentence(summary.confidence)
    return (
        f"{escape(summary.text)}\n\n"
        f"{DOTS[tier.value]} {style.strong}{words}{style.strong}: {style.prose(sentence)}\n\n"
        f"{notes}"
        f"{style.emphasis}{escape(f'{summary.model}, lsp-calib')}{style.emphasis}"
    )


def _title(summary: Suggestion) -> str:
    tier = summary.confidence.tier
    return f"{DOTS[tier.value]} {summary.text} ({tier_words(tier).lower()})"


async def _summaries(
    ls: CalibServer, document: CalibDocument, params: types.CodeActionParams
) -> list[types.CodeAction]:
    if not ls.settings.hover:
        return []
    from lsp_calib.server.summaries import applies_edits
    from lsp_calib.server.summary_requests import function_around, parse
    from lsp_calib.summarization.insertion import may_insert, noun

    start = params.range.start
    ls.session.summaries.moved(params.text_document.uri, start.line)
    by_hand = params.context.trigger_kind is not types.CodeActionTriggerKind.Automatic
    # Editors ask at each movement of the cursor: a long document is not parsed anew for that.
    lines, edits = document.bare_lines, document.edits
    if not by_hand and len(lines) > _LONG and document.functions_of(lines) is None:
        return []
    await parse(document)
    if document.edits != edits:
        return []  # the place was one in the version before
    target = function_around(document, start)
    if target is None:
        return []
    function, language = target.function, target.language
    # A light bulb at each line of a body would be noise: there the user has to ask.
    if not by_hand and not function.start <= start.line < function.signature_end:
        return []
    offered = []
    argument = {
        "uri": params.text_document.uri,
        "position": {"line": start.line, "character": start.character},
    }
    if may_insert(function, language) and applies_edits(ls.client_capabilities):
        offered.append(_action(f"Insert summary as {noun(language)}", "insertSummary", argument))
    known = ls.session.summaries.requests.known(target)
    if known is not None:
        offered.append(_action("Regenerate summary", "regenerateSummary", argument))
        if not ls.session.summaries.is_reported(known.suggestion.id):
            offered.append(_action("Report summary as wrong", "reportSummary", argument))
    return offered


def _reviews(diagnostics: Sequence[types.Diagnostic]) -> Iterator[types.CodeAction]:
    from lsp_calib.server.tracking import SOURCE

    for one in diagnostics:
        identity = one.data.get("id") if isinstance(one.data, dict) else None
        if one.source == SOURCE and is_suggestion_id(identity):
            kind = types.CodeActionKind.QuickFix
            yield _action("Mark suggestion as reviewed", "markReviewed", {"id": identity}, kind, [one])


def _action(
    title: str,
    command: str,
    argument: dict[str, Any],
    kind: types.CodeActionKind = types.CodeActionKind.RefactorRewrite,
    diagnostics: list[types.Diagnostic] | None = None,
) -> types.CodeAction:
    return types.CodeAction(
        title,
        kind=kind,
        diagnostics=diagnostics,
        command=types.Command(title, f"lsp-calib.{command}", arguments=[argument]),
    )


def _is_of(kind: types.CodeActionKind | str | None, wanted: types.CodeActionKind | str) -> bool:
    """Whether a kind is the wanted one or a part of it; all are parts of the empty one."""
    one, other = (str(getattr(name, "value", name)) for name in (kind, wanted))
    return not other or f"{one}.".startswith(f"{other}.")
