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
from lsp_calib.studies import headings
from lsp_calib.studies.measures import TokenPositions
from lsp_calib.studies.score import FEWEST_TO_TEST, RANDOM, RAW, Cell
from lsp_calib.studies.statistics import ON_LN_P, roc
from lsp_calib.studies.tables import Picture

# After Okabe & Ito 2008: colour-blind readers can tell first from second, also in print.
PAPER, INK, MUTED, GRID = "#ffffff", "#1f2328", "#59636e", "#dfe3e8"
FILL, FIRST, SECOND, BAND = "#b5d0e8", "#0b62a4", "#c2410c", "#8c959f"
# Solid, dashed, dotted: curves can be told apart without colour, and by both six of them.
LINES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1, 1.2)))
_CURVES = [{"color": color, "linestyle": line} for line in LINES for color in (FIRST, SECOND)]
DPI = 200
WIDTH = 6.3  # inches: what a printed page holds
_PAD = 0.05
_TINY, _SMALL, _NORMAL, _LARGE = 5.0, 6.5, 7.5, 9.0
_FIFTHS = np.arange(6) / 5

Draw = Callable[[], Figure]


def panels(
    width: float, height: float, rows: int = 1, columns: int = 1, **layout: Any
) -> tuple[Figure, list[Axes]]:
    """An empty figure (size in inches) with automatic layout and without a window, and its panels by row.

    The panels have thin grey axes, and a grid behind everything.
    """
    engine = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD)
    figure = Figure((width, height), dpi=DPI, facecolor=PAPER, layout=engine)
    FigureCanvasAgg(figure)
    found = list(np.ravel(figure.subplots(rows, columns, squeeze=False, **layout)))
    for axes in found:
        axes.set_axisbelow(True)
        axes.grid(color=GRID, linewidth=0.6)
        axes.tick_params(colors=MUTED, labelsize=_NORMAL, length=2.5, width=0.6)
        for axis in (axes.xaxis, axes.yaxis):
            axis.label.set(color=INK, fontsize=_NORMAL)
        for side, spine in axes.spines.items():
            spine.set(visible=side in ("left", "bottom"), color=MUTED, linewidth=0.6)
    return figure, found


def _count_above(axes: Axes, x: Any, numbers: Any, width: float, counted: str, **looks: Any) -> None:
    """Bars of counts, on an axis for a low panel above another one of the same x."""
    axes.bar(x, numbers, width, color=BAND, **looks)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(counted)


def head(axes: Axes, title: str, *notes: str) -> None:
    """A title and a line with the notes, such as counts, above a panel."""
    noted = " · ".join(filter(None, notes))
    if noted:
        where: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(noted, (0.0, 1.0), (0.0, 4.0), color=MUTED, fontsize=_SMALL, **where)
    axes.set_title(title, loc="left", pad=14 if noted else 4, color=INK, fontsize=_LARGE, fontweight="bold")


def head_all(figure: Figure, title: str) -> None:
    """A title above all panels."""
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=_LARGE, fontweight="bold")


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
    """Draw and write a figure, as PNG or SVG by the suffix of the path.

    description: kept in the metadata, such as a checksum of what was drawn.
    No date is written: with the same version of matplotlib, the same numbers give the same bytes.
    Raises DataError if the file cannot be written or the format is unknown.
    """
    metadata: dict[str, str | None] = {"Description": description} if description else {}
    if path.suffix == ".svg":
        metadata["Date"] = None
    try:
        draw().savefig(path, metadata=metadata, dpi=dpi)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be written: {error}.") from error
    return path


# Reliability

Diagram = tuple[str, str, ReliabilityData]
"""A title, a note and the data of a reliability diagram."""


