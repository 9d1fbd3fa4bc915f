"""How many tokens and threads the next step of a decode takes, and the alarm that stops a stalled step.

`StepSizer` and `ThreadRule` are pure: times are in seconds, of any one clock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

# Sizes between are no faster: matrices are multiplied in blocks.
SIZES = (4, 16, 32, 64, 128, 256, 512)
# A step takes as long as so many more tokens would. (2 threads, AVX-512,
# behind 300 tokens: in steps of 4, 16, 32, 64, 128 a token costs SmolLM2 1.5, 1.13, 1.04, 1, 1.02 times as
# much, Qwen 1.8, 1.12, 0.95, 1, 0.85; behind 900 SmolLM2 1.3, 0.9, 1.09, 1, 1.03, Qwen 2, 1.2, 1.08, 1, 1.)
EXTRA = 4
# Where keys come in a rhythm, a step takes at most this part of the time between two.
_PART = 0.5
# After so many usual intervals without a key, the user has paused, probably for so many times as long.
_PAUSED, _LONGER = 2.0, 4.0
# Without an interruption for so many seconds the last one says nothing about the next.
_FORGOTTEN = 2.0
# Seconds that a run is left alone if nothing is known.
_USUAL = 30.0
# The weight of the latest step in the average cost of a token.
_WEIGHT = 0.3


class StepSizer:
    """How many tokens of a prompt are evaluated at once: one of `SIZES`, at most `largest`.

    An evaluation that is interrupted loses the step it was in. Large steps are the shortest way to the end of
    a prompt; but a user who keeps typing interrupts it at every key, and it would make no progress if a step
    took longer than the time between two keys. This is the problem of how often to save the results of a long
    computation, and it has the same solution: J. W. Young, A first order approximation to the optimum
    checkpoint interval, CACM 17 (1974).
    """

    def __init__(self, largest: int) -> None:
        self._sizes = [size for size in SIZES if size <= largest]
        self._each = 0.0  # seconds that a token takes
        self._began = 0.0
        self._interrupted: float | None = None
        self._left_alone = 0.0
        self._in_a_row = 0

    def begins(self, now: float) -> None:
        """A run begins or resumes."""
        if self._interrupted is None or now - self._interrupted > _FORGOTTEN:
            self._in_a_row = 0
        self._began, self._interrupted = now, None

    def interrupted(self, now: float) -> None:
        """The run that began last was interrupted."""
        if self._interrupted is None:
            self._left_alone = now - self._began
            self._in_a_row += 1
        self._interrupted = now

    def took(self, tokens: int, seconds: float) -> None:
        """A step of so many tokens took so long."""
        if tokens >= self._sizes[0]:
            each = seconds / (tokens + EXTRA)
            self._each += _WEIGHT * (each - self._each) if self._each else each

    def size(self, now: float, *, urgent: bool) -> int:
        """Tokens of the next step. urgent: a user waits; other work is soon interrupted."""
        if not self._each:
            return self._sizes[-1]
        usual = 0.0
        if urgent:
            # One interruption is no rhythm: the user has changed their mind.
            usual = self._left_alone if self._in_a_row > 1 else _USUAL
        elapsed = now - self._began
        alone = usual if elapsed < _PAUSED * usual else _LONGER * elapsed
        best = min(math.sqrt(2 * EXTRA * alone / self._each), _PART * alone / self._each - EXTRA)
        return max((size for size in self._sizes if size <= best), default=self._sizes[0])


# Decodes of at least this many tokens are limited by arithmetic, shorter ones by memory.
BATCH = 16
# A step has stalled after so many times its usual time, and so many seconds more at least.
_STALLED, _LEAST = 2.5, 0.03
# An interrupted step would have stalled if it took so many times its usual time until then. A step is to end
# within half of the time between two keys, so who keeps typing never sees one reach its limit.
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
        return max(_STALLED * usual, usual + _LEAST, fewer)

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
        if usual is not None and threads > 1 and seconds > max(_INTERRUPTED * usual, usual + _LEAST):
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
