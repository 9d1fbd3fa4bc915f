"""Several features: the penalised optimum."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.logistic import fit_standardised, platt_targets, sigmoid


def test_it_is_scikit_learns_with_the_same_penalty():
    """On smoothed targets, written as each label given twice with the weights of its two classes."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 3)) * 3.0 + 5.0
    correct = rng.random(300) < sigmoid(0.5 * (table[:, 0] - 5.0) - 0.3 * (table[:, 1] - 5.0) - 0.5)
    coefficients, intercept, means, scales = fit_standardised(table, correct, np.ones(300), 0.3)
    targets = platt_targets(correct, np.ones(300))
    scaled = (table - table.mean(axis=0)) / table.std(axis=0)
    # Its intercept is free, ours has a standard deviation of 10 nats: the same to four digits.
    theirs = LogisticRegression(C=0.3**2, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    theirs.fit(
        np.vstack((scaled, scaled)), np.repeat([1, 0], 300), sample_weight=np.append(targets, 1 - targets)
    )
    ours = sigmoid((table - means) / scales @ coefficients + intercept)
    assert ours == pytest.approx(theirs.predict_proba(scaled)[:, 1], abs=1e-4)


def test_nothing_to_learn_from_gives_a_half():
    coefficients, intercept, _, scales = fit_standardised(
        np.zeros((0, 3)), np.zeros(0, bool), np.zeros(0), 1.0
    )
    assert not coefficients.any()
    assert intercept == 0.0
    assert scales.tolist() == [1.0] * 3


def test_a_constant_feature_weighs_nothing():
    coefficients, _, _, scales = fit_standardised(np.full((10, 1), 3.0), np.arange(10) < 5, np.ones(10), 1.0)
    assert coefficients == pytest.approx([0.0])
    assert scales.tolist() == [1.0]
