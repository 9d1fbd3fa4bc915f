"""Platt scaling on a million labels and on a hundred; run by `make test-long`."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from yardstick import loops, seconds

from lsp_calib.calibration.logistic import PlattCalibrator, log_odds, sigmoid
from lsp_calib.calibration.other_curves import IsotonicCalibrator

pytestmark = pytest.mark.long


def simulated(n):
    rng = np.random.default_rng(0)
    raw = rng.beta(5, 1.2, n)
    return raw, rng.random(n) < sigmoid(0.7 * log_odds(raw) - 1.8)


def test_a_million_labels_take_a_second_or_two():
    raw, correct = simulated(1_000_000)
    assert loops(lambda: PlattCalibrator.fit(raw, correct)) < 2000


def test_a_hundred_labels_take_a_millisecond_or_less():
    raw, correct = simulated(100)
    assert loops(lambda: PlattCalibrator.fit(raw, correct), 100) < 2.0


@pytest.mark.parametrize("n", [100, 100_000])
def test_it_is_no_slower_than_scikit_learns_logistic_regression(n):
    raw, correct = simulated(n)
    x = log_odds(raw)[:, None]
    repeats = max(1, 1000 // n)
    theirs = seconds(lambda: LogisticRegression(C=np.inf).fit(x, correct), repeats)
    assert seconds(lambda: PlattCalibrator.fit(raw, correct), repeats) < 1.5 * theirs


def test_isotonic_on_a_million_labels_takes_seconds():
    raw, correct = simulated(1_000_000)
    assert loops(lambda: IsotonicCalibrator.fit(raw, correct)) < 2000
