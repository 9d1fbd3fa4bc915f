"""Curves of the alternatives' ranks: what a share of what the first answer leaves is worth. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.document import Count, Document, as_floats
from lsp_calib.calibration.logistic import LOOSE_PRIOR, PlattCalibrator
from lsp_calib.errors import DataError

# With fewer labels, or fewer right ones, a curve would be little more than its prior.
_FEWEST, _FEWEST_RIGHT = 100, 5

Ranked = Sequence[tuple[float, bool]]
"""The alternatives at one place from rank 2 on: the share that the model gives to each of what its first
answer leaves (`completion.alternatives.shares`), and whether it is right."""


class RankCurve(Document, frozen=True):
    """P(the answer of a rank is right, if the first is not) = sigmoid(slope * log-odds(share) + intercept).

    n, n_correct: the places it was fitted on, where the first answer was wrong, and how many of them this
    rank had right.
    Raises DataError for numbers that are not finite or contradict each other.
    """

    slope: float
    intercept: float
    n: Count
    n_correct: Count

    def __post_init__(self) -> None:
        as_floats(self, bounded=("slope", "intercept"))
        if not 0 <= self.n_correct <= self.n:
            raise DataError(f"nCorrect {self.n_correct} is not among n {self.n}.")

    def predict(self, share: float) -> float:
        """The probability, in (0, 1), of a share in [0, 1]."""
        return PlattCalibrator(self.slope, self.intercept).predict(share)


def fit_ranks(places: Sequence[Ranked], first_correct: npt.ArrayLike) -> tuple[RankCurve, ...]:
    """A curve for each rank from 2 on, as far as there are labels enough; for none after a rank without.

    places: of n places. first_correct: bool array of shape (n,): where the first answer is right, no other
    is, and the place says nothing.
    """
    wrong: BoolArray = ~np.asarray(first_correct, dtype=np.bool_)
    curves: list[RankCurve] = []
    while True:
        found = [
            place[len(curves)]
            for place, counts in zip(places, wrong, strict=True)
            if counts and len(place) > len(curves)
        ]
        right = sum(correct for _, correct in found)
        if len(found) < _FEWEST or right < _FEWEST_RIGHT:
            return tuple(curves)
        shares, correct = zip(*found, strict=True)
        platt = PlattCalibrator.fit(shares, correct, prior=LOOSE_PRIOR)
        curves.append(RankCurve(platt.slope, platt.intercept, len(found), right))


def rank_probabilities(
    curves: Sequence[RankCurve], first: float | None, shares: Sequence[float]
) -> tuple[float | None, ...]:
    """How likely each alternative is to be right; with the first answer, all together at most 1.

    first: the calibrated probability of the first answer, in [0, 1]; None: there is none for any.
    shares: from rank 2 on, each in [0, 1]. A rank without a curve has its share of what the first one leaves.

    >>> rank_probabilities((), 0.6, (0.5, 0.25))
    (0.2, 0.1)
    """
    if first is None:
        return (None,) * len(shares)
    found: FloatArray = np.array(
        [curves[rank].predict(share) if rank < len(curves) else share for rank, share in enumerate(shares)],
        dtype=np.float64,
    )
    # Each curve is right about its rank; together they may promise more than there is.
    within = found / max(1.0, float(found.sum()))
    return tuple((1.0 - first) * float(p) for p in within)
