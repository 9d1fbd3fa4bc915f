"""The timer by which suggestions settle when nothing else happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from feedback_scene import URI, suggestion

from lsp_calib.feedback.events import SETTLE_AFTER, Event, How
from lsp_calib.server.events import Events, SuggestionsFollowed
from lsp_calib.server.suggestion_tracking import Forwards, SuggestionTracking


async def test_the_timer_survives_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a failure the next attempt comes after a pause."""
    recorded: list[Sequence[Event]] = []
    events = Events()
    events.on(SuggestionsFollowed, lambda one: recorded.append(one.events))
    tracking = SuggestionTracking(events, retry=0.05)
    tracker, now = tracking._tracker, time.time()
    tracker.shown(URI, ["x = ", "y = "], 0, "x = 1", suggestion("1", "due"), now - 100)
    tracker.shown(URI, ["x = ", "y = "], 1, "y = 1", suggestion("1", "due later"), now - 99)
    tracker.requested(URI, 0, now - SETTLE_AFTER + 0.1)
    with monkeypatch.context() as broken:
        broken.setattr(tracker, "tick", None)
        tracking._tick()
    assert "The next attempt is in" in caplog.text
    for _ in range(500):
        if recorded:
            break
        await asyncio.sleep(0.01)
    assert [event.suggestion_id for events in recorded for event in events if event.label] == ["due later"]


def test_a_clock_that_is_set_back_makes_nothing_wait() -> None:
    times = iter([100.0, 101.0, 102.0, 42.0, 43.0, 44.5, 200.0])
    now = Forwards(lambda: next(times))
    assert [now() for _ in range(6)] == [101.0, 102.0, 102.0, 103.0, 104.5, 260.0]


async def test_what_was_read_counts_as_read_after_the_clock_was_set_back() -> None:
    recorded: list[Event] = []
    clock = [10_000.0]
    lines = ["x = ", "y = "]
    events = Events()
    events.on(SuggestionsFollowed, lambda one: recorded.extend(one.events))
    tracking = SuggestionTracking(events, lambda: clock[0])
    tracking._tracker.shown(URI, lines, 0, "x = 1", suggestion("1", "read"), clock[0])
    clock[0] -= 3600.0
    tracking._now()
    clock[0] += 5.0
    tracking.requested(URI, 1)
    clock[0] += SETTLE_AFTER
    tracking._tick()
    settled = [event for event in recorded if event.label is not None]
    assert [event.label.how for event in settled if event.label] == [How.IGNORED]
    tracking.close({URI: tuple})
