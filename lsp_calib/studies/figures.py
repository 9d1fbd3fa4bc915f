"""The studies' figures, from numbers to matplotlib: for white pages, sized for print.

Colours are set on each artist. matplotlib's global settings and pyplot's list of open figures do not change.
Each function draws and returns a figure; `save` writes one, with the same bytes for the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import attrs
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from lsp_calib.calibration.arrays import BoolArray, FloatArray, quietly
from lsp_calib.calibration.reliability import LEVEL, ReliabilityBin, ReliabilityData, reliability
from lsp_calib.calibration.validation import Interval
from lsp_calib.errors import DataError
from lsp_calib.studies.measures import TokenPositions
from lsp_calib.studies.score import FEWEST_TO_TEST, RANDOM, RAW, Cell
from lsp_calib.studies.statistics import ON_LN_P, roc
from lsp_calib.studies.tables import Picture

# After Okabe & Ito 2008: colour-blind readers can tell first from second, also in print.
PAPER, INK, MUTED, GRID = "#ffffff", "#1f2328", "#59636e", "#dfe3e8"
FILL, FIRST, SECOND, BAND = "#b5d0e8", "#0b62a4", "#c2410c", "#8c959f"
# Line styles that tell curves apart without colour: solid, dashed, dotted.
LINES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1, 1.2)))
DPI = 200
WIDTH = 6.3  # inches: what a printed page holds
_PAD = 0.05
_TINY, _SMALL, _NORMAL, _LARGE = 5.0, 6.5, 7.5, 9.0

Draw = Callable[[], Figure]


def panels(
    width: float, height: float, rows: int = 1, columns: int = 1, **layout: Any
) -> tuple[Figure, list[Axes]]:
    """An empty figure (size in inches) with automatic layout and without a window, and its panels by row."""
    engine = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD)
    figure = Figure((width, height), dpi=DPI, facecolor=PAPER, layout=engine)
    FigureCanvasAgg(figure)
    found = list(np.ravel(figure.subplots(rows, columns, squeeze=False, **layout)))
    for axes in found:
        style_axes(axes)
    return figure, found


def style_axes(axes: Axes) -> None:
    """Draw thin grey axes, and a grid behind everything."""
    axes.set_facecolor(PAPER)
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.6)
    axes.tick_params(colors=MUTED, labelsize=_NORMAL, length=2.5, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(MUTED)
        spine.set_linewidth(0.6)


def label_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, color=INK, fontsize=_NORMAL)
    axes.set_ylabel(y, color=INK, fontsize=_NORMAL)


def head(axes: Axes, title: str, *notes: str) -> None:
    """A title and a line with the notes, such as counts, above a panel."""
    noted = " · ".join(filter(None, notes))
    if noted:
        where: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(noted, (0.0, 1.0), (0.0, 4.0), color=MUTED, fontsize=_SMALL, **where)
    axes.set_title(title, loc="left", pad=14 if noted else 4, color=INK, fontsize=_LARGE, fontweight="bold")


def small_text(axes: Axes, x: float, y: float, text: str, **options: Any) -> None:
    """A number in the plot, with an outline in the page's colour that keeps it readable on lines."""
    outline = withStroke(linewidth=1.6, foreground=PAPER, alpha=0.75)
    given = {"color": INK, "fontsize": _SMALL, "ha": "center", "va": "bottom", "zorder": 6}
    axes.text(x, y, text, **{**given, "path_effects": [outline], **options})


def legend_below(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """The legend under the plot, where it covers no data."""
    handles, labels = axes.get_legend_handles_labels()
    looks: dict[str, Any] = {"frameon": False, "fontsize": _NORMAL, "labelcolor": INK, "handlelength": 1.8}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, columnspacing=1.6, **looks)


def save(draw: Draw, path: Path, description: str = "", dpi: int = DPI) -> Path:
    """Draw and write a figure; the suffix of the path chooses the format.

    description: kept in the metadata of a PNG or an SVG file, such as a checksum of what was drawn.
    No date is written: with the same version of matplotlib, the same numbers give the same bytes.
    Raises DataError if the file cannot be written or the format is unknown.
    """
    dated = {".svg": "Date", ".pdf": "CreationDate"}.get(path.suffix)
    metadata: dict[str, str | None] = {dated: None} if dated else {}
    if description and path.suffix in (".png", ".svg"):
        metadata["Description"] = description
    try:
        draw().savefig(path, metadata=metadata, dpi=dpi)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be written: {error}.") from error
    return path


