"""Servers killed at random moments, and a full disk: what was acknowledged stays, and work goes on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from conftest import Connect
from disk import fill, fill_names
from marks import repetitions
from pygls.exceptions import JsonRpcException
from scripted_editor import Editor, start, until

from lsp_calib.feedback.store import FeedbackStore

SCRIPT = {"otherwise": {"text": "xy", "logprobs": [-0.1]}}
KILLS, AT_ONCE = repetitions(thorough=200, long=24), 4


@pytest.mark.long
async def test_killed_servers_lose_no_acknowledged_event(tmp_path: Path) -> None:
    """Four servers write to one store; each is killed (SIGKILL) at a random moment of a stream of events.

    200 are killed in `make test-thorough`, 24 in `make test-long`.
    """
    moments = random.Random(16)
    acknowledged: list[str] = []
    identities = (f"{number:016x}" for number in range(10**9))

    async def stream(editor: Editor, own: list[str]) -> None:
        while True:
            identity = next(identities)
            await editor.command("accepted", {"id": identity})
            own.append(identity)
            acknowledged.append(identity)

    async def live_and_die() -> None:
        editor = await start(tmp_path, SCRIPT, calibrated=False, forked=False)
        own: list[str] = []
        streams = [asyncio.ensure_future(stream(editor, own)) for _ in range(3)]
        await until(lambda: len(own) > 5, "six acknowledged events")
        await asyncio.sleep(moments.uniform(0.0, 0.25))
        editor.client.process.kill()
        await editor.client.gone()
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    for _ in range(KILLS // AT_ONCE):
        await asyncio.gather(*(live_and_die() for _ in range(AT_ONCE)))
        store = FeedbackStore(tmp_path / "home" / "feedback.db")
        assert store.moved_aside is None
        assert store.read("PRAGMA integrity_check") == [("ok",)]
        kept = {identity for (identity,) in store.read("SELECT suggestion_id FROM events")}
        store.close()
        assert set(acknowledged) <= kept
    assert len(acknowledged) > 5 * KILLS
    assert list((tmp_path / "home").glob("*.corrupt-*")) == []


@pytest.mark.parametrize("made", [False, True], ids=["new", "used"])
async def test_a_server_that_can_make_no_file_says_so_and_works_once_it_can(
    connect: Connect, small_disk: Path, made: bool
) -> None:
    home = small_disk / "home"
    env = {"LSP_CALIB_HOME": str(home)}
    if made:
        earlier = await connect(SCRIPT, env=env, text="a\n")
        await earlier.suggestion(0, 1)
        assert await earlier.leave() == 0
    else:
        home.mkdir(mode=0o700)
    names = fill_names(small_disk)
    editor = await connect(SCRIPT, env=env, text="a\nb\n")
    with contextlib.suppress(JsonRpcException):
        await editor.suggestion(0, 1)
    await until(lambda: any("full" in message for message in editor.messages), "a message")
    shutil.rmtree(names)
    assert await editor.suggestion(1, 1)
    assert await editor.leave() == 0
    assert b"Traceback" not in editor.client.stderr


async def test_a_full_disk_costs_no_answer_and_is_survived(connect: Connect, small_disk: Path) -> None:
    """One message, no crash, no damage; with space again, everything is recorded again."""
    home = small_disk / "home"
    home.mkdir(mode=0o700)
    editor = await connect(SCRIPT, env={"LSP_CALIB_HOME": str(home)}, text="a\nb\nc\n")
    known = await editor.suggestion(0, 1)
    await editor.command("accepted", known)
    ballast = fill(small_disk)
    hints = [editor.command("accepted", {"id": f"{number:016x}"}) for number in range(20)]
    refused = [error for error in await asyncio.gather(*hints, return_exceptions=True) if error is not None]
    assert refused, "a hint that cannot be kept is not acknowledged"
    assert all(isinstance(error, JsonRpcException) for error in refused)
    assert {"full" in str(error) and "Free some space" in str(error) for error in refused} == {True}
    another = await connect(SCRIPT, env={"LSP_CALIB_HOME": str(home)}, text="a\n")
    assert await another.suggestion(0, 1), "a server starts on a full disk"
    assert await another.leave() == 0
    assert await editor.suggestion(1, 1), "suggestions go on"
    await until(lambda: any("full" in message for message in editor.messages), "a message")
    assert await editor.suggestion(2, 1)
    assert len([message for message in editor.messages if "full" in message]) == 1
    ballast.unlink()
    later = {"id": "f" * 16}
    await editor.command("accepted", later)
    assert await editor.leave() == 0
    assert list(home.glob("*.corrupt-*")) == []
    connection = sqlite3.connect(home / "feedback.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    kept = {identity for (identity,) in connection.execute("SELECT suggestion_id FROM events")}
    connection.close()
    assert {known["id"], later["id"]} <= kept
