"""From logits to log-probabilities and to a choice; pure numpy, no allocation of a vocabulary's size.

float32 exponentials with a float64 sum: over 150,000 logits seven times faster than float64 throughout, and
2e-7 from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lsp_calib.values import Softmax

_BLOCK = 512
# exp(-200) is 0 in float32; a logit of minus infinity would make entropy's 0 * inf a NaN.
_FLOOR = np.float32(-200.0)


class Normaliser:
    """The softmax of one row of logits at a time, in a scratch array that is kept.

    size: of the vocabulary. Rows are float32, of shape (size,) or shorter; they are never written to.
    """

    def __init__(self, size: int) -> None:
        self._scratch = np.empty(size, np.float32)

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
        peak = logits.max()
        total = self._exponentials(logits, peak, 1.0)
        below = np.maximum(logits - peak, _FLOOR)
        mean = (
            float(np.multiply(below, self._scratch[: logits.size], out=below).sum(dtype=np.float64)) / total
        )
        return max(math.log(total) - mean, 0.0)

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
        return float(scratch.sum(dtype=np.float64))
