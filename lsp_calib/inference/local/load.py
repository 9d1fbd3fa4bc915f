"""The load by other programs, from the kernel: how long our threads waited, how many processors are free.

On Linux, from files that take some microseconds to read. Other systems report nothing here.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import attrs

_TASKS = Path("/proc/self/task")
_STAT = Path("/proc/stat")
# Seconds between two readings of the processors' clocks, which tick 100 times a second: at least, and at
# most, since an older reading says nothing about the present.
_LEAST, _STALE = 0.12, 5.0


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
        if last is None or time.perf_counter() - last.at < _LEAST:
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
