"""JSON-RPC messages: each request gets an answer, however malformed it is."""

from __future__ import annotations

import enum
import json
import logging
import re
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from cattrs import transform_error
from lsprotocol import types
from pygls import uris
from pygls.capabilities import get_capability
from pygls.exceptions import (
    FeatureNotificationError,
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage
from pygls.protocol.language_server import lsp_method

from lsp_calib.badges import BADGES
from lsp_calib.errors import LspCalibError
from lsp_calib.server.streams import Newest, Outgoing
from lsp_calib.server.text import CalibWorkspace

# No error has a longer chain of causes; a circular one ends here.
_DEEPEST = 16


def forget_frames(error: BaseException | None, depth: int = 0) -> None:
    """Remove the traceback of an error that has been handled, and those of its causes."""
    if error is None or depth > _DEEPEST:
        return
    error.__traceback__ = None
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        forget_frames(other, depth + 1)


class CalibProtocol(LanguageServerProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._newest: Newest | None = None
        self._strict = True
        # By default the converter turns any value into a string where one is expected.
        self._converter.register_structure_hook(str, self._text)
        self._converter.register_structure_hook(int, self._number)

    def send_to(self, outgoing: Outgoing) -> None:
        """Send all messages there from now on."""
        self.set_writer(outgoing)
        self._newest = Newest(outgoing)

    def notify(self, method: str, params: Any | None = None) -> None:
        """Send a notification; while the client does not read, a newer one of a state replaces it."""
        send = partial(super().notify, method, params)
        kind = _state_in(method, params)
        if kind is None or self._newest is None:
            send()
        elif isinstance(
            getattr(params, "value", None), types.WorkDoneProgressBegin | types.WorkDoneProgressEnd
        ):
            self._newest.drop(kind)
            send()
        else:
            self._newest.send(kind, send)

    def structure(self, data: dict[str, Any], kind: Any) -> Any:
        """The message as an object of type `kind`. Raises the converter's error if it does not fit."""
        # `initialize` is read leniently: most of a client's declarations never matter here.
        self._strict = kind is not types.InitializeRequest
        return self._converter.structure(data, kind)

    def refuse(self, identity: int | str | None, error: JsonRpcException) -> None:
        """Answer a request with an error. identity: None if the request had no valid id."""
        logger.info("Refused a message of the editor: %s", error.message)
        answer = {"code": error.code, "message": error.message}
        if error.data is not None:
            answer["data"] = error.data
        self._send_data({"jsonrpc": "2.0", "id": identity, "error": answer})

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

    def _text(self, value: object, kind: type[str]) -> Any:
        # Also called for string enumerations; `_number` also for integer enumerations and booleans.
        if kind is str and self._strict and not isinstance(value, str):
            raise TypeError("not a string")
        return self._of_kind(value, kind)

    def _number(self, value: Any, kind: type[int]) -> Any:
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
        if kind is int and self._strict and not whole:
            raise TypeError("not an integer")
        return self._of_kind(value, kind)

    def _of_kind(self, value: Any, kind: type[Any]) -> Any:
        try:
            return kind(value)
        except ValueError:
            if self._strict or not issubclass(kind, enum.Enum):
                raise
            return value  # a newer client names what this version of the protocol does not know

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

    def _run_generator(self, future: Any, *, gen: Generator[Any, Any, Any], result_future: Any) -> None:
        # A part is cancelled at the end of the connection; pygls would raise that in the event loop.
        if future is not None and future.cancelled():
            gen.close()
            result_future.cancel()
        else:
            super()._run_generator(future, gen=gen, result_future=result_future)

    def _send_handler_result(self, future: Any, *, msg_id: Any) -> None:
        """Answer a request. An expected error is an answer with its message; pygls would log it with a
        traceback, as a fault of the server."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, LspCalibError):
            self._request_futures.pop(msg_id, None)
            self.refuse(msg_id, JsonRpcException(str(error), types.LSPErrorCodes.RequestFailed.value))
        else:
            super()._send_handler_result(future, msg_id=msg_id)

    def _check_handler_result(self, future: Any) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            message = f"{type(error).__name__}: {error}"
            self._server._report_server_error(JsonRpcException(message), FeatureNotificationError)


def _state_in(method: str, params: Any) -> Hashable | None:
    """The state that a notification gives whole, so that a newer one replaces it; None if it gives none."""
    match method:
        case "lsp-calib/status":
            return method
        case types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS:
            return method, params.uri
        case types.PROGRESS:
            return method, params.token
    return None


def _folders(params: types.InitializeParams) -> Sequence[types.WorkspaceFolder]:
    """The workspace folders of a client; its root if it knows of no folders, such as lsp-mode and vim-lsp."""
    if params.workspace_folders is not None:
        return params.workspace_folders
    root = params.root_uri or (uris.from_fs_path(params.root_path) if params.root_path else None)
    if not root:
        return ()
    return (types.WorkspaceFolder(root, unquote(root).rstrip("/").rpartition("/")[2]),)


def has_inline_completion(client: types.ClientCapabilities) -> bool:
    return get_capability(client, "text_document.inline_completion") is not None


def pulls_diagnostics(client: types.ClientCapabilities) -> bool:
    """Whether the client pulls diagnostics and can be asked to pull again; otherwise they are pushed."""
    pulls = get_capability(client, "text_document.diagnostic") is not None
    return pulls and bool(get_capability(client, "workspace.diagnostics.refresh_support"))


logger = logging.getLogger(__name__)

# No method has a longer name; a longer one is not repeated whole.
_LONGEST_METHOD = 200
# These make sense for open documents only, and are ignored for others.
_ABOUT_OPEN = {
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_WILL_SAVE,
    types.TEXT_DOCUMENT_DID_SAVE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_SAVE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
}


def receive(protocol: CalibProtocol, body: bytes) -> None:
    """Handle the body of one frame. Raises BrokenPipeError if the client has disconnected."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        protocol.refuse(None, JsonRpcParseError("The body of the frame is not JSON."))
        return
    take(protocol, data)


def take(protocol: CalibProtocol, data: object) -> None:
    """Handle one message. Raises BrokenPipeError if the client has disconnected."""
    if not isinstance(data, dict):
        protocol.refuse(None, JsonRpcInvalidRequest("A message must be one object."))
        return
    identity = data.get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        identity = None
    # Some clients leave out a result that is null.
    if "method" not in data and ("result" in data or "error" in data or identity in protocol._result_types):
        _take_response(protocol, identity, data)
        return
    try:
        message = _read(protocol, data)
        if message is not None:
            protocol.handle_message(message)
    except BrokenPipeError:
        raise
    except JsonRpcException as error:
        if "id" in data or isinstance(error, JsonRpcInvalidRequest):
            protocol.refuse(identity, error)
        else:
            logger.warning("Ignored a notification of the editor: %s", error.message)
    except Exception as error:  # noqa: BLE001 - one message must not end the server
        # Only the type is logged: the error's text may quote the document.
        logger.error("Handling a message failed with %s.", type(error).__name__)
        if "id" in data:
            protocol.refuse(identity, JsonRpcInternalError("Handling the message failed."))


def _read(protocol: CalibProtocol, data: dict[str, Any]) -> Any:
    """The request or notification; None if it must be ignored. Raises JsonRpcException."""
    method = data.get("method")
    if data.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise JsonRpcInvalidRequest('A message must have "jsonrpc": "2.0" and a method.')
    asks = "id" in data
    if asks and (isinstance(data["id"], bool) or not isinstance(data["id"], int | str)):
        raise JsonRpcInvalidRequest("The id of a request must be a number or a string.")
    known = protocol.fm.builtin_features, protocol.fm.features
    if method != types.CANCEL_REQUEST and not any(method in features for features in known):
        if asks:
            raise JsonRpcMethodNotFound.of(method[:_LONGEST_METHOD])
        return None
    _check_order(protocol, method, asks=asks)
    kind = types.METHOD_TO_TYPES.get(method, (None,))[0]
    if kind is None:
        # A method of our own. The converter would create a class for each object in it.
        if asks:
            return JsonRPCRequestMessage(data["id"], method, "2.0", data.get("params"))
        return JsonRPCNotification(method, "2.0", data.get("params"))
    try:
        message = protocol.structure(data, kind)
    except Exception as error:  # noqa: BLE001 - the converter's hooks raise many kinds
        message_text = f"The parameters of {method} are invalid{_where(error)}."
        forget_frames(error)
        raise JsonRpcInvalidParams(message_text) from None
    if asks and not hasattr(message, "id"):
        raise JsonRpcInvalidRequest(f"{method} is a notification and must not have an id.")
    return message if _of_open_document(protocol, method, message.params) else None


def _check_order(protocol: CalibProtocol, method: str, *, asks: bool) -> None:
    """Raises JsonRpcException for a message before `initialize`, or a request after `shutdown`."""
    if method == types.EXIT:
        return
    if method == types.INITIALIZE and protocol._workspace is not None:
        raise JsonRpcInvalidRequest("`initialize` may be sent only once.")
    if method != types.INITIALIZE and protocol._workspace is None:
        raise JsonRpcServerNotInitialized(f"{method} was sent before `initialize`.")
    if asks and protocol._shutdown:
        raise JsonRpcInvalidRequest(f"{method} was sent after `shutdown`.")


def _of_open_document(protocol: CalibProtocol, method: str, params: Any) -> bool:
    """False for a notification about a document or a notebook that is not open.

    Replaces the document's URI by the one with which it was opened: clients escape one URI in several ways.
    """
    if protocol._workspace is None:
        return True
    documents: Mapping[str, Any] = protocol.workspace.text_documents
    named = getattr(params, "text_document", None)
    if named is None:
        documents = protocol.workspace.notebook_documents
        named = getattr(params, "notebook_document", None)
    if named is None:
        return True
    document = documents.get(unquote(named.uri))
    if document is not None:
        named.uri = document.uri
    elif method in _ABOUT_OPEN:
        logger.warning("Ignored %s: its document is not open.", method)
        return False
    return True


def _take_response(protocol: CalibProtocol, identity: int | str | None, data: dict[str, Any]) -> None:
    """Resolve our own request that waits for this response; a malformed response fails it."""
    if identity is None:
        logger.warning("Ignored a response of the editor without a valid id.")
        return
    kind = protocol._result_types.pop(identity, None)
    try:
        if "error" in data:
            answer = protocol.structure(data, types.ResponseErrorMessage)
        elif kind is None:
            answer = JsonRPCResponseMessage(identity, "2.0", data.get("result"))
        else:
            answer = protocol.structure({"result": None, **data}, kind)
        protocol.handle_message(answer)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - only the request fails
        logger.warning("A response of the editor is invalid%s.", _where(error))
        failure = types.ResponseError(JsonRpcInvalidRequest.CODE, "The response is invalid.")
        protocol._handle_response(identity, None, failure)
        forget_frames(error)


def _where(error: Exception) -> str:
    """Which fields were wrong, without their values."""
    try:
        paths = [line.rpartition("@ ")[2] for line in transform_error(error)]
    except Exception:  # noqa: BLE001 - the error is not the converter's
        return ""
    # In the spelling of the wire.
    found = [re.sub(r"_([a-z])", lambda match: match[1].upper(), path) for path in paths[:3]]
    return f" ({', '.join(found)})" if found else ""
