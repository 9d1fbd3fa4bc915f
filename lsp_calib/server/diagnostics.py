"""Diagnostics on inserted suggestions: pulled where the client pulls, else pushed, never both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.badges import tier_words
from lsp_calib.server.app import CalibServer
from lsp_calib.server.convert import whole_line
from lsp_calib.server.protocol import pulls_diagnostics
from lsp_calib.server.text import CalibDocument
from lsp_calib.settings import Settings

if TYPE_CHECKING:
    from lsp_calib.values import Suggestion

SOURCE = "lsp-calib"

_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


def register(server: CalibServer) -> None:
    options = types.DiagnosticOptions(
        identifier=SOURCE, inter_file_dependencies=False, workspace_diagnostics=False
    )

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    def pull(
        ls: CalibServer, params: types.DocumentDiagnosticParams
    ) -> types.RelatedFullDocumentDiagnosticReport:
        return types.RelatedFullDocumentDiagnosticReport(items=current(ls, params.text_document.uri))


def current(ls: CalibServer, uri: str) -> list[types.Diagnostic]:
    """The diagnostics of a document as it is now."""
    if not ls.settings.diagnostics:
        return []
    document = ls.open_document(uri)
    if document is None:
        return []
    lines = document.bare_lines
    found = (
        _diagnostic(ls.settings, document, line, lines[line], suggestion)
        for line, suggestion in ls.session.documents.inserted(uri)
        if line < len(lines)
    )
    return [diagnostic for diagnostic in found if diagnostic is not None]


def refresh(ls: CalibServer, uri: str) -> None:
    """Tell the client that the diagnostics of a document may have changed."""
    if pulls_diagnostics(ls.client_capabilities):
        ls.workspace_diagnostic_refresh(None)
    else:
        params = types.PublishDiagnosticsParams(uri=uri, diagnostics=current(ls, uri))
        ls.text_document_publish_diagnostics(params)


def _diagnostic(
    settings: Settings, document: CalibDocument, line: int, text: str, suggestion: Suggestion
) -> types.Diagnostic | None:
    confidence = suggestion.confidence
    severity = {
        "accept": settings.severity_accept,
        "review": settings.severity_review,
        "reject": settings.severity_reject,
    }[confidence.tier.value]
    if severity == "off":
        return None
    return types.Diagnostic(
        range=whole_line(document, line, text),
        message=f"{tier_words(confidence.tier)}: {confidence.reason}",
        severity=_SEVERITY[severity],
        code=confidence.tier.value,
        source=SOURCE,
        data={"id": suggestion.id},
    )
