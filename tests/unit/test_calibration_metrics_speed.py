"""Metrics on a million pairs, and Full-ECE over a vocabulary; run by `make test-long`."""

import numpy as np
import pytest
import sklearn.metrics as sk
from yardstick import loops, seconds

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
from lsp_calib.calibration.token_level import ClasswiseECE, FullECE

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


@pytest.mark.parametrize("kind", [FullECE, ClasswiseECE])
def test_whole_distributions_at_a_few_nanoseconds_an_entry(kind):
    # At 4 ns, 100,000 positions of 150,000 tokens take a minute.
    rng = np.random.default_rng(1)
    p = rng.exponential(size=(40, 150_000)).astype(np.float32) ** 4
    p /= p.sum(axis=1, keepdims=True)
    targets = rng.integers(p.shape[1], size=p.shape[0])
    metric = kind(10)
    metric.update(p, targets)
    took = loops(lambda: metric.update(p, targets)) / p.size * 1e6
    print(f"{kind.__name__}: {took:.2f} loops a million entries")
    assert took < 10.0
