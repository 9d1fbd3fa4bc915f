"""Which stored moments can have come: a clock may have been ahead when they were written."""

from __future__ import annotations

import time

# Seconds. A moment that lies further ahead was written while the clock was wrong. Such labels wait until it
# has come, and nothing is taken to be learned or watched up to it: that would stop both until then.
_AHEAD = 86_400.0


def latest() -> float:
    """The latest moment that can have come, in Unix seconds."""
    return time.time() + _AHEAD


def is_ahead(moment: float) -> bool:
    """Whether a stored moment (Unix seconds) cannot have come yet."""
    return moment > latest()
