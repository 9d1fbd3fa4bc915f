"""Full-ECE and classwise ECE: by hand, against the formulas written out, in any batches, in little memory."""

import math
import tracemalloc

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.calibration.arrays import CalibrationWarning, quietly
from lsp_calib.calibration.token_level import ClasswiseECE, Entries, FullECE
from lsp_calib.errors import DataError

BOTH = [FullECE, ClasswiseECE]

K4 = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.2, 0.2, 0.6, 0.0], [0.05, 0.05, 0.1, 0.8]])
K4_TARGETS = np.array([0, 3, 2, 1])


def distributions(n, k, rng, dtype=np.float64):
    """Softmaxes, some of them nearly one-hot."""
    scores = rng.normal(size=(n, k)) * rng.uniform(0.1, 6.0, size=(n, 1))
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(dtype)


def fed(kind, p, targets, bins=10):
    metric = kind(bins)
    metric.update(p, targets)
    return metric.result()


def by_the_formula(p, targets, bins, by_token):
    """Equations 7 and 11 of the paper, entry by entry."""
    n, k = p.shape
    cells = {}
    for i in range(n):
        for j in range(k):
            m = next(m for m in range(1, bins + 1) if p[i, j] <= m / bins)
            cells.setdefault((m, j if by_token else 0), []).append((p[i, j], targets[i] == j))
    total = 0.0
    for members in cells.values():
        confidence, accuracy = np.mean([c for c, _ in members]), np.mean([a for _, a in members])
        total += len(members) * abs(accuracy - confidence)
    return total / (n * k if by_token else n)


def test_full_ece_by_hand():
    # Bin by bin, sum of the probabilities against outcomes:
    # (0, 0.1] with 0: 0.1 x 7 + 0.05 x 2 + 0 = 0.8 against 2 (rows 2 and 4); (0.1, 0.2]: 0.4 against 0;
    # (0.5, 0.6]: 0.6 against 1; (0.6, 0.7]: 1.4 against 1; (0.7, 0.8]: 0.8 against 0. Over N = 4, not 16.
    expected = (abs(0.8 - 2) + 0.4 + abs(0.6 - 1) + abs(1.4 - 1) + 0.8) / 4
    assert fed(FullECE, K4, K4_TARGETS) == pytest.approx(expected)


def test_classwise_ece_by_hand():
    # Token 0: 0.1 0.05 | 0.2 | 0.7 hit; token 1: 0.1 0.05 hit | 0.2 | 0.7; token 2: 0.1 0.1 0.1 | 0.6 hit;
    # token 3: 0.1 0.1 0 hit | 0.8 (bins apart by a bar). Over N K = 16.
    tokens = [
        0.15 + 0.2 + abs(0.7 - 1),
        abs(0.15 - 1) + 0.2 + 0.7,
        0.3 + abs(0.6 - 1),
        abs(0.2 - 1) + 0.8,
    ]
    assert fed(ClasswiseECE, K4, K4_TARGETS) == pytest.approx(sum(tokens) / 16)


def test_the_bins_behind_it():
    full = FullECE()
    full.update(K4, K4_TARGETS)
    detail = full.detail()
    assert (detail.value, detail.positions, detail.tokens) == (full.result(), 4, 4)
    assert detail.count.tolist() == [10, 2, 0, 0, 0, 1, 2, 1, 0, 0]
    assert detail.count.sum() == 16
    assert detail.confidence[0] == pytest.approx(0.08)
    assert detail.accuracy[[0, 1, 5, 6, 7]].tolist() == [0.2, 0.0, 1.0, 0.5, 0.0]
    assert math.isnan(detail.confidence[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("value", "bins", "expected"), [(0.0, 10, 0), (0.1, 10, 0), (0.3, 10, 2), (0.29, 100, 28), (1.0, 10, 9)]
)
def test_edges_belong_to_the_bin_below(value, bins, expected, dtype):
    full = FullECE(bins)
    full.update(np.array([[value, 1.0 - value]], dtype=dtype), [0])
    assert full.detail().accuracy[expected] > 0.0


@given(
    n=st.integers(1, 12),
    k=st.integers(1, 8),
    bins=st.sampled_from([1, 2, 5, 10, 37]),
    seed=st.integers(0, 1000),
    cut=st.integers(0, 12),
)
@pytest.mark.filterwarnings("ignore::lsp_calib.calibration.arrays.CalibrationWarning")
def test_the_formulas_hold_for_any_batches_and_order(n, k, bins, seed, cut):
    rng = np.random.default_rng(seed)
    p, targets = distributions(n, k, rng), rng.integers(k, size=n)
    order = rng.permutation(n)
    for kind in BOTH:
        metric = kind(bins)
        metric.update(p[order][:cut], targets[order][:cut])
        metric.update(p[order][cut:], targets[order][cut:])
        value = metric.result()
        assert value == pytest.approx(by_the_formula(p, targets, bins, kind is ClasswiseECE), abs=1e-9)
        assert 0.0 <= value <= (2.0 if kind is FullECE else 1.0)
        metric.update(p, targets)  # everything twice
        assert metric.result() == pytest.approx(value, abs=1e-12)
        assert metric.positions == 2 * n


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float16, 1e-3)])
def test_short_floats(kind, dtype, tolerance):
    rng = np.random.default_rng(0)
    p, targets = distributions(200, 50, rng), rng.integers(50, size=200)
    assert fed(kind, p.astype(dtype), targets) == pytest.approx(fed(kind, p, targets), abs=tolerance)


