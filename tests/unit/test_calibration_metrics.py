"""Metrics: as scikit-learn, netcal and torchmetrics have them; where they warn, and their resamples."""

import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from lsp_calib.calibration.arrays import CalibrationWarning, quietly
from lsp_calib.calibration.scores import auc, brier_score, expected_calibration_error, log_loss, skill_score
from lsp_calib.calibration.validation import bootstrap_interval, calibrated_band, of_items, summarise
from lsp_calib.errors import DataError

# One class and a single bin are the rule here; that one is warned is tested below.
pytestmark = pytest.mark.filterwarnings("ignore::lsp_calib.calibration.arrays.CalibrationWarning")

ALL = [brier_score, skill_score, log_loss, auc, expected_calibration_error]
pair = st.tuples(st.floats(0.0, 1.0), st.booleans())
pairs = st.lists(pair, min_size=1, max_size=60)
# Few distinct values, so that ties and bin edges are the rule.
coarse = st.lists(st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.booleans()), min_size=1, max_size=60)


def split(items):
    return np.array([p for p, _ in items]), np.array([y for _, y in items], dtype=bool)


def same(a, b):
    return (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, abs=1e-12)


@given(items=st.one_of(pairs, coarse))
def test_agreement_with_scikit_learn(items):
    p, y = split(items)
    assert brier_score(p, y) == pytest.approx(sk.brier_score_loss(y, p, pos_label=True), abs=1e-12)
    assert log_loss(p, y) == pytest.approx(sk.log_loss(y, p, labels=[False, True]), abs=1e-9)
    if 0 < y.sum() < y.size:
        assert auc(p, y) == pytest.approx(sk.roc_auc_score(y, p), abs=1e-12)
    else:
        assert math.isnan(auc(p, y))
        assert math.isnan(skill_score(p, y))


@given(items=st.one_of(pairs, coarse), data=st.data())
def test_a_weight_of_two_is_the_same_as_giving_the_pair_twice(items, data):
    p, y = split(items)
    times = np.array(data.draw(st.lists(st.integers(0, 4), min_size=p.size, max_size=p.size)))
    times[0] = 1
    for metric in (brier_score, skill_score, log_loss, expected_calibration_error):
        assert same(metric(p, y, weights=times / 3), metric(np.repeat(p, times), np.repeat(y, times)))


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, math.nan], [0.0, 0.0], [[1.0, 1.0]]])
def test_what_cannot_be_weights_is_a_data_error(weights):
    for metric in (brier_score, skill_score, log_loss, expected_calibration_error):
        with pytest.raises(DataError, match="weights"):
            metric([0.2, 0.8], [False, True], weights=weights)


@pytest.mark.parametrize(
    ("edge", "partner", "together"),
    [
        (0.0, 0.05, True),
        (0.1, 0.05, False),  # left-closed: 0.1 belongs to the second bin
        (0.1, 0.15, True),
        (0.3, 0.25, False),  # linspace(0, 1, 11)[3] is above 0.3 and would put it in the third bin
        (0.3, 0.35, True),
        (0.7, 0.65, False),
        (0.9, 0.95, True),
        (1.0, 0.95, True),  # the last bin is closed
        (0.9, 0.85, False),
    ],
)
def test_bin_edges(edge, partner, together):
    # One right, one wrong: in one bin the gaps p and 1 - q offset each other, in two they add up.
    gap = expected_calibration_error([edge, partner], [False, True])
    one_bin, two_bins = abs(edge + partner - 1) / 2, (edge + 1 - partner) / 2
    assert one_bin != pytest.approx(two_bins) or edge == 0.0
    assert gap == pytest.approx(one_bin if together else two_bins)


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("p", "y"),
    [
        *((wrong, [True]) for wrong in ([math.nan], [1.0000001], [-0.1], ["a"])),
        *(([0.5], wrong) for wrong in ([True, False], [2], [math.nan])),
        *(([], []), ([[0.5]], [[True]]), (0.5, True), ("a", "b")),
    ],
)
def test_what_cannot_be_measured_is_refused(metric, p, y):
    with pytest.raises(DataError):
        metric(p, y)


def simulated(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1, n)
    return p, rng.random(n) < p


