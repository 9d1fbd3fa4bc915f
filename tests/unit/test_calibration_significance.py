"""Tests of differences: scipy's numbers, and intervals that use that both are of the same items."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lsp_calib.calibration import (
    auc,
    benjamini_hochberg,
    bootstrap_difference,
    bootstrap_interval,
    bootstrap_mean,
    brier_score,
    paired_t_test,
    skill_score,
)
from lsp_calib.calibration.validation.significance import student_t_two_sided
from lsp_calib.errors import DataError

triples = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.booleans()), min_size=2, max_size=60
)


@given(t=st.floats(-1e6, 1e6), degrees=st.one_of(st.integers(1, 200), st.integers(1, 10**7)))
def test_the_t_distribution_is_scipys(t, degrees):
    expected = 2 * stats.t.sf(abs(t), degrees)
    assert student_t_two_sided(t, degrees) == pytest.approx(expected, rel=1e-7, abs=1e-290)


@pytest.mark.parametrize("degrees", [1, 2, 5, 30, 200, 10_000, 1_000_000])
@pytest.mark.parametrize("t", [0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 1.5, 1.96, 3.0, 6.0, 12.0, 30.0])
def test_the_t_distribution_where_it_matters(t, degrees):
    assert student_t_two_sided(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), rel=1e-8)
    assert student_t_two_sided(-t, degrees) == student_t_two_sided(t, degrees)


def test_the_ends_of_the_t_distribution():
    assert student_t_two_sided(0.0, 3) == 1.0
    assert student_t_two_sided(math.inf, 3) == 0.0
    with pytest.raises(DataError):
        student_t_two_sided(math.nan, 3)
    with pytest.raises(DataError):
        student_t_two_sided(1.0, 0)


@given(items=triples)
def test_the_paired_test_is_scipys(items):
    a, b, y = (np.array(column) for column in zip(*items, strict=True))
    mine = paired_t_test(a, b, y)
    one, two = (a - y) ** 2, (b - y) ** 2
    assert mine.n == len(items)
    assert mine.difference == pytest.approx(brier_score(a, y) - brier_score(b, y), abs=1e-12)
    differences = one - two
    if np.ptp(differences) > 1e-9:
        theirs = stats.ttest_rel(one, two)
        assert mine.statistic == pytest.approx(theirs.statistic, rel=1e-6, abs=1e-9)
        assert mine.p_value == pytest.approx(theirs.pvalue, rel=1e-5, abs=1e-12)
    back = paired_t_test(b, a, y)
    assert (back.difference, back.statistic, back.p_value) == (
        -mine.difference,
        -mine.statistic,
        mine.p_value,
    )


def test_no_spread_is_no_difference_or_all_the_difference():
    assert paired_t_test([0.3] * 5, [0.3] * 5, [True] * 5).p_value == 1.0
    all_better = paired_t_test([0.9] * 5, [0.3] * 5, [True] * 5)
    assert (all_better.statistic, all_better.p_value) == (-math.inf, 0.0)


def test_what_cannot_be_tested_is_refused():
    with pytest.raises(DataError, match="at least 2"):
        paired_t_test([0.3], [0.4], [True])
    with pytest.raises(DataError):
        paired_t_test([0.3, 0.4], [0.4], [True, False])


@given(p=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40), alpha=st.sampled_from([0.01, 0.05, 0.5]))
def test_the_procedure_of_benjamini_and_hochberg_is_scipys_and_the_textbooks(p, alpha):
    found = benjamini_hochberg(p, alpha)
    assert found.adjusted == pytest.approx(stats.false_discovery_control(p), abs=1e-12)
    # The textbook: the largest k with p_(k) <= k alpha / m; it and all smaller ones are rejected.
    ascending = sorted(p)
    k = max((k for k in range(1, len(p) + 1) if ascending[k - 1] <= k * alpha / len(p)), default=0)
    assert abs(int(found.rejected.sum()) - k) == 0 or np.any(np.isclose(found.adjusted, alpha))
    assert found.rejected.tolist() == (found.adjusted <= alpha).tolist()


def test_no_tests_no_discoveries_and_bad_ones_refused():
    assert benjamini_hochberg([]).rejected.size == 0
    for bad in ([1.2], [math.nan], [[0.1]]):
        with pytest.raises(DataError):
            benjamini_hochberg(bad)
    with pytest.raises(DataError):
        benjamini_hochberg([0.1], 0.0)


def two_scores(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, n)
    y = rng.random(n) < p
    return p, np.clip(p + rng.normal(0, 0.02, n), 0, 1), y


def test_what_two_scores_share_does_not_widen_the_difference():
    p, nearly, y = two_scores(500, 0)
    alone = bootstrap_interval(brier_score, p, y)
    difference = bootstrap_difference(brier_score, p, nearly, y)
    assert difference.value == pytest.approx(brier_score(p, y) - brier_score(nearly, y))
    assert difference.low < difference.value < difference.high
    assert difference.high - difference.low < (alone.high - alone.low) / 4


@pytest.mark.parametrize("metric", [brier_score, auc, skill_score])
def test_a_score_does_not_differ_from_itself_and_sides_change_the_sign(metric):
    p, nearly, y = two_scores(200, 1)
    groups = np.arange(200) // 5
    same = bootstrap_difference(metric, p, p, y, groups, resamples=100)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    there = bootstrap_difference(metric, p, nearly, y, groups, resamples=100)
    back = bootstrap_difference(metric, nearly, p, y, groups, resamples=100)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_one_group_or_one_class_has_no_bounds():
    p, nearly, y = two_scores(50, 2)
    alone = bootstrap_difference(brier_score, p, nearly, y, np.zeros(50))
    assert alone.value is not None
    assert (alone.low, alone.high) == (None, None)
    one_class = bootstrap_difference(auc, p, nearly, np.ones(50, dtype=bool))
    assert (one_class.value, one_class.low, one_class.high) == (None, None, None)


def test_the_interval_of_a_mean_is_that_of_theory_and_groups_widen_it():
    values = np.random.default_rng(0).normal(3.0, 2.0, 2000)
    found = bootstrap_mean(values)
    error = values.std() / np.sqrt(values.size)
    assert found.value == values.mean()
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.3 * error
    )
    # Five equal items are worth one.
    repeated = bootstrap_mean(np.repeat(values[:400], 5), np.repeat(np.arange(400), 5))
    once = bootstrap_mean(values[:400])
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high), abs=0.05)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [[1.0], [2.0]]])
def test_a_mean_of_nothing_or_of_no_numbers_is_refused(values):
    with pytest.raises(DataError, match="finite numbers"):
        bootstrap_mean(values)
