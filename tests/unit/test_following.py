"""The timer by which suggestions settle when nothing else happens."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from feedback_scene import URI, suggestion

from lsp_calib.feedback.events import Event
from lsp_calib.feedback.tracker import SETTLE_AFTER
from lsp_calib.server import suggestion_tracking as following
from lsp_calib.server.suggestion_tracking import Documents


async def test_the_timer_survives_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What could not be recorded once is tried again, and not at once."""
    monkeypatch.setattr(following, "RETRY", 0.05)
    recorded: list[list[Event]] = []

    def record(events: list[Event]) -> None:
        recorded.append(events)
        if len(recorded) == 1:
            raise RuntimeError("The store's thread is gone.")

    session: Any = SimpleNamespace(feedback=SimpleNamespace(record=record))
    documents = Documents(session)
    tracker, now = documents._tracker, time.time()
    tracker.shown(URI, ["x = ", "y = "], 0, "x = 1", suggestion("1", "due"), now - 100)
    tracker.shown(URI, ["x = ", "y = "], 1, "y = 1", suggestion("1", "due later"), now - 99)
    tracker.requested(URI, 0, now - SETTLE_AFTER + 0.1)
    documents._tick()
    assert "The next attempt is in" in caplog.text
    for _ in range(500):
        if len(recorded) > 1:
            break
        await asyncio.sleep(0.01)
    assert [event.suggestion_id for event in recorded[1]] == ["due later"]
