"""Platt scaling and logistic curves: the maximum they claim to find, under all data, noise and groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.calibrators.promotion import OnlinePlatt
from lsp_calib.calibration.logistic import (
    LOOSE_PRIOR,
    OFFSET_SPREADS,
    PlattCalibrator,
    Prior,
    fit_standardised,
    log_odds,
    maximise_posterior,
    noisy_loss,
    offsets_by_code,
    platt_targets,
    sigmoid,
)
from lsp_calib.errors import DataError

# With targets="plain": maximum likelihood.
FLAT_PRIOR = Prior(0.0, 0.0, slope_sd=1e6, intercept_sd=1e6)
probability = st.floats(0.0, 1.0)
pairs = st.lists(st.tuples(probability, st.booleans()), max_size=40)


def split(items):
    return np.array([p for p, _ in items], dtype=float), np.array([y for _, y in items], dtype=bool)


def simulated(n, slope=0.7, intercept=-1.8, seed=0):
    rng = np.random.default_rng(seed)
    raw = rng.beta(5, 1.2, n)
    return raw, rng.random(n) < sigmoid(slope * log_odds(raw) + intercept)


def test_without_a_prior_it_is_scikit_learns_sigmoid():
    raw, correct = simulated(400)
    ours = PlattCalibrator.fit(raw, correct, prior=FLAT_PRIOR)
    theirs = _SigmoidCalibration().fit(log_odds(raw), correct.astype(float))
    assert ours.predict(raw) == pytest.approx(theirs.predict(log_odds(raw)), abs=1e-4)  # its tolerance


def test_without_a_prior_and_with_plain_targets_it_is_an_unpenalised_logistic_regression():
    raw, correct = simulated(400)
    ours = PlattCalibrator.fit(raw, correct, prior=FLAT_PRIOR, targets="plain")
    theirs = LogisticRegression(C=math.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    theirs.fit(log_odds(raw)[:, None], correct)
    assert ours.slope == pytest.approx(theirs.coef_[0, 0], rel=1e-6)
    assert ours.predict(raw) == pytest.approx(theirs.predict_proba(log_odds(raw)[:, None])[:, 1], abs=1e-9)


@settings(deadline=None)
@given(items=pairs, targets=st.sampled_from(["platt", "plain"]))
def test_the_fit_is_the_maximum_of_the_posterior(items, targets):
    raw, correct = split(items)
    prior = Prior(0.8, -1.0, 0.5, 1.5)
    fitted = PlattCalibrator.fit(raw, correct, prior=prior, targets=targets)
    positive, negative = correct.sum(), (~correct).sum()
    t = np.where(correct, (positive + 1) / (positive + 2), 1 / (negative + 2))
    t = t if targets == "platt" else correct
    residual = sigmoid(fitted.slope * log_odds(raw) + fitted.intercept) - t
    # Both components of the gradient of a strictly convex function vanish at its minimum alone.
    assert residual @ log_odds(raw) + (fitted.slope - 0.8) / 0.25 == pytest.approx(0.0, abs=1e-6)
    assert residual.sum() + (fitted.intercept + 1.0) / 2.25 == pytest.approx(0.0, abs=1e-6)


def test_without_labels_the_prior_speaks():
    prior = Prior(0.9, -2.5, 0.1, 0.2)
    assert PlattCalibrator.fit([], [], prior=prior) == PlattCalibrator(0.9, -2.5)
    assert PlattCalibrator.fit([0.3], [True], weights=[0.0], prior=prior) == PlattCalibrator(0.9, -2.5)


@pytest.mark.parametrize("prior", [LOOSE_PRIOR, FLAT_PRIOR])
@pytest.mark.parametrize("targets", ["platt", "plain"])
@pytest.mark.parametrize(
    ("raw", "correct"),
    [
        ([0.9] * 6, [True] * 6),
        ([0.2, 0.9], [False, False]),
        ([0.1, 0.2, 0.8, 0.9], [False, False, True, True]),
        ([0.1, 0.2, 0.8, 0.9], [True, True, False, False]),
        ([0.0, 1.0, 1.0, 0.0], [False, True, False, True]),
        ([0.5, 0.5 + 1e-12], [False, True]),
        ([0.7] * 5, [True, False, True, True, False]),
        ([0.0], [True]),
    ],
)
def test_degenerate_data_give_finite_numbers(raw, correct, prior, targets):
    fitted = PlattCalibrator.fit(raw, correct, prior=prior, targets=targets)
    p = fitted.predict(np.linspace(0.0, 1.0, 11))
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert math.isfinite(fitted.slope)
    assert math.isfinite(fitted.intercept)


def test_a_prior_is_better_than_none_where_labels_are_few():
    def excess(prior, targets):
        raw, _ = simulated(4000, seed=99)
        truth = sigmoid(0.7 * log_odds(raw) - 1.8)
        losses = []
        for seed in range(200):
            p = PlattCalibrator.fit(*simulated(10, seed=seed), prior=prior, targets=targets).predict(raw)
            p = np.clip(p, 1e-12, 1 - 1e-12)
            losses.append(np.mean(-truth * np.log(p / truth) - (1 - truth) * np.log((1 - p) / (1 - truth))))
        return float(np.mean(losses))

    assert excess(LOOSE_PRIOR, "platt") < 0.05
    assert excess(FLAT_PRIOR, "plain") > 5 * 0.05


@settings(deadline=None)
@given(items=pairs, data=st.data())
def test_order_does_not_matter_and_weight_is_repetition(items, data):
    raw, correct = split(items)
    fitted = PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR)
    shuffled = PlattCalibrator.fit(*split(data.draw(st.permutations(items))), prior=LOOSE_PRIOR)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(items), max_size=len(items))), int)
    weighted = PlattCalibrator.fit(raw, correct, weights=weights, prior=LOOSE_PRIOR)
    repeated = PlattCalibrator.fit(np.repeat(raw, weights), np.repeat(correct, weights), prior=LOOSE_PRIOR)
    for a, b in ((fitted, shuffled), (weighted, repeated)):
        assert a.slope == pytest.approx(b.slope, abs=1e-7)
        assert a.intercept == pytest.approx(b.intercept, abs=1e-7)


@pytest.mark.parametrize("bad", [math.nan, -0.01, 1.01, math.inf])
def test_impossible_scores_are_refused(bad):
    with pytest.raises(DataError):
        PlattCalibrator(1.0, 0.0).predict(bad)
    with pytest.raises(DataError):
        PlattCalibrator.fit([bad], [True], prior=LOOSE_PRIOR)


def test_impossible_parameters_are_refused():
    for bad in (math.nan, math.inf):
        with pytest.raises(DataError):
            PlattCalibrator(bad, 0.0)
        with pytest.raises(DataError):
            Prior(1.0, bad, 1.0, 1.0)
    for sd in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(DataError):
            Prior(1.0, 0.0, sd, 1.0)
    for weights in ([-1.0], [math.nan], [1.0, 1.0]):
        with pytest.raises(DataError, match="weights"):
            PlattCalibrator.fit([0.5], [True], prior=LOOSE_PRIOR, weights=weights)
    with pytest.raises(DataError, match="targets"):
        PlattCalibrator.fit([0.5], [True], prior=LOOSE_PRIOR, targets="smooth")


def after(state, raw, correct):
    for p, y in zip(raw, correct, strict=True):
        state = state.update(p, y)
    return state


def test_without_forgetting_it_is_the_fit_of_all_labels():
    raw, correct = simulated(2000)
    online = after(OnlinePlatt.start(memory=1e12), raw, correct)
    batch = PlattCalibrator.fit(raw, correct, prior=LOOSE_PRIOR, targets="plain")
    assert online.slope == pytest.approx(batch.slope, abs=0.03)
    assert online.intercept == pytest.approx(batch.intercept, abs=0.06)


def test_with_forgetting_it_is_about_the_fit_with_fading_weights():
    raw, correct = simulated(1500, seed=1)
    online = after(OnlinePlatt.start(memory=200), raw, correct)
    weights = (1.0 - 1.0 / 200) ** np.arange(1500)[::-1]
    batch = PlattCalibrator.fit(raw, correct, weights=weights, prior=LOOSE_PRIOR, targets="plain")
    grid = np.linspace(0.2, 0.99, 20)
    assert online.predict(grid) == pytest.approx(batch.predict(grid), abs=0.05)


@settings(deadline=None)
@given(items=pairs, memory=st.floats(1.01, 1e6))
def test_any_labels_give_finite_numbers_and_probabilities(items, memory):
    state = OnlinePlatt.start(memory=memory)
    for p, y in items:
        state = state.update(p, y)
    assert np.isfinite(state.slope)
    assert np.isfinite(state.intercept)
    h00, h01, h11 = state.precision
    assert h00 > 0.0
    assert h00 * h11 > h01 * h01
    answer = state.predict(np.linspace(0.0, 1.0, 11))
    assert np.all((answer >= 0.0) & (answer <= 1.0))


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
    nothing = np.zeros((0, 3)), np.zeros(0, bool), np.zeros(0)
    coefficients, intercept, _, scales = fit_standardised(*nothing, 1.0)
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


def by_groups(sizes, offsets, seed=0):
    """Log-odds by a curve that is right but for the groups' offsets, labels, and the groups' codes."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    z = 0.7 * log_odds(rng.beta(5, 1.2, groups.size)) - 0.5
    return z, rng.random(groups.size) < sigmoid(z + np.array(offsets)[groups]), groups


