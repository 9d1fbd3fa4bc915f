"""Which request runs next: whoever asks, in whatever order, nobody is forgotten and nobody starves."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lsp_calib.inference.engine import Priority
from lsp_calib.inference.process.request_queue import Effect, Job, Key, Queue

TYPING, BEHIND, IDLE = Priority


def taken(queue: Queue) -> Job:
    job = queue.take()
    assert job is not None
    return job


def run_all(queue: Queue) -> list[Key]:
    """The order in which what waits is worked off."""
    order = []
    while (job := queue.take()) is not None:
        order.append(job.key)
        assert queue.finished()
    return order


class TestTurns:
    def test_a_prompt_for_the_next_key_is_evaluated_once_nobody_waits_and_before_idle_work(self) -> None:
        queue = Queue()
        ahead = Job(1, 2, Priority.IDLE, ahead=True)
        queue.put(Job(1, 1, Priority.IDLE))
        taken(queue)
        assert queue.put(ahead).interrupt
        queue.stopped()
        assert taken(queue) is ahead
        assert queue.put(Job(1, 5, Priority.IDLE)) == Effect()
        assert queue.put(Job(2, 1, BEHIND)).interrupt, "a hover waits for its summary"
        queue.stopped()
        assert queue.put(Job(1, 3, TYPING)) == Effect()
        assert run_all(queue) == [(1, 3), (2, 1), (1, 2), (1, 1), (1, 5)]

    def test_a_key_takes_over_what_is_evaluated_for_its_document_and_no_other(self) -> None:
        """It loses no step, whose tokens are its own."""
        for client, document, taken_over in ((1, "a", True), (1, "b", False), (2, "a", False)):
            queue = Queue()
            ahead = Job(1, 1, Priority.IDLE, "a", ahead=True)
            queue.put(ahead)
            taken(queue)
            effect = queue.put(Job(client, 2, TYPING, document))
            assert effect == Effect((ahead,) if taken_over else (), interrupt=True, after_step=taken_over)
            if taken_over:
                assert not queue.put(Job(1, 3, TYPING, "a")).interrupt, "the next key needs the step as well"
                assert queue.put(Job(2, 1, TYPING, "a")).interrupt, "another client's needs none of it"
            assert queue.finished() is not taken_over

    def test_clients_take_turns_whoever_asks_for_more(self) -> None:
        queue = Queue()
        for number in range(4):
            queue.put(Job(1, number, BEHIND))
        for number in range(2):
            queue.put(Job(2, number, BEHIND))
        assert run_all(queue) == [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (1, 3)]

    def test_background_work_does_not_cost_a_client_its_turn_when_it_types(self) -> None:
        queue = Queue()
        queue.put(Job(1, 1, BEHIND))
        assert run_all(queue) == [(1, 1)]
        queue.put(Job(2, 1, TYPING))
        assert run_all(queue) == [(2, 1)]
        queue.put(Job(2, 2, TYPING))
        queue.put(Job(1, 2, TYPING))
        assert run_all(queue) == [(1, 2), (2, 2)]

    def test_background_work_that_was_interrupted_goes_on_before_other_background_work(self) -> None:
        queue = Queue()
        queue.put(Job(1, 1, BEHIND))
        taken(queue)
        queue.put(Job(2, 1, BEHIND))
        assert queue.put(Job(3, 1, TYPING)).interrupt
        queue.stopped()
        assert run_all(queue) == [(3, 1), (1, 1), (2, 1)]


def test_idle_work_goes_last_and_gives_way_to_all_other() -> None:
    queue = Queue()
    for job in (Job(1, 1, IDLE), Job(1, 2, IDLE)):
        queue.put(job)
    assert taken(queue).key == (1, 1)
    assert queue.put(Job(1, 3, BEHIND)).interrupt
    queue.stopped()
    assert taken(queue).key == (1, 3)
    assert queue.put(Job(1, 4, TYPING)).interrupt
    queue.stopped()
    queue.put(Job(2, 1, BEHIND))
    # Each that was interrupted goes on before others of its kind.
    assert run_all(queue) == [(1, 4), (1, 3), (2, 1), (1, 1), (1, 2)]


def test_what_waits_while_another_clients_work_runs_is_blocked() -> None:
    queue = Queue()
    queue.put(Job(1, 1, TYPING))
    assert not queue.is_blocked((1, 1)), "nothing runs yet"
    taken(queue)
    for job in (Job(1, 2, TYPING), Job(2, 1, TYPING), Job(2, 2, IDLE)):
        queue.put(job)
    blocked = [key for key in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1)) if queue.is_blocked(key)]
    assert blocked == [(2, 1)], "nobody waits for idle work"
    assert queue.finished()
    assert taken(queue).client == 2
    assert queue.is_blocked((1, 2))


class Traffic(RuleBasedStateMachine):
    """Clients that ask, cancel, go and come as they like, against a few lines that know what has to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.live: dict[Key, Job] = {}
        self.running: Job | None = None  # in the model, wanted or not
        self.interrupt_pending = False
        self.passed_over: dict[int, set[int]] = {}
        self.number = 0

    @rule(
        questions=st.lists(
            st.tuples(
                st.integers(1, 3),
                st.sampled_from(Priority),
                st.sampled_from(["", "", "a", "b"]),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def ask_a_lot(self, questions: list[tuple[int, Priority, str]]) -> None:
        for question in questions:
            self.ask(*question)

    @precondition(lambda self: self.running is None)
    @rule(times=st.integers(1, 6))
    def work(self, times: int) -> None:
        for _ in range(times):
            self.take()
            if self.running is not None:
                self.finish()

    def ask(self, client: int, priority: Priority, document: str) -> None:
        self.number += 1
        job = Job(client, self.number, priority, document)
        effect = self.queue.put(job)
        rivals = {
            key
            for key, other in self.live.items()
            if priority == other.priority == TYPING
            and document
            and (other.client, other.document) == (client, document)
        }
        assert {job.key for job in effect.dropped} == rivals
        wanted_running = self.running is not None and self.running.key in self.live
        overtakes = wanted_running and self.running is not None and self.goes_before(job, self.running)
        assert effect.interrupt == (overtakes or (self.running is not None and self.running.key in rivals))
        self.follow(effect)
        self.live[job.key] = job

    @staticmethod
    def goes_before(new: Job, old: Job) -> bool:
        typed = new.client == old.client and new.priority == old.priority == TYPING
        return new.priority < old.priority or (typed and bool(new.document and old.document))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([*self.live, (9, 9)]))
        effect = self.queue.cancel(key)
        assert {job.key for job in effect.dropped} == {key} & self.live.keys()
        self.follow(effect)

    @rule(client=st.integers(1, 3))
    def go(self, client: int) -> None:
        effect = self.queue.drop_client(client)
        assert {job.key for job in effect.dropped} == {key for key in self.live if key[0] == client}
        self.follow(effect)
        self.passed_over.pop(client, None)
        for others in self.passed_over.values():
            others.discard(client)

    @precondition(lambda self: self.running is None)
    @rule()
    def take(self) -> None:
        job = self.queue.take()
        assert (job is None) == (not self.live)
        if job is None:
            return
        assert job.key in self.live
        assert job.priority == min(other.priority for other in self.live.values())
        if job.document and job.priority is TYPING:
            others = [one for one in self.live.values() if one.document and one.priority is TYPING]
            assert job.id == max(one.id for one in others if one.client == job.client), "the newest"
        self.running, self.interrupt_pending = job, False
        if job.priority is TYPING:
            self.fair(job.client)

    def fair(self, client: int) -> None:
        """Nobody is served twice while somebody else waits all the time."""
        self.passed_over.pop(client, None)
        for other in {job.client for job in self.live.values() if job.priority is TYPING} - {client}:
            passed = self.passed_over.setdefault(other, set())
            assert client not in passed, f"{other} waited while {client} was served twice"
            passed.add(client)
        typing = {job.client for job in self.live.values() if job.priority is TYPING}
        for other in list(self.passed_over.keys() - typing):
            del self.passed_over[other]

    @precondition(lambda self: self.running is not None)
    @rule()
    def finish(self) -> None:
        assert self.running is not None
        assert self.queue.finished() == (self.live.pop(self.running.key, None) is not None)
        self.running = None

    @precondition(lambda self: self.running is not None and self.interrupt_pending)
    @rule()
    def stop(self) -> None:
        assert self.running is not None
        self.queue.stopped()
        self.running = None

    @invariant()
    def counts_agree(self) -> None:
        running = self.running is not None and self.running.key in self.live
        assert (self.queue.running is not None) == running
        assert self.queue.waiting == len(self.live) - running
        documents = [
            (job.client, job.document)
            for job in self.live.values()
            if job.document and job.priority is TYPING
        ]
        assert len(documents) == len(set(documents)), "only the newest is wanted"

    def follow(self, effect: Effect) -> None:
        for job in effect.dropped:
            del self.live[job.key]
        if effect.interrupt:
            assert self.running is not None, "there is nothing to interrupt"
            self.interrupt_pending = True
        for client in list(self.passed_over):
            if not any(job.client == client and job.priority is TYPING for job in self.live.values()):
                del self.passed_over[client]


Traffic.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestTraffic = Traffic.TestCase
