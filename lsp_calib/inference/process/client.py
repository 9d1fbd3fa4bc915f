"""The model process as an `Engine`, for the programs that use it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

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
    ScoreRequest,
    StateListener,
    ignore_state,
)
from lsp_calib.inference.models.cards import ModelCard, choose
from lsp_calib.inference.process import protocol, starting
from lsp_calib.inference.process.protocol import Place
from lsp_calib.inference.process.starting import Child, RestartPolicy
from lsp_calib.values import Distributions, Generation, ModelIdentity, Token

logger = logging.getLogger(__name__)

# Seconds for a process to start listening and to say welcome.
_PATIENCE = 30.0
# Seconds for the answer to a request, from when the model is loaded, and for the next piece of a scored text.
# Work in the background waits for all other work.
_INTERACTIVE, _BACKGROUND = 60.0, 600.0
# Seconds until the next try: where there is no usable model, where the system could not run the process, and
# where the process could not load the model.
_AGAIN, _UNABLE, _NOT_LOADED = 2.0, 10.0, 60.0
# Seconds for a process to end after it was asked to, before it is killed.
_END = 2.0
_LAST = ("generation", "scored", "stats", "error")
T = TypeVar("T")


class _StartsAgainError(EngineDiedError):
    """The process died; requests that waited for it wait for the next one."""


async def _outcome(future: asyncio.Future[T]) -> T:
    """The result of a future with several waiters. Each gets an exception of its own."""
    await asyncio.wait({future})
    if not future.cancelled() and isinstance(error := future.exception(), LspCalibError):
        raise copy_error(error)
    return future.result()


class Inbox:
    """The messages to one request, in order."""

    def __init__(self) -> None:
        self.over = False
        self._messages: asyncio.Queue[protocol.Message | LspCalibError] = asyncio.Queue()

    def put(self, message: protocol.Message | LspCalibError) -> None:
        self.over = not isinstance(message, dict) or any(key in message for key in _LAST)
        self._messages.put_nowait(message)

    async def next(self, seconds: float = _BACKGROUND) -> protocol.Message:
        """Raises the request's error: DeadlineError, EngineError, or the ModelError that prevents loading."""
        try:
            async with asyncio.timeout(seconds):
                message = await self._messages.get()
        except TimeoutError as error:
            raise DeadlineError(
                f"The model process did not answer within {seconds:g} s: it is stopped, or the machine is "
                "overloaded. Ask again, or restart the model (`lsp-calib.restartModel`)."
            ) from error
        if isinstance(message, LspCalibError):
            raise message
        if "error" in message:
            kind = SupersededError if message["error"] == "superseded" else EngineError
            raise kind(str(message.get("message")))
        return message


