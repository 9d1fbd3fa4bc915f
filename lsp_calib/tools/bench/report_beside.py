"""The result of `lsp-calib bench --beside` as JSON: how much slower beside other work, and how long."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from lsp_calib.tools.bench.statistics import (
    interval,
    median_of,
    median_ratio,
    ratio_of_percentiles,
    spread_of,
)
from lsp_calib.tools.bench.under_load import Asked, Beside, How, Run

FIRST = 10
BACK = 1.1
"""Latency counts as recovered at this ratio to that of the quiet machine."""
# Number of consecutive readings that show the recovery.
_IN_A_ROW = 5
_WINDOWS = ((0.0, 5.0), (5.0, 10.0))


def beside(measured: Beside | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    runs = {run.how: run for run in measured.runs}
    return {
        "processes": measured.processes,
        "sharedBySession": measured.by_session,
        "keys": measured.keys,
        "generated": spread_of([float(one.generated) for one in measured.quiet]),
        "evaluated": spread_of([float(one.evaluated) for one in measured.quiet]),
        "quietMs": spread_of([one.ms for one in measured.quiet]),
        **{how.value: _run(measured.quiet, runs[how]) if how in runs else None for how in How},
    }


def _run(quiet: Sequence[Asked], run: Run) -> dict[str, Any]:
    # Each phase types the same keys in the same order; a stopped run has fewer of them.
    both = list(zip(run.readings, quiet, strict=False))
    pairs = [(one.ms, other.ms) for one, other in both if one.same_work(other)]
    first = [(one.ms, other.ms) for one, other in both[:FIRST] if one.same_work(other)]
    return {
        "besideMs": spread_of([one.ms for one in run.readings]),
        **ratios(pairs),
        "unequal": len(both) - len(pairs),
        "first": ratios(first),
        "busyShare": None if run.share is None else round(run.share, 3),
        "sameSession": run.same_session,
        "after": after(quiet, run.after),
    }


def ratios(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """pairs: milliseconds beside busy processes and without, of the same work."""
    return {
        "n": len(pairs),
        "p50Ratio": interval(ratio_of_percentiles(pairs, 50)),
        "p95Ratio": interval(ratio_of_percentiles(pairs, 95)),
        "medianOfRatios": interval(median_ratio(pairs)),
        "worstRatio": round(max(a / b for a, b in pairs), 3) if pairs else None,
    }


def after(quiet: Sequence[Asked], readings: Sequence[Asked]) -> dict[str, Any] | None:
    """The readings after the busy processes ended, relative to the same keys on the quiet machine.

    None without readings.
    """
    found = over_usual(quiet, readings)
    if not found:
        return None
    windows = {
        f"seconds{low:.0f}To{high:.0f}": {
            "n": len(inside := [ratio for at, ratio in found if low <= at < high]),
            "medianOfRatios": interval(median_of(inside)),
        }
        for low, high in _WINDOWS
    }
    return {**windows, "backAfterS": back_after(found)}


def over_usual(quiet: Sequence[Asked], readings: Sequence[Asked]) -> list[tuple[float, float]]:
    """(seconds, ratio) of each reading to the median of the quiet readings of the same key and work."""
    found = []
    for one in readings:
        usual = [other.ms for other in quiet if other.same_work(one)]
        if usual:
            found.append((one.at, one.ms / statistics.median(usual)))
    return found


def back_after(found: Sequence[tuple[float, float]]) -> float | None:
    """Seconds until the first of five ratios in a row whose median is at most 1.1; None if there is none."""
    for at in range(len(found) - _IN_A_ROW + 1):
        if statistics.median(ratio for _, ratio in found[at : at + _IN_A_ROW]) <= BACK:
            return round(found[at][0], 2)
    return None
