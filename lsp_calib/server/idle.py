"""What is done when the user does nothing: which work, after how many seconds, and what stops it.

Work for the very next key (`WorkAhead`), which begins with the answer and not in a pause, and the search for
examples (`ExampleIndex`), which a summary waits for, are no idle work; both ask `Admission.may_work_ahead`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import attrs

from lsp_calib.errors import LspCalibError

logger = logging.getLogger(__name__)
Clock = Callable[[], float]
"""Seconds."""


@attrs.frozen
class Pace:
    """Seconds without the user. summaries: then the user reads, thinks or is away, and may ask for what is on
    the screen. refit: nobody is typing; it takes a second or two of a processor. watch: after the first of
    several labels, which often come together, as on a save.
    """

    summaries: float = 5.0
    refit: float = 20.0
    watch: float = 1.0


class IdleWork:
    """Work that begins once nothing has happened for some seconds, each time that `wait` was called.

    piece: does it. A LspCalibError is logged: the user has asked for nothing. stops: whether `wait` stops it.
    """

    def __init__(self, name: str, after: float, piece: Callable[[], Awaitable[None]], *, stops: bool) -> None:
        self._name, self._after, self._piece, self._stops = name, after, piece, stops
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def wait(self) -> None:
        """Something has happened: begin so many seconds from now."""
        self.stop()
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(self._after, self._begin)

    def stop(self) -> None:
        """Do nothing until something happens; what is begun ends if it can be stopped."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and self._stops:
            self._task.cancel()

    async def close(self) -> None:
        """End it for good."""
        self._closed = self._stops = True
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._do())
        else:
            self.wait()

    async def _do(self) -> None:
        try:
            await self._piece()
        except LspCalibError as error:
            logger.warning("Idle work (%s) could not be done: %s", self._name, error)
        except Exception:
            logger.exception("Idle work (%s) has failed.", self._name)
