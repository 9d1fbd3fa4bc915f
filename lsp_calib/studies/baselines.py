"""Confidences that the studies compare with: of entropies and of lengths; and probabilities by position.

All raise DataError for input from which no number follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.errors import DataError


def entropy_confidence(entropies: npt.ArrayLike) -> float:
    """exp of minus the mean entropy: one over the number of tokens the model hesitated between.

    entropies: float array of shape (n,), in nats.
    Returns a float in (0, 1]. Its logarithm is the expected logarithm of `geometric_mean` if each token is
    sampled. So the two are comparable, and neither depends on the vocabulary's size.
    Raises DataError if there are none, or one is negative or no number.
    Source: the token-wise entropy of Malinin & Gales 2021, on the scale of a probability.

    >>> round(entropy_confidence([math.log(2.0), math.log(8.0)]), 6)
    0.25
    """
    values = np.asarray(entropies, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise DataError(f"Entropies have the shape (tokens,) and at least one token, not {values.shape}.")
    if not np.all((values >= 0.0) & np.isfinite(values)):
        raise DataError("Entropies must be numbers of nats, 0 or more.")
    return math.exp(-math.fsum(values) / len(values))


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
    answers, right = _checked_lengths(lengths), _checked_lengths(references)
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
    answers = _checked_lengths(lengths)
    shortest, longest = _extremes(answers, "answers")
    return np.asarray((answers - shortest) / (longest - shortest))


def _checked_lengths(lengths: npt.ArrayLike) -> FloatArray:
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


@attrs.frozen(eq=False)
class TokenPositions:
    """Probabilities by position; all arrays of shape (positions,).

    position: 1, 2, and so on. n: generations that are at least this long. mean, median: of their tokens'
    probabilities.
    low, high: the quartiles.
    """

    position: IntArray
    n: IntArray
    mean: FloatArray
    median: FloatArray
    low: FloatArray
    high: FloatArray


def token_positions(logprobs: Sequence[Sequence[float]], *, least: int = 20) -> TokenPositions:
    """Mean, median and quartiles of the token probability at each position.

    logprobs: the log-probabilities of each generation's tokens.
    least: positions that fewer generations reach are left out; a later position describes a smaller
        population, the long answers.
    Raises DataError if fewer than `least` generations reach any position, or `least` is below 1.
    Source: Virk et al. 2024, Figure 6.

    >>> positions = token_positions([[0.0, -1.0], [0.0]], least=1)
    >>> positions.n.tolist(), positions.mean.round(2).tolist()
    ([2, 1], [1.0, 0.37])
    """
    if least < 1:
        raise DataError(f"A position of {least} generations has no mean; at least 1 is needed.")
    lengths = np.sort([len(item) for item in logprobs])
    # The length that `least` generations reach or surpass.
    longest = int(lengths[-least]) if lengths.size >= least else 0
    if longest < 1:
        raise DataError(f"No token position is reached by {least} generations.")
    columns = [np.exp([item[at] for item in logprobs if len(item) > at]) for at in range(longest)]
    quartiles = np.array([np.quantile(column, [0.25, 0.5, 0.75]) for column in columns])
    return TokenPositions(
        position=np.arange(1, longest + 1),
        n=np.array([column.size for column in columns]),
        mean=np.array([column.mean() for column in columns]),
        median=quartiles[:, 1],
        low=quartiles[:, 0],
        high=quartiles[:, 2],
    )
