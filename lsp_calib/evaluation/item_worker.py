"""Asks a model for one item: in this process, in another one, or on another machine.

The server's own functions make the prompt and read the answer. Each process opens an engine once and keeps
it; the engine runs on an event loop in its own thread, so that any thread may ask.
"""

from __future__ import annotations

import asyncio
import atexit
import enum
import functools
import hashlib
import json
import math
import operator
import os
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.completion import Cursor
from lsp_calib.completion.alternatives import alternatives
from lsp_calib.completion.features import text_features
from lsp_calib.completion.layouts import Layouts
from lsp_calib.completion.postprocess import judged
from lsp_calib.completion.prompt import Layout, WindowSize, build_prompt
from lsp_calib.completion.second_decode import Agreement, agreement, second_request
from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.errors import DataError, EngineDiedError, SettingsError
from lsp_calib.evaluation.criteria import is_correct
from lsp_calib.evaluation.header import FeatureList
from lsp_calib.evaluation.lines import LineItem, without_below
from lsp_calib.evaluation.projection import project
from lsp_calib.evaluation.records import Alternative, Record
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.surroundings import surroundings_of
from lsp_calib.evaluation.tasks import line_item_of
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import LoadedModel, Observe, Priority, Request
from lsp_calib.inference.engines import open_engine
from lsp_calib.values import Generation, ModelIdentity, Prompt, Stop, Token

T = TypeVar("T")

# The next request restarts a model process that died. If it dies three times, the request is the cause.
_TRIES = 3


class Observed(enum.StrEnum):
    """What records can hold besides what every record holds. docs/evaluation.md has the cost of each."""

    MARGIN = "margin"
    NEWLINE = "newline"
    AGREEMENT = "agreement"
    STATE = "state"
    ALTERNATIVES = "alternatives"


_NEEDS = {
    Observed.MARGIN: Observe.MARGIN,
    Observed.NEWLINE: Observe.NEWLINE,
    Observed.AGREEMENT: Observe.MARGIN,
    Observed.STATE: Observe.STATE,
    Observed.ALTERNATIVES: Observe.MARGIN,
}


@attrs.frozen
class _Answer:
    """The answer to one item. second: None if there is none, or it was not asked for. others: its
    alternatives, the likeliest first."""

    prompt: Prompt
    generation: Generation
    second: Agreement | None = None
    others: tuple[Generation, ...] = ()


@attrs.frozen
class Answerer:
    """The model that answers, how it is asked and the features of the answers: for a header of records.

    window: the size that the prompt's version has.
    """

    model: ModelIdentity
    prompt_version: str
    features: FeatureList
    window: WindowSize


@attrs.frozen
class Completing:
    """A `runner.Ask` for places in source.

    choice: the engine. private: "" for the user's shared model process; else a folder in which each asking
        process gets its own state folder and thus its own model process.
    criteria: names of `criteria.CRITERIA`. expected: the model that must answer.
    observe: what the records hold besides what every record holds. window: how much of a document the model
    sees; None: as much as when it serves an editor on this machine.
    """

    choice: EngineChoice
    criteria: tuple[str, ...] = ("exact",)
    private: str = ""
    expected: Answerer | None = None
    observe: frozenset[Observed] = frozenset()
    window: WindowSize | None = None

    def describe(self) -> Answerer:
        """The model that answers.

        Raises ModelError or EngineError if there is none, SettingsError if its engine cannot observe what is
        to be observed.
        """
        host = self._host()
        loaded = host.loaded()
        if self.observe and not loaded.engine.startswith("llama-cpp-python"):
            raise SettingsError(
                f"The engine {loaded.engine} cannot observe {', '.join(sorted(self.observe))}: leave out "
                "--observe, or use a local model with the engine `local`."
            )
        layout = host.layouts.of(loaded)
        size = WindowSize.SMALL if layout == Layout.of(loaded.card) else WindowSize.LARGE
        return Answerer(loaded.identity, layout.version, FeatureList.present(), size)

    def __call__(self, payload: Plain) -> Plain:
        """Ask, apply the criteria, drop the text. Raises EngineError; DataError if another model answers."""
        item = line_item_of(payload)
        host = self._host()
        if self.expected is not None and self.describe() != self.expected:
            raise DataError(
                f"A worker answers with another model, prompt or features ({self.describe()}) than the one "
                f"whose records these are ({self.expected}): these are not mixed. Give each worker "
                "the same model and version of lsp-calib."
            )
        for attempt in range(1, _TRIES + 1):
            try:
                answer = host.ask(item, self.observe)
                break
            except EngineDiedError:
                if attempt == _TRIES:
                    raise
        generation = answer.generation
        text = judged(generation.text, item.cursor, answer.prompt.version)
        tokens = () if generation.doubt or not _believable(generation) else generation.tokens
        # As in the editor, an empty or runaway answer is not offered.
        shown = bool(text) and generation.stop is not Stop.LENGTH
        record = Record(
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: is_correct(name, item, payload, text) for name in self.criteria},
            shown=shown,
            stop=generation.stop.value,
            tokens=tuple(token.id for token in generation.tokens),
            logprobs=tuple(token.logprob for token in tokens),
            typed_logprobs=tuple(token.typed_logprob for token in tokens),
            entropies=generation.entropies or () if tokens else (),
            prompt=prompt_hash(answer.prompt),
            doubt=bool(generation.tokens) and not tokens,
            added=len(generation.tokens[0].text) if generation.tokens and answer.prompt.forced else None,
            features=_text_features(item.cursor, text) if shown else (),
            features_above=_text_features(without_below(item.cursor), text) if shown else (),
            condition=item.condition,
            source=item.source,
            margins=self._seen(Observed.MARGIN, tokens),
            newlines=self._seen(Observed.NEWLINE, tokens),
            agreement=answer.second if tokens else None,
            state=project(generation.state) if tokens and generation.state else None,
            alternatives=tuple(self._alternative(item, payload, answer, other) for other in answer.others)
            if shown and tokens
            else (),
        )
        timing = generation.timing
        return {
            "record": record.to_row(),
            "timing": {
                "ms": round(timing.total_ms, 1),
                "decode_ms": round(timing.decode_ms, 1),
                "prompt_tokens": timing.prompt_tokens,
                "generated_tokens": timing.generated_tokens,
            },
        }

    def _alternative(self, item: LineItem, payload: Plain, answer: _Answer, other: Generation) -> Alternative:
        """What a record holds of an alternative."""
        first, text = answer.generation, judged(other.text, item.cursor, answer.prompt.version)
        pairs = zip(first.tokens, other.tokens, strict=False)
        at = next((n for n, (one, two) in enumerate(pairs) if one.id != two.id), len(first.tokens))
        return Alternative(
            at=at,
            correct={name: is_correct(name, item, payload, text) for name in self.criteria},
            stop=other.stop.value,
            tokens=tuple(token.id for token in other.tokens[at:]),
            logprobs=other.logprobs[at:],
            entropies=(other.entropies or ())[at:],
            added=len(other.tokens[0].text) if not at and answer.prompt.forced else None,
            features=_text_features(item.cursor, text),
        )

    def _seen(self, what: Observed, tokens: Sequence[Token]) -> tuple[float, ...]:
        """What was observed at each token; empty if that was not asked for."""
        if what not in self.observe:
            return ()
        return tuple(getattr(token.seen, what.value) for token in tokens)

    def _host(self) -> _Host:
        return _host_for(self.choice, self.private, self.window)


