"""Label by label: the same as fitting at once where nothing is forgotten, the prior where all is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calibration_platt import pairs, simulated

from lsp_calib.calibration.calibrators.promotion import OnlinePlatt, _solve
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator, Prior, sigmoid
from lsp_calib.errors import DataError


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


def test_impossible_scores_are_refused():
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
