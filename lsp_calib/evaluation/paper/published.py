"""The numbers that the studies print, by table, and where they contradict each other."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
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
    """The document: for each study its `reference`, `tables` (with section and values) and `text`."""
    text = resources.files(__package__).joinpath("published.json").read_text("utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def table(study: str, name: str) -> Mapping[str, Any]:
    """The values of a table."""
    values: Mapping[str, Any] = published()[study]["tables"][name]["values"]
    return values


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


@attrs.frozen
class Discrepancy:
    """Two statements of a study that cannot both be right as printed."""

    what: str
    one: float
    other: float


def discrepancies() -> list[Discrepancy]:
    """Where Spiess et al. contradict themselves by more than the rounding of two decimals."""
    return [*_reference_scores(), *_text_against_table(), *_average(), *_margins()]


def _reference_scores() -> Iterator[Discrepancy]:
    """The base rate's Brier score does not depend on rescaling."""
    raw, rescaled = table(SPIESS, "5"), table(SPIESS, "6")
    for model, rows in raw.items():
        for column, cell in rows["Unskilled"].items():
            other = rescaled[model]["Unskilled"][column]["brier"]
            if cell["brier"] != other:
                yield Discrepancy(
                    f"{model} on {column}: reference Brier in Table 5 and in Table 6", cell["brier"], other
                )


def _text_against_table() -> Iterator[Discrepancy]:
    text = said(SPIESS, "scaledTotalHumanEval")
    rows = table(SPIESS, text["table"])
    best = max(rows[model][text["measure"]][text["column"]]["skill"] for model in text["model"])
    if abs(best - text["value"]) > 0.005:
        yield Discrepancy(
            f"Best rescaled skill of the total on {text['column']}: text and Table 6", text["value"], best
        )


def _average() -> Iterator[Discrepancy]:
    """Section 8's average is that of no selection that it names: here that of all of Table 5."""
    value = said(SPIESS, "averageRawSkill")["value"]
    skills = [
        cell["skill"]
        for rows in table(SPIESS, "5").values()
        for measure, columns in rows.items()
        if measure != "Unskilled"
        for cell in columns.values()
    ]
    mean = sum(skills) / len(skills)
    if abs(mean - value) > 0.005:
        yield Discrepancy("Average raw skill: section 8 and the mean of Table 5", value, round(mean, 2))


def _margins() -> Iterator[Discrepancy]:
    cells = table(SPIESS, "4")
    sums = [
        (f"Table 4, exact match {row}: total and sum", cells[row][2], sum(cells[row][:2]))
        for row in ("false", "true", "total")
    ]
    sums += [
        (
            f"Table 4, tests passed {name}: total and sum",
            cells["total"][at],
            sum(cells[row][at] for row in ("false", "true")),
        )
        for at, name in enumerate(("false", "true", "total"))
    ]
    for what, total, summed in sums:
        if abs(total - summed) > 0.005:
            yield Discrepancy(what, total, round(summed, 2))
