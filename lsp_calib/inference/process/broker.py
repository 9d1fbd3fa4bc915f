"""The thread that serves clients, also while the decoding thread is in native code.

Nothing that one client sends or fails to read harms another. Nothing here polls: an idle process uses no
processor time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import attrs
import msgspec

from lsp_calib.errors import EngineError
from lsp_calib.inference.process import rendezvous, wire
from lsp_calib.inference.process.rendezvous import Rendezvous
from lsp_calib.inference.process.worker import Worker

# Seconds: for a first client to connect, for a client's hello, for the last messages to be sent.
_FIRST_CLIENT = 30.0
_GREETING = 10.0
_LAST_WORDS = 1.0
# Seconds that the process lingers where no client said otherwise.
_LINGER = 10.0
# Seconds of waiting for another client's work after which a client is told that the model is busy.
_BUSY_AFTER = 1.0
# A client that does not read is disconnected when so many bytes are unsent.
_MOST_UNREAD = 4 << 20
_MOST_JOBS = 1024


@attrs.define(eq=False)
class _Client:
    """blocked_since: when its work began to wait for another client's. busy: whether it has been told so."""

    id: int
    writer: asyncio.StreamWriter
    blocked_since: float | None = None
    busy: bool = False


class Broker:
    """The clients of one model process.

    options: set to the options of the first client. Another thread calls `worker.serve` once the model is
    loaded; it may call `loading`, `loaded` and `failed`.
    """

    def __init__(self, where: Rendezvous, options: Future[wire.Options]) -> None:
        self.worker = Worker(self._answer)
        self._where = where
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._clients: dict[int, _Client] = {}
        self._ids = itertools.count(1)
        self._over = asyncio.Event()
        self._exit_code = 0
        self._linger = _LINGER
        self._leaving: asyncio.TimerHandle | None = None
        self._busy: asyncio.TimerHandle | None = None
        # How loading goes, or went: the message for a client that joins now.
        self._news: wire.Message | None = None

    async def serve(self, listening: socket.socket) -> int:
        """Serve clients until the process is to end; returns its exit code."""
        self._leaving = self._loop.call_later(_FIRST_CLIENT, self._end, 0, "")
        start: Callable[..., Any] = asyncio.start_server
        if self._where.socket is not None:
            start = asyncio.start_unix_server
        server = await start(self._connected, sock=listening)
        await self._over.wait()
        # From now on a client finds no process here, and starts another.
        rendezvous.clear(self._where)
        server.close()
        writers = [client.writer for client in self._clients.values()]
        for writer in writers:
            writer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
        return self._exit_code

    # From the other thread.

    def loading(self, fraction: float) -> None:
        self._later(self._announce, {"event": "loading", "fraction": fraction})

    def loaded(self, loaded: wire.Loaded) -> None:
        self._later(self._announce, {"event": "ready", **msgspec.to_builtins(loaded)})

    def failed(self, kind: str, message: str) -> None:
        """Tell all clients, or the first one if none has connected yet, and end."""
        self._later(self._announce, {"event": "failed", "kind": kind, "message": message})

    def _answer(self, client: int, message: wire.Message) -> None:
        self._later(self._pass_on, client, message)

    def _later(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is about to end
            self._loop.call_soon_threadsafe(call, *arguments)

    # From here on: the listening thread.

    def _announce(self, news: wire.Message) -> None:
        self._news = news
        self._tell_news(*self._clients.values())

    def _tell_news(self, *clients: _Client) -> None:
        """Tell clients the news. The process ends once any has heard that loading failed."""
        if self._news is None:
            return
        for client in clients:
            self._send(client, self._news)
        if clients and self._news["event"] == "failed":
            self._end(1, "")

    def _pass_on(self, client_id: int, message: wire.Message) -> None:
        client = self._clients.get(client_id)
        if client is not None:
            self._send(client, message)
        self._refresh()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = None
        try:
            async with asyncio.timeout(_GREETING):
                if not await rendezvous.admit(self._where, reader, writer):
                    return
                hello = wire.hello_from_wire(await wire.receive(reader))
            client = self._join(writer, hello)
            while True:
                self._handle(client, await wire.receive(reader))
        except EngineError as error:
            sys.stderr.write(f"A client was disconnected: {error}\n")
            sys.stderr.flush()
            with contextlib.suppress(OSError):
                writer.write(wire.encode({"event": "error", "message": str(error)}))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone, or sent nothing in time
        finally:
            if client is not None:
                self._leave(client)
            writer.close()

    def _join(self, writer: asyncio.StreamWriter, hello: wire.Hello) -> _Client:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if hello.linger is not None:
            self._linger = hello.linger
        if not self._options.done():
            self._options.set_result(wire.Options(hello.threads, hello.gpu_layers, hello.mlock))
        client = _Client(next(self._ids), writer)
        self._clients[client.id] = client
        in_force = msgspec.to_builtins(self._options.result())
        self._send(client, {"event": "welcome", "pid": os.getpid(), **in_force})
        self._tell_news(client)
        return client

    def _leave(self, client: _Client) -> None:
        del self._clients[client.id]
        self.worker.drop_client(client.id)
        self._refresh()
        if not self._clients and self._leaving is None:
            self._leaving = self._loop.call_later(self._linger, self._end, 0, "")

    def _handle(self, client: _Client, message: wire.Message) -> None:
        """Raises EngineError for an invalid message."""
        match message.get("op"):
            case "generate" | "score":
                self._put(client, message)
            case "cancel":
                self.worker.cancel(client.id, _id(message))
                self._refresh()
            case "stats":
                stats = msgspec.to_builtins(self.worker.stats(len(self._clients)))
                self._send(client, {"id": _id(message), "stats": stats})
            case "restart":
                self._send(client, {"event": "bye", "message": "The model is being restarted."})
                self._end(0, "The model was restarted from another window. The next request starts it.")
            case other:
                raise EngineError(f"The model process received the unknown operation {str(other)[:40]!r}.")

    def _put(self, client: _Client, message: wire.Message) -> None:
        request_id, request = wire.request_from_wire(message)
        if self.worker.jobs(client.id) >= _MOST_JOBS:
            words = f"{_MOST_JOBS} requests are already waiting for the model. Cancel some, or wait."
            self._send(client, {"id": request_id, "error": "failed", "message": words})
            return
        try:
            superseded = self.worker.put(client.id, request_id, request)
        except ValueError as error:
            raise EngineError(f"The model process received an invalid request: {error}.") from error
        for older in superseded:
            words = "A newer request for the same document took its place."
            self._send(client, {"id": older, "error": "superseded", "message": words})
        self._refresh()

    def _send(self, client: _Client, message: wire.Message) -> None:
        transport = client.writer.transport
        if transport.get_write_buffer_size() > _MOST_UNREAD:
            transport.abort()  # which ends its reading task, and it leaves
            return
        try:
            frame = wire.encode(message)
        except EngineError as error:
            frame = wire.encode({"id": message.get("id"), "error": "failed", "message": str(error)})
        client.writer.write(frame)

    def _refresh(self) -> None:
        """Tell clients whose work has long waited for another client's, or no longer waits."""
        if self._busy is not None:
            self._busy.cancel()
            self._busy = None
        blocked = self.worker.blocked() if len(self._clients) > 1 else set()
        now = self._loop.time()
        due = []
        for client in list(self._clients.values()):
            if client.id not in blocked:
                client.blocked_since = None
                if client.busy:
                    client.busy = False
                    self._send(client, {"event": "free"})
                continue
            if client.blocked_since is None:
                client.blocked_since = now
            if not client.busy and now >= client.blocked_since + _BUSY_AFTER:
                client.busy = True
                self._send(client, {"event": "busy"})
            if not client.busy:
                due.append(client.blocked_since + _BUSY_AFTER)
        if due:
            self._busy = self._loop.call_at(min(due), self._refresh)

    def _end(self, code: int, words: str) -> None:
        if words:
            for client in list(self._clients.values()):
                self._send(client, {"event": "bye", "message": words})  # only the first counts
        self._exit_code = code
        self._over.set()


def _id(message: wire.Message) -> int:
    request_id = message.get("id")
    if not isinstance(request_id, int) or isinstance(request_id, bool):
        raise EngineError("The model process received a message without an id.")
    return request_id
