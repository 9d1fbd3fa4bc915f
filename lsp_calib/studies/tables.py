"""Tables and the words of numbers: Markdown, CSV, and for the terminal."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
from rich.table import Table as RichTable

from lsp_calib.calibration.validation import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lsp_calib.terminal import Console


@attrs.frozen
class Table:
    """A table in words. title: above it, "" for none. note: a sentence below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def _for_files(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", name)


@attrs.frozen(eq=False)
class Picture:
    """A figure. stem: the name of its file, without what a name or an address may not hold. alt: what it
    shows, in words."""

    stem: str = attrs.field(converter=_for_files)
    alt: str
    draw: Callable[[], Figure]


@attrs.frozen(eq=False)
class Section:
    """A part of the page. folded: whether a reader has to open it."""

    title: str
    lead: str
    parts: Sequence[Table | Picture]
    folded: bool = False


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table's lines in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (columns, *rows)]
    return [lines[0], "|" + "---|" * len(columns), *lines[1:]]


def titled_lines(found: Iterable[Table]) -> list[str]:
    """Tables in Markdown, each below its title."""
    return [
        line for one in found for line in (f"## {one.title}", "", *table_lines(one.columns, one.rows), "")
    ]


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as comma-separated text; None is empty."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def print_tables(found: Iterable[Table], console: Console, whole: int = 0) -> None:
    """For the terminal. whole: so many columns from the left are not wrapped."""
    for one in found:
        table = RichTable(title=one.title)
        for at, column in enumerate(one.columns):
            table.add_column(column, no_wrap=at < whole)
        for row in one.rows:
            table.add_row(*row)
        console.print(table)


def percent(share: float) -> str:
    """A share as whole per cent."""
    return f"{100 * share:.0f} %"


def ranged(interval: Interval | None, digits: int = 2, *, sign: bool = True) -> str:
    """A value with its interval, a dash for None."""
    if interval is None or interval.value is None:
        return "–"
    return f"{interval:{'+' if sign else ''}.{digits}f}".replace("-", "−")


BAND = "ECE; a calibrated score would show"
"""The name of a column of `banded`."""


def banded(interval: Interval | None, digits: int = 2) -> str:
    """An ECE and what a calibrated score would show, for a column that says so: "0.34; 0.02 to 0.07"."""
    return "–" if interval is None or interval.value is None else f"{interval:.{digits}f}"


def with_band(interval: Interval | None, digits: int = 2) -> str:
    """The same in a sentence.

    >>> with_band(Interval(0.34, 0.02, 0.07, "calibrated-band"))
    '0.34; a calibrated score would show 0.02 to 0.07'
    """
    return banded(interval, digits).replace("; ", "; a calibrated score would show ")
