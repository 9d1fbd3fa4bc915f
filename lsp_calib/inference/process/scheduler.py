"""Which request runs next, and which ones are dropped. Pure: no threads, no clock, no model.

- Interactive work goes first, then the prompts that are evaluated ahead for it, then background work, then
  idle work. A new job interrupts a running one of a later kind in this order, which resumes afterwards.
- Among clients it is the turn of the one that was served longest ago; within a client, of the oldest request.
  Interactive work may have to give way to another client's, after 0.25 s (`worker`); it resumes at its own
  client's next turn.
- Of a client's interactive requests for documents the newest goes first, and interrupts an older one that
  runs: the user is there now. Of those for one document only the newest is wanted.
"""

from __future__ import annotations

import attrs

from lsp_calib.inference.engine import Priority

Key = tuple[int, int]


@attrs.frozen
class Job:
    """The fields of a request that decide its turn.

    client, id: together they are the job's key; the newer of two requests of a client has the greater id.
    prepares: whether it only evaluates the likely prompt of an interactive request to come. Behind a summary
    it would come too late, and the request that it was for would pay.
    """

    client: int
    id: int
    priority: Priority
    document: str = ""
    prepares: bool = False

    @property
    def kind(self) -> tuple[Priority, bool]:
        """What decides its turn, the lowest first. What prepares interactive work comes right after it."""
        return Priority.INTERACTIVE if self.prepares else self.priority, self.prepares

    @property
    def key(self) -> Key:
        return self.client, self.id


@attrs.frozen
class Effect:
    """The effect of a change. dropped: jobs to be answered with an error at once. interrupt: the running job
    must stop, because it was dropped or because a more urgent one has come."""

    dropped: tuple[Job, ...] = ()
    interrupt: bool = False


class Scheduler:
    """The jobs that wait and the one that runs.

    A running job that is dropped is neither reported as `running` nor counted any more, but occupies the
    model until `stopped` or `finished` is called.
    """

    def __init__(self) -> None:
        self._waiting: dict[Key, Job] = {}  # oldest first
        self._running: Job | None = None
        self._unwanted = False
        # Interrupted jobs resume before others of their kind begin: there is one of a kind at most. Only its
        # own client's newer request interrupts interactive work, and goes before it.
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

    def jobs(self, client: int) -> int:
        """How many jobs of a client wait or run."""
        return sum(job.client == client for job in self._wanted())

    def put(self, job: Job) -> Effect:
        """A new job. Raises ValueError if there is one with its key."""
        if any(other.key == job.key for other in self._wanted()):
            raise ValueError(f"the id {job.id} is in use")
        superseded = [other for other in self._wanted() if _supersedes(job, other)]
        effect = self._drop(superseded)
        self._waiting[job.key] = job
        running = self.running
        urgent = running is not None and (job.kind < running.kind or _compete(job, running))
        return attrs.evolve(effect, interrupt=effect.interrupt or urgent)

    def take(self) -> Job | None:
        """The next job, which now runs; None if nothing waits."""
        assert self._running is None, "one at a time"
        if not self._waiting:
            return None
        kind = min(job.kind for job in self._waiting.values())
        candidates = [job for job in self._waiting.values() if job.kind == kind]
        job = min(
            candidates,
            key=lambda one: (one.key not in self._suspended, self._served.get((kind, one.client), -1)),
        )
        rivals = [one for one in candidates if _compete(one, job)]
        job = max(rivals, key=lambda one: one.id, default=job)
        del self._waiting[job.key]
        self._suspended.discard(job.key)
        self._turn += 1
        self._served[kind, job.client] = self._turn
        self._running, self._unwanted = job, False
        return job

    def stopped(self, *, gave_way: bool = False) -> bool:
        """The running job has stopped. True: it waits, and resumes later. False: it was dropped.

        gave_way: it has stopped for another client's, so it is not the next one.
        """
        job, wanted = self._end()
        if wanted and gave_way:
            self._waiting = {job.key: job, **self._waiting}  # it is still the oldest of its client's jobs
        elif wanted:
            self._waiting[job.key] = job
            if job.priority is not Priority.INTERACTIVE:
                self._suspended.add(job.key)
        return wanted

    def finished(self) -> bool:
        """The running job is done. False: it was dropped, so its answer is not sent."""
        return self._end()[1]

    def cancel(self, key: Key) -> Effect:
        return self._drop([job for job in self._wanted() if job.key == key])

    def drop_client(self, client: int) -> Effect:
        self._served = {key: turn for key, turn in self._served.items() if key[1] != client}
        return self._drop([job for job in self._wanted() if job.client == client])

    def blocked(self) -> set[int]:
        """Clients whose work waits while another client's runs. Nobody waits for idle work."""
        running = self.running
        if running is None:
            return set()
        waiting = (job for job in self._waiting.values() if job.priority is not Priority.IDLE)
        return {job.client for job in waiting} - {running.client}

    def others(self) -> bool:
        """Whether interactive work runs while another client's interactive work waits."""
        running = self.running
        if running is None or running.priority is not Priority.INTERACTIVE:
            return False
        return self.sharing() != {running.client}

    def sharing(self) -> set[int]:
        """Clients whose interactive work runs or waits."""
        return {job.client for job in self._wanted() if job.priority is Priority.INTERACTIVE}

    def _wanted(self) -> list[Job]:
        running = self.running
        return [*self._waiting.values(), *([running] if running is not None else [])]

    def _drop(self, jobs: list[Job]) -> Effect:
        interrupt = False
        for job in jobs:
            if self._waiting.pop(job.key, None) is None:
                self._unwanted = interrupt = True
            self._suspended.discard(job.key)
        return Effect(tuple(jobs), interrupt)

    def _end(self) -> tuple[Job, bool]:
        assert self._running is not None, "nothing runs"
        ended = self._running, not self._unwanted
        self._running, self._unwanted = None, False
        return ended


def _compete(one: Job, other: Job) -> bool:
    """Whether both are a client's interactive requests for documents: the newer of them goes first."""
    return (
        one.client == other.client
        and one.priority == other.priority == Priority.INTERACTIVE
        and "" not in (one.document, other.document)
    )


def _supersedes(new: Job, old: Job) -> bool:
    return _compete(new, old) and new.document == old.document
