"""Measures that look at more than log-probabilities: which tokens count, entropies, lengths, positions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.confidence import (
    SELECTIONS,
    TokenSelection,
    entropy_confidence,
    length_confidence,
    normalised_entropy_confidence,
    relative_length,
    token_entropies,
    token_positions,
    token_texts,
)
from lsp_calib.errors import DataError
from lsp_calib.values import Generation, Stop, Timing, Token

texts = st.lists(st.sampled_from(["x", " y", " ", "\t", "\n", "  \n", ")\n", "", "</s>"]), max_size=8)


def counted(texts, **left_out):
    return [texts[at] for at in TokenSelection(**left_out).indices(texts)]


def test_each_choice_leaves_out_its_own_tokens_and_no_others():
    answer = ["    ", "\t", "return", " x", " ", "y", "\n", "<|endoftext|>"]
    assert counted(answer) == answer
    assert counted(answer, leading_space=False) == answer[2:]
    assert counted(answer, newline=False) == [*answer[:6], "<|endoftext|>"]
    assert counted(answer, end_of_text=False) == answer[:7]
    assert counted(answer, leading_space=False, newline=False, end_of_text=False) == answer[2:6]


def test_a_token_with_text_before_its_newline_counts():
    assert counted(["f(x", ")\n"], newline=False) == ["f(x", ")\n"]


def test_only_the_last_newline_is_the_one_that_ended_the_answer():
    assert counted(["a", "\n", "b", "\n"], newline=False) == ["a", "\n", "b"]


def test_control_text_inside_an_answer_is_text():
    assert counted(["</s>", "x"], end_of_text=False) == ["</s>", "x"]


def test_an_answer_of_nothing_but_what_is_left_out_has_no_tokens():
    assert counted([" ", "\n", ""], leading_space=False, newline=False, end_of_text=False) == []
    assert counted(["", ""], leading_space=False) == [""]
    assert counted([]) == []


@given(answer=texts)
def test_every_selection_keeps_a_subsequence_and_all_visible_text(answer):
    for selection in SELECTIONS:
        kept = selection.indices(answer)
        assert list(kept) == sorted(set(kept))
        body = answer[:-1]
        assert {at for at, text in enumerate(body) if text.strip()} <= set(kept)
    assert TokenSelection().indices(answer) == tuple(range(len(answer)))


def test_selections_are_eight_with_different_names():
    assert len({selection.name for selection in SELECTIONS}) == 8
    assert SELECTIONS[0].name == "all"


def test_log_probabilities_follow_their_texts():
    assert TokenSelection(newline=False).select(["x", "\n"], [-1.0, -2.0]) == (-1.0,)
    with pytest.raises(DataError, match="2 texts do not belong to 1"):
        TokenSelection().select(["x", "\n"], [-1.0])


@pytest.mark.parametrize(
    ("stop", "last", "expected"),
    [
        (Stop.LINE, "", ("x", "\n")),
        (Stop.LINE, ")", ("x", ")")),
        (Stop.END_OF_TEXT, "", ("x", "")),
        (Stop.LENGTH, " ", ("x", " ")),
    ],
)
def test_the_newline_that_ended_a_generation_is_put_back(stop, last, expected):
    tokens = (Token(1, -0.1, 0.0, "x"), Token(2, -0.2, 0.0, last))
    assert token_texts(Generation(f"x{last}", tokens, stop, Timing())) == expected
    assert token_texts(Generation("", (), stop, Timing())) == ()


def test_entropy_of_known_distributions():
    uniform = np.log(np.full(8, 1 / 8))
    sure = np.array([0.0, *[-math.inf] * 7])
    entropies = token_entropies([uniform, sure])
    assert entropies == pytest.approx([math.log(8), 0.0])
    assert entropy_confidence(entropies[:1]) == pytest.approx(1 / 8)
    assert entropy_confidence(entropies) == pytest.approx(8**-0.5)
    assert entropy_confidence(entropies, first=1) == pytest.approx(1 / 8)
    assert normalised_entropy_confidence(entropies, 8) == pytest.approx(0.5)


@given(
    weights=st.lists(st.lists(st.floats(1e-6, 1.0), min_size=5, max_size=5), min_size=1, max_size=6),
)
def test_entropy_is_between_that_of_certainty_and_of_no_idea(weights):
    p = np.array(weights) / np.sum(weights, axis=1, keepdims=True)
    entropies = token_entropies(np.log(p))
    assert np.all((entropies >= 0.0) & (entropies <= math.log(5)))
    assert 1 / 5 - 1e-12 <= entropy_confidence(entropies) <= 1.0
    assert 0.0 <= normalised_entropy_confidence(entropies, 5) <= 1.0


def test_the_likeliest_tokens_alone_have_no_entropy():
    with pytest.raises(DataError, match="whole softmax"):
        token_entropies(np.log([[0.5, 0.2]]))


@pytest.mark.parametrize("bad", [[0.0], [[]], [[math.nan, 0.0]]])
def test_impossible_distributions_are_refused(bad):
    with pytest.raises(DataError):
        token_entropies(bad)


@pytest.mark.parametrize("bad", [[], [-0.1], [math.nan], [math.inf], [[1.0]]])
def test_impossible_entropies_are_refused(bad):
    with pytest.raises(DataError):
        entropy_confidence(bad)
    with pytest.raises(DataError):
        normalised_entropy_confidence(bad, 8)


def test_entropies_that_the_vocabulary_cannot_have_are_refused():
    with pytest.raises(DataError, match="more than 2 tokens can have"):
        normalised_entropy_confidence([1.0], 2)
    with pytest.raises(DataError, match="nothing to choose"):
        normalised_entropy_confidence([0.0], 1)
    with pytest.raises(DataError, match="at least 1"):
        entropy_confidence([0.1], first=0)


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
