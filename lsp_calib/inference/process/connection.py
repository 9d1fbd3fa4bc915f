"""One connection of a client to the model process: its requests, and the messages to them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from lsp_calib.errors import (
    EngineDiedError,
    EngineError,
    LspCalibError,
    SupersededError,
    copy_error,
)
from lsp_calib.inference.process import rendezvous, wire
from lsp_calib.inference.process.rendezvous import Rendezvous

# Seconds between two looks at a process of which something is wanted. Silence is counted in looks: however
# long this program or the machine was suspended, that is one of them.
TICK = 1.0
# Looks in silence after which a process is asked for a sign of life (the thread that answers does not
# decode), after which its user is told, and after which it is taken for stopped.
_ASK = 2
DOUBT = 5
GONE = 20
T = TypeVar("T")
_LAST = ("generation", "scored", "stats", "error")


async def outcome(future: asyncio.Future[T]) -> T:
    """The result of a future with several waiters. Each gets an exception of its own."""
    await asyncio.wait({future})
    if not future.cancelled() and isinstance(error := future.exception(), LspCalibError):
        raise copy_error(error)
    return future.result()


@contextlib.asynccontextmanager
async def heard_within(looks: int, on_doubt: Callable[[], None]) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but counts looks. on_doubt: called after `DOUBT` of them. Raises TimeoutError."""
    async with asyncio.timeout(None) as limit:

        async def look() -> None:
            for count in range(1, looks + 1):
                await asyncio.sleep(TICK)
                if count == DOUBT:
                    on_doubt()
            limit.reschedule(asyncio.get_running_loop().time())

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()


class Inbox:
    """The messages to the request `id`, in order."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.over = False
        self._messages: asyncio.Queue[wire.Message | LspCalibError] = asyncio.Queue()

    def put(self, message: wire.Message | LspCalibError) -> None:
        self.over = not isinstance(message, dict) or any(key in message for key in _LAST)
        self._messages.put_nowait(message)

    async def next(self) -> wire.Message:
        """Raises the request's error: EngineError, or the ModelError that prevents loading."""
        message = await self._messages.get()
        if isinstance(message, LspCalibError):
            raise message
        if "error" in message:
            kind = SupersededError if message["error"] == "superseded" else EngineError
            raise kind(str(message.get("message")))
        return message


class Connection:
    """Open until one side closes it. `open` makes one.

    pid, options: of the process, and how its model was loaded. ready: resolved when the model is loaded, or
    with the ModelError that prevents loading. ended: resolved once the connection is over and every request
    has its result. farewell: the process's message when it was asked to end.
    """

    def __init__(
        self,
        streams: rendezvous.Streams,
        welcome: wire.Message,
        on_event: Callable[[Connection, wire.Message], None],
        explain: Callable[[Connection], Awaitable[LspCalibError]],
        on_silence: Callable[[Connection, int], None] = lambda *_: None,
    ) -> None:
        self._reader, self._writer = streams
        self.pid = int(welcome["pid"])
        self.options = wire.read(welcome, wire.Options)
        self.farewell = ""
        self.gone = False
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[wire.Loaded] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._ids = itertools.count(1)
        self._asked: dict[int, Inbox] = {}
        self._on_event = on_event
        self._explain = explain
        self._on_silence = on_silence
        self._silent = 0  # looks since the last message
        self._heard = False
        self._looking: asyncio.TimerHandle | None = None
        self._reading = asyncio.create_task(self._read())
        self._look_later()

    @classmethod
    async def open(
        cls,
        where: Rendezvous,
        hello: wire.Hello,
        on_event: Callable[[Connection, wire.Message], None],
        explain: Callable[[Connection], Awaitable[LspCalibError]],
        on_silence: Callable[[Connection, int], None] = lambda *_: None,
    ) -> Connection:
        """Connect, and wait for the welcome.

        on_event: receives every message that answers no request. explain: gives the error of requests in
        flight when the connection ends. on_silence: called with the number of looks after `DOUBT` and `GONE`
        looks at a process that gives no sign of life although something is wanted of it, and with 0 when it
        gives one again. Raises OSError if no process listens, EngineError if its messages are
        invalid.
        """
        reader, writer = await rendezvous.connect(where)
        try:
            writer.write(wire.encode(wire.hello_to_wire(hello)))
            welcome = await wire.receive(reader)
            if welcome.get("event") != "welcome":
                raise EngineError(
                    str(welcome.get("message") or "The model process sent no welcome. Restart the model.")
                )
            return cls((reader, writer), welcome, on_event, explain, on_silence)
        except asyncio.IncompleteReadError as error:
            writer.close()
            raise ConnectionResetError("it has just gone") from error
        except (KeyError, TypeError, ValueError) as error:
            writer.close()
            raise EngineError(f"The model process sent a welcome that cannot be read: {error!r}.") from error
        except BaseException:
            writer.close()
            raise

    @property
    def in_doubt(self) -> bool:
        """Whether something is wanted of the process and it has given no sign of life for `DOUBT` looks."""
        return self._silent >= DOUBT

    @contextlib.contextmanager
    def ask(self, message: wire.Message) -> Iterator[Inbox]:
        """Send a message with a new id. Leaving before the last answer cancels the request.

        Raises EngineError if the message is too long, EngineDiedError if the connection is over.
        """
        request_id = next(self._ids)
        frame = wire.encode({"id": request_id, **message})
        if self.gone:
            raise EngineDiedError("The model process has just ended. The next request starts it again.")
        inbox = self._asked[request_id] = Inbox(request_id)
        self._writer.write(frame)
        if self._looking is None:
            self._look_later()
        try:
            yield inbox
        finally:
            del self._asked[request_id]
            if not inbox.over:
                self.send({"op": "cancel", "id": request_id})

    def send(self, message: wire.Message) -> None:
        if not self.gone and not self._writer.is_closing():
            self._writer.write(wire.encode(message))

    async def close(self) -> None:
        """Once this returns, every request has its result."""
        # Not `close`: that waits until the process has read everything, even if it does not read.
        self._writer.transport.abort()
        await asyncio.shield(self._reading)

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(TICK, self._look)

    def _look(self) -> None:
        """Whether the process has given a sign of life since the last look."""
        self._looking = None
        self._silent = 0 if self._heard else self._silent + 1
        self._heard = False
        if self.gone or (self.ready.done() and not self._asked and self._silent < DOUBT):
            self._silent = 0
            return
        if self._silent == _ASK:
            self.send({"op": "stats", "id": next(self._ids)})
        if self._silent in (DOUBT, GONE):
            self._on_silence(self, self._silent)
        self._look_later()

    async def _read(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, EngineError):
            while True:
                self._receive(await wire.receive(self._reader))
        self.gone = True
        if self._looking is not None:
            self._looking.cancel()
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

    def _receive(self, message: wire.Message) -> None:
        self._heard = True
        if self.in_doubt:
            self._silent = 0
            self._on_silence(self, 0)
        event = message.get("event")
        if event is None:
            inbox = self._asked.get(message.get("id", -1))
            if inbox is not None and not inbox.over:
                inbox.put(message)
            return
        if event == "ready" and not self.ready.done():
            self.ready.set_result(wire.read(message, wire.Loaded))
        elif event == "failed" and not self.ready.done():
            self.ready.set_exception(wire.failure(message))
            self.ready.exception()
        elif event == "bye":
            self.farewell = self.farewell or str(message.get("message"))
        self._on_event(self, message)
