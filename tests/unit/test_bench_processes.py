"""Children answer line by line, or it is an error that says so; no busy process stays behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest

from lsp_calib.errors import EngineError
from lsp_calib.tools.bench import processes
from lsp_calib.tools.bench.processes import JsonLines

ECHO = """
import json, sys
from lsp_calib.tools.bench.processes import answer
for line in sys.stdin:
    answer(json.loads(line))
"""
ADVICE = "Start another one."
posix = pytest.mark.skipif(os.name != "posix", reason="there are no sessions elsewhere")


@asynccontextmanager
async def child(code: str, patience: float = 60.0) -> AsyncIterator[JsonLines]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield JsonLines(process, "The child", patience, ADVICE)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def test_an_answer_is_what_the_child_wrote() -> None:
    async with child(ECHO) as lines:
        assert await lines.ask({"text": "a\nb 🎉"}) == {"text": "a\nb 🎉"}
        assert await lines.ask({"n": [1, 2]}) == {"n": [1, 2]}


async def test_a_child_that_ends_is_an_error_with_advice() -> None:
    async with child("") as lines:
        with pytest.raises(EngineError, match=f"The child ended before it answered. {ADVICE}"):
            await lines.read()


async def test_a_silent_child_is_an_error_after_the_limit() -> None:
    async with child("import sys; sys.stdin.read()", patience=0.1) as lines:
        with pytest.raises(EngineError, match=f"The child did not answer within 0.1 s. {ADVICE}"):
            await lines.read()


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class TestBusyProcesses:
    async def test_they_want_a_core_in_a_session_of_their_own_and_are_gone_afterwards(self) -> None:
        async with processes.busy_elsewhere(2, 30) as pids:
            children = [psutil.Process(pid) for pid in pids]
            before = [processor_seconds(one) for one in children]
            time.sleep(0.6)
            # However many others want a core, each gets some of it.
            for one, was in zip(children, before, strict=True):
                assert processor_seconds(one) > was
            if os.name == "posix":
                assert [os.getsid(pid) for pid in pids] == pids
                assert processes.in_one_session([os.getpid(), *pids]) is False
        assert not any(one.is_running() for one in children)

    async def test_they_are_gone_after_an_error(self) -> None:
        children = []

        async def stopped() -> None:
            async with processes.busy_elsewhere(1, 30) as pids:
                children.append(psutil.Process(pids[0]))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await stopped()
        assert not children[0].is_running()

    @posix
    def test_they_end_when_their_parent_is_killed(self) -> None:
        code = (
            "import time; from lsp_calib.tools.bench.processes import start_busy\n"
            "print(*(one.pid for one in start_busy(2, seconds=60, new_session=True)), flush=True)\n"
            "time.sleep(60)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        with parent.stdout:
            children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
        parent.wait()
        assert len(children) == 2
        psutil.wait_procs(children, timeout=30)
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in children)

    @posix
    def test_they_are_as_nice_as_asked(self) -> None:
        started = processes.start_busy(1, nice=processes.NICEST, seconds=30)
        try:
            assert psutil.Process(started[0].pid).nice() == 19
        finally:
            processes.end_all(started)

    @posix
    def test_they_end_by_themselves(self) -> None:
        [process] = processes.start_busy(1, seconds=0.3)
        try:
            assert process.wait(60) == 0
        finally:
            processes.end_all([process])

    def test_processor_time_is_that_of_all(self) -> None:
        if processes.used([os.getpid()]) is None:
            pytest.skip("this system does not tell the processor time of others")
        children = processes.start_busy(1, seconds=30)
        try:
            pids = [children[0].pid]
            before = processes.used(pids)
            time.sleep(0.3)
            now = processes.used(pids)
            assert before is not None
            assert now is not None
            assert now > before
        finally:
            processes.end_all(children)
        assert processes.used(pids) is None


@posix
def test_children_of_one_session_are_told_from_others() -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        assert processes.in_one_session([os.getpid(), os.getpid()]) is True
        assert processes.in_one_session([os.getpid(), other.pid]) is False
    finally:
        other.communicate()
    assert processes.in_one_session([os.getpid(), other.pid]) is None
