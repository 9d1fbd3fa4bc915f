"""Progress of summaries and calibration in the client, for clients that show it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.progress import Progress


class SummaryProgress:
    """`window/workDoneProgress` for a summary that a hover did not wait for. Cancelling it stops the work.

    work_done: the client's progress bars; None if it shows none.
    """

    def __init__(self, work_done: Progress | None) -> None:
        self._work_done = work_done
        self._shown: set[asyncio.Task[None]] = set()

    def follow(self, work: asyncio.Task[Any], name: str) -> None:
        """Show that work goes on until it ends. name: of the function that is summarised."""
        if self._work_done is not None:
            showing = asyncio.create_task(_follow(self._work_done, work, name))
            self._shown.add(showing)
            showing.add_done_callback(self._shown.discard)

    def stop(self) -> None:
        for showing in self._shown:
            showing.cancel()


async def _follow(work_done: Progress, work: asyncio.Task[Any], name: str) -> None:
    bar = await ProgressBar.begun(work_done, "lsp-calib", f"Summarising {name}", work.cancel)
    await asyncio.wait({work})
    bar.end()


class ProgressBar:
    """One bar in the client, which the user can cancel; where the client shows none, it does nothing."""

    def __init__(self, work_done: Progress | None, token: str) -> None:
        self._work_done = work_done
        self._token = token
        self._shown = ""

    @classmethod
    async def begun(
        cls, work_done: Progress | None, title: str, message: str, cancel: Callable[[], object]
    ) -> ProgressBar:
        """A bar that is shown now. work_done: the client's bars; None if it shows none. cancel: stops the
        work."""
        token = str(uuid.uuid4())
        if work_done is None:
            return cls(None, token)
        try:
            await work_done.create_async(token)
        except Exception:  # noqa: BLE001 - a client that refuses progress gets none
            return cls(None, token)
        loop = asyncio.get_running_loop()
        # The future is cancelled by the client's message.
        work_done.tokens[token].add_done_callback(lambda _: loop.call_soon_threadsafe(cancel))
        work_done.begin(token, types.WorkDoneProgressBegin(title, cancellable=True, message=message))
        return cls(work_done, token)

    def report(self, done: int, of_all: int) -> None:
        """Show how many of the lines are done."""
        if self._work_done is None or of_all < 1:
            return
        message = f"{done} of {of_all} lines"
        if message != self._shown:
            self._shown = message
            value = types.WorkDoneProgressReport(message=message, percentage=min(100, 100 * done // of_all))
            self._work_done.report(self._token, value)

    def end(self, message: str | None = None) -> None:
        """Take the bar away. message: what came of the work."""
        if self._work_done is not None:
            self._work_done.tokens.pop(self._token, None)
            self._work_done.end(self._token, types.WorkDoneProgressEnd(message=message))
