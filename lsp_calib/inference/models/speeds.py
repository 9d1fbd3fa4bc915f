"""How fast each model answers here: the server times its own requests. Read when a model is chosen.

Neither `doctor` nor `bench` leaves anything here: a measurement beside other programs would decide for good.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Annotated

import attrs
import msgspec
from msgspec import Meta

from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.card import ModelCard
from lsp_calib.values import Timing

_MEMORY = ".speed.json"

LATENCY_BUDGET = 0.7
"""Seconds within which half of the completions that the model is asked for should come. A better model is
worth waiting for: of Qwen2.5-Coder-1.5B's lines 57 % are right, of SmolLM2's 27 %."""

ENOUGH = 20
"""Answers on a quiet machine that a measurement needs."""

# Of the processors: the most that the machine may have had at work in the last minute, the model's share
# included. A model that is typed with uses its threads for about a third of the time.
_QUIET = 0.75
# Answers that are kept, the latest; and new ones after which the measurement is written again.
_MOST, _OFTEN = 200, 50
# A prompt with fewer tokens to evaluate says nothing about the speed of a batch.
_BATCH = 32

_Positive = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]


@attrs.frozen
class Speed:
    """Of one model. p50: seconds within which half of the answers came. n: how many were timed.

    prompt_per_s, generation_per_s: tokens a second; None where no answer told. at: seconds since the epoch.
    """

    p50: _Positive
    n: Annotated[int, Meta(ge=ENOUGH)]
    prompt_per_s: _Positive | None = None
    generation_per_s: _Positive | None = None
    at: float = 0.0

    @property
    def quick_enough(self) -> bool:
        return self.p50 <= LATENCY_BUDGET

    @property
    def words(self) -> str:
        """Such as: half of 40 answers came within 330 ms."""
        return f"half of {self.n} answers came within {1e3 * self.p50:.0f} ms"


def is_quiet() -> bool:
    """Whether little else runs on this machine. True where the system does not report it."""
    try:
        return os.getloadavg()[0] <= _QUIET * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # not on Windows
        return True


class Answers:
    """Times of a model's answers to what is typed. Not for use from several threads at once.

    quiet: whether the machine is quiet now, None: as `is_quiet` says; what is timed under load is not
        counted.
    """

    def __init__(self, card: ModelCard, quiet: Callable[[], bool] | None = None) -> None:
        self._card = card
        self._quiet = quiet or is_quiet
        self._totals: deque[float] = deque(maxlen=_MOST)
        self._prompts: deque[float] = deque(maxlen=_MOST)
        self._generations: deque[float] = deque(maxlen=_MOST)
        self._new = 0

    def took(self, timing: Timing) -> bool:
        """Count an answer. Whether there is something new to `remember`."""
        if timing.total_ms <= 0.0 or not self._quiet():
            return False
        self._totals.append(timing.total_ms / 1e3)
        evaluated = timing.prompt_tokens - timing.prompt_reused
        if evaluated >= _BATCH and timing.prompt_ms > 0.0:
            self._prompts.append(1e3 * evaluated / timing.prompt_ms)
        if timing.generated_tokens > 1 and timing.generate_ms > 0.0:
            self._generations.append(1e3 * (timing.generated_tokens - 1) / timing.generate_ms)
        self._new += 1
        if len(self._totals) < ENOUGH or (len(self._totals) > ENOUGH and self._new < _OFTEN):
            return False
        self._new = 0
        return True

    @property
    def speed(self) -> Speed | None:
        """None while there are too few answers."""
        if len(self._totals) < ENOUGH:
            return None
        prompt, generation = (
            statistics.median(found) if found else None for found in (self._prompts, self._generations)
        )
        return Speed(statistics.median(self._totals), len(self._totals), prompt, generation, time.time())

    def remember(self) -> None:
        """Keep what is known so far for the next choice of a model. Never fails."""
        if (speed := self.speed) is not None:
            remember_speed(self._card, speed)


def remember_speed(card: ModelCard, speed: Speed) -> None:
    """Keep a measurement; rates that it does not tell stay. Impossible ones are not kept. Never fails."""
    before = known_speed(card)
    if before is not None:
        rates = {
            name: getattr(before, name)
            for name in ("prompt_per_s", "generation_per_s")
            if getattr(speed, name) is None
        }
        speed = attrs.evolve(speed, **rates)
    entry = attrs.asdict(speed)
    if _read(entry) is not None:
        sidecar.update(_MEMORY, _key(card), entry)


def known_speed(card: ModelCard) -> Speed | None:
    """The last measurement of a model, None without one."""
    return _read(sidecar.read(_MEMORY).get(_key(card)))


def _read(entry: object) -> Speed | None:
    """What earlier versions wrote came from `doctor` and `bench`, and has no number of answers."""
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(entry, Speed)
    return None


def _key(card: ModelCard) -> str:
    return f"{card.name} {card.quantisation}".strip()
