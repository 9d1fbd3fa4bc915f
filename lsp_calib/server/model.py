"""The model of a connection, loaded at the start and again when its process has ended; the server's state."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.completion.postprocess import Cut
from lsp_calib.completion.prompt import LayoutChooser, WindowSize, line_purpose
from lsp_calib.completion.reasons import Removal
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.report import Latency
from lsp_calib.inference.engine import EngineState, LoadedModel
from lsp_calib.inference.models.demands import Answers, slow_here
from lsp_calib.server.messages import Connection, ProgressBar, UserMessages
from lsp_calib.values import CalibratorRef, Suggestion

logger = logging.getLogger(__name__)

# Suggestions that are recognised when they are sent to the client again.
_REMEMBERED = 1000


@attrs.define
class Ahead:
    """Prompt tokens evaluated where the cursor rested, since the start; of these, those that a later request
    has reused; seconds of a processor."""

    evaluated: int = 0
    used: int = 0
    seconds: float = 0.0


class Status:
    """State, model, calibrator of completions, latencies, and numbers: of suggestions shown by tier, of
    completions hidden, of answers withheld by reason, and of answers whose end was cut off by reason."""

    def __init__(self, connection: Connection, estimator: ConfidenceEstimator) -> None:
        self._connection = connection
        self._estimator = estimator
        self.state = EngineState.STARTING
        self.message = "Starting."
        self.pause = ""  # for how long completions are paused, a sentence; "" if they are not
        self.model: str | None = None
        self.window: WindowSize | None = None  # in use, None before the model is loaded
        self.slow = ""  # that the model is slow here, a sentence
        self.calibrator: CalibratorRef | None = None
        self._hidden = 0
        self._withheld: Counter[Removal] = Counter()
        self._cut: Counter[Cut] = Counter()
        self._tiers: Counter[str] = Counter()
        self._counted: set[tuple[str, str]] = set()
        self._latencies: deque[float] = deque(maxlen=200)
        self.answers: Answers | None = None  # of the model that is loaded here
        self.ahead = Ahead()
        self.loads_again = False  # and has not answered since
        self._closed = False

    def send(self) -> None:
        """Tell the client."""
        if not self._closed:
            self._connection.protocol.notify("lsp-calib/status", self.to_wire())

    def close(self) -> None:
        """Tell the client nothing more."""
        self._closed = True

    def made(self, suggestion: Suggestion, cuts: Collection[Cut] | None = None) -> None:
        """The model has made a suggestion, whether or not it is shown. cuts: None of a summary."""
        self.loads_again = False
        another = cuts is not None and suggestion.confidence.calibrator != self.calibrator
        if cuts is not None:
            self.calibrator = suggestion.confidence.calibrator
            self._cut.update(cuts)
            if self.answers is not None and self.answers.took(suggestion.timing):
                asyncio.get_running_loop().run_in_executor(None, self.answers.remember)
        self._latencies.append(suggestion.timing.total_ms)
        if another:  # that of another language
            self.send()

    def hidden(self, suggestion: Suggestion) -> None:
        """A completion is not shown; perhaps again, while the user types its text."""
        self._hidden += self._is_first("hidden", suggestion)

    def withheld(self, removal: Removal) -> None:
        """Nothing of an answer of the model can be offered."""
        self.loads_again = False
        self._withheld[removal] += 1

    def shown(self, suggestion: Suggestion) -> None:
        """A suggestion is sent to the client; perhaps again, while the user types its text."""
        self._tiers[suggestion.confidence.tier.value] += self._is_first("shown", suggestion)

    def _is_first(self, what: str, suggestion: Suggestion) -> bool:
        if (what, suggestion.id) in self._counted:
            return False
        if len(self._counted) >= _REMEMBERED:
            self._counted.clear()
        self._counted.add((what, suggestion.id))
        return True

    def calibrator_changed(self, ref: CalibratorRef) -> None:
        self.calibrator = ref
        self.send()

    def paused(self, message: str) -> None:
        self.pause = message
        self.send()

    @property
    def waits_for(self) -> str:
        """What an answer of the model waits for, a sentence; "" if the model is at work."""
        return self.message if self.state in (EngineState.STARTING, EngineState.LOADING) else ""

    def latency(self) -> Latency | None:
        """Of the last answers; None without any."""
        if not self._latencies:
            return None
        p50, p95 = np.percentile(self._latencies, [50, 95])
        return Latency(float(p50), float(p95))

    def to_wire(self) -> dict[str, Any]:
        ref, latency = self.calibrator, self.latency()
        p50, p95 = (None, None) if latency is None else (round(latency.p50, 1), round(latency.p95, 1))
        state, message = self.state.value, self.message
        if self.pause and self.state not in (EngineState.NO_MODEL, EngineState.ERROR):
            state, message = "paused", self.pause
        return {
            "state": state,
            "message": message,
            "model": self.model,
            "window": self.window,
            "slow": self.slow or None,
            "calibrator": ref.to_wire() if ref else None,
            "note": self._estimator.note_on(ref.id) if ref else None,
            "certificate": self._estimator.certificate(ref.id) if ref else None,
            "tiers": {tier: self._tiers[tier] for tier in ("accept", "review", "reject")},
            "hidden": self._hidden,
            "withheld": {removal.value: self._withheld[removal] for removal in Removal},
            "cut": {cut.value: self._cut[cut] for cut in Cut},
            "latencyMs": {"p50": p50, "p95": p95},
            "ahead": {**attrs.asdict(self.ahead), "seconds": round(self.ahead.seconds, 1)},
        }


@attrs.define(eq=False, repr=False, slots=False)
class Model:
    """Loads the model, and keeps the status up to date with its state.

    engine: what answers requests. layouts: of the prompts that each model gets. loaded: the model that
    answers, None before the first one is loaded. on_loaded: is told when it is.
    """

    _connection: Connection
    _estimator: ConfidenceEstimator
    _status: Status
    _messages: UserMessages
    _progress: ProgressBar
    _on_loaded: Callable[[LoadedModel], object]

    def __attrs_post_init__(self) -> None:
        self._loading: asyncio.Task[None] | None = None
        self.loaded: LoadedModel | None = None
        self._closed = False
        self.layouts = LayoutChooser(
            self._estimator.store.has_labels, WindowSize.named(self._connection.settings.window)
        )
        self.engine = self._connection.make_engine(self._engine_state)

    def load(self) -> None:
        """Load the model in the background, unless that was begun before. A remote server is first asked when
        something is wanted of it."""
        if self._connection.settings.remote_url is not None:
            status = self._status
            status.state, status.message = EngineState.READY, "A remote server is asked on demand."
            status.send()
        elif self._loading is None:
            self._loading = asyncio.create_task(self._load())

    async def restart(self) -> None:
        """Restart the engine and load the model again. Raises LspCalibError."""
        await self.engine.restart()
        self._messages.forget()
        self._status.loads_again = False
        self._loading = asyncio.create_task(self._load())

    def stop(self) -> None:
        """Load it no more."""
        self._closed = True
        if self._loading is not None:
            self._loading.cancel()

    async def purpose(self, language: str | None = None) -> Purpose:
        """Of completions by the model that is loaded, with the prompts it gets. Raises LspCalibError if there
        is none.

        language: None: that of the document opened last.
        """
        return self._purpose_of(await self.engine.ready(), language or self.language)

    @property
    def language(self) -> str:
        """Of the document opened last."""
        return self._languages()[-1]

    def _purpose_of(self, loaded: LoadedModel, language: str) -> Purpose:
        return line_purpose(loaded.identity, self.layouts.of(loaded).version, language)

    def _languages(self) -> list[str]:
        """The languages of the open documents, the one opened last at the end; Python if there are none."""
        opened = self._connection.open_documents()
        return [one.language for one in opened if one.language_id and one.is_code] or ["python"]

    async def _load(self) -> None:
        try:
            loaded = await self.engine.ready()
            self._status.model = loaded.identity.name
            is_local = self._connection.settings.remote_url is None
            if is_local and (self.loaded is None or self.loaded.identity != loaded.identity):
                self._status.answers = Answers(loaded.card)
            self.loaded = loaded
            for language in self._languages():
                purpose = self._purpose_of(loaded, language)
                self._status.calibrator = self._estimator.calibrator(purpose).ref
            self._status.window = self.layouts.size(loaded.card, loaded.identity)
            # It reads the cards of all models: nothing waits for it.
            self._status.slow = await asyncio.to_thread(slow_here, loaded.card) if is_local else ""
        except LspCalibError as error:
            # The engine has reported it through its state.
            logger.warning("No model: %s", error)
            return
        self._on_loaded(loaded)
        self._status.send()

    def _was_tried(self) -> bool:
        return not self._closed and (self._loading is None or self._loading.done())

    def _engine_state(self, state: EngineState, message: str, fraction: float | None) -> None:
        status = self._status
        status.state, status.message = state, message
        if state is EngineState.LOADING:
            self._progress.show(message, round(100 * (fraction or 0.0)))
        else:
            self._progress.end(message)
        if state is EngineState.ERROR:
            self._messages.error(message)
        elif state is EngineState.NO_MODEL:
            self._messages.warn(message)
        elif state is EngineState.READY and self._was_tried() and status.model is None:
            # A request has loaded it since: the model was pulled, or the server started.
            self._loading = asyncio.create_task(self._load())
        elif state is EngineState.LOADING and self._was_tried() and status.model is not None:
            # Its process has ended: it is loaded before the next request needs it.
            status.loads_again = True
            self._loading = asyncio.create_task(self._load())
        status.send()
