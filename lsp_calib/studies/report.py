"""Scores as tables: Markdown, CSV, JSON, and for the terminal."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_calib.calibration.reliability import wilson_interval
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.calibration.validation import Interval
from lsp_calib.confidence.features import measure_name
from lsp_calib.files import replace_file
from lsp_calib.studies.scores import ALL, CHOSEN, LEAST_SKILL, Row, Scores

if TYPE_CHECKING:
    from lsp_calib.terminal import Console

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, column names, rows."""

_TIERS = ("accept", "review", "reject")


def tables(scores: Scores) -> list[Table]:
    """The tables, in order."""
    found: list[Table] = []
    for judge in scores.first:
        rows = [row for row in scores.rows if row.judge == judge]
        rescaled = [row for row in rows if row.measure == scores.best and row.rescaled]
        whole = [row for row in rows if row.stratum == ALL and row.part == "fit"]
        found += [
            (
                f"Right: {judge}",
                ("items", "place", "n", "right", "skill", "AUC", "ECE (if calibrated)"),
                [
                    [row.part, row.stratum, str(row.n), _count(row.n_correct, row.n), *quality(row.metrics)]
                    for row in rescaled
                ],
            ),
            (
                f"Right: {judge}, by measure (out of fold)",
                ("measure", "", "skill", "AUC", "ECE (if calibrated)"),
                [
                    [_measure(scores, row), "rescaled" if row.rescaled else "raw", *quality(row.metrics)]
                    for row in whole
                ],
            ),
            (
                f"Right: {judge}, by tier",
                ("items", "place", *(f"{tier}: share, right" for tier in _TIERS)),
                [[row.part, row.stratum, *(_tier(row, tier) for tier in _TIERS)] for row in rescaled],
            ),
        ]
    if scores.cross:
        n = sum(scores.cross.values())
        found.append(
            (
                "Exact match against tests",
                ("n", *scores.cross),
                [[str(n), *(_count(k, n) for k in scores.cross.values())]],
            )
        )
    return found


def summary(scores: Scores) -> list[str]:
    """The task, the model and the numbers of items, in sentences."""
    header = scores.header
    sources = ", ".join(f"{origin.name} {origin.version}".strip() for origin in header.sources)
    lines = [
        f"Task {header.task}, {header.language}; {header.model.name} {header.model.quantisation} "
        f"(SHA-256 {header.model.sha256[:16] or 'unknown'}), prompt {header.prompt_version}, "
        f"seed {header.seed}, {header.created or 'date unknown'}, "
        f"lsp-calib {header.package or 'of unknown version'}.",
        f"{scores.asked} items asked for, {scores.offered} with an answer that would be offered"
        + (f", {scores.doubtful} of them without believable probabilities" if scores.doubtful else "")
        + "".join(f"; right ({judge}): {count}" for judge, count in scores.right.items())
        + ".",
    ]
    lines += scores.notes
    for judge, chosen in scores.per_fold.items():
        folds = ", ".join("all" if t is None else str(t) for t in chosen)
        lines.append(f"First tokens chosen in each fold ({judge}): {folds}.")
    if scores.held_out:
        lines.append(f"Held out: {', '.join(scores.held_out)}.")
    if sources:
        lines.append(f"From {len(header.sources)} sources: {sources}.")
    return lines


_BALANCED = PRESETS["balanced"]
NOTE = (
    "Skill: Brier skill score, 0 is always saying the base rate, 1 is knowing. Items that are fitted on "
    "(fit) are predicted out of fold: whole groups (projects, problems) are left out of the fit and of "
    "every choice (*: which features, how many tokens); what is held out is predicted by what was fitted on "
    "all others. Intervals are 95 %, by bootstrap over groups; beside ECE stands what a perfectly calibrated "
    f"score would show; below a rescaled skill of {LEAST_SKILL:g} no ECE is given, for it would only compare "
    f"two means. Tiers: the balanced preset, accept from {100 * _BALANCED.accept_from:g} %, reject "
    f"below {100 * _BALANCED.reject_below:g} %."
)


