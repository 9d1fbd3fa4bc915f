"""From logits to log-probabilities and to a choice; pure numpy, no allocation of a vocabulary's size.

float32 exponentials, summed in float32 within blocks and in float64 over these: over 150,000 logits ten times
faster than float64 throughout, and 2e-7 from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from lsp_calib.values import Distributions, Softmax

_BLOCK = 512
# exp(-200) is 0 in float32: no smaller logarithm of a probability can be told from another.
LEAST = -200.0


@attrs.frozen(eq=False)
class Distribution:
    """The softmax of one row of logits, in scratch arrays that the next call of `Normaliser` overwrites.

    below: logits minus the largest one. weights: exponentials of `below`; total: their sum, at least 1.
    log_sum_exp: logarithm of the softmax's denominator. Neither is finite where a logit is NaN or plus
        infinity, or all are minus infinity; then nothing else may be used.
    """

    below: NDArray[np.float32]
    weights: NDArray[np.float32]
    total: float
    log_sum_exp: float

    def entropy(self) -> float:
        """In nats, between 0 and the logarithm of the number of logits."""
        # All products have one sign, so that float32 is exact enough within a block.
        mean = _dot(self.below, self.weights) / self.total
        if math.isnan(mean):  # a logit of minus infinity, times a weight of 0
            np.maximum(self.below, np.float32(LEAST), out=self.below)
            mean = _dot(self.below, self.weights) / self.total
        return max(math.log(self.total) - mean, 0.0)

    def log_probability(self, ids: NDArray[np.int64]) -> float:
        """Natural logarithm of the probability of `ids` together, at least `LEAST`: that underflows."""
        among = float(self.weights[ids].sum(dtype=np.float64))
        return max(math.log(among / self.total), LEAST) if among > 0.0 else LEAST


class Normaliser:
    """The softmax of one row of logits at a time, in a scratch array that is kept.

    size: of the vocabulary. Rows are float32, of shape (size,) or shorter; they are never written to.
    """

    def __init__(self, size: int) -> None:
        self._scratch = np.empty(size, np.float32)
        self._below = np.empty(size, np.float32)

    def distribution(self, logits: NDArray[np.float32]) -> Distribution:
        """The softmax of `logits`, from one pass of exponentials."""
        below, weights = self._below[: logits.size], self._scratch[: logits.size]
        peak = logits.max()
        if not math.isfinite(peak):
            return Distribution(below, weights, math.nan, math.nan)
        np.subtract(logits, peak, out=below)
        np.exp(below, out=weights)
        total = _sum(weights)
        return Distribution(below, weights, total, float(peak) + math.log(total))

    def log_sum_exp(self, logits: NDArray[np.float32], temperature: float = 1.0) -> float:
        """Logarithm of the denominator of the softmax of `logits` / temperature.

        It is not finite where a logit is NaN or plus infinity, or all are minus infinity.
        """
        peak = logits.max()
        if not math.isfinite(peak):
            return math.nan
        return float(peak) / temperature + math.log(self._exponentials(logits, peak, temperature))

    def softmax(self, logits: NDArray[np.float32], token: int, temperatures: Sequence[float]) -> Softmax:
        """A summary of the distribution that `token` was chosen from, at each of `temperatures` (above 0)."""
        return Softmax(
            logit=float(logits[token]),
            log_sum_exps=tuple(self.log_sum_exp(logits, temperature) for temperature in temperatures),
            entropy=self.entropy(logits),
        )

    def entropy(self, logits: NDArray[np.float32]) -> float:
        """Entropy of the softmax, in nats, between 0 and the logarithm of the number of logits."""
        return self.distribution(logits).entropy()

    def probabilities(self, logits: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
        """The softmax of `logits` / temperature (above 0), in the scratch array."""
        total = self._exponentials(logits, logits.max(), temperature)
        scratch = self._scratch[: logits.size]
        np.multiply(scratch, np.float32(1.0 / total), out=scratch)
        # Rounding may exceed 1 by the last bit.
        np.minimum(scratch, np.float32(1.0), out=scratch)
        return scratch

    def draw(self, logits: NDArray[np.float32], temperature: float, uniform: float) -> int:
        """The index drawn from the softmax at `temperature` (above 0) by a number uniform in [0, 1)."""
        self._exponentials(logits, logits.max(), temperature)
        weights = self._scratch[: logits.size]
        # Find the block first: a running float64 sum over all would take ten times as long as all the rest.
        blocks = np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK)).astype(np.float64).cumsum()
        target = uniform * blocks[-1]
        block = min(int(blocks.searchsorted(target, side="right")), blocks.size - 1)
        start = block * _BLOCK
        inside = weights[start : start + _BLOCK].cumsum(dtype=np.float64)
        before = blocks[block - 1] if block else 0.0
        at = int(inside.searchsorted(target - before, side="right"))
        # Rounding may point past a block's end: then take the block's last token that has any weight.
        return start + (at if at < inside.size else int(inside.searchsorted(inside[-1])))

    def _exponentials(self, logits: NDArray[np.float32], peak: np.float32, temperature: float) -> float:
        """Fill the scratch with exp((logits - peak) / temperature); returns their sum, at least 1."""
        scratch = self._scratch[: logits.size]
        np.subtract(logits, peak, out=scratch)
        if temperature != 1.0:
            np.multiply(scratch, np.float32(1.0 / temperature), out=scratch)
        np.exp(scratch, out=scratch)
        return _sum(scratch)


class Counting:
    """Counts distributions at one temperature: see `Distributions`. above: entries above it are told."""

    def __init__(self, normaliser: Normaliser, size: int, temperature: float, above: float) -> None:
        self._normaliser = normaliser
        self._temperature = temperature
        self._above = np.float32(above)
        self._sums = np.zeros(size)
        self._entries: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        self._positions: list[tuple[int, float, float]] = []

    def add(self, logits: NDArray[np.float32], target: int) -> None:
        """Add a position, at which the text has the token `target`."""
        probabilities = self._normaliser.probabilities(logits, self._temperature)
        self._sums += probabilities
        tokens = np.flatnonzero(probabilities > self._above)
        self._entries.append((tokens, probabilities[tokens]))
        self._positions.append((target, float(probabilities[target]), float(probabilities.max())))

    def told(self) -> Distributions:
        """What was counted so far."""
        targets = np.array([target for target, _, _ in self._positions], "<u4")
        own = np.array([probability for _, probability, _ in self._positions], "<f4")
        largest = np.array([probability for _, _, probability in self._positions], "<f4")
        tokens = [np.zeros(0, np.int64), *(tokens for tokens, _ in self._entries)]
        values = [np.zeros(0, np.float32), *(values for _, values in self._entries)]
        return Distributions(
            sums=self._sums.astype("<f4").tobytes(),
            tokens=np.concatenate(tokens).astype("<u4").tobytes(),
            probabilities=np.concatenate(values).astype("<f4").tobytes(),
            targets=targets.tobytes(),
            target_probabilities=own.tobytes(),
            largest=largest.tobytes(),
            hits=(own == largest).astype(np.uint8).tobytes(),
        )


def best_two(logits: NDArray[np.float32]) -> tuple[int, int | None]:
    """The indices of the largest logit and of the second largest; None if there is only one."""
    first = int(logits.argmax())
    before, after = logits[:first], logits[first + 1 :]
    places = [int(before.argmax())] if before.size else []
    places += [first + 1 + int(after.argmax())] if after.size else []
    return first, max(places, key=lambda place: logits[place], default=None)


# Sums with `einsum` rather than `dot`, whose libraries may start threads of their own beside llama.cpp's.


def _sum(values: NDArray[np.float32]) -> float:
    whole = values.size // _BLOCK * _BLOCK
    blocks = np.einsum("ij->i", values[:whole].reshape(-1, _BLOCK))
    return float(blocks.sum(dtype=np.float64)) + float(values[whole:].sum(dtype=np.float64))


def _dot(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    whole = one.size // _BLOCK * _BLOCK
    blocks = np.einsum("ij,ij->i", one[:whole].reshape(-1, _BLOCK), other[:whole].reshape(-1, _BLOCK))
    return float(blocks.sum(dtype=np.float64)) + float(np.einsum("i,i->", one[whole:], other[whole:]))
