"""Asks a model for one item: in this process, in another one, or on another machine.

The server's own functions make the prompt and read the answer. Each process opens an engine once and keeps
it; the engine runs on an event loop in its own thread, so that any thread may ask.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import math
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion import CompletionService, Cursor
from lsp_calib.completion.postprocess import clean
from lsp_calib.completion.prompt import version_of
from lsp_calib.errors import DataError, EngineDiedError
from lsp_calib.evaluation.criteria import is_correct
from lsp_calib.evaluation.records import Record
from lsp_calib.evaluation.runner import Plain
from lsp_calib.evaluation.tasks import line_item_of
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engine import LoadedModel, Priority
from lsp_calib.inference.engines import open_engine
from lsp_calib.values import Generation, ModelIdentity, Prompt, Stop

T = TypeVar("T")

# The next request restarts a model process that died. If it dies three times, the request is the cause.
_TRIES = 3


@attrs.frozen
class Answerer:
    """The model that answers and how it is asked, for the header of a file of records."""

    model: ModelIdentity
    prompt_version: str


@attrs.frozen
class Completing:
    """A `runner.Ask` for places in source.

    choice: the engine. private: "" for the user's shared model process; else a folder in which each asking
        process gets its own state folder and thus its own model process.
    criteria: names of `criteria.CRITERIA`. expected: the model that must answer.
    """

    choice: EngineChoice
    criteria: tuple[str, ...] = ("exact",)
    private: str = ""
    expected: Answerer | None = None

    def describe(self) -> Answerer:
        """The model that answers. Raises ModelError or EngineError if there is none."""
        loaded = self._host().loaded()
        return Answerer(loaded.identity, version_of(loaded.card.completion))

    def __call__(self, payload: Plain) -> Plain:
        """Ask, apply the criteria, drop the text. Raises EngineError; DataError if another model answers."""
        item = line_item_of(payload)
        host = self._host()
        if self.expected is not None and self.describe() != self.expected:
            raise DataError(
                f"A worker answers with another model or prompt ({self.describe()}) than the one whose "
                f"records these are ({self.expected}): records of two models are not mixed. Give each worker "
                "the same model and version of lsp-calib."
            )
        for attempt in range(1, _TRIES + 1):
            try:
                prompt, generation = host.ask(item.cursor)
                break
            except EngineDiedError:
                if attempt == _TRIES:
                    raise
        text = clean(generation.text, item.cursor)
        tokens = () if generation.doubt or not _believable(generation) else generation.tokens
        softmaxes = [token.softmax for token in tokens]
        record = Record(
            item=item.id,
            group=item.group,
            stratum=item.stratum,
            correct={name: is_correct(name, item, payload, text) for name in self.criteria},
            # As in the editor, an empty or runaway answer is not offered.
            shown=bool(text) and generation.stop is not Stop.LENGTH,
            stop=generation.stop.value,
            tokens=tuple(token.id for token in generation.tokens),
            logprobs=tuple(token.logprob for token in tokens),
            typed_logprobs=tuple(token.typed_logprob for token in tokens),
            entropies=tuple(s.entropy for s in softmaxes if s is not None) if all(softmaxes) else (),
            prompt=prompt_hash(prompt),
            doubt=bool(generation.tokens) and not tokens,
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

    def _host(self) -> _Host:
        return _host_for(self.choice, self.private)


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

    def __init__(self, choice: EngineChoice) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine", daemon=True)
        self._thread.start()
        self._engine = open_engine(choice)
        self._service = CompletionService(self._engine, ConfidenceEstimator(CalibratorStore.open()))

    def loaded(self) -> LoadedModel:
        return self._wait(self._engine.ready())

    def ask(self, cursor: Cursor) -> tuple[Prompt, Generation]:
        """The prompt and its answer, evaluated afresh, so that earlier requests change no number."""
        # Other engines do not return the distributions from which entropies are computed.
        whole = self.loaded().engine.startswith("llama-cpp-python")
        return self._wait(
            self._service.ask(cursor, Priority.BACKGROUND, reuse=False, temperatures=(1.0,) if whole else ())
        )

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


_hosts: dict[tuple[EngineChoice, str], _Host] = {}
_lock = threading.Lock()
atexit.register(close_engines)


def _host_for(choice: EngineChoice, private: str) -> _Host:
    with _lock:
        key = (choice, private)
        if key not in _hosts:
            if private:
                _move_in(Path(private))
            _hosts[key] = _Host(choice)
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
