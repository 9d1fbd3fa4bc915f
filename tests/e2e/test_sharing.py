"""Two editor windows, one model in memory: found, elected, let go, and loaded again after its death."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from real_server import PATIENCE

from lsp_calib import lockfile
from lsp_calib.tools.client import Editor

pytestmark = pytest.mark.model

# What comes is so likely that it does not depend on how a processor rounds.
PLAIN = "import os\n\nprint(os.getcwd())\nprint(os.getcwd())\nprint(os.getcwd())\npri‸\n"
RIGHT = "nt(os.getcwd())"

_BEGAN = psutil.Process().create_time()


def model_processes(home: Path) -> set[int]:
    """Those that hold a lock in the state folder."""
    pids = (lockfile.holder(lock) for lock in (home / "run").glob("*.lock"))
    return {pid for pid in pids if pid is not None}


def loaded(home: Path) -> list[psutil.Process]:
    """All processes that were started for a model of that folder, with a lock or without."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                "lsp_calib.inference.process" in process.cmdline()
                and _is_of(process, home)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def _is_of(process: psutil.Process, home: Path) -> bool:
    try:
        return process.environ().get("LSP_CALIB_HOME") == str(home)
    except psutil.AccessDenied:
        # Its memory is closed to all but root: one that these tests have started.
        return process.uids().real == os.getuid() and process.create_time() > _BEGAN


async def until_gone(home: Path, seconds: float) -> None:
    for _ in range(int(10 * seconds)):
        if not loaded(home):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"left behind: {loaded(home)}")


async def test_two_servers_share_one_process(start, write, tmp_path):
    """Both answer; one that closes leaves the other its model; when both have gone, it goes."""
    home = tmp_path / "home"
    async with start(wait=False) as first, start(wait=False) as second:
        for editor in (first, second):
            await _loaded(editor)
        [pid] = model_processes(home)
        assert len(loaded(home)) == 1
        items = await asyncio.gather(_ask(write(first, PLAIN)), _ask(write(second, PLAIN)))
        assert [item.insert_text for item in items] == [RIGHT, RIGHT]
        assert await first.quit() == 0
        assert (await _ask(write(second, PLAIN))).insert_text == RIGHT
        assert model_processes(home) == {pid}
    await until_gone(home, PATIENCE)


async def test_a_server_that_is_killed_leaves_the_other_its_model(start, write, tmp_path):
    home = tmp_path / "home"
    async with start() as first, start() as second:
        pids = model_processes(home)
        os.kill(first.pid, signal.SIGKILL)
        assert (await _ask(write(second, PLAIN))).insert_text == RIGHT
        assert model_processes(home) == pids


async def _loaded(editor: Editor) -> None:
    await editor.until(lambda: editor.state == "ready", "loading the model", PATIENCE)


async def _ask(place):
    document, line, column = place
    return await document.complete(line, column, PATIENCE)


async def test_it_loads_at_once_and_says_so_and_requests_are_answered_with_a_reason(start, write, tmp_path):
    """The next process is stopped while it loads, as if its model were large."""
    async with start() as editor:
        document, line, column = write(editor, "def add(a, b):\n    return ‸\n")
        assert await document.complete(line, column, PATIENCE) is not None
        (killed,) = model_processes(tmp_path / "home")
        began = time.monotonic()
        os.kill(killed, signal.SIGKILL)
        await editor.until(lambda: editor.state == "loading", "loading", PATIENCE)
        assert "ended unexpectedly (signal 9)" in editor.state_message
        # Nobody has asked for anything since.
        while not (new := model_processes(tmp_path / "home") - {killed}):
            assert time.monotonic() < began + PATIENCE, "no process was started"
            await asyncio.sleep(0.01)
        for pid in new:
            os.kill(pid, signal.SIGSTOP)
        try:
            asked = time.monotonic()
            document, line, column = write(editor, "def subtract(a, b):\n    return ‸\n")
            assert await document.complete(line, column, PATIENCE) is None
            assert time.monotonic() - asked < 4
            why = await editor.command("lsp-calib.explain")
            assert why["reason"] == "loading"
        finally:
            for pid in new:
                os.kill(pid, signal.SIGCONT)
        await editor.until(lambda: editor.state == "ready", "loading the model", PATIENCE)
        document, line, column = write(editor, "def multiply(a, b):\n    return ‸\n")
        # On a slow machine not at the first request: what that began goes on for the next one.
        end = time.monotonic() + PATIENCE
        while await document.complete(line, column, PATIENCE) is None:
            assert time.monotonic() < end, f"{editor.state}: {editor.state_message}"
            await asyncio.sleep(0.1)
