"""The thread that decodes, and the data it shares with the thread that serves clients.

Every change is made under one lock. While it is held, a new run is chosen and the old interruption cleared,
or the running one is looked up and interrupted: an interruption never reaches the wrong run.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable

import attrs
import msgspec

from lsp_calib.errors import EngineError
from lsp_calib.inference.backend import Advanced, Backend, Counters, Interrupted, Preempted, Run
from lsp_calib.inference.engine import Priority, Request, ScoreRequest
from lsp_calib.inference.process import wire
from lsp_calib.inference.process.scheduler import Effect, Job, Key, Scheduler
from lsp_calib.values import Token

# Seconds of a client's turn while another one's interactive work waits: most answers take no longer.
_TURN = 0.25
# Seconds after which a client that types and waits no more is not counted with those that share the model.
_ACTIVE = 10.0


@attrs.define(eq=False)
class _Work:
    """A request and its state. since: when it came or stopped. waited: seconds in all."""

    job: Job
    request: Request | ScoreRequest
    came: float
    since: float
    waited: float = 0.0
    run: Run | None = None


class Worker:
    """Requests from the thread that serves clients, answered by the thread that calls `serve`.

    send: called from `serve` with a client and a result for it; must not block.
    """

    def __init__(self, send: Callable[[int, wire.Message], None]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._scheduler = Scheduler()
        self._work: dict[Key, _Work] = {}
        self._backend: Backend | None = None
        self._turn_began = 0.0
        self._typed: dict[int, float] = {}  # when a client asked for interactive work last
        self._idle_since: float | None = time.monotonic()

    # For the thread that serves clients.

    def put(self, client: int, request_id: int, request: Request | ScoreRequest) -> list[int]:
        """The ids of the client's requests whose place this one takes.

        Raises ValueError if the client has a request of that id.
        """
        now = time.monotonic()
        document, prepares = "", False
        if isinstance(request, Request):
            document = request.document
            prepares = request.priority is Priority.IDLE and request.max_tokens == 0
        job = Job(client, request_id, request.priority, document, prepares)
        with self._changed:
            superseded = self._drop(self._scheduler.put(job))
            if job.priority is Priority.INTERACTIVE:
                self._typed[client] = now
            self._work[job.key] = _Work(job, request, came=now, since=now)
            self._changed.notify()
            return superseded

    def cancel(self, client: int, request_id: int) -> None:
        with self._changed:
            self._drop(self._scheduler.cancel((client, request_id)))

    def drop_client(self, client: int) -> None:
        with self._changed:
            self._drop(self._scheduler.drop_client(client))
            self._typed.pop(client, None)

    def blocked(self) -> set[int]:
        """Clients whose work waits for another client's."""
        with self._changed:
            return self._scheduler.blocked()

    def jobs(self, client: int) -> int:
        with self._changed:
            return self._scheduler.jobs(client)

    def stats(self, clients: int) -> wire.Stats:
        with self._changed:
            backend = self._backend
            counters = backend.counters if backend else Counters()
            return wire.Stats(
                now=time.monotonic(),
                idle_since=self._idle_since,
                running=int(self._scheduler.running is not None),
                waiting=self._scheduler.waiting,
                clients=clients,
                threads=backend.threads if backend else 0,
                **attrs.asdict(counters),
            )

    def _drop(self, effect: Effect) -> list[int]:
        for job in effect.dropped:
            del self._work[job.key]
        if effect.interrupt and self._backend is not None:
            self._backend.interrupt()
        return [job.id for job in effect.dropped]

    # For the decoding thread.

    def serve(self, backend: Backend) -> None:
        """Answer requests, for ever."""
        with self._changed:
            self._backend = backend
        backend.share(self._turn_left)
        while True:
            work = self._next(backend)
            try:
                generation = self._advance(backend, work)
            except Interrupted as interruption:
                with self._changed:
                    self._idle_since = work.since = time.monotonic()
                    self._scheduler.stopped(gave_way=isinstance(interruption, Preempted))
            except EngineError as error:
                self._end(work, {"error": "failed", "message": str(error)})
            else:
                self._end(work, _result(work, generation))

    def _next(self, backend: Backend) -> _Work:
        """Wait for work, and mark it as running."""
        with self._changed:
            while (job := self._scheduler.take()) is None:
                self._changed.wait()
            backend.resume()
            self._idle_since = None
            work = self._work[job.key]
            work.waited += time.monotonic() - work.since
            self._turn_began = time.monotonic()
            return work

    def _advance(self, backend: Backend, work: _Work) -> Advanced:
        if work.run is None:
            work.run = backend.begin(work.request, on_tokens=functools.partial(self._tell, work))
        return work.run.advance()

    def _tell(self, work: _Work, tokens: list[Token]) -> None:
        client, request_id = work.job.key
        self._send(client, {"id": request_id, "tokens": msgspec.to_builtins(tokens)})

    def _turn_left(self) -> float:
        """Seconds until the running work has to give way to another client's; infinite if there is none."""
        with self._changed:
            now = time.monotonic()
            typing = {client for client, typed in self._typed.items() if now - typed < _ACTIVE}
            active = len(typing | self._scheduler.sharing())
            # Where not all of them fit in the cache, each turn would evict the last one's tokens.
            if active < 2 or self._backend is None or active > self._backend.documents:
                return math.inf
            return max(self._turn_began + _TURN - now, 0.0) if self._scheduler.others() else _TURN

    def _end(self, work: _Work, message: wire.Message) -> None:
        with self._changed:
            wanted = self._scheduler.finished()
            if wanted:
                del self._work[work.job.key]
            self._idle_since = time.monotonic()
        if wanted:
            self._send(work.job.client, {"id": work.job.id, **message})


def _result(work: _Work, generation: Advanced) -> wire.Message:
    if generation is None:
        return {"scored": True}
    if isinstance(generation, tuple):
        return {"scored": True, "counted": msgspec.to_builtins(generation)}
    timing = attrs.evolve(
        generation.timing,
        queue_ms=1e3 * work.waited,
        total_ms=1e3 * (time.monotonic() - work.came),
    )
    return {"generation": msgspec.to_builtins(attrs.evolve(generation, timing=timing))}
