"""Warnings that a number is undefined or not informative, and how to silence them for a block of code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


class CalibrationWarning(UserWarning):
    """A number is undefined or not informative; the message gives n and the reason."""


def caution(message: str, stacklevel: int = 3) -> None:
    """Issue a CalibrationWarning, unless within `quietly`.

    stacklevel: the frame whose line it names; 3: the caller of the function that calls this.
    """
    if not _quiet.get():
        warnings.warn(message, CalibrationWarning, stacklevel=stacklevel)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence these warnings: for loops over resamples, and for code that turns nan into None itself.

    Unlike `warnings.catch_warnings`, it applies to this thread or task alone.

    >>> from lsp_calib.calibration import auc, quietly
    >>> with quietly():
    ...     auc([0.2, 0.7], [True, True])
    nan
    """
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)
