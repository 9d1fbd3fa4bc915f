"""The doubtful word of a completion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.completion.features import doubtful_span
from lsp_calib.values import Generation, Stop, Timing, Token


def generation(*tokens: tuple[str, float]) -> Generation:
    made = tuple(Token(at, logprob, 0.0, text) for at, (text, logprob) in enumerate(tokens))
    return Generation("".join(token.text for token in made), made, Stop.LINE, Timing())


@pytest.mark.parametrize(
    ("tokens", "text", "word"),
    [
        ([("get", -0.1), ("_time", -2.0), ("out", -0.1), ("(", 0.0)], "get_timeout(", "get_timeout"),
        ([("self", -0.1), (".timeout", -2.0), (" =", -0.1)], "self.timeout =", "timeout"),
        ([("x", -0.1), (" ==", -2.0), (" 1", -0.1)], "x == 1", "=="),
        ([("a", -0.1), (" =", -0.2), ("    ", -9.0), ("b", -0.1)], "a =    b", "="),  # blanks do not count
        ([("f(x", -0.1), (")", -0.2), (")", -3.0)], "f(x)", ")"),  # the last bracket stands there already
        ([("ab", -0.1), ("", -5.0)], "ab", "ab"),  # the end of the line
        ([("a ", -1.0), ("b", -1.0)], "a b", "a"),  # the first of several
        ([("  naï", -1.0), ("ve", -0.5), (" 🐍", -0.1)], "  naïve 🐍", "naïve"),
        ([("  ", -1.0)], "", None),
        ([], "", None),
    ],
)
def test_the_word_that_holds_the_least_likely_token(
    tokens: list[tuple[str, float]], text: str, word: str | None
) -> None:
    span = doubtful_span(generation(*tokens), text)
    assert (span and text[slice(*span)]) == word


@given(st.lists(st.tuples(st.text(max_size=4), st.floats(-9, 0)), max_size=8), st.integers(0, 30))
def test_the_span_is_visible_text(tokens: list[tuple[str, float]], length: int) -> None:
    made = generation(*tokens)
    text = made.text[:length].rstrip()
    span = doubtful_span(made, text)
    assert (span is None) == (not text)
    if span is not None:
        assert 0 <= span[0] < span[1] <= len(text)
        assert not any(char.isspace() for char in text[slice(*span)])