def draw_reliability(diagrams: Sequence[Diagram], *, title: str = "") -> Figure:
    """How often answers are right, by how sure the model was: a diagram, or two of the same answers.

    Bars: the share correct of each bin, with its n at the bottom. Points: the quantile points with intervals.
    Grey, in a single diagram: the range of the share correct if the confidences were calibrated, around the
    bin's mean confidence. Upper panel: the number of items in each bin.
    Source: Spiess et al. 2024, Figures 5 and 6; Virk et al. 2024, Figures 4 and 5 (frequencies above);
    Brocker & Smith 2007 (the band).
    """
    alone = len(diagrams) == 1
    size = (4.4, 5.0) if alone else (WIDTH, 3.7)
    figure, found = panels(*size, 2, len(diagrams), sharex=True, height_ratios=(1, 4))
    for at, (name, note, data) in enumerate(diagrams):
        above, axes = found[at], found[at + len(diagrams)]
        numbers = [item.n for item in data.bins]
        middle = [_middle(item) for item in data.bins]
        _count_above(above, middle, numbers, 0.1, "items", edgecolor=PAPER, linewidth=0.8)
        _diagram(axes, data, band=alone)
        axes.set(xlabel="confidence", ylabel="" if at else "share correct")
        counts = f"n = {data.n:,}, {data.n_correct:,} correct"
        head(above, "" if at else title, f"{name}: {counts}" if name else counts, note)
    legend_below(figure, found[len(diagrams)], 2 if alone else 3)
    return figure


def draw_diagrams(diagrams: Sequence[Diagram], curves: Mapping[str, Roc] | None = None) -> Figure:
    """Reliability diagrams side by side; with curves, up to three of them and the ROC, two and two.

    Source: Spiess et al. 2024, Figures 2, 5 and 7.
    """
    if curves is None:
        figure, found = panels(WIDTH, 2.7, 1, len(diagrams), sharey=True)
    else:
        figure, found = panels(WIDTH, 6.2, 2, 2)
    in_row = curves is None
    for axes, (title, note, data) in zip(found, diagrams, strict=False):
        _diagram(axes, data, size=_TINY + 0.5 if in_row else _SMALL)
        axes.set(xlabel="confidence", ylabel="" if in_row and axes is not found[0] else "share correct")
        head(axes, title, note)
    if curves is not None:
        for axes in found[len(diagrams) : 3]:
            axes.set_axis_off()
        _roc_panel(found[3], curves)
        head(found[3], "ROC")
        found[3].legend(loc="lower right", frameon=False, fontsize=_SMALL, labelcolor=INK)
    legend_below(figure, found[0])
    return figure


Pair = tuple[ReliabilityData, ReliabilityData]
"""Raw and rescaled."""


def draw_grid(rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], Pair]) -> Figure:
    """Small reliability diagrams by measure and data set: blue bars raw, orange bars rescaled, red the raw
    quantile points, n of the raw bins at their feet. cells: by row and column; missing ones stay empty.

    Source: Spiess et al. 2024, Figure 6.
    """
    size = 0.5 + 1.22 * len(columns), 0.75 + 1.24 * len(rows)
    figure, found = panels(*size, len(rows), len(columns), sharex=True, sharey=True)
    for at, axes in enumerate(found):
        row, column = rows[at // len(columns)], columns[at % len(columns)]
        axes.tick_params(labelsize=_TINY + 1)
        axes.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        if at < len(columns):
            axes.set_title(column, color=INK, fontsize=_NORMAL)
        if at % len(columns) == 0:
            axes.set_ylabel(row)
        if (row, column) not in cells:
            small_text(axes, 0.5, 0.5, "–", color=MUTED)
            continue
        raw, rescaled = cells[row, column]
        _diagonal(axes, "calibrated", 0.7)
        _bars(axes, raw, 0.1, color=FILL, edgecolor=FIRST, label="raw, n at the foot")
        _bars(axes, rescaled, 0.045, color="#f6c7a8", edgecolor=SECOND, label="rescaled")
        looks: dict[str, Any] = {"color": "#b91c1c", "marker": "o", "markersize": 1.8, "linewidth": 0.9}
        axes.plot(*_columns(raw.points, "confidence", "accuracy"), label="5 quantiles, raw", **looks)
        _write_counts(axes, raw, 0.01, fontsize=3.6, rotation=90)
    head_all(figure, "Reliability, raw and rescaled")
    legend_below(figure, next(axes for axes in found if axes.get_legend_handles_labels()[0]), 4)
    return figure


def _diagram(axes: Axes, data: ReliabilityData, *, band: bool = False, size: float = _SMALL) -> None:
    """Bars with n at their feet, quantile points, the diagonal. band: the calibrated range as well."""
    _diagonal(axes, "calibrated")
    _bars(axes, data, 0.1, color=FILL, edgecolor=FIRST, label="share correct, n at the foot")
    if band:
        low, high, means = _columns(_filled(data), "band_low", "band_high", "confidence")
        middle = np.array([_middle(item) for item in _filled(data)])
        # A box for each bin, narrower than the bar behind it, with a line at the mean confidence.
        box: dict[str, Any] = {"color": (BAND, 0.45), "edgecolor": MUTED, "linewidth": 0.6}
        label = f"range if calibrated ({LEVEL:.0%})".replace("%", " %")
        axes.bar(middle, high - low, 0.05, low, label=label, **box)
        axes.hlines(means, middle - 0.025, middle + 0.025, color=MUTED, linewidth=1.0)
    x, y, low, high = _columns(data.points, "confidence", "accuracy", "low", "high")
    looks: dict[str, Any] = {"marker": "o", "markersize": 3.5, "linewidth": 1.1, "zorder": 5}
    label = f"{len(data.points)} quantiles, {LEVEL:.0%} interval".replace("%", " %")
    axes.errorbar(x, y, np.maximum([y - low, high - y], 0.0), **_errorbars(SECOND), label=label, **looks)
    _write_counts(axes, data, 0.012, fontsize=size)
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=_FIFTHS, yticks=_FIFTHS)


