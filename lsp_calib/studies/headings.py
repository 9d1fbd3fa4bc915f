"""What the page says around its numbers: titles, sentences and columns, from `headings.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from lsp_calib.studies.tables import Picture, Section, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@functools.cache
def words(study: str) -> dict[str, Any]:
    """What the file holds of a study: its caveats, and its parts by name."""
    text = resources.files(__package__).joinpath("headings.toml").read_text("utf-8")
    found: dict[str, Any] = tomllib.loads(text)[study]
    return found


def _part(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """A part named "study.part", the values filled into its sentences."""
    study, part = name.split(".")
    found = words(study)[part].items()
    return {key: value.format(**values) if isinstance(value, str) else value for key, value in found}


def table(part: str, rows: Iterable[Sequence[str]], /, more: Iterable[str] = (), **values: Any) -> Table:
    """more: further columns behind those of the file."""
    found = _part(part, values)
    columns = (*found["columns"], *more)
    return Table(found.get("title", ""), columns, tuple(map(tuple, rows)), found.get("note", ""))


def section(part: str, parts: Iterable[Table | Picture], /, **values: Any) -> Section:
    found = _part(part, values)
    return Section(found["title"], found.get("lead", ""), tuple(parts), found.get("folded", False))


def picture(part: str, stem: str, draw: Callable[[], Figure], /, **values: Any) -> Picture:
    return Picture(stem, _part(part, values)["alt"], draw)
