"""The state of the server, for the `lsp-calib/status` notification and the status command."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from lsp_calib.completion import Cut, Hidden, Removal
from lsp_calib.inference.engine import EngineState
from lsp_calib.values import CalibratorRef, Suggestion

# Suggestions that are recognised when they are sent to the client again.
_REMEMBERED = 1000


class Status:
    """State, model, calibrator of completions, latencies, and numbers: of suggestions shown by tier, of
    completions hidden, of answers withheld by reason, and of answers whose end was cut off by reason."""

    def __init__(
        self,
        note_on: Callable[[str], str | None] = lambda _: None,
        certificate_of: Callable[[str], dict[str, Any] | None] = lambda _: None,
        replayed: Callable[[], dict[str, int]] = dict,
    ) -> None:
        """note_on, certificate_of: for the id of a calibrator, what a user should know of it, and what is
        promised of it. replayed: numbers of the lines that are completed for their labels."""
        self._note_on = note_on
        self._certificate_of = certificate_of
        self._replayed = replayed
        self.state = EngineState.STARTING
        self.message = "Starting."
        self.pause = ""  # for how long completions are paused, a sentence; "" if they are not
        self.model: str | None = None
        self.calibrator: CalibratorRef | None = None
        self._hidden = 0
        self._withheld: Counter[Removal] = Counter()
        self._cut: Counter[Cut] = Counter()
        self._tiers: Counter[str] = Counter()
        self._shown: dict[str, None] = {}  # the latest, oldest first
        self._latencies: deque[float] = deque(maxlen=200)

    def made(self, suggestion: Suggestion) -> None:
        """The model has made a suggestion, whether or not it will be shown."""
        if suggestion.kind != "summary":
            self.calibrator = suggestion.confidence.calibrator
        self._latencies.append(suggestion.timing.total_ms)

    def hidden(self, hidden: Hidden) -> None:
        """The model has made a completion that is not shown."""
        self.calibrator = hidden.confidence.calibrator
        self._latencies.append(hidden.timing.total_ms)
        self._hidden += 1

    def withheld(self, removal: Removal) -> None:
        """Nothing of an answer of the model can be offered."""
        self._withheld[removal] += 1

    def cut(self, why: Cut) -> None:
        """The end of an answer of the model is not offered."""
        self._cut[why] += 1

    def shown(self, suggestion: Suggestion) -> None:
        """A suggestion is sent to the client; perhaps again, while the user types its text."""
        if suggestion.id in self._shown:
            return
        self._shown[suggestion.id] = None
        if len(self._shown) > _REMEMBERED:
            del self._shown[next(iter(self._shown))]
        self._tiers[suggestion.confidence.tier.value] += 1

    @property
    def waits_for(self) -> str:
        """What an answer of the model waits for, a sentence; "" if the model is at work."""
        return self.message if self.state in (EngineState.STARTING, EngineState.LOADING) else ""

    def latency(self) -> tuple[float, float] | None:
        """Half of the last answers, and 95 % of them, came within so many milliseconds; None without any."""
        if not self._latencies:
            return None
        p50, p95 = np.percentile(self._latencies, [50, 95])
        return float(p50), float(p95)

    def to_wire(self) -> dict[str, Any]:
        p50, p95 = self.latency() or (None, None)
        ref = self.calibrator
        state, message = self.state.value, self.message
        if self.pause and self.state not in (EngineState.NO_MODEL, EngineState.ERROR):
            state, message = "paused", self.pause
        return {
            "state": state,
            "message": message,
            "model": self.model,
            "calibrator": {"id": ref.id, "source": ref.source, "state": ref.state, "n": ref.n}
            if ref
            else None,
            "note": self._note_on(ref.id) if ref else None,
            "certificate": self._certificate_of(ref.id) if ref else None,
            "tiers": {tier: self._tiers[tier] for tier in ("accept", "review", "reject")},
            "hidden": self._hidden,
            "withheld": {removal.value: self._withheld[removal] for removal in Removal},
            "cut": {cut.value: self._cut[cut] for cut in Cut},
            "replay": self._replayed(),
            "latencyMs": {
                "p50": None if p50 is None else round(p50, 1),
                "p95": None if p95 is None else round(p95, 1),
            },
        }
