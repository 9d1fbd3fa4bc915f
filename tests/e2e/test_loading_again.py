"""After the death of the model process its user is told, and keys are not kept waiting."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from real_server import PATIENCE
from test_sharing import model_processes

pytestmark = pytest.mark.model


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
