"""An `Engine` over an OpenAI-compatible server: llama-server, vLLM, Ollama, LM Studio.

The log-probabilities of such a server are checked (`Generation.doubt`). It is unknown which file it runs: a
model's identity is its name.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import attrs

from lsp_calib.errors import (
    DeadlineError,
    EngineError,
    LspCalibError,
    ModelError,
    RequestCancelledError,
    SupersededError,
    copy_error,
)
from lsp_calib.inference.choice import Remote
from lsp_calib.inference.engine import (
    EngineState,
    LoadedModel,
    Priority,
    Request,
    ScoreRequest,
    StateListener,
    ignore_state,
)
from lsp_calib.inference.models.card import load_cards
from lsp_calib.inference.remote.answer import RemoteAnswer, implausible
from lsp_calib.inference.remote.http import CLOSED, Patience, RemoteServer
from lsp_calib.inference.remote.prompt import (
    card_for_name,
    find_name,
    flatten,
    grammar,
    without_line_ends,
)
from lsp_calib.inference.remote.wire import Chunk
from lsp_calib.values import (
    Distributions,
    Generation,
    ModelIdentity,
    Prompt,
    Segment,
    Softmax,
    Stop,
    Timing,
    Token,
)

# As many as OpenAI's own servers give.
_ALTERNATIVES = 5
_MANY_ALTERNATIVES = 40


@attrs.define
class _Clock:
    """The times of a request's events, in seconds of a monotonic clock.

    spent: tokens that the server has generated for it, in all completions together.
    """

    asked: float
    started: float = 0.0
    first: float = 0.0
    spent: int = 0


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
        background = asyncio.Semaphore(remote.background)
        self._slots = {
            Priority.INTERACTIVE: asyncio.Semaphore(remote.interactive),
            Priority.BACKGROUND: background,
            Priority.IDLE: background,
        }
        self._asking = asyncio.Lock()
        self._loaded: LoadedModel | None = None
        self._served = ""
        self._llama_server = False
        self._failing = False
        self._closed = False
        # The requests, with the document where a newer one for it takes their place.
        self._running: dict[asyncio.Task[Generation], str] = {}
        self._stopped: dict[asyncio.Task[Generation], EngineError] = {}

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
                if self._closed:
                    raise RequestCancelledError(CLOSED)
                self._loaded = loaded
                self._tell_ready()
            return self._loaded

    async def generate(self, request: Request) -> Generation:
        """Raises ModelError, EngineError (SupersededError, DeadlineError), SettingsError for a bad key."""
        if not request.max_tokens:
            return Generation("", (), Stop.LENGTH, Timing())  # a server manages its own cache
        document = request.document if request.priority is Priority.INTERACTIVE else ""
        task = self._start(self._answered(request), document)
        try:
            async with asyncio.timeout(request.deadline):
                try:
                    return await task
                except asyncio.CancelledError:
                    current = asyncio.current_task()
                    if task in self._stopped and current is not None and not current.cancelling():
                        raise copy_error(self._stopped[task]) from None
                    raise
        except TimeoutError:
            raise DeadlineError(
                f"No answer from {self._server.host} within {request.deadline:g} s."
            ) from None
        finally:
            self._stopped.pop(task, None)

    async def count(self, request: ScoreRequest) -> tuple[Distributions, ...]:  # noqa: ARG002
        """Raises EngineError: no server tells whole distributions."""
        raise EngineError("A remote server does not report whole distributions. Use a local model for this.")

    async def score(self, request: ScoreRequest) -> AsyncIterator[Token]:
        """As `Engine.score`, where the server can repeat a prompt with its log-probabilities (`echo`).

        Only at temperature 1: `Softmax` then has the log-probability as its logit and NaN as its entropy.
        Raises EngineError where the server cannot, or another temperature is asked for.
        """
        if request.temperatures != (1.0,):
            raise EngineError(
                "A remote server does not report the whole distribution that other temperatures need. "
                "Use a local model for this."
            )
        loaded = await self.ready()
        segments = (*request.prompt.segments, (Segment.TEXT, request.text))
        whole = flatten(Prompt(segments, "", request.prompt.version), loaded.card)
        start = len(flatten(request.prompt, loaded.card))
        # Some servers take max_tokens 0 for "no limit"; the extra token is dropped below.
        body = self._body(whole, 1) | {"echo": True, "stream": False}
        # vLLM refuses a body with options of a stream that is none.
        body.pop("stream_options", None)
        async with self._slots[request.priority]:
            with self._reported():
                async with contextlib.aclosing(self._server.chunks(body)) as chunks:
                    chunk = await anext(chunks, Chunk())
        for token in _scored(chunk, start, len(whole)):
            yield token

    async def restart(self) -> None:
        """Forget failures and the server's models; running requests fail, the next one starts afresh."""
        await self._stop(RequestCancelledError("The remote engine was restarted."))
        await self._server.disconnect()
        self._server.clear_failures()
        self._loaded = None
        self._failing = False

    async def close(self) -> None:
        """Stop running requests, and close the connections. The engine cannot be used afterwards."""
        self._closed = True
        await self._stop(RequestCancelledError(CLOSED))
        await self._server.close()

    async def _find_model(self) -> LoadedModel:
        wanted = self._remote.model
        found = await self._server.models()
        names, self._llama_server = found.names, found.llama_server
        if names is None and wanted is None:
            raise ModelError(f"{self._server.host} has no list of its models. Name one in `remote.model`.")
        if names is None:
            served: str | None = wanted
        elif wanted is None:
            served = names[0] if len(names) == 1 else None
        else:
            served = find_name(wanted, names)
        if served is None:
            there = self._server.quoted(", ".join(names or ()) or "none", 300)
            what = f"has no model like {wanted!r}" if wanted else "does not have exactly one model"
            raise ModelError(
                f"The server at {self._server.host} {what}. It has: {there}. "
                "Set `remote.model` (LSP_CALIB_REMOTE_MODEL) to one of them."
            )
        self._served = served
        card = card_for_name(wanted or self._server.without_key(served), await asyncio.to_thread(load_cards))
        identity = ModelIdentity(card.name, "", "")
        return LoadedModel(identity, card, f"remote server {self._server.host}")

    async def _answered(self, request: Request) -> Generation:
        clock = _Clock(time.perf_counter())
        for wanted, lacks in (
            (request.given, "takes no ids of tokens to go on from"),
            (request.function is not None, "does not stop where a function ends"),
            (request.temperatures, "does not report the whole distribution that `temperatures` needs"),
        ):
            if wanted:
                raise EngineError(f"A remote server {lacks}. Use a local model for this.")
        loaded = await self.ready()
        async with self._slots[request.priority]:
            clock.started = time.perf_counter()
            with self._reported():
                if request.one_line:
                    request = attrs.evolve(request, prompt=without_line_ends(request.prompt))
                prompt = flatten(request.prompt, loaded.card)
                # As in the prompt: a lone surrogate cannot be sent.
                forced = request.prompt.forced.encode("utf-8", "replace").decode("utf-8")
                answer = await self._ask(prompt, request, forced, clock)
                # The server's tokens may contradict the typed text. llama-server's grammar prevents that.
                if answer.contradicts and self._llama_server:
                    answer = await self._ask(prompt, request, forced, clock, hold=True)
                # Otherwise the typed text is sent as part of the prompt, most of which is cached now.
                if answer.contradicts:
                    prompt = flatten(request.prompt, loaded.card, forced=True)
                    answer = await self._ask(prompt, request, "", clock)
        if self._failing:
            self._tell_ready()
        return answer.generation(_timing(clock, answer))

    async def _ask(
        self,
        prompt: str,
        request: Request,
        forced: str,
        clock: _Clock,
        *,
        hold: bool = False,
    ) -> RemoteAnswer:
        """One completion; a contradiction of `forced` may end it.

        hold: keep the server from contradicting it.
        """
        answer = RemoteAnswer(
            forced=forced,
            one_line=request.one_line,
            most=request.max_tokens,
            greedy=request.sampling is None and not hold,
        )
        # Forced characters may take tokens of their own; they do not use up the answer's.
        body = self._body(prompt, request.max_tokens + len(forced.encode()))
        if request.one_line:
            body["stop"] = ["\n"]
        if request.sampling is not None:
            body |= {"temperature": request.sampling.temperature, "seed": request.sampling.seed}
        if not request.reuse and self._llama_server:
            body["cache_prompt"] = False
        if hold:
            # Only a long list of tokens includes unlikely typed text and its probability.
            body |= {"grammar": grammar(forced), "logprobs": _MANY_ALTERNATIVES}
        async with contextlib.aclosing(self._server.chunks(body)) as chunks:
            async for chunk in chunks:
                clock.first = clock.first or time.perf_counter()
                answer.add(chunk)
                if answer.contradicts or (answer.enough and not answer.finished):
                    break
        clock.spent += answer.generated_tokens
        return answer

    def _body(self, prompt: str, most: int) -> dict[str, Any]:
        """A request: only fields of OpenAI's own interface, since some servers refuse others."""
        return {
            "model": self._served,
            "prompt": prompt,
            "max_tokens": most,
            "temperature": 0,
            "logprobs": _ALTERNATIVES,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _start(self, work: Coroutine[Any, Any, Generation], document: str) -> asyncio.Task[Generation]:
        """A task, in the place of one for the same document if this is not empty."""
        task = asyncio.create_task(work)
        for before, of in self._running.items():
            if document and of == document and not before.done() and before not in self._stopped:
                self._stopped[before] = SupersededError(
                    "A newer request for the same document took its place."
                )
                before.cancel()
        self._running[task] = document
        task.add_done_callback(self._running.pop)
        return task

    async def _stop(self, why: RequestCancelledError) -> None:
        running = list(self._running)
        for task in running:
            self._stopped.setdefault(task, why)
            task.cancel()
        if running:
            await asyncio.wait(running)

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        """Report a failure to `on_state` before it reaches the caller."""
        try:
            yield
        except RequestCancelledError:
            raise
        except LspCalibError as error:
            if self._closed:
                raise RequestCancelledError(CLOSED) from None
            self._failing = True
            missing = isinstance(error, ModelError)
            self._on_state(EngineState.NO_MODEL if missing else EngineState.ERROR, str(error), None)
            raise

    def _tell_ready(self) -> None:
        self._failing = False
        if self._loaded is not None:
            words = f"{self._loaded.card.title} at {self._server.host} is ready."
            self._on_state(EngineState.READY, words, None)


def _timing(clock: _Clock, answer: RemoteAnswer) -> Timing:
    end = time.perf_counter()
    first = clock.first or end
    return Timing(
        queue_ms=1e3 * (clock.started - clock.asked),
        prompt_tokens=answer.usage.prompt_tokens,
        prompt_reused=answer.usage.prompt_reused,
        prompt_ms=1e3 * (first - clock.started),
        generate_ms=1e3 * (end - first),
        total_ms=1e3 * (end - clock.asked),
        generated_tokens=clock.spent,
    )


def _scored(chunk: Chunk, start: int, end: int) -> list[Token]:
    """The tokens of an echoed prompt that begin in [start, end), counted in characters."""
    offsets = chunk.offsets
    if not offsets or not chunk.entries or chunk.entries[0].data is None or offsets[0] != 0:
        raise EngineError(
            "The remote server does not give the log-probabilities of a given text (`echo`). "
            "Use a local model, or vLLM."
        )
    scored = [
        entry
        for entry, offset in zip(chunk.entries, offsets, strict=True)
        if start <= offset < end and entry.data != b""
    ]
    if doubt := implausible(scored, greedy=False):
        raise EngineError(f"The text cannot be scored: {doubt}. Use a local model, or another server.")
    tokens = []
    for entry in scored:
        logprob = min(entry.logprob, 0.0)
        text = (entry.data or b"").decode("utf-8", "replace")
        tokens.append(Token(entry.id, logprob, 0.0, text, Softmax(logprob, (0.0,), math.nan)))
    return tokens
