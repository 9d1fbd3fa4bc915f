"""Reliability diagrams and risk-coverage curves: by hand, whether intervals and band cover, and JSON."""

import json
import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.arrays import CalibrationWarning, quietly
from lsp_calib.calibration.reliability import reliability, wilson_interval
from lsp_calib.calibration.scores import expected_calibration_error
from lsp_calib.errors import DataError
from lsp_calib.evaluation.calibration_errors import risk_coverage

pairs = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=60)


def simulated(n, seed, power=1.0):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, n)
    return p, rng.random(n) < p**power


def test_bins_by_hand():
    p = [0.0, 0.1, 0.15, 0.9, 1.0]
    data = reliability(p, [False, True, False, True, True], bins=10)
    assert (data.n, data.n_correct) == (5, 3)
    assert [item.n for item in data.bins] == [1, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert [(item.lower, item.upper) for item in data.bins][1] == (0.1, 0.2)
    second = data.bins[1]
    assert (second.confidence, second.accuracy) == (pytest.approx(0.125), 0.5)
    assert (second.low, second.high) == wilson_interval(1, 2)
    empty = data.bins[2]
    assert (empty.confidence, empty.accuracy, empty.low, empty.band_low) == (None, None, None, None)


def test_quantile_points():
    p, y = simulated(1000, 0)
    data = reliability(p, y)
    assert data.points[0].lower == p.min()
    assert data.points[-1].upper == p.max()
    assert [item.n for item in data.points] == [200] * 5
    assert all(item.lower <= item.confidence <= item.upper for item in data.points)


def test_equal_confidences_share_a_quantile_point():
    data = reliability([0.2] * 90 + [0.8] * 10, [True, False] * 50)
    found = [(item.n, item.confidence) for item in data.points]
    assert found == [(90, pytest.approx(0.2)), (10, pytest.approx(0.8))]


def test_ece_is_the_weighted_mean_of_its_gaps():
    p, y = simulated(777, 1, power=2.0)
    data = reliability(p, y, bins=8)
    gaps = sum(item.n * abs(item.confidence - item.accuracy) for item in data.bins if item.n)
    assert gaps / 777 == pytest.approx(expected_calibration_error(p, y, 8), abs=1e-12)


@given(items=pairs, data=st.data())
@pytest.mark.filterwarnings("ignore::lsp_calib.calibration.arrays.CalibrationWarning")
def test_any_input_gives_finite_numbers_whatever_its_order(items, data):
    def diagram(items):
        p, y = [p for p, _ in items], [y for _, y in items]
        return attrs.asdict(reliability(p, y, resamples=20))

    document = diagram(items)
    json.dumps(document, allow_nan=False)
    assert sum(item["n"] for item in document["bins"]) == len(items)
    for item in document["bins"] + document["points"]:
        if item["n"]:
            assert 0.0 <= item["low"] <= item["accuracy"] <= item["high"] <= 1.0
            assert 0.0 <= item["band_low"] <= item["band_high"] <= 1.0
            assert 0.0 <= item["confidence"] <= 1.0
    shuffled = diagram(data.draw(st.permutations(items)))
    assert shuffled == document


def test_the_band_of_many_items_is_the_normal_one():
    # 20,000 items in one bin are drawn in groups: the spread must still be that of 20,000 single ones.
    p, y = simulated(20_000, 2)
    with pytest.warns(CalibrationWarning):
        bar = reliability(p, y, bins=1, resamples=4000).bins[0]
    half = 1.96 * math.sqrt(np.sum(p * (1 - p))) / p.size
    assert bar.band_low == pytest.approx(p.mean() - half, abs=half / 10)
    assert bar.band_high == pytest.approx(p.mean() + half, abs=half / 10)


def test_the_same_seed_gives_the_same_band():
    p, y = simulated(100, 3)
    assert reliability(p, y) == reliability(p, y)
    assert reliability(p, y) != reliability(p, y, seed=1)


def test_wilson_ends():
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(10, 10)[1] == 1.0
    # Agresti & Coull 1998: 0 of 10 gives up to z^2 / (n + z^2).
    assert wilson_interval(0, 10)[1] == pytest.approx(1.959964**2 / (10 + 1.959964**2), abs=1e-6)
    for arguments in ((-1, 3), (4, 3), (1, 3, 0.0), (1, 3, 1.0)):
        with pytest.raises(DataError):
            wilson_interval(*arguments)


def test_what_cannot_be_measured_is_refused_or_warned_of():
    for options in ({"bins": 0}, {"resamples": 0}):
        with pytest.raises(DataError):
            reliability([0.5, 0.9], [True, False], **options)
    with pytest.raises(DataError):
        reliability([], [])
    with pytest.warns(CalibrationWarning, match="all 4 confidences"):
        reliability([0.5] * 4, [True, False] * 2)
    with pytest.warns(CalibrationWarning, match="2 labels are of one class"):
        reliability([0.1, 0.9], [True, True])


coarse = st.lists(st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.booleans()), min_size=1, max_size=60)


