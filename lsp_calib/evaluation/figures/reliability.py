"""Reliability diagrams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_calib.calibration.reliability import ReliabilityBin, ReliabilityData
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
    two_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_reliability(
    data: ReliabilityData, theme: Theme = LIGHT, *, title: str | None = None, note: str = ""
) -> Figure:
    """A reliability diagram: how often answers are right, by how sure the model was.

    Bars: the share correct of each bin, with its n at the bottom. Grey: the range of that share if the
    confidences were calibrated, around the bin's mean confidence. Points: the quantile points with intervals.
    Upper panel, for bins of equal width: the number of items in each bin.
    note: additional text under the title, such as "skill 0.12, ECE 0.04".
    Source: Spiess et al. 2024, Figures 5 and 6; Virk et al. 2024, Figures 4 and 5 (frequencies above);
    Brocker & Smith 2007 (the band).
    """
    figure = new_figure(theme, 4.6, 5.4)
    if data.strategy == "width":
        above, axes = two_panels(figure, theme)
        top = above
    else:
        above, axes = None, figure.subplots()
        top = axes
        style_axes(axes, theme)
    draw_bins(above, axes, theme, data)
    label_axes(axes, theme, "confidence", "share correct")
    counted = f"n = {data.n:,}, {data.n_correct:,} correct"
    head(top, theme, title, f"{counted} · {note}" if note else counted)
    legend_below(figure, axes, theme)
    return figure


def draw_bins(above: Axes | None, axes: Axes, theme: Theme, data: ReliabilityData) -> None:
    """The diagram in its axes, and the number of items of each bin in those above."""
    if above is not None:
        above.bar(
            [_middle(item) for item in data.bins],
            [item.n for item in data.bins],
            [_width(item) for item in data.bins],
            color=theme.band,
            edgecolor=theme.paper,
            linewidth=0.8,
        )
        label_axes(above, theme, None, "items")
    axes.plot([0, 1], [0, 1], color=theme.muted, linewidth=0.9, linestyle=LINES[1], label="calibrated")
    _bars(axes, theme, [item for item in data.bins if item.n])
    _band(axes, theme, data)
    _points(axes, theme, data)
    for item in data.bins:
        if item.n:
            small_text(
                axes, theme, _middle(item), 0.012, _count(item.n), rotation=90 if len(data.bins) > 10 else 0
            )
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=np.arange(6) / 5, yticks=np.arange(6) / 5)


def _bars(axes: Axes, theme: Theme, filled: Sequence[ReliabilityBin]) -> None:
    axes.bar(
        [_middle(item) for item in filled],
        [item.accuracy or 0.0 for item in filled],
        [_width(item) for item in filled],
        color=theme.fill,
        edgecolor=theme.first,
        linewidth=0.8,
        label="share correct, n at the foot",
    )


def _band(axes: Axes, theme: Theme, data: ReliabilityData) -> None:
    """A box for each bin, narrower than the bar behind it, with a line at the mean confidence."""
    filled = [item for item in data.bins if item.n]
    low = np.array([item.band_low or 0.0 for item in filled])
    high = np.array([1.0 if item.band_high is None else item.band_high for item in filled])
    middle = np.array([_middle(item) for item in filled])
    width = np.array([0.5 * _width(item) for item in filled])
    axes.bar(
        middle,
        high - low,
        width,
        low,
        color=(theme.band, 0.45),
        edgecolor=theme.muted,
        linewidth=0.6,
        label=f"range if calibrated ({data.level:.0%})".replace("%", " %"),
    )
    means = [item.confidence or 0.0 for item in filled]
    axes.hlines(means, middle - width / 2, middle + width / 2, color=theme.muted, linewidth=1.0)


def _points(axes: Axes, theme: Theme, data: ReliabilityData) -> None:
    if not data.points:
        return
    x = [item.confidence or 0.0 for item in data.points]
    y = np.array([item.accuracy or 0.0 for item in data.points])
    spread = [
        y - [item.low if item.low is not None else 0.0 for item in data.points],
        [item.high if item.high is not None else 1.0 for item in data.points] - y,
    ]
    axes.errorbar(
        x,
        y,
        np.maximum(spread, 0.0),
        color=theme.second,
        marker="o",
        markersize=4,
        linewidth=1.2,
        elinewidth=1.0,
        capsize=2,
        zorder=5,
        label=f"{len(x)} quantiles, {data.level:.0%} interval".replace("%", " %"),
    )


def _middle(item: ReliabilityBin) -> float:
    return ((item.lower or 0.0) + (item.upper or 0.0)) / 2


def _width(item: ReliabilityBin) -> float:
    # A bin by mass may hold a single value; it is drawn anyway.
    return max((item.upper or 0.0) - (item.lower or 0.0), 0.004)


def _count(n: int) -> str:
    """A count that fits a bar.

    >>> [_count(n) for n in (7, 12345, 123456, 2500000)]
    ['7', '12,345', '123k', '2.5M']
    """
    if n < 100_000:
        return f"{n:,}"
    return f"{n / 1e3:.0f}k" if n < 1_000_000 else f"{n / 1e6:.1f}M"
