"""Themes: one look for all figures, on white pages and on the dark pages of an editor or a web site.

Colours are set on each artist. matplotlib's global settings and pyplot's list of open figures do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from lsp_calib.errors import DataError, install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 200
_PAD = 0.07  # inches
_SMALL, _NORMAL, _LARGE = 7.0, 8.0, 9.5


@attrs.frozen
class Theme:
    """Colours by their role. Colour-blind readers can tell first from second, also in print."""

    name: str
    paper: str
    ink: str
    muted: str
    grid: str
    fill: str
    first: str
    second: str
    band: str


# After Okabe & Ito 2008. Dark theme: lightened until text and lines have a contrast of 4.5 to the page.
LIGHT = Theme("light", "#ffffff", "#1f2328", "#59636e", "#dfe3e8", "#b5d0e8", "#0b62a4", "#c2410c", "#8c959f")
DARK = Theme("dark", "#0d1117", "#e6edf3", "#9da7b3", "#2a313a", "#274b6d", "#6cb2f0", "#ff9b5e", "#7d8793")
THEMES = (LIGHT, DARK)

# Line styles that tell curves apart without colour: solid, dashed, dotted.
LINES = ("-", (0, (4, 1.6)), (0, (1, 1.2)))

Draw = Callable[[Theme], "Figure"]


def new_figure(theme: Theme, width: float, height: float) -> Figure:
    """An empty figure (size in inches) with automatic layout and without a window.

    Raises DataError if matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise DataError(f"Figures need matplotlib ({error}). Run `{install_command('studies')}`.") from error
    layout = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD)
    figure = Figure((width, height), dpi=_DPI, facecolor=theme.paper, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def one_panel(theme: Theme, width: float, height: float) -> tuple[Figure, Axes]:
    """A figure, see `new_figure`, with one panel."""
    figure = new_figure(theme, width, height)
    axes = figure.subplots()
    style_axes(axes, theme)
    return figure, axes


def two_panels(theme: Theme, width: float, height: float) -> tuple[Figure, Axes, Axes]:
    """As `one_panel`, but a low panel of frequencies above a high one, on one horizontal axis."""
    figure = new_figure(theme, width, height)
    from matplotlib.ticker import MaxNLocator

    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 4))
    for axes in (above, below):
        style_axes(axes, theme)
    above.tick_params(axis="x", length=0, labelbottom=False)
    above.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True, steps=[1, 2, 5, 10]))
    above.yaxis.set_major_formatter("{x:,.0f}")
    return figure, above, below


def style_axes(axes: Axes, theme: Theme) -> None:
    """Draw thin grey axes, and a grid behind everything."""
    axes.set_facecolor(theme.paper)
    axes.set_axisbelow(True)
    axes.grid(color=theme.grid, linewidth=0.6)
    axes.tick_params(colors=theme.muted, labelsize=_NORMAL, length=3, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.muted)
        spine.set_linewidth(0.6)


def label_axes(axes: Axes, theme: Theme, x: str | None, y: str) -> None:
    """Label the axes."""
    if x:
        axes.set_xlabel(x, color=theme.ink, fontsize=_NORMAL + 0.5)
    axes.set_ylabel(y, color=theme.ink, fontsize=_NORMAL + 0.5)


def head(axes: Axes, theme: Theme, title: str | None, *notes: str) -> None:
    """Put a title and a line with the notes, such as counts, above the top panel."""
    axes.annotate(
        " · ".join(filter(None, notes)),
        (0.0, 1.0),
        (0.0, 5.0),
        xycoords="axes fraction",
        textcoords="offset points",
        color=theme.muted,
        fontsize=_NORMAL,
    )
    if title:
        axes.set_title(title, loc="left", pad=19, color=theme.ink, fontsize=_LARGE, fontweight="bold")


def small_text(axes: Axes, theme: Theme, x: float, y: float, text: str, **options: object) -> None:
    """Put a number in the plot, with an outline in the page colour that keeps it readable on lines."""
    from matplotlib.patheffects import withStroke

    axes.text(
        x,
        y,
        text,
        **{  # type: ignore[arg-type]
            "color": theme.ink,
            "fontsize": _SMALL,
            "ha": "center",
            "va": "bottom",
            "zorder": 6,
            "path_effects": [withStroke(linewidth=1.8, foreground=theme.paper, alpha=0.75)],
            **options,
        },
    )


def legend_below(figure: Figure, axes: Axes, theme: Theme, columns: int = 2) -> None:
    """Put the legend under the plot, where it covers no data."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=_NORMAL,
        labelcolor=theme.ink,
        handlelength=1.8,
        columnspacing=1.6,
    )


def save_both(draw: Draw, path: Path, description: str = "", dpi: int = _DPI) -> tuple[Path, Path]:
    """Draw and write a figure for light and for dark pages; returns both paths.

    draw: makes a figure from a theme, as `functools.partial(draw_reliability, data)` does.
    path: "img/skill.png" makes img/skill-light.png and img/skill-dark.png; the suffix chooses the format.
    description: kept in the metadata of a PNG or an SVG file, such as a checksum of what was drawn.
    dpi: pixels an inch.
    No date is written: with the same version of matplotlib, the same data give a PNG with the same bytes.
    Raises DataError if a file cannot be written or the format is unknown.
    """
    light, dark = (path.with_stem(f"{path.stem}-{theme.name}") for theme in THEMES)
    metadata: dict[str, str | None] = (
        {"Date": None} if path.suffix == ".svg" else {"CreationDate": None} if path.suffix == ".pdf" else {}
    )
    if description and path.suffix in (".png", ".svg"):
        metadata["Description"] = description
    for theme, file in zip(THEMES, (light, dark), strict=True):
        try:
            draw(theme).savefig(file, metadata=metadata, dpi=dpi)
        except (OSError, ValueError) as error:
            raise DataError(f"{file} cannot be written: {error}.") from error
    return light, dark
