"""Steps of a decode: they suit a user who interrupts, and give way to other programs within one step."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.local.steps import EXTRA, HOLD, USUAL, Alarm, StepSize, ThreadRule

# Seconds a token by number of threads, as measured with Qwen 1.5B on 2 processors.
QUIET = {1: 0.045, 2: 0.027}
# One of two processors is taken: two threads wait for each other at every operation.
BESIDE = {1: 0.047, 2: 1.5}
PATIENCE = 20.0


class Processors:
    """Two processors, of which others may take one; time passes as decodes take it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.stalls = 0
        self.rule = ThreadRule(2, lambda: self.now)

    def token(self, cost: dict[int, float]) -> float:
        """Decode one token; returns the seconds it took in all, stopped steps included."""
        began = self.now
        while True:
            threads = self.rule.threads()
            seconds = cost[threads] * self.random.uniform(0.98, 1.08)
            limit = self.rule.limit(threads, 1)
            if seconds <= limit:
                break
            self.now += limit
            self.stalls += 1
            self.rule.stalled(threads)
        self.now += seconds
        self.rule.took(threads, 1, seconds)
        return self.now - began

    def tokens(self, times: int, cost: dict[int, float]) -> list[float]:
        return [self.token(cost) for _ in range(times)]


@pytest.mark.parametrize("seed", range(5))
class TestTwoProcessors:
    def test_on_a_quiet_machine_nothing_is_stopped_and_all_are_used(self, seed: int) -> None:
        machine = Processors(seed)
        machine.tokens(2000, QUIET)
        assert machine.stalls == 0
        assert machine.rule.threads() == 2

    def test_beside_another_program_it_gives_way_within_one_step(self, seed: int) -> None:
        machine = Processors(seed)
        machine.tokens(200, QUIET)
        first = machine.token(BESIDE)
        assert machine.rule.threads() == 1
        # What the stopped step cost, and the same with one thread.
        assert first < (2.5 * 1.08 + 2.0) * QUIET[2]
        taken = machine.tokens(2000, BESIDE)
        assert sum(taken) < 1.05 * 2000 * BESIDE[1] * 1.08

    def test_it_comes_back_when_the_other_program_has_ended(self, seed: int) -> None:
        machine = Processors(seed)
        machine.tokens(200, QUIET)
        machine.tokens(1000, BESIDE)
        ended = machine.now
        while machine.rule.threads() < 2:
            machine.token(QUIET)
        assert machine.now - ended <= HOLD + 1.0


@pytest.mark.parametrize("times", [3.0, 6.0])
def test_a_machine_that_is_slower_as_a_whole_keeps_its_threads(times: float) -> None:
    """As one that is hot, or has less of its host: fewer threads would be slower still."""
    machine = Processors(0)
    machine.tokens(300, QUIET)
    slow = {threads: times * cost for threads, cost in QUIET.items()}
    machine.tokens(int(2 * HOLD / slow[1]), slow)
    stalls = machine.stalls
    later = machine.tokens(600, slow)
    assert machine.stalls == stalls
    assert sum(later) <= 1.1 * 600 * slow[2]
    machine.tokens(100, QUIET)
    assert sum(machine.tokens(300, BESIDE)) <= 2.0 * 300 * QUIET[2], "it gives way as before"


def test_each_stall_halves_the_threads_for_4_seconds() -> None:
    now = [0.0]
    rule = ThreadRule(8, lambda: now[0])
    seen = []
    for _ in range(5):
        seen.append(rule.threads())
        rule.stalled(rule.threads())
    assert seen == [8, 4, 2, 1, 1]
    now[0] = 3.9
    assert rule.threads() == 1
    now[0] = 4.0
    assert rule.threads() == 8


def test_a_step_that_could_not_be_stopped_counts_as_stalled_and_not_as_usual() -> None:
    rule = ThreadRule(2, lambda: 0.0)
    for _ in range(20):
        rule.took(2, 1, 0.027)
    limit = rule.limit(2, 1)
    rule.took(2, 1, 1.5)
    assert rule.threads() == 1
    assert rule.limit(2, 1) == limit


def test_who_keeps_typing_beside_another_program_gets_on() -> None:
    """Each step is interrupted by a key before it reaches its limit."""
    rule = ThreadRule(2, lambda: 0.0)
    for _ in range(20):
        rule.took(2, 16, 0.1)
    rule.interrupted(2, 16, 0.12)
    assert rule.threads() == 2, "a key may come at any time"
    assert rule.limit(2, 16) > 0.2
    rule.interrupted(2, 16, 0.2)
    assert rule.threads() == 1
    rule.interrupted(1, 16, 9.0)
    assert rule.threads() == 1


def test_a_long_step_is_not_a_stalled_one() -> None:
    rule = ThreadRule(2, lambda: 0.0)
    for _ in range(20):
        rule.took(2, 1, 0.027)
        rule.took(2, 64, 64 * 0.006)
    assert rule.limit(2, 128) > 128 * 0.006
    assert rule.limit(2, 1) < 0.1
    assert rule.limit(1, 1) == math.inf


