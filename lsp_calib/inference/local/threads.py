"""How many threads to decode with. Pure: it is told the times of decodes, and chooses the next trial.

Threads of a decode wait for each other at every operation, so on a busy machine two can take longer than one,
and on a quiet one half as long. Only a trial shows which it is.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final

from lsp_calib.inference.local.batch_size import EXTRA

# Decodes of at least this many tokens are limited by arithmetic, shorter ones by memory.
_BATCH: Final = 16
_RECENT: Final = 5
# A trial is made of so many decodes, and given up at the first that is this much slower than usual.
_TRIAL: Final = 3
_HOPELESS: Final = 1.25
# A trial has succeeded if it took at most this part of the usual time.
_FASTER: Final = 0.92
# The machine has changed if decodes take this much longer (or less long) than when it was last judged.
_CHANGED: Final = 1.3
# Failed trials may lose at most this share of the time spent decoding (see `ThreadChooser`).
_SHARE: Final = 0.02
_LEAST_WAIT: Final = 16  # decodes between trials
_LONGEST_WAIT: Final = (
    60.0  # seconds of decoding after which another trial is allowed, whatever the last cost
)
_PATIENCE: Final = {-1: 5, +1: 2}  # failed trials in a row, each of which doubles the wait, by direction


class ThreadChooser:
    """Climbs to the fastest number of threads, separately for single tokens and for batches.

    most: never more threads than this. preferred: the number to begin with, 0 for `most`.

    Cost of exploring: a trial is at most 3 decodes, given up at the first that is 1.25 times as slow as
    usual. The time a failed trial lost is at most 2 % of the decoding that follows before the next one, or
    one trial a minute of decoding where it lost more than that; failing again doubles the wait. On a quiet
    machine that is far below 1 %. Only when decodes become 1.3 times as slow as they were, fewer threads are
    tried at once.
    """

    def __init__(self, most: int, preferred: int = 0) -> None:
        ladder = _ladder(max(most, 1))
        start = min(range(len(ladder)), key=lambda level: abs(ladder[level] - (preferred or most)))
        self._single = _Climber(ladder, start)
        self._batch = _Climber(ladder, start)

    def threads(self, tokens: int) -> int:
        """How many threads the next decode, of so many tokens, should use."""
        return self._climber(tokens).threads

    def told(self, threads: int, tokens: int, seconds: float) -> None:
        """A decode of `tokens` with `threads` took so long."""
        if tokens == 1 or tokens >= _BATCH:  # sizes in between have other costs
            # To compare steps of all sizes, count a step's fixed cost as some more tokens.
            self._climber(tokens).told(threads, tokens + EXTRA if tokens > 1 else 1, seconds)

    def _climber(self, tokens: int) -> _Climber:
        return self._batch if tokens >= _BATCH else self._single


class _Climber:
    """Hill climbing on a ladder of thread counts, for decodes of one kind.

    Costs are seconds a token. `_clock` is the time spent in decodes, the only clock there is.
    """

    def __init__(self, ladder: tuple[int, ...], level: int) -> None:
        self._ladder = ladder
        self._level = level
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._judged: float | None = None  # the usual cost when the present level was last judged
        self._trial: list[float] | None = None
        self._lost = 0.0
        self._direction = -1
        self._failed = {-1: 0, +1: 0}
        self._clock = 0.0
        self._next_trial = 0.0

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
        if len(self._recent) < _RECENT:
            return
        usual = median(self._recent)
        if self._judged is None:
            self._judged = usual  # and the first trial follows at once
        elif not 1 / _CHANGED < usual / self._judged < _CHANGED:
            if usual > self._judged:
                self._next_trial = self._clock
                self._direction = -1
            self._judged = usual
            self._failed = {-1: 0, +1: 0}
        if self._clock >= self._next_trial and len(self._ladder) > 1:
            self._start()

    def _start(self) -> None:
        """Begin a trial, in the other direction where the ladder ends."""
        if not 0 <= self._level + self._direction < len(self._ladder):
            self._direction = -self._direction
        self._trial = []
        self._lost = 0.0

    def _judge(self, trial: list[float], cost: float, tokens: int) -> None:
        usual = median(self._recent)
        trial.append(cost)
        self._lost += (cost - usual) * tokens
        hopeless = cost > _HOPELESS * usual
        if not hopeless and len(trial) < _TRIAL:
            return
        self._trial = None
        direction = self._direction
        if not hopeless and median(trial) < _FASTER * usual:
            self._level += direction
            self._judged = median(trial)
            self._recent = deque(trial, maxlen=_RECENT)
            self._failed = {direction: 0, -direction: self._failed[-direction]}
            self._wait(usual * tokens * _LEAST_WAIT / 4)  # perhaps one more in this direction
            return
        self._judged = usual
        doubled = 2 ** min(self._failed[direction], _PATIENCE[direction])
        self._failed[direction] += 1
        self._direction = -direction
        self._wait(max(self._lost / _SHARE, usual * tokens * _LEAST_WAIT) * doubled)

    def _wait(self, seconds: float) -> None:
        self._next_trial = self._clock + min(seconds, _LONGEST_WAIT)


def _ladder(most: int) -> tuple[int, ...]:
    """The thread counts that are tried, ascending: about three quarters of the next each."""
    steps = [most]
    while steps[-1] > 1:
        steps.append(min(steps[-1] - 1, max(1, round(0.75 * steps[-1]))))
    return tuple(reversed(steps))