def markdown(scores: Scores) -> str:
    lines = [f"# Evaluation: {scores.header.task}, {scores.header.model.name}", ""]
    lines += [line + "\n" for line in summary(scores)] + [NOTE, ""]
    return "\n".join([*lines, *titled_lines(tables(scores))])


def comma_separated(scores: Scores) -> str:
    """One line for each number, with its interval."""
    columns = ("part", "judge", "stratum", "measure", "rescaled", "n", "right")
    lines: list[tuple[object, ...]] = [(*columns, "metric", "value", "low", "high", "kind")]
    for row in scores.rows:
        front = (row.part, row.judge, row.stratum, row.measure, row.rescaled, row.n, row.n_correct)
        for name, interval in row.metrics.items():
            lines.append((*front, name, interval.value, interval.low, interval.high, interval.kind))
        for tier, (n, right) in row.tiers.items():
            lines.append((*front, f"{tier}.share", n / row.n, "", "", ""))
            lines.append((*front, f"{tier}.right", right / n if n else "", "", "", ""))
    return csv_text(lines)


def write(scores: Scores, folder: Path) -> None:
    """scores.md, scores.csv and scores.json in `folder`. Raises DataError if they cannot be written."""
    replace_file(folder / "scores.md", markdown(scores))
    replace_file(folder / "scores.csv", comma_separated(scores))
    replace_file(folder / "scores.json", json.dumps(scores.to_json(), indent=2) + "\n")


def print_scores(scores: Scores, console: Console) -> None:
    for line in summary(scores)[: 2 + len(scores.notes) + len(scores.per_fold)]:
        console.print(line)
    print_tables(tables(scores), console, whole=2)


def _measure(scores: Scores, row: Row) -> str:
    if row.measure == CHOSEN:
        return f"{measure_name(scores.first[row.judge])} *"
    return f"{row.measure} *" if row.measure == scores.best else row.measure


def quality(metrics: Mapping[str, Interval]) -> list[str]:
    """Skill, AUC and ECE of a confidence with their intervals, a dash where no ECE is given."""
    ece = f"{metrics['ece']:.3f}" if "ece" in metrics else "–"
    return [f"{metrics['skill']:+.2f}", f"{metrics['auc']:.2f}", ece]


def _count(k: int, n: int) -> str:
    """A number of n, its share, and the interval of that."""
    if not n:
        return "0"
    low, high = wilson_interval(k, n)
    return f"{k} ({percent(k / n)}; {100 * low:.0f} to {100 * high:.0f})"


def _tier(row: Row, tier: str) -> str:
    n, right = row.tiers[tier]
    if not n:
        return "0 %"
    low, high = wilson_interval(right, n)
    share = f"{percent(right / n)} ({100 * low:.0f} to {100 * high:.0f})"
    return f"{percent(n / row.n)}, {right}/{n} = {share}"


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table's lines in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (columns, *rows)]
    return [lines[0], "|" + "---|" * len(columns), *lines[1:]]


def titled_lines(found: Iterable[Table]) -> list[str]:
    """Tables in Markdown, each below its title."""
    return [
        line
        for title, columns, rows in found
        for line in (f"## {title}", "", *table_lines(columns, rows), "")
    ]


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as comma-separated text; None is empty."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def print_tables(found: Iterable[Table], console: Console, whole: int = 0) -> None:
    """For the terminal. whole: so many columns from the left are not wrapped."""
    from rich.table import Table as RichTable

    for title, columns, rows in found:
        table = RichTable(title=title)
        for at, column in enumerate(columns):
            table.add_column(column, no_wrap=at < whole)
        for row in rows:
            table.add_row(*row)
        console.print(table)


def percent(share: float) -> str:
    """A share as whole per cent."""
    return f"{100 * share:.0f} %"
