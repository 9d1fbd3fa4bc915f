"""The interface of every engine: the model process, or a remote server.

Callers do not know which one they have. An engine is used from one asyncio event loop.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from typing import Annotated, Protocol

import attrs
from msgspec import Meta

from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.values import Generation, ModelIdentity, Prompt

# The bounds that a model process checks. NaN and the infinities are not within any; no context has as many
# positions as `Count` allows.
Count = Annotated[int, Meta(ge=0, le=1 << 31)]
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Positive = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
# More tokens than any answer has, and more words than any question has answers.
_Given = Annotated[tuple[Count, ...], Meta(max_length=1 << 16)]
_Words = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(max_length=64)]


class Priority(enum.IntEnum):
    """Interactive work goes first, and interrupts other work: the user is typing. Idle work goes
    last: nothing waits for it."""

    INTERACTIVE = 0
    BACKGROUND = 1
    IDLE = 2


class EngineState(enum.StrEnum):
    """The state of an engine, as in the `lsp-calib/status` notification."""

    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    NO_MODEL = "noModel"
    ERROR = "error"


class Observe(enum.Flag):
    """What to observe while tokens are chosen: see `Observation`. An engine that cannot observe something
    leaves it out."""

    NOTHING = 0
    ENTROPY = 1
    MARGIN = 2


@attrs.frozen
class Sampling:
    """Draw tokens from the softmax at a temperature above 0; the same seed draws the same ones.

    answers: an engine that is better asked once than several times may draw so many, `Generation.others`.
    """

    temperature: Positive
    seed: int
    answers: Annotated[int, Meta(ge=1, le=64)] = 1


@attrs.frozen
class Request:
    """One generation, ended by the line's end or the function's, the end of the text or `max_tokens`.

    max_tokens: 0 only evaluates the prompt ahead, for later interactive requests that begin alike; an
        engine may ignore it, see `LoadedModel.evaluates_ahead`.
    document: where this is not empty, a later interactive request of the same client for the same document
        supersedes this one (SupersededError).
    one_line: stop at the line's end.
    sampling: None decodes greedily. Probabilities are those of the unmodified softmax either way.
    reuse: False evaluates the whole prompt afresh, unless the answer begins with given tokens: its cost does
        not depend on earlier requests. For measurements.
    observe: what to observe besides log-probabilities.
    given: ids of the tokens that the answer begins with, those of forced text included. They are part of its
        text and count towards `max_tokens`, but are not among its `tokens`, which begin after them. An
        engine without token ids raises EngineError.
    words: words whose probability to come next is given at each token, see `Observation.words`: of the tokens
        that are the word in any case, with white space and punctuation around it. Meant for questions that
        one word answers. An engine that cannot observe leaves it out.
    lead: the text that the answer should begin with, behind the forced characters; no line's end in it. The
        model's own answer is given if it begins so. Otherwise the lead is forced, and its tokens have the
        probabilities that they have without that: see `Generation.led`. An engine that cannot force it gives
        the model's own answer.
    function: not None: the answer goes on inside a Python function, from the start of a line, and stops
        where that ends. It is the columns by which its definition is indented. A remote engine raises
        EngineError.
    """

    prompt: Prompt
    max_tokens: Count
    priority: Priority = Priority.INTERACTIVE
    document: str = ""
    one_line: bool = True
    sampling: Sampling | None = None
    reuse: bool = True
    observe: Observe = Observe.NOTHING
    given: _Given = ()
    words: _Words = ()
    function: Count | None = None
    lead: str = ""


@attrs.frozen
class LoadedModel:
    """A loaded model: the identity of its file, the card with its prompt format, and the engine's name.

    evaluates_ahead: whether a request without tokens to generate (`max_tokens`) makes a later one quicker.
    """

    identity: ModelIdentity
    card: ModelCard
    engine: str = ""
    evaluates_ahead: bool = False


StateListener = Callable[[EngineState, str, float | None], None]
"""Called with the state, a message for people, and the loaded fraction in [0, 1] while loading."""


def ignore_state(_state: EngineState, _message: str, _fraction: float | None) -> None:
    """A `StateListener` that does nothing."""


class Engine(Protocol):
    """A model that answers requests.

    Cancelling the task that awaits `generate` stops the work itself, inside a running decode.
    """

    async def ready(self) -> LoadedModel:
        """Wait until the model can answer. Raises ModelError or EngineError if it never will."""
        ...

    async def generate(self, request: Request) -> Generation:
        """Answer a request. Raises EngineError if that fails; the next request may succeed."""
        ...

    async def restart(self) -> None:
        """Forget a failure, release the model, and start again at the next request."""
        ...

    async def close(self) -> None:
        """Release the engine."""
        ...
