"""Figures of confidences: reliability, raw over rescaled, ROC, AUC beside other scores, correlations, risk by
coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.reliability import (
    LEVEL,
    ReliabilityBin,
    ReliabilityData,
    RiskCoverage,
    wilson_interval,
)
from lsp_calib.errors import DataError
from lsp_calib.evaluation.figures.theme import (
    LIGHT,
    LINES,
    Theme,
    head,
    label_axes,
    legend_below,
    new_figure,
    one_panel,
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
    Upper panel: the number of items in each bin.
    note: additional text under the title, such as "skill 0.12, ECE 0.04".
    Source: Spiess et al. 2024, Figures 5 and 6; Virk et al. 2024, Figures 4 and 5 (frequencies above);
    Brocker & Smith 2007 (the band).
    """
    figure, above, axes = two_panels(theme, 4.6, 5.4)
    draw_bins(above, axes, theme, data)
    label_axes(axes, theme, "confidence", "share correct")
    head(above, theme, title, f"n = {data.n:,}, {data.n_correct:,} correct", note)
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
        label=f"range if calibrated ({LEVEL:.0%})".replace("%", " %"),
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
        label=f"{len(x)} quantiles, {LEVEL:.0%} interval".replace("%", " %"),
    )


def _middle(item: ReliabilityBin) -> float:
    return (item.lower + item.upper) / 2


def _width(item: ReliabilityBin) -> float:
    # A bin by mass may hold a single value; it is drawn anyway.
    return max(item.upper - item.lower, 0.004)


def _count(n: int) -> str:
    """A count that fits a bar.

    >>> [_count(n) for n in (7, 12345, 123456, 2500000)]
    ['7', '12,345', '123k', '2.5M']
    """
    if n < 100_000:
        return f"{n:,}"
    return f"{n / 1e3:.0f}k" if n < 1_000_000 else f"{n / 1e6:.1f}M"


MARKS = (0.1, 0.3, 0.7, 0.9)
"""The confidences at which Spiess et al. sketch other actions."""


def draw_raw_over_rescaled(
    raw: ReliabilityData,
    rescaled: ReliabilityData,
    theme: Theme = LIGHT,
    *,
    title: str | None = None,
    notes: tuple[str, str] = ("", ""),
) -> Figure:
    """Two reliability diagrams of the same answers, the raw confidence above the rescaled one.

    Bars with n at their foot, quantile points with intervals, and the number of answers by confidence.
    notes: of each, such as "skill -0.62".
    Source: Spiess et al. 2024, Figures 5 and 6; Virk et al. 2024, Figures 4 and 5.
    """
    figure = new_figure(theme, 4.6, 8.6)
    # The panels' places are known; to find them takes as long as to draw them.
    figure.set_layout_engine("none")
    places = {"left": 0.14, "right": 0.965, "top": 0.925, "bottom": 0.125, "hspace": 0.25}
    panels = figure.subplots(4, 1, sharex=True, height_ratios=(1, 4, 1, 4), gridspec_kw=places)
    for at, (name, data) in enumerate((("raw", raw), ("rescaled", rescaled))):
        above, axes = panels[2 * at], panels[2 * at + 1]
        for one in (above, axes):
            style_axes(one, theme)
        draw_bins(above, axes, theme, data)
        label_axes(axes, theme, "confidence" if at else None, "share correct")
        words = f"{name}: n = {data.n:,}, {data.n_correct:,} correct"
        head(above, theme, None if at else title, words, notes[at])
    legend_below(figure, panels[1], theme)
    return figure


@attrs.frozen(eq=False)
class Roc:
    """A ROC curve: false and true positive rates, ascending, with the thresholds; arrays of shape (k,)."""

    false: FloatArray
    true: FloatArray
    thresholds: FloatArray
    auc: float


def draw_roc(
    curves: Mapping[str, Roc], theme: Theme = LIGHT, *, title: str | None = None, note: str = ""
) -> Figure:
    """ROC curves, with the points at which answers from a confidence in MARKS on are accepted.

    curves: one to four, by name. Source: Spiess et al. 2024, Figure 5d; Virk et al. 2024, Figure 3.
    Raises DataError also for no curve or too many.
    """
    styles = [(color, line) for line in LINES[:2] for color in (theme.first, theme.second)]
    if not 1 <= len(curves) <= len(styles):
        raise DataError(f"A figure shows 1 to {len(styles)} ROC curves, not {len(curves)}.")
    figure, axes = one_panel(theme, 5.0, 5.4)
    axes.plot([0, 1], [0, 1], color=theme.muted, linewidth=0.9, linestyle=LINES[1], label="no ranking")
    shown: list[tuple[float, float]] = []
    for (name, curve), (color, line) in zip(curves.items(), styles, strict=False):
        label = f"{name}: AUC {curve.auc:.2f}"
        axes.plot(curve.false, curve.true, color=color, linestyle=line, linewidth=1.5, label=label)
        for mark in MARKS:
            at = int(np.count_nonzero(curve.thresholds >= mark)) - 1
            point = float(curve.false[at]), float(curve.true[at])
            if _is_free(point, shown):
                shown.append(point)
                x, y = point
                axes.plot(x, y, marker="o", markersize=4, color=color)
                small_text(axes, theme, x + 0.012, y - 0.012, f"{mark:g}", ha="left", va="top")
    ticks = np.arange(6) / 5
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), xticks=ticks, yticks=ticks, aspect="equal")
    label_axes(axes, theme, "wrong answers accepted (share)", "right answers accepted (share)")
    head(axes, theme, title, note)
    legend_below(figure, axes, theme, columns=1)
    return figure


