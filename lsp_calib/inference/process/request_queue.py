"""Which request the model answers next (`Queue`, pure), and the thread that answers them (`Worker`).

- Interactive work goes first, then background work, for which somebody waits as well, then the prompts that
  are evaluated ahead, then idle work. A new request interrupts a running one of a later kind in this order,
  which resumes afterwards.
- Among clients, the one served longest ago is next; within a client, the oldest request.
- Of a client's interactive requests for documents the newest goes first, and interrupts an older one that
  runs: the user is there now. Of those for one document only the newest is wanted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs
import msgspec

from lsp_calib.errors import EngineError
from lsp_calib.inference.backend import Backend, Counters, Interrupted, Run
from lsp_calib.inference.engine import Priority, Request
from lsp_calib.inference.process import protocol
from lsp_calib.values import Generation

Key = tuple[int, int]


@attrs.define(eq=False)
class Job:
    """A request, and what decides its place in the queue.

    client, id: together they are the job's key; the newer of two requests of a client has the greater id.
    ahead: it only evaluates the likely prompt of an interactive request to come.
    came, since: when it came, and when it came or stopped last. waited: seconds in all.
    """

    client: int
    id: int
    priority: Priority
    document: str = ""
    ahead: bool = False
    request: Request | None = None
    came: float = attrs.field(factory=time.monotonic)
    since: float = attrs.Factory(lambda self: self.came, takes_self=True)
    waited: float = 0.0
    run: Run | None = None

    @property
    def kind(self) -> tuple[Priority, bool]:
        """The lowest goes first. A prompt evaluated ahead comes before other work that nobody waits for."""
        return Priority.BACKGROUND if self.ahead else self.priority, self.ahead

    @property
    def key(self) -> Key:
        return self.client, self.id


@attrs.frozen
class Effect:
    """The effect of a change. dropped: jobs that are no longer wanted. interrupt: the running job must stop,
    because it was dropped or because a more urgent one has come. after_step: but not within a step, whose
    tokens that one needs."""

    dropped: tuple[Job, ...] = ()
    interrupt: bool = False
    after_step: bool = False


class Queue:
    """The jobs that wait and the one that runs.

    A running job that is dropped is neither reported as `running` nor counted any more, but occupies the
    model until `stopped` or `finished` is called.
    """

    def __init__(self) -> None:
        self._waiting: dict[Key, Job] = {}  # oldest first
        self._running: Job | None = None
        self._unwanted = False
        # The client and document of the request that took the running job over.
        self._heir: tuple[int, str] | None = None
        # Interrupted jobs resume before others of their kind begin, whose prompts would evict theirs.
        self._suspended: set[Key] = set()
        self._served: dict[tuple[tuple[Priority, bool], int], int] = {}
        self._turn = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> Job | None:
        """The job that runs and is wanted."""
        return None if self._unwanted else self._running

    def put(self, job: Job) -> Effect:
        """A new job."""
        effect = self._drop(lambda one: _supersedes(job, one))
        self._waiting[job.key] = job
        running = self.running
        urgent = running is not None and (job.kind < running.kind or _compete(job, running))
        after_step = effect.interrupt and any(one.ahead and one is self._running for one in effect.dropped)
        if after_step:
            self._heir = job.client, job.document
        elif self._heir not in (None, (job.client, job.document)):
            urgent = urgent or job.priority is Priority.INTERACTIVE
        return attrs.evolve(effect, interrupt=effect.interrupt or urgent, after_step=after_step)

    def take(self) -> Job | None:
        """The next job, which now runs; None if nothing waits."""
        assert self._running is None, "one at a time"
        if not self._waiting:
            return None
        first = min(
            self._waiting.values(),
            key=lambda one: (
                one.kind,
                one.key not in self._suspended,
                self._served.get((one.kind, one.client), -1),
            ),
        )
        rivals = [one for one in self._waiting.values() if _compete(one, first)]
        job = max(rivals, key=lambda one: one.id, default=first)
        del self._waiting[job.key]
        self._suspended.discard(job.key)
        self._turn += 1
        self._served[job.kind, job.client] = self._turn
        self._running, self._unwanted = job, False
        return job

    def stopped(self) -> None:
        """The running job has stopped: it waits, and resumes later, unless it was dropped."""
        job = self._running
        if self.finished() and job is not None:
            self._waiting[job.key] = job
            if job.priority is not Priority.INTERACTIVE:
                self._suspended.add(job.key)

    def finished(self) -> bool:
        """The running job is done. False: it was dropped, so its answer is not sent."""
        assert self._running is not None, "nothing runs"
        wanted = not self._unwanted
        self._running, self._unwanted, self._heir = None, False, None
        return wanted

    def cancel(self, key: Key) -> Effect:
        return self._drop(lambda job: job.key == key)

    def drop_client(self, client: int) -> Effect:
        self._served = {key: turn for key, turn in self._served.items() if key[1] != client}
        return self._drop(lambda job: job.client == client)

    def blocked(self, client: int) -> bool:
        """Whether any job of a client `is_blocked`."""
        return any(self.is_blocked(key) for key in self._waiting if key[0] == client)

    def is_blocked(self, key: Key) -> bool:
        """Whether a job waits while another client's runs. Nobody waits for idle work."""
        job, running = self._waiting.get(key), self.running
        if job is None or running is None:
            return False
        return job.priority is not Priority.IDLE and job.client != running.client

    def _drop(self, unwanted: Callable[[Job], bool]) -> Effect:
        dropped = [job for job in self._waiting.values() if unwanted(job)]
        for job in dropped:
            del self._waiting[job.key]
            self._suspended.discard(job.key)
        running = self.running
        interrupt = running is not None and unwanted(running)
        if interrupt and running is not None:
            self._unwanted = True
            dropped.append(running)
        return Effect(tuple(dropped), interrupt)


