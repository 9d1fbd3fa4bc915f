"""Checked arrays of confidences and labels, and warnings where numbers computed from them say nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]


def probabilities(values: npt.ArrayLike, name: str = "confidence") -> FloatArray:
    """`values` as a float64 array of any shape.

    Raises DataError if one is no number, is NaN or lies outside [0, 1].
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers in [0, 1]: {error}.") from error
    if not np.all((array >= 0.0) & (array <= 1.0)):  # NaN fails both
        raise DataError(f"{name} must lie in [0, 1]; found NaN or a value outside.")
    return array


def paired(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, *, empty: bool = False
) -> tuple[FloatArray, BoolArray]:
    """Confidences and labels as float64 and bool arrays of one shape (n,).

    correct: booleans, or numbers that are 0 or 1.
    empty: whether n = 0 is allowed.
    Raises DataError on empty input, different shapes, NaN, or values outside [0, 1].
    """
    scores = probabilities(confidence)
    labels = np.asarray(correct)
    if scores.ndim != 1 or labels.shape != scores.shape:
        raise DataError(
            f"confidence and correct must be one-dimensional and equally long; "
            f"their shapes are {scores.shape} and {labels.shape}."
        )
    if scores.size == 0 and not empty:
        raise DataError("There are no labels: confidence and correct are empty.")
    if labels.dtype != np.bool_:
        if not np.all((labels == 0) | (labels == 1)):
            raise DataError("correct must hold booleans, or numbers that are 0 or 1.")
        labels = labels == 1
    return scores, labels


def checked_weights(weights: npt.ArrayLike | None, n: int, *, empty: bool = False) -> FloatArray:
    """Weights as a float array of shape (n,); ones for None.

    empty: whether all may be 0. Raises DataError if one is negative or not finite.
    """
    if weights is None:
        return np.ones(n)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.all((w >= 0.0) & np.isfinite(w)) or not (empty or np.any(w > 0.0)):
        wanted = "none negative" if empty else "none negative and not all 0"
        raise DataError(f"weights must be {n} finite numbers, {wanted}; their shape is {w.shape}.")
    return w


def group_codes(groups: npt.ArrayLike, n: int) -> IntArray:
    """Groups as codes 0 .. k-1 in sorted order of the group values, an int array of shape (n,).

    groups: array of shape (n,) of strings or integers.
    Raises DataError if there are not n of them.
    """
    array = np.asarray(groups)
    if array.shape != (n,):
        raise DataError(f"groups must hold one value for each of the {n} items; its shape is {array.shape}.")
    codes: IntArray = np.unique(array, return_inverse=True)[1].astype(np.intp)
    return codes


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

    >>> from lsp_calib.calibration.scores import auc
    >>> from lsp_calib.calibration.arrays import quietly
    >>> with quietly():
    ...     auc([0.2, 0.7], [True, True])
    nan
    """
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)
