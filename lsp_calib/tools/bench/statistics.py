"""Percentiles and ratios with intervals, and the least number of tokens that had to be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

_DRAWS = 2000
_LEVEL = 95.0
_SEED = 0

Floats = NDArray[np.float64]


@attrs.frozen
class Value:
    """An estimate with the bounds of its 95 % bootstrap interval; no bounds for fewer than 3 readings."""

    value: float
    low: float | None
    high: float | None

    def to_json(self) -> list[float | None]:
        """[estimate, lower bound, upper bound]"""
        return [None if one is None else round(one, 3) for one in (self.value, self.low, self.high)]


@attrs.frozen
class Spread:
    """Median and 95th percentile of n readings."""

    p50: Value
    p95: Value
    n: int

    def to_json(self) -> dict[str, Any]:
        return {"p50": self.p50.to_json(), "p95": self.p95.to_json(), "n": self.n}


def spread(readings: Sequence[float]) -> Spread | None:
    """p50 and p95 of readings in the order they were taken; None if there are none."""
    if not readings:
        return None
    values = np.asarray(readings, dtype=np.float64)
    return Spread(
        _estimate(values, lambda rows: np.percentile(rows, 50, axis=-1)),
        _estimate(values, lambda rows: np.percentile(rows, 95, axis=-1)),
        len(readings),
    )


def spread_of(readings: Sequence[float]) -> dict[str, Any] | None:
    """`spread` as JSON."""
    found = spread(readings)
    return found.to_json() if found else None


def interval(value: Value | None) -> list[float | None] | None:
    """A value as JSON: [estimate, lower bound, upper bound]."""
    return value.to_json() if value else None


def median_ratio(pairs: Sequence[tuple[float, float]]) -> Value | None:
    """Median of a / b over pairs (a, b) in the order they were taken; None without a positive b."""
    return median_of([a / b for a, b in pairs if b > 0])


def median_of(readings: Sequence[float]) -> Value | None:
    """Median of readings in the order they were taken; None if there are none."""
    if not readings:
        return None
    values = np.asarray(readings, dtype=np.float64)
    return _estimate(values, lambda rows: np.median(rows, axis=-1))


def ratio_of_percentiles(pairs: Sequence[tuple[float, float]], percent: float) -> Value | None:
    """Percentile of all a divided by that of all b; pairs are resampled together. None if it is undefined."""
    if not pairs:
        return None
    both = np.asarray(pairs, dtype=np.float64)
    if np.percentile(both[:, 1], percent) <= 0:
        return None

    def ratio(rows: Floats) -> Floats:
        low = np.percentile(rows[..., 1], percent, axis=-1)
        high: Floats = np.percentile(rows[..., 0], percent, axis=-1)
        return high / np.maximum(low, np.finfo(np.float64).tiny)

    return _estimate(both, ratio, axis=-2)


def resamples(n: int, rng: np.random.Generator, draws: int = _DRAWS) -> NDArray[np.int64]:
    """Indices of bootstrap samples of n readings; shape (draws, n).

    Whole runs of consecutive readings are drawn (a circular block bootstrap, runs of about the cube root of
    n): the same causes slow down consecutive keystrokes, so drawing readings one by one would make the
    interval too narrow.
    """
    length = max(round(n ** (1 / 3)), 1)
    starts = rng.integers(0, n, size=(draws, -(-n // length)))
    runs = (starts[:, :, None] + np.arange(length)) % n
    return runs.reshape(draws, -1)[:, :n]


def tokens_needed(before: Sequence[int], after: Sequence[int]) -> int:
    """Number of tokens of `after` outside its longest common subsequence with `before`; at least 1.

    It counts changed tokens at any position. An exact cache reaches this number only if no unchanged tokens
    follow the change; the last token is always evaluated.
    """
    head = common_prefix(before, after)
    matcher = SequenceMatcher(None, before[head:], after[head:], autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return max(len(after) - head - same, 1)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _estimate(values: Floats, statistic: Callable[[Floats], Floats], *, axis: int = -1) -> Value:
    n = values.shape[axis]
    value = float(statistic(values))
    if n < 3:
        return Value(value, None, None)
    low, high = _bounds(statistic(values[resamples(n, np.random.default_rng(_SEED))]))
    return Value(value, low, high)


def _bounds(drawn: Floats) -> tuple[float, float]:
    low, high = np.percentile(drawn, [(100 - _LEVEL) / 2, (100 + _LEVEL) / 2])
    return float(low), float(high)
