"""Times that hold on any machine: over that of a fixed piece of work, measured beside them."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(function: Callable[[], object], repeats: int = 1) -> float:
    """The best of three runs, a call: what the machine can, whatever else it does."""
    return min(_once(function, repeats) for _ in range(3))


def loops(function: Callable[[], object], repeats: int = 1) -> float:
    """How many times as long as adding up 10,000 squares in plain Python, which takes 1 ms or so.

    The best of three, each with that work before and after it: a processor changes its pace.
    """
    ratios = []
    for _ in range(3):
        before = _once(_squares, 40)
        took = _once(function, repeats)
        ratios.append(2 * took / (before + _once(_squares, 40)))
    return min(ratios)


def _squares() -> int:
    return sum(i * i for i in range(10_000))


def _once(function: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats
