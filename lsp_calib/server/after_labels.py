"""What follows from new labels: the watch over certificates soon, a refit once the user pauses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.self_refit import LEAST_NEW

logger = logging.getLogger(__name__)

# Seconds after the first of several labels, which often come together, as on a save.
SOON = 1.0
# Seconds without a change or a request after which nobody is typing. A refit takes a second or two of a
# processor.
IDLE = 20.0


class AfterLabels:
    """Calls `watch` soon after labels, and `refit` when the user pauses: once at the start, then after every
    LEAST_NEW labels, since it reads what is stored.

    watch: counts and watches the new labels. refit: refits where enough is new. Both raise LspCalibError,
    which is logged: neither was asked for by the user.
    """

    def __init__(self, watch: Callable[[], Awaitable[None]], refit: Callable[[], Awaitable[None]]) -> None:
        self._watch = watch
        self._refit = refit
        self._new = 0
        self._due = False
        self._soon: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def begin(self) -> None:
        """Labels may be left from an earlier session, or be used in another way from now on."""
        self._due = True
        self.labelled(0)

    def labelled(self, n: int) -> None:
        """There are n new labels."""
        if self._stopped:
            return
        self._new += n
        self._due = self._due or self._new >= LEAST_NEW
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(SOON, self._begin_watch)
        self.active()

    def active(self) -> None:
        """The user is at work: a change, or a request."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._due and not self._stopped:
            self._idle = asyncio.get_running_loop().call_later(IDLE, self._begin_refit)

    def stop(self) -> None:
        """Begin nothing more, and stop what goes on."""
        self._stopped = True
        for timer in (self._soon, self._idle):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _begin_watch(self) -> None:
        self._soon = None
        self._begin(self._watch())

    def _begin_refit(self) -> None:
        self._idle, self._new, self._due = None, 0, False
        self._begin(self._refit())

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logged(work: Awaitable[None]) -> None:
    try:
        await work
    except LspCalibError as error:
        logger.warning("New labels could not be used: %s", error)
