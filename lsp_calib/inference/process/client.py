"""The model process as an `Engine`, for the programs that use it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec

from lsp_calib import lockfile
from lsp_calib.errors import (
    DeadlineError,
    EngineDiedError,
    EngineError,
    LspCalibError,
    ModelError,
    ModelFileError,
    SupersededError,
    copy_error,
)
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import (
    EngineState,
    LoadedModel,
    Priority,
    Request,
    StateListener,
    ignore_state,
)
from lsp_calib.inference.models.cards import ModelCard, choose
from lsp_calib.inference.process import protocol, starting
from lsp_calib.inference.process.protocol import Place
from lsp_calib.inference.process.starting import Child, RestartPolicy
from lsp_calib.values import Generation, ModelIdentity

logger = logging.getLogger(__name__)

# Seconds for a process to start listening and to say welcome.
_PATIENCE = 30.0
# Seconds for the answer to a request, from when the model is loaded. Work in the background waits for all
# other work.
_INTERACTIVE, _BACKGROUND = 60.0, 600.0
# Seconds without news of a model that is being loaded. Its checksum and a trial of it say nothing meanwhile.
_LOADING = 600.0
# Seconds until the next try: where there is no usable model, and where no process could run or load it.
_AGAIN, _UNABLE = 2.0, 20.0
# Seconds for a process to end after it was asked to, before it is killed.
_END = 2.0


class _StartsAgainError(EngineDiedError):
    """The process died; requests that waited for it wait for the next one."""


class ProcessConnection:
    """Open until one side closes it. `open` makes one.

    pid: of the process. ready: resolved when the model is loaded, or with the error that prevents loading.
    ended: resolved once the connection is over and every request has its result. farewell: the process's
    message when it was asked to end.
    """

    def __init__(
        self,
        streams: protocol.Streams,
        pid: int,
        on_event: Callable[[ProcessConnection, protocol.Message], None],
        explain: Callable[[ProcessConnection], Awaitable[LspCalibError]],
    ) -> None:
        self._reader, self._writer = streams
        self.pid = pid
        self.farewell = ""
        self.gone = False
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[protocol.Loaded] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[protocol.Message]] = {}
        self._heard = 0  # messages
        self._on_event = on_event
        self._explain = explain
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls,
        place: Place,
        hello: protocol.Hello,
        on_event: Callable[[ProcessConnection, protocol.Message], None],
        explain: Callable[[ProcessConnection], Awaitable[LspCalibError]],
    ) -> ProcessConnection:
        """Connect, and wait for the welcome.

        on_event: receives every message that answers no request. explain: gives the error of requests in
        flight when the connection ends. Raises OSError if no process listens.
        """
        reader, writer = await protocol.connect(place)
        try:
            writer.write(protocol.encode({"op": "hello", **msgspec.to_builtins(hello)}))
            welcome = await protocol.receive(reader)
            return cls((reader, writer), int(welcome["pid"]), on_event, explain)
        except asyncio.IncompleteReadError as error:
            writer.close()
            raise ConnectionResetError("it has just gone") from error
        except BaseException:
            writer.close()
            raise

    async def ask(self, message: protocol.Message, seconds: float = _INTERACTIVE) -> protocol.Message:
        """The answer to a message, which gets a new id. Cancelling this cancels the request.

        Raises the request's error: DeadlineError, SupersededError, EngineError, EngineDiedError if the
        connection is over.
        """
        request_id = next(self._ids)
        frame = protocol.encode({"id": request_id, **message})
        if self.gone:
            raise EngineDiedError("The model process has just ended. The next request starts it again.")
        asked = self._asked[request_id] = asyncio.get_running_loop().create_future()
        self._writer.write(frame)
        try:
            async with asyncio.timeout(seconds):
                answer: protocol.Message = await asked
        except TimeoutError as error:
            raise DeadlineError(
                f"The model process did not answer within {seconds:g} s: it is stopped, or the machine is "
                "overloaded. Ask again, or restart the model (`lsp-calib.restartModel`)."
            ) from error
        finally:
            del self._asked[request_id]
            if asked.cancelled():
                self.send({"op": "cancel", "id": request_id})
        if "error" in answer:
            kind = SupersededError if answer["error"] == "superseded" else EngineError
            raise kind(str(answer.get("message")))
        return answer

    async def loaded(self) -> None:
        """Wait until the model is loaded. Raises the error that prevents it, DeadlineError without news."""
        while not self.ready.done():
            heard = self._heard
            await asyncio.wait({self.ready}, timeout=_LOADING)
            if not self.ready.done() and self._heard == heard:
                raise DeadlineError(
                    f"The model process has loaded nothing for {_LOADING:g} s: it is stopped, or the machine "
                    "is overloaded. Restart the model (`lsp-calib.restartModel`)."
                )
        self.ready.result()

    def send(self, message: protocol.Message) -> None:
        if not self.gone and not self._writer.is_closing():
            self._writer.write(protocol.encode(message))

    async def close(self) -> None:
        """Once this returns, every request has its result."""
        # Not `close`: that waits until the process has read everything, even if it does not read.
        self._writer.transport.abort()
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, EngineError):
            while True:
                self._receive(await protocol.receive(self._reader))
        self.gone = True
        self._writer.close()
        error = await self._explain(self)
        if not self.ready.done():
            self._fail(error)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(copy_error(error))
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        self.ended.set_result(None)

    def _receive(self, message: protocol.Message) -> None:
        self._heard += 1
        event = message.get("event")
        if event is None:
            asked = self._asked.get(message.get("id", -1))
            if asked is not None and not asked.done():
                asked.set_result(message)
            return
        if event == "ready":
            self.ready.set_result(protocol.read(message, protocol.Loaded))
        elif event == "failed":
            self._fail(protocol.failure(message))
        elif event == "bye":
            self.farewell = self.farewell or str(message.get("message"))
        self._on_event(self, message)

    def _fail(self, error: LspCalibError) -> None:
        self.ready.set_exception(error)
        self.ready.exception()  # it may have no waiter: asyncio must not report it as well


class ModelProcess:
    """An `Engine`: the user's one process for a model, started by its first client.

    Clients that need the same process meet at one place (`Place.of`: a model file, context, engine, release
    and machine), where the holder of the lock serves them. It ends `linger` seconds after its last client.

    choice: the model, and how to load it if this is its first client. LSP_CALIB_LINGER in the environment
        overrides its `linger`.
    on_state: called at loading, readiness and failure.
    """

    def __init__(self, choice: EngineChoice, *, on_state: StateListener = ignore_state) -> None:
        self._wanted = choice.model
        linger = choice.linger
        with contextlib.suppress(ValueError):
            if (wanted := float(os.environ.get("LSP_CALIB_LINGER", ""))) >= 0.0:
                linger = min(wanted, sys.float_info.max)
        self._hello = protocol.Hello(choice.threads, choice.gpu_layers, linger, choice.cache_mb)
        self._on_state = on_state
        self._connection: ProcessConnection | None = None
        self._starting: asyncio.Task[None] | None = None
        self._child: Child | None = None
        self._card: ModelCard | None = None
        self._place: Place | None = None
        self._deaths = RestartPolicy()
        self._failure: tuple[LspCalibError, float] | None = None  # and when another try is worth while

    @property
    def pid(self) -> int | None:
        """The model process, None while there is no connection to one."""
        return self._connection.pid if self._connection and not self._connection.gone else None

    async def ready(self) -> LoadedModel:
        """Start the process if need be and wait until the model is loaded.

        A process that dies while it loads is started again (`starting.RestartPolicy`). Raises ModelError if
        there is no usable model, and tries again some seconds later; after three deaths not until `restart`.
        """
        loaded = (await self._ready()).ready.result()
        assert self._card is not None
        identity = ModelIdentity(self._card.name, self._card.quantisation, loaded.sha256)
        return LoadedModel(identity, self._card, loaded.engine, loaded.evaluates_ahead)

    async def generate(self, request: Request) -> Generation:
        """Raises ModelError, EngineDiedError (the next request starts a new process), SupersededError,
        DeadlineError, EngineError."""
        limit = _INTERACTIVE if request.priority is Priority.INTERACTIVE else _BACKGROUND
        message = {"op": "generate", "request": msgspec.to_builtins(request)}
        while True:
            with contextlib.suppress(_StartsAgainError):
                answer = await (await self._ready()).ask(message, limit)
                self._deaths.answered()
                return protocol.read(answer.get("generation"), Generation)

    async def stats(self) -> protocol.Stats:
        """The present and past work of the process, for all clients together. Starts it if need be."""
        answer = await (await self._ready()).ask({"op": "stats"})
        return protocol.read(answer.get("stats"), protocol.Stats)

    async def restart(self) -> None:
        """Forget a failure and end the process, for all its clients; the next request starts a new one."""
        await self._end_process()
        await self.close()
        self._failure = None
        self._deaths = RestartPolicy()

    async def close(self) -> None:
        """Close the connection, or stop a start. The process ends when it has no other clients."""
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.cancel()
            await asyncio.wait([starting])
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ready(self) -> ProcessConnection:
        """A connection to a process whose model is loaded. Several may wait for one start."""
        while True:
            connection = self._connection
            if connection is not None and connection.gone:
                # The cause of its end is being determined; after too many deaths there is no other attempt.
                await asyncio.shield(connection.ended)
            if self._failure is not None and time.monotonic() < self._failure[1]:
                raise copy_error(self._failure[0])
            if connection is not None and not connection.gone and connection.ready.done():
                return connection
            if self._starting is None:
                self._failure = None
                self._starting = asyncio.create_task(self._start())
                self._starting.add_done_callback(self._started)
            starting = self._starting
            await asyncio.wait({starting})
            if starting.cancelled():
                raise EngineDiedError("The engine was closed before it was ready.")
            if isinstance(error := starting.exception(), LspCalibError):
                raise copy_error(error)
            starting.result()

    def _started(self, starting: asyncio.Task[None]) -> None:
        if self._starting is starting:
            self._starting = None
        if not starting.cancelled():
            starting.exception()  # nothing may be left that awaits it

    async def _start(self) -> None:
        """Connect to a process and wait until it has loaded the model; again while it dies of that."""
        try:
            while True:
                with contextlib.suppress(_StartsAgainError):
                    self._connection = await self._meet()
                    await self._connection.loaded()
                    return
        except EngineDiedError:
            raise
        except OSError as error:
            raise self._unable(f"The model cannot be started: {error}.") from error
        except LspCalibError as error:
            if isinstance(error, DeadlineError) and self._connection is not None:
                connection, self._connection = self._connection, None
                await connection.close()
            if self._failure is None:
                self._fail(error, _AGAIN)
            raise

    async def _meet(self) -> ProcessConnection:
        """Connect; where no process listens, start one, and connect to it or to one started meanwhile.

        Raises EngineDiedError if it ended before it listened or none comes to listen in time.
        """
        if not self._deaths.count:
            self._on_state(EngineState.STARTING, "Starting the model.", None)
        # Reading cards and looking for files touches the disk: not on the event loop.
        self._card, path = card, path = await asyncio.to_thread(choose, self._wanted)
        self._place = place = await asyncio.to_thread(Place.of, path, card.context)
        pause = 0.02
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    with contextlib.suppress(OSError):
                        return await ProcessConnection.open(place, self._hello, self._event, self._lost)
                    child = self._child = Child(card, path, place.name, self._deaths.safety)
                    if not await self._listens(child):
                        # Another process has the lock: it is about to listen, or about to end.
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, 0.5)
        except TimeoutError as error:
            raise EngineDiedError(
                f"The model process does not answer within {_PATIENCE:.0f} s: it is stopped, or the machine "
                "is overloaded. Restart the model (`lsp-calib.restartModel`)."
            ) from error

    async def _listens(self, child: Child) -> bool:
        """True: the child listens; False: another process has the lock. Raises EngineDiedError if it ended
        otherwise."""
        try:
            if await asyncio.wrap_future(child.listening):
                return True
            code = await asyncio.wrap_future(child.code)
        except asyncio.CancelledError:
            child.stop()
            raise
        if child.problem:
            raise self._unable(child.problem)
        if code != protocol.LOST:
            raise self._died(code)
        return False

    def _event(self, connection: ProcessConnection, message: protocol.Message) -> None:
        """Handle a message that answers no request."""
        title = self._card.title if self._card else "The model"
        match message.get("event"):
            case "loading":
                self._on_state(EngineState.LOADING, f"Loading {title}.", float(message["fraction"]))
            case "ready":
                loaded = connection.ready.result()
                self._deaths.ready(loaded.acceleration, tried=loaded.tried)
                for note in loaded.notes:
                    logger.warning("%s", note)
                self._on_state(EngineState.READY, " ".join([f"{title} is ready.", *loaded.notes]), None)
            case "failed":
                self._fail(protocol.failure(message), _UNABLE)
            case "busy":
                self._on_state(EngineState.BUSY, f"{title} is busy with another window.", None)
            case "free":
                self._on_state(EngineState.READY, f"{title} is ready.", None)

    async def _lost(self, connection: ProcessConnection) -> LspCalibError:
        """The error of requests in flight, now that the connection is over."""
        if connection is not self._connection:
            return EngineDiedError("The engine was closed during the request.")
        if self._failure is not None:
            return self._failure[0]
        if connection.farewell:
            self._on_state(EngineState.STARTING, connection.farewell, None)
            return EngineDiedError(connection.farewell)
        code = None
        if self._child is not None and self._child.pid == connection.pid:
            # Only the process that started it learns its exit code.
            with contextlib.suppress(TimeoutError):
                code = await asyncio.wait_for(asyncio.wrap_future(self._child.code), 1)
        return self._died(code)

    def _died(self, code: int | None) -> LspCalibError:
        """Count a death and report it as LOADING; after too many, report ERROR and give up.

        When it hears LOADING, a server loads the model again without waiting for a request (`server.model`).
        """
        message = self._deaths.died(code)
        logger.error("%s Its log is %s.", message, starting.log_path())
        if self._deaths.too_many:
            self._fail(ModelError(message), math.inf, EngineState.ERROR)
            return ModelError(message)
        self._on_state(EngineState.LOADING, message, 0.0)
        return _StartsAgainError(message) if self._deaths.at_once else EngineDiedError(message)

    def _unable(self, problem: str) -> EngineError:
        """No process can run at the moment, as on a full disk."""
        logger.error("%s", problem)
        error = EngineError(problem)
        self._fail(error, _UNABLE)
        return error

    def _fail(self, error: LspCalibError, seconds: float, state: EngineState | None = None) -> None:
        """Report a failure. seconds: until a request tries again."""
        self._failure = error, time.monotonic() + seconds
        no_model = isinstance(error, ModelError) and not isinstance(error, ModelFileError)
        self._on_state(state or (EngineState.NO_MODEL if no_model else EngineState.ERROR), str(error), None)

    async def _end_process(self) -> None:
        """Ask the process to end, if there is one; kill one that does not."""
        if self._place is None:
            return
        lock = self._place.lock
        pid = await asyncio.to_thread(lockfile.holder, lock)
        if pid is None:
            return
        if self.pid is not None and self._connection is not None:
            self._connection.send({"op": "restart"})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END):
                    while await asyncio.to_thread(lockfile.holder, lock) == pid:
                        await asyncio.sleep(0.02)
                    return
        await asyncio.to_thread(lockfile.kill_holder, lock, pid)