def offsets_of(z, correct, groups, count, spreads=OFFSET_SPREADS):
    return offsets_by_code(z, correct, np.ones(z.size), groups, count, spreads)


def test_a_group_without_data_has_no_offset():
    z, correct, groups = by_groups([200, 200], [-1.0, 1.0])
    assert offsets_of(z, correct, groups, 3)[2] == 0.0
    weights = np.where(groups == 1, 0.0, 1.0)
    assert offsets_by_code(z, correct, weights, groups, 2)[1] == 0.0


def test_each_spread_counts_by_the_probability_of_the_labels_under_it():
    z, correct, groups = by_groups([60], [0.8])
    spreads = (0.25, 2.0)

    def likelihood(offset):
        return np.prod(sigmoid(np.where(correct, 1, -1) * (z + offset)))

    evidence = [quad(lambda o, s=s: likelihood(o) * norm.pdf(o, 0, s), -6, 6)[0] for s in spreads]
    alone = [offsets_of(z, correct, groups, 1, spreads=(s,))[0] for s in spreads]
    expected = np.average(alone, weights=evidence)
    assert offsets_of(z, correct, groups, 1, spreads)[0] == pytest.approx(expected, abs=0.01)
    assert alone[0] + 0.05 < expected < alone[1] - 0.05


