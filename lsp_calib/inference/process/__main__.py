"""The model process: the only place where a model is loaded. One for each user and model.

It holds a lock for its life; a process that does not get it ends at once. It serves the clients that connect
to its socket, and ends some seconds after the last of them, however that one ended.

One thread serves clients (`Broker`), also while the decoding thread (`Worker.serve`) is in native code.
Nothing that one client sends harms another. Nothing here polls: an idle process uses no processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import itertools
import os
import socket
import stat
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

import attrs
import msgspec

from lsp_calib import home, lockfile
from lsp_calib.errors import EngineError, LspCalibError
from lsp_calib.files import why
from lsp_calib.inference.backend import Backend, Factory, LoadOptions
from lsp_calib.inference.engine import Request
from lsp_calib.inference.models import gguf, sidecar
from lsp_calib.inference.process import acceleration, eight_bit, protocol
from lsp_calib.inference.process.protocol import Place
from lsp_calib.inference.process.request_queue import Worker

# Its log is emptied at the start when it has more bytes than this.
_MOST_LOG = 1 << 20
# Seconds: for a first client to connect, for a client's hello, for the last messages to be sent.
_FIRST_CLIENT = 30.0
_GREETING = 10.0
_LAST_WORDS = 1.0
# Seconds of waiting for another client's work after which a client is told that the model is busy.
_BUSY_AFTER = 1.0

Find = Callable[[], Factory]


def main(find: Find = acceleration.find_library) -> None:
    """find: returns the backend's factory; its import takes a second, so it is called with the lock held."""
    home.leave_no_core()
    home.close_memory()
    parser = argparse.ArgumentParser(
        description="The model process of lsp-calib; started by it, not by hand."
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sha256", default="")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--place", default="")
    parser.add_argument("--careful", action="store_true")
    parser.add_argument("--avoid", action="append", default=[])
    parser.add_argument("--trial", default="")
    arguments = parser.parse_args()
    if arguments.trial:
        faulthandler.enable()
        acceleration.run_trial(find(), LoadOptions(arguments.model, arguments.context), arguments.trial)
        sys.stderr.flush()
        os._exit(0)  # a driver's clean-up proves nothing

    try:
        place = Place.named(arguments.place)
        if lockfile.take(place.lock) is None:
            sys.exit(protocol.LOST)
        _trim_log()
        faulthandler.enable()
        listening = protocol.listen(place)
    except (OSError, LspCalibError) as error:
        _say(protocol.UNABLE + _why_unable(error))
        sys.exit(1)
    _say(protocol.LISTENING)
    os.dup2(2, 1)  # the output of native code goes to the log

    code = 1
    try:
        code = asyncio.run(_serve(arguments, find, place, listening))
    except Exception:  # noqa: BLE001 - the last chance to report it
        traceback.print_exc()
    finally:
        _end(code)


@attrs.define(eq=False)
class _Client:
    """busy: whether it was told that its work waits for another client's."""

    id: int
    writer: asyncio.StreamWriter
    busy: bool = False


