"""A thread that reports steps of native code that take too long."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

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
