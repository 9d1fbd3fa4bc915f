"""`serve --tcp`: one client, which shows the token; all other connections are closed."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from scripted_editor import PATIENCE, command, environment, until

from lsp_calib.errors import SettingsError
from lsp_calib.server.main import create_server
from lsp_calib.server.messages import take
from lsp_calib.server.tcp import Listener, TcpChoice, make_token

TOKEN = "a-token-of-the-test"
STATUS = {"method": "workspace/executeCommand", "params": {"command": "lsp-calib.status"}}


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def initialize(options: Any, capabilities: Any = None) -> bytes:
    params = {"processId": None, "rootUri": None, "initializationOptions": options}
    params["capabilities"] = capabilities or {}
    return frame({"id": 0, "method": "initialize", "params": params})


@attrs.define
class Socket:
    """One connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    received: list[dict[str, Any]] = attrs.field(factory=list)

    def send(self, data: bytes | dict[str, Any]) -> None:
        self.writer.write(frame(data) if isinstance(data, dict) else data)

    async def answer(self, identity: int) -> dict[str, Any]:
        while True:
            header = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)
            length = int(re.search(rb"Content-Length: (\d+)", header)[1])  # type: ignore[index]
            message = json.loads(await self.reader.readexactly(length))
            self.received.append(message)
            if "method" not in message and message["id"] == identity:
                return dict(message)

    async def closed(self) -> bytes:
        """The remaining bytes until the server closed the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE)
        except ConnectionError:
            return b""


@attrs.define
class Server:
    """A server process that listens. said: what it wrote to standard error."""

    process: asyncio.subprocess.Process
    home: Path
    journal: Path
    said: str = ""
    sockets: list[Socket] = attrs.field(factory=list)

    @property
    def port(self) -> int:
        found = re.search(r"Listening on 127\.0\.0\.1:(\d+)", self.said)
        assert found, self.said
        return int(found[1])

    async def drain(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.said += line.decode()

    async def connect(self, *sent: bytes | dict[str, Any]) -> Socket:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        socket = Socket(reader, writer)
        self.sockets.append(socket)
        for data in sent:
            socket.send(data)
        return socket

    async def joined(self, **options: Any) -> Socket:
        """A client that shows the token of these tests, once it is accepted."""
        client = await self.connect(initialize({"token": TOKEN, **options}))
        assert "result" in await client.answer(0)
        return client

    async def says(self, words: str) -> None:
        await until(lambda: words in self.said, words)


Serve = Callable[..., Awaitable[Server]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Start a server: `await serve(seconds=...)`."""
    started: list[tuple[Server, asyncio.Task[None]]] = []

    async def start(**choice: Any) -> Server:
        script = {"tcp": {"host": "127.0.0.1", "port": 0, **choice}, "journal": str(tmp_path / "journal")}
        (tmp_path / "script.json").write_text(json.dumps(script))
        process = await asyncio.create_subprocess_exec(
            *command(tmp_path / "script.json"),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=environment(tmp_path / "home"),
        )
        server = Server(process, tmp_path / "home", tmp_path / "journal")
        started.append((server, asyncio.create_task(server.drain())))
        await server.says("Listening on")
        return server

    yield start
    for server, draining in started:
        if server.process.returncode is None:
            server.process.kill()
        await server.process.wait()
        await draining
        for socket in server.sockets:
            socket.writer.close()


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(TOKEN + "\n")
    return str(path)


async def test_one_client_with_the_token_that_was_printed(serve: Serve) -> None:
    """A second client with the same token is refused at once, and the first one goes on."""
    server = await serve()
    token = re.search(r"initializationOptions.token is (\S+)", server.said)
    assert token
    assert len(token[1]) >= 32
    first = await server.connect(initialize({"token": token[1]}))
    assert "result" in await first.answer(0)
    second = await server.connect(initialize({"token": token[1]}))
    assert await second.closed() == b""
    await server.says("refused: there is a client already")
    first.send({"id": 1, **STATUS})
    assert "result" in await first.answer(1)
    first.send({"id": 2, "method": "shutdown"})
    await first.answer(2)
    first.send({"method": "exit"})
    assert await asyncio.wait_for(server.process.wait(), PATIENCE) == 0


