"""Processes that run beside the server: the bare llama.cpp loop, and those that load the processor.

A child answers each line of JSON on its standard input with a line on its standard output. Two children are
parts of this module, `python -m lsp_calib.tools.bench.processes`:

`busy PARENT NICE SECONDS` only keeps one core busy. It prints a line just before it begins, and ends after
SECONDS, or as soon as process PARENT is no longer its parent, so that it never outlives a bench.

`session MODEL` leads a new session that holds the model process and, when asked, busy processes. Linux shares
the processor by session first (autogroups) and applies niceness only within a session. A process cannot join
an existing session, so the same parent has to start the model process and the nice processes. Its first
answer is unasked; at the end of the input it ends all processes that it has started:

                                                            -> {"model": pid, "listening": bool}
    {"busy": int, "nice": int, "seconds": float}            -> {"busy": [pid, ...]}; earlier ones end first
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import TimeoutError as NotYet
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import Any

import attrs

from lsp_calib.errors import EngineError
from lsp_calib.values import Prompt

NICEST = 19
# Seconds to wait for an answer of the bare loop, of the session, and for its model process to start
# listening; enough on a busy machine.
_RAW, _SESSION, _LISTENING = 300.0, 90.0, 60.0
# Seconds for the model process to end after its clients have gone.
_END = 5.0
_LONGEST_LINE = 1 << 24
# Some milliseconds of work between two checks of the parent.
_ROUND = 100_000
_MODULE = (sys.executable, "-P", "-m", "lsp_calib.tools.bench.processes")
_PROC = Path("/proc")


@attrs.frozen
class JsonLines:
    """A child process that answers each line with a line.

    name: its name in error messages, at the beginning of a sentence. patience: seconds to wait for an answer.
    advice: text for the user if it fails.
    """

    process: Process
    name: str
    patience: float
    advice: str = ""

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to `message`. Raises EngineError if the process ends or does not answer in time."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        return await self.read()

    async def read(self) -> dict[str, Any]:
        """The next line. Raises EngineError if the process ends or does not write one in time."""
        assert self.process.stdout is not None
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), self.patience)
        except TimeoutError as error:
            raise self._failure(f"did not answer within {self.patience:g} s.") from error
        if not line:
            raise self._failure("ended before it answered.")
        found: dict[str, Any] = json.loads(line)
        return found

    def _failure(self, what: str) -> EngineError:
        return EngineError(f"{self.name} {what} {self.advice}".rstrip())


def answer(message: dict[str, Any]) -> None:
    """Write a line to the parent; called in the child."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


@attrs.frozen
class Replayed:
    """ms: from the first token to the last. kept: tokens of the prompt found in the cache."""

    ms: float
    kept: int
    evaluated: int


@attrs.frozen
class Raw:
    """A `raw_child` process: asked right after the server, while that is idle."""

    _process: JsonLines

    async def tokens_of(self, prompt: Prompt) -> list[int]:
        """The prompt's tokens, as in the server's engine except that a long prompt is not shortened."""
        segments = [[kind.value, text] for kind, text in prompt.segments]
        return list((await self._process.ask({"segments": segments}))["tokens"])

    async def tokens_of_text(self, text: str) -> list[int]:
        return list((await self._process.ask({"text": text}))["tokens"])

    async def replay(
        self, prompt: Sequence[int], keep: int, then: Sequence[int], generated: int, threads: int
    ) -> Replayed:
        """Do the same work: reuse `keep` cached tokens, generate `generated` ones that begin with `then`.

        threads: as many as the server's model used for it.
        """
        asked = {
            "replay": list(prompt),
            "keep": keep,
            "then": list(then),
            "generated": generated,
            "threads": threads,
        }
        return Replayed(**await self._process.ask(asked))


def can_replay() -> bool:
    """Whether the binding that the loop needs is installed."""
    return find_spec("llama_cpp") is not None


