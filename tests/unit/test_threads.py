"""How many threads to decode with: simulated machines, with the times that were measured on a real one."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.inference.local.thread_budget import ThreadChooser

# A 1.5B model on 2 processors: seconds a token when generating, by number of threads; ranges where other
# processes took turns with it.
Cost = dict[int, tuple[float, float]]
QUIET: Cost = {1: (0.045, 0.045), 2: (0.029, 0.029)}
BUSY: Cost = {1: (0.046, 0.046), 2: (0.055, 0.125)}
VERY_BUSY: Cost = {1: (0.064, 0.075), 2: (0.061, 0.150)}
CLIFF: Cost = {1: (0.050, 0.060), 2: (1.0, 3.0)}
BATCH_QUIET: Cost = {1: (0.0185, 0.0185), 2: (0.0102, 0.0102)}
BATCH_BUSY: Cost = {1: (0.0185, 0.0185), 2: (0.018, 0.024)}


class Machine:
    """A machine that decodes: keeps the number of threads and the seconds of each decode."""

    def __init__(self, chooser: ThreadChooser, seed: int = 0) -> None:
        self.chooser = chooser
        self.random = Random(seed)
        self.used: list[int] = []
        self.seconds: list[float] = []

    def decode(self, cost: Cost, times: int, tokens: int = 1, noise: float = 0.05) -> None:
        for _ in range(times):
            threads = self.chooser.threads(tokens)
            low, high = cost[threads]
            seconds = tokens * self.random.uniform(low, high) * (1 + noise * self.random.random())
            self.chooser.told(threads, tokens, seconds)
            self.used.append(threads)
            self.seconds.append(seconds)

    def share(self, threads: int, last: int) -> float:
        """The share of the last decodes that used `threads`."""
        return self.used[-last:].count(threads) / last


@pytest.mark.parametrize("seed", range(10))
class TestTwoProcessors:
    def test_on_a_quiet_machine_exploring_costs_less_than_one_percent(self, seed: int) -> None:
        machine = Machine(ThreadChooser(2), seed)
        machine.decode(QUIET, 2000)
        ideal = 2000 * 0.029 * 1.025
        assert sum(machine.seconds) < 1.01 * ideal
        assert machine.share(2, 1000) > 0.99

    def test_larger_steps_are_not_taken_for_a_quicker_machine(self, seed: int) -> None:
        machine = Machine(ThreadChooser(2), seed)
        # Typed on for a while, then a pause, and so on: what a token costs differs by a third.
        each = {16: 1.29, 32: 1.10, 64: 1.0, 128: 0.95}
        ideal = 0.0
        for _ in range(100):
            for size, times in ((16, 8), (32, 3), (64, 4), (128, 6)):
                ideal += times * size * each[size] * BATCH_QUIET[2][0] * 1.025
                cost = {threads: (low * each[size],) * 2 for threads, (low, _) in BATCH_QUIET.items()}
                machine.decode(cost, times, tokens=size)
        assert sum(machine.seconds) < 1.02 * ideal

    def test_a_machine_that_is_busy_from_the_start_is_noticed_too(self, seed: int) -> None:
        machine = Machine(ThreadChooser(2), seed)
        machine.decode(BUSY, 100)
        assert machine.share(1, 50) > 0.8

    @pytest.mark.parametrize("cost", [QUIET, BUSY, VERY_BUSY], ids=["quiet", "busy", "very-busy"])
    def test_it_does_not_flap(self, seed: int, cost: Cost) -> None:
        """What it settles on changes seldom, and it is never much worse than the best fixed number."""
        machine = Machine(ThreadChooser(2), seed)
        machine.decode(cost, 2000)
        changes = sum(a != b for a, b in zip(machine.used, machine.used[1:], strict=False))
        assert changes < 2000 / 10
        fixed = []
        for threads in (1, 2):
            low, high = cost[threads]
            fixed.append(2000 * (low + high) / 2 * 1.025)
        assert sum(machine.seconds) < 1.08 * min(fixed)

    def test_batches_learn_on_their_own(self, seed: int) -> None:
        machine = Machine(ThreadChooser(2), seed)
        machine.decode(BATCH_QUIET, 50, tokens=64)
        machine.decode(BATCH_BUSY, 200, tokens=64)
        machine.decode(BATCH_QUIET, 300, tokens=64)
        assert machine.share(2, 100) > 0.9
        assert machine.chooser.threads(1) == 2, "single tokens were not decoded at all"


def many_cores(best: int) -> Cost:
    """16 processors of which `best` threads are the fastest: more wait for memory, or for each other."""
    return {n: (cost := 0.1 / min(n, best) * (1 + 0.1 * max(n - best, 0)), cost) for n in range(1, 17)}


@pytest.mark.parametrize("best", [1, 4, 8, 16])
def test_on_many_processors_it_climbs_towards_the_best_number(best: int) -> None:
    """Steps that gain less than 8 % are not taken: it may stay at some distance, never where it began."""
    machine = Machine(ThreadChooser(16))
    cost = many_cores(best)
    machine.decode(cost, 3000, noise=0.02)
    spent = sum(machine.seconds[-500:]) / 500
    assert spent < 1.45 * cost[best][0]
    assert best == 16 or spent < 0.7 * cost[16][0]


@given(
    st.integers(1, 64),
    st.lists(st.tuples(st.sampled_from([1, 3, 64]), st.floats(1e-6, 100)), max_size=200),
)
def test_whatever_it_is_told_the_number_is_possible(most: int, decodes: list[tuple[int, float]]) -> None:
    chooser = ThreadChooser(most)
    for tokens, seconds in decodes:
        threads = chooser.threads(tokens)
        assert 1 <= threads <= most
        chooser.told(threads, tokens, seconds)


@given(st.integers(0, 1000), st.sampled_from([QUIET, BUSY, VERY_BUSY, CLIFF]))
def test_what_failed_trials_cost_is_bounded(seed: int, cost: Cost) -> None:
    """Against the best fixed number, on a machine that stays as it is: 2 %, the noise, the first steps."""
    machine = Machine(ThreadChooser(2), seed)
    machine.decode(cost, 3000, noise=0)
    best = min((low + high) / 2 for low, high in cost.values())
    worst = max(high for _, high in cost.values())
    lost = sum(machine.seconds) - 3000 * best
    assert lost < 0.06 * sum(machine.seconds) + 12 * worst
