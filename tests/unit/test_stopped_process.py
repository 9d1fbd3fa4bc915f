"""A model process that is stopped, as by a debugger or SIGSTOP, is told from one that works, and replaced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from scripted_model import ask, install

from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import EngineState
from lsp_calib.inference.process import client, connection, rendezvous
from lsp_calib.inference.process.client import ModelProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no process can be stopped there")

CONTEXT = 2048  # of a model without a card
TICK = 0.2
PATIENCE = 60.0


@pytest.fixture
def model(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    assert home.is_dir()
    monkeypatch.setattr(connection, "TICK", TICK)
    return install(monkeypatch, tmp_path)


class Watched:
    """A client, and the states that it has reported."""

    def __init__(self, model: str) -> None:
        self.states: list[tuple[EngineState, str]] = []
        self.engine = ModelProcess(
            EngineChoice(model), on_state=lambda state, words, _: self.states.append((state, words))
        )

    @property
    def pid(self) -> int:
        assert self.engine.pid is not None
        return self.engine.pid

    @property
    def doubts(self) -> list[str]:
        return [words for state, words in self.states if state is EngineState.BUSY and "react" in words]

    async def text(self, script: str = "steps 3") -> str:
        async with asyncio.timeout(PATIENCE):
            return (await self.engine.generate(ask(script))).text


@pytest_asyncio.fixture
async def watched(model: str) -> AsyncIterator[Callable[[], Watched]]:
    """Makes clients; at the end no process is left stopped."""
    made: list[Watched] = []

    def make() -> Watched:
        made.append(Watched(model))
        return made[-1]

    yield make
    for one in made:
        await one.engine.close()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if model in " ".join(process.cmdline()):
                process.kill()


async def test_another_program_at_the_port_of_a_process_that_is_gone(
    watched: Callable[[], Watched], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing to a client, which starts a process of its own then."""
    monkeypatch.setenv("LSP_CALIB_SOCKET", "tcp")
    monkeypatch.setattr(client, "GONE", 3)
    where = rendezvous.place(Path(model), CONTEXT)
    with socket.create_server(("127.0.0.1", 0)) as other:
        where.port.write_text(json.dumps([other.getsockname()[1], "0" * 64]), "utf-8")
        assert await watched().text()


async def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.02)


async def test_one_that_is_stopped_is_replaced_and_what_was_asked_is_answered(
    watched: Callable[[], Watched],
) -> None:
    one, other = watched(), watched()
    await asyncio.gather(one.engine.ready(), other.engine.ready())
    stopped = one.pid
    asked = [asyncio.create_task(each.text("steps 30")) for each in (one, other)]
    await asyncio.sleep(0.1)
    os.kill(stopped, signal.SIGSTOP)
    await until(lambda: one.doubts)
    assert f"number {stopped}" in one.doubts[0]
    # Both are asked again of one process, where one may give way to the other.
    assert {text.removesuffix(", gave way") for text in await asyncio.gather(*asked)} == {"0 interruptions"}
    assert one.pid == other.pid != stopped
    await until(lambda: not psutil.pid_exists(stopped) or psutil.Process(stopped).status() == "zombie")
    assert any("did not react" in words for _, words in one.states)
    assert one.states[-1][0] is EngineState.READY


async def test_one_that_goes_on_in_time_is_kept(watched: Callable[[], Watched]) -> None:
    one = watched()
    await one.engine.ready()
    stopped = one.pid
    asked = asyncio.create_task(one.text("steps 30"))
    await asyncio.sleep(0.1)
    os.kill(stopped, signal.SIGSTOP)
    await until(lambda: one.doubts)
    os.kill(stopped, signal.SIGCONT)
    assert await asked == "0 interruptions"
    assert one.pid == stopped
    assert one.states[-1][0] is EngineState.READY


async def test_one_that_was_stopped_before_a_client_came_is_replaced(watched: Callable[[], Watched]) -> None:
    one, late = watched(), watched()
    await one.engine.ready()
    stopped = one.pid
    os.kill(stopped, signal.SIGSTOP)
    assert await late.text() == "0 interruptions"
    assert late.pid != stopped
    assert late.doubts
    assert await one.text() == "0 interruptions"
    assert one.pid == late.pid


async def test_one_that_works_for_long_is_not_taken_for_stopped(watched: Callable[[], Watched]) -> None:
    """Its answer takes longer than a stopped process is given; its other thread answers."""
    one = watched()
    await one.engine.ready()
    pid = one.pid
    with pytest.raises(TimeoutError):
        async with asyncio.timeout((connection.GONE + 5) * TICK):
            await one.engine.generate(ask("stuck"))
    assert not one.doubts
    assert one.pid == pid


async def test_one_that_was_suspended_with_its_client_is_kept(watched: Callable[[], Watched]) -> None:
    """As on a laptop that sleeps: afterwards the clock is far ahead, and neither has done a thing."""
    one = watched()
    await one.engine.ready()
    pid = one.pid
    asked = asyncio.create_task(one.text("steps 30"))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(2 * connection.GONE * TICK)  # nothing of this program goes on
    os.kill(pid, signal.SIGCONT)
    assert await asked == "0 interruptions"
    assert one.pid == pid
    assert not one.doubts


async def test_nothing_is_sent_to_one_that_nobody_asks(watched: Callable[[], Watched]) -> None:
    one = watched()
    assert await one.text() == "0 interruptions"
    os.kill(one.pid, signal.SIGSTOP)
    await asyncio.sleep((connection.GONE + 5) * TICK)
    os.kill(one.pid, signal.SIGCONT)
    assert not one.doubts
    assert await one.text() == "0 interruptions"
