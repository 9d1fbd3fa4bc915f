"""Summaries for an editor: each is requested from the service once and remembered."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from lsp_calib.errors import LspCalibError
from lsp_calib.summarization import Example, SummaryService
from lsp_calib.syntax import Function
from lsp_calib.values import Suggestion

logger = logging.getLogger(__name__)

_SUMMARIES_KEPT = 200


class SummaryRequests:
    """Summaries by the code they describe.

    admits: whether the document with this URI may be used for a prompt.
    examples_for: functions of its workspace that resemble one, with their documentation.
    on_request: called before each request that is admitted.
    on_made: called with each suggestion that the service has made.
    """

    def __init__(
        self,
        service: SummaryService,
        *,
        admits: Callable[[str], Awaitable[bool]],
        examples_for: Callable[[str, Function, str], Awaitable[Sequence[Example]]],
        on_request: Callable[[], None],
        on_made: Callable[[Suggestion], None],
    ) -> None:
        self._service = service
        self._admits = admits
        self._examples_for = examples_for
        self._on_request = on_request
        self._on_made = on_made
        self._known: OrderedDict[bytes, Suggestion] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[Suggestion | None]] = {}

    async def of(
        self, uri: str, function: Function, language: str, *, patience: float
    ) -> Suggestion | Literal["pending"] | None:
        """The summary of a function; "pending" if it is still being made after `patience` seconds.

        None if it could not be made, or if the document is excluded.
        """
        if not await self._admits(uri):
            return None
        self._on_request()
        key = _key(function, language)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._summarize(key, uri, function, language))
        # `wait` leaves the task running: an editor cancels a hover at the slightest movement of the mouse,
        # and the next hover still wants the summary.
        await asyncio.wait({task}, timeout=patience)
        if not task.done():
            return "pending"
        return None if task.cancelled() else task.result()

    @property
    def is_busy(self) -> bool:
        """Whether a summary is being made."""
        return bool(self._running)

    def forget(self) -> None:
        """Drop the remembered summaries: they were assessed by another calibrator or policy."""
        self._known.clear()

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _summarize(self, key: bytes, uri: str, function: Function, language: str) -> Suggestion | None:
        try:
            examples = await self._examples_for(uri, function, language)
            summary = await self._service.summarize(function, language, examples=examples)
        except LspCalibError as error:
            logger.warning("No summary: %s", error)
            return None
        finally:
            self._running.pop(key, None)
        if summary is None:
            return None
        self._on_made(summary.suggestion)
        self._known[key] = summary.suggestion
        if len(self._known) > _SUMMARIES_KEPT:
            self._known.popitem(last=False)
        return summary.suggestion


def _key(function: Function, language: str) -> bytes:
    """A digest of the code, so that a remembered summary does not keep the text of a closed document."""
    return hashlib.sha256(f"{language}\0{function.code}".encode("utf-8", "surrogatepass")).digest()
