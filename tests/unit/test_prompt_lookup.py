"""Counting what prompt lookup would save: the drafts, and the passes with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_lookup import Answer, counted, draft

tokens = st.lists(st.integers(0, 3), max_size=30)


def test_a_draft_is_what_followed_the_longest_match_that_came_last() -> None:
    assert draft([1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3], most=2) == [7, 9], "three are the same, further up"
    assert draft([4, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3], most=2) == [8, 1], "two are, twice"
    assert draft([1, 2, 3], most=2) == []


@given(tokens, st.integers(1, 8))
def test_a_draft_was_there(context: list[int], most: int) -> None:
    found = list(draft(context, most))
    assert len(found) <= most
    text = context[-2:] + found
    at = range(len(context) - 1)
    assert not found or any(context[start : start + len(text)] == text for start in at)


@pytest.mark.parametrize(
    ("most", "passes", "accepted"),
    [
        (1, {1: 1, 2: 2}, 2),
        (4, {1: 1, 5: 1}, 4),
    ],
)
def test_a_pass_gives_what_is_accepted_and_one_token_more(
    most: int, passes: dict[int, int], accepted: int
) -> None:
    copied = Answer(prompt=[1, 2, 3, 4, 5, 6, 7], tokens=[2, 3, 4, 5, 6, 7])
    count = counted([copied], most)
    assert count.passes == passes
    assert count.accepted == accepted
    assert count.tokens == 5, "the first comes with the prompt"


@given(tokens, tokens, st.integers(1, 8))
def test_all_tokens_come_in_no_more_passes_than_tokens(
    prompt: list[int], answer: list[int], most: int
) -> None:
    count = counted([Answer(prompt, answer)], most)
    assert count.tokens == max(len(answer) - 1, 0)
    assert count.accepted <= count.drafted
    assert count.passes.total() <= count.tokens
    assert count.passes.total() + count.accepted >= count.tokens


def test_a_speed_weighs_the_passes() -> None:
    count = counted([Answer([1, 2, 3, 4, 5, 6, 7], [2, 3, 4, 5, 6, 7])], 4)
    assert count.speed({1: 1.0, 5: 1.0}) == pytest.approx(5 / 2)
    assert count.speed({1: 1.0, 5: 4.0}) == pytest.approx(1.0)