def _text_features(cursor: Cursor, text: str) -> tuple[float | None, ...]:
    return FeatureList.present().ordered(text_features(cursor, text))


def prompt_hash(prompt: Prompt) -> str:
    """A checksum of the prompt: 16 hexadecimal digits."""
    parts = [[kind.value, text] for kind, text in prompt.segments]
    return hashlib.sha256(json.dumps([*parts, prompt.forced]).encode()).hexdigest()[:16]


def close_engines() -> None:
    """Close the engines of this process."""
    with _lock:
        while _hosts:
            _hosts.popitem()[1].close()


class _Host:
    """An engine on an event loop of its own."""

    def __init__(self, choice: EngineChoice, window: WindowSize | None) -> None:
        self.layouts = Layouts(CalibratorStore.open().has_labels, lambda: window)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._thread.start()
        self._engine = open_engine(choice)

    def loaded(self) -> LoadedModel:
        return self._wait(self._engine.ready())

    def ask(self, item: LineItem, observed: frozenset[Observed]) -> _Answer:
        """The answer, evaluated afresh, so that earlier requests change no number."""
        return self._wait(self._ask(item, observed))

    async def _ask(self, item: LineItem, observed: frozenset[Observed]) -> _Answer:
        observe = functools.reduce(operator.or_, (_NEEDS[one] for one in observed), Observe.ENTROPY)
        cursor, layout = item.cursor, self.layouts.of(await self._engine.ready())
        prompt = build_prompt(cursor, layout, surroundings_of(item, layout))
        request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False, observe=observe)
        first = await self._engine.generate(request)
        answer = _Answer(prompt, first)
        if first.doubt or first.stop is Stop.LENGTH:
            return answer
        # The first answer's request, so that the others go on in what it left in the cache.
        request = Request(prompt, MOST_TOKENS, Priority.BACKGROUND, reuse=False)
        if Observed.AGREEMENT in observed and (second := second_request(request, first)) is not None:
            agrees = agreement(first, await self._engine.generate(second))
            answer = attrs.evolve(answer, second=agrees)

        def text_of(text: str) -> str:
            return judged(text, cursor, prompt.version)

        if Observed.ALTERNATIVES in observed and text_of(first.text):
            ways = alternatives(self._engine.generate, request, first, text_of, draws=False)
            others = [other async for other, _ in ways]
            others.sort(key=lambda other: -math.fsum(other.logprobs))
            answer = attrs.evolve(answer, others=tuple(others))
        return answer

    def close(self) -> None:
        self._wait(self._engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # On Ctrl-C, stop the model: its answer is no longer wanted. No effect if the work itself failed.
            future.cancel()
            raise


_hosts: dict[tuple[EngineChoice, str, WindowSize | None], _Host] = {}
_lock = threading.Lock()
atexit.register(close_engines)


def _host_for(choice: EngineChoice, private: str, window: WindowSize | None) -> _Host:
    with _lock:
        key = (choice, private, window)
        if key not in _hosts:
            if private:
                _move_in(Path(private))
            _hosts[key] = _Host(choice, window)
        return _hosts[key]


def _move_in(base: Path) -> None:
    """Give this worker process its own state folder, with the user's models in it."""
    models = home.home() / "models"
    own = home.private_folder(base / str(os.getpid()))
    (own / "models").symlink_to(models, target_is_directory=True)
    os.environ["LSP_CALIB_HOME"] = str(own)


def _believable(generation: Generation) -> bool:
    return all(
        math.isfinite(token.logprob) and math.isfinite(token.typed_logprob) for token in generation.tokens
    )
