"""The end of a bench: estimated from the model's speed and then from its progress, or made to come early."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import attrs

from lsp_calib.errors import LspCalibError
from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.models.speeds import Speed

# The estimate starts as if this many seconds of work had been done in the expected time, so that the first
# reading alone cannot change it much.
_PRIOR = 3.0
# Seconds between two progress messages.
_OFTEN = 15.0
# Shares of keystrokes: those that ask the model, and those that begin a line or follow a jump.
_ASKED, _FAR = 0.6, 0.05
# Characters of code in a token.
_CHARACTERS = 3.0
# Seconds for evaluation in a pause to begin and end, and for a server and a model process to start.
_PAUSE, _START = 0.15, 4.0
# Bytes of weights per second: read from disk, and read from memory for a token by an older laptop.
_DISK, _MEMORY = 4e8, 8e9
# The cost of a keystroke where the cache holds everything but the typed text: a few tokens to evaluate, and a
# line to generate.
_PROMPT_TOKENS = 4
_LINE_TOKENS = 9
# Prompt tokens evaluated in the time of one generated token.
_BATCH = 5.0


class Part(enum.StrEnum):
    """The parts of a bench, named as in its report, in the order in which they are measured."""

    TYPING = "typing"
    CANCEL = "cancel"
    TYPING_ON = "typingOn"
    LONG_FILE = "longFile"
    IDLE = "idle"
    TWO = "two"
    PEER = "peer"
    BESIDE = "beside"
    SUMMARIES = "summaries"


@attrs.frozen
class Cost:
    """Seconds of work, which takes longer on a slower machine, and of waiting, which does not."""

    work: float = 0.0
    wait: float = 0.0


@attrs.frozen
class Unit:
    """Seconds that a model needs on this machine.

    key: for a keystroke that asks the model. window: for a full prompt. digits: for one with a
    token for each character. start: for starting a server and the model.
    """

    key: float
    window: float
    digits: float
    start: float

    @classmethod
    def of(cls, card: ModelCard, speed: Speed | None) -> Unit:
        """speed: as measured on this machine; None estimates it from the size of the weights."""
        guess = _MEMORY / max(card.size, 1)
        prompt_per_s = (speed and speed.prompt_per_s) or _BATCH * guess
        per_s = (speed and speed.generation_per_s) or guess
        return cls(
            key=speed.p50 if speed else _PROMPT_TOKENS / prompt_per_s + _LINE_TOKENS / per_s,
            window=card.window / _CHARACTERS / prompt_per_s,
            digits=card.window / prompt_per_s,
            start=_START + card.size / _DISK,
        )

    def typing(self, keys: int, edits: int, *, twice: bool = False) -> Cost:
        """The cost of `keys` keystrokes in `edits` documents. twice: a bare loop repeats the work."""
        work = keys * (_ASKED * self.key + _FAR * self.window) + edits * (self.window + self.key)
        return Cost((2 if twice else 1) * work, keys * _PAUSE)


class Forecast:
    """costs: the cost of each part, in order."""

    def __init__(self, costs: Mapping[Part, Cost]) -> None:
        self._costs = dict(costs)
        self._done = dict.fromkeys(costs, 0.0)

    def did(self, part: Part, share: float) -> None:
        """Record that this share of a part is done."""
        self._done[part] = share

    def unfinished(self) -> list[Part]:
        return [part for part, share in self._done.items() if share < 1]

    def left(self, elapsed: float) -> float:
        """Seconds until the end, from the work done in `elapsed` seconds."""
        done = sum(self._costs[part].work * share for part, share in self._done.items())
        waited = sum(self._costs[part].wait * share for part, share in self._done.items())
        slower = (max(elapsed - waited, 0.0) + _PRIOR) / (done + _PRIOR)
        work = sum(cost.work for cost in self._costs.values()) - done
        return slower * work + sum(cost.wait for cost in self._costs.values()) - waited


class Watch:
    """Reports the progress, and how long the rest will take."""

    def __init__(
        self,
        forecast: Forecast,
        say: Callable[[str], None],
        limit: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.forecast = forecast
        self._say, self._limit, self._clock = say, limit, clock
        self._began = self._said = clock()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    def announce(self, measured: bool) -> None:
        """Report how long it will take. measured: whether the model's speed was measured, not estimated."""
        left = self.forecast.left(self.seconds)
        basis = "by this model's speed on this machine" if measured else "a guess by the model's size"
        words = f"This takes {about(left)} ({basis})"
        if not self._limit:
            words += "; there is no time limit."
        elif left > self._limit:
            words += (
                f", longer than the time limit of {about(self._limit, exact=True)}: "
                "what is not measured by then is left out. Raise --limit, or measure less (--steps, --only)."
            )
        else:
            words += f"; at most {about(self._limit, exact=True)} (--limit)."
        self._say(words)

    def did(self, part: Part, words: str, done: float, of: float) -> None:
        """Record that `done` of `of` steps of a part are done. If `words` is set, report it at times."""
        self.forecast.did(part, min(done / of, 1.0) if of else 1.0)
        if words and self._clock() >= self._said + _OFTEN:
            self.say(words)

    def say(self, words: str) -> None:
        """Report what begins now, and how long all the rest will take."""
        self._said = self._clock()
        self._say(f"{words} {about(self.forecast.left(self.seconds)).capitalize()} left.")


def about(seconds: float, *, exact: bool = False) -> str:
    """A duration in words, rounded as roughly as an estimate deserves."""
    prefix = "" if exact else "about "
    if seconds < 10 and not exact:
        return "less than 10 s"
    if seconds < 100:
        return f"{prefix}{seconds if exact else 5 * round(seconds / 5):g} s"
    minutes = round(seconds / 60)
    return f"{prefix}{minutes} min" if minutes < 100 else f"{prefix}{minutes / 60:.1f} h"


class Stopped(enum.StrEnum):
    """Why a bench was stopped early."""

    LIMIT = "limit"
    INTERRUPT = "SIGINT"
    TERMINATE = "SIGTERM"

    @property
    def words(self) -> str:
        others = "by Ctrl-C" if self is Stopped.INTERRUPT else "by a signal to terminate"
        return "at its time limit" if self is Stopped.LIMIT else others

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as in shells; 0 at the limit, which the user asked for."""
        return {Stopped.LIMIT: 0, Stopped.INTERRUPT: 130, Stopped.TERMINATE: 143}[self]


async def until_stopped(work: Coroutine[Any, Any, None], limit: float) -> Stopped | None:
    """Run `work`; cancel it at the limit (seconds, 0 for none) or on a signal. Returns the reason.

    All that `work` has started is ended before this returns. Raises the errors of `work` until it is stopped.
    """
    task = asyncio.ensure_future(work)
    why: list[Stopped] = []

    def terminate() -> None:
        why.append(Stopped.TERMINATE)
        task.cancel()

    with _on_terminate(terminate):
        try:
            done, _ = await asyncio.wait({task}, timeout=limit or None)
            if not done:
                why.append(Stopped.LIMIT)
        except asyncio.CancelledError:
            # `asyncio.run` cancels the task on Ctrl-C. A second Ctrl-C ends the program at once.
            why.append(Stopped.INTERRUPT)
            current = asyncio.current_task()
            if current is not None:
                current.uncancel()
        if not why:
            task.result()
            return None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LspCalibError, OSError):
            await task
        return why[0]


@contextlib.contextmanager
def _on_terminate(call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, call)
    except (NotImplementedError, RuntimeError, ValueError):
        yield  # Windows, or not the main thread
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
