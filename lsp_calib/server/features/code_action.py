"""`textDocument/codeAction`: insert the summary of a function, make it again, report it; mark as reviewed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from lsp_calib.server.diagnostics import SOURCE
from lsp_calib.server.language_server import CalibServer
from lsp_calib.values import is_suggestion_id

if TYPE_CHECKING:
    from lsp_calib.server.text import CalibDocument

# Lines that are parsed in a few milliseconds.
_LONG = 1_000
_KINDS = (types.CodeActionKind.RefactorRewrite, types.CodeActionKind.QuickFix)


def register(server: CalibServer) -> None:
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
            *(_summaries(ls, document, params) if await ls.session.admits(uri) else ()),
        ]
        wanted = [one for one in offered if only is None or any(_is_of(one.kind, kind) for kind in only)]
        # Clients from before code actions had kinds take commands.
        return [one if _takes_actions(ls) else one.command for one in wanted if one.command]


def _summaries(
    ls: CalibServer, document: CalibDocument, params: types.CodeActionParams
) -> list[types.CodeAction]:
    if not ls.settings.hover:
        return []
    from lsp_calib.server.summary_edits import applies_edits
    from lsp_calib.server.summary_target import function_around
    from lsp_calib.summarization.insertion import may_insert, noun

    start = params.range.start
    ls.session.summaries.ahead.moved(params.text_document.uri, start.line)
    by_hand = params.context.trigger_kind is not types.CodeActionTriggerKind.Automatic
    # Editors ask at each movement of the cursor: a long document is not parsed anew for that.
    lines = document.bare_lines
    if not by_hand and len(lines) > _LONG and document.functions_of(lines) is None:
        return []
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
    known = ls.session.summaries.requests.known(params.text_document.uri, function, language)
    if known is not None:
        offered.append(_action("Regenerate summary", "regenerateSummary", argument))
        if not ls.session.summaries.edits.is_reported(known.suggestion.id):
            offered.append(_action("Report summary as wrong", "reportSummary", argument))
    return offered


def _reviews(diagnostics: Sequence[types.Diagnostic]) -> Iterator[types.CodeAction]:
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


def _takes_actions(ls: CalibServer) -> bool:
    document = ls.client_capabilities.text_document
    return bool(document and document.code_action and document.code_action.code_action_literal_support)