# Reliability


def draw_reliability(data: ReliabilityData, *, title: str = "", note: str = "") -> Figure:
    """A reliability diagram: how often answers are right, by how sure the model was.

    Bars: the share correct of each bin, with its n at the bottom. Grey: the range of that share if the
    confidences were calibrated, around the bin's mean confidence. Points: the quantile points with intervals.
    Upper panel: the number of items in each bin.
    Source: Spiess et al. 2024, Figures 5 and 6; Virk et al. 2024, Figures 4 and 5 (frequencies above);
    Brocker & Smith 2007 (the band).
    """
    figure, (above, axes) = panels(4.4, 5.0, 2, 1, sharex=True, height_ratios=(1, 4))
    _frequencies(above, data)
    _diagram(axes, data, band=True)
    label_axes(axes, "confidence", "share correct")
    head(above, title, f"n = {data.n:,}, {data.n_correct:,} correct", note)
    legend_below(figure, axes, 2)
    return figure


def draw_raw_and_rescaled(
    raw: ReliabilityData, rescaled: ReliabilityData, *, title: str = "", notes: tuple[str, str] = ("", "")
) -> Figure:
    """Two reliability diagrams of the same answers side by side, with the number of answers by confidence.

    notes: of each, such as "skill -0.62". Source: Virk et al. 2024, Figures 4 and 5.
    """
    figure, found = panels(WIDTH, 3.7, 2, 2, sharex=True, height_ratios=(1, 4))
    for at, (name, data) in enumerate((("raw", raw), ("rescaled", rescaled))):
        _frequencies(found[at], data)
        _diagram(found[2 + at], data)
        label_axes(found[2 + at], "confidence", "" if at else "share correct")
        head(found[at], "" if at else title, f"{name}: n = {data.n:,}, {data.n_correct:,} correct", notes[at])
    legend_below(figure, found[2])
    return figure


def draw_row(diagrams: Sequence[tuple[str, str, ReliabilityData]]) -> Figure:
    """Reliability diagrams side by side. diagrams: of each a title, a note and the data.

    Source: Spiess et al. 2024, Figures 2 and 7.
    """
    figure, found = panels(WIDTH, 2.7, 1, len(diagrams), sharey=True)
    for axes, (title, note, data) in zip(found, diagrams, strict=True):
        _diagram(axes, data, size=_TINY + 0.5)
        label_axes(axes, "confidence", "share correct" if axes is found[0] else "")
        head(axes, title, note)
        axes.title.set_fontsize(_NORMAL)
    legend_below(figure, found[0])
    return figure


def draw_lines(diagrams: Sequence[tuple[str, str, ReliabilityData]], curves: Mapping[str, Roc]) -> Figure:
    """Up to three reliability diagrams and the ROC of the same answers, two and two.

    Source: Spiess et al. 2024, Figure 5.
    """
    figure, found = panels(WIDTH, 6.2, 2, 2)
    for axes, (title, note, data) in zip(found, diagrams, strict=False):
        _diagram(axes, data)
        label_axes(axes, "confidence", "share correct")
        head(axes, title, note)
    for axes in found[len(diagrams) : 3]:
        axes.set_axis_off()
    _roc_panel(found[3], curves)
    head(found[3], "ROC")
    found[3].legend(loc="lower right", frameon=False, fontsize=_SMALL, labelcolor=INK)
    legend_below(figure, found[0])
    return figure


Pair = tuple[ReliabilityData, ReliabilityData]
"""Raw and rescaled."""


