"""The bench's arithmetic: percentiles, intervals that hold what they should, tokens that changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.tools.bench.report import (
    median_ratio,
    percentile,
    ratio_of_percentiles,
    resamples,
    spread_of,
)
from lsp_calib.tools.bench.typist import tokens_needed

TIMES = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=40)
TOKENS = st.lists(st.integers(0, 5), max_size=30)


class TestSpreads:
    @given(TIMES)
    def test_percentiles_are_those_of_the_readings_and_within_their_intervals(
        self, times: list[float]
    ) -> None:
        found = spread_of(times)
        assert found is not None
        assert found["n"] == len(times)
        for percent in (50, 95):
            value = percentile(times, percent)
            assert value is not None
            assert value[0] == pytest.approx(np.percentile(times, percent), abs=1e-3)
            assert found[f"p{percent}"] == value
            if len(times) < 3:
                assert value[1:] == [None, None]
            else:
                assert value[1] is not None
                assert value[2] is not None
                assert min(times) - 1e-3 <= value[1] <= value[2] <= max(times) + 1e-3

    def test_without_readings_there_is_nothing(self) -> None:
        assert spread_of([]) is None
        assert median_ratio([]) is None
        assert median_ratio([(1.0, 0.0)]) is None
        assert ratio_of_percentiles([], 50) is None
        assert ratio_of_percentiles([(1.0, 0.0)] * 5, 50) is None

    def test_the_interval_of_the_median_holds_the_truth_about_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(1)
        held = 0
        for _ in range(200):
            found = percentile(list(rng.lognormal(3, 0.6, size=60)), 50)
            assert found is not None
            assert found[1] is not None
            assert found[2] is not None
            held += found[1] <= np.exp(3) <= found[2]
        assert 0.85 <= held / 200 <= 1.0

    def test_readings_that_hang_together_make_wider_intervals(self) -> None:
        rng = np.random.default_rng(2)
        wide, narrow = [], []
        for _ in range(40):
            slow = np.repeat(rng.normal(100, 10, size=25), 8)
            for times, into in ((slow, wide), (rng.permutation(slow), narrow)):
                found = percentile(list(times), 50)
                assert found is not None
                assert found[1] is not None
                assert found[2] is not None
                into.append(found[2] - found[1])
        assert np.median(wide) > 1.2 * np.median(narrow)


class TestRatios:
    @given(TIMES, st.floats(0.1, 10))
    def test_a_constant_factor_is_found_exactly(self, times: list[float], factor: float) -> None:
        pairs = [(factor * time, time) for time in times]
        for found in (
            median_ratio(pairs),
            ratio_of_percentiles(pairs, 50),
            ratio_of_percentiles(pairs, 95),
        ):
            assert found is not None
            assert found[0] == pytest.approx(factor, abs=1e-3)

    def test_pairs_are_drawn_together(self) -> None:
        rng = np.random.default_rng(3)
        times = rng.lognormal(3, 1.5, size=80)
        found = ratio_of_percentiles([(2 * time, time) for time in times], 50)
        apart = ratio_of_percentiles(list(zip(2 * times, rng.permutation(times), strict=True)), 50)
        assert found is not None
        assert apart is not None
        assert found[1] == pytest.approx(2)
        assert found[2] == pytest.approx(2)
        assert apart[1] is not None
        assert apart[1] < 1.9

    def test_a_ratio_to_nothing_is_left_out(self) -> None:
        found = median_ratio([(1.0, 0.0), (3.0, 1.0)])
        assert found is not None
        assert found[0] == 3


class TestResamples:
    @given(st.integers(1, 200))
    def test_they_are_runs_of_consecutive_readings(self, n: int) -> None:
        drawn = resamples(n, np.random.default_rng(0), 50)
        assert drawn.shape == (50, n)
        assert drawn.min() >= 0
        assert drawn.max() < n
        length = max(round(n ** (1 / 3)), 1)
        for first in range(0, n - length + 1, length):
            run = drawn[:, first : first + length]
            assert (np.diff(run, axis=1) % n == 1 % n).all()

    def test_every_reading_is_drawn_as_often_as_any_other(self) -> None:
        counts = np.bincount(resamples(10, np.random.default_rng(0), 5000).ravel())
        assert counts.min() > 0.9 * counts.max()


class TestTokensNeeded:
    @given(TOKENS, st.lists(st.integers(10, 15), min_size=1, max_size=6), TOKENS)
    def test_what_is_put_in_is_what_is_needed(self, head: list[int], new: list[int], tail: list[int]) -> None:
        assert tokens_needed(head + tail, head + new + tail) == len(new)

    @given(TOKENS, TOKENS)
    def test_it_is_between_one_and_the_whole_prompt(self, before: list[int], after: list[int]) -> None:
        needed = tokens_needed(before, after)
        assert max(1, len(after) - len(before)) <= needed <= max(1, len(after))

    @given(TOKENS)
    def test_the_last_token_is_always_evaluated(self, tokens: list[int]) -> None:
        assert tokens_needed(tokens, tokens) == 1

    def test_text_below_a_change_is_not_needed_again(self) -> None:
        above, below = list(range(100, 150)), list(range(200, 260))
        assert tokens_needed([1, *above, 2, *below, 3], [1, *above, 7, 8, 2, *below, 3]) == 2
