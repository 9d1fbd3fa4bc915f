"""The end of a bench before its end: its time limit, Ctrl-C, or a signal to terminate."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from lsp_calib.errors import LspCalibError


class Stopped(enum.StrEnum):
    """Why a bench did not come to its end."""

    LIMIT = "limit"
    INTERRUPT = "SIGINT"
    TERMINATE = "SIGTERM"

    @property
    def words(self) -> str:
        return _WORDS[self]

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells have it; 0 at the limit, an end that was asked for."""
        return _EXIT_CODES[self]


_WORDS = {
    Stopped.LIMIT: "at its time limit",
    Stopped.INTERRUPT: "by Ctrl-C",
    Stopped.TERMINATE: "by a signal to terminate",
}
_EXIT_CODES = {Stopped.LIMIT: 0, Stopped.INTERRUPT: 130, Stopped.TERMINATE: 143}


async def until_stopped(work: Coroutine[Any, Any, None], limit: float) -> Stopped | None:
    """Do `work`; at the limit (seconds, 0 for none) or at a signal cancel it, and say why.

    What it has started is ended before this returns. Raises what `work` raises before it is stopped.
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
            # What `asyncio.run` makes of Ctrl-C. A second one ends the program at once.
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
