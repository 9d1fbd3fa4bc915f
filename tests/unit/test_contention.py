"""A decode gives way to other programs within a step, and comes back when they are gone (simulated)."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.local.thread_budget import Contention

# Seconds a token by number of threads, as measured with Qwen 1.5B on 2 processors.
QUIET = {1: 0.045, 2: 0.027}
# One of two processors is taken: two threads wait for each other at every operation.
BESIDE = {1: 0.047, 2: 1.5}


class Machine:
    """Two processors, of which others take some; time passes as decodes take it."""

    def __init__(self, seed: int = 0) -> None:
        self.contention = Contention(2)
        self.random = Random(seed)
        self.now = 0.0
        self.stalls = 0

    def token(self, cost: dict[int, float]) -> float:
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
        self.contention.relax(self.now)
        return self.now - began

    def tokens(self, times: int, cost: dict[int, float]) -> list[float]:
        return [self.token(cost) for _ in range(times)]


@pytest.mark.parametrize("seed", range(5))
class TestTwoProcessors:
    def test_on_a_quiet_machine_nothing_is_stopped_and_all_are_used(self, seed: int) -> None:
        machine = Machine(seed)
        machine.tokens(2000, QUIET)
        assert machine.stalls == 0
        assert machine.contention.cap == 2

    def test_beside_another_program_it_gives_way_within_one_step(self, seed: int) -> None:
        machine = Machine(seed)
        machine.tokens(200, QUIET)
        first = machine.token(BESIDE)
        assert machine.contention.cap == 1
        # What the stopped step cost, and the same with one thread.
        assert first < (2.5 * 1.08 + 2.0) * QUIET[2]
        taken = machine.tokens(2000, BESIDE)
        assert sum(taken) < 1.05 * 2000 * BESIDE[1] * 1.08

    def test_it_comes_back_when_the_other_program_has_ended(self, seed: int) -> None:
        machine = Machine(seed)
        machine.tokens(200, QUIET)
        machine.tokens(1000, BESIDE)
        ended = machine.now
        while machine.contention.cap < 2:
            machine.token(QUIET)
        assert machine.now - ended < 5.0


def test_after_stalls_again_and_again_threads_come_back_only_after_a_while() -> None:
    """What runs at a nice level in another session takes its share, and stalls no step for long."""
    contention = Contention(2)
    now = holds = 0.0
    for _ in range(6):
        contention.stalled(now, 2)
        began = now
        while contention.cap < 2:
            now += 0.05
            contention.relax(now)
        holds = now - began
    assert 3.5 < holds < 4.5


def test_of_many_processors_most_are_kept_and_all_come_back() -> None:
    contention = Contention(8)
    contention.stalled(1.0, 8)
    assert contention.cap == 6
    contention.stalled(1.1, 6)
    assert contention.cap == 4
    caps = []
    for tenth in range(11, 60):
        contention.relax(tenth / 10)
        caps.append(contention.cap)
    assert caps == sorted(caps)
    assert caps[-1] == 8


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
            st.tuples(st.sampled_from(["stalled", "relax"]), st.just(1), st.floats(0, 5)),
        ),
        max_size=60,
    ),
)
def test_whatever_happens_there_is_a_thread_and_never_more_than_allowed(
    most: int,
    events: list[tuple[str, int, float]],
) -> None:
    contention = Contention(most)
    now = 0.0
    for what, tokens, seconds in events:
        if what == "took":
            contention.took(contention.cap, tokens, seconds)
        else:
            now += seconds
            if what == "stalled":
                contention.stalled(now, contention.cap)
            else:
                contention.relax(now)
        assert 1 <= contention.cap <= most
        assert contention.limit(contention.cap, 1) > 0
