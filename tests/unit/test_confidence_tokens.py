"""Measures that look at more than log-probabilities: entropies, lengths, positions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.confidence.measures import (
    entropy_confidence,
    length_confidence,
    relative_length,
    token_positions,
)
from lsp_calib.errors import DataError


def test_entropy_of_known_distributions():
    entropies = np.array([math.log(8), 0.0])  # of eight equal tokens, and of a sure one
    assert entropy_confidence(entropies[:1]) == pytest.approx(1 / 8)
    assert entropy_confidence(entropies) == pytest.approx(8**-0.5)


@given(
    weights=st.lists(st.lists(st.floats(1e-6, 1.0), min_size=5, max_size=5), min_size=1, max_size=6),
)
def test_entropy_is_between_that_of_certainty_and_of_no_idea(weights):
    p = np.array(weights) / np.sum(weights, axis=1, keepdims=True)
    entropies = -np.sum(p * np.log(p), axis=1)
    assert 1 / 5 - 1e-12 <= entropy_confidence(entropies) <= 1.0


@pytest.mark.parametrize("bad", [[], [-0.1], [math.nan], [math.inf], [[1.0]]])
def test_impossible_entropies_are_refused(bad):
    with pytest.raises(DataError):
        entropy_confidence(bad)


def test_both_lengths_of_the_paper():
    assert length_confidence([5, 10, 25, 30, 99], [30, 10, 20]).tolist() == [1.0, 1.0, 0.25, 0.0, 0.0]
    assert relative_length([5, 10, 25]).tolist() == [0.0, 0.25, 1.0]


@given(
    lengths=st.lists(st.integers(0, 500), min_size=2, max_size=30, unique=True),
    references=st.lists(st.integers(0, 500), min_size=2, max_size=30, unique=True),
)
def test_lengths_are_confidences_in_opposite_order(lengths, references):
    ordered = sorted(lengths)
    shorter_is_surer, longer_is_surer = length_confidence(ordered, references), relative_length(ordered)
    assert np.all(np.diff(shorter_is_surer) <= 0)
    assert np.all(np.diff(longer_is_surer) > 0)
    assert 0.0 <= shorter_is_surer.min() <= shorter_is_surer.max() <= 1.0
    assert longer_is_surer[0] == 0.0
    assert longer_is_surer[-1] == 1.0


@pytest.mark.parametrize("bad", [[], [-1, 2], [math.nan, 1], [7, 7], [[1, 2]]])
def test_lengths_without_a_scale_are_refused(bad):
    with pytest.raises(DataError):
        relative_length(bad)
    with pytest.raises(DataError):
        length_confidence([1], bad)


def test_positions_count_only_the_generations_that_reach_them():
    positions = token_positions([np.log([0.2, 0.5]), np.log([0.4]), np.log([0.9, 0.7, 0.1])], least=2)
    assert positions.position.tolist() == [1, 2]
    assert positions.n.tolist() == [3, 2]
    assert positions.mean == pytest.approx([0.5, 0.6])
    assert positions.median == pytest.approx([0.4, 0.6])
    assert positions.low[1] == pytest.approx(0.55)
    assert positions.high[1] == pytest.approx(0.65)


@pytest.mark.parametrize(("logprobs", "least"), [([], 1), ([[]], 1), ([[-1.0]], 2), ([[-1.0]], 0)])
def test_positions_that_too_few_reach_are_refused(logprobs, least):
    with pytest.raises(DataError):
        token_positions(logprobs, least=least)