@contextlib.asynccontextmanager
async def raw_process(
    model: Path, *, context: int, threads: int, vocabulary_only: bool = False
) -> AsyncIterator[Raw]:
    """Start a process with the model, or only its vocabulary. Raises EngineError if it does not start."""
    rest = ["vocabulary"] if vocabulary_only else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "lsp_calib.tools.bench.raw_child"),
        *(str(model), str(context), str(threads), *rest),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=_LONGEST_LINE,
        process_group=0 if os.name == "posix" else None,  # Ctrl-C in the terminal does not reach it
    )
    lines = JsonLines(
        process,
        "The raw llama.cpp loop",
        _RAW,
        "It loads a second copy of the model, which may not fit into memory. Leave it out with --no-raw.",
    )
    try:
        await lines.read()
        yield Raw(lines)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def start_busy(count: int, *, nice: int = 0, seconds: float, new_session: bool = False) -> list[Popen[bytes]]:
    """Start `count` busy processes. They end with this process, or after `seconds`.

    new_session: start each in its own session (POSIX). Raises EngineError if one does not start.
    """
    started: list[Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(
                Popen(
                    [*_MODULE, "busy", str(os.getpid()), str(nice), str(seconds)],
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
        with one:  # closes its output and waits
            pass


@contextlib.asynccontextmanager
async def busy_elsewhere(count: int, seconds: float) -> AsyncIterator[list[int]]:
    """Busy processes, each in its own session; they get equal shares if Linux shares by session."""
    processes = start_busy(count, seconds=seconds, new_session=True)
    try:
        yield [one.pid for one in processes]
    finally:
        end_all(processes)


@attrs.frozen
class SharedSession:
    """A session that contains the model process. model: id of the model process."""

    _process: JsonLines
    model: int

    @contextlib.asynccontextmanager
    async def busy(self, count: int, nice: int, seconds: float) -> AsyncIterator[list[int]]:
        """Busy processes in this session."""
        asked = {"busy": count, "nice": nice, "seconds": seconds}
        try:
            yield list((await self._process.ask(asked))["busy"])
        finally:
            await self._process.ask({**asked, "busy": 0})


@contextlib.asynccontextmanager
async def shared_session(model: Path, state: Path) -> AsyncIterator[SharedSession | None]:
    """Start the model process of a state folder in a new session; its first client sets the load options.

    None on systems without sessions.
    """
    if os.name != "posix":
        yield None
        return
    process = await asyncio.create_subprocess_exec(
        *(*_MODULE, "session", str(model)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={**os.environ, "LSP_CALIB_HOME": str(state), "LSP_CALIB_LINGER": "0"},
        start_new_session=True,
    )
    lines = JsonLines(process, "The process that starts others beside the model", _SESSION)
    try:
        first = await lines.read()
        if not first["listening"]:
            raise EngineError(
                "The model process ended before it listened. Run `lsp-calib doctor` to find out why."
            )
        yield SharedSession(lines, int(first["model"]))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 10.0)
        except TimeoutError:
            # It leads its session and process group, which contain every process that it has started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
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


def cpu_seconds(pid: int) -> float | None:
    """Seconds of processor time that a process has used, in steps of about 10 ms; None if unknown.

    Only Linux reports this for another process without extra packages.
    """
    try:
        # The process name, in brackets, may contain any character.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _keep_busy(parent: int, nice: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    if nice:
        os.nice(max(nice - os.nice(0), 0))
    answer({})
    while os.getppid() == parent and time.monotonic() < end:
        for _ in range(_ROUND):
            pass


def _lead_session(model: str) -> None:
    from lsp_calib.inference.models.cards import choose
    from lsp_calib.inference.process.starting import Child

    card, path = choose(model)
    child = Child(card, path, new_session=False)
    busy: Sequence[Popen[bytes]] = ()
    try:
        answer({"model": child.pid, "listening": child.listening.result(_LISTENING)})
        for line in sys.stdin:
            asked = json.loads(line)
            end_all(busy)
            busy = start_busy(asked["busy"], nice=asked["nice"], seconds=asked["seconds"])
            answer({"busy": [one.pid for one in busy]})
    finally:
        end_all(busy)
        try:
            child.code.result(_END)
        except NotYet:
            os.kill(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "busy":
        _keep_busy(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        _lead_session(sys.argv[2])
