"""Messages as JSON-RPC has them: each request is answered, whatever is in it."""

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

# Longer ones name no method.
_LONGEST_METHOD = 200
# About a document that is open; else there is nothing to be done about them.
_ABOUT_OPEN = {
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_WILL_SAVE,
    types.TEXT_DOCUMENT_DID_SAVE,
    types.TEXT_DOCUMENT_DID_CLOSE,
}


def receive(protocol: CalibProtocol, body: bytes) -> None:
    """Handle the body of one frame. Raises BrokenPipeError if the client is gone."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        _refuse(protocol, None, JsonRpcParseError("The body of the frame is not JSON."))
        return
    take(protocol, data)


def take(protocol: CalibProtocol, data: object) -> None:
    """Handle one message. Raises BrokenPipeError if the client is gone."""
    if not isinstance(data, dict):
        _refuse(protocol, None, JsonRpcInvalidRequest("A message must be one object."))
        return
    identity = data.get("id")
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        identity = None
    # Where nothing is the result, some clients leave it out.
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
            logger.warning("A notification of the editor was ignored: %s", error.message)
    except Exception as error:  # noqa: BLE001 - one message must not end the server
        # Its text may quote the document.
        logger.error("A message could not be handled (%s).", type(error).__name__)
        if "id" in data:
            _refuse(protocol, identity, JsonRpcInternalError("The message could not be handled."))


def _read(protocol: CalibProtocol, data: dict[str, Any]) -> Any:
    """The request or notification; None for one that is to be ignored. Raises JsonRpcException."""
    method = data.get("method")
    if data.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise JsonRpcInvalidRequest('A message needs "jsonrpc": "2.0" and a method.')
    asks = "id" in data
    if asks and (isinstance(data["id"], bool) or not isinstance(data["id"], int | str)):
        raise JsonRpcInvalidRequest("The id of a request must be a number or a text.")
    if not _known(protocol, method):
        if asks:
            raise JsonRpcMethodNotFound.of(method[:_LONGEST_METHOD])
        return None
    _check_order(protocol, method, asks=asks)
    kind = types.METHOD_TO_TYPES.get(method, (None,))[0]
    if kind is None:
        # One of ours. (The converter would make a class for each object in it.)
        if asks:
            return JsonRPCRequestMessage(data["id"], method, "2.0", data.get("params"))
        return JsonRPCNotification(method, "2.0", data.get("params"))
    try:
        message = protocol.structure(data, kind)
    except Exception as error:  # noqa: BLE001 - the converter's hooks raise many kinds
        words = f"The parameters of {method} cannot be read{_where(error)}."
        forget_frames(error)
        raise JsonRpcInvalidParams(words) from None
    if asks and not hasattr(message, "id"):
        raise JsonRpcInvalidRequest(f"{method} is a notification: it has no id.")
    return message if _of_open_document(protocol, method, message.params) else None


def _known(protocol: CalibProtocol, method: str) -> bool:
    features = protocol.fm
    return (
        method == types.CANCEL_REQUEST or method in features.builtin_features or method in features.features
    )


def _check_order(protocol: CalibProtocol, method: str, *, asks: bool) -> None:
    """Raises JsonRpcException for what comes before `initialize` or after `shutdown`."""
    if method == types.EXIT:
        return
    if method == types.INITIALIZE and protocol.initialized:
        raise JsonRpcInvalidRequest("`initialize` can be sent only once.")
    if method != types.INITIALIZE and not protocol.initialized:
        raise JsonRpcServerNotInitialized(f"{method} came before `initialize`.")
    if asks and protocol.shut_down:
        raise JsonRpcInvalidRequest(f"{method} came after `shutdown`.")


def _of_open_document(protocol: CalibProtocol, method: str, params: Any) -> bool:
    """Whether a message can be dealt with: False for news of a document that is not open.

    A document has one name from here on, the one it was opened with, however the client escapes it now.
    """
    named = getattr(params, "text_document", None)
    if named is None or not protocol.initialized:
        return True
    document = protocol.workspace.text_documents.get(unquote(named.uri))
    if document is not None:
        named.uri = document.uri
    elif method in _ABOUT_OPEN:
        logger.warning("%s names a document that is not open; it was ignored.", method)
        return False
    return True


def _take_response(protocol: CalibProtocol, identity: int | str | None, data: dict[str, Any]) -> None:
    """Hand an answer to the request of ours that waits for it; one that cannot be read is an error."""
    if identity is None:
        logger.warning("The editor sent an answer to nothing; it was ignored.")
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
    except Exception as error:  # noqa: BLE001 - the request fails, and nothing else
        logger.warning("An answer of the editor cannot be read%s.", _where(error))
        words = types.ResponseError(JsonRpcInvalidRequest.CODE, "The answer cannot be read.")
        protocol.fail_request(identity, words)
        forget_frames(error)


def _where(error: Exception) -> str:
    """Which fields were wrong, without the values that stood there."""
    try:
        found = [_camel(line.rpartition("@ ")[2]) for line in transform_error(error)]
    except Exception:  # noqa: BLE001 - it was no error of the converter's
        return ""
    return f" ({', '.join(found[:3])})" if found else ""


def _camel(path: str) -> str:
    """A path of fields as they stand on the wire."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), path)


def _refuse(protocol: CalibProtocol, identity: int | str | None, error: JsonRpcException) -> None:
    logger.info("A message of the editor was refused: %s", error.message)
    protocol.refuse(identity, error)
