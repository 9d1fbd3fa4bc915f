"""How long a bench will take: an estimate from the model's speed, refined by how it goes."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping

import attrs

from lsp_calib.inference.models.cards import ModelCard
from lsp_calib.inference.models.speeds import Speed

# Seconds of work that count as done, in the time that was foreseen, before anything is: the first reading
# alone does not turn the estimate over.
_PRIOR = 3.0
# Seconds between two words about how far it has come.
_OFTEN = 15.0
# Of keystrokes, the share that the model is asked for, and that which begins a line or comes after a jump.
_ASKED, _FAR = 0.6, 0.05
# Characters of code a token has.
_CHARACTERS = 3.0
# Seconds for what is done in a pause to begin and end, and for a server and a model process to start.
_PAUSE, _START = 0.15, 4.0
# Bytes of weights a second: read from the disk, and gone through for a token by a laptop of some years ago.
_DISK, _MEMORY = 4e8, 8e9
# Prompt tokens that are evaluated in the time of one that is generated.
_BATCH = 5.0


class Part(enum.StrEnum):
    """What a bench is made of, as its report names it."""

    TYPING = "typing"
    CANCEL = "cancel"
    TYPING_ON = "typingOn"
    LONG_FILE = "longFile"
    IDLE = "idle"
    TWO = "two"
    PEER = "peer"
    BESIDE = "beside"


@attrs.frozen
class Cost:
    """Seconds: of work, which takes longer on a slower machine, and of waiting, which does not."""

    work: float = 0.0
    wait: float = 0.0


@attrs.frozen
class Unit:
    """What a model needs on this machine, in seconds.

    key: a keystroke that asks the model. window: all that it is shown. digits: a prompt of digits, which have
    a token each. start: a server and the model.
    """

    key: float
    window: float
    digits: float
    start: float

    @classmethod
    def of(cls, card: ModelCard, speed: Speed | None) -> Unit:
        """speed: as measured here; None guesses it by the size of the weights."""
        guess = _MEMORY / max(card.size, 1)
        speed = speed or Speed(_BATCH * guess, guess)
        return cls(
            key=speed.line_seconds,
            window=card.window / _CHARACTERS / speed.prompt_per_s,
            digits=card.window / speed.prompt_per_s,
            start=_START + card.size / _DISK,
        )

    def typing(self, keys: int, edits: int, *, twice: bool = False) -> Cost:
        """Keystrokes in so many documents; the model's work done a second time in a bare loop, if `twice`."""
        work = keys * (_ASKED * self.key + _FAR * self.window) + edits * (self.window + self.key)
        return Cost((2 if twice else 1) * work, keys * _PAUSE)


class Forecast:
    """costs: of the parts to come, in their order."""

    def __init__(self, costs: Mapping[Part, Cost]) -> None:
        self._costs = dict(costs)
        self._done = dict.fromkeys(costs, 0.0)

    def did(self, part: Part, share: float) -> None:
        """So much of a part is done."""
        self._done[part] = share

    def unfinished(self) -> list[Part]:
        return [part for part, share in self._done.items() if share < 1]

    def left(self, elapsed: float) -> float:
        """Seconds until the end, by what those that have gone by were enough for."""
        done = sum(self._costs[part].work * share for part, share in self._done.items())
        waited = sum(self._costs[part].wait * share for part, share in self._done.items())
        slower = (max(elapsed - waited, 0.0) + _PRIOR) / (done + _PRIOR)
        work = sum(cost.work for cost in self._costs.values()) - done
        return slower * work + sum(cost.wait for cost in self._costs.values()) - waited


class Watch:
    """Says what is done, and how long the rest will take."""

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
        """Since it began."""
        return self._clock() - self._began

    def announce(self, measured: bool) -> None:
        """How long it will take. measured: whether the model's speed is known, not guessed."""
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
        """`done` of `of` things of a part are done; said from time to time, unless there are no words."""
        self.forecast.did(part, min(done / of, 1.0) if of else 1.0)
        if words and self._clock() >= self._said + _OFTEN:
            self.say(words)

    def say(self, words: str) -> None:
        """Something begins: what it is, and how long all that is left will take."""
        self._said = self._clock()
        self._say(f"{words} {about(self.forecast.left(self.seconds)).capitalize()} left.")


def about(seconds: float, *, exact: bool = False) -> str:
    """A duration in words, in steps that are as rough as an estimate."""
    prefix = "" if exact else "about "
    if seconds < 10 and not exact:
        return "less than 10 s"
    if seconds < 100:
        return f"{prefix}{seconds if exact else 5 * round(seconds / 5):g} s"
    minutes = round(seconds / 60)
    return f"{prefix}{minutes} min" if minutes < 100 else f"{prefix}{minutes / 60:.1f} h"
