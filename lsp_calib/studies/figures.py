"""Figures of confidences: reliability, raw over rescaled, ROC, AUC beside other scores, correlations, risk by
coverage; and of what an answer's first and later tokens tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.reliability import LEVEL, ReliabilityBin, ReliabilityData, wilson_interval
from lsp_calib.calibration.validation import Interval
from lsp_calib.errors import DataError
from lsp_calib.studies.calibration_errors import RiskCoverage
from lsp_calib.studies.figures_theme import (
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
from lsp_calib.studies.measures import TokenPositions

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


def draw_bins(above: Axes, axes: Axes, theme: Theme, data: ReliabilityData) -> None:
    """The diagram in its axes, and the number of items of each bin in those above."""
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
    filled = [item for item in data.bins if item.n]
    _bars(axes, theme, filled)
    _band(axes, theme, filled)
    _points(axes, theme, data)
    turned = 90 if len(data.bins) > 10 else 0
    for item in filled:
        small_text(axes, theme, _middle(item), 0.012, _count(item.n), rotation=turned)
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


def _band(axes: Axes, theme: Theme, filled: Sequence[ReliabilityBin]) -> None:
    """A box for each bin, narrower than the bar behind it, with a line at the mean confidence."""
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


def draw_skill_by_t(
    skill: Mapping[str, Sequence[tuple[int | None, float]]],
    lengths: Sequence[int],
    theme: Theme = LIGHT,
    *,
    chosen: Sequence[int | None] = (),
    title: str | None = None,
    note: str = "",
) -> Figure:
    """The skill score of a measure over the first t tokens against t, and the lengths of generations.

    skill: for each measure, by its name in the legend, (t, skill) pairs as `FirstT.skill_by_first` has them;
        None is "all tokens", drawn apart at the right. At most three measures.
    lengths: tokens of each generation. chosen: the t of each fold, marked under the curve.
    Raises DataError also if there is nothing to draw, or for more than three measures.
    Source: Virk et al. 2024, Figure 7. Its caption says arithmetic mean and the text says geometric mean, so
    give both.
    """
    if not 1 <= len(skill) <= len(LINES) or not lengths or not any(skill.values()):
        raise DataError("Skill by t needs one to three measures with values, and lengths.")
    largest = max([t for pairs in skill.values() for t, _ in pairs if t is not None], default=1)
    every = largest + max(2, round(largest * 0.12))
    figure, above, axes = two_panels(theme, 5.4, 4.4)
    _length_bars(above, theme, lengths, largest, every)
    axes.axhline(0.0, color=theme.muted, linewidth=0.9)
    small_text(axes, theme, every + 0.9, 0.0, "base rate", ha="right", color=theme.muted)
    for (name, pairs), color, line in zip(
        skill.items(), (theme.first, theme.second, theme.ink), LINES, strict=False
    ):
        first = [(t, value) for t, value in pairs if t is not None]
        axes.plot(
            [t for t, _ in first],
            [value for _, value in first],
            color=color,
            linestyle=line,
            marker="o",
            markersize=3.5,
            label=name,
        )
        for t, value in pairs:
            if t is None:
                axes.plot(every, value, color=color, marker="D", markersize=4.5, linestyle="none")
    axes.axvspan(every - 1, every + 1, color=theme.grid, alpha=0.5, linewidth=0, zorder=0)
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.1 * (high - low), high)
    times = Counter(every if t is None else t for t in chosen)
    for n, at in enumerate(sorted(times)):
        label = "_nolegend_" if n else "chosen in k folds"
        _mark_choice(axes, theme, at, f"{times[at]}/{len(chosen)}", label)
    ticks = [t for t in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128) if t <= largest]
    axes.set_xticks([*ticks, every], [*map(str, ticks), "all"])
    axes.set_xlim(0.2, every + 1)
    label_axes(axes, theme, "t, number of first tokens that count", "skill score")
    head(above, theme, title, f"n = {len(lengths):,}", note)
    if len(skill) > 1 or chosen:
        legend_below(figure, axes, theme, columns=len(skill) + bool(chosen))
    return figure


def _length_bars(axes: Axes, theme: Theme, lengths: Sequence[int], largest: int, every: int) -> None:
    """How many generations have each length; those longer than every t are counted at "all"."""
    counts = np.bincount(np.minimum(lengths, largest + 1), minlength=largest + 2)
    axes.bar(np.arange(1, largest + 1), counts[1 : largest + 1], 0.85, color=theme.band)
    axes.bar(every, counts[largest + 1], 0.85, color=theme.band)
    if counts[largest + 1]:
        small_text(axes, theme, every, float(counts[largest + 1] + 0.04 * counts.max()), "longer")
    label_axes(axes, theme, None, "generations\nof length t")


def _mark_choice(axes: Axes, theme: Theme, at: int, folds: str, label: str) -> None:
    low, high = axes.get_ylim()
    foot = low + 0.03 * (high - low)
    axes.plot(at, foot, marker="^", color=theme.muted, markersize=5, linestyle="none", label=label)
    small_text(axes, theme, at, foot + 0.025 * (high - low), folds, color=theme.muted)


def draw_token_positions(
    data: TokenPositions, theme: Theme = LIGHT, *, title: str | None = None, note: str = ""
) -> Figure:
    """How probable the model found its own tokens, by their position: mean, median and quartiles.

    Upper panel: how many generations reach the position. Only long ones contribute at the right.
    Source: Virk et al. 2024, Figure 6.
    """
    figure, above, axes = two_panels(theme, 5.4, 4.4)
    from matplotlib.ticker import MaxNLocator

    above.bar(data.position, data.n, 0.85, color=theme.band)
    label_axes(above, theme, None, "generations")
    axes.fill_between(
        data.position, data.low, data.high, color=theme.fill, alpha=0.65, linewidth=0, label="middle half"
    )
    axes.plot(data.position, data.median, color=theme.first, marker="o", markersize=3.5, label="median")
    axes.plot(
        data.position,
        data.mean,
        color=theme.second,
        marker="s",
        markersize=3,
        linestyle=LINES[1],
        label="mean",
    )
    axes.set(ylim=(0, 1.02), xlim=(0.4, float(data.position[-1]) + 0.6))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    label_axes(axes, theme, "token position", "token probability")
    head(above, theme, title, f"n = {int(data.n[0]):,} generations", note)
    legend_below(figure, axes, theme, columns=3)
    return figure


# Inches for a row, and for everything above and below the rows.
_ROW, _REST = 0.4, 1.3
# How far the series of a row stand apart, in rows.
_APART = 0.26


def draw_ablation(
    names: Sequence[str],
    skill: Mapping[str, Sequence[Interval | None]],
    counts: Sequence[int],
    theme: Theme = LIGHT,
    *,
    title: str | None = None,
    note: str = "",
) -> Figure:
    """Skill scores with their intervals, a row for each name, from top to bottom.

    skill: for each series (a model), by its name in the legend, as many intervals as there are names; None
        leaves a row out. At most two series. counts: the items of each.
    Raises DataError also if nothing can be drawn.
    """
    drawn = [
        item for series in skill.values() for item in series if item is not None and item.value is not None
    ]
    fits = all(len(series) == len(names) for series in skill.values()) and len(counts) == len(skill)
    if not drawn or len(skill) > 2 or not fits:
        raise DataError("An ablation needs one or two series with a value for each row.")
    figure, axes = one_panel(theme, 6.8, _REST + _ROW * len(names) * (1.0 if len(skill) == 1 else 1.25))
    axes.grid(visible=False, axis="y")
    apart = _APART if len(skill) == 2 else 0.0
    for at, ((name, series), color, marker) in enumerate(
        zip(skill.items(), (theme.first, theme.second), ("o", "D"), strict=False)
    ):
        known = [
            (row, item) for row, item in enumerate(series) if item is not None and item.value is not None
        ]
        value = np.array([item.value for _, item in known], dtype=np.float64)
        low = np.array([item.value if item.low is None else item.low for _, item in known], dtype=np.float64)
        high = np.array(
            [item.value if item.high is None else item.high for _, item in known], dtype=np.float64
        )
        y = np.array([row for row, _ in known]) + apart * (at - (len(skill) - 1) / 2)
        axes.errorbar(
            value,
            y,
            xerr=np.maximum([value - low, high - value], 0.0),
            color=color,
            marker=marker,
            markersize=4.5,
            linestyle="none",
            elinewidth=1.3,
            capsize=2,
            label=name,
        )
        # The first series' numbers above its dots, the second's below: between the two there is no room.
        side = -1 if at == 0 else 1
        for x, height in zip(value, y, strict=True):
            aligned = "bottom" if at == 0 else "top"
            small_text(
                axes, theme, float(x), float(height) + side * 0.09, f"{x:+.2f}", color=color, va=aligned
            )
    axes.set_yticks(np.arange(len(names)), names)
    axes.tick_params(axis="y", length=0, labelcolor=theme.ink)
    axes.set_ylim(len(names) - 0.5, -0.6)
    lowest = min(item.value if item.low is None else item.low for item in drawn)  # type: ignore[type-var]
    axes.set_xlim(left=min(0.0, float(lowest or 0.0) - 0.02))
    label_axes(axes, theme, "Brier skill score, out of fold (0: always the base rate, 1: perfect)", "")
    head(axes, theme, title, f"n = {' and '.join(f'{count:,}' for count in counts)}", note)
    legend_below(figure, axes, theme)
    return figure
