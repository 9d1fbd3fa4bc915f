"""The length of an answer as a confidence: the studies' baseline, which a measure should beat."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError

FloatArray = npt.NDArray[np.float64]


def length_confidence(lengths: npt.ArrayLike, references: npt.ArrayLike) -> FloatArray:
    """1 for an answer as short as the shortest reference or shorter, 0 for one as long as the longest.

    lengths: array of shape (n,), characters of each answer.
    references: array of shape (m,), characters of the right answers of the data set.
    Returns a float array of shape (n,), linear between the two and clipped to [0, 1].
    It needs the right answers, so it is only a baseline, not a measure for use.
    Raises DataError for an empty or negative length, or if all references are equally long: there is then no
    scale between them.
    Source: Spiess et al. 2024, 4.1.3.

    >>> length_confidence([5, 10, 20, 40], [10, 30]).tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    answers, right = _checked(lengths), _checked(references)
    shortest, longest = _extremes(right, "references")
    return np.clip((longest - answers) / (longest - shortest), 0.0, 1.0)


def relative_length(lengths: npt.ArrayLike) -> FloatArray:
    """0 for the shortest answer of the data set, 1 for the longest.

    lengths: array of shape (n,), characters of each answer. Returns a float array of shape (n,), in [0, 1].
    The other description of the same baseline in the same paper, with the opposite sign: a longer answer is
    more confident.
    Raises DataError as `length_confidence` does, for the answers themselves.
    Source: Spiess et al. 2024, 3.1.2.

    >>> relative_length([10, 20, 30]).tolist()
    [0.0, 0.5, 1.0]
    """
    answers = _checked(lengths)
    shortest, longest = _extremes(answers, "answers")
    return np.asarray((answers - shortest) / (longest - shortest))


def _checked(lengths: npt.ArrayLike) -> FloatArray:
    values = np.asarray(lengths, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise DataError(f"Lengths have the shape (n,) with n > 0, not {values.shape}.")
    if not np.all((values >= 0.0) & np.isfinite(values)):
        raise DataError("Lengths must be numbers of characters, 0 or more.")
    return values


def _extremes(values: FloatArray, what: str) -> tuple[float, float]:
    shortest, longest = float(values.min()), float(values.max())
    if shortest == longest:
        raise DataError(f"All {what} are {shortest:g} characters long; no length lies between them.")
    return shortest, longest
