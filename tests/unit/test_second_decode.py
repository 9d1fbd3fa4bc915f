"""The second answer: which way it takes, and how far it agrees."""

from __future__ import annotations

import functools
import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.corpus.second_answer import agreement, edit_similarity, point_of_doubt, second_request
from lsp_calib.inference.engine import Observe, Priority, Request
from lsp_calib.values import Generation, Observation, Prompt, Segment, Stop, Timing, Token

REQUEST = Request(
    Prompt(((Segment.TEXT, "a"),), " ", "v"), 64, Priority.BACKGROUND, observe=Observe.MARGIN, reuse=False
)
texts = st.text("ab(", max_size=7)


def token(id: int, text: str, logprob: float, margin: float = 0.25, second: int | None = 90) -> Token:
    return Token(id, logprob, 0.0, text, seen=Observation(margin=margin, second=second))


FIRST = Generation(
    "run(x)",
    (token(5, "run", -0.1), token(6, "(x", -1.5, margin=0.5), token(7, ")", -0.2), token(8, "", -4.0)),
    Stop.LINE,
    Timing(),
    healing=(3,),
)


def test_the_other_way_is_taken_at_the_least_likely_token_of_the_text() -> None:
    """The line's end is less likely still: it adds no text."""
    assert point_of_doubt(FIRST) == 1
    request = second_request(REQUEST, FIRST)
    assert request == attrs.evolve(REQUEST, given=(3, 5, 90), observe=Observe.NOTHING)


def test_the_rest_is_compared_and_its_probability_is_that_of_the_whole_way() -> None:
    second = Generation("run(yy)  ", (Token(9, -0.25, 0.0, "y)  "),), Stop.LINE, Timing(generated_tokens=1))
    found = agreement(FIRST, second)
    assert (found.at, found.tokens) == (1, 1)
    assert found.similarity == pytest.approx(edit_similarity("(x)", "(yy)"))
    assert found.logprob == pytest.approx(-1.5 - 0.5 - 0.25)


@pytest.mark.parametrize(
    "tokens",
    [
        (),
        (token(8, "", -1.0),),
        (token(5, "run", -0.1, second=None),),
        (Token(5, -0.1, 0.0, "run"),),
    ],
    ids=["no tokens", "no text", "one token alone could come", "nothing observed"],
)
def test_where_there_is_no_other_way_there_is_no_request(tokens: tuple[Token, ...]) -> None:
    assert second_request(REQUEST, Generation("", tokens, Stop.LINE, Timing())) is None


@given(texts, texts)
def test_the_similarity_is_that_of_levenshtein(one: str, other: str) -> None:
    @functools.cache
    def distance(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(distance(a[1:], b[1:]) + (a[0] != b[0]), distance(a[1:], b) + 1, distance(a, b[1:]) + 1)

    found = edit_similarity(one, other)
    assert found == edit_similarity(other, one)
    assert (found == 1.0) == (one == other)
    assert math.isclose(found, 1.0 - distance(one, other) / max(len(one), len(other), 1))
