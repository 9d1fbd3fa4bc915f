"""Which places are kept as states, and what of them a prompt gets back. No model."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lsp_calib.inference.local.states import FEW, Held, States, Stream

EACH = 10
"""Bytes that a token takes here."""
PLACE = 300


def place(number: int, size: int = PLACE) -> list[int]:
    """Tokens that no other place has, after a head that all have."""
    return [0] * 5 + [1000 * number + n for n in range(size - 5)]


class Cache:
    """Copies what a stream holds, token by token. refuses: from now on no copy can be put back."""

    refuses = False

    def size(self, stream: Stream) -> int:
        return EACH * len(stream.tokens)

    def copy(self, stream: Stream) -> NDArray[np.uint8]:
        return np.frombuffer(b"".join(token.to_bytes(EACH, "big") for token in stream.tokens), np.uint8)

    def paste(self, stream: Stream, data: NDArray[np.uint8]) -> bool:
        raw = data.tobytes()
        stream.tokens = [int.from_bytes(raw[at : at + EACH], "big") for at in range(0, len(raw), EACH)]
        return not self.refuses


class Editor:
    """One stream and its states. places: how many of `place` the states hold."""

    def __init__(self, places: int, most: int | None = None) -> None:
        self.cache = Cache()
        self.states = States(self.cache, places * PLACE * EACH if most is None else most)
        self.stream = Stream(id=0)

    def go(self, prompt: list[int], *, typed: bool = True) -> int:
        """Evaluate a prompt; returns how many tokens that took."""
        stream, together = self.stream, len(prompt)
        self.states.come_to(stream, prompt, together, together, typed=typed)
        found = stream.reusable(prompt, together, together)
        stream.tokens, stream.together = list(prompt), together
        return together - found


tokens = st.lists(st.integers(0, 2), max_size=12)


@given(tokens, tokens, st.data())
def test_what_is_reused_was_evaluated_as_it_would_be_now(
    cached: list[int], wanted: list[int], data: st.DataObject
) -> None:
    """The tokens of a prompt together with others, those of an answer one by one."""
    before, now = (data.draw(st.integers(0, len(one)), label="together") for one in (cached, wanted))
    most = data.draw(st.integers(0, len(wanted)))
    kept = Held(tokens=cached, together=before).reusable(wanted, now, most)
    assert cached[:kept] == wanted[:kept]
    assert kept <= most
    together = 0 if now == 1 else now  # a prompt of one token is evaluated as an answer's tokens are
    assert all((at < before) == (at < together) for at in range(kept))
    assert together - kept != 1, "none is left alone"


def test_an_answer_to_a_prompt_of_one_token_is_kept() -> None:
    """As at the beginning of a document: nothing of it was evaluated together."""
    assert Held(tokens=[5, 6, 7], together=0).reusable([5, 6, 7, 8], 1, 3) == 3


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60))
def test_going_back_to_one_of_the_last_eight_places_costs_next_to_nothing(visits: list[int]) -> None:
    editor = Editor(places=8)
    lately: list[int] = []
    for number in visits:
        cost = editor.go(place(number))
        if number in lately[-8:]:
            assert cost <= FEW
        lately = [*(one for one in lately if one != number), number]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 2 * PLACE), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 4),
)
def test_states_never_take_more_than_they_may(visits: list[tuple[int, int, bool]], places: int) -> None:
    editor = Editor(places)
    for number, size, typed in visits:
        editor.go(place(number, size), typed=typed)
        assert editor.states.bytes <= places * PLACE * EACH


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(20, PLACE)), min_size=1, max_size=40))
def test_of_two_states_none_holds_what_the_other_does(visits: list[tuple[int, int]]) -> None:
    editor = Editor(places=100)
    for number, size in visits:
        editor.go(place(number, size))
    kept = editor.states._states
    for one in kept:
        assert all(one.loses(one.shares(other)) for other in kept if other is not one)


def test_who_goes_on_typing_keeps_no_copy_of_each_key() -> None:
    editor = Editor(places=8)
    text = place(1)
    editor.go(text)
    for n in range(200):
        assert editor.go([*text, n]) == 2, "the last one, and none is left alone"
        text.append(n)
    assert editor.states.bytes == 0


def test_new_lines_typed_in_a_place_drive_out_no_other() -> None:
    """Where the text below comes after that above, each new line loses it, and leaves a near copy behind."""
    editor = Editor(places=4)
    for number in (1, 2):
        editor.go(place(number))
    above, below = place(3), [7] * 100
    for n in range(40):
        above = [*above, 5000 + n, 6000 + n]
        editor.go([*above, *below])
    assert [editor.go(place(number)) for number in (1, 2)] == [0, 0]


def test_places_that_were_only_looked_at_do_not_drive_out_where_one_typed() -> None:
    editor = Editor(places=4)
    editor.go(place(1))
    for number in range(2, 9):
        editor.go(place(number), typed=False)
    assert editor.go(place(8), typed=False) == 0
    assert editor.go(place(6), typed=False) == 0, "the latest of these are kept as well"
    assert editor.go(place(1)) == 0
    for number in range(20, 40):
        editor.go(place(number), typed=False)
    assert editor.go(place(1)) > PLACE / 2, "but not for ever"


def test_an_answer_is_kept_for_who_goes_on_with_it_and_not_taken_for_a_prompt() -> None:
    editor, answered = Editor(places=8), [*place(1), *range(500, 520)]
    editor.go(place(1))
    editor.stream.tokens = list(answered)
    editor.go(place(2))
    editor.states.come_to(editor.stream, answered, PLACE, len(answered), typed=True)
    assert editor.stream.reusable(answered, PLACE, len(answered)) == len(answered)
    editor.go(place(2))
    assert editor.go([*answered, 7]) == len(answered) + 1 - PLACE


def test_a_state_that_the_library_refuses_is_evaluated_again_and_forgotten() -> None:
    editor = Editor(places=8)
    editor.go(place(1))
    editor.go(place(2))
    editor.cache.refuses = True
    assert editor.go(place(1)) == PLACE
    assert editor.go(place(2)) == PLACE
    editor.cache.refuses = False
    assert editor.go(place(1)) == 0, "kept again since"


@pytest.mark.parametrize("most", [0, PLACE * EACH - 1])
def test_a_model_of_which_one_place_is_larger_keeps_none(most: int) -> None:
    editor = Editor(0, most)
    for number in (1, 2, 1):
        assert editor.go(place(number)) > PLACE / 2
    assert editor.states.bytes == 0


def test_of_many_visits_most_cost_little_where_there_is_room_for_half_of_the_places() -> None:
    """People come back to few places often: here two visits of three are to the four latest."""
    editor, random = Editor(places=8), Random(0)
    lately: list[int] = []
    evaluated = asked = 0
    for _ in range(400):
        number = random.choice(lately[-4:]) if lately and random.random() < 2 / 3 else random.randrange(16)
        lately = [*(one for one in lately if one != number), number]
        evaluated += editor.go(place(number))
        asked += PLACE
    assert evaluated < 0.25 * asked
