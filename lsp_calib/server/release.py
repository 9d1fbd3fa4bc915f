"""Letting go of what an error holds.

Its frames hold what the handler was given, such as the text of a document. Often one of them holds the error:
then only the garbage collector would free it, and that counts objects, not bytes.
"""

from __future__ import annotations

# No error has more causes; a chain that bites its tail ends here.
_DEEPEST = 16


def forget_frames(error: BaseException | None, depth: int = 0) -> None:
    """Take the traceback from an error that has been dealt with, and from all it came of."""
    if error is None or depth > _DEEPEST:
        return
    error.__traceback__ = None
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        forget_frames(other, depth + 1)
