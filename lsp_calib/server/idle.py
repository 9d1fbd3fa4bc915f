"""What is done when the user does nothing: which work, after how many seconds, and what stops it.

One piece runs at a time, the most urgent first. Work for the very next key (`WorkAhead`), which begins with
the answer and not in a pause, and the search for examples (`ExampleIndex`), which a summary waits for, are no
idle work; both ask `Admission.may_work_ahead` as well.
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

Piece = Callable[[], Awaitable[float | None]]
"""Does the most urgent piece of a work; returns the seconds until the next one, None if there is none before
something happens."""


@attrs.frozen
class Pace:
    """Seconds without the user. summaries: then the user reads, thinks or is away, and may ask for what is on
    the screen. refit: nobody is typing; it takes a second or two of a processor. watch: after the first of
    several labels, which often come together, as on a save.
    """

    summaries: float = 5.0
    refit: float = 20.0
    watch: float = 1.0


WORK = {"summaries": True, "refit": False}
"""Each work by its name in `Pace`, the most urgent first: whether typing stops it. `Session` says what each
waits for."""


@attrs.define(eq=False)
class _Work:
    """after: seconds without its events. stops: whether they end it. at: when to begin; None: not
    before something happens."""

    name: str
    after: float
    stops: bool
    piece: Piece | None = None
    at: float | None = None


class Idle:
    """Runs idle work, in the order of `WORK`."""

    def __init__(self, pace: Pace) -> None:
        self._works = {name: _Work(name, getattr(pace, name), stops) for name, stops in WORK.items()}
        self._timer: asyncio.TimerHandle | None = None
        self._running: tuple[_Work, asyncio.Task[None]] | None = None
        self._closed = False

    def run(self, name: str, piece: Piece) -> None:
        """Have this done as the work with a name. A LspCalibError is logged: the user has asked for
        nothing."""
        self._works[name].piece = piece

    def wait(self, *names: str) -> None:
        """Something has happened: these works, or all, begin so many seconds after the last time."""
        now = asyncio.get_running_loop().time()
        for work in map(self._works.__getitem__, names or self._works):
            if work.stops and self._runs(work):
                self._cancel()
            if work.piece is not None:
                work.at = now + work.after
        self._arm()

    def resume(self) -> None:
        """What stood in the way may be gone, such as a pause."""
        for work in self._works.values():
            if work.piece is not None and work.at is None and not self._runs(work):
                work.at = asyncio.get_running_loop().time() + work.after
        self._arm()

    def stop(self) -> None:
        """Stop what can be stopped, until something happens."""
        for work in self._works.values():
            if work.stops:
                work.at = None
                if self._runs(work):
                    self._cancel()
        self._arm()

    async def close(self) -> None:
        """End all work for good."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            task = self._running[1]
            self._cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _cancel(self) -> None:
        if self._running is not None:
            self._running[1].cancel()
            self._running = None

    def _runs(self, work: _Work) -> bool:
        return self._running is not None and self._running[0] is work

    def _arm(self) -> None:
        """Wake up for the next work. A timer that is early is left as it is: keys come fast."""
        if self._closed or self._running is not None:
            return
        due = min((one.at for one in self._works.values() if one.at is not None), default=None)
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._wake)

    def _wake(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for work in self._works.values():
            if self._running is None and work.at is not None and work.at <= now and work.piece is not None:
                work.at = None
                self._running = work, asyncio.create_task(self._do(work, work.piece))
        self._arm()

    async def _do(self, work: _Work, piece: Piece) -> None:
        again = None
        try:
            again = await piece()
        except LspCalibError as error:
            logger.warning("Idle work (%s) could not be done: %s", work.name, error)
        except Exception:
            logger.exception("Idle work (%s) has failed.", work.name)
        finally:
            if self._running is not None and self._running[1] is asyncio.current_task():
                self._running = None
        if again is not None and work.at is None:
            work.at = asyncio.get_running_loop().time() + again
        self._arm()
