"""Releasing the memory that an error keeps alive.

The frames of its traceback refer to the handler's arguments, such as the text of a document. Often one of
them refers to the error itself: only the garbage collector would free that cycle, and it counts objects, not
bytes.
"""

from __future__ import annotations

# No error has a longer chain of causes; a circular one ends here.
_DEEPEST = 16


def forget_frames(error: BaseException | None, depth: int = 0) -> None:
    """Remove the traceback of an error that has been handled, and those of its causes."""
    if error is None or depth > _DEEPEST:
        return
    error.__traceback__ = None
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        forget_frames(other, depth + 1)
