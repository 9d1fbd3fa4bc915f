"""Temperature, beta, isotonic, histogram: against references, at the ends, and as JSON."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from test_calibration_platt import pairs, probability, simulated, split

from lsp_calib.calibration.logistic import log_odds
from lsp_calib.errors import DataError
from lsp_calib.studies.other_curves import (
    BetaCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    TemperatureCalibrator,
)

MONOTONE = [TemperatureCalibrator, BetaCalibrator, IsotonicCalibrator]
FITS = [*MONOTONE, HistogramCalibrator]
SETTLED = {"deadline": None}


@pytest.mark.parametrize("kind", FITS)
@settings(**SETTLED)
@given(items=pairs, scores=st.lists(probability, min_size=1, max_size=20))
@example(items=[(0.0, False), (2.2250738585e-313, True)], scores=[5e-324])
def test_predictions_are_probabilities_whatever_the_labels(kind, items, scores):
    fitted = kind.fit(*split(items))
    p = fitted.predict(np.array(scores))
    assert p.shape == (len(scores),)
    assert p.dtype == np.float64
    assert np.all((p >= 0.0) & (p <= 1.0))


@pytest.mark.parametrize("kind", MONOTONE)
def test_without_labels_the_score_stands(kind):
    scores = np.linspace(0.01, 0.99, 9)
    assert kind.fit([], []).predict(scores) == pytest.approx(scores, abs=1e-9)


@pytest.mark.parametrize("kind", FITS)
def test_impossible_input_is_refused(kind):
    with pytest.raises(DataError):
        kind.fit([1.5], [True])
    with pytest.raises(DataError):
        kind.fit([0.5], [True]).predict(np.array([math.nan]))


def test_temperature_is_a_logistic_regression_without_intercept():
    raw, correct = simulated(500, 0.4, 0.0)
    ours = TemperatureCalibrator.fit(raw, correct, spread=1e6)
    theirs = LogisticRegression(C=math.inf, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    theirs.fit(log_odds(raw)[:, None], correct)
    assert 1.0 / ours.temperature == pytest.approx(theirs.coef_[0, 0], rel=1e-7)
    assert 2.0 < ours.temperature < 3.2


def test_temperature_keeps_to_its_bounds():
    separable = TemperatureCalibrator.fit([0.1, 0.9] * 20, [False, True] * 20, spread=1e6)
    upside_down = TemperatureCalibrator.fit([0.1, 0.9] * 20, [True, False] * 20, spread=1e6)
    assert separable.temperature < 0.2
    assert upside_down.temperature == 50.0


def test_beta_is_kulls():
    """Where a and b come out positive: an unpenalised logistic regression on ln p and -ln(1 - p)."""
    raw, correct = simulated(3000)
    ours = BetaCalibrator.fit(raw, correct, spread=1e6)
    design = np.column_stack((np.log(raw), -np.log1p(-raw)))
    theirs = LogisticRegression(C=math.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    theirs.fit(design, correct)
    assert theirs.coef_.min() > 0.0
    assert (ours.a, ours.b) == pytest.approx(tuple(theirs.coef_[0]), rel=1e-6)
    assert ours.c == pytest.approx(theirs.intercept_[0], rel=1e-6)


def test_isotonic_is_scikit_learns():
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 60, 400):
        raw = np.round(rng.random(n), 2)
        correct = rng.random(n) < raw
        ours = IsotonicCalibrator.fit(raw, correct, ends=False)
        theirs = IsotonicRegression(out_of_bounds="clip").fit(raw, correct)
        grid = np.linspace(0.0, 1.0, 101)
        assert ours.predict(grid) == pytest.approx(theirs.predict(grid), abs=1e-12)


def test_histogram_bins_are_closed_on_the_left():
    raw = [0.0, 0.099, 0.1, 0.95, 1.0]
    fitted = HistogramCalibrator.fit(raw, [True, True, False, True, False])
    assert fitted.predict(np.array([0.05, 0.1, 0.19999, 0.9, 1.0])) == pytest.approx(
        [1.0, 0.0, 0.0, 0.5, 0.5]
    )
    assert fitted.predict(np.array([0.55])) == pytest.approx([0.55]), "an empty bin answers its middle"