def draw_grid(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], Pair], *, title: str = ""
) -> Figure:
    """Small reliability diagrams by measure and data set: blue bars raw, orange bars rescaled, red the raw
    quantile points, n of the raw bins at their feet. cells: by row and column; missing ones stay empty.

    Source: Spiess et al. 2024, Figure 6.
    """
    size = 1.24
    height = 0.75 + size * len(rows)
    figure, found = panels(
        0.5 + 1.22 * len(columns), height, len(rows), len(columns), sharex=True, sharey=True
    )
    for at, axes in enumerate(found):
        row, column = rows[at // len(columns)], columns[at % len(columns)]
        axes.tick_params(labelsize=_TINY + 1)
        axes.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        if at < len(columns):
            axes.set_title(column, color=INK, fontsize=_NORMAL)
        if at % len(columns) == 0:
            axes.set_ylabel(row, color=INK, fontsize=_NORMAL)
        pair = cells.get((row, column))
        if pair is None:
            small_text(axes, 0.5, 0.5, "–", color=MUTED)
            continue
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.7, linestyle=LINES[1], label="calibrated")
        _bars(axes, pair[0], FILL, FIRST, 1.0, "raw, n at the foot")
        _bars(axes, pair[1], "#f6c7a8", SECOND, 0.45, "rescaled")
        points = pair[0].points
        means = [[one.confidence or 0.0 for one in points], [one.accuracy or 0.0 for one in points]]
        axes.plot(
            *means, color="#b91c1c", marker="o", markersize=1.8, linewidth=0.9, label="5 quantiles, raw"
        )
        for one in pair[0].bins:
            if one.n:
                small_text(axes, _middle(one), 0.01, _count(one.n), fontsize=3.6, rotation=90)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=_LARGE, fontweight="bold")
    legend_below(figure, next(axes for axes in found if axes.get_legend_handles_labels()[0]), 4)
    return figure


def _frequencies(axes: Axes, data: ReliabilityData) -> None:
    """How many items each bin has."""
    numbers = [item.n for item in data.bins]
    axes.bar([_middle(item) for item in data.bins], numbers, 0.1, color=BAND, edgecolor=PAPER, linewidth=0.8)
    _as_upper(axes, "items")


def _as_upper(axes: Axes, counted: str) -> None:
    """Make the panel the low one of counts above another one."""
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(counted, color=INK, fontsize=_NORMAL)


def _diagram(axes: Axes, data: ReliabilityData, *, band: bool = False, size: float = _SMALL) -> None:
    """Bars with n at their feet, quantile points, the diagonal. band: the calibrated range as well."""
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=LINES[1], label="calibrated")
    _bars(axes, data, FILL, FIRST, 1.0, "share correct, n at the foot")
    if band:
        _band(axes, [item for item in data.bins if item.n])
    _points(axes, data.points)
    for item in data.bins:
        if item.n:
            small_text(axes, _middle(item), 0.012, _count(item.n), fontsize=size)
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=np.arange(6) / 5, yticks=np.arange(6) / 5)


def _bars(axes: Axes, data: ReliabilityData, fill: str, edge: str, width: float, label: str) -> None:
    filled = [item for item in data.bins if item.n]
    share = [item.accuracy or 0.0 for item in filled]
    looks: dict[str, Any] = {"color": fill, "edgecolor": edge, "linewidth": 0.6, "label": label}
    axes.bar([_middle(item) for item in filled], share, 0.1 * width, **looks)


def _band(axes: Axes, filled: Sequence[ReliabilityBin]) -> None:
    """A box for each bin, narrower than the bar behind it, with a line at the mean confidence."""
    low = np.array([item.band_low or 0.0 for item in filled])
    high = np.array([1.0 if item.band_high is None else item.band_high for item in filled])
    middle = np.array([_middle(item) for item in filled])
    label = f"range if calibrated ({LEVEL:.0%})".replace("%", " %")
    looks: dict[str, Any] = {"color": (BAND, 0.45), "edgecolor": MUTED, "linewidth": 0.6}
    axes.bar(middle, high - low, 0.05, low, label=label, **looks)
    means = [item.confidence or 0.0 for item in filled]
    axes.hlines(means, middle - 0.025, middle + 0.025, color=MUTED, linewidth=1.0)


def _points(axes: Axes, points: Sequence[ReliabilityBin]) -> None:
    x = [item.confidence or 0.0 for item in points]
    y = np.array([item.accuracy or 0.0 for item in points])
    low = np.array([item.low if item.low is not None else 0.0 for item in points])
    high = np.array([item.high if item.high is not None else 1.0 for item in points])
    axes.errorbar(
        *(x, y, np.maximum([y - low, high - y], 0.0)),
        **_errorbars(SECOND),
        marker="o",
        markersize=3.5,
        linewidth=1.1,
        zorder=5,
        label=f"{len(points)} quantiles, {LEVEL:.0%} interval".replace("%", " %"),
    )


def _errorbars(color: str) -> dict[str, Any]:
    return {"color": color, "elinewidth": 0.9, "capsize": 1.8}


def _middle(item: ReliabilityBin) -> float:
    return (item.lower + item.upper) / 2


