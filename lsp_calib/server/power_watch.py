"""Whether the machine runs on its battery, without ever waiting for the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from lsp_calib.power import on_battery

# Seconds for which a reading counts.
_FRESH = 10.0


class PowerWatch:
    """Reads the source of power in a thread, when somebody wants to know and the last reading is old.

    read: True on battery, None if that is not known. clock: seconds that only grow.
    """

    def __init__(
        self, read: Callable[[], bool | None] = on_battery, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._known: bool | None = None
        self._at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    def on_battery(self) -> bool:
        """As it was at the last reading. Until the first one, and where it is not known: mains."""
        is_old = self._at is None or self._clock() - self._at > _FRESH
        if is_old and self._reading is None:
            self._reading = asyncio.create_task(self._look())
        return bool(self._known)

    async def close(self) -> None:
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _look(self) -> None:
        try:
            self._known = await asyncio.to_thread(self._read)
        finally:
            self._at, self._reading = self._clock(), None
