"""Logistic curves: the penalised optimum of features, of labels of which some are wrong, and of groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.logistic import (
    OFFSET_SPREADS,
    fit_standardised,
    log_odds,
    maximise_posterior,
    noisy_loss,
    offsets_by_code,
    platt_targets,
    sigmoid,
)


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


NOISE = 0.02


def problem(seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A design, targets of which 5 % are flipped, and weights."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([5, 50, 500])), int(rng.choice([1, 3, 8]))
    design = np.column_stack((rng.normal(0.0, 2.0, (n, d)), np.ones(n)))
    right = rng.random(n) < sigmoid(design @ rng.normal(0.0, 1.0, d + 1))
    targets = np.where(rng.random(n) < 0.05, ~right, right).astype(np.float64)
    return design, targets, rng.uniform(0.1, 1.0, n)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_where_expectation_and_maximisation_ends(seed: int) -> None:
    """Dempster, Laird & Rubin 1977: an optimum of the likelihood is a fixed point."""
    design, targets, weights = problem(seed)
    d = design.shape[1]
    mean, precision = np.eye(d)[0], np.full(d, 4.0)
    found, _ = maximise_posterior(design, targets, weights, mean, precision, noise=NOISE)
    fits = np.where(targets > 0.0, sigmoid(design @ found), 1.0 - sigmoid(design @ found))
    genuine = (1.0 - NOISE) * fits / ((1.0 - NOISE) * fits + NOISE * (1.0 - fits))
    believed = np.where(targets > 0.0, genuine, 1.0 - genuine)
    again, _ = maximise_posterior(design, believed, weights, mean, precision)
    assert again == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("precision", [1e-2, 1.0, 1e3])
def test_where_it_starts_does_not_matter(seed: int, precision: float) -> None:
    design, targets, weights = problem(seed)
    d = design.shape[1]
    mean, precisions = np.zeros(d), np.full(d, precision)
    found, least = maximise_posterior(design, targets, weights, mean, precisions)
    for start in (*np.random.default_rng(seed).normal(0.0, 3.0, (4, d)), found):
        again, as_little = maximise_posterior(design, targets, weights, mean, precisions, start=start)
        assert again == pytest.approx(found, rel=1e-11, abs=1e-12)
        assert as_little == pytest.approx(least)


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_the_derivative_is_that_of_the_loss(target: float) -> None:
    z = np.linspace(-40.0, 40.0, 401)
    targets = np.full(z.size, target)
    loss, slope, curvature = noisy_loss(z, targets, NOISE)
    assert np.gradient(loss, z)[1:-1] == pytest.approx(slope[1:-1], abs=2e-3)
    assert (curvature >= 0.0).all()
    assert loss.max() <= -np.log(NOISE) + 1e-9, "one label costs no more, however sure the model was"


def simulated(sizes, offsets, seed=0):
    """Log-odds by a curve that is right but for the groups' offsets, labels, and the groups' codes."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    z = 0.7 * log_odds(rng.beta(5, 1.2, groups.size)) - 0.5
    return z, rng.random(groups.size) < sigmoid(z + np.array(offsets)[groups]), groups


def fitted(z, correct, groups, count, spreads=OFFSET_SPREADS):
    return offsets_by_code(z, correct, np.ones(z.size), groups, count, spreads)


def test_a_group_without_data_has_no_offset():
    z, correct, groups = simulated([200, 200], [-1.0, 1.0])
    assert fitted(z, correct, groups, 3)[2] == 0.0
    weights = np.where(groups == 1, 0.0, 1.0)
    assert offsets_by_code(z, correct, weights, groups, 2)[1] == 0.0


def test_each_spread_counts_by_the_probability_of_the_labels_under_it():
    z, correct, groups = simulated([60], [0.8])
    spreads = (0.25, 2.0)

    def likelihood(offset):
        return np.prod(sigmoid(np.where(correct, 1, -1) * (z + offset)))

    evidence = [quad(lambda o, s=s: likelihood(o) * norm.pdf(o, 0, s), -6, 6)[0] for s in spreads]
    alone = [fitted(z, correct, groups, 1, spreads=(s,))[0] for s in spreads]
    expected = np.average(alone, weights=evidence)
    assert fitted(z, correct, groups, 1, spreads)[0] == pytest.approx(expected, abs=0.01)
    assert alone[0] + 0.05 < expected < alone[1] - 0.05


def test_it_beats_both_ignoring_groups_and_fitting_each():
    """Log loss against the truth, over worlds whose groups differ by 0.7 and have 4 to 60 labels."""
    sizes = [4, 8, 15, 30, 60, 60]
    losses = np.zeros(3)
    for seed in range(60):
        offsets = np.random.default_rng(1000 + seed).normal(0.0, 0.7, len(sizes))
        world = simulated(sizes, offsets, seed=seed)
        ours = fitted(*world, len(sizes))
        own = fitted(*world, len(sizes), spreads=(1e3,))
        points = 0.7 * log_odds(np.linspace(0.4, 0.98, 20))[:, None] - 0.5
        truth = sigmoid(points + offsets)
        for k, found in enumerate((ours, np.zeros(len(sizes)), np.clip(own, -30.0, 30.0))):
            p = sigmoid(points + found)
            losses[k] += np.mean(-truth * np.log(p) - (1 - truth) * np.log1p(-p))
    assert losses[0] < min(losses[1], losses[2])


labels = st.lists(st.tuples(st.floats(-13.0, 13.0), st.booleans(), st.integers(0, 3)), max_size=30)


def of(items, weight=1.0):
    z = np.array([item[0] for item in items], dtype=np.float64)
    correct = np.array([item[1] for item in items], dtype=np.bool_)
    groups = np.array([item[2] for item in items], dtype=np.intp)
    return offsets_by_code(z, correct, np.full(z.size, weight), groups, 4)


def test_the_offset_of_one_spread_is_the_ridge_estimate():
    """With a single spread the offsets are those of a penalised logistic regression on group indicators."""
    from scipy.optimize import minimize

    z, correct, groups = simulated([15, 25], [0.0, 0.8])

    def loss(offsets):
        at = z + offsets[groups]
        return np.sum(np.logaddexp(0.0, at) - correct * at) + np.sum(offsets**2) / (2 * 0.25)

    assert fitted(z, correct, groups, 2, spreads=(0.5,)) == pytest.approx(
        minimize(loss, np.zeros(2), tol=1e-12).x, abs=1e-5
    )
