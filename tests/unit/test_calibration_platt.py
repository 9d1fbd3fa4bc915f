"""Platt scaling: the maximum it claims to find, under every kind of data; and label by label."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.calibrators.promotion import OnlinePlatt, _solve
from lsp_calib.calibration.logistic import (
    DEFAULT_PRIOR,
    FLAT_PRIOR,
    LOOSE_PRIOR,
    PlattCalibrator,
    Prior,
    log_odds,
    sigmoid,
)
from lsp_calib.errors import DataError

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


@pytest.mark.parametrize(
    ("kind", "design"),
    [("log-odds", log_odds), ("log-p", np.log), ("p", lambda raw: raw)],
)
def test_the_papers_rows_are_unpenalised_logistic_regressions(kind, design):
    raw, correct = simulated(400)
    ours = PlattCalibrator.maximum_likelihood(raw, correct, input=kind)
    theirs = LogisticRegression(C=math.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    theirs.fit(design(raw)[:, None], correct)
    assert ours.slope == pytest.approx(theirs.coef_[0, 0], rel=1e-6)
    assert ours.predict(raw) == pytest.approx(theirs.predict_proba(design(raw)[:, None])[:, 1], abs=1e-9)
    assert ours.input == kind


@pytest.mark.parametrize("kind", ["log-odds", "log-p", "p"])
def test_scores_of_zero_and_one_do_not_break_any_input(kind):
    fitted = PlattCalibrator.maximum_likelihood([0.0, 1.0, 0.0, 1.0], [True, True, False, False], input=kind)
    assert np.all(np.isfinite(fitted.predict(np.array([0.0, 0.5, 1.0]))))


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


@pytest.mark.parametrize("prior", [DEFAULT_PRIOR, LOOSE_PRIOR, FLAT_PRIOR])
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


def test_few_labels_move_it_little_and_many_a_lot():
    ends = []
    for n in (0, 5, 50, 5000):
        fits = [PlattCalibrator.fit(*simulated(n, seed=s), prior=LOOSE_PRIOR).predict(0.9) for s in range(30)]
        ends.append(float(np.mean(fits)))
    truth = float(sigmoid(0.7 * log_odds(0.9) - 1.8))
    distances = [abs(end - truth) for end in ends]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.4
    assert distances[1] < 0.25
    assert distances[3] < 0.01


def test_the_default_prior_is_better_than_none_where_labels_are_few():
    def excess(prior, targets):
        raw, _ = simulated(4000, seed=99)
        truth = sigmoid(0.7 * log_odds(raw) - 1.8)
        losses = []
        for seed in range(200):
            p = PlattCalibrator.fit(*simulated(10, seed=seed), prior=prior, targets=targets).predict(raw)
            p = np.clip(p, 1e-12, 1 - 1e-12)
            losses.append(np.mean(-truth * np.log(p / truth) - (1 - truth) * np.log((1 - p) / (1 - truth))))
        return float(np.mean(losses))

    assert excess(DEFAULT_PRIOR, "platt") < 0.08
    assert excess(LOOSE_PRIOR, "platt") < 0.05
    assert excess(FLAT_PRIOR, "plain") > 5 * excess(DEFAULT_PRIOR, "platt")


def test_trust_averages_the_means_with_the_fit_by_their_likelihoods():
    raw, correct = np.array([0.9, 0.8, 0.7]), np.array([True, False, True])
    gaussian = Prior(1.0, 0.0, 0.7, 2.5)
    fit = PlattCalibrator.fit(raw, correct, prior=gaussian)
    likelihood = [
        np.prod(np.where(correct, p, 1 - p)) for p in (raw, fit.predict(raw))
    ]  # of the means, which are the identity, and of the fit
    odds = 4.0 * math.exp(-3 / 10) * likelihood[0] / likelihood[1]
    trusting = PlattCalibrator.fit(raw, correct, prior=Prior(1.0, 0.0, 0.7, 2.5, trust=4.0, fade=10.0))
    assert trusting.slope == pytest.approx((odds + fit.slope) / (odds + 1), abs=1e-9)
    assert trusting.intercept == pytest.approx(fit.intercept / (odds + 1), abs=1e-9)


def test_trust_keeps_what_is_right_and_gives_way_to_labels_that_say_otherwise():
    def mean_distance(raw_is_right, n):
        moved = []
        for seed in range(40):
            raw, correct = simulated(n, *((1.0, 0.0) if raw_is_right else (0.7, -1.8)), seed=seed)
            moved.append(abs(PlattCalibrator.fit(raw, correct).intercept))
        return float(np.mean(moved))

    assert mean_distance(True, 10) < 0.25
    assert mean_distance(False, 50) > 1.4


@settings(deadline=None)
@given(items=pairs, data=st.data())
def test_order_does_not_matter_and_weight_is_repetition(items, data):
    raw, correct = split(items)
    fitted = PlattCalibrator.fit(raw, correct)
    shuffled = PlattCalibrator.fit(*split(data.draw(st.permutations(items))))
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(items), max_size=len(items))), int)
    weighted = PlattCalibrator.fit(raw, correct, weights=weights)
    repeated = PlattCalibrator.fit(np.repeat(raw, weights), np.repeat(correct, weights))
    for a, b in ((fitted, shuffled), (weighted, repeated)):
        assert a.slope == pytest.approx(b.slope, abs=1e-7)
        assert a.intercept == pytest.approx(b.intercept, abs=1e-7)


@given(
    raw=st.lists(probability, min_size=2, max_size=30),
    slope=st.floats(0.0, 50.0),
    intercept=st.floats(-50.0, 50.0),
)
def test_predictions_are_probabilities_in_the_order_of_the_scores(raw, slope, intercept):
    p = PlattCalibrator(slope, intercept).predict(np.sort(raw))
    assert p.dtype == np.float64
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert np.all(np.diff(p) >= -1e-12)


def test_a_number_gives_a_number_and_an_array_its_shape():
    identity = PlattCalibrator(1.0, 0.0)
    assert type(identity.predict(0.25)) is float
    assert identity.predict(0.25) == pytest.approx(0.25, abs=1e-12)
    assert identity.predict(np.full((2, 3), 0.25)).shape == (2, 3)
    assert identity.predict(np.array([])).shape == (0,)


def test_clipping_keeps_the_ends_apart_from_certainty():
    assert PlattCalibrator(1.0, 0.0).predict(1.0) == pytest.approx(1 - 1e-6, abs=1e-12)
    assert PlattCalibrator(1.0, 0.0).predict(0.0) == pytest.approx(1e-6, rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, -0.01, 1.01, math.inf])
def test_impossible_scores_are_refused(bad):
    with pytest.raises(DataError):
        PlattCalibrator(1.0, 0.0).predict(bad)
    with pytest.raises(DataError):
        PlattCalibrator.fit([bad], [True])


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
            PlattCalibrator.fit([0.5], [True], weights=weights)
    with pytest.raises(DataError, match="targets"):
        PlattCalibrator.fit([0.5], [True], targets="smooth")


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


def test_the_first_label_is_taken_exactly():
    online = OnlinePlatt.start(memory=1e12).update(0.9, False)
    batch = PlattCalibrator.fit([0.9], [False], prior=LOOSE_PRIOR, targets="plain")
    assert online.slope == pytest.approx(batch.slope, abs=1e-9)
    assert online.intercept == pytest.approx(batch.intercept, abs=1e-9)


def test_with_forgetting_it_is_about_the_fit_with_fading_weights():
    raw, correct = simulated(1500, seed=1)
    online = after(OnlinePlatt.start(memory=200), raw, correct)
    weights = (1.0 - 1.0 / 200) ** np.arange(1500)[::-1]
    batch = PlattCalibrator.fit(raw, correct, weights=weights, prior=LOOSE_PRIOR, targets="plain")
    grid = np.linspace(0.2, 0.99, 20)
    assert online.predict(grid) == pytest.approx(batch.predict(grid), abs=0.05)


def test_what_says_nothing_leaves_only_the_prior():
    """Scores at which labels are certain anyway carry no curvature: the belief returns to the prior."""
    raw, correct = simulated(300)
    informed = after(OnlinePlatt.start(Prior(1.0, 0.0, 0.1, 0.2), memory=20), raw, correct)
    rested = after(informed, [1.0] * 400, [True] * 400)
    assert abs(informed.intercept) > 0.15
    assert rested.slope == pytest.approx(1.0, abs=0.05)
    assert rested.intercept == pytest.approx(0.0, abs=0.05)


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


@settings(deadline=None)
@given(items=pairs)
def test_a_label_moves_its_own_prediction_towards_it(items):
    state = OnlinePlatt.start(memory=1e12)
    for p, y in items:
        before = state.predict(p)
        state = state.update(p, y)
        assert (state.predict(p) - before) * (1 if y else -1) >= -1e-9


def test_impossible_scores_move_nothing():
    for bad in (np.nan, 1.1):
        with pytest.raises(DataError):
            OnlinePlatt.start().update(bad, True)


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 20.0, 200.0, 1e4])
def test_the_mode_is_found_however_sure_the_answer_was(variance, y):
    """By bisection alone, which cannot go round in circles."""
    for z in np.linspace(-60.0, 60.0, 241):
        found = _solve(z, variance, y)
        low, high = z + variance * (y - 1.0), z + variance * y
        for _ in range(200):
            at = 0.5 * (low + high)
            low, high = (low, at) if at - z - variance * (y - sigmoid(at)) > 0.0 else (at, high)
        assert found == pytest.approx(0.5 * (low + high), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("raw", [0.9, 0.998, 0.9999, 1.0])
def test_one_wrong_label_on_a_sure_answer_turns_no_order_round(raw):
    low, middle, high = OnlinePlatt.start().update(raw, False).predict([0.5, 0.9, 0.999])
    assert low < middle < high
