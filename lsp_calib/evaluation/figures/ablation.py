"""The ablation as a figure: the skill of each step of evidence, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_calib.calibration.validation import Interval
from lsp_calib.errors import DataError
from lsp_calib.evaluation.figures.theme import (
    LIGHT,
    Theme,
    head,
    label_axes,
    legend_below,
    new_figure,
    small_text,
    style_axes,
)

if TYPE_CHECKING:
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
    figure = new_figure(theme, 6.8, _REST + _ROW * len(names) * (1.0 if len(skill) == 1 else 1.25))
    axes = figure.subplots()
    style_axes(axes, theme)
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
    counted = f"n = {' and '.join(f'{count:,}' for count in counts)}"
    head(axes, theme, title, f"{counted} · {note}" if note else counted)
    legend_below(figure, axes, theme)
    return figure
