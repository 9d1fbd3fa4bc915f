"""Offsets of groups: none without data, their own fit with plenty, in between by the labels' spread."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from lsp_calib.calibration.logistic import OFFSET_SPREADS, log_odds, offsets_by_code, sigmoid


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


def test_groups_that_do_not_differ_are_left_alone():
    moved = [np.abs(fitted(*simulated([60] * 10, [0.0] * 10, seed=seed), 10)) for seed in range(20)]
    assert np.mean(moved) < 0.08  # the groups' own fits are 0.28 off


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


@settings(deadline=None)
@given(items=labels, data=st.data())
def test_order_does_not_matter_and_weight_is_repetition(items, data):
    assert of(data.draw(st.permutations(items))) == pytest.approx(of(items), abs=1e-7)
    assert of(items + items) == pytest.approx(of(items, 2.0), abs=1e-7)


@settings(deadline=None)
@given(items=labels)
def test_each_offset_is_finite_and_between_zero_and_its_groups_labels(items):
    for group, offset in enumerate(of(items)):
        correct = {y for _, y, code in items if code == group}
        assert abs(offset) < 20.0
        assert correct != {True} or offset >= 0.0
        assert correct != {False} or offset <= 0.0


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