def test_by_hand():
    curve = risk_coverage([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
    assert curve.n == 4
    assert curve.threshold.tolist() == [0.9, 0.5, 0.1]
    assert curve.coverage.tolist() == [0.25, 0.75, 1.0]
    assert curve.risk.tolist() == [0.0, pytest.approx(1 / 3), 0.5]
    # Wrong ones by coverage c: 0 to 1/4, then (c - 1/4) / 2 to 3/4, then c - 1/2. Over c, integrated:
    area = (0.25 - 0.125 * math.log(3)) + (0.25 - 0.5 * math.log(4 / 3))
    assert curve.area == pytest.approx(area)


def test_a_perfect_ranking_has_no_excess_and_the_published_area():
    p = np.linspace(0, 1, 100)
    curve = risk_coverage(p, p > 0.3)
    error = np.mean(p <= 0.3)
    assert curve.area == pytest.approx(error + (1 - error) * math.log(1 - error))
    assert curve.excess_area == pytest.approx(0.0, abs=1e-12)
    assert risk_coverage(p, p < 0.3).excess_area > 0.3


def test_confidences_that_say_nothing_have_the_error_rate_everywhere():
    curve = risk_coverage([0.5] * 10, [True] * 7 + [False] * 3)
    assert curve.coverage.tolist() == [1.0]
    assert curve.area == pytest.approx(0.3)


def test_it_tends_to_the_sum_over_ranks():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = rng.random(20_000) < p
    wrong = np.cumsum(~y[np.argsort(-p)])
    assert risk_coverage(p, y).area == pytest.approx(np.mean(wrong / np.arange(1, p.size + 1)), abs=1e-3)
    # A calibrated uniform score: risk at coverage c is c / 2.
    assert risk_coverage(p, y).area == pytest.approx(0.25, abs=0.01)


@given(items=coarse, data=st.data())
def test_order_and_repetition_do_not_matter(items, data):
    def curve(items):
        with quietly():
            return risk_coverage([p for p, _ in items], [y for _, y in items])

    one = curve(items)
    for other in (curve(data.draw(st.permutations(items))), curve(items * 3)):
        assert other.area == pytest.approx(one.area, abs=1e-12)
        assert other.excess_area == pytest.approx(one.excess_area, abs=1e-12)
        np.testing.assert_allclose(other.risk, one.risk)
        np.testing.assert_allclose(other.coverage, one.coverage)
    assert 0.0 <= one.excess_area <= one.area + 1e-12 <= 1.0 + 1e-12
    assert np.all((one.risk >= 0.0) & (one.risk <= 1.0))
    assert one.coverage[-1] == 1.0


@pytest.mark.parametrize(("label", "area"), [(True, 0.0), (False, 1.0)])
def test_one_class_is_warned_of(label, area):
    with pytest.warns(CalibrationWarning, match="all 3 labels"):
        curve = risk_coverage([0.1, 0.2, 0.3], [label] * 3)
    assert (curve.area, curve.excess_area) == (pytest.approx(area), pytest.approx(0.0))


def test_what_cannot_be_measured_is_refused():
    for p, y in (([], []), ([0.5], [True, False]), ([math.nan], [True])):
        with pytest.raises(DataError):
            risk_coverage(p, y)
