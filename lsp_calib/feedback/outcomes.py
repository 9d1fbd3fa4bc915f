"""What was promised of suggestions and what became true, from sums over their labels. Pure."""

from __future__ import annotations

import math
from typing import Literal

import attrs

from lsp_calib.calibration.metrics.binomial import least_rate

LEVEL = 0.95
Z = 1.959964  # of a normal interval of this level
ENOUGH = 20
"""Visits below which nothing is concluded: the interval of a share is still 20 points to each side."""

Verdict = Literal["notPromised", "tooFew", "asPromised", "more", "less"]


@attrs.frozen
class Share:
    """The share of `n` visits that ended well, with its exact 95 % interval (`low`, `high`).

    The interval takes visits as independent. All three in [0, 1], and None without a visit.
    """

    n: int
    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, right: float, n: float) -> Share:
        """right, n: sums of weights: the suggestions of a visit weigh 1 together.

        Source: Clopper & Pearson 1934.

        >>> share = Share.of(3, 4)
        >>> share.n, share.value, round(share.low, 3), round(share.high, 3)
        (4, 0.75, 0.194, 0.994)
        """
        visits = round(n)
        if not visits:
            return cls(0, None, None, None)
        # Visits that ended in several ways count in part: rounded away from the claim of each end. Sums of
        # thirds and tenths miss a whole number by a little.
        good = min(int(right + 1e-6), visits)
        bad = min(int(n - right + 1e-6), visits)
        level = 1.0 - (1.0 - LEVEL) / 2.0
        return cls(
            visits,
            min(max(right / n, 0.0), 1.0),
            least_rate(good, visits, level),
            1.0 - least_rate(bad, visits, level),
        )


@attrs.frozen
class Sums:
    """Sums over labels, each weighted so that those of one visit weigh 1 together.

    labels: how many there are. n: of the weights, so the number of visits. promised: of the confidences.
    right: of the outcomes. loss: of the squared difference of confidence and outcome. loss_squared,
    loss_right: of its square, and of its product with the outcome.
    """

    labels: int
    n: float
    promised: float
    right: float
    loss: float
    loss_squared: float
    loss_right: float


@attrs.frozen
class Outcome:
    """What was promised of some suggestions, and what became true.

    labels: suggestions with an outcome. share: of visits that were right. promised: the mean probability;
        None where none was shown, as of lines in commits.
    brier, skill: of the probabilities as they were shown. skill_low, skill_high: an approximate 95 %
        interval. None where undefined (one class), and the interval with fewer than `ENOUGH` visits.
    """

    name: str
    labels: int
    share: Share
    promised: float | None
    brier: float | None = None
    skill: float | None = None
    skill_low: float | None = None
    skill_high: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the promise lies in the interval of what became true."""
        share = self.share
        if share.n and self.promised is None:
            return "notPromised"
        if share.n < ENOUGH or self.promised is None or share.low is None or share.high is None:
            return "tooFew"
        if self.promised > share.high:
            return "less"
        return "more" if self.promised < share.low else "asPromised"


def outcome_of(name: str, sums: Sums) -> Outcome:
    """The outcome of labels, from their sums."""
    share = Share.of(sums.right, sums.n)
    rate = sums.right / sums.n
    reference = rate * (1.0 - rate)
    brier = sums.loss / sums.n
    # Sums of thirds and tenths leave a little where nothing should be.
    if reference < 1e-9:
        return Outcome(name, sums.labels, share, sums.promised / sums.n, brier)
    skill = 1.0 - brier / reference
    half = _skill_error(sums, rate, reference, brier / reference) if share.n >= ENOUGH else None
    return Outcome(
        name,
        sums.labels,
        share,
        sums.promised / sums.n,
        brier,
        skill,
        None if half is None else skill - half,
        None if half is None else skill + half,
    )


def _skill_error(sums: Sums, rate: float, reference: float, ratio: float) -> float:
    """Half the width of an approximate 95 % interval of the skill score.

    The skill is 1 minus a ratio of means: of the loss, and of the loss of always answering the base rate,
    which is (1 - rate)^2 for what is right and rate^2 for the rest. So the error is that of a ratio estimator
    (Cochran 1977, section 6.4), and five sums suffice for it.
    """
    good, bad = (1.0 - rate) ** 2, rate**2
    crossed = sums.loss_right * good + (sums.loss - sums.loss_right) * bad
    squared = sums.right * good**2 + (sums.n - sums.right) * bad**2
    residual = max(sums.loss_squared - 2.0 * ratio * crossed + ratio**2 * squared, 0.0)
    return Z * math.sqrt(residual) / sums.n / reference
