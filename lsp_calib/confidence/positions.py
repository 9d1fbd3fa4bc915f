"""How sure a model is at each token position, over many generations."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


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