def _count(n: int) -> str:
    """A count that fits a bar.

    >>> [_count(n) for n in (7, 12345, 123456, 2500000)]
    ['7', '12,345', '123k', '2.5M']
    """
    if n < 100_000:
        return f"{n:,}"
    return f"{n / 1e3:.0f}k" if n < 1_000_000 else f"{n / 1e6:.1f}M"


# Ranking


@attrs.frozen(eq=False)
class Roc:
    """A ROC curve: false and true positive rates, ascending, with the thresholds; arrays of shape (k,)."""

    false: FloatArray
    true: FloatArray
    thresholds: FloatArray
    auc: float

    @classmethod
    def of(cls, confidence: FloatArray, correct: BoolArray, auc: float) -> Self:
        """auc: of the raw confidence, for folds of a rescaled one differ."""
        false, true, thresholds = roc(confidence, correct)
        return cls(false, true, thresholds, auc)

    def at(self, threshold: float) -> tuple[float, float]:
        """The rates if answers from a threshold on are accepted."""
        found = int(np.count_nonzero(self.thresholds >= threshold)) - 1
        return float(self.false[found]), float(self.true[found])


MARKS = (0.1, 0.3, 0.7, 0.9)
"""The confidences at which Spiess et al. sketch other actions."""
_CURVES = [(color, line) for line in LINES for color in (FIRST, SECOND)]


def draw_roc(curves: Mapping[str, Roc], *, title: str = "", note: str = "") -> Figure:
    """ROC curves (at most six), with the points at which answers from a confidence in MARKS on are accepted.

    Source: Spiess et al. 2024, Figure 5d.
    """
    figure, (axes,) = panels(4.4, 4.9)
    _roc_panel(axes, curves)
    head(axes, title, note)
    legend_below(figure, axes, 1)
    return figure


def _roc_panel(axes: Axes, curves: Mapping[str, Roc]) -> None:
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=LINES[1], label="no ranking")
    shown: list[tuple[float, float]] = []
    for (name, curve), (color, line) in zip(curves.items(), _CURVES, strict=False):
        label = f"{name}: AUC {curve.auc:.2f}"
        axes.plot(curve.false, curve.true, color=color, linestyle=line, linewidth=1.4, label=label)
        for mark in MARKS:
            point = curve.at(mark)
            if _is_free(point, shown):
                shown.append(point)
                axes.plot(*point, marker="o", markersize=3.5, color=color)
                small_text(axes, point[0] + 0.012, point[1] - 0.012, f"{mark:g}", ha="left", va="top")
    _rates(axes, "wrong answers accepted (share)", "right answers accepted (share)")


def _rates(axes: Axes, x: str, y: str) -> None:
    ticks = np.arange(6) / 5
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), xticks=ticks, yticks=ticks)
    label_axes(axes, x, y)


def _is_free(point: tuple[float, float], shown: Sequence[tuple[float, float]]) -> bool:
    """Whether a mark can be read there: not at an end of the curve, nor on another mark."""
    x, y = point
    inside = 0.01 < x < 0.97 and 0.01 < y < 0.99
    return inside and all(abs(x - a) > 0.07 or abs(y - b) > 0.045 for a, b in shown)


def draw_haque(curve: Roc, marks: Mapping[str, float], pairs: int, positives: int) -> Figure:
    """The ROC of a similarity against people's ratings. marks: thresholds by criterion.

    Source: Virk et al. 2024, Figure 3.
    """
    figure, (axes,) = panels(4.4, 4.9)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=LINES[1], label="no ranking")
    label = f"BERTScore recall: AUC {curve.auc:.3f}"
    axes.plot(curve.false, curve.true, color=FIRST, linewidth=1.4, label=label)
    for (name, threshold), marker in zip(marks.items(), ("s", "D"), strict=True):
        x, y = curve.at(threshold)
        axes.plot(x, y, marker=marker, color=SECOND, markersize=6, linestyle="none", label=name)
        small_text(axes, x + 0.025, y - 0.015, f"{name}: {threshold:.2f}", ha="left", va="top")
    _rates(axes, "dissimilar pairs accepted (share)", "similar pairs accepted (share)")
    head(axes, "Similar by BERTScore and by people", f"{pairs} pairs, {positives} similar")
    legend_below(figure, axes, 2)
    return figure


