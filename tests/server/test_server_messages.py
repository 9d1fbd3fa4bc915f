"""Odd messages over the real protocol: every request is answered, and the stream goes on."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from scripted_editor import PATIENCE, command, environment

INITIALIZE = {
    "id": 0,
    "method": "initialize",
    "params": {"processId": None, "rootUri": None, "capabilities": {}},
}
STATUS = {"method": "workspace/executeCommand", "params": {"command": "lsp-calib.status"}}


@attrs.define
class Raw:
    """A client that writes bytes."""

    process: asyncio.subprocess.Process
    received: list[dict[str, Any]] = attrs.field(factory=list)

    def send(self, message: object, header: str = "Content-Length: {}") -> None:
        if isinstance(message, dict):
            message = {"jsonrpc": "2.0", **message}
        self.send_body(json.dumps(message).encode(), header)

    def send_body(self, body: bytes, header: str = "Content-Length: {}") -> None:
        self.send_bytes(header.format(len(body)).encode() + b"\r\n\r\n" + body)

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message of interest."""
        assert self.process.stdout is not None
        while True:
            header = await asyncio.wait_for(self.process.stdout.readuntil(b"\r\n\r\n"), PATIENCE)
            length = int(header.split(b"\r\n")[0].split(b":")[1])
            message = json.loads(await self.process.stdout.readexactly(length))
            self.received.append(message)
            if wanted(message):
                return message

    async def answer(self, identity: Any) -> dict[str, Any]:
        return await self.until(lambda message: "method" not in message and message["id"] == identity)


async def start(folder: Path) -> Raw:
    """A client of a server that has its state in `folder / "home"`."""
    (folder / "script.json").write_text(json.dumps({"otherwise": {"text": "x"}}))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command(folder / "script.json"),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment(folder / "home"),
    )
    return Raw(process)


@pytest.fixture
async def raw(tmp_path: Path) -> AsyncIterator[Raw]:
    """A client that has sent `initialize`."""
    client = await start(tmp_path)
    client.send(INITIALIZE)
    await client.answer(0)
    client.send({"method": "initialized", "params": {}})
    yield client
    assert client.process.stdin is not None
    client.process.stdin.close()
    _, said = await asyncio.wait_for(client.process.communicate(), PATIENCE)
    assert b"Traceback" not in said
    # A client's mistakes are not shown to the user.
    assert not [message for message in client.received if message.get("method") == "window/showMessage"]


UNREADABLE = [
    None,
    {},
    [],
    "text",
    {"textDocument": {"uri": "untitled:1"}},
    {"textDocument": {"uri": "untitled:1"}, "position": {"line": -1, "character": 0}},
    {"textDocument": {"uri": "untitled:1"}, "position": {"line": "one", "character": 0}},
    {"textDocument": {"uri": "untitled:1"}, "position": {"line": {}, "character": []}},
    {"textDocument": None, "position": {"line": 0, "character": 0}},
]


async def test_a_request_whose_parameters_cannot_be_read_is_answered(raw: Raw) -> None:
    """With InvalidParams."""
    for number, params in enumerate(UNREADABLE, 1):
        raw.send({"id": number, "method": "textDocument/hover", "params": params})
        error = (await raw.answer(number))["error"]
        assert error["code"] == -32602, params
        assert "textDocument/hover" in error["message"]
    raw.send({"id": "absent", "method": "textDocument/hover"})
    assert (await raw.answer("absent"))["error"]["code"] == -32602


async def test_wrong_fields_are_named_in_the_spelling_of_the_wire(raw: Raw) -> None:
    params = {"textDocument": {"uri": {"my": "secret"}}, "position": {"line": 0, "character": 0}}
    raw.send({"id": 1, "method": "textDocument/hover", "params": params})
    message = (await raw.answer(1))["error"]["message"]
    assert "params.textDocument.uri" in message
    assert "secret" not in message


async def test_a_notification_whose_parameters_cannot_be_read_is_ignored(raw: Raw) -> None:
    """The next one is handled."""
    item = {"uri": "untitled:1", "languageId": "python", "version": 1, "text": "x = 1"}
    for params in (None, {}, {"textDocument": {**item, "version": "new"}}, {"textDocument": 7}):
        raw.send({"method": "textDocument/didOpen", "params": params})
    change = {"textDocument": {"uri": "untitled:never", "version": 1}, "contentChanges": [{"text": "x"}]}
    raw.send({"method": "textDocument/didChange", "params": change})
    raw.send({"method": "$/cancelRequest", "params": {"id": [1]}})
    raw.send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
    place = {"textDocument": {"uri": "untitled:1"}, "position": {"line": 0, "character": 5}}
    ask = {**place, "context": {"triggerKind": 1}}
    raw.send({"id": 1, "method": "textDocument/inlineCompletion", "params": ask})
    assert (await raw.answer(1))["result"]["items"]


NO_JSON = [b"{", b"", b"\xff\xfe\xff", b'{"jsonrpc": "2.0",}', b"[" * 100_000, b"1" * 5000, b"nonsense"]


