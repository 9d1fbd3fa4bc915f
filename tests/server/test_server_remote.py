"""The whole server with a remote engine."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from openai_server import Exchange, serving, spoken
from scripted_editor import PATIENCE, Client, Editor, Journal, capabilities, environment, until

from lsp_calib.server import create_server

Start = Callable[..., Awaitable[Editor]]
SECRET = "sk-51ab7c09d2e3"


@pytest.fixture(name="start")
async def start_fixture(tmp_path: Path) -> AsyncIterator[Start]:
    """A function that starts the real server, with nothing scripted but the remote one.

    It is a process of its own where it gets variables, a log or arguments.
    """
    editors: list[Editor] = []
    patch = pytest.MonkeyPatch()

    async def make(
        *,
        options: Any = None,
        env: dict[str, str] | None = None,
        log: Path | None = None,
        arguments: Sequence[str] = (),
        client_can: types.ClientCapabilities | None = None,
        settings: Any = None,
    ) -> Editor:
        home = tmp_path / "home"
        client = Client()
        more = [*arguments, *(["--log-file", str(log)] if log else [])]
        if settings is not None:
            client.set_configuration(settings, section="lspCalib")
        variables = environment(home) | (env or {})
        if more or env:
            command = sys.executable, "-m", "lsp_calib", "serve", "--trust-editor", *more
            await client.start_io(*command, env=variables, cwd=tmp_path)
        else:
            await client.start_here(lambda _: create_server(trusts_editor=True), patch, variables, tmp_path)
        client.capabilities = client_can or capabilities(inline=True)
        params = types.InitializeParams(
            capabilities=client.capabilities, process_id=os.getpid(), initialization_options=options
        )
        editor = Editor(client, home, Journal(tmp_path / "none"))
        editors.append(editor)
        editor.initialized = await asyncio.wait_for(client.initialize_async(params), PATIENCE)
        client.initialized(types.InitializedParams())
        return editor

    yield make
    for editor in editors:
        client = editor.client
        if client.process.returncode is None:
            await editor.leave()
        if client.process.stdin is not None:
            client.process.stdin.close()
        assert client.complaints == []
    patch.undo()


def trusted(url: str, **more: str) -> dict[str, Any]:
    return {"trusted": {"remote": {"url": url, **more}}}


async def test_a_completion_has_no_probability_without_labels(start: Start) -> None:
    async with serving(
        tokens=lambda _: spoken("    return a + b\n", -0.001, -0.001, -0.001, -0.001)
    ) as server:
        editor = await start(options=trusted(server.url))
        editor.open("def add(a, b):\n    re")
        suggestion = await editor.suggestion(1, 6)
        assert suggestion["text"] == "turn a + b"
        assert suggestion["model"] == "smollm2-135m"
        assert suggestion["rawConfidence"] is not None
        assert (suggestion["confidence"], suggestion["calibrator"]) == (None, None)
        assert suggestion["tier"] == "review"
        assert (await editor.status())["state"] == "ready"
        assert await editor.leave() == 0


async def test_nothing_connects_before_the_first_request(start: Start) -> None:
    async with serving(tokens=lambda _: spoken("    return a + b\n")) as server:
        editor = await start(options=trusted(server.url))
        editor.open("def add(a, b):\n    re")
        status = await editor.status()
        assert (status["model"], status["state"]) == (None, "ready")
        await asyncio.sleep(0.3)
        assert server.connections == 0
        await editor.suggestion(1, 6)
        await until(lambda: server.connections, "the request")
        assert (await editor.status())["model"] == "smollm2-135m"


async def test_an_unreachable_server_is_reported_once_and_stops_nothing(start: Start) -> None:
    async with serving() as server:
        url = server.url
    editor = await start(env={"LSP_CALIB_REMOTE_URL": url})
    editor.open("a")
    assert await editor.inline(0, 1) is None
    assert await editor.inline(0, 1) is None
    await until(lambda: editor.messages, "a message")
    (message,) = editor.messages
    assert "cannot be reached" in message
    assert (await editor.status())["state"] == "error"


async def test_neither_the_key_nor_the_document_is_logged(start: Start, tmp_path: Path) -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": f"no {exchange.headers['authorization']}"}}, 500)

    log = tmp_path / "log.txt"
    async with serving(handler=refuses) as server:
        editor = await start(options=trusted(server.url), env={"LSP_CALIB_REMOTE_KEY": SECRET}, log=log)
        editor.open("hunter2 = 1\na")
        assert await editor.inline(1, 1) is None
        assert server.completions[0].headers["authorization"] == f"Bearer {SECRET}"
        await until(lambda: editor.messages, "a message")
        assert await editor.leave() == 0
    said = log.read_text() + editor.client.stderr.decode() + str(editor.messages)
    assert "failed (500)" in said
    assert SECRET not in said
    assert "hunter2" not in said


async def test_sending_code_unencrypted_is_warned_of_once(start: Start) -> None:
    editor = await start(options=trusted("http://model.invalid:8080"))
    await until(lambda: any("unencrypted" in text for text in editor.messages), "the warning")
    assert sum("unencrypted" in text for text in editor.messages) == 1


async def test_while_a_server_sends_without_an_end_other_requests_are_answered(start: Start) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.head(Content_Type="text/event-stream")
        data = b'data: {"choices": [{"text": ""}]}\n\n' * 1000
        while True:
            await exchange.raw(data)

    async with serving(handler=endless) as server:
        editor = await start(options=trusted(server.url))
        editor.open("def add(a, b):\n    re")
        times = []
        for _ in range(5):
            asked = asyncio.create_task(editor.inline(1, 6))
            while not asked.done():
                began = asyncio.get_running_loop().time()
                await editor.status()
                times.append(asyncio.get_running_loop().time() - began)
            await asked
        assert statistics.median(times) < 0.5
        assert await editor.leave() == 0
