"""What runs beside the server: the bare llama.cpp loop, llama.cpp's `llama-server`, and busy processes.

The first two are asked for the same tokens as the server's model
(https://github.com/ggml-org/llama.cpp/tree/master/tools/server).

Two processes are parts of this module, `python -m lsp_calib.tools.bench.processes`:

`busy PARENT NICE` only keeps one core busy. It prints a line just before it begins, and ends as soon as
process PARENT is no longer its parent, so that it never outlives a bench.

`session MODEL` leads a new session with the model process and, when told how many on its standard input, busy
processes. Linux shares the processor by session first (autogroups), and niceness counts only within one,
which a process cannot join.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.parse import urlsplit

import attrs

from lsp_calib.errors import EngineError, LspCalibError
from lsp_calib.values import Prompt

# Seconds to wait for an answer of the bare loop or of the peer; enough on a busy machine.
_PATIENCE = 300.0
_LONGEST_LINE = 1 << 24
# A busy process ends by itself after this many seconds: Windows does not tell that its parent has ended.
_LONGEST = 3600.0
# Some milliseconds of work between two checks of the parent.
_ROUND = 100_000
_MODULE = (sys.executable, "-P", "-m", "lsp_calib.tools.bench.processes")
NICEST = 19
# Seconds for the model process to listen, and to end after its clients have gone.
_LISTENING, _END = 60.0, 5.0


@attrs.frozen
class Repeated:
    """The same tokens somewhere else.

    ms: from asking for the first token until the last is there. evaluated: prompt tokens that were not in its
    cache. same: whether its work was the same.
    """

    ms: float
    evaluated: int
    same: bool


@attrs.frozen
class Raw:
    """A `raw_child` process: asked right after the server, while that is idle."""

    _process: Process

    async def tokens_of(self, prompt: Prompt) -> list[int]:
        """The prompt's tokens, as in the server's engine except that a long prompt is not shortened."""
        segments = [[kind.value, text] for kind, text in prompt.segments]
        return list(await self._ask("prompt", segments=segments))

    async def tokens_of_text(self, text: str) -> list[int]:
        return list(await self._ask("tokens", text=text))

    async def replay(
        self, prompt: Sequence[int], keep: int, then: Sequence[int], generated: int, threads: int
    ) -> Repeated:
        """Do the same work: reuse `keep` cached tokens, generate `generated` ones that begin with `then`.

        threads: as many as the server's model used for it.
        """
        work = {"keep": keep, "then": list(then), "generated": generated, "threads": threads}
        found = await self._ask("replay", prompt=list(prompt), **work)
        # The loop has one cache, the server several: it may have kept fewer tokens.
        return Repeated(found["ms"], found["evaluated"], found["evaluated"] == len(prompt) - keep)

    async def _ask(self, name: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
        return await self.read()

    async def read(self) -> Any:
        """The next line. Raises EngineError if the process ends or does not write one in time."""
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _PATIENCE)
        except TimeoutError:
            line = b""
        if not line:
            raise EngineError(
                "The raw llama.cpp loop does not answer. It loads a second copy of the model, which may not "
                "fit into memory. Leave it out with --no-raw."
            )
        return json.loads(line)


def answer(message: object) -> None:
    """Write a line to the parent; called in a child."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


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
    raw = Raw(process)
    try:
        await raw.read()
        yield raw
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class Peer:
    """A llama-server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._url, self._path = url.rstrip("/"), parts.path.rstrip("/")
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._connection = partial(kind, parts.hostname or "", parts.port, timeout=_PATIENCE)

    async def describe(self) -> dict[str, Any]:
        """The model's file and the build, as far as the peer reports them."""
        answer, _ = await asyncio.to_thread(self._send, "GET", "/props", None)
        return {"modelPath": answer.get("model_path"), "build": answer.get("build_info")}

    async def finish_line(self, prompt: Sequence[int], generated: int) -> Repeated:
        """Ask for exactly `generated` tokens after these, greedily, with the peer's cache on."""
        body = {
            "prompt": list(prompt),
            "n_predict": generated,
            "cache_prompt": True,
            "temperature": 0,
            "samplers": ["temperature"],
            "ignore_eos": True,
            "stream": False,
        }
        answer, ms = await asyncio.to_thread(self._send, "POST", "/completion", body)
        try:
            lengths = int(answer["tokens_evaluated"]), int(answer["tokens_predicted"])
            return Repeated(ms, int(answer["timings"]["prompt_n"]), lengths == (len(prompt), generated))
        except (KeyError, TypeError, ValueError) as error:
            raise LspCalibError(
                f"The peer at {self._url} answered without {error}: is it a llama-server of 2024 or later?"
            ) from error

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[dict[str, Any], float]:
        """The answer, and its milliseconds without connecting, making the request and parsing the answer."""
        data = None if body is None else json.dumps(body).encode()
        try:
            # A new one each time: servers close unused connections.
            with contextlib.closing(self._connection()) as connection:
                connection.connect()
                began = time.perf_counter()
                connection.request(method, self._path + path, data, {"Content-Type": "application/json"})
                response = connection.getresponse()
                content = response.read()
                ms = 1e3 * (time.perf_counter() - began)
            if response.status != 200:
                raise ValueError(f"status {response.status}: {content[:200].decode('utf-8', 'replace')}")
            return json.loads(content), ms
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise LspCalibError(
                f"The peer at {self._url} did not answer {path} ({error!r}). Start it first: "
                "`llama-server -m MODEL --port PORT`."
            ) from error


