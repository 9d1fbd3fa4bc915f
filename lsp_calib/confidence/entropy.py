"""Confidence from the spread of the model's choice at each token, rather than from the chosen token.

An entropy is in nats, of the model's unmodified softmax over its whole vocabulary, given the tokens before.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lsp_calib.errors import DataError

FloatArray = npt.NDArray[np.float64]

# A float32 softmax over 150,000 tokens sums to 1 within some 1e-5; the top five alone do not.
_SUM = 1e-3


def token_entropies(logprobs: npt.ArrayLike) -> FloatArray:
    """Entropy of each token's distribution, in nats.

    logprobs: float array of shape (n, k), natural logarithms of the probabilities of all k tokens of the
        vocabulary at n positions; -inf is probability 0.
    Returns a float array of shape (n,), in [0, ln k].
    Raises DataError if the shape is wrong, or the probabilities at a position do not sum to 1: the entropy of
    the most likely tokens alone says nothing about the rest.
    Source: Shannon 1948.

    >>> token_entropies([[math.log(0.5), math.log(0.5)], [0.0, -math.inf]]).round(4).tolist()
    [0.6931, 0.0]
    """
    values = np.asarray(logprobs, dtype=np.float64)
    if values.ndim != 2 or values.size == 0:
        raise DataError(f"Distributions have the shape (positions, tokens), not {values.shape}.")
    p = np.exp(np.minimum(values, 0.0))
    if not np.all(np.abs(p.sum(axis=1) - 1.0) <= _SUM):  # NaN fails this too
        raise DataError("The probabilities at each position must sum to 1; the whole softmax is needed.")
    # exp(-800) is 0: the bound changes no summand, and avoids 0 x infinity.
    nats: FloatArray = np.sum(p * -np.maximum(values, -800.0), axis=1)
    return np.clip(nats, 0.0, math.log(values.shape[1]))


def entropy_confidence(entropies: npt.ArrayLike, first: int | None = None) -> float:
    """exp of minus the mean entropy: one over the number of tokens the model hesitated between.

    entropies: float array of shape (n,), in nats. first: how many from the start count; None: all.
    Returns a float in (0, 1]. Its logarithm is the expected logarithm of `geometric_mean` if each token is
    sampled. So the two are comparable, and neither depends on the vocabulary's size.
    Raises DataError if there are none, one is negative or no number, or `first` is below 1.
    Source: the token-wise entropy of Malinin & Gales 2021, on the scale of a probability.

    >>> round(entropy_confidence([math.log(2.0), math.log(8.0)]), 6)
    0.25
    """
    values = _checked(entropies, first)
    return math.exp(-math.fsum(values) / len(values))


def normalised_entropy_confidence(entropies: npt.ArrayLike, size: int, first: int | None = None) -> float:
    """1 minus the mean entropy as a share of its maximum, ln(size).

    entropies: float array of shape (n,), in nats. size: tokens in the vocabulary. first: as above.
    Returns a float in [0, 1]. Linear in the entropy, and near 1 for any model that has learnt anything.
    Raises DataError as `entropy_confidence` does, for an entropy above ln(size), or for a size below 2.

    >>> round(normalised_entropy_confidence([math.log(2.0)], 8), 6)
    0.666667
    """
    values = _checked(entropies, first)
    if size < 2:
        raise DataError(f"A vocabulary of {size} leaves nothing to choose; at least 2 tokens are needed.")
    if max(values) > math.log(size) * (1.0 + 1e-6):
        raise DataError(f"An entropy of {max(values)} nats is more than {size} tokens can have.")
    return max(1.0 - math.fsum(values) / len(values) / math.log(size), 0.0)


def _checked(entropies: npt.ArrayLike, first: int | None) -> list[float]:
    values = np.asarray(entropies, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise DataError(f"Entropies have the shape (tokens,) and at least one token, not {values.shape}.")
    if not np.all((values >= 0.0) & np.isfinite(values)):
        raise DataError("Entropies must be numbers of nats, 0 or more.")
    if first is not None and first < 1:
        raise DataError(f"The first {first} tokens were asked for; at least 1 is needed.")
    return [float(value) for value in values[:first]]
