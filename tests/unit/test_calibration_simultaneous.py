"""Errors of several subsets with limits that hold for all of them at once."""

from __future__ import annotations

import numpy as np
import pytest

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.binomial import least_rate, lower_tail
from lsp_calib.calibration.scores import expected_calibration_error
from lsp_calib.errors import DataError
from lsp_calib.studies.statistics import simultaneous_errors

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
