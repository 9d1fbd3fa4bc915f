"""Risk-coverage: by hand, a perfect ranking, the sum over ranks it replaces, and what must not matter."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.arrays import CalibrationWarning, quietly
from lsp_calib.calibration.reliability import risk_coverage
from lsp_calib.errors import DataError

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
