"""Figures that compare confidences: raw over rescaled, ROC curves, AUC against other scores, correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from lsp_calib.calibration.arrays import FloatArray
from lsp_calib.calibration.reliability import ReliabilityData
from lsp_calib.errors import DataError
from lsp_calib.evaluation.figures.reliability import draw_bins
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
    from matplotlib.figure import Figure

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
        head(above, theme, None if at else title, f"{words} · {notes[at]}" if notes[at] else words)
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
    styles = _styles(theme)
    if not 1 <= len(curves) <= len(styles):
        raise DataError(f"A figure shows 1 to {len(styles)} ROC curves, not {len(curves)}.")
    figure = new_figure(theme, 5.0, 5.4)
    axes = figure.subplots()
    style_axes(axes, theme)
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
    notes: Sequence[str] = (),
) -> Figure:
    """Scores against AUC, a panel for each score.

    panels: by the name of the score, the (AUC, score) points of up to two series, by name. notes: of each.
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
        head(axes, theme, title if at == 0 else None, notes[at] if at < len(notes) else "")
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
    figure = new_figure(theme, 1.9 + 0.62 * k, 1.7 + 0.5 * k)
    axes = figure.subplots()
    style_axes(axes, theme)
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


def _styles(theme: Theme) -> list[tuple[str, object]]:
    return [
        (theme.first, LINES[0]),
        (theme.second, LINES[0]),
        (theme.first, LINES[1]),
        (theme.second, LINES[1]),
    ]
