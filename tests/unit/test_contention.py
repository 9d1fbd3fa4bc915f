"""A decode beside others, simulated: it gives way within a step, and its steps suit who interrupts."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.local.thread_budget import SIZES, BatchSizer, Contention

# Seconds a token by number of threads, as measured with Qwen 1.5B on 2 processors.
QUIET = {1: 0.045, 2: 0.027}
# One of two processors is taken: two threads wait for each other at every operation.
BESIDE = {1: 0.047, 2: 1.5}


class Machine:
    """Two processors, of which others take some; time passes as decodes take it."""

    def __init__(self, *, tells: bool, seed: int = 0) -> None:
        self.contention = Contention(2)
        self.tells = tells
        self.random = Random(seed)
        self.now = 0.0
        self.stalls = 0

    def token(self, cost: dict[int, float], others: float) -> float:
        """Decode one token; returns the seconds it took in all, stopped steps included."""
        began = self.now
        while True:
            threads = min(2, self.contention.cap)
            seconds = cost[threads] * self.random.uniform(0.98, 1.08)
            limit = self.contention.limit(threads, 1)
            if seconds <= limit:
                break
            self.now += limit
            self.stalls += 1
            self.contention.stalled(self.now, threads)
        self.now += seconds
        self.contention.took(threads, 1, seconds)
        self.contention.measured(self.now, 2 - others if self.tells else None)
        return self.now - began

    def tokens(self, times: int, cost: dict[int, float], others: float = 0.0) -> list[float]:
        return [self.token(cost, others) for _ in range(times)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tells", [True, False], ids=["kernel", "time alone"])
class TestTwoProcessors:
    def test_on_a_quiet_machine_nothing_is_stopped_and_all_are_used(self, tells: bool, seed: int) -> None:
        machine = Machine(tells=tells, seed=seed)
        machine.tokens(2000, QUIET)
        assert machine.stalls == 0
        assert machine.contention.cap == 2

    def test_beside_another_program_it_gives_way_within_one_step(self, tells: bool, seed: int) -> None:
        machine = Machine(tells=tells, seed=seed)
        machine.tokens(200, QUIET)
        first = machine.token(BESIDE, 1.0)
        assert machine.contention.cap == 1
        # What the stopped step cost, and the same with one thread.
        assert first < (2.5 * 1.08 + 2.0) * QUIET[2]
        taken = machine.tokens(2000, BESIDE, 1.0)
        assert sum(taken) < 1.05 * 2000 * BESIDE[1] * 1.08

    def test_it_comes_back_when_the_other_program_has_ended(self, tells: bool, seed: int) -> None:
        machine = Machine(tells=tells, seed=seed)
        machine.tokens(200, QUIET)
        machine.tokens(1000, BESIDE, 1.0)
        ended = machine.now
        while machine.contention.cap < 2:
            machine.token(QUIET, 0.0)
        assert machine.now - ended < 5.0


class TestWhatTheKernelTells:
    def test_a_program_that_was_there_before_the_run_is_seen_before_the_first_step(self) -> None:
        contention = Contention(2)
        contention.measured(1.0, 1.0)
        assert contention.cap == 1

    @pytest.mark.parametrize("others", [0.1, 0.3, 0.6])
    def test_a_program_that_runs_now_and_then_is_not_worth_a_processor(self, others: float) -> None:
        contention = Contention(2)
        contention.measured(1.0, 2 - others)
        assert contention.cap == 2

    def test_after_a_stall_threads_come_back_only_after_a_while(self) -> None:
        """What runs at a nice level in another session takes its share, and does not count as busy."""
        contention = Contention(2)
        now = holds = 0.0
        for _ in range(6):
            contention.stalled(now, 2)
            began = now
            while contention.cap < 2:
                now += 0.05
                contention.measured(now, 2.0)
            holds = now - began
        assert 3.5 < holds < 4.5

    def test_of_many_processors_only_those_that_are_taken_are_left(self) -> None:
        contention = Contention(8)
        contention.measured(1.0, 5.0)
        assert contention.cap == 5
        contention.stalled(1.1, 5, 3.0)
        assert contention.cap == 3
        contention.measured(10.0, 8.0)
        assert contention.cap == 8


def test_steps_that_are_slower_but_do_not_stall_are_noticed() -> None:
    contention = Contention(2)
    for _ in range(50):
        assert not contention.took(1, 1, 0.045)
        assert not contention.took(2, 1, 0.027)
    assert any(contention.took(2, 1, 0.06) for _ in range(10))


def test_a_long_step_is_not_a_stalled_one() -> None:
    contention = Contention(2)
    for _ in range(20):
        contention.took(2, 1, 0.027)
        contention.took(2, 64, 64 * 0.006)
    assert contention.limit(2, 128) > 128 * 0.006
    assert contention.limit(2, 1) < 0.1
    assert contention.limit(1, 1) == math.inf


@given(
    most=st.integers(1, 64),
    events=st.lists(
        st.one_of(
            st.tuples(st.just("took"), st.integers(1, 512), st.floats(1e-4, 10)),
            st.tuples(st.just("stalled"), st.none() | st.floats(-4, 70), st.floats(0, 5)),
            st.tuples(st.just("measured"), st.none() | st.floats(-4, 70), st.floats(0, 5)),
        ),
        max_size=60,
    ),
)
def test_whatever_happens_there_is_a_thread_and_never_more_than_allowed(
    most: int,
    events: list[tuple[str, float | None, float]],
) -> None:
    contention = Contention(most)
    now = 0.0
    for what, first, second in events:
        if what == "took":
            contention.took(contention.cap, int(first or 1), second)
        else:
            now += second
            if what == "stalled":
                contention.stalled(now, contention.cap, first)
            else:
                contention.measured(now, first)
        assert 1 <= contention.cap <= most
        assert contention.limit(contention.cap, 1) > 0


LARGEST = 128
each = st.floats(1e-4, 0.05)


class Scene:
    """Prompts that are evaluated on a clock of their own. each: seconds of a token; a step costs 4 more."""

    def __init__(self, each: float, largest: int = LARGEST) -> None:
        self.steps = BatchSizer(largest)
        self.each = each
        self.now = 100.0
        self.done = 0
        self.sizes: list[int] = []
        self.steps.took(4, 8 * each)

    def run(self, tokens: int, seconds: float, *, urgent: bool = True) -> bool:
        """Evaluate until there are so many tokens more, or for so long. False: it was interrupted."""
        end, wanted = self.now + seconds, self.done + tokens
        self.sizes = []
        self.steps.begins(self.now)
        while self.done < wanted:
            size = self.steps.size(self.now, urgent=urgent)
            self.sizes.append(size)
            step = (size + 4) * self.each
            if self.now + step > end:
                self.now = end
                self.steps.interrupted(self.now)
                return False
            self.now += step
            self.steps.took(size, step)
            self.done += size
        return True


def tokens_in(seconds: float, each: float, size: int) -> int:
    """What steps that are always the same get done before they are interrupted."""
    return int(seconds / ((size + 4) * each) + 1e-9) * size


@given(each, st.floats(0.05, 2.0))
def test_who_types_on_gets_on_almost_as_far_as_with_the_best_size_for_that_rhythm(
    each: float, gap: float
) -> None:
    scene = Scene(each)
    for _ in range(2):
        scene.run(10**9, gap)  # two keys make a rhythm, and may lose all
    scene.done, keys = 0, 10
    for _ in range(keys):
        assert not scene.run(10**9, gap)
    best = max(tokens_in(gap, each, size) for size in SIZES if size <= LARGEST)
    # Half, because that best one is the one which ends just before the next key, by luck.
    assert scene.done >= keys * best / 2 - keys * SIZES[0]


@given(each)
def test_who_waits_gets_the_largest_steps_at_once(each: float) -> None:
    scene = Scene(each)
    assert scene.run(2000, 1e9)
    quick = each <= 0.01
    assert scene.sizes[0] >= (LARGEST if quick else LARGEST / 2)
    assert scene.sizes == sorted(scene.sizes)


@given(each, st.floats(0.05, 0.5))
def test_who_pauses_after_typing_waits_little_longer_than_one_who_never_typed(
    each: float, gap: float
) -> None:
    scene = Scene(each)
    scene.run(10**9, gap)
    scene.run(10**9, gap)
    began, done = scene.now, scene.done
    scene.run(600, 1e9)
    took = scene.now - began
    assert took <= 1.35 * (scene.done - done) * each + 2 * gap


@given(each, st.floats(0.01, 5.0))
def test_an_interruption_counts_until_the_next_run_has_come_to_its_end(each: float, gap: float) -> None:
    scene, calm = Scene(each), Scene(each)
    scene.run(10**9, gap)
    scene.run(10**9, gap)
    for one in (scene, calm):
        one.steps.begins(one.now)
    careful = scene.steps.size(scene.now, urgent=True)
    assert careful == SIZES[0] or (careful + 4) * each <= 0.5 * gap * (1 + 1e-6)
    scene.steps.begins(scene.now)
    assert scene.steps.size(scene.now, urgent=True) == calm.steps.size(calm.now, urgent=True)


@given(each, st.floats(0.0, 2.0))
def test_who_shares_the_model_takes_no_step_longer_than_its_turn(each: float, left: float) -> None:
    scene = Scene(each)
    scene.steps.begins(scene.now)
    size = scene.steps.size(scene.now, urgent=True, left=left)
    assert size == 16 or (size + 4) * each <= left * (1 + 1e-6)
    assert size <= scene.steps.size(scene.now, urgent=True)


def test_an_interruption_that_is_long_past_counts_no_more() -> None:
    scene = Scene(0.01)
    scene.run(10**9, 0.2)
    scene.run(10**9, 0.2)
    scene.steps.begins(scene.now)
    assert scene.steps.size(scene.now, urgent=True) == SIZES[0]
    scene.steps.interrupted(scene.now)
    scene.steps.begins(scene.now + 3)
    assert scene.steps.size(scene.now + 3, urgent=True) == LARGEST


@given(each, st.floats(0.1, 10.0))
def test_what_nobody_waits_for_begins_small_and_grows(each: float, seconds: float) -> None:
    scene = Scene(each)
    scene.run(10**9, seconds, urgent=False)
    assert scene.sizes[0] == SIZES[0]
    assert scene.sizes == sorted(scene.sizes)
    assert scene.done >= 0.25 * seconds / each - LARGEST
