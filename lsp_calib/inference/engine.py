"""What every engine answers to: the model process today, a remote server later.

Callers never learn which one they have. An engine is used from one asyncio event loop.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

import attrs

from lsp_calib.inference.cards import ModelCard
from lsp_calib.values import Generation, ModelIdentity, Prompt


class Priority(enum.IntEnum):
    """Interactive work goes first: somebody is typing."""

    INTERACTIVE = 0
    BACKGROUND = 1


class EngineState(enum.StrEnum):
    """How an engine is; the words of the `lsp-calib/status` notification."""

    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    NO_MODEL = "noModel"
    ERROR = "error"


@attrs.frozen
class Request:
    """One generation, greedy, ended by the line's end, the end of the text or `max_tokens`."""

    prompt: Prompt
    max_tokens: int
    priority: Priority = Priority.INTERACTIVE


@attrs.frozen
class LoadedModel:
    """A model that can answer: which bytes it is, and how it wants to be asked."""

    identity: ModelIdentity
    card: ModelCard


StateListener = Callable[[EngineState, str, float | None], None]
"""Called with the state, a message for people, and the loaded fraction in [0, 1] while loading."""


class Engine(Protocol):
    """A model that can be asked.

    Cancelling the task that awaits `generate` stops the work itself, inside a running decode.
    """

    async def ready(self) -> LoadedModel:
        """Wait until the model can answer. Raises ModelError or EngineError if it never will."""
        ...

    async def generate(self, request: Request) -> Generation:
        """Answer a request. Raises EngineError if the engine fails on it; the next one may succeed."""
        ...

    async def restart(self) -> None:
        """Forget a failure, let the model go, and begin again at the next request."""
        ...

    async def close(self) -> None:
        """Let the engine go."""
        ...
