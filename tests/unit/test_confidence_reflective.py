"""What a model says about its own answer: true or false, a probability in words, a rating."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.studies.measures import (
    Stated,
    TrueFalse,
    contained_true_false,
    majority_vote,
    parse_probability,
    parse_rating,
    stated,
    token_positions,
    true_token,
)


def position(**probabilities):
    """Alternatives; "_" before a word stands for a space."""
    return [(word.replace("_", " "), math.log(p)) for word, p in probabilities.items()]


BLANK, WORD = position(_=0.9), position(True_=0.8)


@pytest.mark.parametrize(
    ("positions", "true", "false"),
    [
        ([position(TRUE=0.2, true=0.3, _False=0.1, falsey=0.25)], 0.3, 0.25),
        ([BLANK, WORD], 0.8, None),
        ([BLANK, BLANK, WORD], None, None),
    ],
)
def test_the_most_probable_of_the_first_two_tokens_that_contains_the_word_counts(positions, true, false):
    assert contained_true_false(positions) == TrueFalse(
        *(None if one is None else pytest.approx(one) for one in (true, false))
    )


def test_virk_wants_the_word_as_it_is_written():
    assert true_token(position(_True=0.25, true=0.5, TRUE=0.1)) == pytest.approx(0.25)
    assert true_token(position(true=0.5, Truer=0.2)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80%", 0.8),
        ("The probability is about 80.", 0.8),
        ("80 percent", 0.8),
        ("**80**%", 0.8),
        ("Probability: 80", 0.8),
        ("Probability (0-100): 80", 0.8),
        ("0%", 0.0),
        ("0", 0.0),
        ("0.8 (80%)", 0.8),
        ("I would say 80%. There is a 20% chance that it fails.", 0.8),
        ("On a scale of 0 to 1, 0.7", 0.7),
        ("about 150", None),
        ("only 3 tests pass", None),
        ("", None),
        ("It is a fifty-fifty chance.", None),
        ("4/5", None),
        ("The probability is high. It handles 3 cases.", None),
        ("1", None),
        ("150%", None),
        ("1,000%", None),
        ("confidence: 2/0", None),
    ],
)
def test_a_probability_in_every_form_and_other_numbers_are_none(text, expected):
    assert parse_probability(text) == expected


@given(text=st.text(alphabet=st.sampled_from("0123456789.,%/-– probability isoutf\n"), max_size=40))
def test_whatever_is_read_is_a_probability(text):
    found = parse_probability(text)
    assert found is None or 0.0 <= found <= 1.0


def test_the_first_stated_probability_counts_and_without_any_it_is_even():
    assert stated(["no", "30%", "80%"]) == Stated(0.3, 2, fell_back=False)
    assert stated(["no"] * 4) == Stated(0.5, 4, fell_back=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("**4**", 4),
        ("3/4", 3),
        ("On a scale from 1 to 4, I would rate this summary a 3.", 3),
        ("3 - Agree", 3),
        ("Score: 3, since it says what matters", 3),
        ("", None),
        ("I cannot rate this.", None),
        ("2 or 3", None),
        ("3,4", None),
        ("5", None),
        ("2.5", None),
    ],
)
def test_ratings_in_every_form(text, expected):
    assert parse_rating(text) == expected


@pytest.mark.parametrize(
    ("answers", "rating", "invalid", "mean"),
    [
        (["4", "1", "4", "1"], 1, 0, 0.5),  # the lower of two that draw
        (["4", "2", "?", "2", "2", "4"], 2, 1, (3 * 1 + 2 * 3) / 15),
        (["?", "5"], None, 2, None),
    ],
)
def test_the_majority_of_the_valid_samples_decides(answers, rating, invalid, mean):
    vote = majority_vote(answers)
    assert (vote.rating, vote.invalid) == (rating, invalid)
    assert vote.mean_confidence == (None if mean is None else pytest.approx(mean))
    assert vote.confidence == (None if rating is None else pytest.approx((rating - 1) / 3))


def test_positions_count_only_the_generations_that_reach_them():
    positions = token_positions([np.log([0.2, 0.5]), np.log([0.4]), np.log([0.9, 0.7, 0.1])], least=2)
    assert positions.position.tolist() == [1, 2]
    assert positions.n.tolist() == [3, 2]
    assert positions.mean == pytest.approx([0.5, 0.6])
    assert positions.median == pytest.approx([0.4, 0.6])
    assert (positions.low[1], positions.high[1]) == pytest.approx((0.55, 0.65))