def _diagonal(axes: Axes, label: str, width: float = 0.9) -> None:
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=width, linestyle=LINES[1], label=label)


def _bars(axes: Axes, data: ReliabilityData, width: float, **looks: Any) -> None:
    """The share correct of each bin."""
    filled = _filled(data)
    (share,) = _columns(filled, "accuracy")
    axes.bar([_middle(item) for item in filled], share, width, linewidth=0.6, **looks)


def _write_counts(axes: Axes, data: ReliabilityData, y: float, **looks: Any) -> None:
    for item in _filled(data):
        small_text(axes, _middle(item), y, _count(item.n), **looks)


def _errorbars(color: str) -> dict[str, Any]:
    return {"color": color, "elinewidth": 0.9, "capsize": 1.8}


def _filled(data: ReliabilityData) -> list[ReliabilityBin]:
    return [item for item in data.bins if item.n]


def _columns(items: Sequence[ReliabilityBin], *names: str) -> list[FloatArray]:
    """Attributes of bins that are not empty, each an array of shape (bins,)."""
    return [np.array([getattr(item, name) for item in items], dtype=np.float64) for name in names]


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
        return cls(*roc(confidence, correct), auc)

    def at(self, threshold: float) -> tuple[float, float]:
        """The rates if answers from a threshold on are accepted."""
        found = int(np.count_nonzero(self.thresholds >= threshold)) - 1
        return float(self.false[found]), float(self.true[found])


MARKS = (0.1, 0.3, 0.7, 0.9)
"""The confidences at which Spiess et al. sketch other actions."""


def draw_roc(curves: Mapping[str, Roc]) -> Figure:
    """ROC curves of the rescaled total probability, at most six. Points: accepting from each of MARKS on.

    Source: Spiess et al. 2024, Figure 5d.
    """
    figure, (axes,) = panels(4.4, 4.9)
    _roc_panel(axes, curves)
    head(axes, "Accepting by the total probability", "rescaled")
    legend_below(figure, axes, 1)
    return figure


def _roc_panel(axes: Axes, curves: Mapping[str, Roc]) -> None:
    _rates(axes, "wrong answers", "right answers")
    shown: list[tuple[float, float]] = []
    for (name, curve), looks in zip(curves.items(), _CURVES, strict=False):
        axes.plot(curve.false, curve.true, linewidth=1.4, label=f"{name}: AUC {curve.auc:.2f}", **looks)
        for mark in MARKS:
            x, y = curve.at(mark)
            inside = 0.01 < x < 0.97 and 0.01 < y < 0.99
            # A mark is readable where it is not at an end of the curve, nor on another one.
            if inside and all(abs(x - a) > 0.07 or abs(y - b) > 0.045 for a, b in shown):
                shown.append((x, y))
                axes.plot(x, y, marker="o", markersize=3.5, color=looks["color"])
                small_text(axes, x + 0.012, y - 0.012, f"{mark:g}", ha="left", va="top")


