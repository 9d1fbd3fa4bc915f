"""What is observed of a distribution equals the slow way over the whole softmax."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp
from scipy.stats import entropy

from lsp_calib.inference.engine import Observe
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.inference.local.run import Normaliser, Observer, best_two

# The last one is a control token, which ends the text.
PIECES = [
    *(
        b"\n",
        b"\n\n",
        b" \n",
        b"\t\r\n    ",
        b"\r\n",
        b")\n",
        b" x\n",
        b"x",
        b" ",
        b"  ",
        b"\t",
        b"ab",
        b"abc",
    ),
    *(b"ab\n", b"ab \n", b"ab\nc", b"a", b"b", b"\xc3", b""),
]
END = len(PIECES) - 1
VOCABULARY = Vocabulary(PIECES, lambda text: [PIECES.index(text[:1])])
OBSERVER = Observer(VOCABULARY)
NORMALISER = Normaliser(200_000)
ALL = Observe.ENTROPY | Observe.MARGIN
rows = st.lists(st.floats(-30, 30, width=32), min_size=len(PIECES), max_size=len(PIECES)).map(
    lambda row: np.array(row, np.float32)
)


@given(rows)
def test_all_is_that_of_the_whole_softmax(logits: np.ndarray) -> None:
    seen = OBSERVER.observe(ALL, NORMALISER.distribution(logits), logits)
    assert seen is not None
    exact = log_softmax(logits.astype(np.float64))
    assert seen.entropy == pytest.approx(entropy(np.exp(exact)), abs=1e-4)
    best, second = sorted(logits.tolist(), reverse=True)[:2]
    assert seen.margin == pytest.approx(best - second, abs=1e-5)
    assert seen.second is not None
    assert logits[seen.second] == second
    assert seen.second != logits.argmax() or best == second


@given(rows, st.sampled_from([b"ab", b" ", b"a"]))
def test_after_typed_characters_all_but_the_entropy_is_given_these(
    logits: np.ndarray, remaining: bytes
) -> None:
    allowed = VOCABULARY.allowed(remaining)
    among = logits[allowed]
    seen = OBSERVER.observe(ALL, NORMALISER.distribution(logits), among, allowed)
    assert seen is not None
    exact = log_softmax(logits.astype(np.float64))
    assert seen.entropy == pytest.approx(entropy(np.exp(exact)), abs=1e-4)
    assert seen.second in allowed
    best, second = sorted(among.tolist(), reverse=True)[:2]
    assert seen.margin == pytest.approx(best - second, abs=1e-5)


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


def test_over_a_whole_vocabulary_the_entropy_is_as_exact() -> None:
    random = np.random.default_rng(0)
    for spread in (0.5, 3.0, 8.0):
        logits = random.normal(0, spread, 151_936).astype(np.float32)
        before = logits.copy()
        distribution = NORMALISER.distribution(logits)
        exact = log_softmax(logits.astype(np.float64))
        some = random.integers(0, logits.size, 2000)
        assert distribution.log_probability(np.unique(some)) == pytest.approx(
            logsumexp(exact[np.unique(some)]), abs=1e-5
        )
        assert distribution.entropy() == pytest.approx(entropy(np.exp(exact)), abs=2e-5)
        assert (logits == before).all(), "the model's own array is left alone"


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
    b"True",
    b" true",
    b"TRUE.",
    b"untrue",
    b"Tr",
    b"\nFalse",
    b'"false"',
    b"falsely",
    b"1",
    b" 1",
    b"11",
]
WORDS = Observer(Vocabulary(ANSWERS, lambda _: []))


@given(
    st.lists(st.floats(-30, 30, width=32), min_size=len(ANSWERS), max_size=len(ANSWERS)).map(
        lambda row: np.array(row, np.float32)
    )
)
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
