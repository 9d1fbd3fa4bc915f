"""What the services of a connection need of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from lsprotocol import types
from pygls.progress import Progress
from pygls.workspace import Workspace

from lsp_calib.inference.engine import Engine, StateListener
from lsp_calib.server.protocol import CalibProtocol
from lsp_calib.server.text import CalibDocument
from lsp_calib.settings import Settings, Trusted


class Connection(Protocol):
    """The part of a connection that its session uses.

    settings: those in force now. problems: sentences about wrong settings, not yet shown to the user.
    """

    settings: Settings
    trusted: Trusted
    problems: list[str]
    over_tcp: bool
    protocol: CalibProtocol
    make_engine: Callable[[StateListener], Engine]

    @property
    def client_capabilities(self) -> types.ClientCapabilities: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def work_done_progress(self) -> Progress: ...

    def open_document(self, uri: str) -> CalibDocument | None: ...

    def open_documents(self) -> list[CalibDocument]: ...

    def window_show_message(self, params: types.ShowMessageParams) -> None: ...

    def window_log_message(self, params: types.LogMessageParams) -> None: ...

    def window_show_document_async(
        self, params: types.ShowDocumentParams
    ) -> Awaitable[types.ShowDocumentResult]: ...

    def window_show_message_request_async(
        self, params: types.ShowMessageRequestParams
    ) -> Awaitable[types.MessageActionItem | None]: ...
    def workspace_apply_edit_async(
        self, params: types.ApplyWorkspaceEditParams
    ) -> Awaitable[types.ApplyWorkspaceEditResult]: ...

    def workspace_code_lens_refresh(self, params: None) -> object: ...

    def workspace_diagnostic_refresh(self, params: None) -> object: ...

    def text_document_publish_diagnostics(self, params: types.PublishDiagnosticsParams) -> None: ...
