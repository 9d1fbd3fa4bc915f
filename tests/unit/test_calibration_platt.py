"""Platt scaling: the maximum it claims to find, under every kind of data; and label by label."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.calibrators.promotion import OnlinePlatt
from lsp_calib.calibration.logistic import (
    LOOSE_PRIOR,
    PlattCalibrator,
    Prior,
    log_odds,
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
