"""Observations of the distribution that a token is chosen from. Pure, given the model's vocabulary."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lsp_calib.inference.engine import Observe
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.inference.local.sampling import LEAST, Distribution, best_two
from lsp_calib.values import Observation

_PER_TOKEN = Observe.ENTROPY | Observe.MARGIN | Observe.NEWLINE
# A margin is finite, so that it can be averaged and written down: one token alone may be possible.
_LARGEST_MARGIN = 100.0
# So many alternatives are told, as interfaces to models do (Spiess et al. 2024, 3.1.2).
_LIKELIEST = 5


class Observer:
    """Observes what a request asks for. ends_text: whether a token ends the text."""

    def __init__(self, vocabulary: Vocabulary, ends_text: Callable[[int], bool]) -> None:
        self._vocabulary = vocabulary
        self._ends_text = ends_text

    def observe(
        self,
        wanted: Observe,
        distribution: Distribution,
        among: NDArray[np.float32],
        allowed: NDArray[np.int64] | None = None,
        remaining: bytes = b"",
    ) -> Observation | None:
        """None where nothing per token is wanted.

        among: logits of the tokens that may come next, whose ids are `allowed` (None: all), because
        `remaining` is still to be reproduced.
        """
        if not wanted & _PER_TOKEN:
            return None
        margin = second = newline = entropy = None
        if Observe.MARGIN in wanted:
            first, at = best_two(among)
            margin = _LARGEST_MARGIN
            if at is not None:
                margin = min(float(among[first]) - float(among[at]), _LARGEST_MARGIN)
                second = at if allowed is None else int(allowed[at])
        if Observe.NEWLINE in wanted:
            newline = distribution.log_probability(self._ending(remaining))
            if allowed is not None and newline > LEAST:
                newline = min(newline - distribution.log_probability(allowed), 0.0)
        if Observe.ENTROPY in wanted:
            entropy = distribution.entropy()
        return Observation(entropy, margin, second, newline)

    def answer(self, words: Sequence[str], logits: NDArray[np.float32], whole: Distribution) -> Observation:
        """The words of a request, and what is likeliest. whole: the distribution of `logits`."""
        probabilities = (whole.log_probability(self._vocabulary.spelling(word)) for word in words)
        best = np.argpartition(-logits, min(_LIKELIEST, logits.size) - 1)[:_LIKELIEST]
        best = best[np.argsort(-logits[best], kind="stable")]
        return Observation(
            words=tuple(probabilities),
            likeliest=tuple(
                (
                    self._vocabulary.pieces[id].decode("utf-8", "replace"),
                    max(min(float(logits[id]) - whole.log_sum_exp, 0.0), LEAST),
                )
                for id in best.tolist()
            ),
        )

    def _ending(self, remaining: bytes) -> NDArray[np.int64]:
        """The tokens that end the line now. The text cannot end while something has to be reproduced."""
        return self._vocabulary.line_ends(remaining) if remaining else self._ending_anywhere

    @functools.cached_property
    def _ending_anywhere(self) -> NDArray[np.int64]:
        size = len(self._vocabulary.pieces)
        ends = np.asarray([id for id in range(size) if self._ends_text(id)], np.int64)
        return np.union1d(self._vocabulary.line_ends(), ends)
