"""Processes that load the processor, in their own sessions or in that of the model process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from subprocess import Popen

from lsp_calib.errors import EngineError
from lsp_calib.tools.bench.idle import cpu_seconds
from lsp_calib.tools.bench.json_lines import JsonLines
from lsp_calib.tools.bench.server import Scratch

NICEST = 19
# Seconds; enough on a busy machine.
_PATIENCE = 90.0
_PROC = Path("/proc")


def start_busy(count: int, *, nice: int = 0, seconds: float, new_session: bool = False) -> list[Popen[bytes]]:
    """Start `count` busy processes. They end with this process, or after `seconds`.

    new_session: start each in its own session (POSIX). Raises EngineError if one does not start.
    """
    command = [sys.executable, "-P", "-m", "lsp_calib.tools.bench.busy_loop"]
    command += [str(os.getpid()), str(nice), str(seconds)]
    started: list[Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(
                Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=new_session and os.name == "posix",
                )
            )
        for one in started:
            assert one.stdout is not None
            if not one.stdout.readline():
                raise EngineError("A process that was to load the processor beside the model ended at once.")
    except BaseException:
        end_all(started)
        raise
    return started


def end_all(processes: Sequence[Popen[bytes]]) -> None:
    """Kill the processes and wait until they have ended."""
    for one in processes:
        one.kill()
    for one in processes:
        one.wait()
        if one.stdout is not None:
            one.stdout.close()


@contextlib.asynccontextmanager
async def busy_elsewhere(count: int, seconds: float) -> AsyncIterator[list[int]]:
    """Busy processes, each in its own session; they get equal shares if Linux shares by session."""
    processes = start_busy(count, seconds=seconds, new_session=True)
    try:
        yield [one.pid for one in processes]
    finally:
        end_all(processes)


class SharedSession:
    """A session that contains the model process. model: id of the model process."""

    def __init__(self, process: JsonLines, model: int) -> None:
        self._process = process
        self.model = model

    @contextlib.asynccontextmanager
    async def busy(self, count: int, nice: int, seconds: float) -> AsyncIterator[list[int]]:
        """Busy processes in this session."""
        asked = {"busy": count, "nice": nice, "seconds": seconds}
        try:
            yield list((await self._process.ask(asked))["busy"])
        finally:
            await self._process.ask({**asked, "busy": 0})


@contextlib.asynccontextmanager
async def shared_session(scratch: Scratch) -> AsyncIterator[SharedSession | None]:
    """Start the model process of a state folder in a new session; its first client sets the load options.

    None on systems without sessions.
    """
    if os.name != "posix":
        yield None
        return
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "lsp_calib.tools.bench.session_child", str(scratch.model)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "LSP_CALIB_HOME": str(scratch.home), "LSP_CALIB_LINGER": "0"},
        start_new_session=True,
    )
    lines = JsonLines(process, "The process that starts others beside the model", _PATIENCE)
    try:
        first = await lines.read()
        if not first["listening"]:
            raise EngineError(
                "The model process ended before it listened. Run `lsp-calib doctor` to find out why."
            )
        yield SharedSession(lines, int(first["model"]))
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), 10.0)
    except TimeoutError:
        # It leads its session and process group, which contain every process that it has started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


def in_one_session(pids: Sequence[int]) -> bool | None:
    """Whether processes belong to one session; None without sessions, or if a process has ended."""
    try:
        return len({os.getsid(pid) for pid in pids}) == 1
    except (AttributeError, OSError):
        return None


def shared_by_session() -> bool | None:
    """Whether Linux is set to share the processor by session (autogroups); None on other systems."""
    try:
        return (_PROC / "sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
    except OSError:
        return None


def used(pids: Sequence[int]) -> float | None:
    """Total processor time of the processes in seconds; None if unknown."""
    seconds = [cpu_seconds(pid) for pid in pids]
    return None if None in seconds else sum(one for one in seconds if one is not None)
