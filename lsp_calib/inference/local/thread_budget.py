"""How many tokens and threads the next step takes, and stopping a step that waits for a processor.

`BatchSizer` has steps end before the next key. `ThreadChooser` finds the fastest number while no other
program runs for long; `Contention` gives way to the programs that run now, as the kernel reports them.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from lsp_calib.inference.processor import default_threads

# Sizes between are no faster: matrices are multiplied in blocks.
SIZES = (4, 16, 32, 64, 128, 256, 512)
# A step takes as long as so many more tokens would. (2 threads, AVX-512,
# behind 300 tokens: in steps of 4, 16, 32, 64, 128 a token costs SmolLM2 1.5, 1.13, 1.04, 1, 1.02 times as
# much, Qwen 1.8, 1.12, 0.95, 1, 0.85; behind 900 SmolLM2 1.3, 0.9, 1.09, 1, 1.03, Qwen 2, 1.2, 1.08, 1, 1.)
EXTRA = 4
# Even with little time left, smaller steps would waste too much of it; only for a user who keeps typing.
_SHARED = 16
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


class BatchSizer:
    """How many tokens of a prompt are evaluated at once: one of `SIZES`, at most `largest`. Times are in
    seconds, of any one clock.

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

    def size(self, now: float, *, urgent: bool, left: float = math.inf) -> int:
        """Tokens of the next step.

        urgent: a user waits; other work is soon interrupted. left: seconds until another client's turn.
        """
        if not self._each:
            return self._sizes[-1]
        usual = 0.0
        if urgent:
            # One interruption is no rhythm: the user has changed their mind.
            usual = self._left_alone if self._in_a_row > 1 else _USUAL
        elapsed = now - self._began
        alone = usual if elapsed < _PAUSED * usual else _LONGER * elapsed
        best = min(math.sqrt(2 * EXTRA * alone / self._each), _PART * alone / self._each - EXTRA)
        best = min(best, max(left / self._each - EXTRA, _SHARED))
        return max((size for size in self._sizes if size <= best), default=self._sizes[0])


# Decodes of at least this many tokens are limited by arithmetic, shorter ones by memory.
BATCH: Final = 16
_STEPS_KEPT: Final = 5
# A trial is made of so many decodes, and given up at the first that is this much slower than usual.
_TRIAL: Final = 3
_HOPELESS_COST: Final = 1.25
# A trial has succeeded if it took at most this part of the usual time.
_FASTER: Final = 0.92
# The time that a failed trial lost is at most this share of the decoding that follows before the next one;
# but after so many seconds of decoding another trial is allowed, whatever the last cost.
_SHARE: Final = 0.005
_LONGEST_WAIT: Final = 60.0


class ThreadChooser:
    """Climbs to the fastest number of threads, separately for single tokens and for batches.

    most: never more threads than this, the number to begin with. On a quiet machine trials cost less than
    1 %. Other programs are the business of `Contention`.
    """

    def __init__(self, most: int) -> None:
        ladder = _ladder(max(most, 1))
        self._single, self._batch = _Climber(ladder), _Climber(ladder)

    def threads(self, tokens: int) -> int:
        """How many threads the next decode, of so many tokens, should use."""
        return self._climber(tokens).threads

    def told(self, threads: int, tokens: int, seconds: float) -> None:
        """A decode of `tokens` with `threads` took so long."""
        if tokens == 1 or tokens >= BATCH:  # sizes in between have other costs
            # To compare steps of all sizes, count a step's fixed cost as some more tokens.
            self._climber(tokens).told(threads, tokens + EXTRA if tokens > 1 else 1, seconds)

    def _climber(self, tokens: int) -> _Climber:
        return self._batch if tokens >= BATCH else self._single


