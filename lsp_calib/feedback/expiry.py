"""How far the clock is believed where it decides what is deleted for its age."""

from __future__ import annotations

import os

from lsp_calib.feedback.database import translated
from lsp_calib.feedback.store import FeedbackStore

_DAY = 86_400.0


def believed(store: FeedbackStore, now: float) -> float:
    """The time of the clock (`now`, Unix seconds) as far as another day bears it out.

    At most a day after the last suggestion, or the last call of this, of another day: one reading of a
    clock that is ahead must not delete everything. The last call is the time of a file beside the store.
    Raises LspCalibError as the store does.
    """
    ((shown,),) = store.read("SELECT MAX(shown_at) FROM suggestions WHERE shown_at < ?", now - _DAY)
    mark = store.path.with_suffix(".expiry")
    with translated(store.path):
        last = mark.stat().st_mtime if mark.exists() else 0.0
        if not now - _DAY < last <= now:
            mark.touch(mode=0o600)
            os.utime(mark, (now, now))
    return min(now, max(shown or 0.0, last if last <= now - _DAY else 0.0) + _DAY)
