"""Similarity of texts: greedy matching as in BERTScore, cosine of means; and the real encoder."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from encoder_scene import CARD, install, needs_encoder
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lsp_calib.corpus.thresholds import NAMES, similarities
from lsp_calib.errors import NoModelError, SettingsError
from lsp_calib.installation import how_to_install
from lsp_calib.summarization.encoder import Encoder
from lsp_calib.summarization.features import Match, TokenStates, cosine, greedy_match, plain_words

numbers = st.floats(-10.0, 10.0).filter(lambda x: abs(x) > 1e-3 or x == 0.0)


def states(tokens: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
    return tokens.flatmap(lambda n: arrays(np.float64, (n, 4), elements=numbers))


some = states(st.integers(1, 6))


def by_hand(candidate: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Precision and recall as in the equations: for each token the best cosine, then the mean."""

    def similar(a: np.ndarray, b: np.ndarray) -> float:
        lengths = float(np.sqrt(np.dot(a, a))), float(np.sqrt(np.dot(b, b)))
        return float(np.dot(a, b)) / (lengths[0] * lengths[1]) if all(lengths) else 0.0

    precision = [max(similar(x, y) for y in reference) for x in candidate]
    recall = [max(similar(x, y) for x in candidate) for y in reference]
    return sum(precision) / len(precision), sum(recall) / len(recall)


@given(some, some)
def test_greedy_matching_is_what_the_equations_say(candidate: np.ndarray, reference: np.ndarray) -> None:
    found = greedy_match(candidate, reference)
    precision, recall = by_hand(candidate, reference)
    assert found.precision == pytest.approx(precision, abs=1e-9)
    assert found.recall == pytest.approx(recall, abs=1e-9)
    if precision > 1e-6 and recall > 1e-6:
        assert found.f1 == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-6)
        assert min(precision, recall) - 1e-9 <= found.f1 <= max(precision, recall) + 1e-9


def test_no_token_matches_nothing() -> None:
    empty = np.zeros((0, 4))
    assert greedy_match(empty, np.ones((2, 4))) == Match(0.0, 0.0)
    assert greedy_match(np.ones((2, 4)), empty).f1 == 0.0
    assert Match(-0.5, -0.5).f1 == 0.0


@given(some, some)
def test_the_cosine_is_of_the_means_of_all_tokens(a: np.ndarray, b: np.ndarray) -> None:
    one, two = (TokenStates(x, np.zeros(len(x), dtype=bool)) for x in (a, b))
    found = cosine(one, two)
    assert -1.0 <= found <= 1.0
    assert found == pytest.approx(cosine(two, one), abs=1e-12)
    x, y = a.mean(axis=0), b.mean(axis=0)
    lengths = np.linalg.norm(x) * np.linalg.norm(y)
    if lengths > 1e-9:
        assert found == pytest.approx(float(x @ y / lengths), abs=1e-9)


def test_special_tokens_count_for_the_mean_and_not_for_matching() -> None:
    marked = TokenStates(np.array([[9.0, 0.0], [0.0, 1.0]]), np.array([True, False]))
    assert marked.words.tolist() == [[0.0, 1.0]]
    plain = TokenStates(np.array([[0.0, 1.0]]), np.array([False]))
    assert greedy_match(marked.words, plain.words).f1 == pytest.approx(1.0)
    assert cosine(marked, plain) < 0.2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Gets the maxSize.", "gets the max size"),
        ("an HTTPServer's get_url()", "an http server s get url"),
        ("sha256, x2 and Base64Url", "sha256 x2 and base64 url"),
        ("  \n\t--- ", ""),
        ("Größe der ÄnderungsListe", "größe der änderungs liste"),
        ("returns a <UNK> for it", "returns a unk for it"),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert plain_words(text) == expected


@given(st.text())
def test_words_are_a_fixed_point(text: str) -> None:
    once = plain_words(text)
    assert plain_words(once) == once
    assert once == " ".join(once.split())


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers"])
def test_without_the_extra_the_command_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SettingsError, match=re.escape(how_to_install("similarity"))):
        Encoder.open()


def test_without_the_files_the_command_is_named(home: Path) -> None:
    assert home.is_dir()
    with pytest.raises(NoModelError, match="lsp-calib models pull minilm-l6-v2"):
        Encoder.open()


@needs_encoder
class TestEncoder:
    @pytest.fixture
    def encoder(self, home: Path) -> Encoder:
        install(home)
        return Encoder.open()

    def test_states_and_special_tokens(self, encoder: Encoder) -> None:
        found = encoder.encode("Closes the file.")
        assert found.states.shape == (5, CARD.dimensions)
        assert found.special.tolist() == [True, False, False, False, True]
        assert encoder.encode("").words.shape == (0, CARD.dimensions)
        assert len(encoder.encode("word " * 1000).states) == CARD.most_tokens

    def test_sentences_of_one_meaning_are_nearer(self, encoder: Encoder) -> None:
        same = similarities(encoder, "Return the largest value.", "gets the maximum of the values")
        other = similarities(encoder, "Return the largest value.", "opens a connection to the server")
        assert tuple(same) == NAMES
        for name in NAMES:
            assert same[name] > other[name] + 0.1, name
        equal = similarities(encoder, "Return the largest value.", "return the LARGEST value")
        assert set(equal.values()) == {1.0}
        assert set(similarities(encoder, "...", "return").values()) == {0.0}

    def test_a_text_has_one_answer_whichever_thread_asks(self, encoder: Encoder) -> None:
        texts = [f"return the {n} largest values of a list" for n in range(8)]
        alone = [encoder.encode(text).states for text in texts]
        found: dict[str, np.ndarray] = {}

        def ask(text: str) -> None:
            found[text] = encoder.encode(text).states

        threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for text, expected in zip(texts, alone, strict=True):
            assert np.array_equal(found[text], expected)
