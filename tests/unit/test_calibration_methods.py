"""Temperature, beta, isotonic, histogram: against references, at the ends, and as JSON."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.curve import Curve, Offset
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.document import read, written
from lsp_calib.calibration.logistic import (
    DEFAULT_PRIOR,
    LOOSE_PRIOR,
    PlattCalibrator,
    Prior,
    log_odds,
    sigmoid,
)
from lsp_calib.calibration.other_curves import (
    BetaCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    TemperatureCalibrator,
)
from lsp_calib.calibration.token_level import fit_token_temperature, log_sum_exp
from lsp_calib.errors import DataError
from lsp_calib.values import ModelIdentity

probability = st.floats(0.0, 1.0)
pairs = st.lists(st.tuples(probability, st.booleans()), max_size=40)
MONOTONE = [TemperatureCalibrator, BetaCalibrator, IsotonicCalibrator]
FITS = [PlattCalibrator, *MONOTONE, HistogramCalibrator]
SETTLED = {"deadline": None}


def split(items):
    return np.array([p for p, _ in items], dtype=float), np.array([y for _, y in items], dtype=bool)


def simulated(n, slope=0.7, intercept=-1.8, seed=0):
    rng = np.random.default_rng(seed)
    raw = rng.beta(5, 1.2, n)
    return raw, rng.random(n) < sigmoid(slope * log_odds(raw) + intercept)


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
@settings(**SETTLED)
@given(items=pairs, scores=st.lists(probability, min_size=2, max_size=20))
def test_monotone_curves_never_fall(kind, items, scores):
    p = kind.fit(*split(items)).predict(np.sort(scores))
    assert np.all(np.diff(p) >= -1e-12)


@pytest.mark.parametrize("kind", FITS)
@settings(**SETTLED)
@given(items=pairs, data=st.data())
def test_order_does_not_matter_and_weight_is_repetition(kind, items, data):
    grid = np.linspace(0.0, 1.0, 9)
    fitted = kind.fit(*split(items)).predict(grid)
    shuffled = kind.fit(*split(data.draw(st.permutations(items)))).predict(grid)
    assert shuffled == pytest.approx(fitted, abs=1e-6)
    raw, correct = split(items)
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(items), max_size=len(items))), int)
    weighted = kind.fit(raw, correct, weights=weights).predict(grid)
    repeated = kind.fit(np.repeat(raw, weights), np.repeat(correct, weights)).predict(grid)
    assert weighted == pytest.approx(repeated, abs=1e-6)


@pytest.mark.parametrize("kind", MONOTONE)
def test_without_labels_the_score_stands(kind):
    scores = np.linspace(0.01, 0.99, 9)
    assert kind.fit([], []).predict(scores) == pytest.approx(scores, abs=1e-9)


@pytest.mark.parametrize("kind", FITS)
def test_impossible_input_is_refused(kind):
    with pytest.raises(DataError):
        kind.fit([1.5], [True])
    with pytest.raises(DataError):
        kind.fit([0.5], [True], weights=[-1.0])
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
    upside_down = TemperatureCalibrator.fit([0.1, 0.9] * 20, [True, False] * 20)
    assert separable.temperature < 0.2
    assert upside_down.temperature == 50.0
    with pytest.raises(DataError):
        TemperatureCalibrator(0.0)


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


@settings(**SETTLED)
@given(items=pairs)
def test_beta_is_the_best_of_its_kind(items):
    """No step that keeps a, b >= 0 lowers the loss: the problem is convex, so that is the optimum."""
    raw, correct = split(items)
    p = np.clip(raw, 1e-6, 1 - 1e-6)

    def loss(a, b, c):
        z = a * np.log(p) - b * np.log1p(-p) + c
        prior = ((a - 1) ** 2 + (b - 1) ** 2 + c**2) / (2 * 3.0**2)
        return np.sum(np.logaddexp(0.0, z) - correct * z) + prior

    fitted = BetaCalibrator.fit(raw, correct, spread=3.0)
    best = loss(fitted.a, fitted.b, fitted.c)
    for step in 1e-4 * np.array(np.meshgrid(*[[-1, 0, 1]] * 3)).reshape(3, -1).T:
        a, b, c = np.array([fitted.a, fitted.b, fitted.c]) + step
        if a >= 0.0 and b >= 0.0:
            assert loss(a, b, c) >= best - 1e-9


def test_isotonic_is_scikit_learns():
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 60, 400):
        raw, weights = np.round(rng.random(n), 2), rng.random(n) + 0.1
        correct = rng.random(n) < raw
        ours = IsotonicCalibrator.fit(raw, correct, weights=weights, ends=False)
        theirs = IsotonicRegression(out_of_bounds="clip").fit(raw, correct, sample_weight=weights)
        grid = np.linspace(0.0, 1.0, 101)
        assert ours.predict(grid) == pytest.approx(theirs.predict(grid), abs=1e-12)


def test_isotonic_says_neither_never_nor_always():
    fitted = IsotonicCalibrator.fit([0.1, 0.2, 0.3, 0.7, 0.8], [False, False, False, True, True])
    assert fitted.predict(np.array([0.0, 1.0])) == pytest.approx([1 / 5, 3 / 4])
    alone = IsotonicCalibrator.fit([0.1, 0.2], [True, True])
    assert alone.predict(np.array([0.5])) == pytest.approx([3 / 4])


def test_histogram_bins_are_closed_on_the_left():
    raw = [0.0, 0.099, 0.1, 0.95, 1.0]
    fitted = HistogramCalibrator.fit(raw, [True, True, False, True, False], smoothing=0.0)
    assert fitted.predict(np.array([0.05, 0.1, 0.19999, 0.9, 1.0])) == pytest.approx(
        [1.0, 0.0, 0.0, 0.5, 0.5]
    )
    assert fitted.predict(np.array([0.55])) == pytest.approx([0.55]), "an empty bin answers its middle"
    usual = HistogramCalibrator.fit([0.05], [True])
    assert usual.values[0] == pytest.approx((1 + 0.05) / 2), "one imaginary label, unless said otherwise"


def test_histogram_by_mass_shares_the_labels():
    raw, correct = simulated(1000)
    fitted = HistogramCalibrator.fit(raw, correct, strategy="mass", smoothing=0.0)
    edges = np.array([0.0, *fitted.edges, 1.0])
    counts = np.histogram(raw, edges)[0]
    assert counts.min() >= 99
    assert counts.max() <= 101
    few = [0.1, 0.2, 0.3, 0.4]
    assert HistogramCalibrator.fit(few, [True] * 4, strategy="mass", bins=2).edges == (0.3,), "two and two"
    one = HistogramCalibrator.fit([0.5] * 9, [True] * 9, strategy="mass", bins=3)
    assert one.predict(np.array([0.5]))[0] > 0.9
    with pytest.raises(DataError, match="strategy"):
        HistogramCalibrator.fit(raw, correct, strategy="size")


def test_token_temperature_is_found_from_sums_alone():
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(3000, 50))
    true_temperature = 1.6
    p = np.exp(logits / true_temperature)
    p /= p.sum(axis=1, keepdims=True)
    target = np.array([rng.choice(50, p=row) for row in p])
    grid = np.exp(np.linspace(np.log(0.5), np.log(4.0), 25))
    sums = log_sum_exp(logits, grid)
    chosen = logits[np.arange(3000), target]
    found = fit_token_temperature(chosen, sums, grid)
    assert found.refined == pytest.approx(true_temperature, rel=0.05)
    assert abs(math.log(found.temperature / found.refined)) < math.log(4.0 / 0.5) / 24
    at = int(np.argmin(np.abs(grid - found.temperature)))
    direct = logits / found.temperature
    direct = direct - np.log(np.sum(np.exp(direct), axis=1, keepdims=True))
    assert found.loss[at] == found.loss.min()
    assert -np.mean(direct[np.arange(3000), target]) == pytest.approx(found.loss.min(), abs=1e-9)


def test_token_temperature_survives_huge_logits_and_refuses_nonsense():
    sums = log_sum_exp(np.array([[1e4, 0.0], [0.0, -1e4]]), [0.5, 1.0, 2.0])
    assert np.all(np.isfinite(sums))
    for wrong in ([0.0], [-1.0], [math.nan], []):
        with pytest.raises(DataError):
            log_sum_exp(np.zeros((1, 2)), wrong)
    with pytest.raises(DataError):
        fit_token_temperature([], np.zeros((0, 2)), [1.0, 2.0])
    with pytest.raises(DataError, match="ascending"):
        fit_token_temperature([0.0], [[1.0, 1.0]], [2.0, 1.0])


def test_json_of_priors_names_trust_only_where_there_is_some():
    document = written(DEFAULT_PRIOR)
    assert document["trust"] == DEFAULT_PRIOR.trust
    assert read(document, Prior, "prior") == DEFAULT_PRIOR
    assert set(written(LOOSE_PRIOR)) == {"slope", "intercept", "slopeSd", "interceptSd"}


@pytest.mark.parametrize(
    ("offsets", "prior"),
    [
        ((), LOOSE_PRIOR),
        ((), DEFAULT_PRIOR),
        ((), Prior(1.0, 0.0, 1.0, 1.0, fade=3.0)),
        ((Offset("go", 0.1), Offset("rust", -0.1 / 3)), LOOSE_PRIOR),
    ],
)
def test_a_calibrators_document_holds_its_curve_and_prior(offsets, prior):
    curve = replace(Curve.of_measure("total", 0.9, -2.0, prior), offsets=offsets)
    calibrator = Calibrator(
        purpose=Purpose(ModelIdentity("m", "q", ""), "1", "line", "python"),
        curves=(curve,),
        raw_measure="total",
        n=3,
        n_correct=1,
        source="personal",
        state="learning",
        created="2026-11-20",
    )
    document = json.loads(json.dumps(calibrator.to_json()))
    assert Calibrator.from_json(document) == calibrator
    at = document["curves"][0]
    unusual = set(at) & {"input", "offsets"} or set(at["prior"]) & {"trust", "fade"}
    assert bool(unusual) == ((offsets, prior) != ((), LOOSE_PRIOR))