def draw_against_auc(scores: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """Scores against AUC, a panel for each score. scores: (AUC, score) of up to three series, by name.

    Source: Spiess et al. 2024, Figure 8.
    """
    figure, found = panels(WIDTH, 3.0, 1, len(scores))
    looks = ((FIRST, "o"), (SECOND, "D"), (BAND, "s"))
    for axes, (score, series) in zip(found, scores.items(), strict=True):
        for (name, points), (color, marker) in zip(series.items(), looks, strict=False):
            x, y = [a for a, _ in points], [b for _, b in points]
            axes.plot(
                x, y, color=color, marker=marker, markersize=3.5, linestyle="none", alpha=0.8, label=name
            )
        label_axes(axes, "AUC", score)
    legend_below(figure, found[0])
    return figure


# Tokens


def draw_skill_by_t(
    skill: Mapping[str, Sequence[tuple[int | None, float]]],
    lengths: Sequence[int],
    *,
    chosen: Sequence[int | None] = (),
    title: str = "",
    note: str = "",
) -> Figure:
    """The skill score of a measure over the first t tokens against t, and the lengths of generations.

    skill: for at most three measures, by name, (t, skill) pairs; None is "all tokens", apart at the right.
    lengths: tokens of each generation. chosen: the t of each fold, marked under the curve.
    Source: Virk et al. 2024, Figure 7. Its caption says arithmetic mean and the text says geometric mean, so
    give both.
    """
    largest = max(t for pairs in skill.values() for t, _ in pairs if t is not None)
    every = largest + max(2, round(largest * 0.12))
    figure, (above, axes) = panels(5.2, 3.8, 2, 1, sharex=True, height_ratios=(1, 3.4))
    _length_bars(above, lengths, largest, every)
    axes.axhline(0.0, color=MUTED, linewidth=0.9)
    small_text(axes, every + 0.9, 0.0, "base rate", ha="right", color=MUTED)
    for (name, pairs), color, line in zip(skill.items(), (FIRST, SECOND, INK), LINES, strict=False):
        first = [(t, value) for t, value in pairs if t is not None]
        looks: dict[str, Any] = {"color": color, "linestyle": line, "marker": "o", "markersize": 3.0}
        axes.plot([t for t, _ in first], [value for _, value in first], label=name, **looks)
        whole = [value for t, value in pairs if t is None]
        axes.plot([every] * len(whole), whole, color=color, marker="D", markersize=4.0, linestyle="none")
    axes.axvspan(every - 1, every + 1, color=GRID, alpha=0.5, linewidth=0, zorder=0)
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.12 * (high - low), high)
    times = Counter(every if t is None else t for t in chosen)
    foot = low - 0.09 * (high - low)
    for n, at in enumerate(sorted(times)):
        label = "_nolegend_" if n else "chosen in k folds"
        axes.plot(at, foot, marker="^", color=MUTED, markersize=4.5, linestyle="none", label=label)
        small_text(axes, at, foot + 0.03 * (high - low), f"{times[at]}/{len(chosen)}", color=MUTED)
    ticks = [t for t in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128) if t <= largest]
    axes.set_xticks([*ticks, every], [*map(str, ticks), "all"])
    axes.set_xlim(0.2, every + 1)
    label_axes(axes, "t, number of first tokens that count", "skill score")
    head(above, title, f"n = {len(lengths):,}", note)
    legend_below(figure, axes, len(skill) + bool(chosen))
    return figure


def _length_bars(axes: Axes, lengths: Sequence[int], largest: int, every: int) -> None:
    """How many generations have each length; those longer than every t are counted at "all"."""
    counts = np.bincount(np.minimum(lengths, largest + 1), minlength=largest + 2)
    axes.bar(np.arange(1, largest + 1), counts[1 : largest + 1], 0.85, color=BAND)
    axes.bar(every, counts[largest + 1], 0.85, color=BAND)
    if counts[largest + 1]:
        small_text(axes, every, float(counts[largest + 1] + 0.04 * counts.max()), "longer")
    _as_upper(axes, "generations\nof length t")


