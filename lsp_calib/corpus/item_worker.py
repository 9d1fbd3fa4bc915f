"""Asks a model for one item of a task: in this process, in another one, or on another machine.

The server's own functions make the prompt and read the answer: of a line (`Completing`), and of a summary
(`Summarising`), which is compared with what a person wrote. A task may ask in another way, see `places.Task`.
Verdicts are given before a record is written: records keep no text.

An engine is opened once in a process, on an event loop in a thread of its own; any thread may ask it.
"""

from __future__ import annotations

import abc
import asyncio
import atexit
import functools
import hashlib
import json
import math
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import attrs

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.characters import without_hidden
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import text_features
from lsp_calib.completion.prompt import Layout, LayoutChooser, WindowSize, build_prompt
from lsp_calib.completion.service import MOST_TOKENS
from lsp_calib.confidence.features import SUMMARY_VERSION
from lsp_calib.corpus.functions import STRATUM, SummaryItem, function_of, summary_item_of
from lsp_calib.corpus.places import Judge, Plain, exactly, line_item_of, surroundings_of, without_below
from lsp_calib.corpus.records import FeatureList, ObservationList, Record, SimilarityList
from lsp_calib.corpus.thresholds import listed, shared_encoder, shipped_thresholds, similarities
from lsp_calib.errors import DataError, EngineDiedError
from lsp_calib.inference import open_engine
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import Engine, LoadedModel, Observe, Priority, Request
from lsp_calib.summarization import features
from lsp_calib.summarization.prompt import build_prompt as summary_prompt
from lsp_calib.summarization.service import MOST_TOKENS as MOST_OF_SUMMARIES
from lsp_calib.summarization.service import first_sentence
from lsp_calib.syntax.source_tree import unhurried
from lsp_calib.values import Generation, ModelIdentity, Prompt, Stop, Token

T = TypeVar("T")

# The next request restarts a model process that died. If it dies three times, the request is the cause.
_TRIES = 3


@attrs.frozen
class Answerer:
    """The model that answers, how it is asked and what is computed of the answers: for a header of records.

    features: the text features of its answers, window: the size that the prompt's version has; None where
    there are none. similarity: what is computed of the answers, None for answers that are not compared.
    observations: what is observed besides, None if nothing is.
    """

    model: ModelIdentity
    prompt_version: str
    features: FeatureList | None = None
    window: WindowSize | None = None
    similarity: SimilarityList | None = None
    observations: ObservationList | None = None


@attrs.frozen
class Answer:
    """A model's answer to one item.

    observed, costs: as in `Record`, of what asked the model about its answer.
    """

    prompt: Prompt
    generation: Generation
    observed: Mapping[str, tuple[float | None, ...]] = attrs.field(factory=dict)
    costs: Mapping[str, tuple[int, int, int]] = attrs.field(factory=dict)


@attrs.frozen
class Asking(abc.ABC):
    """Asks for one item, with an engine that it finds itself; it can be sent to a worker.

    choice: the engine. expected: the model that must answer.
    window: how much of a document the model sees; None: as much as when it serves an editor on this machine.
    """

    choice: EngineChoice
    most_tokens: ClassVar[int] = MOST_TOKENS
    expected: Answerer | None = None
    window: WindowSize | None = None

    def __call__(self, payload: Plain) -> Plain:
        """Ask for an item: {"record": a row as `Record.to_row` makes it, "timing": {name: number}}.

        Raises EngineError if it got no answer; DataError if another model or prompt answers.
        """
        if self.expected is not None and (found := self.answerer()) != self.expected:
            raise DataError(
                f"The model, prompt or features ({found}) differ from those of the records "
                f"({self.expected}), as another model answers now. Run the command again, with "
                "--model and the name of the first one."
            )
        host = self.host()
        for left in reversed(range(_TRIES)):
            try:
                answer = host.wait(self.ask(host, payload))
                break
            except EngineDiedError:
                if not left:
                    raise
        return {"record": self.record(payload, answer).to_row(), "timing": _timing_of(answer.generation)}

    async def ask(self, host: EngineHost, payload: Plain) -> Answer:
        """The answer to an item, evaluated afresh, so that earlier requests change no number."""
        prompt = await self.prompt(host, payload)
        return Answer(prompt, await host.engine.generate(self.request(prompt, payload)))

    @abc.abstractmethod
    async def prompt(self, host: EngineHost, payload: Plain) -> Prompt:
        """What the model is shown of an item."""

    def request(self, prompt: Prompt, _: Plain) -> Request:
        """What is asked with an item's prompt."""
        return Request(prompt, self.most_tokens, Priority.BACKGROUND, reuse=False, observe=Observe.ENTROPY)

    @abc.abstractmethod
    def record(self, payload: Plain, answer: Answer) -> Record:
        """What is kept of an answer, judged."""

    @abc.abstractmethod
    def answerer(self) -> Answerer:
        """The model that answers.

        Raises ModelError or EngineError if there is none, SettingsError if its engine cannot do what is asked
        of it.
        """

    def host(self) -> EngineHost:
        """The engine that this process asks."""
        return _host_for(self.choice, self.window)

    def expecting(self, answerer: Answerer) -> Self:
        """The same, refusing to ask another one."""
        return attrs.evolve(self, expected=answerer)