@contextlib.contextmanager
def busy(count: int, *, nice: int = 0, new_session: bool = True) -> Iterator[list[int]]:
    """Processes that want a core each, by their ids. They end with this process.

    new_session: each in its own session (POSIX), as a build in another terminal. Raises EngineError if one
    does not start.
    """
    started: list[Popen[bytes]] = []
    try:
        for _ in range(count):
            started.append(
                Popen(
                    [*_MODULE, "busy", str(os.getpid()), str(nice)],
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
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.kill()
        for one in started:
            with one:  # closes its output and waits
                pass


@attrs.frozen
class Session:
    """A session with the model process in it. model: id of that process."""

    _leader: Popen[bytes]
    model: int

    @contextlib.contextmanager
    def busy(self, count: int) -> Iterator[list[int]]:
        """Start busy processes beside the model, at nice 19."""
        try:
            yield list(self._tell(count))
        finally:
            self._tell(0)

    def _tell(self, count: int) -> list[int]:
        assert self._leader.stdin is not None
        assert self._leader.stdout is not None
        self._leader.stdin.write(b"%d\n" % count)
        self._leader.stdin.flush()
        line = self._leader.stdout.readline()
        if not line:
            raise EngineError("The process that starts others beside the model has ended.")
        return list(json.loads(line))


@contextlib.contextmanager
def session_of_model(model: Path, state: Path) -> Iterator[Session | None]:
    """The model process of a state folder, started in a new session; its first client sets the load options.

    None on systems without sessions, or if it does not listen.
    """
    if os.name != "posix":
        yield None
        return
    with Popen(
        [*_MODULE, "session", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LSP_CALIB_HOME": str(state), "LSP_CALIB_LINGER": "0"},
        start_new_session=True,
    ) as leader:
        assert leader.stdout is not None
        try:
            first = leader.stdout.readline()
            yield Session(leader, json.loads(first)) if first else None
        finally:
            leader.communicate()  # the end of its input ends it, and all that it has started


def _keep_busy(parent: int, nice: int) -> None:
    end = time.monotonic() + _LONGEST
    if nice:
        os.nice(max(nice - os.nice(0), 0))
    answer({})
    while os.getppid() == parent and time.monotonic() < end:
        for _ in range(_ROUND):
            pass


def _lead_session(model: str) -> None:
    from lsp_calib.inference.models.cards import choose
    from lsp_calib.inference.process.starting import Child

    child = Child(*choose(model), new_session=False)
    try:
        if not child.listening.result(_LISTENING):
            return
        answer(child.pid)
        with contextlib.ExitStack() as running:
            for line in sys.stdin:
                running.close()
                answer(running.enter_context(busy(int(line), nice=NICEST, new_session=False)))
    finally:
        try:
            child.code.result(_END)
        except TimeoutError:
            os.kill(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "busy":
        _keep_busy(int(sys.argv[2]), int(sys.argv[3]))
    else:
        _lead_session(sys.argv[2])