def _rates(axes: Axes, x: str, y: str) -> None:
    """The axes of a ROC and its diagonal. x, y: what is accepted wrongly, and rightly."""
    _diagonal(axes, "no ranking")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02), xticks=_FIFTHS, yticks=_FIFTHS)
    axes.set(xlabel=f"{x} accepted (share)", ylabel=f"{y} accepted (share)")


def draw_haque(curve: Roc, marks: Mapping[str, float], pairs: int, positives: int) -> Figure:
    """The ROC of a similarity against people's ratings. marks: thresholds by criterion.

    Source: Virk et al. 2024, Figure 3.
    """
    figure, (axes,) = panels(4.4, 4.9)
    _rates(axes, "dissimilar pairs", "similar pairs")
    label = f"BERTScore recall: AUC {curve.auc:.3f}"
    axes.plot(curve.false, curve.true, color=FIRST, linewidth=1.4, label=label)
    for (name, threshold), marker in zip(marks.items(), ("s", "D"), strict=True):
        x, y = curve.at(threshold)
        axes.plot(x, y, marker=marker, color=SECOND, markersize=6, linestyle="none", label=name)
        small_text(axes, x + 0.025, y - 0.015, f"{name}: {threshold:.2f}", ha="left", va="top")
    head(axes, "Similar by BERTScore and by people", f"{pairs} pairs, {positives} similar")
    legend_below(figure, axes, 2)
    return figure


