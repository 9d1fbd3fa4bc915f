"""What pygls' protocol leaves to us: capabilities to match the client's."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from lsprotocol import types
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

from lsp_calib.server.text import CalibWorkspace

# What an editor shows for each tier and for each state that is no answer. Colour first, then words: see
# arXiv 2510.22614 on what developers prefer. The colour names are the twelve of a terminal.
BADGES = {
    "accept": {"mark": "●", "color": "green", "words": "likely right"},
    "review": {"mark": "●", "color": "yellow", "words": "look at it"},
    "reject": {"mark": "●", "color": "red", "words": "likely wrong"},
    "loading": {"mark": "◌", "color": "blue", "words": "loading the model"},
    "busy": {"mark": "◌", "color": "blue", "words": "thinking"},
    "ready": {"mark": "○", "color": "green", "words": "ready"},
    "noModel": {"mark": "✗", "color": "red", "words": "no model"},
    "error": {"mark": "✗", "color": "red", "words": "not working"},
}


class CalibProtocol(LanguageServerProtocol):
    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        self._workspace = CalibWorkspace(
            self.workspace.root_uri,
            self._server._text_document_sync_kind,
            params.workspace_folders or [],
            self.workspace.position_encoding,
        )
        capabilities = result.capabilities
        if not pulls_diagnostics(params.capabilities):
            capabilities.diagnostic_provider = None
        capabilities.experimental = {"lspCalib": {"badges": BADGES}}
        self._server.on_initialize(params, capabilities)  # type: ignore[attr-defined]
        return result


def has_inline_completion(client: types.ClientCapabilities) -> bool:
    document = client.text_document
    return document is not None and document.inline_completion is not None


def pulls_diagnostics(client: types.ClientCapabilities) -> bool:
    """Whether the client pulls diagnostics and can be told to pull again; otherwise they are pushed."""
    document, workspace = client.text_document, client.workspace
    return (
        document is not None
        and document.diagnostic is not None
        and workspace is not None
        and workspace.diagnostics is not None
        and bool(workspace.diagnostics.refresh_support)
    )
