"""The model process is killed, again and again: the server lives on, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time

import pytest
from marks import repetitions
from real_server import PATIENCE
from test_sharing import loaded, model_processes, until_gone

pytestmark = [pytest.mark.model, pytest.mark.long]

KILLS = repetitions(thorough=100, long=12)


async def test_kills_cost_no_more_than_their_answers(start, write, tmp_path):
    """At random moments: while it starts, loads, decodes or rests. Each request has a reply, null or not.

    100 kills in `make test-thorough`, 25 in `make test-long`.
    """
    moments = random.Random(20)
    home = tmp_path / "home"
    kills = replies = answers = 0
    async with start() as editor:
        server = editor.pid
        deaths = 0  # since the last answer
        while kills < KILLS:
            request = asyncio.create_task(_ask(editor, write, f"killed_{replies}"))
            await asyncio.sleep(moments.uniform(0, 1.5))
            found = model_processes(home)
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
            answered = await request is not None
            replies += 1
            answers += answered
            # Whether it died before its answer or after it cannot be told from here: one too many at most.
            deaths = (0 if answered else deaths) + bool(found)
            if deaths >= 2:
                # A third death without an answer would be the end of all trying, and rightly so.
                if not await _answered(editor, write):
                    pytest.fail(f"no answer after kill {kills}: {editor.state}, {editor.state_message}")
                answers += 1
                deaths = 0
        assert await _answered(editor, write)
        assert editor.pid == server
        assert editor.exit_code is None
        assert answers >= KILLS / 4
        assert len(loaded(home)) == 1
        assert await editor.quit() == 0
    await until_gone(home, 15)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "ended", "quit"])
async def test_nothing_is_left_15_s_after_the_last_client(start, write, tmp_path, how):
    """It lingers for some seconds; during a request, and however the server ended."""
    home = tmp_path / "home"
    async with start(LSP_CALIB_LINGER="5") as editor:
        assert len(loaded(home)) == 1
        request = asyncio.create_task(_ask(editor, write, "last"))
        await asyncio.sleep(0.1)
        if how is None:
            assert await editor.quit() == 0
        else:
            os.kill(editor.pid, how)
        await asyncio.wait([request])
        request.exception()
        assert len(loaded(home)) == 1, "it waits for who comes back"
    await until_gone(home, 15)


async def _answered(editor, write) -> bool:
    """Whether an answer comes. The first request may still meet the death of the last process, and until the
    first answer each waits for a second alone: what it began goes on for the next one in the same place."""
    await editor.until(lambda: editor.state == "ready", "loading the model", PATIENCE)
    document, line, column = _guessable(editor, write, f"after_{time.monotonic_ns()}")
    deadline = time.monotonic() + PATIENCE
    while await document.complete(line, column, PATIENCE) is None:
        if time.monotonic() > deadline:
            return False
    return True


async def _ask(editor, write, name: str):
    """A line that can be guessed, after so much text that it takes a while."""
    document, line, column = _guessable(editor, write, name)
    return await document.complete(line, column, PATIENCE)


def _guessable(editor, write, name: str):
    text = "".join(f"{name}_{i} = compute({i}, {i * 7 % 13})\n" for i in range(10))
    return write(editor, f"{text}{name}_10 = compute(‸\n")