class EngineHost:
    """An engine on an event loop of its own. window: as in `Asking`."""

    def __init__(self, choice: EngineChoice, window: WindowSize | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._thread.start()
        self.engine: Engine = open_engine(choice)
        self._window = window

    @functools.cached_property
    def layouts(self) -> LayoutChooser:
        """Of prompts for lines."""
        return LayoutChooser(CalibratorStore.open().has_labels, self._window)

    def loaded(self) -> LoadedModel:
        return self.wait(self.engine.ready())

    def close(self) -> None:
        self.wait(self.engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work on the loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # On Ctrl-C, stop the model: its answer is no longer wanted. No effect if the work itself failed.
            future.cancel()
            raise


_hosts: dict[tuple[EngineChoice, WindowSize | None], EngineHost] = {}
_lock = threading.Lock()


def _host_for(choice: EngineChoice, window: WindowSize | None) -> EngineHost:
    """This process's host of a choice, made when it is first asked for."""
    with _lock:
        if (choice, window) not in _hosts:
            _hosts[choice, window] = EngineHost(choice, window)
        return _hosts[choice, window]


@atexit.register
def close_engines() -> None:
    """Close the engines of this process."""
    with _lock:
        while _hosts:
            _hosts.popitem()[1].close()


def prompt_hash(prompt: Prompt) -> str:
    """A checksum of the prompt: 16 hexadecimal digits."""
    parts = [[kind.value, text] for kind, text in prompt.segments]
    return hashlib.sha256(json.dumps([*parts, prompt.forced]).encode()).hexdigest()[:16]


def _timing_of(generation: Generation) -> dict[str, float]:
    """What is kept of an answer's times, beside its record."""
    timing = generation.timing
    return {
        "ms": round(timing.total_ms, 1),
        "decode_ms": round(timing.decode_ms, 1),
        "prompt_tokens": timing.prompt_tokens,
        "generated_tokens": timing.generated_tokens,
    }


def cost_of(generation: Generation) -> tuple[int, int, int]:
    """Tokens evaluated, tokens found in the cache, tokens generated."""
    timing = generation.timing
    return timing.prompt_tokens - timing.prompt_reused, timing.prompt_reused, timing.generated_tokens


def record_of(answer: Answer, **more: Any) -> Record:
    """The record of an answer. more: the fields that do not follow from its prompt and tokens."""
    generation = answer.generation
    tokens = _believable(generation)
    return Record(
        stop=generation.stop.value,
        tokens=tuple(token.id for token in generation.tokens),
        logprobs=tuple(token.logprob for token in tokens),
        typed_logprobs=tuple(token.typed_logprob for token in tokens),
        entropies=generation.entropies or () if tokens else (),
        prompt=prompt_hash(answer.prompt),
        doubt=bool(generation.tokens) and not tokens,
        **{"observed": answer.observed, "costs": answer.costs, **more},
    )


def _believable(generation: Generation) -> Sequence[Token]:
    """Its tokens; none if there are no probabilities, or numbers that can be none."""
    tokens = generation.tokens
    known = all(math.isfinite(token.logprob) and math.isfinite(token.typed_logprob) for token in tokens)
    return () if generation.doubt or not known else tokens


@attrs.frozen
class Completing(Asking):
    """Asks for the rest of a line, as the editor does. criteria: as `judge` names them."""

    criteria: tuple[str, ...] = ("exact",)
    judge: Judge = exactly

    def expecting(self, answerer: Answerer) -> Self:
        """Asks for the same prompts everywhere: the speeds of machines, and so their windows, differ."""
        return attrs.evolve(self, expected=answerer, window=answerer.window)

    def answerer(self) -> Answerer:
        host = self.host()
        loaded = host.loaded()
        layout = host.layouts.of(loaded)
        size = WindowSize.SMALL if layout == Layout.of(loaded.card) else WindowSize.LARGE
        return Answerer(loaded.identity, layout.version, FeatureList.present(), size)

    async def prompt(self, host: EngineHost, payload: Plain) -> Prompt:
        item, layout = line_item_of(payload), host.layouts.of(await host.engine.ready())
        return build_prompt(item.cursor, layout, surroundings_of(item, layout))

    @unhurried()
    def record(self, payload: Plain, answer: Answer) -> Record:
        item, generation = line_item_of(payload), answer.generation
        text = item.offered_as_code(generation.text)
        # As in the editor, an empty or runaway answer is not offered.
        shown = bool(text) and generation.stop is not Stop.LENGTH
        return record_of(
            answer,
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: self.judge(name, item, payload, text) for name in self.criteria},
            shown=shown,
            added=len(generation.tokens[0].text) if generation.tokens and answer.prompt.forced else None,
            features=_text_features(item.cursor, text) if shown else (),
            features_above=_text_features(without_below(item.cursor), text) if shown else (),
            condition=item.condition,
            source=item.source,
            characters=len(text),
            reference_characters=len(item.target),
        )


def _text_features(cursor: Cursor, text: str) -> tuple[float | None, ...]:
    return FeatureList.present().ordered(text_features(cursor, text))


TEXT, ENCODER = "text", "encoder"
"""What every record of a summary holds beside its tokens: counts of its text, and `features.FIT_NAMES`."""

OBSERVED = ObservationList(SUMMARY_VERSION, ((TEXT, features.NAMES), (ENCODER, features.FIT_NAMES)))


@attrs.frozen
class Summarising(Asking):
    """Asks for a function's summary, as the editor does."""

    most_tokens = MOST_OF_SUMMARIES

    def answerer(self) -> Answerer:
        """As `Asking.answerer`; NoModelError if there is no encoder, DataError without thresholds for it."""
        similarity = listed(shared_encoder())
        shipped_thresholds(similarity)
        loaded = self.host().loaded()
        # The prompt's version is asked for before there is an item.
        function = function_of("def f():\n    return 1", "python")
        assert function is not None
        version = self.shown(SummaryItem("", "", "", "python", function, ""), loaded).version
        return Answerer(loaded.identity, version, similarity=similarity, observations=self.observations())

    def observations(self) -> ObservationList:
        """What the records hold besides."""
        return OBSERVED

    def shown(self, item: SummaryItem, loaded: LoadedModel) -> Prompt:
        """The prompt of the editor for a function."""
        return summary_prompt(
            item.function, item.language, loaded.card.chat, loaded.card.window, item.examples
        )

    async def prompt(self, host: EngineHost, payload: Plain) -> Prompt:
        return self.shown(summary_item_of(payload), await host.engine.ready())

    def record(self, payload: Plain, answer: Answer) -> Record:
        item, text = summary_item_of(payload), sentence_of(answer.generation)
        encoder = shared_encoder()
        names = listed(encoder)
        values = similarities(encoder, text, item.reference) if text else {}
        observed: dict[str, tuple[float | None, ...]] = {}
        costs: dict[str, tuple[int, int, int]] = {}
        if features.plain_words(text):
            window = self.host().loaded().card.window
            counted = features.text_features(
                text,
                item.function,
                answer=answer.generation.text,
                ended=answer.generation.stop is not Stop.LENGTH,
                window=window,
            )
            fit = features.fit_with_examples(encoder, text, item.function, item.examples, item.scores)
            observed[TEXT] = tuple(counted.get(name) for name in features.NAMES)
            observed[ENCODER] = tuple(fit.get(name) for name in features.FIT_NAMES)
            costs["summary"] = cost_of(answer.generation)
        return record_of(
            answer,
            item=item.id,
            group=item.group,
            stratum=STRATUM,
            correct=shipped_thresholds(names).verdicts(values),
            shown=bool(text),
            similarity=tuple(values[name] for name in names.names) if values else (),
            observed=observed | dict(answer.observed),
            costs=costs | dict(answer.costs),
            characters=len(text),
            reference_characters=len(item.reference),
            judged_tokens=tokens_of(text, answer.generation),
        )


def tokens_of(sentence: str, generation: Generation) -> int | None:
    """How many of an answer's first tokens make the sentence that is judged; None if that is all of it."""
    judged, text = sentence.removesuffix(" …"), ""
    if judged in ("", _readable(generation.text)):
        return None
    for count, token in enumerate(generation.tokens, 1):
        text += token.text
        if _readable(text).startswith(judged):
            return count
    return None


def _readable(text: str) -> str:
    return without_hidden(" ".join(text.split()))


def sentence_of(generation: Generation) -> str:
    """The first one of an answer, "" if there is none."""
    return first_sentence(generation.text, whole=generation.stop is not Stop.LENGTH)
