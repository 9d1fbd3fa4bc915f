"""Several measures: the penalised optimum, a penalty chosen on training data alone, honest predictions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from lsp_calib.calibration import (
    LogisticCalibrator,
    PlattCalibrator,
    log_loss,
    logistic_out_of_fold,
    out_of_fold,
)
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid
from lsp_calib.calibration.methods.platt import platt_targets
from lsp_calib.errors import DataError


def simulated(n, useless=0, seed=0):
    """Two measures that matter and some that do not, with labels."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 2 + useless)) * 3.0 + 5.0
    correct = rng.random(n) < sigmoid(0.5 * (table[:, 0] - 5.0) - 0.3 * (table[:, 1] - 5.0) - 0.5)
    return table, correct


def test_it_is_scikit_learns_with_the_penalty_that_was_chosen():
    """On smoothed targets, written as each label given twice with the weights of its two classes."""
    table, correct = simulated(300, useless=1)
    ours = LogisticCalibrator.fit(table, correct, spreads=[0.3])
    targets = platt_targets(correct, np.ones(300))
    scaled = (table - table.mean(axis=0)) / table.std(axis=0)
    # Its intercept is free, ours has a standard deviation of 10 nats: the same to four digits.
    theirs = LogisticRegression(C=0.3**2, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    theirs.fit(
        np.vstack((scaled, scaled)), np.repeat([1, 0], 300), sample_weight=np.append(targets, 1 - targets)
    )
    assert ours.predict(table) == pytest.approx(theirs.predict_proba(scaled)[:, 1], abs=1e-4)


def test_more_measures_help_where_they_carry_something():
    table, correct = simulated(600)
    groups = np.arange(600) % 60
    both = logistic_out_of_fold(table, correct, groups)
    one = logistic_out_of_fold(table[:, :1], correct, groups)
    assert log_loss(both, correct) < log_loss(one, correct) - 0.02


def test_the_penalty_grows_with_what_is_useless():
    few, correct = simulated(60)
    many, _ = simulated(60, useless=40)
    groups = np.arange(60) % 12
    narrow = LogisticCalibrator.fit(many, correct, groups=groups)
    assert narrow.spread < LogisticCalibrator.fit(few, correct, groups=groups).spread
    unpenalised = LogisticCalibrator.fit(many, correct, spreads=[1e6])
    fresh, fresh_correct = simulated(2000, useless=40, seed=1)
    assert log_loss(narrow.predict(fresh), fresh_correct) < 0.3 * log_loss(
        np.clip(unpenalised.predict(fresh), 1e-6, 1 - 1e-6), fresh_correct
    )


def test_what_is_held_out_is_never_seen():
    """Labels of one fold do not change that fold's predictions."""
    table, correct = simulated(100)
    groups = np.repeat(np.arange(5), 20)
    before = logistic_out_of_fold(table, correct, groups)
    turned = correct.copy()
    turned[groups == 2] ^= True
    after = logistic_out_of_fold(table, turned, groups)
    assert np.array_equal(before[groups == 2], after[groups == 2])
    assert not np.array_equal(before, after)


def test_one_measure_is_about_platt_scaling():
    rng = np.random.default_rng(0)
    raw = rng.beta(5, 1.2, 2000)
    correct = rng.random(2000) < sigmoid(0.7 * log_odds(raw) - 1.8)
    groups = np.arange(2000) % 40
    one = logistic_out_of_fold(log_odds(raw)[:, None], correct, groups)
    assert one == pytest.approx(out_of_fold(raw, correct, groups, PlattCalibrator.fit), abs=0.02)


number = st.floats(-1e6, 1e6)
rows = st.lists(st.tuples(number, number, st.booleans()), max_size=25)


@settings(deadline=None, max_examples=50)
@given(items=rows, data=st.data())
def test_predictions_are_probabilities_in_whatever_order_the_labels_come(items, data):
    def fit(items):
        table = np.array([item[:2] for item in items], dtype=float).reshape(-1, 2)
        return LogisticCalibrator.fit(table, [item[2] for item in items], spreads=[0.5])

    grid = np.array([[0.0, 0.0], [-1e6, 1e6], [3.0, -2.0]])
    p = fit(items).predict(grid)
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert fit(data.draw(st.permutations(items))).predict(grid) == pytest.approx(p, abs=1e-6)
    # Twice the labels weigh twice against the penalty, and as much as weights of two.
    table = np.array([item[:2] for item in items], dtype=float).reshape(-1, 2)
    labels = [item[2] for item in items]
    weighted = LogisticCalibrator.fit(table, labels, spreads=[0.5], weights=np.full(len(items), 2.0))
    assert fit(items + items).predict(grid) == pytest.approx(weighted.predict(grid), abs=1e-6)


def test_rounding_does_not_decide_on_a_feature_that_is_nearly_constant():
    """Far from the labels a coefficient of 1e-17 for a unit of 1e-10 would be a probability."""
    items = [(0.0, 0.0), (0.0, 0.0), (0.0, 1e-10)]
    grid = np.array([[0.0, 0.0], [-1e6, 1e6]])
    for labels in itertools.product([True, False], repeat=3):
        found = [
            LogisticCalibrator.fit([items[at] for at in order], [labels[at] for at in order]).predict(grid)
            for order in itertools.permutations(range(3))
        ]
        assert all(p == pytest.approx(found[0], abs=1e-6) for p in found)


def test_constants_one_class_and_no_labels_are_survived():
    constant = LogisticCalibrator.fit(np.full((10, 1), 3.0), np.arange(10) < 7)
    assert constant.predict([[3.0]])[0] == pytest.approx(0.65, abs=0.05)
    one_class = LogisticCalibrator.fit(np.arange(10.0)[:, None], [True] * 10)
    assert 0.5 < one_class.predict([[4.0]])[0] < 1.0
    assert LogisticCalibrator.fit(np.zeros((0, 3)), []).predict(np.ones((1, 3)))[0] == 0.5


@pytest.mark.parametrize("table", [[[np.nan]], [[np.inf]], [1.0], [[]], [["a"]]])
def test_features_that_are_no_table_of_finite_numbers_are_refused(table):
    with pytest.raises(DataError, match="features"):
        LogisticCalibrator.fit(table, [True])


def test_measures_must_be_as_many_as_fitted():
    fitted = LogisticCalibrator.fit([[1.0, 2.0], [2.0, 1.0]], [True, False])
    with pytest.raises(DataError, match="2 measures"):
        fitted.predict([[1.0]])
    with pytest.raises(DataError, match="spreads"):
        LogisticCalibrator.fit([[1.0]], [True], spreads=[])
