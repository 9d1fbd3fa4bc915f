"""The pause of automatic completions that the user asks for. It ends with the session at the latest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pause:
    """Begins and ends the pause. on_change: called after each change."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._message = ""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def message(self) -> str:
        """For how long, a sentence; "" if there is no pause."""
        return self._message

    def begin(self, minutes: float | None) -> None:
        """Pause from now on, for so many minutes, or until `end`. It replaces an earlier pause."""
        self.stop()
        self._message = "Completions are paused until you resume them."
        if minutes is not None:
            unit = "minute" if minutes == 1 else "minutes"
            self._message = f"Completions are paused for {minutes:g} {unit}."
            self._timer = asyncio.get_running_loop().call_later(60 * minutes, self.end)
        self._on_change()

    def end(self) -> None:
        """Resume. Without a pause this does nothing."""
        if self._message:
            self.stop()
            self._on_change()

    def stop(self) -> None:
        """End the pause without telling anyone: the session closes."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._message = None, ""