def draw_against_auc(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    theme: Theme = LIGHT,
    *,
    title: str | None = None,
) -> Figure:
    """Scores against AUC, a panel for each score.

    panels: by the name of the score, the (AUC, score) points of up to two series, by name.
    Source: Spiess et al. 2024, Figure 8.
    """
    figure = new_figure(theme, 7.6, 4.2)
    for at, (axes, (score, series)) in enumerate(
        zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True)
    ):
        style_axes(axes, theme)
        looks = ((theme.first, "o"), (theme.second, "D"))
        for (name, points), (color, marker) in zip(series.items(), looks, strict=False):
            x, y = [a for a, _ in points], [b for _, b in points]
            axes.plot(x, y, color=color, marker=marker, markersize=4, linestyle="none", alpha=0.8, label=name)
        label_axes(axes, theme, "AUC", score)
        head(axes, theme, title if at == 0 else None)
        if at == 0:
            legend_below(figure, axes, theme)
    return figure


def draw_correlations(
    names: Sequence[str],
    values: Mapping[tuple[str, str], float],
    theme: Theme = LIGHT,
    *,
    title: str | None = None,
    note: str = "",
) -> Figure:
    """Rank correlations of measures, pair by pair. values: by pair, in [-1, 1]; pairs may be missing."""
    from matplotlib.colors import LinearSegmentedColormap

    k = len(names)
    matrix = np.full((k, k), np.nan)
    for i, a in enumerate(names):
        for j, b in enumerate(names[:i]):
            matrix[i, j] = values.get((a, b), values.get((b, a), np.nan))
    figure, axes = one_panel(theme, 1.9 + 0.62 * k, 1.7 + 0.5 * k)
    axes.grid(visible=False)
    colours = LinearSegmentedColormap.from_list("signed", [theme.second, theme.paper, theme.first])
    axes.imshow(matrix[1:, :-1], cmap=colours, vmin=-1.0, vmax=1.0, aspect="auto", alpha=0.75)
    for i in range(1, k):
        for j in range(i):
            if np.isfinite(matrix[i, j]):
                small_text(axes, theme, j, i - 1, f"{matrix[i, j]:+.2f}", va="center")
    axes.set_xticks(range(k - 1), names[:-1], rotation=35, ha="right")
    axes.set_yticks(range(k - 1), names[1:])
    for spine in axes.spines.values():
        spine.set_visible(False)
    head(axes, theme, title, note)
    return figure


def _is_free(point: tuple[float, float], shown: Sequence[tuple[float, float]]) -> bool:
    """Whether a mark can be read there: not at an end of the curve, nor on another mark."""
    x, y = point
    inside = 0.01 < x < 0.97 and 0.01 < y < 0.99
    return inside and all(abs(x - a) > 0.07 or abs(y - b) > 0.045 for a, b in shown)


# More points than a printed line can show.
_POINTS = 1000


def draw_risk_coverage(
    data: RiskCoverage,
    theme: Theme = LIGHT,
    *,
    marks: Mapping[str, float] | None = None,
    title: str | None = None,
    note: str = "",
) -> Figure:
    """The error rate among accepted answers against the share accepted, as the threshold falls.

    Also drawn: the curves of a perfect and of a random ranking, and a pointwise Wilson interval of 95 %. It
    is wide at the left end, where only a few answers are accepted.
    marks: thresholds to show on the curve, by name, as {"accept": 0.86}.
    Source: Geifman & El-Yaniv 2017.
    """
    figure, axes = one_panel(theme, 5.0, 4.4)
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
    # The first few accepted answers may all be wrong; they say little and would flatten the rest.
    settled = curve[coverage * data.n >= 20]
    top = min(1.0, 1.25 * max(error, float(settled.max()) if settled.size else 1.0, 0.02))
    axes.set(xlim=(0, 1), ylim=(0, top), xticks=np.arange(6) / 5)
    for name, threshold in (marks or {}).items():
        _mark_threshold(axes, theme, data, name, threshold)
    label_axes(axes, theme, "coverage: share of answers accepted", "risk: share wrong among them")
    head(axes, theme, title, f"n = {data.n:,}, area {data.area:.3f}, excess {data.excess_area:.3f}", note)
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
