"""An `Engine` over an OpenAI-compatible server: llama-server, vLLM, Ollama, LM Studio.

The log-probabilities of such a server are checked (`Generation.doubt`). It is unknown which file it runs: a
model's identity is its name.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import attrs

from lsp_calib.characters import in_one_line
from lsp_calib.errors import (
    EngineError,
    LspCalibError,
    ModelError,
    RequestCancelledError,
)
from lsp_calib.inference.choice import Remote
from lsp_calib.inference.engine import (
    EngineState,
    LoadedModel,
    Priority,
    Request,
    StateListener,
    ignore_state,
)
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.inference.remote.answer import Answer, Event, read_event, read_models
from lsp_calib.inference.remote.prompt import (
    card_for_name,
    find_name,
    flatten,
    same_model,
    without_line_ends,
)
from lsp_calib.inference.remote.server import Patience, RefusedError, RemoteServer
from lsp_calib.values import Generation, ModelIdentity, Stop, Timing

# As many as OpenAI's own servers give.
_ALTERNATIVES = 5


@attrs.define
class _Clock:
    """The times of a request's events, in seconds of a monotonic clock, and what the server counted.

    spent: tokens that the server has generated for it, in all completions together.
    """

    asked: float
    started: float = 0.0
    first: float = 0.0
    spent: int = 0
    usage: Event = attrs.field(factory=Event)

    def timing(self) -> Timing:
        end = time.perf_counter()
        first = self.first or end
        return Timing(
            queue_ms=1e3 * (self.started - self.asked),
            prompt_tokens=self.usage.prompt_tokens,
            prompt_reused=self.usage.prompt_reused,
            prompt_ms=1e3 * (first - self.started),
            generate_ms=1e3 * (end - first),
            total_ms=1e3 * (end - self.asked),
            generated_tokens=self.spent,
        )


@attrs.frozen
class _Last:
    """The last greedy answer. asked: the request. sent_typed: the model's own answer contradicts what is
    typed, which was sent."""

    asked: tuple[object, ...]
    answer: Generation
    sent_typed: bool


class RemoteEngine:
    """An `Engine` that uses a server.

    remote: which one. on_state: receives readiness and failures. patience: time limits.
    It connects at the first call.
    """

    def __init__(
        self, remote: Remote, *, on_state: StateListener = ignore_state, patience: Patience | None = None
    ) -> None:
        self._remote = remote
        self._on_state = on_state
        self._server = RemoteServer(remote, patience or Patience())
        self._interactive = asyncio.Semaphore(remote.interactive)
        self._background = asyncio.Semaphore(remote.background)
        self._asking = asyncio.Lock()
        self._loaded: LoadedModel | None = None
        self._served = ""
        self._draws_several = True
        self._last: _Last | None = None
        self._doubt = ""  # that the server has another model, from its answer on
        self._failing = False

    async def ready(self) -> LoadedModel:
        """Ask the server once for its models.

        Raises ModelError if the wanted one is not among them, SettingsError for an unusable key, EngineError
        if the server does not answer.
        """
        async with self._asking:
            if self._loaded is None:
                self._on_state(EngineState.STARTING, f"Asking {self._server.host} for its models.", None)
                with self._reported():
                    loaded = await self._find_model()
                self._loaded = loaded
                self._tell_ready()
            return self._loaded

    async def generate(self, request: Request) -> Generation:
        """Raises ModelError, EngineError (RequestCancelledError), SettingsError for a key."""
        if not request.max_tokens:
            return Generation("", (), Stop.LENGTH, Timing())  # a server manages its own cache
        return await self._answered(request)

    async def restart(self) -> None:
        """Forget failures and the server's models; running requests fail, the next one starts afresh."""
        await self._server.restart()
        self._loaded = self._last = None
        self._draws_several = True
        self._doubt = ""
        self._failing = False

    async def close(self) -> None:
        """Stop running requests, and close the connections. The engine cannot be used afterwards."""
        await self._server.close()

    async def _find_model(self) -> LoadedModel:
        wanted, host = self._remote.model, self._server.host
        names: tuple[str, ...] = ()

        def take(event: str) -> bool:
            nonlocal names
            names = read_models(event)
            return False

        await self._server.ask("GET", "/models", None, take)
        only = names[0] if len(names) == 1 else None
        served = only if wanted is None else find_name(wanted, names)
        if served is None:
            there = self._server.without_key(", ".join(names) or "none")
            what = f"has no model like {wanted!r}" if wanted else "does not have exactly one model"
            raise ModelError(
                f"The server at {host} {what}. It has: {in_one_line(there, 300)}. "
                "Set `remote.model` (LSP_CALIB_REMOTE_MODEL) to one of them."
            )
        self._served = served
        card = card_for_name(wanted or self._server.without_key(served), await asyncio.to_thread(load_cards))
        return LoadedModel(ModelIdentity(card.name, "", ""), card, f"remote server {host}")

    async def _answered(self, request: Request) -> Generation:
        clock = _Clock(time.perf_counter())
        if request.given:
            raise EngineError(
                "A remote server takes no ids of tokens to go on from. Use a local model for this."
            )
        loaded = await self.ready()
        async with self._interactive if request.priority is Priority.INTERACTIVE else self._background:
            clock.started = time.perf_counter()
            with self._reported():
                answer = await self._generation(request, loaded, clock)
        if self._failing:
            self._tell_ready()
        return answer

    async def _generation(self, request: Request, loaded: LoadedModel, clock: _Clock) -> Generation:
        """The answer. What is typed is expected at its beginning, and sent where that contradicts it.

        A greedy answer is asked for once: the request for other answers at a place begins with it again.
        """
        if request.one_line:
            request = attrs.evolve(request, prompt=without_line_ends(request.prompt))
        greedy = request.sampling is None
        asked = request.prompt, request.max_tokens, request.one_line, request.function
        last = self._last if self._last is not None and self._last.asked == asked else None
        if last is not None and greedy and request.reuse:
            return last.answer
        # As in the prompt: a lone surrogate cannot be sent.
        forced = request.prompt.forced.encode("utf-8", "replace").decode("utf-8")
        answers: list[Answer] = []
        if last is None or not last.sent_typed:
            answers = await self._ask(flatten(request.prompt, loaded.card), request, forced, clock)
            answers = [answer for answer in answers if not answer.contradicts]
        sent_typed = not answers
        if sent_typed:
            answers = await self._ask(flatten(request.prompt, loaded.card, forced=True), request, "", clock)
        if not answers:  # it does not draw several at once
            return Generation("", (), Stop.LENGTH, clock.timing())
        first, *others = (answer.generation(clock.timing(), self._doubt) for answer in answers)
        if greedy and request.priority is Priority.INTERACTIVE:
            self._last = _Last(asked, first, sent_typed)
        return attrs.evolve(first, others=tuple(others))

    async def _ask(self, prompt: str, request: Request, forced: str, clock: _Clock) -> list[Answer]:
        """The answers to one request. One that contradicts `forced` ends early."""
        sampling = request.sampling
        several = sampling.answers if sampling is not None and self._draws_several else 1
        answers = [
            Answer(
                forced=forced,
                one_line=request.one_line,
                most=request.max_tokens,
                greedy=sampling is None,
                function=request.function,
            )
            for _ in range(several)
        ]
        # Only fields of OpenAI's own interface, since some servers refuse others.
        body: dict[str, Any] = {
            "model": self._served,
            "prompt": prompt,
            # Forced characters may take tokens of their own; they do not use up the answer's.
            "max_tokens": request.max_tokens + len(forced.encode()),
            "temperature": 0,
            "logprobs": _ALTERNATIVES,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.one_line:
            body["stop"] = ["\n"]
        if sampling is not None:
            body |= {"temperature": sampling.temperature, "seed": sampling.seed}
        if several > 1:
            body["n"] = several

        def take(text: str) -> bool:
            event = read_event(text)
            if event.failed:
                raise self._server.error("failed", "it sent an error")
            clock.first = clock.first or time.perf_counter()
            self._notice_model(event.model)
            if event.prompt_tokens or event.completion_tokens:
                clock.usage = event
            for chunk in event.chunks:
                if chunk.index < several:
                    answers[chunk.index].add(chunk)
            return not all(answer.complete for answer in answers) or all(
                answer.finished for answer in answers
            )

        try:
            await self._server.ask("POST", "/completions", body, take)
        except RefusedError:
            if several == 1:
                raise
            self._draws_several = False
            return []
        except EngineError:
            # Some servers break off behind the piece that ends the answer.
            if not all(answer.finished for answer in answers):
                raise
        made = [answer for answer in answers if answer.complete]
        if not made:
            raise self._server.error("broken")
        clock.spent += max(sum(answer.tokens for answer in answers), clock.usage.completion_tokens)
        return made

    def _notice_model(self, name: str) -> None:
        """Believe no probability from now on if the server answers as another model than the wanted one."""
        if name and not self._doubt and name != self._served and not same_model(name, self._served):
            named = in_one_line(self._server.without_key(name), 100)
            self._doubt = (
                f"the server answers as another model, {named}, so its confidence is unknown; restart the "
                "model to believe it again"
            )

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        """Report a failure to `on_state` before it reaches the caller."""
        try:
            yield
        except RequestCancelledError:
            raise
        except LspCalibError as error:
            self._failing = True
            missing = isinstance(error, ModelError)
            self._on_state(EngineState.NO_MODEL if missing else EngineState.ERROR, str(error), None)
            raise

    def _tell_ready(self) -> None:
        self._failing = False
        if self._loaded is not None:
            words = f"{self._loaded.card.title} at {self._server.host} is ready."
            self._on_state(EngineState.READY, words, None)
