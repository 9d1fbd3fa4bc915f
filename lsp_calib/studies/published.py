"""The numbers that the studies print, by table."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import attrs

SPIESS, VIRK, FULL_ECE = "spiess", "virk", "full-ece"
# The names that Spiess et al. give to measures.
SPIESS_NAMES: Mapping[str, str] = {
    "total": "Total Prob",
    "arithmetic-mean": "Avg Prob",
    "ask": "Ask T/F",
    "normalised": "Ask T/F N",
    "verbalised": "Verbalize",
    "length": "Length",
    "unskilled": "Unskilled",
}


@functools.cache
def published() -> Mapping[str, Any]:
    """The document: for each study its `reference`, `tables` (with section and values) and `text`.

    Of Spiess et al. and Virk et al. also `discrepancies`: pairs of statements that differ by more than their
    rounding.
    """
    text = resources.files(__package__).joinpath("published.json").read_text("utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


@functools.cache
def table(study: str, name: str) -> Mapping[str, Any]:
    """The values of a table; of many cells: by model, measure (of Spiess et al.), column and metric."""
    one = published()[study]["tables"][name]
    if "values" in one:
        values: Mapping[str, Any] = one["values"]
        return values

    def named(cells: list[list[float | None]]) -> dict[str, dict[str, float | None]]:
        # CodeGen2 has fewer columns: it is not scored on repair.
        pairs = zip(one["columns"], cells, strict=False)
        return {column: dict(zip(one["metrics"], cell, strict=True)) for column, cell in pairs}

    return {
        model: named(rows) if isinstance(rows, list) else {name: named(row) for name, row in rows.items()}
        for model, rows in one["rows"].items()
    }


def said(study: str, name: str) -> Mapping[str, Any]:
    """What the text says, by name."""
    found: Mapping[str, Any] = published()[study]["text"][name]
    return found


@attrs.frozen
class Quoted:
    """What a study printed for one cell: for each of its models a number. where: the table."""

    where: str
    numbers: tuple[tuple[str, float], ...] = ()

    def words(self, digits: int = 2, sign: bool = False) -> str:
        """The numbers in the order of the models, or a dash."""
        form = f"{'+' if sign else ''}.{digits}f"
        return ", ".join(format(value, form).replace("-", "−") for _, value in self.numbers) or "–"

    def to_json(self) -> dict[str, Any] | None:
        return {"where": self.where, "numbers": dict(self.numbers)} if self.numbers else None


def quoted_from_spiess(name: str, column: str, measure: str, metric: str) -> Quoted:
    """The numbers of a table (5 to 8) for a data set, a measure of ours and a metric; none if it has none."""
    row = SPIESS_NAMES.get(measure, "")
    found = []
    for model, rows in table(SPIESS, name).items():
        value = rows.get(row, {}).get(column, {}).get(metric)
        if value is not None:
            found.append((model, float(value)))
    return Quoted(f"Table {name}", tuple(found))


def quoted_from_virk(name: str, language: str, metric: str) -> Quoted:
    """The numbers of a table (1 to 4) for a language and a metric."""
    rows = table(VIRK, name).items()
    found = tuple((model, float(one[language][metric])) for model, one in rows if language in one)
    return Quoted(f"Table {name}", found)