def draw_token_positions(data: TokenPositions, *, title: str = "", note: str = "") -> Figure:
    """How probable the model found its own tokens, by their position: mean, median and quartiles.

    Upper panel: how many generations reach the position. Only long ones contribute at the right.
    Source: Virk et al. 2024, Figure 6.
    """
    figure, (above, axes) = panels(5.2, 3.8, 2, 1, sharex=True, height_ratios=(1, 3.4))
    above.bar(data.position, data.n, 0.85, color=BAND)
    _as_upper(above, "generations")
    looks: dict[str, Any] = {"color": FILL, "alpha": 0.65, "linewidth": 0, "label": "middle half"}
    axes.fill_between(data.position, data.low, data.high, **looks)
    axes.plot(data.position, data.median, color=FIRST, marker="o", markersize=3.0, label="median")
    second: dict[str, Any] = {"color": SECOND, "marker": "s", "markersize": 2.6, "linestyle": LINES[1]}
    axes.plot(data.position, data.mean, label="mean", **second)
    axes.set(ylim=(0, 1.02), xlim=(0.4, float(data.position[-1]) + 0.6))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    label_axes(axes, "token position", "token probability")
    head(above, title, f"n = {int(data.n[0]):,} generations", note)
    legend_below(figure, axes)
    return figure


def draw_example(answers: Sequence[tuple[str, bool, float, float]], *, title: str = "") -> Figure:
    """Two answers of nearly the same raw confidence, one right and one wrong, before and after rescaling.

    answers: of each its name, whether it is right, the raw and the rescaled confidence.
    Source: Virk et al. 2024, Figure 1.
    """
    figure, found = panels(WIDTH, 1.9, 1, len(answers), sharex=True)
    for axes, (name, right, raw, rescaled) in zip(found, answers, strict=True):
        axes.grid(visible=False)
        axes.barh(["rescaled", "raw"], [rescaled, raw], 0.6, color=[SECOND, FILL])
        for y, value in enumerate((rescaled, raw)):
            small_text(axes, value + 0.02, y, f"{value:.2f}", ha="left", va="center")
        axes.set_xlim(0, 1.08)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        head(axes, "like a person's" if right else "unlike a person's", name)
        axes.title.set_fontsize(_NORMAL)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=_LARGE, fontweight="bold")
    return figure


def draw_temperature(
    skill: Mapping[str, Sequence[tuple[float, float]]],
    fitted: Mapping[str, float],
    platt: Mapping[str, float],
) -> Figure:
    """The raw skill of the geometric mean against the temperature of the whole softmax.

    skill: by name (temperature, skill) pairs, for at most six. fitted: by name the temperature fitted on
    tokens, marked. platt: by name the skill after Platt scaling, a thin line. Source: Virk et al. 2024, 6.3.
    """
    figure, (axes,) = panels(5.2, 3.4)
    axes.axhline(0.0, color=MUTED, linewidth=0.9)
    small_text(axes, max(t for pairs in skill.values() for t, _ in pairs), 0.0, "base rate", ha="right")
    for (name, pairs), (color, line) in zip(skill.items(), _CURVES, strict=False):
        x, y = np.array(pairs).T
        axes.plot(x, y, color=color, linestyle=line, linewidth=1.4, label=name)
        at = float(np.interp(fitted[name], x, y))
        axes.plot(fitted[name], at, color=color, marker="o", markersize=5, linestyle="none")
        axes.axhline(platt[name], color=color, linestyle=line, linewidth=0.6, alpha=0.7)
    label_axes(axes, "temperature of the whole softmax", "raw skill score")
    head(axes, "", "dots: the temperature fitted on tokens; thin: after Platt scaling")
    legend_below(figure, axes, 2)
    return figure


def draw_full_ece(
    by_bin: Mapping[str, tuple[FloatArray, FloatArray]],
    over_m: Mapping[str, tuple[FloatArray, FloatArray]],
    numbers: Sequence[int],
) -> Figure:
    """Full-ECE by bin and over the number of bins.

    by_bin: by model the mean probability and the share that occurs, arrays of shape (M,), of all entries of
    all distributions. over_m: by model Full-ECE by M, shape (k,), and that of calibrated draws, (draws, k).
    numbers: the k values of M.
    Source: Liu et al. 2024, Figure 1c and Table 1.
    """
    figure, (left, right) = panels(WIDTH, 3.2, 1, 2)
    left.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=LINES[1], label="calibrated")
    for (name, (confidence, share)), (color, line) in zip(by_bin.items(), _CURVES, strict=False):
        looks: dict[str, Any] = {"color": color, "linestyle": line, "marker": "o", "markersize": 3.0}
        left.plot(confidence, share, label=name, **looks)
        full, drawn = over_m[name]
        right.plot(numbers, full, label=name, **looks)
        right.fill_between(numbers, drawn.min(axis=0), drawn.max(axis=0), color=color, alpha=0.2, linewidth=0)
    left.set(xlim=(0, 1), ylim=(0, 1))
    label_axes(left, "probability of a token, by bin", "share that occurs")
    right.set(xscale="log", yscale="log")
    right.set_xticks(numbers, [str(m) for m in numbers])
    right.minorticks_off()
    label_axes(right, "M, number of bins", "Full-ECE")
    head(left, "by bin, M = 10")
    head(right, "over M", "shaded: a calibrated model with the same distributions")
    legend_below(figure, left)
    return figure


