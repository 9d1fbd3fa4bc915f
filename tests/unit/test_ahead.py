"""Which places are worth evaluating before the first key, and how much that may cost."""

from __future__ import annotations

import random

import pytest

from lsp_calib.feedback.lines import LineMap
from lsp_calib.server import ahead
from lsp_calib.server.ahead import Budget, Place, Places

A, B = "file:///a.py", "file:///b.py"


class Clock:
    """Seconds that only a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def places(clock: Clock) -> Places:
    return Places(clock)


def worth(places: Places, after: str = "rest of the line") -> bool:
    assert places.here is not None
    return places.is_worth(places.here, places.here.uri, after)


def test_for_five_minutes_after_an_edit_every_place_of_a_document_is_worth_it(
    places: Places, clock: Clock
) -> None:
    places.edited(Place(A, 3, 1), A)
    places.told(Place(A, 7, 2))
    assert worth(places)
    clock.now += 299.0
    assert worth(places)
    places.told(Place(B, 7, 2))
    assert not worth(places), "another document"
    places.told(Place(A, 7, 2))
    clock.now += 2.0
    assert not worth(places)


@pytest.mark.parametrize(("after", "is_worth"), [("", True), ("  ", True), (") {", False), ("x", False)])
def test_elsewhere_the_end_of_a_line_is(places: Places, after: str, is_worth: bool) -> None:
    places.told(Place(A, 7, 2))
    assert worth(places, after) is is_worth


def test_the_place_where_a_document_was_opened_is_unless_it_is_the_beginning(places: Places) -> None:
    for line, column, is_worth in ((4, 2, True), (0, 0, False)):
        places.opened(A)
        places.told(Place(A, line, column))
        assert worth(places) is is_worth
    places.opened(A)
    places.told(Place(A, 4, 2))
    places.told(Place(A, 5, 2))
    assert not worth(places), "the cursor has moved since"


def test_a_document_that_is_opened_again_is_entered_where_it_was_edited_last(places: Places) -> None:
    places.edited(Place(A, 3, 1), A)
    places.edited(Place(B, 9, 0), B)
    places.closed(A)
    places.closed(B)
    assert places.here is None
    assert places.opened(A)
    assert places.here == Place(A, 3, 1)
    places.told(Place(B, 1, 0))
    assert not places.opened(A), "the client says where its cursor is"
    assert places.here == Place(B, 1, 0)


def test_what_requests_are_about_counts_until_the_client_says_where_its_cursor_is(places: Places) -> None:
    assert places.seen(Place(A, 1, 0))
    assert not places.seen(Place(A, 1, 0)), "the same place"
    assert places.told(Place(A, 2, 0))
    assert not places.seen(Place(A, 3, 0)), "the mouse, perhaps"
    assert places.here == Place(A, 2, 0)
    assert places.asked(Place(A, 4, 0))


@pytest.mark.parametrize(
    ("line", "now"), [(0, 0), (1, None), (2, None), (3, 2)], ids=["above", "first", "second", "below"]
)
def test_the_cursor_stays_in_its_line_where_a_program_changes_others(
    places: Places, line: int, now: int | None
) -> None:
    places.told(Place(A, line, 1))
    where = LineMap(("a", "b", "c", "d"), ("a", "x", "d"))
    assert places.shifted(A, where) is (line > 0)
    assert (places.here and places.here.line) == now


def test_in_no_window_more_is_spent_than_the_budget(clock: Clock) -> None:
    """Whenever work begins it takes at most what is left then; it counts as it ends."""
    draw = random.Random(5)
    budget = Budget(clock)
    done: list[tuple[float, float]] = []  # begin, seconds
    for _ in range(400):
        clock.now += draw.expovariate(0.3)
        while wait := budget.wait():
            clock.now += wait
        assert budget.left() >= ahead._LEAST - 1e-9, "what was waited for"
        seconds = min(draw.uniform(0.0, 12.0), budget.left())
        done.append((clock.now, seconds))
        clock.now += seconds / 2  # on two threads
        budget.spend(seconds)
    for start, _ in done:
        end = start + ahead.WINDOW
        inside = (max(min(end, at + s / 2) - max(start, at), 0.0) * 2 for at, s in done)
        assert sum(inside) <= ahead.BUDGET + 1e-6
    assert sum(seconds for _, seconds in done) > 0.5 * ahead.BUDGET * (clock.now - 1000.0) / ahead.WINDOW
