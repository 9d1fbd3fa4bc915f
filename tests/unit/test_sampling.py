"""Log-probabilities, choices, and what is observed of a distribution, against float64, the slow way."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, logsumexp
from scipy.stats import chisquare, entropy

from lsp_calib.inference.engine import Observe
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.inference.local.run import Normaliser, Observer, best_two

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
    random = np.random.default_rng(0)
    for spread in (0.5, 3.0, 8.0):
        logits = random.normal(0, spread, 151_936).astype(np.float32)
        before = logits.copy()
        found, double = NORMALISER.distribution(logits), logits.astype(np.float64)
        exact = log_softmax(double)
        assert found.log_sum_exp == pytest.approx(logsumexp(double), abs=3e-7)
        some = np.unique(random.integers(0, logits.size, 2000))
        assert found.log_probability(some) == pytest.approx(logsumexp(exact[some]), abs=1e-5)
        assert found.entropy() == pytest.approx(entropy(np.exp(exact)), abs=2e-5)
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


# The last one is a control token, which ends the text.
PIECES = [
    *(b"\n", b"\n\n", b" \n", b"\t\r\n    ", b"\r\n", b")\n", b" x\n", b"x", b" ", b"  ", b"\t", b"ab"),
    *(b"abc", b"ab\n", b"ab \n", b"ab\nc", b"a", b"b", b"\xc3", b""),
]
VOCABULARY = Vocabulary(PIECES, lambda text: [PIECES.index(text[:1])])
OBSERVER = Observer(VOCABULARY)


def rows_of(pieces: list[bytes]) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float32, len(pieces), elements=st.floats(-30, 30, width=32))


@given(rows_of(PIECES), st.sampled_from([b"", b"ab", b" ", b"a"]))
def test_what_is_observed_is_that_of_the_softmax(logits: np.ndarray, remaining: bytes) -> None:
    """After typed characters all but the entropy is given these."""
    allowed = VOCABULARY.allowed(remaining) if remaining else np.arange(logits.size)
    among = logits[allowed]
    chosen = (among, allowed) if remaining else (among,)
    seen = OBSERVER.observe(Observe.ENTROPY | Observe.MARGIN, NORMALISER.distribution(logits), *chosen)
    assert seen is not None
    exact = log_softmax(logits.astype(np.float64))
    assert seen.entropy == pytest.approx(entropy(np.exp(exact)), abs=1e-4)
    best, second = sorted(among.tolist(), reverse=True)[:2]
    assert seen.margin == pytest.approx(best - second, abs=1e-5)
    assert seen.second in allowed
    assert logits[seen.second] == second
    assert seen.second != allowed[among.argmax()] or best == second


def test_what_is_not_wanted_is_not_observed() -> None:
    logits = np.zeros(len(PIECES), np.float32)
    distribution = NORMALISER.distribution(logits)
    assert OBSERVER.observe(Observe.NOTHING, distribution, logits) is None
    seen = OBSERVER.observe(Observe.ENTROPY, distribution, logits)
    assert seen is not None
    assert seen.entropy == pytest.approx(math.log(len(PIECES)))
    assert (seen.margin, seen.second) == (None, None)


def test_one_token_that_alone_can_come_has_no_second() -> None:
    logits = np.zeros(len(PIECES), np.float32)
    allowed = np.array([3])
    distribution = NORMALISER.distribution(logits)
    seen = OBSERVER.observe(Observe.MARGIN, distribution, logits[allowed], allowed)
    assert seen is not None
    assert (seen.margin, seen.second) == (100.0, None)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_the_best_two_are_the_largest_and_the_second_largest(values: list[int]) -> None:
    first, second = best_two(np.array(values, np.float32))
    descending = sorted(values, reverse=True)
    assert values[first] == descending[0]
    assert (second is None) == (len(values) == 1)
    if second is not None:
        assert first != second
        assert values[second] == descending[1]


ANSWERS = [
    *(b"True", b" true", b"TRUE.", b"untrue", b"Tr", b"\nFalse", b'"false"', b"falsely", b"1", b" 1", b"11")
]
WORDS = Observer(Vocabulary(ANSWERS, lambda _: []))


@given(rows_of(ANSWERS))
def test_the_probability_of_a_word_is_that_of_all_tokens_that_spell_it(logits: np.ndarray) -> None:
    asked = ("true", "False", "1", "2")
    seen = WORDS.answer(asked, logits, NORMALISER.distribution(logits))
    exact = log_softmax(logits.astype(np.float64))
    own = {
        word: [at for at, piece in enumerate(ANSWERS) if piece.decode().strip('. "\n').lower() == word]
        for word in ("true", "false")
    }
    true, false, one, two = seen.words
    assert true == pytest.approx(logsumexp(exact[own["true"]]), abs=1e-4)
    assert false == pytest.approx(logsumexp(exact[own["false"]]), abs=1e-4)
    assert one == pytest.approx(logsumexp(exact[[8, 9]]), abs=1e-4)
    assert two == -200.0, "no token spells it"
    best = sorted(exact, reverse=True)[:5]
    assert [logprob for _, logprob in seen.likeliest] == pytest.approx(best, abs=1e-4)
    at = {piece.decode(): n for n, piece in enumerate(ANSWERS)}
    assert all(exact[at[text]] == pytest.approx(logprob, abs=1e-4) for text, logprob in seen.likeliest)


def test_fewer_tokens_than_are_told_are_all_told() -> None:
    few = Observer(Vocabulary([b"true", b"false"], lambda _: []))
    logits = np.array([1.0, 2.0], np.float32)
    seen = few.answer(("true",), logits, NORMALISER.distribution(logits))
    assert [text for text, _ in seen.likeliest] == ["false", "true"]
