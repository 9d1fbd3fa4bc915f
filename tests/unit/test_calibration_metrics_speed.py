"""Metrics and fits on a million pairs; run by `make test-long`."""

import numpy as np
import pytest
import sklearn.metrics as sk
from sklearn.linear_model import LogisticRegression
from yardstick import loops, seconds

from lsp_calib.calibration.logistic import PlattCalibrator, log_odds
from lsp_calib.calibration.other_curves import IsotonicCalibrator
from lsp_calib.calibration.reliability import reliability, risk_coverage
from lsp_calib.calibration.scores import (
    auc,
    brier_score,
    debiased_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    log_loss,
    skill_score,
    smooth_ece,
)

pytestmark = pytest.mark.long

METRICS = {
    "Brier": brier_score,
    "skill": skill_score,
    "log loss": log_loss,
    "AUC": auc,
    "ECE": expected_calibration_error,
    "ECE by mass": lambda p, y: expected_calibration_error(p, y, 10, "mass"),
    "debiased": debiased_calibration_error,
    "KS": ks_calibration_error,
    "smooth ECE": smooth_ece,
    "reliability": reliability,
    "risk-coverage": risk_coverage,
}
SCIKIT_LEARN = {
    "Brier": lambda p, y: sk.brier_score_loss(y, p),
    "log loss": lambda p, y: sk.log_loss(y, p),
    "AUC": lambda p, y: sk.roc_auc_score(y, p),
}


@pytest.fixture(scope="module")
def million():
    rng = np.random.default_rng(0)
    p = rng.beta(2, 1, 1_000_000)
    return p, rng.random(p.size) < p


@pytest.mark.parametrize("name", METRICS)
def test_a_million_pairs_take_less_than_a_second(name, million):
    took = loops(lambda: METRICS[name](*million))
    print(f"{name}: {took:.0f} loops")
    assert took < 2000


@pytest.mark.parametrize("name", SCIKIT_LEARN)
def test_not_slower_than_scikit_learn(name, million):
    theirs = seconds(lambda: SCIKIT_LEARN[name](*million))
    assert seconds(lambda: METRICS[name](*million)) < 1.2 * theirs


def test_a_million_labels_take_a_second_or_two(million):
    assert loops(lambda: PlattCalibrator.fit(*million)) < 2000
    assert loops(lambda: IsotonicCalibrator.fit(*million)) < 2000


def test_a_hundred_labels_take_a_millisecond_or_less(million):
    p, y = million
    assert loops(lambda: PlattCalibrator.fit(p[:100], y[:100]), 100) < 2.0


@pytest.mark.parametrize("n", [100, 100_000])
def test_a_fit_is_no_slower_than_scikit_learns_logistic_regression(n, million):
    raw, correct = (one[:n] for one in million)
    x = log_odds(raw)[:, None]
    repeats = max(1, 1000 // n)
    theirs = seconds(lambda: LogisticRegression(C=np.inf).fit(x, correct), repeats)
    assert seconds(lambda: PlattCalibrator.fit(raw, correct), repeats) < 1.5 * theirs
