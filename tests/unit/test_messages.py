"""Responses of a client to requests of the server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from lsp_calib.server.language_server import CalibServer
from lsp_calib.server.main import create_server
from lsp_calib.server.messages import receive


class Sink:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data.partition(b"\r\n\r\n")[2]))


@pytest.fixture
def server() -> CalibServer:
    server = create_server()
    server.protocol.set_writer(Sink())  # type: ignore[arg-type]
    return server


def ask(server: CalibServer, method: str, params: object = None) -> tuple[Any, Any]:
    """(id, future of the response) of a request to the client."""
    future = server.protocol.send_request(method, params)
    return server.protocol.writer.sent[-1]["id"], future  # type: ignore[union-attr]


def answer(server: CalibServer, **fields: Any) -> None:
    receive(server.protocol, json.dumps({"jsonrpc": "2.0", **fields}).encode())


@pytest.mark.parametrize("fields", [{"result": None}, {}])
def test_a_null_result_may_be_left_out(server: CalibServer, fields: dict[str, Any]) -> None:
    """Clients in Lua cannot distinguish a null field from a missing one."""
    identity, future = ask(server, types.WORKSPACE_DIAGNOSTIC_REFRESH)
    answer(server, id=identity, **fields)
    assert future.done()
    assert future.result() is None


@pytest.mark.parametrize("fields", [{"result": 7}, {"error": 7}, {"error": {"code": "x"}}])
def test_an_invalid_response_is_a_failure(server: CalibServer, fields: dict[str, Any]) -> None:
    """The request fails at once instead of waiting."""
    params = types.ConfigurationParams([types.ConfigurationItem(section="lspCalib")])
    identity, future = ask(server, types.WORKSPACE_CONFIGURATION, params)
    answer(server, id=identity, **fields)
    assert future.done()
    with pytest.raises(JsonRpcException):
        future.result()


def test_an_error_is_a_failure(server: CalibServer) -> None:
    identity, future = ask(server, types.WORKSPACE_DIAGNOSTIC_REFRESH)
    answer(server, id=identity, error={"code": -32601, "message": "not known here"})
    with pytest.raises(JsonRpcException, match="not known here"):
        future.result()


def test_strict_reading_keeps_types_apart(server: CalibServer) -> None:
    """Enumerations and booleans keep their types; a number is not a string."""
    data = {"textDocument": {"uri": "untitled:1"}, "reason": 2}
    kind = types.WillSaveTextDocumentParams
    assert server.protocol.structure(data, kind).reason is types.TextDocumentSaveReason.AfterDelay
    workspace = server.protocol.structure({"configuration": True}, types.WorkspaceClientCapabilities)
    assert workspace.configuration is True
    place = {"line": 1.0, "character": 0}
    assert server.protocol.structure(place, types.Position) == types.Position(1, 0)
    for wrong in ({**place, "line": "1"}, {**place, "line": True}, {**place, "line": 1.5}):
        with pytest.raises(Exception, match="Position"):
            server.protocol.structure(wrong, types.Position)
    with pytest.raises(Exception, match="TextDocumentIdentifier"):
        server.protocol.structure({"uri": 7}, types.TextDocumentIdentifier)
