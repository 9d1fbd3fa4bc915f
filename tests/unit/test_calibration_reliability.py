"""Reliability diagrams by hand, whether intervals and bands cover, and limits for several subsets at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lsp_calib.calibration.arrays import CalibrationWarning, quietly
from lsp_calib.calibration.binomial import least_rate, lower_tail
from lsp_calib.calibration.reliability import reliability, wilson_interval
from lsp_calib.calibration.scores import expected_calibration_error
from lsp_calib.errors import DataError
from lsp_calib.studies.statistics import simultaneous_errors


def simulated(n, seed, power=1.0):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, n)
    return p, rng.random(n) < p**power


def test_bins_by_hand():
    p = [0.0, 0.1, 0.15, 0.9, 1.0]
    data = reliability(p, [False, True, False, True, True], bins=10)
    assert (data.n, data.n_correct) == (5, 3)
    assert [item.n for item in data.bins] == [1, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert [(item.lower, item.upper) for item in data.bins][1] == (0.1, 0.2)
    second = data.bins[1]
    assert (second.confidence, second.accuracy) == (pytest.approx(0.125), 0.5)
    assert (second.low, second.high) == wilson_interval(1, 2)
    empty = data.bins[2]
    assert (empty.confidence, empty.accuracy, empty.low, empty.band_low) == (None, None, None, None)


def test_quantile_points():
    p, y = simulated(1000, 0)
    data = reliability(p, y)
    assert data.points[0].lower == p.min()
    assert data.points[-1].upper == p.max()
    assert [item.n for item in data.points] == [200] * 5
    assert all(item.lower <= item.confidence <= item.upper for item in data.points)


def test_the_band_of_many_items_is_the_normal_one():
    # 20,000 items in one bin are drawn in groups: the spread must still be that of 20,000 single ones.
    p, y = simulated(20_000, 2)
    with pytest.warns(CalibrationWarning):
        bar = reliability(p, y, bins=1, resamples=4000).bins[0]
    half = 1.96 * math.sqrt(np.sum(p * (1 - p))) / p.size
    assert bar.band_low == pytest.approx(p.mean() - half, abs=half / 10)
    assert bar.band_high == pytest.approx(p.mean() + half, abs=half / 10)


def test_wilson_ends():
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(10, 10)[1] == 1.0
    # Agresti & Coull 1998: 0 of 10 gives up to z^2 / (n + z^2).
    assert wilson_interval(0, 10)[1] == pytest.approx(1.959964**2 / (10 + 1.959964**2), abs=1e-6)
    for arguments in ((-1, 3), (4, 3), (1, 3, 0.0), (1, 3, 1.0)):
        with pytest.raises(DataError):
            wilson_interval(*arguments)


def test_what_cannot_be_measured_is_refused_or_warned_of():
    for options in ({"bins": 0}, {"resamples": 0}):
        with pytest.raises(DataError):
            reliability([0.5, 0.9], [True, False], **options)
    with pytest.raises(DataError):
        reliability([], [])
    with pytest.warns(CalibrationWarning, match="all 4 confidences"):
        reliability([0.5] * 4, [True, False] * 2)
    with pytest.warns(CalibrationWarning, match="2 labels are of one class"):
        reliability([0.1, 0.9], [True, True])


RNG = np.random.default_rng(5)
P = RNG.uniform(size=400)
SUBSETS = {"all": np.ones(400, np.bool_), **{name: np.arange(400) % 4 == k for k, name in enumerate("abcd")}}


def test_the_errors_are_those_of_the_metric_on_each_subset() -> None:
    y = RNG.random(400) < P
    found = simultaneous_errors(P, y, SUBSETS, resamples=50)
    for name, mask in SUBSETS.items():
        assert found[name].value == pytest.approx(expected_calibration_error(P[mask], y[mask]))
        assert found[name].n == mask.sum()


def test_calibrated_scores_stay_within_all_limits_as_often_as_promised() -> None:
    """Of draws from the confidences themselves, 95 % lie inside everywhere."""
    rng = np.random.default_rng(11)
    with quietly():
        draws = (
            simultaneous_errors(P, rng.random(400) < P, SUBSETS, resamples=150, seed=draw).values()
            for draw in range(200)
        )
        inside = [all(error.inside for error in errors) for errors in draws]
    # Three standard errors of a share of 0.95 in 200 draws are 0.046.
    assert np.mean(inside) == pytest.approx(0.95, abs=0.046)


def test_one_subset_that_is_off_is_outside_and_the_others_are_not() -> None:
    rng = np.random.default_rng(3)
    truth = np.where(SUBSETS["b"], 0.3 * P, P)
    found = simultaneous_errors(P, rng.random(400) < truth, SUBSETS)
    assert not found["b"].inside
    assert all(found[name].inside for name in "acd")


def test_the_least_rate_is_the_edge_of_the_exact_test() -> None:
    for right, n in ((1, 1), (22, 22), (30, 40), (1, 50)):
        rate = least_rate(right, n)
        # The probability of at least so many.
        assert 1 - float(lower_tail(right - 1, n, rate)) == pytest.approx(0.05, abs=1e-9)
    assert least_rate(0, 10) == 0.0
    assert least_rate(0, 0) == 0.0
    for right, n, level in ((3, 2, 0.9), (-1, 2, 0.9), (1, 2, 1.0)):
        with pytest.raises(DataError):
            least_rate(right, n, level)
