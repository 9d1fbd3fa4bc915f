"""Times that hold on any machine: over that of a fixed piece of work, measured beside them."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(function: Callable[[], object], repeats: int = 1) -> float:
    """The best of three runs, a call: what the machine can, whatever else it does."""
    took = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(repeats):
            function()
        took.append((time.process_time() - start) / repeats)
    return min(took)


def loops(function: Callable[[], object], repeats: int = 1) -> float:
    """How many times as long as adding up 10,000 squares in plain Python, which takes 1 ms or so."""
    return seconds(function, repeats) / seconds(lambda: sum(i * i for i in range(10_000)), 20)
