"""Stops a bench early: at its time limit, on Ctrl-C, or on a signal to terminate."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from lsp_calib.errors import LspCalibError


class Stopped(enum.StrEnum):
    """Why a bench was stopped early."""

    LIMIT = "limit"
    INTERRUPT = "SIGINT"
    TERMINATE = "SIGTERM"

    @property
    def words(self) -> str:
        return _WORDS[self]

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as in shells; 0 at the limit, which the user asked for."""
        return _EXIT_CODES[self]


_WORDS = {
    Stopped.LIMIT: "at its time limit",
    Stopped.INTERRUPT: "by Ctrl-C",
    Stopped.TERMINATE: "by a signal to terminate",
}
_EXIT_CODES = {Stopped.LIMIT: 0, Stopped.INTERRUPT: 130, Stopped.TERMINATE: 143}


async def until_stopped(work: Coroutine[Any, Any, None], limit: float) -> Stopped | None:
    """Run `work`; cancel it at the limit (seconds, 0 for none) or on a signal. Returns the reason.

    All that `work` has started is ended before this returns. Raises the errors of `work` until it is stopped.
    """
    task = asyncio.ensure_future(work)
    why: list[Stopped] = []

    def terminate() -> None:
        why.append(Stopped.TERMINATE)
        task.cancel()

    with _on_terminate(terminate):
        try:
            done, _ = await asyncio.wait({task}, timeout=limit or None)
            if not done:
                why.append(Stopped.LIMIT)
        except asyncio.CancelledError:
            # `asyncio.run` cancels the task on Ctrl-C. A second Ctrl-C ends the program at once.
            why.append(Stopped.INTERRUPT)
            current = asyncio.current_task()
            if current is not None:
                current.uncancel()
        if not why:
            task.result()
            return None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LspCalibError, OSError):
            await task
        return why[0]


@contextlib.contextmanager
def _on_terminate(call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, call)
    except (NotImplementedError, RuntimeError, ValueError):
        yield  # Windows, or not the main thread
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
