"""A certificate for accepted suggestions: at most a given share is wrong, with a given confidence; or none.

The promise holds for suggestions that are exchangeable with the labels it was made from. If they are not,
`drift.Watch` revokes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import paired
from lsp_calib.calibration.metrics.binomial import fewest_labels, least_trials, lower_tail
from lsp_calib.errors import DataError

LEAST_SHARE = 0.02

# Beginnings that `prospect` compares: 22 to some 560 accepted labels at 0.1 and 0.1.
_MOST_STARTS = 40


@attrs.frozen(kw_only=True)
class Certificate:
    """The outcome of `certify`.

    threshold: accept at this confidence and above; None where nothing can be promised.
    reason: why, in plain words with the numbers.
    n: number of labels. accepted, errors: how many of them the threshold accepts, and how many of those were
        wrong; both 0 without a threshold.
    risk, delta: the promise: at most `risk` of the accepted ones are wrong, with confidence 1 - delta.
    p_value: of "more than `risk` are wrong", at the threshold; None without one.
    calibrator: id of the calibrator whose confidences these were; "" if unknown. It holds for no other.
    revoked: whether its promise was withdrawn.
    """

    threshold: float | None
    reason: str
    n: int
    accepted: int
    errors: int
    risk: float
    delta: float
    p_value: float | None = None
    calibrator: str = ""
    revoked: bool = False

    def revoke(self, reason: str) -> Self:
        """The certificate, revoked. This cannot be undone: certify again, on new labels."""
        if self.revoked:
            return self
        return attrs.evolve(
            self, threshold=None, p_value=None, accepted=0, errors=0, reason=reason, revoked=True
        )


def certify(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    risk: float = 0.1,
    delta: float = 0.1,
    *,
    least_share: float = LEAST_SHARE,
    calibrator: str = "",
) -> Certificate:
    """The lowest threshold for which "at most `risk` of the accepted ones are wrong" can be promised.

    confidence: float array of shape (n,). correct: bool array of shape (n,). n may be 0.
    risk: the largest tolerable share of errors among accepted ones, in (0, 1).
    delta: the tolerable probability that the promise is wrong, in (0, 1).
    least_share: thresholds that accept a smaller share of the labels are not tried, in [0, 1].
    calibrator: id of the calibrator that made the confidences, for the record.

    The labels must not have been used to fit or choose the calibrator of the confidences. The caller must
    ensure this; it cannot be checked here. (Out-of-fold confidences come from other curves than the one in
    use: good for a forecast, not for a promise.)

    Learn-then-Test by fixed sequence: thresholds are tested from the strictest downwards, each by the exact
    binomial p-value of its integer error count, until one fails; the last that passed is certified. Because
    the first failure ends it, no correction for the number of tests is needed. The sequence depends on the
    confidences alone, never on the labels. It starts at the strictest threshold with any power, where 0
    errors are few enough ((1 - risk)^k <= delta: k = 22 at 0.1 and 0.1), or where `least_share` of the labels
    is accepted if that is more, and goes on where one more error becomes tolerable (38, 52, 65 ...): between
    those a test can only be lost. Items of equal confidence are accepted together.

    Assumes that labels and suggestions to come are exchangeable (independent draws from one population:
    labels of one file, right or wrong together, say less than their number), and that no stricter threshold
    has a higher risk, as with any useful score. Then the promise is exact for every n: let m labels lie above
    the first threshold that is too risky. Given m, their errors are binomial with the risk itself, all others
    are wrong more often, and the first false promise tested passes with probability at most delta.
    (`tests/validity` simulates it, also with scores whose most confident items are the worst.)
    Raises DataError on arrays that do not fit together, or numbers outside their ranges.
    Source: Angelopoulos et al. 2021, "Learn then Test", sec. 2 and algorithm 1.

    >>> sure = [0.9] * 22 + [0.2] * 10
    >>> certify(sure, [True] * 22 + [False] * 10).threshold
    0.9
    >>> certify(sure[:17], [True] * 17).reason
    'not enough labels yet: 17 of 22'
    >>> certify(sure, [True] * 21 + [False] * 11).reason
    '1 of the 22 most confident was wrong, where none may be'
    """
    p, y = paired(confidence, correct, empty=True)
    if not 0.0 <= least_share <= 1.0:
        raise DataError(f"least_share must lie in [0, 1], not {least_share}.")
    enough = least_trials(risk, delta, p.size)
    if not enough.size:
        return _no_promise(
            f"not enough labels yet: {p.size} of {fewest_labels(risk, delta)}", p.size, risk, delta
        )
    order = np.argsort(-p, kind="stable")
    descending = p[order]
    wrong_so_far = np.cumsum(~y[order])
    # The number accepted if the threshold is the confidence of the k-th item, equal confidences included.
    accepted = np.searchsorted(-descending, -descending[enough - 1], side="right")
    accepted = np.unique(np.append(accepted, p.size))
    # A share that was made of a number of labels is that number again, whatever rounding did to it.
    strict_enough = accepted >= least_share * p.size - 1e-9 * p.size
    accepted = accepted[strict_enough]
    tolerable = np.searchsorted(enough, accepted, side="right") - 1
    errors = wrong_so_far[accepted - 1]
    passed = errors <= tolerable
    count = passed.size if passed.all() else int(np.argmin(passed))
    if count == 0:
        return _no_promise(
            f"{errors[0]} of the {accepted[0]} most confident {'was' if errors[0] == 1 else 'were'} wrong, "
            f"where {'at most ' + str(tolerable[0]) if tolerable[0] else 'none'} may be",
            p.size,
            risk,
            delta,
        )
    k, e = int(accepted[count - 1]), int(errors[count - 1])
    threshold = float(descending[k - 1])
    return Certificate(
        threshold=threshold,
        reason=f"at most {risk * 100:g} % of those at {threshold:.3f} and above are wrong, with "
        f"{(1 - delta) * 100:g} % confidence: {e} of {k} labels were",
        n=p.size,
        accepted=k,
        errors=e,
        risk=risk,
        delta=delta,
        p_value=float(lower_tail(e, k, risk)),
        calibrator=calibrator,
    )


@attrs.frozen
class Prospect:
    """accepted: how many of the most confident labels the first test had best take.

    chance: in [0, 1], that it passes, by the confidences themselves.
    """

    accepted: int
    chance: float


def prospect(confidence: npt.ArrayLike, risk: float = 0.1, delta: float = 0.1) -> Prospect:
    """Whether it is worth asking for a certificate, before any label is looked at.

    confidence: float array of shape (n,), of the labels that it would rest on.
    For each number of labels at which one more error becomes tolerable: the chance of so few, if the
    confidences are true on average. What follows from the confidences alone costs nothing: the tests may
    begin wherever they say, and need not be made at all.
    Raises DataError on numbers outside their ranges.

    >>> prospect([0.99] * 40).chance > 0.7, prospect([0.9] * 40).chance < 0.1, prospect([0.99] * 10).chance
    (True, True, 0.0)
    """
    p, _ = paired(confidence, np.zeros(np.size(confidence), dtype=np.bool_), empty=True)
    enough = least_trials(risk, delta, p.size)[:_MOST_STARTS]
    if not enough.size:
        return Prospect(0, 0.0)
    error = 1.0 - np.cumsum(np.sort(p)[::-1]) / np.arange(1, p.size + 1)
    chances = [
        float(lower_tail(tolerable, int(k), float(np.clip(error[k - 1], 0.0, 1.0))))
        for tolerable, k in enumerate(enough)
    ]
    best = int(np.argmax(chances))
    return Prospect(int(enough[best]), chances[best])


def labels_needed(
    true_error: float,
    risk: float = 0.1,
    delta: float = 0.1,
    *,
    power: float = 0.8,
    limit: int = 200_000,
) -> int | None:
    """How many accepted labels it takes until one test passes with probability `power`.

    true_error: the true share of errors among accepted ones, in [0, 1].
    Counts labels above the threshold only: where a third of all suggestions lies above it, three times as
    many have to be labelled. None where more than `limit` would be needed, as always with true_error >= risk.
    Raises DataError on numbers outside their ranges.

    >>> [labels_needed(error) for error in (0.0, 0.02, 0.05, 0.08, 0.1)]
    [22, 38, 128, 932, None]
    """
    if not 0.0 <= true_error <= 1.0 or not 0.0 < power < 1.0:
        raise DataError("The true error must lie in [0, 1], and the power strictly between 0 and 1.")
    least_trials(risk, delta, 1)  # checks the two
    if true_error >= risk:
        return None
    horizon = min(256, limit)
    start = 0
    while True:
        enough = least_trials(risk, delta, horizon)
        for tolerable in range(start, enough.size):
            if lower_tail(tolerable, int(enough[tolerable]), true_error) >= power:
                return int(enough[tolerable])
        if horizon >= limit:
            return None
        start, horizon = enough.size, min(4 * horizon, limit)


@attrs.frozen
class Power:
    """A row of `power_table`: labels needed at each power (None: more than 200,000)."""

    true_error: float
    labels: tuple[int | None, ...]


def power_table(
    true_errors: Sequence[float] = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.08, 0.09),
    risk: float = 0.1,
    delta: float = 0.1,
    *,
    powers: Sequence[float] = (0.5, 0.8, 0.95),
) -> tuple[Power, ...]:
    """For each true error among accepted ones: `labels_needed` at each power.

    At risk = delta = 0.1, accepted labels until one test passes with probability 0.5, 0.8 and 0.95:

    >>> for row in power_table():
    ...     print(f"{row.true_error:.2f}", *(f"{labels:5d}" for labels in row.labels))
    0.00    22    22    22
    0.01    22    22    52
    0.02    22    38    65
    0.03    22    65   104
    0.05    52   128   233
    0.07   152   390   739
    0.08   357   932  1745
    0.09  1440  3905  7354

    For a calibrated score with density 2x, of which 37 % could be accepted at this risk, `certify` finds a
    threshold in 6, 54, 71, 89 and 99 % of simulated data sets of 50, 200, 400, 1000 and 2000 labels; it
    accepts on average 3, 12, 16, 25 and 31 % of all.
    Raises DataError as `labels_needed` does.
    """
    return tuple(
        Power(error, tuple(labels_needed(error, risk, delta, power=power) for power in powers))
        for error in true_errors
    )


def _no_promise(reason: str, n: int, risk: float, delta: float) -> Certificate:
    return Certificate(threshold=None, reason=reason, n=n, accepted=0, errors=0, risk=risk, delta=delta)
