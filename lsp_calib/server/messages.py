"""JSON-RPC messages: each request gets an answer, however malformed it is."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol.json_rpc import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
)

from lsp_calib.server.release import forget_frames

if TYPE_CHECKING:
    from lsp_calib.server.protocol import CalibProtocol

logger = logging.getLogger(__name__)

# No method has a longer name; a longer one is not repeated whole.
_LONGEST_METHOD = 200
# These make sense for open documents only, and are ignored for others.
_ABOUT_OPEN = {
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_WILL_SAVE,
    types.TEXT_DOCUMENT_DID_SAVE,
    types.TEXT_DOCUMENT_DID_CLOSE,
}


def receive(protocol: CalibProtocol, body: bytes) -> None:
    """Handle the body of one frame. Raises BrokenPipeError if the client has disconnected."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        _refuse(protocol, None, JsonRpcParseError("The body of the frame is not JSON."))
        return
    take(protocol, data)


def take(protocol: CalibProtocol, data: object) -> None:
    """Handle one message. Raises BrokenPipeError if the client has disconnected."""
    if not isinstance(data, dict):
        _refuse(protocol, None, JsonRpcInvalidRequest("A message must be one object."))
        return
    identity = data.get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        identity = None
    # Some clients leave out a result that is null.
    if "method" not in data and ("result" in data or "error" in data or protocol.asked(identity)):
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
            _refuse(protocol, identity, error)
        else:
            logger.warning("Ignored a notification of the editor: %s", error.message)
    except Exception as error:  # noqa: BLE001 - one message must not end the server
        # Only the type is logged: the error's text may quote the document.
        logger.error("Handling a message failed with %s.", type(error).__name__)
        if "id" in data:
            _refuse(protocol, identity, JsonRpcInternalError("Handling the message failed."))


def _read(protocol: CalibProtocol, data: dict[str, Any]) -> Any:
    """The request or notification; None if it must be ignored. Raises JsonRpcException."""
    method = data.get("method")
    if data.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise JsonRpcInvalidRequest('A message must have "jsonrpc": "2.0" and a method.')
    asks = "id" in data
    if asks and (isinstance(data["id"], bool) or not isinstance(data["id"], int | str)):
        raise JsonRpcInvalidRequest("The id of a request must be a number or a string.")
    if not _known(protocol, method):
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


def _known(protocol: CalibProtocol, method: str) -> bool:
    features = protocol.fm
    return (
        method == types.CANCEL_REQUEST or method in features.builtin_features or method in features.features
    )


def _check_order(protocol: CalibProtocol, method: str, *, asks: bool) -> None:
    """Raises JsonRpcException for a message before `initialize`, or a request after `shutdown`."""
    if method == types.EXIT:
        return
    if method == types.INITIALIZE and protocol.initialized:
        raise JsonRpcInvalidRequest("`initialize` may be sent only once.")
    if method != types.INITIALIZE and not protocol.initialized:
        raise JsonRpcServerNotInitialized(f"{method} was sent before `initialize`.")
    if asks and protocol.shut_down:
        raise JsonRpcInvalidRequest(f"{method} was sent after `shutdown`.")


def _of_open_document(protocol: CalibProtocol, method: str, params: Any) -> bool:
    """False for a notification about a document that is not open.

    Replaces the document's URI by the one with which it was opened: clients escape one URI in several ways.
    """
    named = getattr(params, "text_document", None)
    if named is None or not protocol.initialized:
        return True
    document = protocol.workspace.text_documents.get(unquote(named.uri))
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
    kind = protocol.expected_result(identity)
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
        protocol.fail_request(identity, failure)
        forget_frames(error)


def _where(error: Exception) -> str:
    """Which fields were wrong, without their values."""
    try:
        found = [_camel(line.rpartition("@ ")[2]) for line in transform_error(error)]
    except Exception:  # noqa: BLE001 - the error is not the converter's
        return ""
    return f" ({', '.join(found[:3])})" if found else ""


def _camel(path: str) -> str:
    """A path of fields in the spelling of the wire."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), path)


def _refuse(protocol: CalibProtocol, identity: int | str | None, error: JsonRpcException) -> None:
    logger.info("Refused a message of the editor: %s", error.message)
    protocol.refuse(identity, error)
