"""How the same keys compare in two places: ratios of milliseconds with their intervals, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lsp_calib.tools.bench.report import Floats, Value, estimate, in_words, median_ratio, percentile

Milliseconds = Sequence[tuple[float, float]]


def ratio_of_percentiles(pairs: Milliseconds, percent: float) -> Value | None:
    """Percentile of all a divided by that of all b; pairs are resampled together. None if it is undefined."""
    both = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    if not len(both) or np.percentile(both[:, 1], percent) <= 0:
        return None

    def ratio(rows: Floats) -> Floats:
        high, low = np.moveaxis(np.percentile(rows, percent, axis=-2), -1, 0)
        found: Floats = high / np.maximum(low, np.finfo(np.float64).tiny)
        return found

    return estimate(both, ratio)


def ratios(pairs: Milliseconds) -> dict[str, Any]:
    """The first times of the pairs over the second ones, as JSON."""
    return {
        "n": len(pairs),
        "oursMs": percentile([ours for ours, _ in pairs], 50),
        "theirsMs": percentile([theirs for _, theirs in pairs], 50),
        "p50Ratio": ratio_of_percentiles(pairs, 50),
        "p95Ratio": ratio_of_percentiles(pairs, 95),
        "medianOfRatios": median_ratio(pairs),
        "worstRatio": round(max(ours / theirs for ours, theirs in pairs), 3) if pairs else None,
    }


def words(found: dict[str, Any]) -> str:
    """The figures of `ratios` in a line."""
    if not found["n"]:
        return "no pair did the same work"
    ours, theirs = (in_words(found[name]).replace("\\", "") for name in ("oursMs", "theirsMs"))
    middle, p50, p95 = (
        in_words(found[f"{n}"], 3).replace("\\", "") for n in ("medianOfRatios", "p50Ratio", "p95Ratio")
    )
    return (
        f"median of ratios {middle}, p50 {ours} and {theirs} ms, ratio {p50}, p95 ratio {p95}, worst "
        f"{found['worstRatio']:.2f} ({found['n']} pairs)"
    )
