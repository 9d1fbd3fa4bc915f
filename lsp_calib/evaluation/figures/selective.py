"""The risk-coverage figure: the error rate if only the most confident answers are accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lsp_calib.calibration.reliability import RiskCoverage, wilson_interval
from lsp_calib.evaluation.figures.theme import (
    LIGHT,
    LINES,
    Theme,
    head,
    label_axes,
    legend_below,
    new_figure,
    small_text,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More points than a printed line can show.
_POINTS = 1000


def draw_risk_coverage(
    data: RiskCoverage,
    theme: Theme = LIGHT,
    *,
    marks: Mapping[str, float] | None = None,
    risk: float | None = None,
    title: str | None = None,
    note: str = "",
) -> Figure:
    """The error rate among accepted answers against the share accepted, as the threshold falls.

    Also drawn: the curves of a perfect and of a random ranking, and a pointwise Wilson interval of 95 %. It
    is wide at the left end, where only a few answers are accepted.
    marks: thresholds to show on the curve, by name, as {"accept": 0.86}. risk: a target risk, as a line.
    Source: Geifman & El-Yaniv 2017.
    """
    figure = new_figure(theme, 5.0, 4.4)
    axes = figure.subplots()
    style_axes(axes, theme)
    wrong = np.concatenate([[0.0], data.coverage * data.risk])
    reached = np.concatenate([[0.0], data.coverage])
    error = float(data.risk[-1])
    # Items of equal confidence are accepted in random order: errors grow linearly between the points.
    coverage = np.linspace(float(data.coverage[0]), 1.0, _POINTS)
    if data.coverage.size < _POINTS:
        coverage = np.unique(np.concatenate([coverage, data.coverage]))
    curve = np.interp(coverage, reached, wrong) / coverage
    at = np.linspace(float(data.coverage[0]), 1.0, 150)
    bounds = np.array([_wilson(c * data.n, float(np.interp(c, reached, wrong)) * data.n) for c in at])
    axes.fill_between(
        at, bounds[:, 0], bounds[:, 1], color=theme.fill, alpha=0.6, lw=0, label="95 % interval"
    )
    axes.plot(coverage, curve, color=theme.first, linewidth=1.6, label="by confidence")
    axes.axhline(error, color=theme.muted, linewidth=1.0, linestyle=LINES[1], label="no ranking")
    grid = np.linspace(1e-3, 1.0, 400)
    axes.plot(
        grid,
        np.maximum(grid - (1.0 - error), 0.0) / grid,
        color=theme.muted,
        linewidth=1.0,
        linestyle=LINES[2],
        label="perfect ranking",
    )
    if risk is not None:
        axes.axhline(
            risk, color=theme.second, linewidth=1.0, linestyle=LINES[1], label=f"target risk {risk:g}"
        )
    # The first few accepted answers may all be wrong; they say little and would flatten the rest.
    settled = curve[coverage * data.n >= 20]
    top = min(1.0, 1.25 * max(error, float(settled.max()) if settled.size else 1.0, risk or 0.0, 0.02))
    axes.set(xlim=(0, 1), ylim=(0, top), xticks=np.arange(6) / 5)
    for name, threshold in (marks or {}).items():
        _mark_threshold(axes, theme, data, name, threshold)
    label_axes(axes, theme, "coverage: share of answers accepted", "risk: share wrong among them")
    counted = f"n = {data.n:,}, area {data.area:.3f}, excess {data.excess_area:.3f}"
    head(axes, theme, title, f"{counted} · {note}" if note else counted)
    legend_below(figure, axes, theme, columns=3)
    return figure


def _wilson(accepted: float, wrong: float) -> tuple[float, float]:
    n = max(round(accepted), 1)
    return wilson_interval(min(round(wrong), n), n)


def _mark_threshold(axes: Axes, theme: Theme, data: RiskCoverage, name: str, threshold: float) -> None:
    """Mark the point that accepts all items at or above the threshold; no mark if there are no such items."""
    accepted = np.flatnonzero(data.threshold >= threshold)
    if not accepted.size:
        return
    x, y = float(data.coverage[accepted[-1]]), float(data.risk[accepted[-1]])
    axes.plot(x, y, marker="o", color=theme.second, markersize=5, linestyle="none", zorder=5)
    high = axes.get_ylim()[1]
    small_text(axes, theme, x + 0.01, y - 0.025 * high, f"{name} ≥ {threshold:.2f}", va="top", ha="left")