def draw_against_auc(scores: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """Scores against AUC, a panel for each score. scores: (AUC, score) of up to three series, by name.

    Source: Spiess et al. 2024, Figure 8.
    """
    figure, found = panels(WIDTH, 3.0, 1, len(scores))
    for axes, (score, series) in zip(found, scores.items(), strict=True):
        for (name, points), (color, marker) in zip(
            series.items(), ((FIRST, "o"), (SECOND, "D"), (BAND, "s")), strict=False
        ):
            looks: dict[str, Any] = {"marker": marker, "markersize": 3.5, "linestyle": "none", "alpha": 0.8}
            axes.plot(*np.reshape(points, (-1, 2)).T, color=color, label=name, **looks)
        axes.set(xlabel="AUC", ylabel=score)
    legend_below(figure, found[0])
    return figure


# Tokens


def draw_skill_by_t(
    skill: Mapping[str, Sequence[tuple[int | None, float]]],
    lengths: Sequence[int],
    *,
    chosen: Sequence[int | None],
    title: str,
) -> Figure:
    """The skill score of a measure over the first t tokens against t, and the lengths of generations.

    skill: for at most three measures, by name, (t, skill) pairs; None is "all tokens", apart at the right.
    lengths: tokens of each generation; those longer than every t are counted at "all". chosen: the t of each
    fold, marked under the curve.
    Source: Virk et al. 2024, Figure 7. Its caption says arithmetic mean and the text says geometric mean, so
    give both.
    """
    largest = max(t for pairs in skill.values() for t, _ in pairs if t is not None)
    every = largest + max(2, round(largest * 0.12))
    figure, (above, axes) = panels(5.2, 3.8, 2, 1, sharex=True, height_ratios=(1, 3.4))
    counts = np.bincount(np.minimum(lengths, largest + 1), minlength=largest + 2)[1:]
    _count_above(above, [*range(1, largest + 1), every], counts, 0.85, "generations\nof length t")
    if counts[-1]:
        small_text(above, every, float(counts[-1] + 0.04 * counts.max()), "longer")
    axes.axhline(0.0, color=MUTED, linewidth=0.9)
    small_text(axes, every + 0.9, 0.0, "base rate", ha="right", color=MUTED)
    for (name, pairs), color, line in zip(skill.items(), (FIRST, SECOND, INK), LINES, strict=False):
        first = [pair for pair in pairs if pair[0] is not None]
        axes.plot(
            *zip(*first, strict=True), color=color, linestyle=line, marker="o", markersize=3, label=name
        )
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
    axes.set(xlim=(0.2, every + 1), xlabel="t, number of first tokens that count", ylabel="skill score")
    head(above, title, f"n = {len(lengths):,}", "Platt on p, out of fold")
    legend_below(figure, axes, len(skill) + 1)
    return figure


def draw_token_positions(data: TokenPositions, *, title: str) -> Figure:
    """How probable the model found its own tokens, by their position: mean, median and quartiles.

    Upper panel: how many generations reach the position. Only long ones contribute at the right.
    Source: Virk et al. 2024, Figure 6.
    """
    figure, (above, axes) = panels(5.2, 3.8, 2, 1, sharex=True, height_ratios=(1, 3.4))
    _count_above(above, data.position, data.n, 0.85, "generations")
    looks: dict[str, Any] = {"color": FILL, "alpha": 0.65, "linewidth": 0, "label": "middle half"}
    axes.fill_between(data.position, data.low, data.high, **looks)
    axes.plot(data.position, data.median, color=FIRST, marker="o", markersize=3.0, label="median")
    second: dict[str, Any] = {"color": SECOND, "marker": "s", "markersize": 2.6, "linestyle": LINES[1]}
    axes.plot(data.position, data.mean, label="mean", **second)
    axes.set(ylim=(0, 1.02), xlim=(0.4, float(data.position[-1]) + 0.6))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set(xlabel="token position", ylabel="token probability")
    head(above, title, f"n = {int(data.n[0]):,} generations")
    legend_below(figure, axes)
    return figure


def draw_example(answers: Sequence[tuple[str, bool, float, float]]) -> Figure:
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
    head_all(figure, "Equal before, apart after")
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
    for (name, pairs), looks in zip(skill.items(), _CURVES, strict=False):
        x, y = np.array(pairs).T
        axes.plot(x, y, linewidth=1.4, label=name, **looks)
        at = float(np.interp(fitted[name], x, y))
        axes.plot(fitted[name], at, color=looks["color"], marker="o", markersize=5, linestyle="none")
        axes.axhline(platt[name], linewidth=0.6, alpha=0.7, **looks)
    axes.set(xlabel="temperature of the whole softmax", ylabel="raw skill score")
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
    _diagonal(left, "calibrated")
    for (name, (confidence, share)), looks in zip(by_bin.items(), _CURVES, strict=False):
        full, drawn = over_m[name]
        left.plot(confidence, share, label=name, marker="o", markersize=3.0, **looks)
        right.plot(numbers, full, label=name, marker="o", markersize=3.0, **looks)
        bounds = drawn.min(axis=0), drawn.max(axis=0)
        right.fill_between(numbers, *bounds, color=looks["color"], alpha=0.2, linewidth=0)
    left.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability of a token, by bin", ylabel="share that occurs")
    right.set(xscale="log", yscale="log", xlabel="M, number of bins", ylabel="Full-ECE")
    right.set_xticks(numbers, [str(m) for m in numbers])
    right.minorticks_off()
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
    two = len(skill) == 2
    figure, (axes,) = panels(WIDTH, _REST + _ROW * len(names) * (1.25 if two else 1.0))
    axes.grid(visible=False, axis="y")
    lowest = 0.0
    for at, ((name, series), color) in enumerate(zip(skill.items(), (FIRST, SECOND), strict=False)):
        known = [(row, one) for row, one in enumerate(series) if one is not None and one.value is not None]
        bounds = ((one.value, one.low, one.high) for _, one in known)
        value, low, high = np.array(
            [(v, v if a is None else a, v if b is None else b) for v, a, b in bounds], dtype=np.float64
        ).T
        lowest = min(lowest, float(low.min()) - 0.02)
        y = np.array([row for row, _ in known]) + (_APART * (at - 0.5) if two else 0.0)
        spread = np.maximum([value - low, high - value], 0.0)
        looks: dict[str, Any] = {**_errorbars(color), "marker": "oD"[at], "markersize": 4.0}
        axes.errorbar(value, y, xerr=spread, linestyle="none", label=name, **looks)
        # The first series' numbers above its dots, the second's below: between the two there is no room.
        side, aligned = (-0.09, "bottom") if at == 0 else (0.09, "top")
        for x, place in zip(value, y, strict=True):
            small_text(axes, float(x), float(place) + side, f"{x:+.2f}", color=color, va=aligned)
    axes.set_yticks(np.arange(len(names)), names)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set(ylim=(len(names) - 0.5, -0.6), xlim=(lowest, None))
    axes.set_xlabel("Brier skill score, out of fold (0: always the base rate, 1: perfect)")
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
        lines, measure = first["Lines"], "arithmetic-mean"
        others = [one for one in bare if one.model == lines.model and not one.why]
        wanted = [("docstring, rescaled", lines, ON_LN_P)]
        wanted += [("no docstring, rescaled", one, ON_LN_P) for one in others]
        wanted.append(("docstring, raw", lines, RAW))
        diagrams = [
            _diagram_of(title, one, measure, line, f"by {one.answers.judge}; ") for title, one, line in wanted
        ]
        draw = partial(draw_diagrams, diagrams, {"docstring": _roc_of(lines, measure)})
        yield headings.picture("spiess.figure-5", "spiess-figure-5", draw, model=lines.model)
    pairs = {
        (words, column): (_reliability(cell, name), _reliability(cell, name, ON_LN_P))
        for name, words in _MEASURES.items()
        for column, cell in first.items()
        if cell.row(name) is not None
    }
    models = "; ".join(f"{column}: {cell.model}, by {cell.answers.judge}" for column, cell in first.items())
    draw = partial(draw_grid, list(_MEASURES.values()), list(first), pairs)
    yield headings.picture("spiess.figure-6", "spiess-figure-6", draw, models=models)
    asked = ("HumanEval", ON_LN_P), ("MBPP", ON_LN_P), ("HumanEval", RAW)
    if all(name in first and first[name].row("ask") is not None for name, _ in asked):
        diagrams = [
            _diagram_of(f"{name}, {'raw' if line == RAW else 'rescaled'}", first[name], "ask", line)
            for name, line in asked
        ]
        draw = partial(draw_diagrams, diagrams)
        yield headings.picture("spiess.figure-7", "spiess-figure-7", draw)
    cells = [cell for found in columns.values() for cell in found]
    scores = {
        f"rescaled {words}": {"ours": list(against_auc(cells, score)), "published, GPT-3.5": printed[score]}
        for score, words in (("ece", "ECE"), ("skill", "skill score"))
    }
    yield headings.picture("spiess.figure-8", "spiess-figure-8", partial(draw_against_auc, scores))
    curves = {f"{column}, {cell.model}": _roc_of(cell, "total") for column, cell in first.items()}
    yield headings.picture("spiess.roc", "spiess-roc", partial(draw_roc, curves))


def _reliability(cell: Cell, measure: str, rescaling: str = RAW) -> ReliabilityData:
    row = cell.known(measure, rescaling, "" if rescaling == RAW else RANDOM)
    with quietly():
        return reliability(row.confidence, row.correct, resamples=1)  # the band is not drawn


def _area(cell: Cell, measure: str) -> float:
    """AUC of the raw measure: folds of a rescaled one differ."""
    area = cell.known(measure).auc
    return (area and area.value) or 0.5


def _roc_of(cell: Cell, measure: str) -> Roc:
    row = cell.known(measure, ON_LN_P, RANDOM)
    return Roc.of(row.confidence, row.correct, _area(cell, measure))


def _diagram_of(title: str, cell: Cell, measure: str, rescaling: str, note: str = "") -> Diagram:
    row = cell.known(measure, rescaling, "" if rescaling == RAW else RANDOM)
    ece = "–" if row.ece is None else f"{row.ece.value:.2f}"
    numbers = f"AUC {_area(cell, measure):.2f}, ECE {ece}, skill {row.skill.value or 0.0:+.2f}"
    return title, note + numbers, _reliability(cell, measure, rescaling)


def against_auc(cells: Iterable[Cell], score: str) -> Iterator[tuple[float, float]]:
    """(AUC, score) of the study's measures of each cell after its rescaling. score: "skill" or "ece"."""
    for cell in cells:
        if cell.why or cell.answers.right < FEWEST_TO_TEST:
            continue
        for measure in _MEASURES:
            row = cell.row(measure, ON_LN_P, RANDOM)
            found = None if row is None else getattr(row, score)
            if found is not None:
                yield _area(cell, measure), found.value