# Ablations

_ROW, _REST = 0.4, 1.3  # inches for a row, and for everything above and below the rows
_APART = 0.26  # how far the series of a row stand apart, in rows


def draw_ablation(
    names: Sequence[str],
    skill: Mapping[str, Sequence[Interval | None]],
    counts: Sequence[int],
    *,
    title: str = "",
    note: str = "",
) -> Figure:
    """Skill scores with their intervals, a row for each name, from top to bottom.

    skill: for one or two series (models), by name, as many intervals as there are names; None leaves a row
    out. counts: the items of each.
    """
    figure, (axes,) = panels(WIDTH, _REST + _ROW * len(names) * (1.0 if len(skill) == 1 else 1.25))
    axes.grid(visible=False, axis="y")
    lowest = 0.0
    for at, ((name, series), color) in enumerate(zip(skill.items(), (FIRST, SECOND), strict=False)):
        known = [(row, one) for row, one in enumerate(series) if one is not None and one.value is not None]
        value = np.array([one.value for _, one in known], dtype=np.float64)
        low = np.array([one.value if one.low is None else one.low for _, one in known], dtype=np.float64)
        high = np.array([one.value if one.high is None else one.high for _, one in known], dtype=np.float64)
        lowest = min(lowest, float(low.min()) - 0.02)
        y = np.array([row for row, _ in known]) + (_APART if len(skill) == 2 else 0.0) * (
            at - (len(skill) - 1) / 2
        )
        spread = np.maximum([value - low, high - value], 0.0)
        looks: dict[str, Any] = {**_errorbars(color), "marker": "oD"[at], "markersize": 4.0}
        axes.errorbar(value, y, xerr=spread, linestyle="none", label=name, **looks)
        # The first series' numbers above its dots, the second's below: between the two there is no room.
        side, aligned = (-0.09, "bottom") if at == 0 else (0.09, "top")
        for x, place in zip(value, y, strict=True):
            small_text(axes, float(x), float(place) + side, f"{x:+.2f}", color=color, va=aligned)
    axes.set_yticks(np.arange(len(names)), names)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_ylim(len(names) - 0.5, -0.6)
    axes.set_xlim(left=lowest)
    label_axes(axes, "Brier skill score, out of fold (0: always the base rate, 1: perfect)", "")
    head(axes, title, f"n = {' and '.join(f'{count:,}' for count in counts)}", note)
    legend_below(figure, axes)
    return figure


# The figures of Spiess et al.

_MEASURES = {
    "total": "Total",
    "arithmetic-mean": "Average",
    "ask": "Ask T/F",
    "normalised": "Ask T/F N",
    "verbalised": "Verbalize",
    "length": "Length",
}
Points = Mapping[str, Sequence[tuple[float, float]]]
"""(AUC, rescaled score) by "skill" and "ece"."""


