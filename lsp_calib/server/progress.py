"""Progress of the model's loading and of summaries, for clients that show it."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from lsprotocol import types
from pygls.progress import Progress

from lsp_calib.inference.engine import EngineState


class LoadProgress:
    """`window/workDoneProgress` from the start of loading to its end.

    work_done: the client's progress bars; None if it shows none.
    """

    def __init__(self, work_done: Progress | None) -> None:
        self._work_done = work_done
        self._token: str | None = None
        self._begun = False
        self._creating: asyncio.Task[None] | None = None

    def update(self, state: EngineState, message: str, fraction: float | None) -> None:
        """Show the state of the engine. fraction: loaded so far, in [0, 1]; None if that is not known."""
        if self._work_done is None:
            return
        if state is EngineState.LOADING:
            if self._token is None:
                self._token = str(uuid.uuid4())
                self._creating = asyncio.create_task(self._begin(self._work_done, self._token, message))
            elif self._begun and fraction is not None:
                report = types.WorkDoneProgressReport(percentage=round(100 * fraction))
                self._work_done.report(self._token, report)
        elif self._token is not None:
            token, begun = self._token, self._begun
            self._token, self._begun = None, False
            if begun:
                self._work_done.end(token, types.WorkDoneProgressEnd(message=message))

    async def _begin(self, work_done: Progress, token: str, message: str) -> None:
        try:
            await work_done.create_async(token)
        except Exception:  # noqa: BLE001 - a client that refuses progress gets none
            self._token = None
            return
        if self._token != token:
            return  # the loading ended before the client had answered
        self._begun = True
        work_done.begin(token, types.WorkDoneProgressBegin(title="lsp-calib", message=message, percentage=0))


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
    token = str(uuid.uuid4())
    try:
        await work_done.create_async(token)
    except Exception:  # noqa: BLE001 - a client that refuses progress gets none
        return
    loop = asyncio.get_running_loop()
    # The future is cancelled by the client's message, in the event loop.
    work_done.tokens[token].add_done_callback(lambda _: loop.call_soon_threadsafe(work.cancel))
    work_done.begin(
        token,
        types.WorkDoneProgressBegin(title="lsp-calib", message=f"Summarising {name}", cancellable=True),
    )
    await asyncio.wait({work})
    del work_done.tokens[token]
    work_done.end(token, types.WorkDoneProgressEnd())
