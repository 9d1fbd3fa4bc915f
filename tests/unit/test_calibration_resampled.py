"""Metrics of resamples: the same bits as the metric itself, only faster."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.scores import (
    auc,
    brier_score,
    expected_calibration_error,
    log_loss,
    skill_score,
)
from lsp_calib.calibration.validation import of_items, of_labels

METRICS = [brier_score, skill_score, log_loss, auc, expected_calibration_error]
pairs = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=200)


@pytest.mark.parametrize("metric", METRICS)
@given(items=pairs, seed=st.integers(0, 9))
def test_a_metric_of_drawn_items_is_the_metric_of_their_copies(metric, items, seed):
    p, y = np.array([p for p, _ in items]), np.array([y for _, y in items])
    drawn = np.random.default_rng(seed).integers(p.size, size=p.size)
    with quietly():
        assert np.array_equal(of_items(metric, p, y)(drawn), metric(p[drawn], y[drawn]), equal_nan=True)


@pytest.mark.parametrize("metric", METRICS)
@given(items=pairs, seed=st.integers(0, 9))
def test_a_metric_of_other_labels_is_the_metric_of_the_pairs(metric, items, seed):
    p = np.array([p for p, _ in items])
    labels = np.random.default_rng(seed).random(p.size) < p
    with quietly():
        assert np.array_equal(of_labels(metric, p)(labels), metric(p, labels), equal_nan=True)