async def test_the_server_ends_when_its_client_disconnects(serve: Serve, token_file: str) -> None:
    """Without `shutdown` with exit code 1, as over standard input."""
    server = await serve(token_file=token_file)
    client = await server.joined()
    client.writer.close()
    assert await asyncio.wait_for(server.process.wait(), PATIENCE) == 1
    assert "Traceback" not in server.said


async def test_a_wrong_token_is_answered_and_the_connection_closed(serve: Serve, token_file: str) -> None:
    """The right one is still accepted, and no token is written anywhere."""
    server = await serve(token_file=token_file)
    tokens: list[Any] = ["a-token-of-the-tesT", "", ["x"], "\ud800", None]
    for options in ({}, None, [], *({"token": token} for token in tokens)):
        wrong = await server.connect(initialize(options))
        error = (await wrong.answer(0))["error"]
        assert "token" in error["message"]
        assert TOKEN not in error["message"]
        assert await wrong.closed() == b""
    await server.says("initializationOptions.token is missing")
    await server.says("initializationOptions.token is wrong")
    await server.joined()
    assert TOKEN not in server.said
    assert "tesT" not in server.said


async def test_connections_without_the_token_keep_nobody_out(serve: Serve, token_file: str) -> None:
    """Silent ones, half a message, more of them than are kept: the client gets in, and they are closed."""
    server = await serve(token_file=token_file)
    waiting = [await server.connect() for _ in range(40)]
    waiting += [await server.connect(b"Content-Length: 500\r\n\r\n{") for _ in range(4)]
    client = await server.joined()
    for stranger in waiting:
        assert await stranger.closed() == b""
    client.send({"id": 1, **STATUS})
    assert "result" in await client.answer(1)


async def test_a_connection_that_shows_no_token_in_time_is_closed(serve: Serve, token_file: str) -> None:
    server = await serve(token_file=token_file, seconds=0.3)
    silent = await server.connect()
    assert await silent.closed() == b""
    await server.says("did not show the token within 0.3 s")
    slow = await server.connect(b"Content-")
    assert await slow.closed() == b""


async def test_a_connection_that_sends_too_much_is_closed(serve: Serve, token_file: str) -> None:
    server = await serve(token_file=token_file, most_bytes=5000)
    much = await server.connect(b"Content-Type: x\r\n" * 400)
    assert await much.closed() == b""
    await server.says("sent 5000 bytes without showing the token")
    large = await server.connect(initialize({"token": TOKEN, "more": "x" * 5000}))
    assert await large.closed() == b""
    client = await server.joined()
    # The limits no longer apply once the token is shown.
    client.send({"id": 1, **STATUS, "params": {"command": "lsp-calib.status", "arguments": ["x" * 20_000]}})
    assert "result" in await client.answer(1)


NO_HEADER = [
    b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    b"GET / HTTP/1.1\r\n",
    b"\x16\x03\x01\x02\x00\x01",
    b"X-Header: 1\r\n",
    b"\r\n",
]


async def test_a_connection_that_does_not_begin_with_a_header_is_closed(
    serve: Serve, token_file: str
) -> None:
    """A browser's request, also with an `initialize` in its body, and also before its line ends."""
    server = await serve(token_file=token_file)
    for first in NO_HEADER:
        browser = await server.connect(first)
        assert await browser.closed() == b"", first
        other = await server.connect(first + initialize({"token": TOKEN}))
        assert await other.closed() == b"", first
    await server.says("does not speak the language server protocol")


async def test_another_request_before_initialize_is_refused(serve: Serve, token_file: str) -> None:
    server = await serve(token_file=token_file)
    hasty = await server.connect({"id": 7, **STATUS})
    assert "error" in await hasty.answer(7)
    assert await hasty.closed() == b""