class _Climber:
    """Hill climbing on a ladder of thread counts, for decodes of one kind.

    Costs are seconds a token. `_clock` is the time spent in decodes, the only clock there is.
    """

    def __init__(self, ladder: tuple[int, ...]) -> None:
        self._ladder = ladder
        self._level = len(ladder) - 1
        self._recent: deque[float] = deque(maxlen=_STEPS_KEPT)
        self._trial: list[float] | None = None
        self._lost = 0.0
        self._direction = -1
        self._clock = self._next_trial = 0.0

    @property
    def threads(self) -> int:
        return self._ladder[self._level if self._trial is None else self._level + self._direction]

    def told(self, threads: int, tokens: int, seconds: float) -> None:
        if threads != self.threads:
            return  # decided before the last change
        cost = seconds / tokens
        self._clock += seconds
        if self._trial is not None:
            self._judge(self._trial, cost, tokens)
            return
        self._recent.append(cost)
        due = self._clock >= self._next_trial and len(self._recent) == _STEPS_KEPT
        if due and len(self._ladder) > 1:
            if not 0 <= self._level + self._direction < len(self._ladder):
                self._direction = -self._direction
            self._trial, self._lost = [], 0.0

    def _judge(self, trial: list[float], cost: float, tokens: int) -> None:
        usual = median(self._recent)
        trial.append(cost)
        self._lost += (cost - usual) * tokens
        hopeless = cost > _HOPELESS_COST * usual
        if not hopeless and len(trial) < _TRIAL:
            return
        self._trial = None
        if not hopeless and median(trial) < _FASTER * usual:
            self._level += self._direction
            self._recent = deque(trial, maxlen=_STEPS_KEPT)
        else:
            self._direction = -self._direction
            self._next_trial = self._clock + min(self._lost / _SHARE, _LONGEST_WAIT)


def _ladder(most: int) -> tuple[int, ...]:
    """The thread counts that are tried, ascending: about three quarters of the next each."""
    steps = [most]
    while steps[-1] > 1:
        steps.append(min(steps[-1] - 1, max(1, round(0.75 * steps[-1]))))
    return tuple(reversed(steps))


_TASKS = Path("/proc/self/task")
_STAT = Path("/proc/stat")
# Seconds between two readings of the processors' clocks, which tick 100 times a second: at least, and at
# most, since an older reading says nothing about the present.
_LEAST_SECONDS, _STALE = 0.12, 5.0


def waited() -> float | None:
    """Seconds for which threads of this process were ready to run and did not, since each began.

    None where the system does not report it. Source: the kernel's Documentation/scheduler/sched-stats.rst.
    """
    total, found = 0, False
    with contextlib.suppress(OSError):
        for task in _TASKS.iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
                total += int((task / "schedstat").read_bytes().split()[1])
                found = True
    return total / 1e9 if found else None


@attrs.frozen
class _Reading:
    """at: when. others: seconds that the processors ran anything but this process, or were unavailable."""

    at: float
    others: float


class Processors:
    """The processors that this process may run on, and the number that other programs leave free."""

    def __init__(self) -> None:
        self._names = _names()
        self._last = self._read()

    @property
    def known(self) -> bool:
        """Whether the system reports it."""
        return self._last is not None

    def free(self) -> float | None:
        """How many processors others have left since the last call; None where that is too short or long ago.

        Programs at a nice level give way by themselves, and do not count.
        """
        last = self._last
        if last is None or time.perf_counter() - last.at < _LEAST_SECONDS:
            return None
        now = self._read()
        if now is None:
            return None
        self._last = now
        elapsed = now.at - last.at
        if elapsed > _STALE:
            return None
        return len(self._names) - max(now.others - last.others, 0.0) / elapsed

    def _read(self) -> _Reading | None:
        if not self._names:
            return None
        ticks = 0
        try:
            with _STAT.open("rb") as file:
                for line in file:
                    name, *fields = line.split()
                    if name in self._names:
                        user, _nice, system, _idle, _wait, interrupt, soft, steal = map(int, fields[:8])
                        ticks += user + system + interrupt + soft + steal
                    elif not name.startswith(b"cpu"):
                        break
        except (OSError, ValueError):
            return None
        busy = ticks / os.sysconf("SC_CLK_TCK")
        return _Reading(time.perf_counter(), busy - time.process_time())


def _names() -> frozenset[bytes]:
    if not hasattr(os, "sched_getaffinity") or not _STAT.exists():
        return frozenset()
    return frozenset(f"cpu{number}".encode() for number in os.sched_getaffinity(0))


Overdue = Callable[[float], float | None]
"""Called with the seconds a step has taken; returns those until the next call, None for no other."""


