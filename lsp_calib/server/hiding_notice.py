"""The message on what `hideBelow` would have hidden: once for each value that the user sets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.replay import Replay
from lsp_calib.files import write_atomically

logger = logging.getLogger(__name__)


class HidingNotice:
    """Shows a replay of the user's own history when the limit has changed.

    replay: the replay for a limit. Raises LspCalibError.
    show: shows the user a message.
    memory: the file that holds the limit of the last message, so that the next start does not repeat it.
    """

    def __init__(
        self, replay: Callable[[float], Awaitable[Replay]], show: Callable[[str], None], memory: Path
    ) -> None:
        self._replay = replay
        self._show = show
        self._memory = memory
        self._limit: float | None = None  # the one in force, None before the start
        self._task: asyncio.Task[None] | None = None

    def apply(self, limit: float) -> None:
        """The limit in force from now on; 0: nothing is hidden."""
        before, self._limit = self._limit, limit
        if limit == before:
            return
        self.stop()
        if limit and (before is not None or limit != self._told()):
            self._task = asyncio.create_task(self._tell(limit))
        elif before:
            # Turned off: the next limit is a new decision, even if it is the same number.
            self._memory.unlink(missing_ok=True)

    def stop(self) -> None:
        """Show no message that is not shown yet."""
        if self._task is not None:
            self._task.cancel()

    async def _tell(self, limit: float) -> None:
        try:
            replay = await self._replay(limit)
        except LspCalibError as error:
            logger.warning("What hideBelow would have hidden is not known: %s", error)
            return
        self._show(replay.sentence)
        with contextlib.suppress(OSError):
            write_atomically(self._memory, str(limit).encode(), 0o600, durable=False)

    def _told(self) -> float | None:
        try:
            return float(self._memory.read_text("ascii"))
        except (OSError, ValueError):
            return None
