"""Which completions are not shown because they are too likely to be wrong (setting `hideBelow`).

A completion is hidden if its confidence is below the setting, or if its first tokens already say that it
will be. One in a hundred of those is shown nevertheless: without labels from below the setting, nobody would
notice if the confidence there became wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import attrs

from lsp_calib.inference.engine import EarlyStop
from lsp_calib.values import Confidence, Evidence, Generation, Timing

EXPLORED = 0.01
"""The share of the completions to hide that are shown."""

# Tokens after which a generation may be stopped. On the records of both measured models this saves about the
# most (tests/programs/hiding.py): earlier little is known, later little is left to save.
FIRST_TOKENS = 4


@attrs.frozen
class Hidden:
    """A completion that is not shown.

    confidence: its confidence, or the highest that was still possible when the generation was stopped.
    """

    confidence: Confidence
    timing: Timing


@attrs.frozen
class Hiding:
    """Decides for one completion whether it is hidden.

    below: completions with a lower calibrated confidence are; in (0, 1).
    assess: the confidence of evidence, by the calibrator in force. place: as in `Evidence`.
    most_tokens: that the generation can have.
    explored: whether it is shown even if it is to be hidden.
    """

    below: float
    assess: Callable[[Evidence], Confidence]
    place: str
    most_tokens: int
    explored: bool

    @property
    def early_stop(self) -> EarlyStop | None:
        """Ends the generation of a completion that will be hidden; None: it is shown in any case."""
        return None if self.explored else EarlyStop(FIRST_TOKENS, self._worth_finishing)

    def hides(self, generation: Generation, confidence: Confidence) -> bool:
        """Whether a finished completion is to be hidden, explored or not.

        One that would have been stopped early is, whatever its confidence: the share of explored completions
        is then `EXPLORED` for all that would be hidden.
        """
        if confidence.calibrated is None:
            return False
        if confidence.calibrated < self.below:
            return True
        logprobs = generation.logprobs
        return len(logprobs) > FIRST_TOKENS and not self._worth_finishing(logprobs[:FIRST_TOKENS])

    def ceiling(self, first: tuple[float, ...]) -> Confidence:
        """The confidence of a generation that begins with tokens of these log-probabilities, if the model is
        certain of all later ones.

        That is the highest possible one where more probable tokens never lower the confidence, as with the
        curves over the total probability and over the geometric mean. With features of the text the
        confidence may end above it, but seldom does.
        """
        certain = (0.0,) * max(self.most_tokens - len(first), 0)
        return self.assess(Evidence((*first, *certain), place=self.place))

    def _worth_finishing(self, first: tuple[float, ...]) -> bool:
        highest = self.ceiling(first).calibrated
        return highest is None or highest >= self.below


def is_explored(suggestion_id: str) -> bool:
    """Whether a suggestion is shown even if it is to be hidden: true of `EXPLORED` of all ids.

    Always the same for one id.
    """
    digest = hashlib.sha256(f"explored {suggestion_id}".encode()).digest()
    return int.from_bytes(digest[:8]) < EXPLORED * 2**64


def marked(confidence: Confidence, below: float) -> Confidence:
    """The confidence of a completion that is shown although it is to be hidden: its reason says so."""
    reason = f"shown although it is below hideBelow ({below:g}), to keep learning; {confidence.reason}"
    return attrs.evolve(confidence, reason=reason)
