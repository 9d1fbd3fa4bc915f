"""How fast each model was on this machine: measured by `bench` and `doctor`, read when a model is chosen."""

from __future__ import annotations

import math
import time
from typing import TypeGuard

import attrs

from lsp_calib.inference.models import sidecar
from lsp_calib.inference.models.card import ModelCard

_MEMORY = ".speed.json"

LATENCY_BUDGET = 0.3
"""Seconds within which a completion should be there after a keystroke."""

# The cost of a keystroke where the cache holds everything but the typed text: a few tokens to evaluate, and a
# line to generate.
_PROMPT_TOKENS = 4
_LINE_TOKENS = 9


@attrs.frozen
class Speed:
    """Tokens a second. at: seconds since the epoch, when it was measured."""

    prompt_per_s: float
    generation_per_s: float
    at: float = 0.0

    @property
    def line_seconds(self) -> float:
        """Seconds from a keystroke to a line of usual length."""
        return _PROMPT_TOKENS / self.prompt_per_s + _LINE_TOKENS / self.generation_per_s

    @property
    def quick_enough(self) -> bool:
        return self.line_seconds <= LATENCY_BUDGET


def remember_speed(card: ModelCard, prompt_per_s: float, generation_per_s: float) -> None:
    """Keep a measurement (tokens a second). Impossible values are not kept. Never fails."""
    if _possible(prompt_per_s) and _possible(generation_per_s):
        entry = {"prompt_per_s": prompt_per_s, "generation_per_s": generation_per_s, "at": time.time()}
        sidecar.update(_MEMORY, _key(card), entry)


def known_speed(card: ModelCard) -> Speed | None:
    """The last measurement of a model, None without one."""
    entry = sidecar.read(_MEMORY).get(_key(card))
    if not isinstance(entry, dict):
        return None
    values = [entry.get(name) for name in ("prompt_per_s", "generation_per_s", "at")]
    prompt, generation, at = (value if _possible(value) else 0.0 for value in values)
    return Speed(prompt, generation, at) if prompt and generation else None


def _key(card: ModelCard) -> str:
    return f"{card.name} {card.quantisation}".strip()


def _possible(value: object) -> TypeGuard[float]:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    )