def _compete(one: Job, other: Job) -> bool:
    """Whether both are a client's interactive requests for documents: the newer of them goes first."""
    return (
        one.client == other.client
        and one.priority == other.priority == Priority.INTERACTIVE
        and "" not in (one.document, other.document)
    )


def _supersedes(job: Job, older: Job) -> bool:
    """Whether an older job for the same document is not wanted beside a new one. What was evaluated ahead in
    that document, where the client has not cancelled it, is the beginning of the new one's prompt."""
    takes_over = job.client == older.client and job.priority is Priority.INTERACTIVE and older.ahead
    return (takes_over or _compete(job, older)) and "" != job.document == older.document


class Worker:
    """Requests from the thread that serves clients, answered by the thread that calls `serve`.

    Every change is made under one lock. While it is held, a new run is chosen and the old interruption
    cleared, or the running one is looked up and interrupted: an interruption never reaches the wrong run.

    send: called from `serve` with a client and a result for it; must not block.
    """

    def __init__(self, send: Callable[[int, protocol.Message], None]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._queue = Queue()
        self._backend: Backend | None = None
        self._idle_since: float | None = time.monotonic()

    # For the thread that serves clients.

    def put(self, client: int, request_id: int, request: Request) -> list[int]:
        """The ids of the client's requests that this one supersedes."""
        ahead = request.priority is Priority.IDLE and request.max_tokens == 0
        job = Job(client, request_id, request.priority, request.document, ahead, request)
        with self._changed:
            self._changed.notify_all()
            return [older.id for older in self._interrupt(self._queue.put(job)).dropped]

    def cancel(self, client: int, request_id: int) -> bool:
        """Drop a request; whether others of its client wait for another client's work."""
        with self._changed:
            self._interrupt(self._queue.cancel((client, request_id)))
            return self._queue.blocked(client)

    def drop_client(self, client: int) -> None:
        with self._changed:
            self._interrupt(self._queue.drop_client(client))

    def is_blocked(self, client: int, request_id: int) -> bool:
        """Whether a request waits for another client's work."""
        with self._changed:
            return self._queue.is_blocked((client, request_id))

    def stats(self, clients: int) -> protocol.Stats:
        with self._changed:
            backend = self._backend
            return protocol.Stats(
                now=time.monotonic(),
                idle_since=self._idle_since,
                running=int(self._queue.running is not None),
                waiting=self._queue.waiting,
                clients=clients,
                threads=backend.threads if backend else 0,
                **attrs.asdict(backend.counters if backend else Counters()),
            )

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        with self._changed:
            return self._idle_for() > 0.0

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until nothing has run or waited for so many seconds. For any other thread."""
        with self._changed:
            while (left := seconds - self._idle_for()) > 0.0:
                self._changed.wait(left)

    def _idle_for(self) -> float:
        """Seconds, 0 while anything runs or waits."""
        if self._idle_since is None or self._queue.waiting:
            return 0.0
        return time.monotonic() - self._idle_since

    def _interrupt(self, effect: Effect) -> Effect:
        if effect.interrupt and self._backend is not None:
            self._backend.interrupt(after_step=effect.after_step)
        return effect

    # For the decoding thread.

    def serve(self, backend: Backend) -> None:
        """Answer requests, for ever."""
        with self._changed:
            self._backend = backend
        while True:
            job = self._next(backend)
            assert job.request is not None, "a worker's jobs have requests"
            try:
                if job.run is None:
                    job.run = backend.begin(job.request)
                message = _result(job, job.run.advance())
            except Interrupted:
                with self._changed:
                    self._idle_since = job.since = time.monotonic()
                    self._queue.stopped()
                continue
            except EngineError as error:
                message = {"error": "failed", "message": str(error)}
            with self._changed:
                wanted = self._queue.finished()
                self._idle_since = time.monotonic()
            if wanted:
                self._send(job.client, {"id": job.id, **message})

    def _next(self, backend: Backend) -> Job:
        """Wait for a request, and mark it as running."""
        with self._changed:
            while (job := self._queue.take()) is None:
                self._changed.wait()
            backend.resume()
            self._idle_since = None
            job.waited += time.monotonic() - job.since
            return job


def _result(job: Job, answer: Generation) -> protocol.Message:
    total = 1e3 * (time.monotonic() - job.came)
    timing = attrs.evolve(answer.timing, queue_ms=1e3 * job.waited, total_ms=total)
    return {"generation": msgspec.to_builtins(attrs.evolve(answer, timing=timing))}