class Broker:
    """The clients of one model process.

    options: set to the greeting of the first client. Another thread calls `worker.serve` once the model is
    loaded; it may call `tell` before.
    """

    def __init__(self, place: Place, options: Future[protocol.Hello]) -> None:
        self.worker = Worker(lambda client, message: self._later(self._pass_on, client, message))
        self._place = place
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._clients: dict[int, _Client] = {}
        self._ids = itertools.count(1)
        self._over = asyncio.Event()
        self._exit_code = 0
        self._linger = 0.0
        self._leaving: asyncio.TimerHandle | None = None
        # How loading goes, or went: the message for a client that joins now.
        self._news: protocol.Message | None = None

    async def serve(self, listening: socket.socket) -> int:
        """Serve clients until the process is to end; returns its exit code."""
        self._leaving = self._loop.call_later(_FIRST_CLIENT, self._end, 0)
        start: Callable[..., Any] = asyncio.start_server
        if self._place.socket is not None:
            start = asyncio.start_unix_server
        server = await start(self._connected, sock=listening)
        await self._over.wait()
        # From now on a client finds no process here, and starts another.
        protocol.clear(self._place)
        server.close()
        writers = [client.writer for client in self._clients.values()]
        for writer in writers:
            writer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
        return self._exit_code

    def tell(self, event: str, **news: object) -> None:
        """Tell all clients, and those that join later, how loading goes. For the other thread.

        Once any client has heard that it failed, the process ends.
        """
        self._later(self._announce, {"event": event, **news})

    def _later(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is about to end
            self._loop.call_soon_threadsafe(call, *arguments)

    def _announce(self, news: protocol.Message) -> None:
        self._news = news
        self._tell_news(*self._clients.values())

    def _tell_news(self, *clients: _Client) -> None:
        for client in clients:
            if self._news is not None:
                self._send(client, self._news)
        if clients and self._news is not None and self._news["event"] == "failed":
            self._end(1)

    def _pass_on(self, client_id: int, message: protocol.Message) -> None:
        client = self._clients.get(client_id)
        if client is None:
            return
        self._free(client)
        self._send(client, message)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = None
        try:
            async with asyncio.timeout(_GREETING):
                if not await protocol.admit(self._place, reader, writer):
                    return
                hello = protocol.read(await protocol.receive(reader), protocol.Hello)
            client = self._join(writer, hello)
            while True:
                self._handle(client, await protocol.receive(reader))
        except EngineError as error:
            sys.stderr.write(f"A client was disconnected: {error}\n")
            sys.stderr.flush()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone, or sent nothing in time
        finally:
            if client is not None:
                self._leave(client)
            writer.close()

    def _join(self, writer: asyncio.StreamWriter, hello: protocol.Hello) -> _Client:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        self._linger = hello.linger
        if not self._options.done():
            self._options.set_result(hello)
        client = _Client(next(self._ids), writer)
        self._clients[client.id] = client
        self._send(client, {"event": "welcome", "pid": os.getpid()})
        self._tell_news(client)
        return client

    def _leave(self, client: _Client) -> None:
        del self._clients[client.id]
        self.worker.drop_client(client.id)
        if not self._clients:
            self._leaving = self._loop.call_later(self._linger, self._end, 0)

    def _handle(self, client: _Client, message: protocol.Message) -> None:
        """Raises EngineError for an invalid message."""
        match message:
            case {"op": "generate", "id": int(request_id), "request": asked}:
                request = protocol.read(asked, Request)
                for older in self.worker.put(client.id, request_id, request):
                    words = "A newer request for the same document took its place."
                    self._send(client, {"id": older, "error": "superseded", "message": words})
                if len(self._clients) > 1:
                    self._loop.call_later(_BUSY_AFTER, self._still_waits, client, request_id)
            case {"op": "cancel", "id": int(request_id)}:
                if not self.worker.cancel(client.id, request_id):
                    self._free(client)
            case {"op": "stats", "id": int(request_id)}:
                stats = msgspec.to_builtins(self.worker.stats(len(self._clients)))
                self._send(client, {"id": request_id, "stats": stats})
            case {"op": "restart"}:
                words = "The model is restarted. The next request starts it."
                for one in self._clients.values():
                    self._send(one, {"event": "bye", "message": words})
                self._end(0)
            case _:
                raise EngineError("The model process received an unknown message.")

    def _still_waits(self, client: _Client, request_id: int) -> None:
        """Tell a client whose request has long waited for another client's work."""
        if not client.busy and self.worker.is_blocked(client.id, request_id):
            client.busy = True
            self._send(client, {"event": "busy"})

    def _free(self, client: _Client) -> None:
        """Tell a client that was told so that its work no longer waits for another's."""
        if client.busy:
            client.busy = False
            self._send(client, {"event": "free"})

    def _send(self, client: _Client, message: protocol.Message) -> None:
        try:
            frame = protocol.encode(message)
        except EngineError as error:
            frame = protocol.encode({"id": message.get("id"), "error": "failed", "message": str(error)})
        client.writer.write(frame)

    def _end(self, code: int) -> None:
        self._exit_code = code
        self._over.set()


async def _serve(
    arguments: argparse.Namespace, find: Find, place: Place, listening_socket: socket.socket
) -> int:
    options: Future[protocol.Hello] = Future()
    broker = Broker(place, options)

    def work() -> None:
        try:
            backend = _load(arguments, find, options, broker)
            if backend is not None:
                broker.worker.serve(backend)
        except Exception:  # noqa: BLE001 - whatever it was
            traceback.print_exc()
            # Without this thread no request is answered. The clients notice, and start another process.
            protocol.clear(place)
            _end(1)

    threading.Thread(target=work, name="decoding", daemon=True).start()
    return await broker.serve(listening_socket)


def _load(
    arguments: argparse.Namespace, find: Find, options: Future[protocol.Hello], broker: Broker
) -> Backend | None:
    """The loaded model; None, after telling the clients, if it cannot be loaded."""
    path: Path = arguments.model
    reported = 0.0

    def progress(fraction: float) -> None:
        nonlocal reported
        if fraction - reported >= 0.1 or fraction == 1.0:
            reported = fraction
            broker.tell("loading", fraction=fraction)

    try:
        gguf.check_header(path)
        if arguments.size:
            gguf.check_size(path, arguments.size)
        sha256 = sidecar.verify(path, arguments.sha256)
        factory = find()
        wanted = options.result()
        broker.tell("loading", fraction=0.0)
        load = LoadOptions(
            path,
            arguments.context,
            wanted.threads,
            on_progress=progress,
            cache_bytes=wanted.cache_mb * 10**6,
        )
        question = acceleration.Question.of(path, factory.hardware(), wanted.gpu_layers, sha256)
        # The remembered acceleration, unless that has just crashed.
        choice = None if arguments.careful else question.recall()
        if choice is None:
            choice = acceleration.fastest_that_works(
                question,
                lambda candidate: acceleration.attempt(attrs.evolve(load, acceleration=candidate)),
                careful=arguments.careful,
                avoid=arguments.avoid,
            )
            question.remember(choice)
        backend = factory(attrs.evolve(load, acceleration=choice.acceleration))
    except (LspCalibError, OSError) as error:
        said = f"The model cannot be loaded: {error}." if isinstance(error, OSError) else str(error)
        broker.tell("failed", kind=protocol.kind_of(error), message=said)
        return None
    notes = tuple(filter(None, (acceleration.note(choice), *backend.notes)))
    loaded = protocol.Loaded(
        sha256,
        backend.name,
        notes,
        choice.acceleration.name,
        choice.was_tried,
        backend.evaluates_ahead,
    )
    broker.tell("ready", **msgspec.to_builtins(loaded))
    eight_bit.begin(question, choice, load, broker.worker)
    return backend


def _trim_log() -> None:
    """All model processes of the user append to one log, which they inherit as standard error."""
    status = os.fstat(2)
    if stat.S_ISREG(status.st_mode) and status.st_size > _MOST_LOG:
        with contextlib.suppress(OSError):
            os.ftruncate(2, 0)


def _say(line: str) -> None:
    """Write a line to the starter, which may be gone while others use this process."""
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode("utf-8", "replace"))


def _why_unable(error: OSError | LspCalibError) -> str:
    """Why no process can run here, in words for the user."""
    if not isinstance(error, OSError):
        return str(error)
    return (
        f"The model cannot be started: {error.filename or home.run_folder()} cannot be written "
        f"({why(error)}). Free some space there or make it writable, or set LSP_CALIB_HOME."
    )


def _end(code: int) -> NoReturn:
    """End at once: the decoding thread may be in native code."""
    with contextlib.suppress(OSError):  # the log's disk may be full
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
