"""How many tokens and threads the next step of a decode takes, and the alarm that stops a stalled step.

`StepSize` and `ThreadRule` are pure: times are in seconds, of any one clock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

USUAL = 64
"""Tokens evaluated at once on a processor: about the fewest that cost a prompt little of its speed, as
docs/engine.md shows. Nobody waits for the end of a step, but an interruption loses it."""

_LEAST = 4
# Steps that end one after another before they grow again.
_ENOUGH = 4
# A step takes as long as so many more tokens would.
EXTRA = 4


class StepSize:
    """How many tokens of a prompt are evaluated at once: `usual`, or fewer while each is interrupted.

    A user who keeps typing interrupts an evaluation at every key, and it would make no progress if a step
    took longer than the time between two keys. So from the second on that is lost without one that ends, the
    steps are halved; after some that end one after another they double. One alone is no rhythm.
    """

    def __init__(self, usual: int) -> None:
        self._usual = usual
        self._lost = 0
        self._finished = 0

    @property
    def size(self) -> int:
        """Tokens of the next step."""
        return max(self._usual >> max(self._lost - 1, 0), _LEAST)

    def begins(self) -> None:
        """A run begins or resumes."""
        self._finished = 0

    def finished(self) -> None:
        """A step has ended."""
        self._finished += 1
        if self._lost == 1 or self._finished % _ENOUGH == 0:
            self._lost = max(self._lost - 1, 0)

    def lost(self) -> None:
        """A step was interrupted. Where others of its run have ended, their size suits the rhythm."""
        if not self._finished and self.size > _LEAST:
            self._lost += 1


# Decodes of at least this many tokens are limited by arithmetic, shorter ones by memory.
BATCH = 16
# A step has stalled after so many times its usual time, and so many seconds more at least.
_STALLED, _SLACK = 2.5, 0.03
# An interrupted step would have stalled if it took so many times its usual time until then. Steps are to end
# within the time between two keys, so who keeps typing never sees one reach its limit.
_INTERRUPTED = 1.5
# Where nothing is known: seconds for a step, and for each of its tokens.
_UNKNOWN, _UNKNOWN_EACH = 0.4, 0.04
# Seconds that a decode has fewer threads after a stall. To find out that all can be used again costs a
# stalled step at most.
HOLD = 4.0
# The weight of the latest step in the usual time, if it was quicker and if slower.
_QUICKER, _SLOWER = 0.3, 0.005


class ThreadRule:
    """Threads of a decode: `most`, and half as many for `HOLD` seconds after each step that stalled.

    llama.cpp's threads wait for each other at every operation: beside a program that keeps one of two
    processors busy, two threads took 2.6 s a token instead of 0.1, and one takes little more than two do.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._most = self._threads = most
        self._clock = clock
        self._until = -math.inf
        self._usual: dict[tuple[int, bool], float] = {}

    def threads(self) -> int:
        """Threads of the next step."""
        if self._clock() >= self._until:
            self._threads = self._most
        return self._threads

    def limit(self, threads: int, tokens: int) -> float:
        """Seconds after which a step has stalled; a single thread never does."""
        if threads <= 1:
            return math.inf
        usual = self._usual_of(threads, tokens)
        if usual is None:
            return _UNKNOWN + _UNKNOWN_EACH * tokens
        # On a machine that is slower as a whole, as when it is hot, fewer threads take longer still.
        fewer = self._of_fewer(threads, batch=tokens > 1) * (tokens + EXTRA if tokens > 1 else 1)
        return max(_STALLED * usual, usual + _SLACK, fewer)

    def took(self, threads: int, tokens: int, seconds: float) -> None:
        """A step has finished; one that was over its limit could not be stopped."""
        if seconds > self.limit(threads, tokens):
            self.stalled(threads)
        elif tokens == 1 or tokens >= BATCH:  # sizes in between have other costs
            batch = tokens > 1
            cost = seconds / (tokens + EXTRA if batch else 1)
            usual = self._usual.get((threads, batch), cost)
            self._usual[threads, batch] = usual + (_QUICKER if cost < usual else _SLOWER) * (cost - usual)

    def interrupted(self, threads: int, tokens: int, seconds: float) -> None:
        """A step was stopped for another request."""
        usual = self._usual_of(threads, tokens)
        if usual is not None and threads > 1 and seconds > max(_INTERRUPTED * usual, usual + _SLACK):
            self.stalled(threads)

    def stalled(self, threads: int) -> None:
        """A step with so many threads has stalled: other programs use the processors."""
        self._threads = max(1, threads // 2)
        self._until = self._clock() + HOLD

    def _usual_of(self, threads: int, tokens: int) -> float | None:
        """Seconds that a step usually takes; None where nothing is known."""
        single, each = self._cost(threads, batch=False), self._cost(threads, batch=True)
        return single if tokens == 1 else each and max(each * (tokens + EXTRA), single or 0.0)

    def _of_fewer(self, threads: int, *, batch: bool) -> float:
        """Seconds a token that fewer threads were seen to take, 0 where none were."""
        costs = [cost for (at, kind), cost in self._usual.items() if kind is batch and at < threads]
        return min(costs, default=0.0)

    def _cost(self, threads: int, *, batch: bool) -> float | None:
        """Seconds a token. An unmeasured cost is estimated as inversely proportional to the threads."""
        known = self._usual.get((threads, batch))
        if known is not None:
            return known
        others = [cost * at / threads for (at, kind), cost in self._usual.items() if kind is batch]
        return min(others, default=None)


class Alarm:
    """Calls `ring`, from a thread of its own, when a step takes longer than its limit.

    It never rings after `end` has returned. While no step runs, the thread sleeps.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._changed = threading.Condition(threading.Lock())
        self._deadline = math.inf
        self._asleep = self._over = False
        threading.Thread(target=self._run, name="alarm", daemon=True).start()

    def begin(self, limit: float) -> None:
        """A step begins. limit: seconds."""
        with self._changed:
            self._deadline = time.perf_counter() + limit
            if self._asleep and limit < math.inf:
                self._changed.notify()

    def end(self) -> None:
        """The step is over."""
        with self._changed:
            self._deadline = math.inf

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._over:
                left = self._deadline - time.perf_counter()
                if left <= 0:
                    self._deadline = math.inf
                    self._ring()
                else:
                    # The steps that follow do not wake it: it looks for their deadline when this has passed.
                    self._asleep = left == math.inf
                    self._changed.wait(None if self._asleep else left)
                    self._asleep = False