async def test_what_a_newer_client_declares_is_ignored(tmp_path: Path) -> None:
    """Values of enumerations that this version of the protocol does not have."""
    newer = {
        "workspace": {
            "symbol": {"symbolKind": {"valueSet": [1, 27]}},
            "workspaceEdit": {"resourceOperations": ["create", "copy"], "failureHandling": "never"},
        },
        "textDocument": {
            "publishDiagnostics": {"tagSupport": {"valueSet": [1, 3]}},
            "completion": {"completionItemKind": {"valueSet": [1, 99]}},
            "inlineCompletion": {},
        },
    }
    raw = await start(tmp_path)
    raw.send({**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": newer}})  # type: ignore[dict-item]
    offered = (await raw.answer(0))["result"]["capabilities"]
    assert offered["inlineCompletionProvider"] is not None
    raw.send({"id": 1, **STATUS})
    assert "result" in await raw.answer(1)
    raw.process.kill()
    await raw.process.wait()


async def test_a_body_that_is_not_json_is_answered_and_the_next_frame_handled(raw: Raw) -> None:
    for number, body in enumerate(NO_JSON, 1):
        raw.send_body(body)
        raw.send({"id": number, **STATUS})
        assert (await raw.answer(None))["error"]["code"] == -32700, body[:20]
        assert "result" in await raw.answer(number)


ODD: list[tuple[object, int | None, int]] = [
    ([], None, -32600),
    (7, None, -32600),
    ({"id": 5, "method": 7}, 5, -32600),
    ({"id": 5}, 5, -32600),
    ({"id": 5, "jsonrpc": "1.0", **STATUS}, 5, -32600),
    ({"id": [5], **STATUS}, None, -32600),
    ({"id": None, **STATUS}, None, -32600),
    ({"id": 5, "method": "initialized", "params": {}}, 5, -32600),
    ({**INITIALIZE, "id": 5}, 5, -32600),
    ({"id": 5, "method": "no/such"}, 5, -32601),
    ({"id": 5, "method": "x" * 100_000, "params": {"type_name": "1"}}, 5, -32601),
    ({"id": 5, "method": "workspace/executeCommand", "params": {"command": "no"}}, 5, -32602),
]


async def test_invalid_requests_are_answered(raw: Raw) -> None:
    for message, identity, code in ODD:
        raw.send(message)
        answer = await raw.answer(identity)
        assert answer["error"]["code"] == code, message
        assert len(json.dumps(answer)) < 1000
        raw.send({"id": 6, **STATUS})
        assert "result" in await raw.answer(6)


async def test_responses_without_a_request_are_ignored(raw: Raw) -> None:
    for identity, answer in (("unknown", {"result": 1}), ([1], {"result": 1}), ({}, {"error": 7})):
        raw.send({"id": identity, **answer})
    raw.send({"id": None, "error": {"code": 1, "message": "x"}})
    raw.send({"id": 1, **STATUS})
    assert "result" in await raw.answer(1)


async def test_an_object_of_the_user_may_have_any_keys(raw: Raw) -> None:
    """A field called "jsonrpc" deep in the parameters is no message."""
    odd = {"jsonrpc": "2.0", "id": "x", "method": 3}
    raw.send(
        {
            "id": 1,
            "method": "workspace/executeCommand",
            "params": {"command": "lsp-calib.status", "arguments": [odd]},
        }
    )
    assert "result" in await raw.answer(1)


async def test_requests_at_the_wrong_time_are_answered(tmp_path: Path) -> None:
    """Before `initialize` and after `shutdown`."""
    client = await start(tmp_path)
    client.send({"id": 1, **STATUS})
    client.send({"method": "textDocument/didSave", "params": {"textDocument": {"uri": "untitled:1"}}})
    assert (await client.answer(1))["error"]["code"] == -32002
    client.send(INITIALIZE)
    await client.answer(0)
    client.send({"id": 2, "method": "shutdown"})
    await client.answer(2)
    client.send({"id": 3, **STATUS})
    assert (await client.answer(3))["error"]["code"] == -32600
    client.send({"method": "exit"})
    await asyncio.wait_for(client.process.communicate(), PATIENCE)
    assert client.process.returncode == 0
    assert not [message for message in client.received if "method" in message]


async def test_a_state_folder_that_others_can_read_is_reported_at_once(tmp_path: Path) -> None:
    """In the answer to `initialize`, with what to do; the folder and what is in it stay as they are."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "mine").write_text("x")
    client = await start(tmp_path)
    client.send(INITIALIZE)
    error = (await client.answer(0))["error"]
    assert f"chmod 700 {home}" in error["message"]
    assert "traceback" not in json.dumps(error)
    client.send({"method": "exit"})
    _, said = await asyncio.wait_for(client.process.communicate(), PATIENCE)
    assert b"Traceback" not in said
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    assert [path.name for path in home.iterdir()] == ["mine"]


async def test_a_client_that_dies_while_it_is_asked_leaves_no_traceback(tmp_path: Path) -> None:
    """The handler that waits for its settings ends with the connection."""
    client = await start(tmp_path)
    capabilities = {"workspace": {"configuration": True}}
    client.send({**INITIALIZE, "params": {"processId": None, "capabilities": capabilities}})
    client.send({"method": "initialized", "params": {}})
    await client.until(lambda message: message.get("method") == "workspace/configuration")
    assert client.process.stdin is not None
    client.process.stdin.close()
    _, said = await asyncio.wait_for(client.process.communicate(), PATIENCE)
    assert (client.process.returncode, said) == (1, b"")


async def test_a_document_whose_language_is_no_text_is_one_of_plain_text(raw: Raw) -> None:
    item = {"uri": "file:///w/a.py", "languageId": 5, "version": 1, "text": "def f():\n    return 1\n"}
    raw.send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
    position = {"line": 0, "character": 5}
    params = {"textDocument": {"uri": "file:///w/a.py"}, "position": position}
    raw.send({"id": 1, "method": "textDocument/hover", "params": params})
    assert (await raw.answer(1))["result"] is None
