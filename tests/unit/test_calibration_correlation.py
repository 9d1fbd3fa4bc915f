"""Rank correlations: scipy's numbers, and what must not matter."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration import CalibrationWarning, kendall, quietly, rank_correlations, spearman
from lsp_calib.errors import DataError

BOTH = [spearman, kendall]
scores = st.one_of(st.floats(-1e6, 1e6), st.integers(-3, 3).map(float))
pairs = st.lists(st.tuples(scores, scores), min_size=2, max_size=80)


@given(items=pairs, data=st.data())
def test_scipys_numbers_whatever_the_order_and_repetition(items, data):
    a, b = (np.array(side) for side in zip(*items, strict=True))
    if np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        with quietly():
            assert all(math.isnan(measure(a, b)) for measure in BOTH)
        return
    order = np.array(data.draw(st.permutations(range(a.size))))
    theirs = (scipy.stats.spearmanr(a, b).statistic, scipy.stats.kendalltau(a, b).statistic)
    for measure, value in zip(BOTH, theirs, strict=True):
        assert measure(a, b) == pytest.approx(value, abs=1e-9)
        assert measure(b, a) == pytest.approx(value, abs=1e-9)
        assert measure(a[order], b[order]) == pytest.approx(value, abs=1e-9)
        assert measure(np.tile(a, 3), np.tile(b, 3)) == pytest.approx(value, abs=1e-9)
        assert measure(-a, b) == pytest.approx(-value, abs=1e-9)
        assert -1.0 <= measure(a, b) <= 1.0


@pytest.mark.parametrize("n", [2, 3, 255, 256, 257, 5000])
@pytest.mark.parametrize("distinct", [3, 10**9])
def test_sizes_around_powers_of_two(n, distinct):
    rng = np.random.default_rng(n)
    a = rng.integers(distinct, size=n) + np.arange(n) % 2 / 4
    b = a + rng.normal(size=n).round(1) * distinct / 5
    assert kendall(a, b) == pytest.approx(scipy.stats.kendalltau(a, b).statistic, abs=1e-9)


def test_a_matrix_of_measures():
    measures = {"total": [0.1, 0.2, 0.3, 0.4], "minimum": [0.1, 0.3, 0.2, 0.4], "length": [4, 3, 2, 1]}
    table = rank_correlations(measures, method="kendall")
    assert (table.method, table.names, table.n) == ("kendall", ("total", "minimum", "length"), 4)
    expected = [[1, 2 / 3, -1], [2 / 3, 1, -2 / 3], [-1, -2 / 3, 1]]
    np.testing.assert_allclose(table.matrix, expected)
    np.testing.assert_allclose(rank_correlations(measures).matrix[0], [1.0, 0.8, -1.0])


@pytest.mark.parametrize("measure", BOTH)
def test_a_constant_measure_is_warned_of(measure):
    with pytest.warns(CalibrationWarning, match="all 3 items") as record:
        assert math.isnan(measure([1, 2, 3], [5, 5, 5]))
    assert record[0].filename == __file__


@pytest.mark.parametrize("measure", BOTH)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([], []),
        ([1.0], [1.0, 2.0]),
        ([[1.0]], [[1.0]]),
        ([math.nan, 1.0], [1.0, 2.0]),
        ([math.inf, 1.0], [1.0, 2.0]),
        (["a", "b"], [1.0, 2.0]),
    ],
)
def test_what_has_no_ranks_is_refused(measure, a, b):
    with pytest.raises(DataError):
        measure(a, b)


def test_unknown_methods_and_no_measures_are_refused():
    with pytest.raises(DataError, match="pearson"):
        rank_correlations({"a": [1, 2]}, method="pearson")
    with pytest.raises(DataError, match="no measures"):
        rank_correlations({})
