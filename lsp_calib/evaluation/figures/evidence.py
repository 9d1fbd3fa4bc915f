"""Figures of what evidence tells: each step of the ablation, and an answer's first and later tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.measures import TokenPositions
from lsp_calib.errors import DataError
from lsp_calib.evaluation.figures.theme import (
    LIGHT,
    LINES,
    Theme,
    head,
    label_axes,
    legend_below,
    one_panel,
    small_text,
    two_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    for t in sorted(set(chosen), key=lambda t: every if t is None else t):
        _mark_choice(axes, theme, every if t is None else t, list(chosen).count(t), len(chosen))
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


def _mark_choice(axes: Axes, theme: Theme, at: int, times: int, folds: int) -> None:
    low, high = axes.get_ylim()
    foot = low + 0.03 * (high - low)
    label = (
        "_nolegend_" if any("chosen" in str(line.get_label()) for line in axes.lines) else "chosen in k folds"
    )
    axes.plot(at, foot, marker="^", color=theme.muted, markersize=5, linestyle="none", label=label)
    small_text(axes, theme, at, foot + 0.025 * (high - low), f"{times}/{folds}", color=theme.muted)


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