def test_it_beats_both_ignoring_groups_and_fitting_each():
    """Log loss against the truth, over worlds whose groups differ by 0.7 and have 4 to 60 labels."""
    sizes = [4, 8, 15, 30, 60, 60]
    losses = np.zeros(3)
    for seed in range(60):
        offsets = np.random.default_rng(1000 + seed).normal(0.0, 0.7, len(sizes))
        world = by_groups(sizes, offsets, seed=seed)
        ours = offsets_of(*world, len(sizes))
        own = offsets_of(*world, len(sizes), spreads=(1e3,))
        points = 0.7 * log_odds(np.linspace(0.4, 0.98, 20))[:, None] - 0.5
        truth = sigmoid(points + offsets)
        for k, found in enumerate((ours, np.zeros(len(sizes)), np.clip(own, -30.0, 30.0))):
            p = sigmoid(points + found)
            losses[k] += np.mean(-truth * np.log(p) - (1 - truth) * np.log1p(-p))
    assert losses[0] < min(losses[1], losses[2])


def test_the_offset_of_one_spread_is_the_ridge_estimate():
    """With a single spread the offsets are those of a penalised logistic regression on group indicators."""
    z, correct, groups = by_groups([15, 25], [0.0, 0.8])

    def loss(offsets):
        at = z + offsets[groups]
        return np.sum(np.logaddexp(0.0, at) - correct * at) + np.sum(offsets**2) / (2 * 0.25)

    least = minimize(loss, np.zeros(2), tol=1e-12).x
    assert offsets_of(z, correct, groups, 2, spreads=(0.5,)) == pytest.approx(least, abs=1e-5)
