"""What editors do with documents and notebooks, the source of all labels; diagnostics that clients pull."""

from __future__ import annotations

from lsprotocol import types

from lsp_calib.server.app import CalibServer


def register(server: CalibServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: CalibServer, params: types.DidOpenTextDocumentParams) -> None:
        ls.session.documents.opened(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: CalibServer, params: types.DidChangeTextDocumentParams) -> None:
        ls.session.documents.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    def will_save(ls: CalibServer, params: types.WillSaveTextDocumentParams) -> None:
        ls.session.documents.save_begins(params.text_document.uri, params.reason)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: CalibServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.session.documents.saved(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: CalibServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.session.documents.closed(params.text_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_opened(ls: CalibServer, params: types.DidOpenNotebookDocumentParams) -> None:
        ls.session.completions.forget(params.notebook_document.uri)
        # The first cell last: there the user begins.
        for cell in reversed(params.cell_text_documents):
            ls.session.documents.opened(cell.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_changed(ls: CalibServer, params: types.DidChangeNotebookDocumentParams) -> None:
        cells = params.change.cells
        if cells is None:
            return
        if cells.structure is not None:
            for one in cells.structure.did_close or ():
                ls.session.documents.closed(one.uri)
            for cell in cells.structure.did_open or ():
                ls.session.documents.opened(cell.uri)
        for text in cells.text_content or ():
            ls.session.documents.changed(text.document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def notebook_saved(ls: CalibServer, params: types.DidSaveNotebookDocumentParams) -> None:
        for document in ls.open_documents():
            if document.notebook is not None and document.notebook.uri == params.notebook_document.uri:
                ls.session.documents.saved(document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_closed(ls: CalibServer, params: types.DidCloseNotebookDocumentParams) -> None:
        for cell in params.cell_text_documents:
            ls.session.documents.closed(cell.uri)
        ls.session.documents.notebook_closed(params.notebook_document.uri)
        ls.session.completions.forget(params.notebook_document.uri)

    options = types.DiagnosticOptions(
        identifier="lsp-calib", inter_file_dependencies=False, workspace_diagnostics=False
    )

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    def pull(
        ls: CalibServer, params: types.DocumentDiagnosticParams
    ) -> types.RelatedFullDocumentDiagnosticReport:
        found = ls.session.diagnostics.current(params.text_document.uri)
        return types.RelatedFullDocumentDiagnosticReport(items=found)
