"""Work for requests that are likely to come, while the user reads: nobody waits for it, anything stops it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from lsp_calib.completion import CompletionService, Cursor
from lsp_calib.completion.memory import CompletionMemory
from lsp_calib.completion.next_place import next_place
from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engine import Priority
from lsp_calib.values import Prompt

logger = logging.getLogger(__name__)

# Seconds between a reply and the start of the work.
AHEAD_PAUSE = 0.05


class WorkAhead:
    """Evaluates the likely beginning of the next prompt, and completes the line after an inserted suggestion.

    memory: where completions made ahead are kept, for the request that they are made for.
    looks_ahead: whether to work ahead at all. goes_on: whether to complete the next line as well.
    hide_below: as for `CompletionRequests`.
    """

    def __init__(
        self,
        service: CompletionService,
        memory: CompletionMemory,
        *,
        looks_ahead: Callable[[], bool],
        goes_on: Callable[[], bool],
        hide_below: Callable[[], float],
    ) -> None:
        self._service = service
        self._memory = memory
        self._looks_ahead = looks_ahead
        self._goes_on = goes_on
        self._hide_below = hide_below
        self._windows: dict[str, tuple[Prompt, asyncio.Task[None]]] = {}
        self._next: asyncio.Task[None] | None = None
        self._next_in = ""

    def look_ahead(self, uri: str, cursor: Cursor) -> None:
        """Evaluate the likely beginning of the next prompt near `cursor`."""
        prompt = self._service.ahead(cursor) if self._looks_ahead() else None
        known, task = self._windows.get(uri, (None, None))
        if prompt == known:
            return
        if task is not None:
            task.cancel()  # the engine keeps the evaluated tokens, and the next prompt continues from there
            del self._windows[uri]
        if prompt is not None:
            self._windows[uri] = prompt, asyncio.create_task(self._prepare(prompt))

    def inserted(self, uri: str, lines: Sequence[str], line: int, language: str) -> None:
        """A suggestion was inserted in a line: complete the next one. lines: of the document as it is now."""
        if not (self._looks_ahead() and self._goes_on()):
            return
        self.give_way()
        cursor = next_place(lines, line, language)
        if self._memory.recall(uri, cursor) is None:
            self._next, self._next_in = asyncio.create_task(self._complete(uri, cursor)), uri

    def give_way(self) -> None:
        """The model is needed, in whatever document: stop completing the next line."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def forget(self, uri: str) -> None:
        """Stop the work for a document."""
        if self._next_in == uri:
            self.give_way()
        _, task = self._windows.pop(uri, (None, None))
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """Stop all work."""
        self.give_way()
        for uri in list(self._windows):
            self.forget(uri)

    async def close(self) -> None:
        tasks = [task for _, task in self._windows.values()] + ([self._next] if self._next else [])
        self.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _prepare(self, prompt: Prompt) -> None:
        # The reply goes out first; and a user who keeps typing would cancel the evaluation at once.
        await asyncio.sleep(AHEAD_PAUSE)
        try:
            await self._service.prepare(prompt)
        except LspCalibError as error:
            logger.debug("Not evaluated ahead: %s", error)

    async def _complete(self, uri: str, cursor: Cursor) -> None:
        await asyncio.sleep(AHEAD_PAUSE)
        below = self._hide_below()
        try:
            outcome = await self._service.complete(cursor, Priority.IDLE, document=uri, hide_below=below)
        except LspCalibError as error:
            logger.debug("Not completed ahead: %s", error)
            return
        if below == self._hide_below():
            self._memory.remember(uri, cursor, outcome)
