"""Odd messages over the real protocol: those that cannot be read, and bytes that are no message."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from conftest import Connect
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
            fields = dict(line.split(b": ", 1) for line in header[:-4].split(b"\r\n"))
            assert set(fields) <= {b"Content-Length", b"Content-Type"}
            length = int(fields[b"Content-Length"])
            message = json.loads(await self.process.stdout.readexactly(length))
            self.received.append(message)
            if wanted(message):
                return message

    async def answer(self, identity: Any) -> dict[str, Any]:
        return await self.until(lambda message: "method" not in message and message["id"] == identity)


async def start(folder: Path, *, forked: bool = True) -> Raw:
    """A client of a server that has its state in `folder / "home"`."""
    (folder / "script.json").write_text(json.dumps({"otherwise": {"text": "x"}}))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command(folder / "script.json", forked=forked),
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


async def test_nothing_but_the_protocol_on_standard_output(tmp_path: Path) -> None:
    """Every byte belongs to a message, from the first to the last; and nothing is on standard error."""
    raw = await start(tmp_path, forked=False)
    raw.send(INITIALIZE)
    await raw.answer(0)
    raw.send({"method": "initialized", "params": {}})
    document = {"uri": "untitled:1", "languageId": "python", "version": 1, "text": "print('🐍')"}
    raw.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
    place = {"textDocument": {"uri": "untitled:1"}, "position": {"line": 0, "character": 11}}
    ask = {"method": "textDocument/inlineCompletion", "params": {**place, "context": {"triggerKind": 2}}}
    raw.send({"id": 1, **ask})
    assert (await raw.answer(1))["result"]["items"]
    raw.send({"id": 2, **STATUS})
    assert (await raw.answer(2))["result"]["state"] == "ready"
    raw.send({"id": 3, "method": "shutdown", "params": None})
    await raw.answer(3)
    raw.send({"method": "exit", "params": None})
    rest, said = await asyncio.wait_for(raw.process.communicate(), PATIENCE)
    assert (rest, said, raw.process.returncode) == (b"", b"", 0)
    assert all(message["jsonrpc"] == "2.0" for message in raw.received)


async def test_a_request_whose_parameters_cannot_be_read_is_answered(raw: Raw) -> None:
    """With InvalidParams; a method that does not exist with MethodNotFound."""
    place = {"textDocument": {"uri": "untitled:1"}, "position": {"line": "one", "character": 0}}
    for number, params in enumerate((None, {}, [], "text", place), 1):
        raw.send({"id": number, "method": "textDocument/hover", "params": params})
        assert (await raw.answer(number))["error"]["code"] == -32602, params
    raw.send({"id": "absent", "method": "textDocument/hover"})
    assert (await raw.answer("absent"))["error"]["code"] == -32602
    raw.send({"id": "none", "method": "no/such"})
    assert (await raw.answer("none"))["error"]["code"] == -32601


async def test_an_id_that_is_no_number_and_no_text_costs_its_message_alone(raw: Raw) -> None:
    for strange in ({}, [1], {"id": 1}):
        raw.send({"method": "$/cancelRequest", "params": {"id": strange}})
        raw.send({"id": strange, "result": None})
        raw.send({"id": strange, "error": {"code": 1, "message": "no"}})
        raw.send({"id": strange, **STATUS})
        assert (await raw.answer(strange))["error"]["code"] == -32600
    raw.send({"id": 1, **STATUS})
    assert "result" in await raw.answer(1)


async def test_a_notification_whose_parameters_cannot_be_read_is_ignored(raw: Raw) -> None:
    """Also one of a document that is not open, and a response to no request. The next one is handled."""
    item = {"uri": "untitled:1", "languageId": "python", "version": 1, "text": "x = 1"}
    raw.send({"method": "textDocument/didOpen"})
    for params in (None, {}, {"textDocument": {**item, "version": "new"}}, {"textDocument": 7}):
        raw.send({"method": "textDocument/didOpen", "params": params})
    change = {"textDocument": {"uri": "untitled:never", "version": 1}, "contentChanges": [{"text": "x"}]}
    raw.send({"method": "textDocument/didChange", "params": change})
    raw.send({"id": "unknown", "result": 1})
    raw.send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
    place = {"textDocument": {"uri": "untitled:1"}, "position": {"line": 0, "character": 5}}
    ask = {**place, "context": {"triggerKind": 1}}
    raw.send({"id": 1, "method": "textDocument/inlineCompletion", "params": ask})
    assert (await raw.answer(1))["result"]["items"]


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


async def test_an_answer_that_nobody_waits_for_any_more_is_dropped(tmp_path: Path) -> None:
    """The page of a report is to be shown while the one before has not been opened yet."""
    client = await start(tmp_path)
    can = {"window": {"showDocument": {"support": True}}}
    client.send({**INITIALIZE, "params": {"processId": None, "rootUri": None, "capabilities": can}})
    await client.answer(0)
    client.send({"method": "initialized", "params": {}})
    asked = []
    for number in (1, 2):
        params = {"command": "lsp-calib.showReport"}
        client.send({"id": number, "method": "workspace/executeCommand", "params": params})
        asked.append(await client.until(lambda message: message.get("method") == "window/showDocument"))
    for one in asked:
        client.send({"id": one["id"], "result": {"success": True}})
    client.send({"id": 3, **STATUS})
    assert "result" in await client.answer(3)
    client.process.kill()
    await client.process.wait()


async def test_an_object_of_the_user_may_have_any_keys(raw: Raw) -> None:
    """A field called "jsonrpc" deep in the parameters is no message."""
    odd = {"jsonrpc": "2.0", "id": "x", "method": 3}
    params = {"command": "lsp-calib.status", "arguments": [odd]}
    raw.send({"id": 1, "method": "workspace/executeCommand", "params": params})
    assert "result" in await raw.answer(1)


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"[]", b'{"id": 5}'])
async def test_a_client_that_breaks_the_base_protocol_ends_the_server(connect: Connect, body: bytes) -> None:
    """With one sentence; what was recorded before is in the store."""
    editor = await connect({"otherwise": {"text": "xy"}}, process=True, text="def f():\n    return a\n")
    suggestion = await editor.suggestion(1, 12)
    editor.insert(1, 12, "xy")
    stdin = editor.client.process.stdin
    assert stdin is not None
    stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    assert await editor.client.gone() == 1
    (said,) = editor.client.stderr.splitlines()
    assert b"broke the base protocol" in said
    kinds = [kind for (kind,) in editor.rows("SELECT kind FROM events")]
    assert kinds == ["shown", "inserted"], suggestion["id"]


async def test_initialize_is_refused_once_it_was_answered(raw: Raw) -> None:
    """What is open stays open."""
    opened = {"uri": "file:///a.py", "languageId": "python", "version": 1, "text": "a = "}
    raw.send({"method": "textDocument/didOpen", "params": {"textDocument": opened}})
    raw.send({**INITIALIZE, "id": 1})
    assert (await raw.answer(1))["error"]["message"].endswith("`initialize` was sent before.")
    place = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 4}}
    asks = {**place, "context": {"triggerKind": 1}}
    raw.send({"id": 2, "method": "textDocument/inlineCompletion", "params": asks})
    assert (await raw.answer(2))["result"]["items"]


async def test_a_request_before_initialize_is_answered(tmp_path: Path) -> None:
    client = await start(tmp_path)
    client.send({"id": 1, **STATUS})
    assert (await client.answer(1))["error"]["code"] == -32002
    client.process.kill()
    await client.process.wait()


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
