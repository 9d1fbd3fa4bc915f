"""Documents that are opened, changed, saved and closed: the source of all labels."""

from __future__ import annotations

from lsprotocol import types

from lsp_calib.server.language_server import CalibServer


def register(server: CalibServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: CalibServer, params: types.DidOpenTextDocumentParams) -> None:
        ls.session.document_opened(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: CalibServer, params: types.DidChangeTextDocumentParams) -> None:
        ls.session.document_changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    def will_save(ls: CalibServer, params: types.WillSaveTextDocumentParams) -> None:
        ls.session.bulk_changes.will_save(params.text_document.uri)
        ls.session.suggestions.tracking.will_save(params.text_document.uri, params.reason)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: CalibServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.session.bulk_changes.saved(params.text_document.uri)
        if ls.session.suggestions.tracking.saved(params.text_document.uri):
            ls.session.line_replay.saved(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: CalibServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.session.document_closed(params.text_document.uri)
