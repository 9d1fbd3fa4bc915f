"""What pygls' protocol leaves to us: line ends, capabilities to match the client's."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any

from lsprotocol import types
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method
from pygls.workspace import PositionCodec, ServerTextPosition, TextDocument, Workspace

# `str.splitlines` ends lines at these too; LSP does not, and neither do editors.
_FOREIGN_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")

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


class CalibDocument(TextDocument):
    """A document whose lines end where LSP says they end."""

    @property
    def lines(self) -> Sequence[str]:
        source = self.source
        if _FOREIGN_ENDS.search(source) is None:
            return tuple(source.splitlines(keepends=True))
        return tuple(_LINES.findall(source))


class CalibCodec(PositionCodec):
    """Beyond the end of a line means that end, as LSP has it; to pygls, the character before it."""

    def position_from_client_units(
        self, lines: Sequence[str], position: types.Position
    ) -> ServerTextPosition:
        if position.line < len(lines):
            most = self.client_num_units(lines[position.line].rstrip("\r\n"))
            position = types.Position(position.line, min(position.character, most))
        return super().position_from_client_units(lines, position)


class CalibWorkspace(Workspace):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._position_codec = CalibCodec(self.position_encoding)

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> TextDocument:
        return CalibDocument(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )


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
