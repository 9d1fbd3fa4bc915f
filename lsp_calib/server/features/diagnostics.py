"""`textDocument/diagnostic`: the diagnostics on inserted suggestions, for clients that pull."""

from __future__ import annotations

from lsprotocol import types

from lsp_calib.server.language_server import CalibServer


def register(server: CalibServer) -> None:
    options = types.DiagnosticOptions(
        identifier="lsp-calib", inter_file_dependencies=False, workspace_diagnostics=False
    )

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    def pull(
        ls: CalibServer, params: types.DocumentDiagnosticParams
    ) -> types.RelatedFullDocumentDiagnosticReport:
        found = ls.session.diagnostics.current(params.text_document.uri)
        return types.RelatedFullDocumentDiagnosticReport(items=found)
