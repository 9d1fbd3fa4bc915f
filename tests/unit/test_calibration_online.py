"""Label by label: the same as fitting at once where nothing is forgotten, the prior where all is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_calib.calibration import (
    LOOSE_PRIOR,
    Calibeater,
    OnlineCalibrator,
    OnlinePlatt,
    PlattCalibrator,
    Prior,
)
from lsp_calib.calibration.methods import online
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid
from lsp_calib.errors import DataError

pairs = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=40)


def simulated(n, slope=0.7, intercept=-1.8, seed=0):
    rng = np.random.default_rng(seed)
    raw = rng.beta(5, 1.2, n)
    return raw, rng.random(n) < sigmoid(slope * log_odds(raw) + intercept)


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
    assert online.n == 2000
    assert online.calibrator == PlattCalibrator(online.slope, online.intercept)


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
    state = OnlineCalibrator(OnlinePlatt.start(memory=memory), Calibeater.start(memory=memory, enough=2))
    for p, y in items:
        state = state.update(p, y)
    assert np.isfinite(state.platt.slope)
    assert np.isfinite(state.platt.intercept)
    h00, h01, h11 = state.platt.precision
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


def test_a_bin_speaks_once_it_holds_enough():
    forecasts, right = [0.85] * 30, [True] * 12 + [False] * 18
    state = Calibeater.start(memory=1e9, enough=20)
    early = after(state, forecasts[:19], right[:19])
    assert early.predict(0.85) == pytest.approx(0.85)
    late = after(early, forecasts[19:], right[19:])
    assert late.predict(0.85) == pytest.approx(0.85 + (12 - 30 * 0.85) / (30 + 20), abs=1e-6)
    assert late.predict(0.82) == pytest.approx(late.predict(0.85) - 0.03)
    assert late.predict(0.15) == pytest.approx(0.15)
    assert late.predict(np.array([[0.85, 0.1]])).shape == (1, 2)


def test_a_correction_never_leads_to_certainty():
    state = after(Calibeater.start(memory=1e9, enough=1), [0.05] * 98, [False] * 98)
    state = after(state, [0.95] * 98, [True] * 98)
    assert state.predict(np.array([0.01, 0.99])) == pytest.approx([0.01, 0.99])
    assert state.predict(np.array([0.05, 0.95])) == pytest.approx([0.01, 0.99])
    assert state.predict(np.array([0.0, 1.0])) == pytest.approx([0.0, 1.0])


def test_edges_of_calibeating_bins_are_closed_on_the_left():
    state = Calibeater.start(memory=1e9, enough=1)
    state = state.update(0.1, True).update(1.0, False)
    assert state.counts[1] == pytest.approx(1.0)
    assert state.counts[9] == pytest.approx(1.0)


def test_calibeating_mends_what_no_line_can():
    """A truth that falls in the middle: the curve stays wrong there, the bins do not."""
    rng = np.random.default_rng(0)
    raw = rng.random(6000)
    truth = np.where((raw > 0.4) & (raw < 0.6), 0.05, raw)
    correct = rng.random(6000) < truth
    state = OnlineCalibrator(OnlinePlatt.start(memory=2000), Calibeater.start(20, memory=2000))
    losses = np.zeros((6000, 2))
    for i, (p, y) in enumerate(zip(raw, correct, strict=True)):
        losses[i] = [(float(f(p)) - y) ** 2 for f in (state.platt.predict, state.predict)]
        state = state.update(p, y)
    curve, beaten = losses[2000:].mean(axis=0)
    assert beaten < curve - 0.005  # Brier; the dip holds a fifth of the scores


@pytest.mark.parametrize("memory", [1.0, 0.0, -3.0, np.nan, np.inf])
def test_impossible_memories_are_refused(memory):
    with pytest.raises(DataError, match="memory"):
        OnlinePlatt.start(memory=memory)
    with pytest.raises(DataError, match="memory"):
        Calibeater.start(memory=memory)


@pytest.mark.parametrize(
    "precision", [(0.0, 0.0, 1.0), (1.0, 2.0, 1.0), (1.0, 0.0, -1.0), (np.nan, 0.0, 1.0), (1.0, 0.0, np.inf)]
)
def test_a_precision_that_is_none_is_refused(precision):
    with pytest.raises(DataError, match="precision"):
        OnlinePlatt(1.0, 0.0, precision, LOOSE_PRIOR)


def test_impossible_scores_are_refused():
    for bad in (np.nan, 1.1):
        with pytest.raises(DataError):
            OnlinePlatt.start().update(bad, True)
        with pytest.raises(DataError):
            Calibeater.start().update(bad, True)
    with pytest.raises(DataError):
        Calibeater.start(bins=0)
    with pytest.raises(DataError):
        Calibeater((-1.0,), (0.0,))


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 20.0, 200.0, 1e4])
def test_the_mode_is_found_however_sure_the_answer_was(variance, y):
    """By bisection alone, which cannot go round in circles."""
    for z in np.linspace(-60.0, 60.0, 241):
        found = online._solve(z, variance, y)
        low, high = z + variance * (y - 1.0), z + variance * y
        for _ in range(200):
            at = 0.5 * (low + high)
            low, high = (low, at) if at - z - variance * (y - sigmoid(at)) > 0.0 else (at, high)
        assert found == pytest.approx(0.5 * (low + high), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("raw", [0.9, 0.998, 0.9999, 1.0])
def test_one_wrong_label_on_a_sure_answer_turns_no_order_round(raw):
    low, middle, high = OnlineCalibrator.fit([raw], [False]).predict([0.5, 0.9, 0.999])
    assert low < middle < high
