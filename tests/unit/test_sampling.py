"""Log-probabilities and choices against float64, the slow way."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp
from scipy.stats import chisquare

from lsp_calib.inference.local.run import Normaliser

rows = arrays(
    np.float32, st.integers(1, 2000), elements=st.floats(-60, 60, width=32), fill=st.floats(-9, 9, width=32)
)
temperatures = st.sampled_from([0.25, 0.5, 1.0, 1.5, 4.0])
NORMALISER = Normaliser(200_000)


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    scaled = logits.astype(np.float64) / temperature
    return np.exp(scaled - logsumexp(scaled))


@given(rows, temperatures)
def test_the_denominator_is_that_of_float64(logits: np.ndarray, temperature: float) -> None:
    exact = logsumexp(logits.astype(np.float64) / temperature)
    assert NORMALISER.distribution(logits, temperature).log_sum_exp == pytest.approx(exact, abs=2e-6)


def test_over_a_whole_vocabulary_it_is_as_exact() -> None:
    logits = np.random.default_rng(0).normal(0, 3, 151_936).astype(np.float32)
    before = logits.copy()
    assert NORMALISER.distribution(logits).log_sum_exp == pytest.approx(
        logsumexp(logits.astype(np.float64)), abs=3e-7
    )
    assert (logits == before).all(), "the model's own array is left alone"


def test_logits_of_minus_infinity_have_no_probability() -> None:
    logits = np.array([0.0, -np.inf, 0.0], np.float32)
    assert NORMALISER.distribution(logits).log_sum_exp == pytest.approx(math.log(2))
    assert NORMALISER.distribution(logits).entropy() == pytest.approx(math.log(2))
    assert {NORMALISER.draw(logits, 1.0, u) for u in np.linspace(0, 0.999, 50)} == {0, 2}


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_noticed(wrong: float) -> None:
    assert not math.isfinite(NORMALISER.distribution(np.array([0.0, wrong], np.float32)).log_sum_exp)
    assert not math.isfinite(NORMALISER.distribution(np.full(3, -np.inf, np.float32)).log_sum_exp)


@given(rows, temperatures, st.floats(0, 1, exclude_max=True))
def test_a_draw_is_where_the_distribution_passes_the_uniform_number(
    logits: np.ndarray, temperature: float, uniform: float
) -> None:
    drawn = NORMALISER.draw(logits, temperature, uniform)
    below = softmax(logits, temperature).cumsum()
    assert below[drawn] >= uniform - 1e-5
    assert drawn == 0 or below[drawn - 1] <= uniform + 1e-5


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_draws_have_the_distribution_of_the_softmax(temperature: float) -> None:
    random = np.random.default_rng(5)
    logits = random.normal(0, 1.5, 1300).astype(np.float32)  # more than one block
    drawn = [NORMALISER.draw(logits, temperature, random.random()) for _ in range(20_000)]
    expected = 20_000 * softmax(logits, temperature)
    groups = np.arange(logits.size) // 20
    counts = np.bincount(groups[drawn], minlength=groups[-1] + 1)
    assert chisquare(counts, np.bincount(groups, weights=expected)).pvalue > 1e-3
