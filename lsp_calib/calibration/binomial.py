"""Exact binomial tails, and the number of trials at which so few errors become significant."""

from __future__ import annotations

import bisect
import functools
import math

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import FloatArray, IntArray
from lsp_calib.errors import DataError


def lower_tail(successes: npt.ArrayLike, trials: npt.ArrayLike, rate: float) -> FloatArray:
    """Probability of at most `successes` successes: the exact p-value of "the rate is at least `rate`".

    successes, trials: whole numbers, broadcast to one shape. rate: in [0, 1].
    Returns a float array of that shape. The largest term is computed from its logarithm and the others from
    it, each tail from its heavy end: no underflow, and small tails keep their relative precision.
    Raises DataError if successes or trials are no whole numbers, trials are negative, or the rate is no
    probability.

    >>> round(float(lower_tail(0, 22, 0.1)), 4), round(float(lower_tail(1, 38, 0.1)), 4)
    (0.0985, 0.0953)
    """
    k, n = np.broadcast_arrays(np.asarray(successes), np.asarray(trials))
    if not (np.issubdtype(k.dtype, np.integer) and np.issubdtype(n.dtype, np.integer)) or np.any(n < 0):
        raise DataError("A binomial tail needs whole numbers of successes and of trials.")
    if not 0.0 <= rate <= 1.0:
        raise DataError(f"The rate must lie in [0, 1], not {rate}.")
    tails = [_tail(int(a), int(b), rate) for a, b in zip(k.ravel(), n.ravel(), strict=True)]
    return np.array(tails, dtype=np.float64).reshape(k.shape)


def _tail(k: int, n: int, rate: float) -> float:
    if k < 0:
        return 0.0
    if k >= n or rate == 0.0:
        return 1.0
    if rate == 1.0:
        return 0.0
    if k > n * rate:
        return 1.0 - _tail_from_heavy_end(n - k - 1, n, 1.0 - rate, rate)
    return _tail_from_heavy_end(k, n, rate, 1.0 - rate)


def _tail_from_heavy_end(k: int, n: int, p: float, q: float) -> float:
    """P(X <= k) for success probability p = 1 - q and k up to the mean, summed from the largest term down."""
    log_p, log_q = (math.log1p(-b) if b < 0.5 else math.log(a) for a, b in ((p, q), (q, p)))
    log_term = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q
    # Beyond 50 standard deviations nothing is left to add.
    count = min(k, 50 + int(50 * math.sqrt(n * p * q)))
    j = np.arange(k, k - count, -1, dtype=np.float64)
    ratios = j / (n - j + 1.0) * (q / p)
    return min(math.exp(log_term) * (1.0 + float(np.sum(np.cumprod(ratios)))), 1.0)


@functools.lru_cache(maxsize=32)
def _least_trials(rate: float, delta: float, limit: int) -> tuple[int, ...]:
    n = _fewest(rate, delta)
    odds = rate / (1.0 - rate)
    errors, term = 0, math.exp(n * math.log1p(-rate))
    tail = term
    found = []
    # Walk along the edge of the rejection region: one more error, then trials until it is tolerable again.
    while n <= limit:
        found.append(n)
        term *= (n - errors) / (errors + 1) * odds
        errors += 1
        tail += term
        while tail > delta and n <= limit:
            tail -= rate * term
            n += 1
            term *= n / (n - errors) * (1.0 - rate)
    return tuple(found)


def least_trials(rate: float, delta: float, limit: int) -> IntArray:
    """For 0, 1, 2 ... errors: the fewest trials in which so few refute "the rate is at least `rate`".

    rate, delta: in (0, 1); refuted where the exact p-value is at most delta.
    limit: the largest number of trials considered. Returns an int array, strictly ascending, of the entries
    up to `limit`; empty if even no error at all is not enough. The first, n with (1 - rate)^n <= delta, is
    the fewest labels with any power.
    Raises DataError if rate or delta is not strictly between 0 and 1.

    >>> least_trials(0.1, 0.1, 100).tolist()
    [22, 38, 52, 65, 78, 91]
    >>> int(least_trials(0.05, 0.05, 100)[0])
    59
    """
    _check(rate, delta)
    return np.array(_least_trials(float(rate), float(delta), int(limit)), dtype=np.intp)


def least_rate(successes: int, trials: int, level: float = 0.95) -> float:
    """The one-sided exact lower bound of a rate (Clopper & Pearson 1934); 0 without a success.

    The largest rate at which so many successes or more have a probability of at most 1 - level.
    Raises DataError as `lower_tail` does, or if successes exceed trials.

    >>> round(least_rate(22, 22, 0.9), 3), round(least_rate(90, 100), 3)
    (0.901, 0.836)
    """
    if not 0 <= successes <= trials or not 0.0 < level < 1.0:
        raise DataError(f"There is no bound for {successes} of {trials} at level {level}.")
    if successes == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        # 1 - this is the probability of at least so many successes.
        if lower_tail(successes - 1, trials, middle) >= level:
            low = middle
        else:
            high = middle
    return low


def central_range(trials: int, rate: float, level: float = 0.95) -> tuple[int, int]:
    """The range of successes to expect of a rate: fewer have a probability of at most (1 - level) / 2, and so
    have more.

    Raises DataError as `lower_tail` does, or unless 0 < level < 1.

    >>> central_range(100, 0.8), central_range(3, 0.5)
    ((72, 88), (0, 3))
    """
    if not 0.0 < level < 1.0:
        raise DataError(f"The level must lie strictly between 0 and 1, not {level}.")
    tail = (1.0 - level) / 2.0
    return _quantile(trials, rate, tail), _quantile(trials, rate, 1.0 - tail)


def _quantile(trials: int, rate: float, probability: float) -> int:
    """The least number of successes that has at most so many with at least this probability."""
    return bisect.bisect_left(range(trials), probability, key=lambda n: float(lower_tail(n, trials, rate)))


def fewest_labels(risk: float = 0.1, delta: float = 0.1) -> int:
    """The fewest accepted labels that can certify anything: the least k with (1 - risk)^k <= delta.

    Raises DataError if risk or delta is not strictly between 0 and 1.

    >>> fewest_labels(0.1, 0.1), fewest_labels(0.05, 0.05), fewest_labels(0.2, 0.2)
    (22, 59, 8)
    """
    _check(risk, delta)
    return _fewest(risk, delta)


def _fewest(rate: float, delta: float) -> int:
    n = max(1, math.ceil(math.log(delta) / math.log1p(-rate)) - 1)
    while _tail(0, n, rate) > delta:
        n += 1
    return n


def _check(rate: float, delta: float) -> None:
    for name, value in (("risk", rate), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise DataError(f"{name} must lie strictly between 0 and 1, not {value}.")
