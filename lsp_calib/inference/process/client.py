"""The model process as an `Engine`, for the programs that use it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from lsp_calib import lockfile
from lsp_calib.errors import (
    DeadlineError,
    EngineDiedError,
    EngineError,
    LspCalibError,
    ModelError,
    ModelFileError,
    SettingsError,
    copy_error,
)
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import (
    EngineState,
    LoadedModel,
    Request,
    ScoreRequest,
    StateListener,
    ignore_state,
)
from lsp_calib.inference.models.card import ModelCard
from lsp_calib.inference.models.cards import choose
from lsp_calib.inference.process import rendezvous, starting, wire
from lsp_calib.inference.process.connection import DOUBT, GONE, Connection, heard_within, outcome
from lsp_calib.inference.process.rendezvous import Rendezvous
from lsp_calib.inference.process.starting import Child, Failure, RestartPolicy
from lsp_calib.values import Distributions, Generation, ModelIdentity, Token

logger = logging.getLogger(__name__)

# Seconds for a process to start listening and to say welcome; longer than one that listens is given.
_PATIENCE = 30.0
# A process that was started is not where it should be: so often by chance, as while another one ends.
_CHANCE = 3
# Seconds after which a process is started again that said why it cannot run.
_RETRY = 10.0
# No request will fare better.
_OTHER_VERSION = (
    "The model process that was started is of another version: lsp-calib was installed anew while this "
    "program ran. Restart the language server."
)
# Seconds for a process to end after it was asked to, before it is killed.
_END = 2.0


class _StartsAgain(EngineDiedError):
    """The process died; requests that waited for it wait for the next one."""


class ModelProcess:
    """An `Engine`: the user's one process for a model, started by its first client.

    Clients that need the same process meet at one place (`rendezvous.place`: of one model file, context,
    engine, release and machine), where the holder of the lock serves them; each has its turn (`scheduler`).
    It ends `linger` seconds after its last client.

    choice: the model, and how to load it if this is its first client. LSP_CALIB_LINGER in the environment
        overrides its `linger`.
    on_state: told of loading, readiness and failure.
    """

    def __init__(self, choice: EngineChoice, *, on_state: StateListener = ignore_state) -> None:
        self._wanted = choice.model
        self._options = wire.Options(choice.threads, choice.gpu_layers, choice.mlock)
        self._linger = choice.linger
        self._on_state = on_state
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._child: Child | None = None
        self._card: ModelCard | None = None
        self._where: Rendezvous | None = None
        self._deaths = RestartPolicy()
        self._failure: Failure | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The model process, None while there is no connection to one."""
        return self._connection.pid if self._connection and not self._connection.gone else None

    async def ready(self) -> LoadedModel:
        """Start the process if need be and wait until the model is loaded.

        A process that dies while it loads is started again (`starting.RestartPolicy`). Raises ModelError if
        there is no usable model; again at each later call, without another try until the files of models
        change; after three deaths until `restart`.
        """
        connection = await self._ready()
        assert self._card is not None
        loaded = connection.ready.result()
        identity = ModelIdentity(self._card.name, self._card.quantisation, loaded.sha256)
        return LoadedModel(identity, self._card, loaded.engine)

    async def generate(self, request: Request) -> Generation:
        """Raises ModelError, EngineDiedError (the next request starts a new process), SupersededError,
        DeadlineError, EngineError."""
        try:
            # The time until the process is ready counts as well.
            async with asyncio.timeout(request.deadline):
                while True:
                    connection = await self._ready()
                    with contextlib.suppress(_StartsAgain):
                        generation = await _generate(connection, request)
                        break
        except TimeoutError as error:
            raise DeadlineError("The request was not answered in the time it was given.") from error
        self._deaths.answered()
        return generation

    async def score(self, request: ScoreRequest) -> AsyncIterator[Token]:
        """Raises the same errors as `generate`."""
        connection = await self._ready()
        with connection.ask(wire.request_to_wire(request)) as inbox:
            while "scored" not in (message := await inbox.next()):
                for token in wire.read(message.get("tokens"), list[Token]):
                    yield token
        self._deaths.answered()

    async def count(self, request: ScoreRequest) -> tuple[Distributions, ...]:
        """Raises the same errors as `generate`."""
        connection = await self._ready()
        with connection.ask(wire.request_to_wire(request)) as inbox:
            while "scored" not in (message := await inbox.next()):
                continue
        self._deaths.answered()
        return wire.read(message.get("counted"), tuple[Distributions, ...])

    async def stats(self) -> wire.Stats:
        """The present and past work of the process, for all clients together. Starts it if need be."""
        connection = await self._ready()
        with connection.ask({"op": "stats"}) as inbox:
            return wire.read((await inbox.next()).get("stats"), wire.Stats)

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

    async def _ready(self) -> Connection:
        """A connection to a process whose model is loaded."""
        while True:
            with contextlib.suppress(_StartsAgain):
                connection = await self._connected()
                await outcome(connection.ready)
                return connection

    async def _connected(self) -> Connection:
        if self._connection is not None and self._connection.gone:
            # The cause of its end is being determined; after too many deaths there is no other attempt.
            await asyncio.shield(self._connection.ended)
        if self._failure is not None:
            if not self._failure.is_over(self._wanted):
                raise copy_error(self._failure.error)
            self._failure = None
        if self._connection is not None and not self._connection.gone:
            return self._connection
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        try:
            return await outcome(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and not (task is not None and task.cancelling()):
                raise EngineDiedError("The engine was closed before it was ready.") from None
            raise

    def _opened(self, opening: asyncio.Task[Connection]) -> None:
        if self._opening is opening:
            self._opening = None
        if not opening.cancelled():
            opening.exception()  # nothing may be left that awaits it

    async def _open(self) -> Connection:
        try:
            await asyncio.sleep(self._deaths.back_off)
            if self._deaths.last:
                self._tell_loading(0.0)
            else:
                self._on_state(EngineState.STARTING, "Starting the model.", None)
            # Reading cards and looking for files touches the disk: not on the event loop.
            card, path = await asyncio.to_thread(choose, self._wanted)
            where = await asyncio.to_thread(rendezvous.place, path, card.context)
            self._card, self._where = card, where
            connection = await self._meet(where, card, path)
        except EngineDiedError:
            raise
        except OSError as error:
            raise self._unable(f"The model cannot be started: {error}.") from error
        except LspCalibError as error:
            if self._failure is None:  # it was not given up after too many deaths
                self._fail(error)
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

    async def _meet(self, where: Rendezvous, card: ModelCard, path: Path) -> Connection:
        """Connect; where no process listens, start one, and connect to it or to one started meanwhile.

        Raises EngineDiedError if it ended before it listened or none comes to listen in time, EngineError if
        those that are started belong to another version.
        """
        wanted = self._options
        hello = wire.Hello(wanted.threads, wanted.gpu_layers, wanted.mlock, _linger(self._linger))
        pause, elsewhere = 0.02, 0
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    with contextlib.suppress(OSError):
                        return await self._greet(where, hello)
                    listening = await self._start(card, path)
                    if await asyncio.to_thread(lockfile.holder, where.lock) is None:
                        elsewhere += 1
                        if elsewhere > _CHANCE:
                            raise EngineError(_OTHER_VERSION)
                    if not listening:
                        # Another process has the lock: it is about to listen, or about to end.
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, 0.5)
        except TimeoutError as error:
            pid = await asyncio.to_thread(lockfile.holder, where.lock)
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

    async def _greet(self, where: Rendezvous, hello: wire.Hello) -> Connection:
        """Connect to the process that listens. One that says nothing is ended.

        Raises OSError if none listens, EngineDiedError if it was ended.
        """
        try:
            # The lock is not looked at before there is a doubt: a look keeps a process that starts from it.
            async with heard_within(GONE, lambda: self._doubt(lockfile.holder(where.lock))):
                return await Connection.open(where, hello, self._event, self._lost, self._silence)
        except TimeoutError:
            pid = await asyncio.to_thread(lockfile.holder, where.lock)
            if pid is None:  # another program has the port of a process that is gone
                raise ConnectionRefusedError(f"no model process has {where.lock}") from None
            await self._kill(where.lock, pid)
            raise self._died(None, silent=True) from None

    def _doubt(self, pid: int | None) -> None:
        self._on_state(
            EngineState.BUSY,
            f"The model process (number {pid}) has not reacted for {DOUBT} s: it is stopped, as by a "
            f"debugger, or the machine is short of memory. After {GONE} s another one takes its place.",
            None,
        )

    def _silence(self, connection: Connection, looks: int) -> None:
        """The process does not react, or (no looks) reacts again."""
        if looks == DOUBT:
            self._doubt(connection.pid)
        elif looks:
            self._ending = asyncio.create_task(self._end_silent(connection))
        elif connection.ready.done():
            self._on_state(EngineState.READY, f"{self._title} reacts again.", None)

    async def _end_silent(self, connection: Connection) -> None:
        assert self._where is not None
        await self._kill(self._where.lock, connection.pid)
        await connection.close()

    async def _kill(self, lock: Path, pid: int) -> None:
        """Kill process `pid` if it holds the lock, and wait for its end: of several clients, one does."""
        if await asyncio.to_thread(lockfile.kill_holder, lock, pid):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END):
                    await _freed(lock, pid)

    async def _start(self, card: ModelCard, path: Path) -> bool:
        """Start a process. True: it listens; False: another one has the lock.

        Raises EngineDiedError if it ended otherwise.
        """
        child = self._child = Child(card, path, self._deaths.safety)
        try:
            if await asyncio.wrap_future(child.listening):
                return True
            code = await asyncio.wrap_future(child.code)
        except asyncio.CancelledError:
            child.stop()
            raise
        if child.problem:
            raise self._unable(child.problem)
        if code != rendezvous.LOST:
            raise self._died(code)
        return False

    @property
    def _title(self) -> str:
        return self._card.title if self._card else "The model"

    def _tell_loading(self, fraction: float) -> None:
        safer = " It is started in a safer way." if self._deaths.safety.careful else ""
        again = f" again. {self._deaths.last}{safer}" if self._deaths.last else "."
        self._on_state(EngineState.LOADING, f"Loading {self._title}{again}", fraction)

    def _event(self, connection: Connection, message: wire.Message) -> None:
        """Handle a message that answers no request."""
        title = self._title
        match message.get("event"):
            case "loading":
                self._tell_loading(float(message["fraction"]))
            case "ready":
                loaded = connection.ready.result()
                self._deaths.ready(loaded.acceleration, tried=loaded.tried)
                for note in loaded.notes:
                    logger.warning("%s", note)
                self._on_state(EngineState.READY, " ".join([f"{title} is ready.", *loaded.notes]), None)
            case "failed":
                error = wire.failure(message)
                if isinstance(error, EngineError):
                    self._unable(str(error))
                else:
                    self._fail(error)
            case "busy":
                self._on_state(EngineState.BUSY, f"{title} is busy with another window.", None)
            case "free":
                self._on_state(EngineState.READY, f"{title} is ready.", None)
            case "error":
                logger.error("The model process: %s", message.get("message"))

    async def _lost(self, connection: Connection) -> LspCalibError:
        """The error of requests in flight, now that the connection is over."""
        if connection is not self._connection:
            return EngineDiedError("The engine was closed during the request.")
        if self._failure is not None:
            return self._failure.error
        if connection.in_doubt:  # ended by this client or by another one
            return self._died(None, silent=True)
        if connection.farewell:
            self._on_state(EngineState.STARTING, connection.farewell, None)
            return EngineDiedError(connection.farewell)
        code = None
        if self._child is not None and self._child.pid == connection.pid:
            # Only the process that started it learns its exit code.
            with contextlib.suppress(TimeoutError):
                code = await asyncio.wait_for(asyncio.wrap_future(self._child.code), 1)
        return self._died(code)

    def _died(self, code: int | None, *, silent: bool = False) -> LspCalibError:
        """Count a death and report it as LOADING; after too many, report ERROR and give up.

        When it hears LOADING, a server loads the model again without waiting for a request
        (`server.model`). silent: as for `RestartPolicy.died`.
        """
        message = self._deaths.died(code, silent=silent)
        logger.error("%s Its log is %s.", message, starting.log_path())
        if self._deaths.too_many:
            self._failure = Failure(ModelError(message))
            self._on_state(EngineState.ERROR, message, None)
            return ModelError(message)
        self._tell_loading(0.0)
        return _StartsAgain(message) if self._deaths.at_once else EngineDiedError(message)

    def _unable(self, problem: str) -> EngineError:
        """No process can run at the moment, as on a full disk: report it; later requests try again."""
        logger.error("%s", problem)
        error = EngineError(problem)
        self._failure = Failure(error, until=time.monotonic() + _RETRY)
        self._on_state(EngineState.ERROR, problem, None)
        return error

    def _fail(self, error: LspCalibError) -> None:
        self._failure = Failure.of(error, self._wanted)
        no_model = isinstance(error, ModelError) and not isinstance(error, ModelFileError)
        self._on_state(EngineState.NO_MODEL if no_model else EngineState.ERROR, str(error), None)

    async def _end_process(self) -> None:
        """Ask the process to end, if there is one; kill one that does not."""
        if self._where is None:
            return
        lock = self._where.lock
        pid = await asyncio.to_thread(lockfile.holder, lock)
        if pid is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END):
                await self._ask_to_end(self._where)
                await _freed(lock, pid)
                return
        await self._kill(lock, pid)

    async def _ask_to_end(self, where: Rendezvous) -> None:
        connection = self._connection
        if connection is None or connection.gone:
            with contextlib.suppress(OSError, EngineError):
                connection = await Connection.open(where, wire.NO_WISHES, lambda *_: None, self._lost)
        if connection is not None:
            connection.send({"op": "restart"})
            await asyncio.shield(connection.ended)


async def _generate(connection: Connection, request: Request) -> Generation:
    with connection.ask(wire.request_to_wire(request)) as inbox:
        while "generation" not in (message := await inbox.next()):
            continue
    return wire.read(message["generation"], Generation)


async def _freed(lock: Path, pid: int) -> None:
    """Wait until process `pid` no longer holds the lock."""
    while await asyncio.to_thread(lockfile.holder, lock) == pid:
        await asyncio.sleep(0.02)


def _linger(default: float) -> float:
    """Raises SettingsError for a LSP_CALIB_LINGER that is no number of seconds."""
    named = os.environ.get("LSP_CALIB_LINGER")
    if not named:
        return default
    with contextlib.suppress(ValueError):
        seconds = float(named)
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    raise SettingsError(f"LSP_CALIB_LINGER is {named!r}; it must be a number of seconds, 0 or more.")
