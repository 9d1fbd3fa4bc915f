"""One calibration at a time, and the next one after it, whatever became of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from lsp_calib.errors import SettingsError
from lsp_calib.server.refits import WorkspaceCalibration


class NeverShown:
    """An editor that does not say whether it shows progress."""

    async def create_async(self, _token: str) -> None:
        await asyncio.Event().wait()


async def test_a_request_cancelled_before_the_progress_is_shown_leaves_room_for_the_next() -> None:
    work_done: Any = NeverShown()
    wish: Any = SimpleNamespace(root=SimpleNamespace(name="project"))
    calibration = WorkspaceCalibration(work_done)
    for _ in range(2):
        running = asyncio.create_task(calibration.run(wish))
        await asyncio.sleep(0.01)
        assert not running.done()
        with pytest.raises(SettingsError, match="running already"):
            await calibration.run(wish)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
