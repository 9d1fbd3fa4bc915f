"""Calibration errors: by hand, against relplot and scikit-learn, without bias, and where they warn."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.arrays import CalibrationWarning, quietly
from lsp_calib.calibration.scores import (
    auc,
    debiased_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    skill_score,
    smooth_ece,
)
from lsp_calib.errors import DataError

ALL = [
    debiased_calibration_error,
    lambda p, y: debiased_calibration_error(p, y, 5, "width"),
    ks_calibration_error,
    smooth_ece,
]
pairs = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60)
coarse = st.lists(st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.booleans()), min_size=1, max_size=60)


def split(items):
    return np.array([p for p, _ in items]), np.array([y for _, y in items], dtype=bool)


def calibrated(n, rng):
    p = rng.beta(2, 1, n)
    return p, rng.random(n) < p


@given(items=st.one_of(pairs, coarse), data=st.data())
def test_order_does_not_matter_and_values_are_in_range(items, data):
    p, y = split(items)
    p2, y2 = split(data.draw(st.permutations(items)))
    with quietly():
        for metric in ALL:
            value = metric(p, y)
            assert 0.0 <= value <= 1.0
            assert metric(p2, y2) == pytest.approx(value, abs=1e-7)


@given(items=st.one_of(pairs, coarse))
def test_repeating_every_pair_does_not_matter_where_noise_is_not_taken_out(items):
    p, y = split(items)
    p3, y3 = np.tile(p, 3), np.tile(y, 3)
    assert ks_calibration_error(p3, y3) == pytest.approx(ks_calibration_error(p, y), abs=1e-12)
    assert smooth_ece(p3, y3) == pytest.approx(smooth_ece(p, y), abs=5e-3)


@given(items=st.one_of(pairs, coarse), bins=st.integers(1, 20))
def test_bounds_between_them(items, bins):
    p, y = split(items)
    difference = abs(float(np.mean(p)) - float(np.mean(y)))
    with quietly():
        ece = expected_calibration_error(p, y, bins)
        assert difference - 1e-12 <= ece
        assert difference - 1e-12 <= ks_calibration_error(p, y)


def test_squared_error_is_the_mean_over_pairs_of_different_items():
    p, y = np.array([0.1, 0.2, 0.4, 0.8, 0.9]), np.array([0, 1, 0, 1, 0], dtype=bool)
    d = p - y
    low = (d[0] * d[1] + d[0] * d[2] + d[1] * d[2]) / 3
    high = d[3] * d[4]
    expected = math.sqrt(max((3 * low + 2 * high) / 5, 0.0))
    assert debiased_calibration_error(p, y, 2, "width") == pytest.approx(expected)


def test_an_item_alone_in_its_bin_counts_as_nothing():
    found = debiased_calibration_error([0.1, 0.1, 0.9], [True, True, False], 2, "width")
    assert found == pytest.approx(math.sqrt(2 * 0.81 / 3))
    with pytest.warns(CalibrationWarning, match="no bin holds 2 of the 2 items"):
        assert debiased_calibration_error([0.1, 0.9], [False, True], 2) == 0.0


def test_debiasing_leaves_a_real_error():
    rng = np.random.default_rng(2)
    # Always 0.3 too high, in two bins of 1000.
    p = np.repeat([0.5, 0.9], 1000)
    y = rng.random(2000) < p - 0.3
    assert debiased_calibration_error(p, y) == pytest.approx(0.3, abs=0.03)


def test_ks_by_hand():
    p = [0.2, 0.4, 0.4, 0.9]
    y = [True, False, True, True]
    # Cumulated differences -0.8, then with both of the 0.4 together -1.0, then -1.1.
    assert ks_calibration_error(p, y) == pytest.approx(1.1 / 4)
    assert ks_calibration_error([0.5, 0.5], [False, True]) == 0.0


def test_smooth_ece_agrees_with_its_authors_package():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports is deprecated here and there
        relplot = pytest.importorskip("relplot")
    rng = np.random.default_rng(3)
    cases = [([0.5], [True]), ([1.0], [False]), ([0.0, 1.0], [True, False]), ([0.3] * 50, [True] * 50)]
    for n in (2, 10, 100, 3000):
        for shape in ((0.2, 0.2), (1, 1), (5, 1)):
            p = rng.beta(*shape, n)
            cases += [(p, rng.random(n) < p), (np.round(p, 1), rng.random(n) < p**2)]
    for p, y in cases:
        theirs = relplot.smECE(np.array(p), np.array(y, dtype=float))
        assert smooth_ece(p, y) == pytest.approx(theirs, abs=1e-9)


def test_smooth_ece_has_no_edges():
    # A move across 0.5 turns ECE from 0 to 1/2, and nothing else.
    y = [True, False]
    below, above = [0.5, 0.5 - 1e-9], [0.5, 0.5]
    with quietly():
        jump = abs(expected_calibration_error(above, y, 2) - expected_calibration_error(below, y, 2))
    assert jump == pytest.approx(0.5, abs=1e-6)
    assert smooth_ece(below, y) == pytest.approx(smooth_ece(above, y), abs=1e-6)


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("p", "y"),
    [([], []), ([0.5], [True, False]), ([math.nan], [True]), ([1.1], [True]), ([0.5], [2]), ("a", "b")],
)
def test_what_cannot_be_measured_is_refused(metric, p, y):
    with pytest.raises(DataError):
        metric(p, y)


def test_unknown_options_are_refused():
    with pytest.raises(DataError, match="at least 1"):
        debiased_calibration_error([0.5], [True], 0)
    with pytest.raises(DataError, match="strategy"):
        debiased_calibration_error([0.5], [True], 10, "size")


@pytest.mark.parametrize("metric", [expected_calibration_error, debiased_calibration_error])
def test_a_single_bin_is_warned_of_with_n(metric):
    with pytest.warns(CalibrationWarning, match="all 30 confidences") as record:
        value = metric([0.55] * 30, [True] * 30)
    assert value == pytest.approx(0.45)
    assert record[0].filename == __file__


@pytest.mark.parametrize("metric", [auc, skill_score])
def test_one_class_is_warned_of_with_n(metric):
    with pytest.warns(CalibrationWarning, match="all 3 labels are of one class") as record:
        assert math.isnan(metric([0.1, 0.5, 0.9], [False] * 3))
    assert record[0].filename == __file__


def test_quiet_is_quiet_and_ends():
    with quietly():
        auc([0.5], [True])
    with pytest.warns(CalibrationWarning):
        auc([0.5], [True])
