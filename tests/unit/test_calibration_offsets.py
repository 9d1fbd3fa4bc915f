"""Offsets of groups: none without data, their own fit with plenty, in between by the labels' spread."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_calib.calibration import PlattCalibrator
from lsp_calib.calibration.methods.log_odds import log_odds, sigmoid
from lsp_calib.calibration.methods.offsets import group_names, group_offsets
from lsp_calib.errors import DataError


def simulated(sizes, offsets, seed=0, slope=0.7, intercept=-0.5):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    raw = rng.beta(5, 1.2, groups.size)
    z = slope * log_odds(raw) + intercept + np.array(offsets)[groups]
    return raw, rng.random(groups.size) < sigmoid(z), groups


def test_a_group_without_data_has_the_global_curve():
    raw, correct, groups = simulated([200, 200], [-1.0, 1.0])
    fitted = PlattCalibrator.fit(raw, correct, groups=groups)
    assert np.array_equal(fitted.predict(raw, groups=np.full(raw.size, 7)), fitted.predict(raw))
    weightless = PlattCalibrator.fit(
        np.append(raw, 0.5), np.append(correct, True), weights=[1.0] * raw.size + [0.0], groups=[*groups, 9]
    )
    assert dict(weightless.offsets)["9"] == 0.0


def test_a_group_with_much_data_has_its_own_fit():
    offsets = [-1.2, 0.0, 0.3, 0.9]
    raw, correct, groups = simulated([20_000] * 4, offsets)
    fitted = PlattCalibrator.fit(raw, correct, groups=groups)
    assert fitted.slope == pytest.approx(0.7, abs=0.03)
    for group, offset in enumerate(offsets):
        own = PlattCalibrator.fit(raw[groups == group], correct[groups == group])
        together = fitted.predict(np.array([0.3, 0.8]), groups=group)
        assert together == pytest.approx(own.predict(np.array([0.3, 0.8])), abs=0.02)
        assert fitted.intercept + dict(fitted.offsets)[str(group)] == pytest.approx(-0.5 + offset, abs=0.07)


def test_a_small_group_moves_part_of_the_way():
    raw, correct, groups = simulated([3000, 3000, 3000, 8], [-1.0, 1.0, 0.0, 0.0], seed=3)
    correct[groups == 3] = True
    offset = dict(PlattCalibrator.fit(raw, correct, groups=groups).offsets)["3"]
    assert 0.2 < offset < 2.0, "eight labels of one class would be an infinite offset by themselves"


def test_groups_that_do_not_differ_are_left_alone():
    moved = []
    for seed in range(20):
        raw, correct, groups = simulated([60] * 10, [0.0] * 10, seed=seed)
        moved += [abs(o) for _, o in PlattCalibrator.fit(raw, correct, groups=groups).offsets]
    assert np.mean(moved) < 0.08  # the groups' own fits are 0.28 off


def test_it_beats_both_ignoring_groups_and_fitting_each():
    """Log loss against the truth, over worlds whose groups differ by 0.7 and have 4 to 60 labels."""
    sizes = [4, 8, 15, 30, 60, 60]
    losses = np.zeros(3)
    for seed in range(60):
        offsets = np.random.default_rng(1000 + seed).normal(0.0, 0.7, len(sizes))
        raw, correct, groups = simulated(sizes, offsets, seed=seed)
        points = np.linspace(0.4, 0.98, 20)
        ours, ignoring = (
            PlattCalibrator.fit(raw, correct, groups=groups),
            PlattCalibrator.fit(raw, correct),
        )
        for group, offset in enumerate(offsets):
            truth = sigmoid(0.7 * log_odds(points) - 0.5 + offset)
            own = PlattCalibrator.fit(raw[groups == group], correct[groups == group])
            answers = (ours.predict(points, groups=group), ignoring.predict(points), own.predict(points))
            losses += [np.mean(-truth * np.log(p) - (1 - truth) * np.log1p(-p)) for p in answers]
    assert losses[0] < min(losses[1], losses[2])


pairs = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.booleans(), st.sampled_from(["go", "rust", "é", ""])), max_size=30
)


@settings(deadline=None)
@given(items=pairs, data=st.data())
def test_order_does_not_matter_and_weight_is_repetition(items, data):
    def fit(items, weights=None):
        raw, correct, groups = ([item[i] for item in items] for i in range(3))
        fitted = PlattCalibrator.fit(raw, correct, groups=groups, weights=weights)
        return {group: offset for group, offset in fitted.offsets if offset}, fitted.slope

    plain, slope = fit(items)
    shuffled, shuffled_slope = fit(data.draw(st.permutations(items)))
    assert shuffled == pytest.approx(plain, abs=1e-7)
    assert shuffled_slope == pytest.approx(slope, abs=1e-7)
    repeated, weighted = fit(items + items), fit(items, [2.0] * len(items))
    assert repeated[0] == pytest.approx(weighted[0], abs=1e-7)
    assert repeated[1] == pytest.approx(weighted[1], abs=1e-7)


@settings(deadline=None)
@given(items=pairs)
def test_each_offset_is_finite_and_between_zero_and_its_groups_labels(items):
    raw, correct, groups = ([item[i] for item in items] for i in range(3))
    fitted = PlattCalibrator.fit(raw, correct, groups=groups)
    p = fitted.predict(np.array(raw, dtype=float), groups=np.array(groups, dtype=object))
    assert np.all((p >= 0.0) & (p <= 1.0))
    for name, offset in fitted.offsets:
        labels = {y for _, y, group in items if group == name}
        if labels == {True}:
            assert 0.0 <= offset < 20.0
        if labels == {False}:
            assert -20.0 < offset <= 0.0


def test_names_are_strings_or_integers_of_the_same_number():
    assert group_names([1, 2]).tolist() == ["1", "2"]
    for wrong in ([0.5], [None], [True]):
        with pytest.raises(DataError, match="groups"):
            PlattCalibrator.fit([0.5], [True], groups=wrong)
    with pytest.raises(DataError, match="groups"):
        PlattCalibrator.fit([0.5], [True], groups=["a", "b"])
    fitted = PlattCalibrator.fit([0.5, 0.6], [True, False], groups=["a", "b"])
    with pytest.raises(DataError, match="groups"):
        fitted.predict(np.array([0.5, 0.6]), groups=["a", "b", "c"])


def test_the_offset_of_one_spread_is_the_ridge_estimate(monkeypatch):
    """With a single spread the offsets are those of a penalised logistic regression on group indicators."""
    from scipy.optimize import minimize

    monkeypatch.setattr("lsp_calib.calibration.methods.offsets.SPREADS", (0.5,))
    raw, correct, groups = simulated([15, 25], [0.0, 0.8])
    z = log_odds(raw)
    found = [offset for _, offset in group_offsets(z, correct, np.ones(40), group_names(groups))]

    def loss(offsets):
        at = z + offsets[groups]
        return np.sum(np.logaddexp(0.0, at) - correct * at) + np.sum(offsets**2) / (2 * 0.25)

    assert found == pytest.approx(minimize(loss, np.zeros(2), tol=1e-12).x, abs=1e-5)
