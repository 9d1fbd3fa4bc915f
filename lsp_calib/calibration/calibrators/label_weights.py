"""How much each label counts: visits to a line once, one line a few times, what was rarely shown for more."""

from __future__ import annotations

from typing import Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray, IntArray, group_codes

# A line that is written again and again ("return None", or one label that got into the store ten thousand
# times) is one fact about the user: so many of its visits count, however many there are.
MOST_OF_ONE_LINE = 5

# A suggestion that was shown with a probability of 1 % stands for a hundred. In full that weight would let
# one such label outvote all others of a beginner. Cut off here, the correction keeps its direction.
MOST_WEIGHT = 10.0


@attrs.frozen(eq=False)
class LabelWeights:
    """What decides how much each of n labels counts.

    visits, lines: codes from 0, int arrays of shape (n,); labels of one visit, or of one line, share one.
    factors: float array of shape (n,), see `of`.
    """

    visits: IntArray
    lines: IntArray
    factors: FloatArray

    @classmethod
    def of(
        cls,
        n: int,
        episodes: npt.ArrayLike | None = None,
        lines: npt.ArrayLike | None = None,
        shown: npt.ArrayLike | None = None,
    ) -> Self:
        """The weights of n labels.

        episodes, lines: of shape (n,), texts or integers; labels that share one come from one visit, or are
            of the same line. None: all differ.
        shown: the probability with which each was shown, in (0, 1], shape (n,); None: 1. Dividing by it makes
            the labels stand for all that was suggested (Horvitz & Thompson 1952).
        Raises DataError unless there are n of each.
        """
        every = np.arange(n)
        visits = group_codes(every if episodes is None else episodes, n)
        chances = np.ones(n) if shown is None else np.asarray(shown, dtype=np.float64)
        return cls(
            visits,
            visits if lines is None else group_codes(lines, n),
            np.minimum(1.0 / np.maximum(chances, 1e-9), MOST_WEIGHT),
        )

    def visited(self, known: BoolArray | None = None) -> FloatArray:
        """The weight of each label as a part of a visit, shape (n,); their sum is how many visits count.

        known: bool array of shape (n,): the labels that count at all; the others have weight 0.
        The labels of a visit together weigh 1: they share one outcome, more or less, and ten requests on a
        line that was typed slowly would otherwise outvote nine lines. All of them are used rather than one of
        each: each was shown, with a confidence of its own. Those of a line weigh at most MOST_OF_ONE_LINE.
        """
        counts = np.ones(self.visits.size) if known is None else known.astype(np.float64)
        sizes = np.bincount(self.visits, weights=counts)
        weights = counts / np.maximum(sizes[self.visits], 1.0)
        of_line = np.bincount(self.lines, weights=weights)
        found: FloatArray = weights * (MOST_OF_ONE_LINE / np.maximum(of_line, MOST_OF_ONE_LINE))[self.lines]
        return found

    def weights(self, known: BoolArray | None = None) -> FloatArray:
        """The weight of each label in a fit or a comparison, shape (n,). known: as for `visited`."""
        return self.visited(known) * self.factors
