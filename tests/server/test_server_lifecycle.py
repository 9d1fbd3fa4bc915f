"""The process itself: how it ends, what it leaves behind, and where it writes."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import Connect
from scripted_editor import PATIENCE, URI, Editor, until

from lsp_calib.server.app import _Output


@pytest.fixture
def connect(connect: Connect) -> Connect:
    return functools.partial(connect, process=True)


SCRIPT: dict[str, Any] = {"child": True, "otherwise": {"text": "xy"}}


async def working(connect: Connect, script: dict[str, Any] | None = None) -> tuple[Editor, int]:
    """A server in the middle of its work, and the process of its engine."""
    editor = await connect(SCRIPT | (script or {}), text="def f():\n    return a\n")
    ((child),) = await editor.engine.until("child")
    return editor, child["child"]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie waits for its parent, and is no process any more.
    return ") Z" not in Path(f"/proc/{pid}/stat").read_text() if Path("/proc").exists() else True


async def test_a_normal_session_ends_quietly(connect: Connect) -> None:
    """Exit code 0, the engine closed, no process left, and not a word on standard error."""
    editor, child = await working(connect)
    suggestion = await editor.suggestion(1, 12)
    editor.insert(1, 12, "xy")
    await editor.hover(0, 4)
    await editor.command("accepted", suggestion)
    editor.save()
    editor.close()
    assert await editor.leave() == 0
    assert len(editor.engine.read("closed")) == 1
    assert not alive(child)
    assert editor.client.stderr == b""


async def test_an_idle_server_rests(connect: Connect) -> None:
    editor = await connect({"otherwise": {"text": "xy"}}, forked=False, text="def f():\n    return a\n")
    await editor.suggestion(1, 12)
    await asyncio.sleep(1)  # work that follows the last answer
    server = psutil.Process(editor.client.process.pid)
    used = sum(server.cpu_times()[:2])
    await asyncio.sleep(2)
    assert sum(server.cpu_times()[:2]) - used < 0.4


async def test_exit_without_shutdown_is_an_error(connect: Connect) -> None:
    """The specification wants exit code 1."""
    editor, child = await working(connect)
    editor.client.exit(None)
    assert await editor.client.gone() == 1
    await until(lambda: not alive(child), "the end of the engine's process")


async def test_a_client_that_is_killed_takes_the_server_with_it(connect: Connect, tmp_path: Path) -> None:
    """At the end of standard input the server ends, even while a request and the model are pending."""
    never = {"text": "x", "heldUntil": str(tmp_path / "never")}
    editor, child = await working(connect, {"otherwise": never})
    request = asyncio.ensure_future(editor.inline(1, 12))
    await editor.engine.until("asked")
    editor.client.hang_up()
    await editor.client.gone()
    await asyncio.wait({request})
    request.exception()
    await until(lambda: not alive(child), "the end of the engine's process")
    assert b"Traceback" not in editor.client.stderr


async def test_a_client_that_dies_while_its_workspace_is_read_does_not_wait_for_that(
    connect: Connect, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    for n in range(500):
        (root / f"m{n}.py").write_text(f'def price_{n}(items):\n    """Sum {n} prices."""\n    return {n}\n')
    script = SCRIPT | {"fileSeconds": 0.1, "lastWork": 60.0, "hoverSeconds": 0}
    editor = await connect(script, folders=[root.as_uri()])
    uri = (root / "bill.py").as_uri()
    editor.open("def bill(items):\n    return sum(items)\n", uri)
    await editor.hover(0, 5, uri)
    await asyncio.sleep(0.5)
    editor.client.hang_up()
    started = asyncio.get_running_loop().time()
    await editor.client.gone()
    # All files would take 50 s, and as long in rests.
    assert asyncio.get_running_loop().time() - started < 20
    assert b"Traceback" not in editor.client.stderr


@pytest.mark.parametrize(("thread", "leaves"), [("pool", True), ("feedback", False)])
async def test_a_thread_that_never_ends_does_not_keep_the_server(
    connect: Connect, thread: str, leaves: bool
) -> None:
    editor, child = await working(connect, {"lastWork": 1.0})
    await editor.suggestion(1, 12)
    editor.client.protocol.notify("test/stuck", {"thread": thread})
    started = asyncio.get_running_loop().time()
    if leaves:
        assert await editor.leave() == 0
    else:
        editor.client.hang_up()
        assert await editor.client.gone() == 1
    assert asyncio.get_running_loop().time() - started < 20
    assert b"Traceback" not in editor.client.stderr
    await until(lambda: not alive(child), "the end of the engine's process")


async def test_pipes_in_the_workspace_and_the_state_folder_do_not_keep_the_server(
    connect: Connect, tmp_path: Path
) -> None:
    """Each was waited for by a thread, and these threads by the server."""
    root = tmp_path / "project"
    names = (".gitignore", "sub/.gitignore", ".git/info/exclude", "p.py", "sub/q.py")
    pipes = [root / name for name in names]
    home = tmp_path / "home"
    pipes += [home / "config.toml", home / "feedback.key", home / "models" / ".speed.json"]
    for pipe in pipes:
        pipe.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(pipe)
    home.chmod(0o700)
    editor = await connect(
        SCRIPT | {"lastWork": 30.0, "hoverSeconds": 0},
        folders=[root.as_uri()],
        options={"window": "large"},
    )
    uri = (root / "sub" / "bill.py").as_uri()
    editor.open("import q\n\n\ndef bill(items):\n    return sum(items)\n", uri)
    assert await editor.suggestion(4, 10, uri)
    await editor.hover(3, 5, uri)
    await until(lambda: any("feedback.key" in one for one in editor.messages), "a message on the key")
    assert any("config.toml" in one and "a pipe" in one for one in editor.messages)
    started = asyncio.get_running_loop().time()
    assert await editor.leave() == 0
    assert asyncio.get_running_loop().time() - started < 20, "nothing was left to wait for"


async def test_a_command_that_is_under_way_does_not_disturb_the_shutdown(connect: Connect) -> None:
    editor, child = await working(connect, {"restartSeconds": 30})
    await editor.suggestion(1, 12)
    restarting = asyncio.ensure_future(editor.command("restartModel"))
    await editor.status()
    assert await editor.leave() == 0
    await asyncio.wait({restarting})
    restarting.exception()
    assert not alive(child)
    assert editor.client.stderr == b""


async def test_requests_during_shutdown_start_nothing(connect: Connect) -> None:
    """Requests that arrive while the engine closes get empty answers and start no second engine."""
    editor, child = await working(connect, {"closeSeconds": 0.4})
    await editor.suggestion(1, 12)
    leaving = asyncio.ensure_future(editor.client.shutdown_async(None))
    await asyncio.sleep(0)
    editor.insert(0, 0, "# ")
    late = asyncio.ensure_future(editor.inline(1, 12))
    hover = asyncio.ensure_future(editor.hover(0, 6))
    assert not (await asyncio.wait_for(late, PATIENCE))
    assert not (await asyncio.wait_for(hover, PATIENCE))
    await asyncio.wait_for(leaving, PATIENCE)
    editor.client.exit(None)
    assert await editor.client.gone() == 0
    assert len(editor.engine.read("made")) == 1
    assert len(editor.engine.read("loading")) == 1
    assert not alive(child)
    assert editor.client.stderr == b""


def framed(*messages: dict[str, Any]) -> bytes:
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)


async def test_a_request_is_about_the_document_as_it_was_when_it_was_sent(connect: Connect) -> None:
    """Even if the change that follows it arrives at the same moment."""
    editor = await connect({"otherwise": {"text": "x"}}, text="first")
    await editor.inline(0, 5)
    document = {"uri": URI, "version": 7}
    start, end = {"line": 0, "character": 0}, {"line": 0, "character": 5}
    change = {"range": {"start": start, "end": end}, "text": "another"}
    ask = {
        "textDocument": {"uri": URI},
        "position": {"line": 0, "character": 4},
        "context": {"triggerKind": 2},
    }
    assert editor.client.process.stdin is not None
    editor.client.process.stdin.write(
        framed(
            {"id": "ask", "method": "textDocument/inlineCompletion", "params": ask},
            {
                "method": "textDocument/didChange",
                "params": {"textDocument": document, "contentChanges": [change]},
            },
        )
    )
    asked = await editor.engine.until("asked", 2)
    assert [entry["line"] for entry in asked] == ["first", "firs"]


async def test_a_server_that_is_told_to_shut_down_and_to_exit_at_once_does_both(connect: Connect) -> None:
    editor = await connect({"otherwise": {"text": "x"}}, text="first")
    await editor.inline(0, 5)
    assert editor.client.process.stdin is not None
    editor.client.process.stdin.write(framed({"id": "end", "method": "shutdown"}, {"method": "exit"}))
    assert await editor.client.gone() == 0


def test_a_client_that_reads_slowly_gets_all_that_is_written() -> None:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    frame = bytes(range(256)) * 4096  # more than a pipe holds
    with open(writes, "wb", buffering=0) as end, open(reads, "rb") as client, ThreadPoolExecutor() as pool:  # noqa: PTH123
        got = pool.submit(client.read, len(frame))
        _Output(end).write(frame)
        assert got.result() == frame
