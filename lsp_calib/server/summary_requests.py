"""Summaries for an editor: each is requested from the service once and remembered."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import attrs

from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engine import Priority
from lsp_calib.summarization import Example, Summary, SummaryService
from lsp_calib.syntax import Function
from lsp_calib.values import ModelIdentity, Suggestion

logger = logging.getLogger(__name__)

_SUMMARIES_KEPT = 500
"""More than the functions of the files that somebody works on; each takes about a kilobyte."""


_QUIET = 1.0
"""Seconds for which a command works without showing that it does."""


@attrs.define
class _Running:
    """awaited: whether somebody has asked for it; idle work is not awaited until then. waiting: how many wait
    for it now. is_shown: whether the editor shows that it is being made.
    """

    task: asyncio.Task[Summary | None]
    awaited: bool = False
    waiting: int = 0
    is_shown: bool = False


class SummaryRequests:
    """Summaries by the code they describe: a changed function gets a new one, a moved one keeps its own.

    Keys are keyed hashes of document, code, language and model, so that a remembered summary does not keep
    the text of a closed document, nor anything from which it could be guessed.

    admits: whether the document with this URI may be used for a prompt.
    examples_for: functions of its workspace that resemble one, with their documentation.
    on_request: called before each request that is admitted.
    on_made: called with each suggestion that the service has made.
    on_known: called when a summary is known that was not, or another one.
    on_pending: called with a task that takes longer than its request waits in silence, and the name of its
    function.
    """

    def __init__(
        self,
        service: SummaryService,
        *,
        admits: Callable[[str], Awaitable[bool]],
        examples_for: Callable[[str, Function, str], Awaitable[Sequence[Example]]],
        on_request: Callable[[], None],
        on_made: Callable[[Suggestion], None],
        on_known: Callable[[], None] = lambda: None,
        on_pending: Callable[[asyncio.Task[Summary | None], str], None] = lambda *_: None,
    ) -> None:
        self._service = service
        self._admits = admits
        self._examples_for = examples_for
        self._on_request = on_request
        self._on_made = on_made
        self._on_known = on_known
        self._on_pending = on_pending
        self._secret = secrets.token_bytes(32)
        self._model: ModelIdentity | None = None
        self._known: OrderedDict[bytes, Summary] = OrderedDict()
        self._nothing_said: OrderedDict[bytes, None] = OrderedDict()
        self._running: dict[bytes, _Running] = {}
        self._wordings: dict[bytes, int] = {}

    def loaded(self, model: ModelIdentity) -> None:
        """This model answers from now on; summaries of another one stay for its return."""
        self._model = model

    async def of(
        self, uri: str, function: Function, language: str, *, patience: float | None = None
    ) -> Suggestion | Literal["pending"] | None:
        """The summary of a function; "pending" if it is still being made after `patience` seconds.

        patience: None waits until it is made. None if it could not be made, or if the document is excluded.
        """
        if not await self._admits(uri):
            return None
        self._on_request()
        known = self.known(uri, function, language)
        if known is not None:
            return known.suggestion
        if self._has_nothing(uri, function, language):
            return None
        key = self._key(uri, function, language)
        if key not in self._running:
            self._drop_abandoned()
        running = self._begin(key, uri, function, language, Priority.BACKGROUND)
        return await self._result(running, function.name, patience)

    @property
    def is_busy(self) -> bool:
        """Whether a summary is being made."""
        return bool(self._running)

    def known(self, uri: str, function: Function, language: str) -> Summary | None:
        """The summary of a function of a document if it has been made."""
        if self._model is None:
            return None
        key = self._key(uri, function, language, self._model)
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    async def prepare(self, uri: str, function: Function, language: str) -> None:
        """Make the summary of a function when nothing else is to be done, unless it is known."""
        if not await self._admits(uri) or self.known(uri, function, language) is not None:
            return
        if self._has_nothing(uri, function, language):
            return
        key = self._key(uri, function, language)
        await asyncio.wait({self._begin(key, uri, function, language, Priority.IDLE).task})

    def give_way(self) -> None:
        """Stop the idle work that nobody has asked for meanwhile."""
        for running in self._running.values():
            if not running.awaited:
                running.task.cancel()

    async def reword(self, uri: str, function: Function, language: str) -> Suggestion | None:
        """Another wording of the summary of a function, which takes its place; None as for `of`."""
        if not await self._admits(uri):
            return None
        self._on_request()
        key = b"another" + self._key(uri, function, language)
        if key not in self._running:
            self._wordings[key] = self._wordings.get(key, 0) + 1
            if len(self._wordings) > _SUMMARIES_KEPT:
                del self._wordings[next(iter(self._wordings))]
        # Another seed each time: the same words again would look like a command that does nothing.
        running = self._begin(
            key, uri, function, language, Priority.BACKGROUND, seed=self._wordings.get(key, 1)
        )
        made = await self._result(running, function.name, None)
        return None if made == "pending" else made

    def assess_again(self) -> None:
        """The calibrator or the policy has changed: give the remembered summaries their new confidence."""
        for key, summary in self._known.items():
            self._known[key] = self._service.assessed_again(summary)
        if self._known:
            self._on_known()

    async def close(self) -> None:
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _result(
        self, running: _Running, name: str, patience: float | None
    ) -> Suggestion | Literal["pending"] | None:
        """What comes of the work on a summary, as for `of`. name: of its function."""
        running.awaited = True
        running.waiting += 1
        try:
            # `wait` leaves the task running: an editor cancels a hover at the slightest movement of the
            # mouse, and the next hover still wants the summary.
            await asyncio.wait({running.task}, timeout=_QUIET if patience is None else patience)
            if not running.task.done():
                if not running.is_shown:
                    running.is_shown = True
                    self._on_pending(running.task, name)
                if patience is not None:
                    return "pending"
                await asyncio.wait({running.task})
        finally:
            running.waiting -= 1
        summary = None if running.task.cancelled() else running.task.result()
        return None if summary is None else summary.suggestion

    def _drop_abandoned(self) -> None:
        """Cancel summaries that nobody waits for any more, such as of functions that the mouse passed over.

        They would all be made before the next one. The oldest may be all but done, and stays; so do those
        that the editor shows to be under way.
        """
        awaited = [running for running in self._running.values() if running.awaited]
        for running in awaited[1:]:
            if not running.waiting and not running.is_shown:
                running.task.cancel()

    def _has_nothing(self, uri: str, function: Function, language: str) -> bool:
        """Whether the model has been asked, and had nothing to say."""
        return (
            self._model is not None and self._key(uri, function, language, self._model) in self._nothing_said
        )

    def _begin(
        self,
        key: bytes,
        uri: str,
        function: Function,
        language: str,
        priority: Priority,
        *,
        seed: int | None = None,
    ) -> _Running:
        """The work on the summary of a function, begun now if it was not yet."""
        running = self._running.get(key)
        if running is None or running.task.cancelling():
            task = asyncio.create_task(self._summarize(uri, function, language, priority, seed))
            running = self._running[key] = _Running(task)
            task.add_done_callback(lambda done: self._ended(key, done))
        return running

    def _ended(self, key: bytes, task: asyncio.Task[Summary | None]) -> None:
        if key in self._running and self._running[key].task is task:
            del self._running[key]

    async def _summarize(
        self, uri: str, function: Function, language: str, priority: Priority, seed: int | None
    ) -> Summary | None:
        try:
            examples = await self._examples_for(uri, function, language)
            summary = await self._service.summarize(
                function, language, priority, examples=examples, seed=seed, document=uri
            )
        except LspCalibError as error:
            logger.warning("No summary: %s", error)
            return None
        if summary is None:
            if seed is None and self._model is not None:
                self._nothing_said[self._key(uri, function, language, self._model)] = None
                if len(self._nothing_said) > _SUMMARIES_KEPT:
                    self._nothing_said.popitem(last=False)
            return None
        self._on_made(summary.suggestion)
        self._model = summary.model
        self._known[self._key(uri, function, language, summary.model)] = summary
        if len(self._known) > _SUMMARIES_KEPT:
            self._known.popitem(last=False)
        self._on_known()
        return summary

    def _key(self, uri: str, function: Function, language: str, model: ModelIdentity | None = None) -> bytes:
        of = "" if model is None else f"{model.name}\0{model.quantisation}\0{model.sha256}"
        # The tier depends on the document (`tiers.overrides`), the prompt's examples on its workspace.
        text = f"{of}\0{uri}\0{language}\0{function.code}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, text, "sha256")
