"""A model's last state, projected to a few numbers so that records can keep it. Pure.

A random projection preserves the distances between states approximately (Johnson & Lindenstrauss 1984), and
with them what a linear probe can learn. Its matrix has entries of +1 and -1 (Achlioptas 2003) and is the same
on every machine: its bits are those of SHAKE-256 of a fixed text.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lsp_calib.errors import DataError
from lsp_calib.evaluation.records import State

COORDINATES = 64
_TEXT = "lsp-calib, projection of states, 1"
_LARGEST = 127


def project(state: Sequence[float]) -> State:
    """The projection of a state, of as many numbers as the model is wide, to `COORDINATES` integers.

    Coordinate i is the sum of sign(i, j) * state[j], over the square root of `COORDINATES`, so that squared
    distances are preserved on average. It is rounded to a multiple of the largest one over 127.
    Raises DataError if the state is empty, or holds a number that is not finite.
    """
    values = np.asarray(state, np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise DataError("A model's state must be a list of finite numbers.")
    coordinates = _signs(values.size) @ values / math.sqrt(COORDINATES)
    largest = float(np.abs(coordinates).max())
    if largest == 0.0:
        return State(0.0, (0,) * COORDINATES)
    scale = largest / _LARGEST
    return State(scale, tuple(int(value) for value in np.rint(coordinates / scale)))


@functools.lru_cache(4)
def _signs(width: int) -> NDArray[np.float64]:
    """The matrix of +1 and -1, of shape (COORDINATES, width)."""
    bits = np.frombuffer(hashlib.shake_256(_TEXT.encode()).digest((COORDINATES * width + 7) // 8), np.uint8)
    signs = np.unpackbits(bits)[: COORDINATES * width].astype(np.float64) * 2.0 - 1.0
    return signs.reshape(COORDINATES, width)
