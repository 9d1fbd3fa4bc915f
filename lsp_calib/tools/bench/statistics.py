"""Percentiles and ratios with intervals, and the least number of tokens that had to be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from lsp_calib.inference.generation.kv_cache import common_prefix

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


def spread_of(readings: Sequence[float]) -> dict[str, Any] | None:
    """p50 and p95 of n readings in the order they were taken, as JSON; None if there are none."""
    if not len(readings):
        return None
    both = {f"p{percent}": interval(percentile(readings, percent)) for percent in (50, 95)}
    return {**both, "n": len(readings)}


def interval(value: Value | None) -> list[float | None] | None:
    """A value as JSON: [estimate, lower bound, upper bound]."""
    if value is None:
        return None
    return [None if one is None else round(one, 3) for one in (value.value, value.low, value.high)]


def percentile(readings: Sequence[float], percent: float) -> Value | None:
    """A percentile of readings in the order they were taken; None if there are none."""
    if not len(readings):
        return None
    values = np.asarray(readings, dtype=np.float64)
    return _estimate(values, lambda rows: np.percentile(rows, percent, axis=-1))


def median_ratio(pairs: Sequence[tuple[float, float]]) -> Value | None:
    """Median of a / b over pairs (a, b) in the order they were taken; None without a positive b."""
    return percentile([a / b for a, b in pairs if b > 0], 50)


def ratio_of_percentiles(pairs: Sequence[tuple[float, float]], percent: float) -> Value | None:
    """Percentile of all a divided by that of all b; pairs are resampled together. None if it is undefined."""
    both = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    if not len(both) or np.percentile(both[:, 1], percent) <= 0:
        return None

    def ratio(rows: Floats) -> Floats:
        high, low = np.moveaxis(np.percentile(rows, percent, axis=-2), -1, 0)
        found: Floats = high / np.maximum(low, np.finfo(np.float64).tiny)
        return found

    return _estimate(both, ratio)


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


def _estimate(values: Floats, statistic: Callable[[Floats], Floats]) -> Value:
    """values: the readings along the first axis."""
    value = float(statistic(values))
    if len(values) < 3:
        return Value(value, None, None)
    drawn = statistic(values[resamples(len(values), np.random.default_rng(_SEED))])
    low, high = np.percentile(drawn, [(100 - _LEVEL) / 2, (100 + _LEVEL) / 2])
    return Value(value, float(low), float(high))
