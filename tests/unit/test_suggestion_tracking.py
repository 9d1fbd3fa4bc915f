"""The timer by which suggestions settle when nothing else happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from feedback_scene import URI, suggestion

from lsp_calib.feedback.events import Event
from lsp_calib.feedback.followed import SETTLE_AFTER
from lsp_calib.server import suggestion_tracking
from lsp_calib.server.suggestion_tracking import SuggestionTracking


async def test_the_timer_survives_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a failure the next attempt comes after a pause."""
    monkeypatch.setattr(suggestion_tracking, "RETRY", 0.05)
    recorded: list[Sequence[Event]] = []

    def record(events: Sequence[Event]) -> None:
        recorded.append(events)
        if len(recorded) == 1:
            raise RuntimeError("The store's thread is gone.")

    tracking = SuggestionTracking(
        lambda _: None,
        on_first_shown=lambda *_: None,
        on_events=record,
        on_marks_changed=lambda _: None,
    )
    tracker, now = tracking._tracker, time.time()
    tracker.shown(URI, ["x = ", "y = "], 0, "x = 1", suggestion("1", "due"), now - 100)
    tracker.shown(URI, ["x = ", "y = "], 1, "y = 1", suggestion("1", "due later"), now - 99)
    tracker.requested(URI, 0, now - SETTLE_AFTER + 0.1)
    tracking._tick()
    assert "The next attempt is in" in caplog.text
    for _ in range(500):
        if len(recorded) > 1:
            break
        await asyncio.sleep(0.01)
    assert [event.suggestion_id for event in recorded[1]] == ["due later"]
