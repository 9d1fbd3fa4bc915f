"""Fits on labels of which some are wrong: the same as expectation and maximisation would give, in the end."""

from __future__ import annotations

import numpy as np
import pytest

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.logistic import maximise_posterior, noisy_loss, sigmoid

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
def test_the_order_of_the_labels_does_not_matter(seed: int, precision: float) -> None:
    """Sums that are rounded in another way, as by another processor, give the same coefficients."""
    design, targets, weights = problem(seed)
    mean, precisions = np.zeros(design.shape[1]), np.full(design.shape[1], precision)
    found, _ = maximise_posterior(design, targets, weights, mean, precisions)
    for order in range(5):
        rows = np.random.default_rng(order).permutation(targets.size)
        again, _ = maximise_posterior(design[rows], targets[rows], weights[rows], mean, precisions)
        assert again == pytest.approx(found, rel=1e-11, abs=1e-12)


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
