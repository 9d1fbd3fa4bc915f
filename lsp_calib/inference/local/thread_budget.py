"""How many threads the next step takes, and stopping a step that waits for a processor.

`ThreadChooser` finds the fastest number while no other program runs for long; `Contention` gives way to the
programs that run now, as the kernel reports them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lsp_calib.inference.local import load
from lsp_calib.inference.local.contention import Contention
from lsp_calib.inference.local.load import Processors
from lsp_calib.inference.local.threads import ThreadChooser
from lsp_calib.inference.local.watch import Watch
from lsp_calib.inference.processor import default_threads

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
        self._waited = load.waited()
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
        if slow and _kept(load.waited(), self._waited, time.perf_counter() - self._since):
            self._give_way(threads)
        elif self._contention.cap < self.most:
            self._measure()

    def gave_way(self, threads: int) -> None:
        """A step with so many threads was stopped: it is repeated with fewer."""
        self._give_way(threads)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def _give_way(self, threads: int) -> None:
        self._contention.stalled(time.perf_counter(), threads, self._processors.free())
        self._look()

    def _measure(self) -> None:
        now = time.perf_counter()
        if not self._processors.known:
            self._contention.measured(now, None)
        elif (free := self._processors.free()) is not None:
            self._contention.measured(now, free)

    def _look(self) -> None:
        self._waited, self._since = load.waited(), time.perf_counter()

    def _overdue(self, elapsed: float) -> float | None:
        # Called by the watch while the step is under way: first after half of its limit.
        waited = load.waited()
        if self._seen is None:
            self._seen = elapsed, waited
            return self._limit - elapsed
        before, waited_before = self._seen
        if _kept(waited, waited_before, elapsed - before) or elapsed >= _HOPELESS * self._limit:
            self.stalled = True
            self._stop()
            return None
        self._seen = elapsed, waited
        return self._limit / 2


def _kept(waited: float | None, before: float | None, seconds: float) -> bool:
    """Whether threads waited for much of the last `seconds`. True where the system does not report it."""
    return waited is None or before is None or waited - before >= _WAITED * seconds
