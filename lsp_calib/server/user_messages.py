"""What a user is shown of the server's work: messages, faults once, and progress for clients that show it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from lsprotocol import types
from pygls.progress import Progress

from lsp_calib.inference.engine import EngineState
from lsp_calib.server.connection import Connection

logger = logging.getLogger(__name__)


class UserMessages:
    """Shows each error and warning once, until `forget`; no message after `stop`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._shown: set[str] = set()
        self._stopped = False

    def error(self, message: str) -> None:
        self._once([message], types.MessageType.Error)

    def warn(self, *messages: str) -> None:
        """Show those of the messages that are new, one a line."""
        self._once(messages, types.MessageType.Warning)

    def inform(self, message: str) -> None:
        """Show a message, also if it was shown before."""
        if not self._stopped:
            self._connection.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))

    def log(self, sentence: str) -> None:
        """A line in the editor's log; no message that interrupts."""
        logger.info("%s", sentence)
        if not self._stopped:
            self._connection.window_log_message(types.LogMessageParams(types.MessageType.Info, sentence))

    def forget(self) -> None:
        """From now on the same errors and warnings are shown again."""
        self._shown.clear()

    def stop(self) -> None:
        self._stopped = True

    def _once(self, messages: Iterable[str], kind: types.MessageType) -> None:
        new = [message for message in dict.fromkeys(messages) if message not in self._shown]
        if new and not self._stopped:
            self._shown.update(new)
            self._connection.window_show_message(types.ShowMessageParams(kind, "\n".join(new)))


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
            self._work_done = None
            return
        if self._work_done is None or self._token != token:
            return  # the loading ended before the client had answered, or the client had refused another bar
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