def test_a_calibrated_model_and_an_overconfident_one():
    rng = np.random.default_rng(1)
    p = distributions(5000, 30, rng)
    targets = np.array([rng.choice(30, p=row) for row in p])
    sharp = p**2 / np.sum(p**2, axis=1, keepdims=True)
    assert fed(FullECE, p, targets) < 0.05 < 0.15 < fed(FullECE, sharp, targets)


def test_how_often_each_token_came():
    metric = ClasswiseECE()
    metric.update(K4, K4_TARGETS)
    metric.update(K4[:1], [3])
    assert metric.outcomes.tolist() == [1, 1, 1, 2]


@pytest.mark.parametrize("kind", BOTH)
def test_a_vocabulary_streams_in_little_memory(kind):
    k = 150_000
    rng = np.random.default_rng(2)
    batch = distributions(8, k, rng, np.float32)
    targets = rng.integers(k, size=8)
    tracemalloc.start()
    try:
        metric = kind(10)
        for _ in range(3):
            metric.update(batch, targets)
        metric.result()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30e6, "the blocks, and 8 K bytes for classwise"


def test_what_is_known_of_its_entries_counts_like_the_whole():
    rng = np.random.default_rng(5)
    p, targets = distributions(40, 30, rng, np.float32), rng.integers(30, size=40)
    p[0] = [0.5, 0.5] + [0.0] * 28  # on the edge of two bins: in the lower one
    rows, columns = np.nonzero(p > 1 / 500)
    entries = Entries(
        p.sum(axis=0, dtype=np.float64), columns, p[rows, columns], targets, p[np.arange(40), targets]
    )
    for kind in BOTH:
        for bins in (1, 2, 5, 100, 500):
            whole, counted = kind(bins), kind(bins)
            whole.update(p, targets)
            counted.add(entries)
            with quietly():
                assert counted.result() == pytest.approx(whole.result(), rel=1e-6)
    with pytest.raises(DataError, match="30 tokens each"):
        ClasswiseECE().add(attrs.evolve(entries, target=np.array([30])))


@pytest.mark.parametrize("kind", BOTH)
def test_a_memory_map_is_read_as_it_is(kind, tmp_path):
    rng = np.random.default_rng(3)
    p, targets = distributions(20, 30, rng, np.float32), rng.integers(30, size=20)
    p.tofile(tmp_path / "p.bin")
    mapped = np.memmap(tmp_path / "p.bin", dtype=np.float32, mode="r", shape=p.shape)
    assert fed(kind, mapped, targets) == fed(kind, p, targets)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("p", "targets", "complaint"),
    [
        ([0.5, 0.5], [0], "shape"),
        ([[0.5, 0.5]], [0, 1], "shape"),
        (np.zeros((1, 0)), [0], "shape"),
        ([[0.5, math.nan]], [0], "NaN"),
        ([[1.5, -0.5]], [0], "in \\[0, 1\\]"),
        ([[-0.7, -1.2]], [0], "in \\[0, 1\\]"),
        ([[0.5, 0.3]], [0], "sums to 0.8"),
        ([["a", "b"]], [0], "numbers"),
        ([[0.5, 0.5]], [2], "0 to 1"),
        ([[0.5, 0.5]], [-1], "0 to 1"),
        ([[0.5, 0.5]], [0.0], "whole numbers"),
        ([[0.2, 0.3, 0.5]], [0], "3 tokens"),
    ],
)
def test_a_refused_batch_leaves_nothing_behind(kind, p, targets, complaint):
    metric = kind()
    metric.update([[0.8, 0.2], [0.4, 0.6]], [0, 0])
    before = metric.result()
    with pytest.raises(DataError, match=complaint):
        metric.update(p, targets)
    assert (metric.result(), metric.positions) == (before, 2)


@pytest.mark.parametrize("kind", BOTH)
def test_nothing_yet_is_refused(kind):
    with pytest.raises(DataError, match="no positions"):
        kind().result()
    metric = kind()
    metric.update(np.zeros((0, 4)), np.zeros(0, dtype=int))
    with pytest.raises(DataError, match="no positions"):
        metric.result()
    with pytest.raises(DataError, match="at least 1"):
        kind(0)


def test_uniform_guesses_are_warned_of():
    full = FullECE()
    full.update(np.full((3, 20), 0.0499), [0, 1, 2])
    with pytest.warns(CalibrationWarning, match="the 3 distributions"):
        assert full.result() == pytest.approx(0.002)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_edges_are_those_of_the_type_that_was_given(dtype):
    rows = np.array([[0.3, 0.3, 0.2, 0.2]] * 4, dtype=dtype)
    full = FullECE(bins=10)
    full.update(rows, [0, 1, 2, 3])
    assert list(full.detail().count) == [0, 8, 8, 0, 0, 0, 0, 0, 0, 0]
