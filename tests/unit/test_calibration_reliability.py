"""Reliability diagrams and risk-coverage curves: by hand, whether intervals and band cover, and JSON."""

import math

import numpy as np
import pytest

from lsp_calib.calibration.arrays import CalibrationWarning
from lsp_calib.calibration.reliability import reliability, wilson_interval
from lsp_calib.errors import DataError


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


def test_the_band_of_many_items_is_the_normal_one():
    # 20,000 items in one bin are drawn in groups: the spread must still be that of 20,000 single ones.
    p, y = simulated(20_000, 2)
    with pytest.warns(CalibrationWarning):
        bar = reliability(p, y, bins=1, resamples=4000).bins[0]
    half = 1.96 * math.sqrt(np.sum(p * (1 - p))) / p.size
    assert bar.band_low == pytest.approx(p.mean() - half, abs=half / 10)
    assert bar.band_high == pytest.approx(p.mean() + half, abs=half / 10)


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