async def test_a_client_over_tcp_cannot_set_what_is_trusted(serve: Serve, token_file: str) -> None:
    """Neither model nor server; one message says so. Its plain settings count."""
    server = await serve(token_file=token_file)
    trusted = {"model": "/tmp/evil.gguf", "remote": {"url": "http://evil.example"}}
    client = await server.joined(trusted=trusted, hover={"enabled": False})
    client.send({"method": "initialized", "params": {}})
    await until(lambda: server.journal.exists() and "\n" in server.journal.read_text(), "the engine")
    made = json.loads(server.journal.read_text().splitlines()[0])
    assert (made["model"], made["remote"]) == (None, None)
    client.send({"id": 1, **STATUS})
    await client.answer(1)
    shown = [m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage"]
    assert len(shown) == 1
    assert "trusted is ignored" in shown[0]


async def test_a_client_over_tcp_cannot_choose_the_file_of_an_export(
    serve: Serve, token_file: str, tmp_path: Path
) -> None:
    """The state folder is the only place that it is written to."""
    server = await serve(token_file=token_file)
    client = await server.joined()
    client.send({"method": "initialized", "params": {}})
    chosen = tmp_path / "chosen.jsonl"
    arguments = {"command": "lsp-calib.exportFeedback", "arguments": [{"path": str(chosen)}]}
    client.send({"id": 1, "method": "workspace/executeCommand", "params": arguments})
    assert "may not choose a file" in (await client.answer(1))["error"]["message"]
    assert not chosen.exists()
    client.send({"id": 2, "method": "workspace/executeCommand", "params": {**arguments, "arguments": []}})
    assert (await client.answer(2))["result"]["n"] == 0


async def test_a_client_over_tcp_is_told_where_the_report_is(serve: Serve, token_file: str) -> None:
    """It may be on another machine: it is not asked to open the page, even if it could."""
    server = await serve(token_file=token_file)
    opens = {"window": {"showDocument": {"support": True}}}
    client = await server.connect(initialize({"token": TOKEN}, opens))
    await client.answer(0)
    client.send({"method": "initialized", "params": {}})
    client.send(
        {"id": 1, "method": "workspace/executeCommand", "params": {"command": "lsp-calib.showReport"}}
    )
    path = (await client.answer(1))["result"]["path"]
    client.send({"id": 2, "method": "workspace/executeCommand", "params": {"command": "lsp-calib.status"}})
    await client.answer(2)
    shown = [m["params"]["message"] for m in client.received if m.get("method") == "window/showMessage"]
    assert any(path in message for message in shown)
    assert not [m for m in client.received if m.get("method") == "window/showDocument"]


async def test_the_token_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """At no level, whatever logs its messages: it is taken out before anything else sees the message."""
    listener = Listener(TOKEN, TcpChoice("127.0.0.1", 0))
    ((host, port),) = await listener.open()
    for name in (None, "pygls"):
        caplog.set_level(logging.DEBUG, name)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(initialize({"token": TOKEN, "tiers": {"preset": "lenient"}}))
    client = await asyncio.wait_for(listener.client(), PATIENCE)
    server = create_server()
    server.protocol.set_writer(client.writer)
    take(server.protocol, client.first)
    assert b"result" in await asyncio.wait_for(reader.readuntil(b"serverInfo"), PATIENCE)
    assert "lenient" in caplog.text  # what pygls logs at this level
    assert TOKEN not in caplog.text
    listener.close()
    for end in (writer, client.writer):
        end.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
async def test_only_this_machine_unless_told_otherwise(host: str) -> None:
    with pytest.raises(SettingsError, match="--tcp-any-host"):
        await Listener(TOKEN, TcpChoice(host, 0)).open()


async def test_any_host_when_told_so() -> None:
    listener = Listener(TOKEN, TcpChoice("0.0.0.0", 0, any_host=True))
    ((host, port),) = await listener.open()
    assert (host, port > 0) == ("0.0.0.0", True)
    with pytest.raises(SettingsError, match=f"{port} cannot be listened on"):
        await Listener(TOKEN, TcpChoice("0.0.0.0", port, any_host=True)).open()
    listener.close()


def test_a_token_is_new_each_time() -> None:
    assert make_token(None) != make_token(None)


def test_a_token_file_is_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(SettingsError, match="cannot be read"):
        make_token(file)
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600") as caught:
        make_token(file)
    assert TOKEN not in str(caught.value)
    file.chmod(0o600)
    assert make_token(file) == TOKEN
    for text in ("", "short", "two words of a token"):
        file.write_text(text)
        with pytest.raises(SettingsError, match="holds no token"):
            make_token(file)
