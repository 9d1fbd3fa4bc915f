"""The model process, seen from the programs that ask it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from lsp_calib import home
from lsp_calib.errors import (
    EngineDiedError,
    EngineError,
    LspCalibError,
    ModelError,
    ModelFileError,
    RequestCancelledError,
)
from lsp_calib.inference import wire
from lsp_calib.inference.cards import ModelCard, choose
from lsp_calib.inference.engine import EngineState, LoadedModel, Request, StateListener
from lsp_calib.values import Generation, ModelIdentity

# After so many deaths without one answer between them, another start would not help.
_MOST_DEATHS = 3


def _silent(_state: EngineState, _message: str, _fraction: float | None) -> None:
    return


class ModelProcess:
    """An `Engine`: starts the model process when first needed and again when it has died.

    wanted: a card's name or the path of a GGUF file; None for the best installed model.
    threads, gpu_layers: passed on; 0 threads lets the process choose.
    on_state: told of loading, readiness and failure.
    """

    def __init__(
        self,
        wanted: str | None = None,
        *,
        threads: int = 0,
        gpu_layers: int = 0,
        on_state: StateListener = _silent,
    ) -> None:
        self._wanted = wanted
        self._threads = threads
        self._gpu_layers = gpu_layers
        self._on_state = on_state
        self._start_lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[LoadedModel] | None = None
        self._waiting: dict[int, asyncio.Future[Generation]] = {}
        self._ids = itertools.count(1)
        self._deaths = 0
        self._failure: LspCalibError | None = None

    @property
    def pid(self) -> int | None:
        """The model process, None while there is none."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def ready(self) -> LoadedModel:
        """Start the process if need be and wait until the model is loaded.

        Raises ModelError if there is no usable model (and again at each later call, without another try),
        EngineDiedError if the process died while loading.
        """
        if self._failure is not None:
            raise self._failure
        async with self._start_lock:
            if self._ready is None:
                try:
                    await self._start()
                except LspCalibError as error:
                    self._fail(error)
                    raise
        assert self._ready is not None
        return await asyncio.shield(self._ready)

    async def generate(self, request: Request) -> Generation:
        """Raises ModelError, EngineDiedError (the next request starts a new process), EngineError."""
        await self.ready()
        request_id = next(self._ids)
        answer: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            self._send(wire.request_to_wire(request_id, request))
            return await answer
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():
                self._send({"op": "cancel", "id": request_id})
            raise
        finally:
            self._waiting.pop(request_id, None)

    async def restart(self) -> None:
        """Forget a failure and the running process; the next request starts a new one."""
        await self.close()
        self._failure = None
        self._deaths = 0

    async def close(self) -> None:
        """Close the connection; the process goes by itself, and is ended if it does not within 2 s."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        await _end(process)
        if self._reading is not None:
            await self._reading

    async def _start(self) -> None:
        self._on_state(EngineState.STARTING, "Starting the model.", None)
        # Reading cards and probing files touches the disk: not on the event loop.
        card, path = await asyncio.to_thread(choose, self._wanted)
        command = [
            # -P: the working folder is the user's workspace, whose modules must not be run.
            *(sys.executable, "-P", "-m", "lsp_calib.inference.process"),
            *(f"--model={path}", "--sha256", card.sha256, "--size", str(card.size)),
            *("--context", str(card.context), "--threads", str(self._threads)),
            *("--gpu-layers", str(self._gpu_layers)),
        ]
        with _log_file() as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                # An interrupt typed in a terminal is for the client; it then closes the connection.
                start_new_session=os.name == "posix",
            )
        self._ready = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(self._process, card))

    async def _read(self, process: asyncio.subprocess.Process, card: ModelCard) -> None:
        assert process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, EngineError):
            while True:
                header = await process.stdout.readexactly(wire.HEADER.size)
                body = await process.stdout.readexactly(wire.length(header))
                self._receive(wire.decode(body), card)
        await self._gone(process)

    def _receive(self, message: wire.Message, card: ModelCard) -> None:
        match message.get("event"):
            case "loading":
                self._on_state(EngineState.LOADING, f"Loading {card.title}.", float(message["fraction"]))
                return
            case "ready":
                if self._ready is not None and not self._ready.done():
                    identity = ModelIdentity(card.name, card.quantisation, str(message["sha256"]))
                    self._ready.set_result(LoadedModel(identity, card))
                self._on_state(EngineState.READY, f"{card.title} is ready.", None)
                return
            case "failed":
                kind = ModelFileError if message.get("kind") == "file" else ModelError
                self._fail(kind(str(message.get("message"))))
                return
        answer = self._waiting.get(message.get("id", -1))
        if answer is None or answer.done():
            return
        if "generation" in message:
            self._deaths = 0
            try:
                answer.set_result(wire.generation_from_wire(message["generation"]))
            except EngineError as error:
                answer.set_exception(error)
        elif message.get("error") == "cancelled":
            answer.set_exception(RequestCancelledError("The request was cancelled."))
        else:
            answer.set_exception(EngineError(str(message.get("message"))))

    async def _gone(self, process: asyncio.subprocess.Process) -> None:
        """The process closed its output: every request in flight fails, the next one starts afresh."""
        code = await _end(process)
        asked_to_go = self._process is not process
        error = EngineDiedError(
            f"The model process ended unexpectedly ({_how(code)}). The next request starts it again. "
            f"Its last words are in {_log_path()}."
        )
        ready, self._ready = self._ready, None
        if ready is not None and not ready.done():
            ready.set_exception(self._failure or error)
            # Nobody may be waiting: a failure must not be reported twice.
            ready.exception()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)
        if asked_to_go or self._failure is not None:
            return
        self._process = None
        self._deaths += 1
        if self._deaths >= _MOST_DEATHS:
            self._fail(
                ModelError(
                    f"The model process ended {self._deaths} times without an answer ({_how(code)}). "
                    f"It is not started again until the server or the model is restarted. See {_log_path()}."
                )
            )
        else:
            self._on_state(EngineState.STARTING, str(error), None)

    def _fail(self, error: LspCalibError) -> None:
        self._failure = error
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()
        no_model = isinstance(error, ModelError) and not isinstance(error, ModelFileError)
        self._on_state(EngineState.NO_MODEL if no_model else EngineState.ERROR, str(error), None)

    def _send(self, message: wire.Message) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            # It has just died; `_gone` fails the request that is registered by now.
            if "segments" in message:
                raise EngineDiedError("The model process has just ended. The next request starts it again.")
            return
        process.stdin.write(wire.encode(message))


async def _end(process: asyncio.subprocess.Process) -> int:
    """The exit code of a process that is about to go by itself; it is killed if it does not within 2 s."""
    try:
        return await asyncio.wait_for(process.wait(), 2)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


def _log_path() -> Path:
    return home.home() / "log" / "model.log"


@contextlib.contextmanager
def _log_file() -> Iterator[int]:
    home.private_folder(_log_path().parent)
    descriptor = os.open(_log_path(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