def test_a_bootstrap_interval_of_a_mean_is_the_textbook_one():
    p, y = simulated(2000, 0)
    interval = bootstrap_interval(lambda _, b: float(np.mean(b)), p, y)
    half = 1.96 * math.sqrt(y.mean() * (1 - y.mean()) / y.size)
    assert interval.value == pytest.approx(y.mean())
    assert interval.low == pytest.approx(y.mean() - half, abs=half / 5)
    assert interval.high == pytest.approx(y.mean() + half, abs=half / 5)


def test_items_of_one_group_are_drawn_together():
    # 40 groups of 25 equal labels carry as much as 40 labels: the interval is 5 times as wide.
    rng = np.random.default_rng(1)
    labels = np.repeat(rng.random(40) < 0.5, 25)
    groups = np.repeat(np.arange(40), 25)
    order = rng.permutation(labels.size)
    p = np.full(labels.size, 0.5)

    def width(groups):
        interval = bootstrap_interval(lambda _, b: float(np.mean(b)), p, labels[order], groups)
        return interval.high - interval.low

    assert width(groups[order]) / width(None) == pytest.approx(5.0, rel=0.2)


def test_intervals_are_reproducible_and_fast():
    p, y = simulated(2000, 2)
    groups = np.arange(2000) // 40
    start = time.process_time()
    first = summarise(p, y, groups)
    assert time.process_time() - start < 10.0
    assert first == summarise(p, y, groups)
    assert first != summarise(p, y, groups, seed=1)
    assert set(first) == {"skill", "auc", "brier", "logLoss", "baseRate", "ece"}
    assert all(i.low <= i.value <= i.high for i in first.values())


def test_no_bounds_where_there_is_nothing_to_resample():
    p, y = simulated(50, 3)
    alone = bootstrap_interval(brier_score, p, y, np.zeros(50))
    assert (alone.low, alone.high) == (None, None)
    one_class = bootstrap_interval(auc, p, np.ones(50, dtype=bool))
    assert one_class == type(one_class)(None, None, None)


def test_the_calibrated_band_knows_that_ece_is_biased_upward():
    p, y = simulated(50, 4)
    calibrated = calibrated_band(expected_calibration_error, p, y)
    assert calibrated.low > 0.03
    assert calibrated.low < calibrated.value < calibrated.high
    overconfident = calibrated_band(expected_calibration_error, np.sqrt(np.sqrt(p)), y)
    assert overconfident.value > overconfident.high


@pytest.mark.parametrize("metric", ALL)
@given(items=st.lists(pair, min_size=1, max_size=200), seed=st.integers(0, 9))
def test_a_metric_of_drawn_items_is_the_metric_of_their_copies(metric, items, seed):
    p, y = split(items)
    drawn = np.random.default_rng(seed).integers(p.size, size=p.size)
    assert np.array_equal(of_items(metric, p, y)(drawn), metric(p[drawn], y[drawn]), equal_nan=True)


@pytest.mark.parametrize("metric", [auc, skill_score])
def test_one_class_is_warned_of_with_n(metric):
    with pytest.warns(CalibrationWarning, match="all 3 labels are of one class") as record:
        assert math.isnan(metric([0.1, 0.5, 0.9], [False] * 3))
    assert record[0].filename == __file__


def test_quiet_is_quiet_and_ends():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quietly():
            auc([0.5], [True])
    with pytest.warns(CalibrationWarning):
        auc([0.5], [True])


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text(encoding="utf-8"))
OURS = {
    "netcal ECE": expected_calibration_error,
    "netcal ECE, equal mass": lambda p, y, bins: expected_calibration_error(p, y, bins, "mass"),
    "torchmetrics l1": expected_calibration_error,
    "torchmetrics AUROC": lambda p, y, _: auc(p, y),
}
# torchmetrics has ranks in single precision.
SINGLE = {"torchmetrics AUROC"}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.filterwarnings("ignore::lsp_calib.calibration.arrays.CalibrationWarning")
def test_metrics(name):
    cases = [case for case in GOLDEN["cases"].values() if name in case["values"]]
    assert len(cases) >= 2
    for case in cases:
        ours = OURS[name](case["confidence"], np.array(case["correct"], dtype=bool), GOLDEN["bins"])
        assert ours == pytest.approx(case["values"][name], abs=2e-7 if name in SINGLE else 1e-9)