@given(
    most=st.integers(1, 64),
    steps=st.lists(
        st.tuples(st.integers(1, 512), st.floats(1e-4, 10), st.booleans(), st.floats(0, 5)), max_size=60
    ),
)
def test_whatever_happens_there_is_a_thread_and_never_more_than_allowed(
    most: int, steps: list[tuple[int, float, bool, float]]
) -> None:
    now = [0.0]
    rule = ThreadRule(most, lambda: now[0])
    for tokens, seconds, stalls, later in steps:
        threads = rule.threads()
        assert 1 <= threads <= most
        assert rule.limit(threads, tokens) > 0
        now[0] += later
        if stalls:
            rule.stalled(threads)
        else:
            rule.took(threads, tokens, seconds)


@pytest.fixture
def rung() -> Iterator[tuple[Alarm, list[float]]]:
    times: list[float] = []
    alarm = Alarm(lambda: times.append(time.perf_counter()))
    yield alarm, times
    alarm.close()


class TestAlarm:
    def test_a_step_that_takes_too_long_is_reported_once(self, rung: tuple[Alarm, list[float]]) -> None:
        alarm, times = rung
        for steps in (1, 2):
            began = time.perf_counter()
            alarm.begin(0.02)
            while len(times) < steps and time.perf_counter() < began + PATIENCE:
                time.sleep(0.01)
            time.sleep(0.05)
            alarm.end()
            assert len(times) == steps
            assert times[-1] - began >= 0.02

    def test_a_step_that_has_ended_is_never_reported(self) -> None:
        """Whenever it rings, the step that it is about is still under way."""
        running = [False]
        rung: list[bool] = []
        alarm = Alarm(lambda: rung.append(running[0]))
        for _ in range(300):
            running[0] = True
            alarm.begin(0.0002)
            time.sleep(0.0003)
            alarm.end()
            running[0] = False
        alarm.close()
        assert rung
        assert all(rung)


each = st.floats(1e-4, 0.05)


class Scene:
    """Prompts that are evaluated on a clock of their own. each: seconds of a token; a step costs 4 more."""

    def __init__(self, each: float) -> None:
        self.steps = StepSize(USUAL)
        self.each = each
        self.done = 0
        self.spent = 0.0

    def run(self, tokens: int, seconds: float) -> None:
        """Evaluate until there are so many tokens more, or a key interrupts after so long."""
        wanted, left = self.done + tokens, seconds
        self.steps.begins()
        while self.done < wanted:
            size = self.steps.size
            step = (size + EXTRA) * self.each
            if step > left:
                self.steps.lost()
                self.spent += left
                return
            left -= step
            self.spent += step
            self.steps.finished()
            self.done += size


def tokens_in(seconds: float, each: float, size: int) -> int:
    """What steps that are always the same get done before they are interrupted."""
    return int(seconds / ((size + EXTRA) * each) + 1e-9) * size


@given(each, st.floats(0.05, 2.0))
def test_who_types_on_gets_on_almost_as_far_as_with_the_best_size_for_that_rhythm(
    each: float, gap: float
) -> None:
    scene = Scene(each)
    for _ in range(6):
        scene.run(10**9, gap)  # these make a rhythm, and may lose all
    scene.done, keys = 0, 12
    for _ in range(keys):
        scene.run(10**9, gap)
    best = max(tokens_in(gap, each, 2**power) for power in range(2, 7))
    # A third, because that best one is the one which ends just before the next key, by luck.
    assert scene.done >= keys * best / 3


@given(st.lists(st.floats(0.1, 0.4), min_size=60, max_size=60), st.floats(1e-4, 0.01))
def test_who_types_unevenly_gets_on(gaps: list[float], each: float) -> None:
    scene = Scene(each)
    for gap in gaps:
        scene.run(10**9, gap)
    assert scene.done >= 0.25 * sum(gaps[10:]) / each * 4 / (4 + EXTRA)


@given(each, st.integers(0, 1))
def test_who_waits_gets_steps_of_the_usual_size(each: float, lost: int) -> None:
    """One interruption is no rhythm: the user has changed their mind."""
    scene = Scene(each)
    for _ in range(lost):
        scene.run(10**9, each)
    scene.spent = 0.0
    scene.run(20 * USUAL, 1e9)
    assert scene.spent == pytest.approx(20 * (USUAL + EXTRA) * each)


@given(each, st.floats(0.05, 0.5))
def test_who_pauses_after_typing_waits_little_longer_than_one_who_never_typed(
    each: float, gap: float
) -> None:
    scene = Scene(each)
    for _ in range(20):
        scene.run(10**9, gap)
    scene.done, scene.spent = 0, 0.0
    scene.run(600, 1e9)
    assert scene.spent <= 1.35 * scene.done * (1 + EXTRA / USUAL) * each


@given(st.lists(st.sampled_from(["begins", "finished", "lost"]), max_size=60))
def test_no_token_is_ever_evaluated_alone_and_no_more_than_usual_at_once(events: list[str]) -> None:
    steps = StepSize(USUAL)
    for event in events:
        getattr(steps, event)()
        assert 2 < steps.size <= USUAL
