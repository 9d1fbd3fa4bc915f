"""What a limit of confidence would have hidden: the user's own history, replayed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lsp_calib.badges import percent

MOST_LABELS = 1000
"""The last so many labels are replayed: older ones may be of another way of working."""


@attrs.frozen
class Replay:
    """How many labelled suggestions were right (wrong), and how many of them have a confidence below a
    limit."""

    below: float
    right: int
    wrong: int
    right_hidden: int
    wrong_hidden: int

    @classmethod
    def of(cls, below: float, confidences: Sequence[float | None], correct: Sequence[bool]) -> Replay:
        """confidences: calibrated, in [0, 1], None for a suggestion without one, which is never hidden.

        correct: of the same suggestions, whether they were right.
        """
        pairs = list(zip(confidences, correct, strict=True))
        hidden = [right for confidence, right in pairs if confidence is not None and confidence < below]
        right = sum(right for _, right in pairs)
        return cls(below, right, len(pairs) - right, sum(hidden), len(hidden) - sum(hidden))

    @property
    def sentence(self) -> str:
        """The replay in words for the user."""
        limit = f"hideBelow is {self.below:g}."
        n = self.right + self.wrong
        if not n:
            return f"{limit} No suggestion of this model has a label yet, so its effect is not known."
        kinds = (self.wrong_hidden, self.wrong, "wrong"), (self.right_hidden, self.right, "right")
        shares = [
            f"{percent(hidden / total)} of the {kind} ones ({hidden} of {total})"
            for hidden, total, kind in kinds
            if total
        ]
        last = "last labelled suggestion" if n == 1 else f"last {n} labelled suggestions"
        return f"{limit} Of your {last} it would have hidden {' and '.join(shares)}."
