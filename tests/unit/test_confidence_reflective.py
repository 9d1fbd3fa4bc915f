"""What a model says about its own answer: true or false, a probability in words, a rating."""

import math
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.errors import DataError
from lsp_calib.studies.measures import (
    Stated,
    TrueFalse,
    contained_true_false,
    majority_vote,
    parse_probability,
    parse_rating,
    stated,
    true_token,
)


def position(**probabilities):
    """Alternatives; "_" before a word stands for a space."""
    return [(word.replace("_", " "), math.log(p)) for word, p in probabilities.items()]


def test_the_most_probable_token_that_contains_the_word_counts_in_any_case():
    answer = contained_true_false([position(TRUE=0.2, true=0.3, _False=0.1, falsey=0.25)])
    assert answer.true == pytest.approx(0.3)
    assert answer.false == pytest.approx(0.25)


def test_two_answered_tokens_are_looked_at_and_no_third():
    blank, word = position(_=0.9), position(True_=0.8)
    assert contained_true_false([blank, word]).true == pytest.approx(0.8)
    assert contained_true_false([blank, blank, word]) == TrueFalse(None, None)


def test_five_alternatives_are_looked_at_and_no_sixth():
    others = {"a": 0.3, "b": 0.2, "c": 0.1, "d": 0.09}
    assert contained_true_false([position(true=0.05, **others)]).true == pytest.approx(0.05)
    assert contained_true_false([position(true=0.05, e=0.06, **others)]) == TrueFalse(None, None)
    assert true_token(position(True_=0.05, e=0.06, **others)) is None


def test_virk_wants_the_word_as_it_is_written():
    assert true_token(position(_True=0.25, true=0.5, TRUE=0.1)) == pytest.approx(0.25)
    assert true_token(position(true=0.5, Truer=0.2)) is None


@pytest.mark.parametrize("bad", [math.nan, 0.1])
def test_impossible_alternatives_are_refused(bad):
    for rule in (lambda x: contained_true_false([x]), true_token):
        with pytest.raises(DataError, match="True"):
            rule([("True", bad)])


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
        ("0.8", 0.8),
        ("On a scale of 0 to 1, 0.7", 0.7),
        ("about 150", None),
        ("only 3 tests pass", None),
    ],
)
def test_a_probability_in_every_form(text, expected):
    assert parse_probability(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The 3 tests pass.",
        "It is a fifty-fifty chance.",
        "4/5",
        "The probability is high. It handles 3 cases.",
        "1",
        "150%",
        "1,000%",
        "confidence: 2/0",
    ],
)
def test_other_numbers_are_no_probability(text):
    assert parse_probability(text) is None


@given(text=st.text(alphabet=st.sampled_from("0123456789.,%/-– probability isoutf\n"), max_size=40))
def test_whatever_is_read_is_a_probability(text):
    found = parse_probability(text)
    assert found is None or 0.0 <= found <= 1.0


def test_after_three_more_answers_it_is_even():
    asked = count()
    assert stated(f"no number {'x' * next(asked)}" for _ in range(10)) == Stated(0.5, 4, fell_back=True)
    assert next(asked) == 4


def test_giving_up_early_is_refused():
    with pytest.raises(DataError, match="up to 4"):
        stated(["no", "no"])
    with pytest.raises(DataError, match="up to 4"):
        stated([])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("**4**", 4),
        ("3/4", 3),
        ("Score: 3", 3),
        ("On a scale from 1 to 4, I would rate this summary a 3.", 3),
        ("3 - Agree", 3),
        ("", None),
        ("I cannot rate this.", None),
        ("2 or 3", None),
        ("3,4", None),
        ("Score: 3, since it says what matters", 3),
        ("Strongly agree", None),
        ("5", None),
        ("2.5", None),
    ],
)
def test_ratings_in_every_form(text, expected):
    assert parse_rating(text) == expected


def test_the_majority_of_the_valid_samples_decides():
    assert majority_vote(["4", "1", "4", "1"]).rating == 1, "the lower of two that draw"
    vote = majority_vote(["4", "2", "?", "2", "2", "4"])
    assert (vote.rating, vote.counts, vote.invalid) == (2, (0, 3, 0, 2), 1)
    assert vote.confidence == pytest.approx(1 / 3)
    assert vote.mean_confidence == pytest.approx((3 / 3 + 2 * 1) / 5)


def test_samples_without_a_rating_make_an_invalid_answer():
    vote = majority_vote(["?", "5"])
    assert (vote.rating, vote.confidence, vote.mean_confidence, vote.invalid) == (None, None, None, 2)
    with pytest.raises(DataError):
        majority_vote([])
