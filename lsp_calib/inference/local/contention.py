"""How many threads to use beside other programs. Pure: events and times are passed in.

The threads of a decode wait for each other at every operation. Where one of them has to wait for a processor,
all wait: two threads beside one busy program took 2.6 s a token instead of 0.1, one thread takes 0.2. So a
decode gives way at once, and comes back when the processors are free again.

Whether to stop a step that has taken too long is the ski-rental problem: once it has cost as much as it would
with fewer threads, the loss is bounded by a factor of two whatever comes.
"""

from __future__ import annotations

import math
from typing import Final

from lsp_calib.inference.local.batch_size import EXTRA

# Decodes of at least this many tokens are limited by arithmetic, shorter ones by memory.
BATCH: Final = 16
# A step has stalled after so many times its usual time, and so many seconds more at least.
_STALLED, _LEAST = 2.5, 0.03
# Where nothing is known: seconds for a step, and for each of its tokens.
_UNKNOWN, _UNKNOWN_EACH = 0.4, 0.02
# A program that runs half of the time is worth a processor; one that runs a third of it is not.
_BUSY, _QUIET = 0.65, 0.35
# Seconds after a stall before more threads are tried: at first, and where that stalls again and again. A
# probe costs a stalled step, so probes cost at most 2 or 3 % of the time; and a machine that is quiet again
# is noticed within 4 s.
_HOLD, _LONGEST_HOLD = 0.5, 4.0
# The weight of the latest step: in the usual time if it was quicker and if slower, and in the recent time.
_QUICKER, _SLOWER, _RECENT = 0.3, 0.005, 0.3


class Contention:
    """The most threads that a decode should use now: `cap`, from 1 to `most`. Times are in seconds."""

    def __init__(self, most: int) -> None:
        self.cap = self._most = most
        self._usual: dict[tuple[int, bool], float] = {}
        self._slow: dict[bool, float] = {}  # recent times over the usual ones
        self._hold = _HOLD
        self._until = 0.0
        self._raised = -math.inf

    def expected(self, threads: int, tokens: int) -> float | None:
        """How long a step usually takes; None where nothing is known."""
        single, each = self._cost(threads, batch=False), self._cost(threads, batch=True)
        if tokens == 1:
            return single
        if each is None:
            return None
        return max(each * (tokens + EXTRA), single or 0.0)

    def limit(self, threads: int, tokens: int) -> float:
        """After how many seconds a step has stalled: never with a single thread."""
        if threads <= 1:
            return math.inf
        usual = self.expected(threads, tokens)
        if usual is None:
            return _UNKNOWN + _UNKNOWN_EACH * tokens
        return max(_STALLED * usual, usual + _LEAST)

    def took(self, threads: int, tokens: int, seconds: float) -> bool:
        """A step has ended. True: recent steps would have been faster with fewer threads."""
        batch = tokens >= BATCH
        if tokens > 1 and not batch:
            return False
        cost = seconds / (tokens + EXTRA if batch else 1)
        usual = self._usual.get((threads, batch), cost)
        self._usual[threads, batch] = usual + (_QUICKER if cost < usual else _SLOWER) * (cost - usual)
        if threads <= 1:
            return False
        slow = self._slow.get(batch, 1.0)
        self._slow[batch] = slow + _RECENT * (cost / usual - slow)
        fewer = self._cost(_fewer(threads, None), batch=batch)
        return fewer is not None and self._slow[batch] > max(fewer / usual, 1.2)

    def stalled(self, now: float, threads: int, free: float | None = None) -> None:
        """Other programs want the processors that a step used. free: how many they leave, if known."""
        self.cap = min(self.cap, _fewer(threads, free))
        self._slow.clear()
        again = now - self._raised < 2 * self._hold
        self._hold = min(2 * self._hold, _LONGEST_HOLD) if again else _HOLD
        self._until = now + self._hold

    def measured(self, now: float, free: float | None) -> None:
        """free: how many processors other programs have left of late; None where that is unknown."""
        if self.cap < self._most:
            if now < self._until:
                return
            fits = self._most if free is None else min(self._most, math.floor(free + _QUIET))
            if fits > self.cap:
                self.cap = fits
                self._raised = now
                self._slow.clear()
        elif free is not None and free < self._most - _BUSY:
            self.cap = max(1, math.floor(free + _QUIET))

    def _cost(self, threads: int, *, batch: bool) -> float | None:
        """Seconds a token. An unmeasured cost is estimated as inversely proportional to the threads."""
        known = self._usual.get((threads, batch))
        if known is not None:
            return known
        others = [cost * at / threads for (at, kind), cost in self._usual.items() if kind is batch]
        return min(others, default=None)


def _fewer(threads: int, free: float | None) -> int:
    if free is None:
        return max(1, threads // 2)
    return max(1, min(threads - 1, math.floor(free + _QUIET)))
