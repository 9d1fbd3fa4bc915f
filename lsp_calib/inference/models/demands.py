"""What a model takes here: memory, and the time of an answer, which the server's own requests tell.

Both are shown; neither chooses a model.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import attrs
import msgspec
from msgspec import Meta

from lsp_calib.inference.choice import CACHE_MB
from lsp_calib.inference.models import converted, sidecar
from lsp_calib.inference.models.cards import BITS, ModelCard, load_cards
from lsp_calib.values import Timing

# Buffers for computing, the vocabulary's scores, the process itself.
_OVERHEAD = 300 << 20
STREAMS = 2
"""Of the cache: one for interactive requests, one for background work."""

# Tokens of a place, for which a prompt shows 1,600 characters and more.
_PLACE = 600


def needed(card: ModelCard) -> int:
    """Bytes that the model takes when loaded: weights, caches, buffers. An estimate, rather high than low:
    prompts of the whole context, and as many places as are kept by default."""
    weights = card.path.stat().st_size if card.path.is_file() else card.size
    weights = weights or int(card.parameters * BITS / 8)
    weights = max(weights, *(one.stat().st_size for one in converted.all_of(card.path)), 0)
    states = CACHE_MB * 10**6
    if _PLACE * card.kv_bytes > states:
        states = 0
    return weights + STREAMS * card.context * card.kv_bytes + states + _OVERHEAD


def available() -> int | None:
    """Bytes that programs could still use; None where that is unknown, as anywhere but on Linux."""
    return _memory("MemAvailable:")


def leaves_a_third(more: int) -> bool:
    """Whether a third of the memory stays free when so many bytes of it are taken. False where that is
    unknown."""
    free, whole = available(), _memory("MemTotal:")
    return free is not None and whole is not None and 3 * (free - more) >= whole


def _memory(field: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) << 10
    return None


def fits(needs: int) -> bool | None:
    """Whether so many bytes are free beside the programs that run at present; None where that is unknown."""
    free = available()
    return None if free is None else needs <= free


_MEMORY = ".speed.json"

LATENCY_BUDGET = 0.7
"""Seconds within which half of the completions that the model is asked for should come."""

ENOUGH = 20
"""Answers on a quiet machine that a measurement needs."""

# Of the processors: the most that the machine may have had at work in the last minute, the model's share
# included. A model that is typed with uses its threads for about a third of the time.
_QUIET = 0.75
# Answers that are kept, the latest; and new ones after which the measurement is written again.
_MOST, _OFTEN = 200, 50


@attrs.frozen
class Speed:
    """Of one model. p50: seconds within which half of the answers came. n: how many were timed."""

    p50: Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
    n: Annotated[int, Meta(ge=ENOUGH)]

    @property
    def quick_enough(self) -> bool:
        return self.p50 <= LATENCY_BUDGET


def is_quiet() -> bool:
    """Whether little else runs on this machine. True where the system does not report it."""
    try:
        return os.getloadavg()[0] <= _QUIET * (os.cpu_count() or 1)
    except (AttributeError, OSError):  # not on Windows
        return True


class Answers:
    """Times of a model's answers to what is typed. Not for use from several threads at once.

    quiet: whether the machine is quiet now: what is timed under load is not counted.
    """

    def __init__(self, card: ModelCard, quiet: Callable[[], bool] | None = None) -> None:
        self._card = card
        self._quiet = quiet or is_quiet
        self._seconds: deque[float] = deque(maxlen=_MOST)
        self._new = 0

    def took(self, timing: Timing) -> bool:
        """Count an answer. Whether there is something new to `remember`."""
        if timing.total_ms <= 0.0 or not self._quiet():
            return False
        self._seconds.append(timing.total_ms / 1e3)
        self._new += 1
        if len(self._seconds) < ENOUGH or (len(self._seconds) > ENOUGH and self._new < _OFTEN):
            return False
        self._new = 0
        return True

    def remember(self) -> None:
        """Keep the median on disk. Never fails."""
        remember_speed(self._card, Speed(statistics.median(self._seconds), len(self._seconds)))


def remember_speed(card: ModelCard, speed: Speed) -> None:
    """Keep a measurement. Never fails: at worst it is measured again."""
    sidecar.update(_MEMORY, _key(card), attrs.asdict(speed))


def known_speed(card: ModelCard) -> Speed | None:
    """The last measurement of a model; None without one, or where it is damaged."""
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(sidecar.read(_MEMORY).get(_key(card)), Speed)
    return None


def slow_here(card: ModelCard) -> str:
    """What the user should know of a slow model, and which one is quicker: a sentence. "" if it is quick
    enough or was not timed."""
    speed = known_speed(card)
    if speed is None or speed.quick_enough:
        return ""
    said = f"{card.name} is slow here: {1e3 * speed.p50:.0f} ms a key"
    smallest = min(load_cards().values(), key=lambda one: one.parameters)
    if smallest.name == card.name:
        return f"{said}."
    other = known_speed(smallest)
    takes = "is the smallest model" if other is None else f"takes {1e3 * other.p50:.0f} ms"
    return f"{said}; {smallest.name} {takes}."


def _key(card: ModelCard) -> str:
    return f"{card.name} {card.quantisation}".strip()