class Watch:
    """Calls `overdue` when a step takes longer than its limit; sleeps otherwise.

    A step that has ended is never reported: `overdue` is called under the lock that `end` needs.
    """

    def __init__(self, overdue: Overdue) -> None:
        self._overdue = overdue
        self._changed = threading.Condition(threading.Lock())
        self._began = 0.0
        self._deadline = math.inf
        self._asleep = False
        self._over = False
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def begin(self, limit: float) -> None:
        """A step begins; limit: seconds."""
        with self._changed:
            self._began = time.perf_counter()
            self._deadline = self._began + limit
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
                now = time.perf_counter()
                if self._deadline == math.inf:
                    self._asleep = True
                    self._changed.wait()
                    self._asleep = False
                elif self._deadline > now:
                    # Steps that follow do not wake it: it looks for their deadline when this one has passed.
                    self._changed.wait(self._deadline - now)
                else:
                    again = self._overdue(now - self._began)
                    self._deadline = math.inf if again is None else now + again


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


# Threads that waited for this part of a step were kept from running by others.
_WAITED = 0.15
# Without such a sign, only a step that took so many times its limit counts as stalled.
_HOPELESS = 3.0


class ThreadBudget:
    """threads: never more than so many, or 0 to choose. stop: stops the running step, from any thread."""

    def __init__(self, threads: int, stop: Callable[[], None]) -> None:
        self.most = threads or default_threads()
        self._chooser = None if threads else ThreadChooser(self.most)
        self._contention = Contention(self.most)
        self._processors = Processors()
        self._stop = stop
        self._watch = Watch(self._overdue) if self.most > 1 else None
        self._limit = 0.0
        self._seen: tuple[float, float | None] | None = None
        self._waited = waited()
        self._since = time.perf_counter()
        self.stalled = False
        """Whether the step that began last was stopped because it waited for a processor."""

    def run_begins(self) -> None:
        """A run begins or resumes; other programs may have started or ended meanwhile."""
        if self._watch is not None:
            self._measure()
            self._look()

    def threads(self, tokens: int) -> int:
        """How many threads the next step of so many tokens should use."""
        wanted = self.most if self._chooser is None else self._chooser.threads(tokens)
        return min(wanted, self._contention.cap)

    def begin(self, threads: int, tokens: int, *, may_stop: bool) -> None:
        """A step begins. may_stop: whether it can be taken again."""
        self.stalled = False
        if self._watch is not None and threads > 1 and may_stop:
            self._limit = self._contention.limit(threads, tokens)
            self._seen = None
            self._watch.begin(self._limit / 2)

    def end(self) -> None:
        """The step has ended, finished or not. It can no longer be stopped."""
        if self._watch is not None:
            self._watch.end()

    def took(self, threads: int, tokens: int, seconds: float) -> None:
        """A step has finished."""
        if self._chooser is not None:
            self._chooser.told(threads, tokens, seconds)
        slow = self._contention.took(threads, tokens, seconds)
        if self._watch is None:
            return
        if slow and _kept(waited(), self._waited, time.perf_counter() - self._since):
            self.give_way(threads)
        elif self._contention.cap < self.most:
            self._measure()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def give_way(self, threads: int) -> None:
        """A step with so many threads was stopped, or was slow: the next ones use fewer."""
        self._contention.stalled(time.perf_counter(), threads, self._processors.free())
        self._look()

    def _measure(self) -> None:
        now = time.perf_counter()
        if not self._processors.known:
            self._contention.measured(now, None)
        elif (free := self._processors.free()) is not None:
            self._contention.measured(now, free)

    def _look(self) -> None:
        self._waited, self._since = waited(), time.perf_counter()

    def _overdue(self, elapsed: float) -> float | None:
        # Called by the watch while the step is under way: first after half of its limit.
        now = waited()
        if self._seen is None:
            self._seen = elapsed, now
            return self._limit - elapsed
        before, waited_before = self._seen
        if _kept(now, waited_before, elapsed - before) or elapsed >= _HOPELESS * self._limit:
            self.stalled = True
            self._stop()
            return None
        self._seen = elapsed, now
        return self._limit / 2


def _kept(waited: float | None, before: float | None, seconds: float) -> bool:
    """Whether threads waited for much of the last `seconds`. True where the system does not report it."""
    return waited is None or before is None or waited - before >= _WAITED * seconds
