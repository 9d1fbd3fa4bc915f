"""How many tokens of a prompt are evaluated at once. Pure: events and times are passed in.

An evaluation that is interrupted loses the step it was in. Large steps are the shortest way to the end of a
prompt; but a user who keeps typing interrupts it at every key, and it would make no progress if a step took
longer than the time between two keys. This is the problem of how often to save the results of a long
computation, and it has the same solution: J. W. Young, A first order approximation to the optimum checkpoint
interval, CACM 17 (1974).
"""

from __future__ import annotations

import math

# Sizes between are no faster: matrices are multiplied in blocks.
SIZES = (4, 16, 32, 64, 128, 256, 512)
# A step takes as long as so many more tokens would. (A trial by hand, 2 threads, medians: in steps of 4, 16,
# 32, 64, 128 a token costs SmolLM2 1.5, 1.14, 1.09, 1, 0.94 times as much, Qwen 1.9, 1.3, 1.13, 1, 0.95.)
EXTRA = 4
# Even with little time left, smaller steps would waste too much of it; only for a user who keeps typing.
_SHARED = 16
# Where keys come in a rhythm, a step takes at most this part of the time between two.
_PART = 0.5
# After so many usual intervals without a key, the user has paused, probably for so many times as long.
_PAUSED, _LONGER = 2.0, 4.0
# Without an interruption for so many seconds the last one says nothing about the next.
_RECENT = 2.0
# Seconds that a run is left alone if nothing is known.
_USUAL = 30.0
# The weight of the latest step in the average cost of a token.
_WEIGHT = 0.3


class BatchSizer:
    """The size of steps, one of `SIZES`, at most `largest`. Times are in seconds, of any one clock."""

    def __init__(self, largest: int) -> None:
        self._sizes = [size for size in SIZES if size <= largest]
        self._each = 0.0  # seconds that a token takes
        self._began = 0.0
        self._interrupted: float | None = None
        self._left_alone = 0.0
        self._in_a_row = 0

    def begins(self, now: float) -> None:
        """A run begins or resumes."""
        if self._interrupted is None or now - self._interrupted > _RECENT:
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
