"""The engine that a worker asks: opened once in a process, on an event loop in a thread of its own.

Any thread may ask. Whoever asks for items of a task (`item_worker`) shares this, and how an answer becomes a
record.
"""

from __future__ import annotations

import abc
import asyncio
import atexit
import functools
import hashlib
import json
import math
import os
import threading
from collections.abc import Callable, Coroutine, Hashable, Iterable
from pathlib import Path
from typing import Any, Self, TypeVar

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.completion.prompt import LayoutChooser, WindowSize
from lsp_calib.corpus.header import FeatureList, ObservationList, SimilarityList
from lsp_calib.corpus.places import Plain
from lsp_calib.corpus.records import Record
from lsp_calib.errors import DataError, EngineDiedError, SettingsError
from lsp_calib.inference import open_engine
from lsp_calib.inference.choice import EngineChoice, Remote
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.values import Generation, ModelIdentity, Prompt, Token

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
class Asking(abc.ABC):
    """A `runner.Ask` that knows where it finds its model.

    choice: the engine. private: "" for the user's shared model process; else a folder in which each asking
        process gets its own state folder and thus its own model process.
    expected: the model that must answer.
    window: how much of a document the model sees; None: as much as when it serves an editor on this machine.
    """

    choice: EngineChoice
    private: str = ""
    expected: Answerer | None = None
    window: WindowSize | None = None

    def __call__(self, payload: Plain) -> Plain:
        """Ask, apply the criteria, drop the text. Raises EngineError; DataError if another model answers."""
        if self.expected is not None and (found := self.answerer()) != self.expected:
            raise DataError(
                f"A worker's model, prompt or features ({found}) differ from those of the records "
                f"({self.expected}). Give each worker the same model and version of lsp-calib."
            )
        return self.result(payload)

    @abc.abstractmethod
    def result(self, payload: Plain) -> Plain:
        """The part of an item's answer that the record keeps."""

    @abc.abstractmethod
    def answerer(self) -> Answerer:
        """The model that answers.

        Raises ModelError or EngineError if there is none, SettingsError if its engine cannot observe what is
        to be observed.
        """

    def describe(self) -> Answerer:
        """As `answerer`, and raises what else would fail, before anything is asked."""
        return self.answerer()

    def host(self) -> EngineHost:
        """The engine that this process asks."""
        return host_for(self.private, self.choice, self.window)

    def asked(self, work: Callable[[EngineHost], Coroutine[Any, Any, T]]) -> T:
        """What `work` returns of the engine; done again when the model process has died."""
        host = self.host()
        return patiently(lambda: host.wait(work(host)))

    def expecting(self, answerer: Answerer) -> Self:
        """The same, refusing to ask another one."""
        return attrs.evolve(self, expected=answerer)

    def at(self, url: str) -> Self:
        """The same, asking the server at this address."""
        known = self.choice.remote or Remote("")
        return attrs.evolve(self, choice=attrs.evolve(self.choice, remote=attrs.evolve(known, url=url)))

    def privately(self, folder: str) -> Self:
        """The same, with a model process for each process that asks."""
        return attrs.evolve(self, private=folder)


class EngineHost:
    """An engine on an event loop of its own. window: as in `Asking`."""

    def __init__(self, choice: EngineChoice, window: WindowSize | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._thread.start()
        self.engine = open_engine(choice)
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


_hosts: dict[Hashable, EngineHost] = {}
_lock = threading.Lock()


def host_for(private: str, choice: EngineChoice, window: WindowSize | None) -> EngineHost:
    """This process's host of a choice, made when it is first asked for. private: as in `Asking`."""
    key = private, choice, window
    with _lock:
        if key not in _hosts:
            if private:
                _move_in(Path(private))
            _hosts[key] = EngineHost(choice, window)
        return _hosts[key]


def close_engines() -> None:
    """Close the engines of this process."""
    with _lock:
        while _hosts:
            _hosts.popitem()[1].close()


atexit.register(close_engines)


def check_observes(loaded: LoadedModel, observed: Iterable[str], remedy: str) -> None:
    """Raises SettingsError, with a remedy, for an engine that lacks one of the observations."""
    if (names := sorted(observed)) and not loaded.engine.startswith("llama-cpp-python"):
        raise SettingsError(f"The engine {loaded.engine} cannot observe {', '.join(names)}: {remedy}.")


def patiently(ask: Callable[[], T]) -> T:
    """What `ask` returns; called again when the model process has died. Raises EngineDiedError at last."""
    for _ in range(_TRIES - 1):
        try:
            return ask()
        except EngineDiedError:
            continue
    return ask()


def prompt_hash(prompt: Prompt) -> str:
    """A checksum of the prompt: 16 hexadecimal digits."""
    parts = [[kind.value, text] for kind, text in prompt.segments]
    return hashlib.sha256(json.dumps([*parts, prompt.forced]).encode()).hexdigest()[:16]


def timing_of(generation: Generation) -> dict[str, float]:
    """What is kept of an answer's times, beside its record."""
    timing = generation.timing
    return {
        "ms": round(timing.total_ms, 1),
        "decode_ms": round(timing.decode_ms, 1),
        "prompt_tokens": timing.prompt_tokens,
        "generated_tokens": timing.generated_tokens,
    }


def believable(generation: Generation) -> tuple[Token, ...]:
    """Its tokens; none if there are no probabilities, or numbers that can be none."""
    tokens = generation.tokens
    known = all(math.isfinite(token.logprob) and math.isfinite(token.typed_logprob) for token in tokens)
    return () if generation.doubt or not known else tokens


def record_of(generation: Generation, prompt: Prompt, **more: Any) -> Record:
    """The record of an answer. more: the fields that do not follow from its prompt and tokens."""
    tokens = believable(generation)
    return Record(
        stop=generation.stop.value,
        tokens=tuple(token.id for token in generation.tokens),
        logprobs=tuple(token.logprob for token in tokens),
        typed_logprobs=tuple(token.typed_logprob for token in tokens),
        entropies=generation.entropies or () if tokens else (),
        prompt=prompt_hash(prompt),
        doubt=bool(generation.tokens) and not tokens,
        **more,
    )


def _move_in(base: Path) -> None:
    """Give this worker process its own state folder, with the user's models in it."""
    models = home.state_dir() / "models"
    own = home.private_folder(base / str(os.getpid()))
    (own / "models").symlink_to(models, target_is_directory=True)
    os.environ["LSP_CALIB_HOME"] = str(own)
