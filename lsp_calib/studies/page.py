"""What is written of the studies: a page, tables in Markdown and as numbers, figures."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import __version__
from lsp_calib.calibration.validation import Interval
from lsp_calib.files import replace_file
from lsp_calib.report.markup import Markup, joined, prose, section, style, tag
from lsp_calib.report.markup import table as html_table
from lsp_calib.studies.published import Quoted
from lsp_calib.studies.score import Cell, RowKey, cell_json, number
from lsp_calib.studies.tables import Picture as Picture
from lsp_calib.studies.tables import Section as Section
from lsp_calib.studies.tables import Table as Table
from lsp_calib.studies.tables import csv_text, table_lines
from lsp_calib.studies.tables import ranged as ranged

NOT_RUN = "not run"
_DPI = 120
# Drawing takes most of the time; fewer figures than this are drawn before another process has started.
_FEW, _MOST_JOBS = 8, 4


@attrs.frozen(eq=False)
class Compared:
    """A cell of ours beside what a study printed.

    task: the study's. differs: in what ours is another question. cell: None if there are no records; command:
    what makes them. quoted: the study's number for a row and a metric. numbers: of `eval token`, in place of
    a cell.
    """

    task: str
    differs: str
    command: str
    cell: Cell | None
    quoted: Callable[[RowKey, str], Quoted]
    numbers: Mapping[str, Any] | None = None


@attrs.frozen(eq=False)
class Study:
    """A study repeated. compared: its cells. sections: its page. caveats: what a reader must know."""

    name: str
    title: str
    reference: str
    caveats: tuple[str, ...]
    compared: tuple[Compared, ...]
    sections: tuple[Section, ...]


@attrs.frozen
class Claim:
    """A claim of a study, and whether it holds here.

    verdict: "held", "did not hold", "cannot tell" or "not run". found: the number and interval, in words.
    """

    study: str
    where: str
    says: str
    verdict: str
    found: str

    def cells(self) -> tuple[str, ...]:
        return f"{self.study}, {self.where}", self.says, f"**{self.verdict}**", self.found


CLAIM_COLUMNS = ("study", "it says", "here", "number, 95 % interval")

LEAD = (
    "Every number is computed from records: answers of local models whose right answer was known. `raw` is a "
    "confidence as the model gives it. Rescaled ones are predicted out of fold and scored on all answers "
    "together: in `random` folds as in Spiess et al.; `apart`: whole projects, repositories or functions are "
    "left out, as in Virk et al. Intervals are 95 %, by bootstrap over these groups; beside ECE stands what "
    "a calibrated score would show. No ECE is given below a rescaled skill of 0.05, and no row where at most "
    "1 % is right. Published numbers stand in the order of the study's models."
)


def markdown(studies: Sequence[Study], claims: Sequence[Claim], notes: Sequence[str]) -> str:
    lines = ["# The studies, repeated", "", LEAD, ""]
    if claims:
        rows = [claim.cells() for claim in claims]
        lines += ["## What holds here", "", *table_lines(CLAIM_COLUMNS, rows), ""]
    for study in studies:
        lines += [f"## {study.title}", "", f"{study.reference}.", ""]
        lines += [*(f"- {caveat}" for caveat in study.caveats), ""]
        for one in study.sections:
            lines += [f"### {one.title}", "", *([one.lead, ""] if one.lead else [])]
            for part in one.parts:
                if isinstance(part, Picture):
                    lines += [f"![{part.alt}]({part.stem}.png)", ""]
                    continue
                lines += [f"**{part.title}**", ""] if part.title else []
                lines += [*table_lines(part.columns, part.rows), ""]
                lines += [part.note, ""] if part.note else []
    return "\n".join([*lines, "## Files", "", *(f"- {note}" for note in notes), ""])


_COLUMNS = (
    *("study", "task", "model", "quantisation", "language", "prompt", "condition", "right_by", "file"),
    *("asked", "n", "right", "state", "measure", "rescaling", "folds", "metric", "value", "low", "high"),
    *("published_in", "published", "differs_in"),
)


def comma_separated(studies: Sequence[Study]) -> str:
    """One line for each number, with its interval and what the study printed; one for what is not there."""
    numbers = (line for study in studies for one in study.compared for line in _numbers(study, one))
    return csv_text((_COLUMNS, *numbers))


def _numbers(study: Study, one: Compared) -> Iterator[list[object]]:
    if one.numbers is not None:
        for row in one.numbers["rows"]:
            for metric in ("ece", "classwise", "full"):
                told = (metric, f"temperature {row['temperature']:g}", "", f"M = {row['bins']}", row[metric])
                yield [study.name, one.task, *[""] * 7, *[one.numbers["positions"]] * 2, "", "scored", *told]
        return
    if one.cell is None:
        yield [study.name, one.task, *[""] * 10, NOT_RUN, *[""] * 9, one.differs]
        return
    answers = one.cell.answers
    model = answers.header.model
    front: list[object] = [
        *(study.name, one.task, model.name, model.quantisation, answers.header.language),
        *(answers.header.prompt_version, answers.condition, answers.judge, answers.file.name),
        *(answers.asked, answers.n, answers.right),
    ]
    if one.cell.why:
        yield [*front, one.cell.why, *[""] * 9, one.differs]
    for row in one.cell.rows:
        brier = Interval(row.brier, None, None)
        metrics = {"brier": brier, "skill": row.skill, "ece": row.ece, "auc": row.auc}
        for metric, interval in metrics.items():
            if interval is None and (metric == "auc" or row.measure == "unskilled"):
                continue
            found = interval or Interval(None, None, None)
            quoted = one.quoted(row.key, metric)
            numbers = "; ".join(f"{name} {value:g}" for name, value in quoted.numbers)
            state = "scored" if interval is not None else "omitted"
            yield [
                *(*front, state, *row.key, metric),
                *(number(found.value), number(found.low), number(found.high)),
                *(quoted.where if numbers else "", numbers, one.differs),
            ]
    for missing in one.cell.missing:
        yield [*front, f"{NOT_RUN}: the records do not hold it", missing, *[""] * 8, one.differs]


def as_json(studies: Sequence[Study], claims: Sequence[Claim], notes: Sequence[str]) -> dict[str, Any]:
    """Everything as JSON types."""
    return {
        "schema": 1,
        "package": __version__,
        "notes": list(notes),
        "claims": [attrs.asdict(claim) for claim in claims],
        "studies": {
            study.name: {
                "title": study.title,
                "reference": study.reference,
                "caveats": list(study.caveats),
                "cells": [_compared_json(one) for one in study.compared],
            }
            for study in studies
        },
    }


def _compared_json(one: Compared) -> dict[str, Any]:
    document: dict[str, Any] = {"task": one.task, "differsIn": one.differs}
    if one.numbers is not None:
        return {**document, "state": "scored", "numbers": dict(one.numbers)}
    if one.cell is None:
        return {**document, "state": NOT_RUN, "command": one.command}
    cell = cell_json(one.cell)
    for row, found in zip(one.cell.rows, cell["rows"], strict=True):
        quoted = {
            metric: one.quoted(row.key, metric).to_json() for metric in ("brier", "skill", "ece", "auc")
        }
        found["published"] = {metric: value for metric, value in quoted.items() if value is not None}
    return {**document, "state": "omitted" if one.cell.why else "scored", **cell}


def html(studies: Sequence[Study], claims: Sequence[Claim], notes: Sequence[str]) -> str:
    """The page: no script, no network; the figures lie beside it."""
    parts = [
        tag("header", tag("h1", "The studies, repeated"), tag("p", prose(LEAD))),
        tag("nav", *(tag("a", study.title, href=f"#{study.name}") for study in studies)),
    ]
    if claims:
        rows = [tuple(cell.replace("**", "") for cell in claim.cells()) for claim in claims]
        shown = html_table(CLAIM_COLUMNS, rows)
        parts.append(section("What holds here", None, tag("div", shown, class_="scroll")))
    for study in studies:
        caveats = tag("ul", *(tag("li", prose(caveat)) for caveat in study.caveats))
        parts.append(
            tag("section", tag("h1", study.title, id=study.name), tag("p", f"{study.reference}."), caveats)
        )
        parts += [section(one.title, one.lead or None, *map(_part, one.parts)) for one in study.sections]
    parts.append(section("Files", None, tag("ul", *(tag("li", prose(note)) for note in notes))))
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "lsp-calib: the studies, repeated"),
        tag("style", Markup(style() + _STYLE)),
    )
    page = tag("html", tag("head", head), tag("body", tag("main", *parts)), lang="en")
    return f"<!doctype html>\n{page}\n"


_STYLE = """
main { max-width: 1180px; }
nav a { margin-right: 18px; color: var(--first); }
h3 { margin: 22px 0 4px; }
th { white-space: normal; vertical-align: bottom; padding-right: 10px; }
td { vertical-align: top; padding-right: 10px; font-size: 13.5px; }
figure { display: inline-block; margin: 14px 18px 4px 0; vertical-align: top; }
figure img { max-width: 100%; width: 440px; }
figure figcaption { color: var(--muted); font-size: 13px; max-width: 440px; }
.note { color: var(--muted); font-size: 14px; max-width: 90ch; }
"""


def _part(part: Table | Picture) -> Markup:
    if isinstance(part, Picture):
        image = tag("img", src=f"{part.stem}.png", alt=part.alt, loading="lazy")
        return tag("figure", image, tag("figcaption", part.alt))
    right = tuple(at for at in range(len(part.columns)) if _numeric(part, at))
    return joined(
        tag("h3", part.title) if part.title else None,
        tag("div", html_table(part.columns, [*map(_cells, part.rows)], right=right), class_="scroll"),
        tag("p", prose(part.note), class_="note") if part.note else None,
    )


def _cells(row: Sequence[str]) -> list[Markup]:
    # An interval is not broken over lines.
    return [prose(re.sub(r"(?<=\d) to (?=[+−\d])", "\u00a0to\u00a0", cell)) for cell in row]


def _numeric(table: Table, column: int) -> bool:
    """Whether a column holds plain numbers alone."""
    cells = [row[column] for row in table.rows]
    return bool(cells) and all(set(cell) <= set("0123456789+−.–") for cell in cells)


def write(
    studies: Sequence[Study], claims: Sequence[Claim], notes: Sequence[str], folder: Path
) -> list[Path]:
    """index.html, tables.md, tables.csv, study.json and the figures; returns the files.

    Raises DataError if one cannot be written, or if matplotlib is not installed.
    """
    import joblib

    from lsp_calib.studies.figures import save

    texts = {
        "index.html": html(studies, claims, notes),
        "tables.md": markdown(studies, claims, notes),
        "tables.csv": comma_separated(studies),
        "study.json": json.dumps(as_json(studies, claims, notes), indent=1, ensure_ascii=False) + "\n",
    }
    files = []
    for name, text in texts.items():
        replace_file(folder / name, text)
        files.append(folder / name)
    pictures = [
        part for study in studies for one in study.sections for part in one.parts if isinstance(part, Picture)
    ]
    jobs = min(os.cpu_count() or 1, _MOST_JOBS) if len(pictures) > _FEW else 1
    drawn = joblib.Parallel(n_jobs=jobs)(
        joblib.delayed(save)(picture.draw, folder / f"{picture.stem}.png", dpi=_DPI) for picture in pictures
    )
    return [*files, *drawn]