class ProcessConnection:
    """Open until one side closes it. `open` makes one.

    pid, options: of the process, and how its model was loaded. ready: resolved when the model is loaded, or
    with the ModelError that prevents loading. ended: resolved once the connection is over and every request
    has its result. farewell: the process's message when it was asked to end.
    """

    def __init__(
        self,
        streams: protocol.Streams,
        welcome: protocol.Message,
        on_event: Callable[[ProcessConnection, protocol.Message], None],
        explain: Callable[[ProcessConnection], Awaitable[LspCalibError]],
    ) -> None:
        self._reader, self._writer = streams
        self.pid = int(welcome["pid"])
        self.options = protocol.read(welcome, protocol.Options)
        self.farewell = ""
        self.gone = False
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[protocol.Loaded] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._ids = itertools.count(1)
        self._asked: dict[int, Inbox] = {}
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
        flight when the connection ends. Raises OSError if no process listens, EngineError if its messages are
        invalid.
        """
        reader, writer = await protocol.connect(place)
        try:
            writer.write(protocol.encode(protocol.hello_to_wire(hello)))
            welcome = await protocol.receive(reader)
            if welcome.get("event") != "welcome":
                raise EngineError(
                    str(welcome.get("message") or "The model process sent no welcome. Restart the model.")
                )
            return cls((reader, writer), welcome, on_event, explain)
        except asyncio.IncompleteReadError as error:
            writer.close()
            raise ConnectionResetError("it has just gone") from error
        except (KeyError, TypeError, ValueError) as error:
            writer.close()
            raise EngineError(f"The model process sent a welcome that cannot be read: {error!r}.") from error
        except BaseException:
            writer.close()
            raise

    @contextlib.contextmanager
    def ask(self, message: protocol.Message) -> Iterator[Inbox]:
        """Send a message with a new id. Leaving before the last answer cancels the request.

        Raises EngineError if the message is too long, EngineDiedError if the connection is over.
        """
        request_id = next(self._ids)
        frame = protocol.encode({"id": request_id, **message})
        if self.gone:
            raise EngineDiedError("The model process has just ended. The next request starts it again.")
        inbox = self._asked[request_id] = Inbox()
        self._writer.write(frame)
        try:
            yield inbox
        finally:
            del self._asked[request_id]
            if not inbox.over:
                self.send({"op": "cancel", "id": request_id})

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
            self.ready.set_exception(error)
            self.ready.exception()  # it may have no waiter: asyncio must not report it as well
        for inbox in self._asked.values():
            if not inbox.over:
                inbox.put(copy_error(error))
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        self.ended.set_result(None)

    def _receive(self, message: protocol.Message) -> None:
        event = message.get("event")
        if event is None:
            inbox = self._asked.get(message.get("id", -1))
            if inbox is not None and not inbox.over:
                inbox.put(message)
            return
        if event == "ready" and not self.ready.done():
            self.ready.set_result(protocol.read(message, protocol.Loaded))
        elif event == "failed" and not self.ready.done():
            self.ready.set_exception(protocol.failure(message))
            self.ready.exception()
        elif event == "bye":
            self.farewell = self.farewell or str(message.get("message"))
        self._on_event(self, message)


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
        self._options = protocol.Options(choice.threads, choice.gpu_layers)
        self._linger = choice.linger
        with contextlib.suppress(ValueError):
            self._linger = float(os.environ.get("LSP_CALIB_LINGER", ""))
        self._on_state = on_state
        self._connection: ProcessConnection | None = None
        self._opening: asyncio.Task[ProcessConnection] | None = None
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
        connection = await self._ready()
        assert self._card is not None
        loaded = connection.ready.result()
        identity = ModelIdentity(self._card.name, self._card.quantisation, loaded.sha256)
        return LoadedModel(identity, self._card, loaded.engine)

    async def generate(self, request: Request) -> Generation:
        """Raises ModelError, EngineDiedError (the next request starts a new process), SupersededError,
        DeadlineError, EngineError."""
        limit = _INTERACTIVE if request.priority is Priority.INTERACTIVE else _BACKGROUND
        while True:
            connection = await self._ready()
            with contextlib.suppress(_StartsAgainError), self._asking(connection, request) as inbox:
                message = await inbox.next(limit)
                self._deaths.answered()
                return protocol.read(message.get("generation"), Generation)

    async def score(self, request: ScoreRequest) -> AsyncIterator[Token]:
        """Raises the same errors as `generate`."""
        with self._asking(await self._ready(), request) as inbox:
            while "scored" not in (message := await inbox.next()):
                for token in protocol.read(message.get("tokens"), list[Token]):
                    yield token
        self._deaths.answered()

    async def count(self, request: ScoreRequest) -> tuple[Distributions, ...]:
        """Raises the same errors as `generate`."""
        with self._asking(await self._ready(), request) as inbox:
            message = await inbox.next()
        self._deaths.answered()
        return protocol.read(message.get("counted"), tuple[Distributions, ...])

    async def stats(self) -> protocol.Stats:
        """The present and past work of the process, for all clients together. Starts it if need be."""
        connection = await self._ready()
        with connection.ask({"op": "stats"}) as inbox:
            return protocol.read((await inbox.next()).get("stats"), protocol.Stats)

    async def restart(self) -> None:
        """Forget a failure and end the process, for all its clients; the next request starts a new one."""
        await self._end_process()
        await self.close()
        self._failure = None
        self._deaths = RestartPolicy()

    async def close(self) -> None:
        """Close the connection, or stop a start. The process ends when it has no other clients."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @staticmethod
    def _asking(
        connection: ProcessConnection, request: Request | ScoreRequest
    ) -> contextlib.AbstractContextManager[Inbox]:
        return connection.ask(protocol.request_to_wire(request))

    async def _ready(self) -> ProcessConnection:
        """A connection to a process whose model is loaded."""
        while True:
            with contextlib.suppress(_StartsAgainError):
                connection = await self._connected()
                await _outcome(connection.ready)
                return connection

    async def _connected(self) -> ProcessConnection:
        if self._connection is not None and self._connection.gone:
            # The cause of its end is being determined; after too many deaths there is no other attempt.
            await asyncio.shield(self._connection.ended)
        if self._failure is not None:
            error, until = self._failure
            if time.monotonic() < until:
                raise copy_error(error)
            self._failure = None
        if self._connection is not None and not self._connection.gone:
            return self._connection
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        try:
            return await _outcome(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and not (task is not None and task.cancelling()):
                raise EngineDiedError("The engine was closed before it was ready.") from None
            raise

    def _opened(self, opening: asyncio.Task[ProcessConnection]) -> None:
        if self._opening is opening:
            self._opening = None
        if not opening.cancelled():
            opening.exception()  # nothing may be left that awaits it

    async def _open(self) -> ProcessConnection:
        try:
            await asyncio.sleep(self._deaths.back_off)
            if self._deaths.last:
                self._report_loading(0.0)
            else:
                self._on_state(EngineState.STARTING, "Starting the model.", None)
            # Reading cards and looking for files touches the disk: not on the event loop.
            card, path = await asyncio.to_thread(choose, self._wanted)
            place = await asyncio.to_thread(Place.of, path, card.context)
            self._card, self._place = card, place
            connection = await self._meet(place, card, path)
        except EngineDiedError:
            raise
        except OSError as error:
            raise self._unable(f"The model cannot be started: {error}.") from error
        except LspCalibError as error:
            if self._failure is None:  # it was not given up after too many deaths
                self._fail(error, _AGAIN)
            raise
        self._connection = connection
        if connection.options != self._options:
            logger.info(
                "The model keeps the options of the client that loaded it (%s). "
                "Yours (%s) apply after a restart.",
                connection.options,
                self._options,
            )
        return connection

    async def _meet(self, place: Place, card: ModelCard, path: Path) -> ProcessConnection:
        """Connect; where no process listens, start one, and connect to it or to one started meanwhile.

        Raises EngineDiedError if it ended before it listened or none comes to listen in time.
        """
        wanted = self._options
        hello = protocol.Hello(wanted.threads, wanted.gpu_layers, self._linger)
        pause = 0.02
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    with contextlib.suppress(OSError):
                        return await ProcessConnection.open(place, hello, self._event, self._lost)
                    if not await self._start(card, path, place):
                        # Another process has the lock: it is about to listen, or about to end.
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, 0.5)
        except TimeoutError as error:
            pid = await asyncio.to_thread(lockfile.holder, place.lock)
            if pid is None:
                raise EngineDiedError(
                    f"The model process has not begun to listen for {_PATIENCE:.0f} s. Is the machine busy? "
                    "The next request tries again."
                ) from error
            number = f" (number {pid})" if pid != lockfile.UNKNOWN else ""
            raise EngineDiedError(
                f"The model process{number} does not answer. Restart the model "
                "(`lsp-calib.restartModel`), or end that process."
            ) from error

    async def _start(self, card: ModelCard, path: Path, place: Place) -> bool:
        """Start a process. True: it listens; False: another one has the lock.

        Raises EngineDiedError if it ended otherwise.
        """
        child = self._child = Child(card, path, place.name, self._deaths.safety)
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

    @property
    def _title(self) -> str:
        return self._card.title if self._card else "The model"

    def _report_loading(self, fraction: float) -> None:
        safer = " It is started in a safer way." if self._deaths.safety.careful else ""
        again = f" again. {self._deaths.last}{safer}" if self._deaths.last else "."
        self._on_state(EngineState.LOADING, f"Loading {self._title}{again}", fraction)

    def _event(self, connection: ProcessConnection, message: protocol.Message) -> None:
        """Handle a message that answers no request."""
        title = self._title
        match message.get("event"):
            case "loading":
                self._report_loading(float(message["fraction"]))
            case "ready":
                loaded = connection.ready.result()
                self._deaths.ready(loaded.acceleration, tried=loaded.tried)
                for note in loaded.notes:
                    logger.warning("%s", note)
                self._on_state(EngineState.READY, " ".join([f"{title} is ready.", *loaded.notes]), None)
            case "failed":
                error = protocol.failure(message)
                if isinstance(error, EngineError):
                    self._unable(str(error))
                else:
                    self._fail(error, _NOT_LOADED)
            case "busy":
                self._on_state(EngineState.BUSY, f"{title} is busy with another window.", None)
            case "free":
                self._on_state(EngineState.READY, f"{title} is ready.", None)
            case "error":
                logger.error("The model process: %s", message.get("message"))

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
        self._report_loading(0.0)
        return _StartsAgainError(message) if self._deaths.at_once else EngineDiedError(message)

    def _unable(self, problem: str) -> EngineError:
        """No process can run at the moment, as on a full disk."""
        logger.error("%s", problem)
        error = EngineError(problem)
        self._fail(error, _UNABLE, EngineState.ERROR)
        return error

    def _fail(self, error: LspCalibError, seconds: float, state: EngineState | None = None) -> None:
        """Report a failure. seconds: until a request tries again."""
        self._failure = error, time.monotonic() + seconds
        no_model = isinstance(error, ModelError) and not isinstance(error, ModelFileError)
        usual = EngineState.NO_MODEL if no_model else EngineState.ERROR
        self._on_state(state or usual, str(error), None)

    async def _end_process(self) -> None:
        """Ask the process to end, if there is one; kill one that does not."""
        if self._place is None:
            return
        lock = self._place.lock
        pid = await asyncio.to_thread(lockfile.holder, lock)
        if pid is None:
            return
        if self._connection is not None and not self._connection.gone:
            self._connection.send({"op": "restart"})
        elif not await asyncio.to_thread(lockfile.kill_holder, lock, pid):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END):
                await _freed(lock, pid)
                return
        await asyncio.to_thread(lockfile.kill_holder, lock, pid)


async def _freed(lock: Path, pid: int) -> None:
    """Wait until process `pid` no longer holds the lock."""
    while await asyncio.to_thread(lockfile.holder, lock) == pid:
        await asyncio.sleep(0.02)
