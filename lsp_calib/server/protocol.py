"""pygls' protocol with capabilities that match the client's, strict types, and no memory of past messages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from lsprotocol import types
from pygls import uris
from pygls.exceptions import FeatureNotificationError, JsonRpcException
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

from lsp_calib.badges import BADGES
from lsp_calib.server.release import forget_frames
from lsp_calib.server.text import CalibWorkspace


class CalibProtocol(LanguageServerProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._strict = True
        # By default the converter turns any value into a string where one is expected.
        self._converter.register_structure_hook(str, self._text)
        self._converter.register_structure_hook(int, self._number)

    @property
    def initialized(self) -> bool:
        """Whether `initialize` has been received."""
        return self._workspace is not None

    @property
    def shut_down(self) -> bool:
        """Whether `shutdown` has been answered."""
        return bool(self._shutdown)

    def structure(self, data: dict[str, Any], kind: Any) -> Any:
        """The message as an object of type `kind`. Raises the converter's error if it does not fit."""
        # `initialize` is read leniently: most of a client's declarations never matter here.
        self._strict = kind is not types.InitializeRequest
        return self._converter.structure(data, kind)

    def refuse(self, identity: int | str | None, error: JsonRpcException) -> None:
        """Answer a request with an error. identity: None if the request had no valid id."""
        answer = {"code": error.code, "message": error.message}
        if error.data is not None:
            answer["data"] = error.data
        self._send_data({"jsonrpc": "2.0", "id": identity, "error": answer})

    def asked(self, identity: int | str | None) -> bool:
        """Whether a request of our own with this id waits for its response."""
        return identity in self._result_types

    def expected_result(self, identity: int | str) -> Any:
        """Remove and return the type of the response to our own request; None if it is not known."""
        return self._result_types.pop(identity, None)

    def fail_request(self, identity: int | str, error: types.ResponseError) -> None:
        """Fail our own request with an error."""
        self._handle_response(identity, None, error)

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        self._workspace = CalibWorkspace(
            self.workspace.root_uri,
            self._server._text_document_sync_kind,
            _folders(params),
            self.workspace.position_encoding,
        )
        capabilities = result.capabilities
        if not pulls_diagnostics(params.capabilities):
            capabilities.diagnostic_provider = None
        capabilities.experimental = {"lspCalib": {"badges": BADGES}}
        self._server.on_initialize(params, capabilities)  # type: ignore[attr-defined]
        return result

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *arguments: Any) -> Generator[Any, Any, None]:
        # Cancelled handlers leave this dictionary at once, while pygls still goes through it.
        for msg_id, future in list(self._request_futures.items()):
            if msg_id != self.msg_id and not future.done():
                future.cancel()
        yield from super().lsp_shutdown(*arguments)

    def _text(self, value: object, kind: type[str]) -> str:
        # Also called for string enumerations; `_number` also for integer enumerations and booleans.
        if kind is str and self._strict and not isinstance(value, str):
            raise TypeError("not a string")
        return kind(value)

    def _number(self, value: Any, kind: type[int]) -> int:
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
        if kind is int and self._strict and not whole:
            raise TypeError("not an integer")
        return kind(value)

    def _execute_handler(
        self,
        msg_id: Any,
        handler: Any,
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super()._execute_handler(msg_id, handler, partial(self._finished, msg_id, callback), args, kwargs)

    def _finished(self, msg_id: Any, callback: Callable[[Any], None], future: Any) -> None:
        """Release a handler that has ended: pygls keeps the futures of all notifications."""
        if self._request_futures.get(msg_id) is future:
            del self._request_futures[msg_id]
        try:
            callback(future)
        finally:
            if not future.cancelled():
                forget_frames(future.exception())

    def _send_handler_result(self, future: Any, *, msg_id: Any) -> None:
        """Answer a request. An expected error (`errors_as_answers`) is an answer; pygls would log it with a
        traceback, as a fault of the server."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, JsonRpcException) and error.code == types.LSPErrorCodes.RequestFailed.value:
            self._request_futures.pop(msg_id, None)
            self.refuse(msg_id, error)
        else:
            super()._send_handler_result(future, msg_id=msg_id)

    def _check_handler_result(self, future: Any) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            message = f"{type(error).__name__}: {error}"
            self._server._report_server_error(JsonRpcException(message), FeatureNotificationError)


def _folders(params: types.InitializeParams) -> Sequence[types.WorkspaceFolder]:
    """The workspace folders of a client; its root if it knows of no folders, such as lsp-mode and vim-lsp."""
    if params.workspace_folders is not None:
        return params.workspace_folders
    root = params.root_uri or (uris.from_fs_path(params.root_path) if params.root_path else None)
    if not root:
        return ()
    return (types.WorkspaceFolder(root, unquote(root).rstrip("/").rpartition("/")[2]),)


def has_inline_completion(client: types.ClientCapabilities) -> bool:
    document = client.text_document
    return document is not None and document.inline_completion is not None


def pulls_diagnostics(client: types.ClientCapabilities) -> bool:
    """Whether the client pulls diagnostics and can be asked to pull again; otherwise they are pushed."""
    document, workspace = client.text_document, client.workspace
    return (
        document is not None
        and document.diagnostic is not None
        and workspace is not None
        and workspace.diagnostics is not None
        and bool(workspace.diagnostics.refresh_support)
    )