def of_spiess(
    columns: Mapping[str, Sequence[Cell]], bare: Sequence[Cell], printed: Points
) -> Iterator[Picture]:
    """Figures 5 to 8 and the ROC of Spiess et al. 2024, of the study's tasks.

    columns: by data set its cells, the larger model first; "Lines" among them. bare: of lines without their
    docstrings. printed: the points of the study's Figure 8.
    """
    first = {name: cells[0] for name, cells in columns.items() if cells and not cells[0].why}
    if not first:
        return
    if "Lines" in first:
        lines = first["Lines"]
        yield _figure_5(lines, [cell for cell in bare if cell.model == lines.model and not cell.why])
    pairs = {
        (words, column): (_reliability(cell, name), _reliability(cell, name, ON_LN_P))
        for name, words in _MEASURES.items()
        for column, cell in first.items()
        if cell.row(name) is not None
    }
    models = "; ".join(f"{column}: {cell.model}, by {cell.answers.judge}" for column, cell in first.items())
    yield Picture(
        "spiess-figure-6",
        f"Reliability by measure and data set, raw and by Platt on ln p, as in Figure 6. {models}",
        partial(
            draw_grid, list(_MEASURES.values()), list(first), pairs, title="Reliability, raw and rescaled"
        ),
    )
    wanted = ("HumanEval", ON_LN_P), ("MBPP", ON_LN_P), ("HumanEval", RAW)
    if all(name in first and first[name].row("ask") is not None for name, _ in wanted):
        yield Picture(
            "spiess-figure-7",
            "Ask T/F: rescaled on HumanEval and MBPP, and raw on HumanEval, as in Figure 7: AUC beside ECE",
            partial(draw_row, [_asked(first[name], name, line) for name, line in wanted]),
        )
    cells = [cell for found in columns.values() for cell in found]
    ours = {score: list(against_auc(cells, score)) for score in ("skill", "ece")}
    yield Picture(
        "spiess-figure-8",
        "AUC against the rescaled ECE and the rescaled skill of each measure and data set, as in Figure 8",
        partial(
            draw_against_auc,
            {
                f"rescaled {words}": {"ours": ours[score], "published, GPT-3.5": printed[score]}
                for score, words in (("ece", "ECE"), ("skill", "skill score"))
            },
        ),
    )
    curves = {f"{column}, {cell.model}": _roc_of(cell, "total") for column, cell in first.items()}
    yield Picture(
        "spiess-roc",
        "ROC of the rescaled total probability; dots: accepting from 0.1, 0.3, 0.7 and 0.9 on",
        partial(draw_roc, curves, title="Accepting by the total probability", note="rescaled"),
    )


def _reliability(cell: Cell, measure: str, rescaling: str = RAW) -> ReliabilityData:
    row = cell.known(measure, rescaling, "" if rescaling == RAW else RANDOM)
    with quietly():
        return reliability(row.confidence, row.correct, resamples=1)  # the band is not drawn


def _roc_of(cell: Cell, measure: str) -> Roc:
    """Of the rescaled measure, with the area of the raw one."""
    row, area = cell.known(measure, ON_LN_P, RANDOM), cell.known(measure).auc
    return Roc.of(row.confidence, row.correct, (area and area.value) or 0.5)


def _noted(cell: Cell, measure: str, rescaling: str = RAW) -> str:
    row, area = cell.known(measure, rescaling, "" if rescaling == RAW else RANDOM), cell.known(measure).auc
    ece = "–" if row.ece is None else f"{row.ece.value:.2f}"
    return f"AUC {(area and area.value) or 0.5:.2f}, ECE {ece}, skill {row.skill.value or 0.0:+.2f}"


def _asked(cell: Cell, name: str, rescaling: str) -> tuple[str, str, ReliabilityData]:
    how = "raw" if rescaling == RAW else "rescaled"
    return f"{name}, {how}", _noted(cell, "ask", rescaling), _reliability(cell, "ask", rescaling)


def _figure_5(cell: Cell, bare: Sequence[Cell]) -> Picture:
    measure = "arithmetic-mean"
    wanted = [("docstring, rescaled", cell, ON_LN_P)]
    wanted += [("no docstring, rescaled", one, ON_LN_P) for one in bare]
    wanted.append(("docstring, raw", cell, RAW))
    diagrams = [
        (title, f"by {one.answers.judge}; {_noted(one, measure, line)}", _reliability(one, measure, line))
        for title, one, line in wanted
    ]
    return Picture(
        "spiess-figure-5",
        f"Lines of {cell.model} by the average token probability: reliability and ROC, as in Figure 5",
        partial(draw_lines, diagrams, {"docstring": _roc_of(cell, measure)}),
    )


def against_auc(cells: Iterable[Cell], score: str) -> Iterator[tuple[float, float]]:
    """(AUC, score) of the study's measures of each cell after its rescaling. score: "skill" or "ece"."""
    for cell in cells:
        if cell.why or cell.answers.right < FEWEST_TO_TEST:
            continue
        for measure in _MEASURES:
            raw, row = cell.row(measure), cell.row(measure, ON_LN_P, RANDOM)
            found = None if row is None else getattr(row, score)
            if raw is not None and raw.auc is not None and found is not None:
                yield raw.auc.value or 0.5, found.value
