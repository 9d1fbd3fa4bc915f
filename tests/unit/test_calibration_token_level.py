"""Full-ECE and classwise ECE: by hand, and against the formulas written out; the temperature of tokens."""

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import DataError
from lsp_calib.studies.token_level import (
    Entries,
    classwise_ece,
    fit_token_temperature,
    full_ece,
    log_sum_exp,
)

K4 = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.2, 0.2, 0.6, 0.0], [0.05, 0.05, 0.1, 0.8]])
K4_TARGETS = np.array([0, 3, 2, 1])


def distributions(n, k, rng, dtype=np.float64):
    """Softmaxes, some of them nearly one-hot."""
    scores = rng.normal(size=(n, k)) * rng.uniform(0.1, 6.0, size=(n, 1))
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(dtype)


def entries_of(p, targets, above=0.0):
    """p: a distribution each row. above: smaller entries are left out."""
    rows, columns = np.nonzero(p > above)
    at = np.arange(len(p)), np.asarray(targets)
    return Entries(p.sum(axis=0, dtype=np.float64), columns, p[rows, columns], at[1], p[at])


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


@given(
    n=st.integers(1, 12),
    k=st.integers(1, 8),
    bins=st.sampled_from([1, 2, 5, 10, 37]),
    seed=st.integers(0, 1000),
)
def test_the_formulas_hold_also_where_small_entries_are_not_known(n, k, bins, seed):
    rng = np.random.default_rng(seed)
    p, targets = distributions(n, k, rng), rng.integers(k, size=n)
    p[0] = np.eye(k)[0] if k == 1 else np.array([0.5, 0.5] + [0.0] * (k - 2))  # on the edge of two bins
    for above in (0.0, 1 / 37):
        entries = entries_of(p, targets, above)
        assert full_ece(entries, bins) == pytest.approx(by_the_formula(p, targets, bins, False), abs=1e-9)
        assert classwise_ece(entries, bins) == pytest.approx(by_the_formula(p, targets, bins, True), abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_edges_belong_to_the_bin_below_in_the_type_that_was_given(dtype):
    p = np.array([[0.3, 0.7], [0.25, 0.75]], dtype=dtype)
    assert full_ece(entries_of(p, [0, 1])) == pytest.approx((0.45 + 0.7 + 0.25) / 2, abs=1e-3)
    p = np.array([[0.29, 0.71], [0.285, 0.715]], dtype=dtype)
    assert full_ece(entries_of(p, [0, 1]), 100) == pytest.approx((0.425 + 0.71 + 0.285) / 2, abs=1e-3)


@pytest.mark.parametrize("metric", [full_ece, classwise_ece])
def test_what_is_none_is_refused(metric):
    entries = entries_of(K4, K4_TARGETS)
    with pytest.raises(DataError, match="no positions"):
        metric(attrs.evolve(entries, target=entries.target[:0], target_value=entries.target_value[:0]))
    with pytest.raises(DataError, match="0 to 3"):
        metric(attrs.evolve(entries, target=np.array([0, 3, 2, 4])))
    with pytest.raises(DataError, match="at least 1"):
        metric(entries, 0)


def test_token_temperature_is_found_from_sums_alone():
    rng = np.random.default_rng(0)
    logits = 2.0 * rng.normal(size=(3000, 50))
    true_temperature = 1.6
    p = np.exp(logits / true_temperature)
    p /= p.sum(axis=1, keepdims=True)
    target = np.array([rng.choice(50, p=row) for row in p])
    grid = np.exp(np.linspace(np.log(0.5), np.log(4.0), 25))
    sums = log_sum_exp(logits, grid)
    found = fit_token_temperature(logits[np.arange(3000), target], sums, grid)
    assert found == pytest.approx(true_temperature, rel=0.05)
