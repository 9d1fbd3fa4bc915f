"""The ablation as tables: Markdown, CSV, JSON, and for the terminal; and as figures."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_calib.calibration.reliability import reliability
from lsp_calib.calibration.validation import BoundedError, Interval
from lsp_calib.evaluation.ablation import TARGETS, Ablation, Row, Share
from lsp_calib.evaluation.report import Table, csv_text, percent, print_tables, quality, titled_lines
from lsp_calib.files import replace_file

if TYPE_CHECKING:
    from lsp_calib.terminal import Console

NOTE = (
    "Out of fold: whole projects (files, where there are fewer than three projects) are left out of the "
    "fit and of every choice. Skill: Brier skill score, with its 95 % interval by bootstrap over them. "
    "ECE: with its limit in brackets; a calibrated score stays within the limits of all places and of "
    "each kind of place at once with 95 % probability; ! marks a value above its limit. Accept and "
    "reject: by the balanced preset. At 90 % and at 95 %: the share accepted by a threshold that reaches "
    "this precision on the other folds, and the precision found. In brackets: the one-sided 95 % lower "
    "bound of the share that is right (exact binomial, lines taken as independent)."
)

MOST = 2
"""The most ablations that a figure shows."""

_QUALITY = (
    *("evidence", "skill", "AUC", "accept: share, right", "reject: share, right"),
    *(f"at {target:.0%}".replace("%", " %") for target in TARGETS),
)


def tables(ablation: Ablation) -> list[Table]:
    """Three tables: the quality of each row, its calibration error by kind of place, and the quality of the
    last row in each condition."""
    costs = ["" if row.cost_ms is None else f"{row.cost_ms:.1f}" for row in ablation.rows]
    quality = [_quality(row) for row in ablation.rows]
    columns = _QUALITY
    if any(costs):
        columns = (*columns, "ms")
        quality = [[*cells, cost] for cells, cost in zip(quality, costs, strict=True)]
    parts = list(dict.fromkeys(part for row in ablation.rows for part in row.errors))
    return [
        (f"{ablation.model}: evidence", columns, quality),
        (
            f"{ablation.model}: calibration error",
            ("evidence", *parts),
            [[row.name, *(_error(row, row.errors.get(part)) for part in parts)] for row in ablation.rows],
        ),
        (
            f"{ablation.model}: {ablation.rows[-1].name if ablation.rows else 'nothing'}, by condition",
            CONDITION_COLUMNS,
            condition_rows(ablation),
        ),
    ]


CONDITION_COLUMNS = (
    *("condition", "asked, with an answer", "right of those asked"),
    *("skill", "AUC", "ECE (calibrated)", "accept: share, right", "reject: share, right"),
)


def condition_rows(ablation: Ablation) -> list[list[str]]:
    """A row for each condition of the ablation's items."""
    return [
        [
            condition,
            f"{part.asked}, {part.n}",
            f"{part.n_correct} ({percent(part.n_correct / part.asked)})",
            *quality(part.metrics),
            share(part.tiers["accept"], least=True),
            share(part.tiers["reject"]),
        ]
        for condition, part in ablation.parts.items()
    ]


def summary(ablation: Ablation) -> str:
    """The items, in a sentence."""
    n, right = ablation.correct.size, int(ablation.correct.sum())
    left_out = ablation.left_out
    apart = f" {left_out} further lines, of held-out projects, are left out." if left_out else ""
    groups = f"{len(set(ablation.groups))} {'files' if ablation.by_file else 'projects'}"
    return (
        f"{ablation.model} ({ablation.header.model.quantisation}), prompt {ablation.header.prompt_version}: "
        f"{n} of {ablation.asked} lines of {groups} had an answer, {right} right ({percent(right / n)})."
        f"{apart}"
    )


def markdown(ablations: Sequence[Ablation]) -> str:
    lines = ["# Evidence and confidence", "", NOTE, ""]
    for ablation in ablations:
        lines += [summary(ablation), "", *titled_lines(tables(ablation))]
    return "\n".join(lines)


def comma_separated(ablations: Sequence[Ablation]) -> str:
    """One line for each number, with its interval or limit."""
    numbers = (
        (ablation.model, ablation.header.prompt_version, row.name, *number)
        for ablation in ablations
        for row in ablation.rows
        for number in _numbers(row)
    )
    return csv_text((("model", "prompt", "evidence", "metric", "value", "low", "high"), *numbers))


def write(ablations: Sequence[Ablation], folder: Path) -> None:
    """confidence.md, confidence.csv and confidence.json in `folder`. Raises DataError if they cannot be
    written."""
    document = {"schema": 1, "ablations": [ablation.to_json() for ablation in ablations]}
    replace_file(folder / "confidence.md", markdown(ablations))
    replace_file(folder / "confidence.csv", comma_separated(ablations))
    replace_file(folder / "confidence.json", json.dumps(document, indent=2) + "\n")


def draw(ablations: Sequence[Ablation], folder: Path, suffix: str = ".svg") -> list[Path]:
    """The ablation's figure, and a reliability diagram of each ablation's last row, for light and dark pages.

    Raises DataError if matplotlib is not installed, a file cannot be written, or for more than two ablations.
    """
    from lsp_calib.evaluation.figures import draw_reliability, save_both

    files = draw_steps(ablations, folder / f"confidence-ladder{suffix}")
    for name, ablation in zip(_names(ablations), ablations, strict=True):
        last = ablation.rows[-1]
        diagram = partial(
            draw_reliability,
            reliability(last.confidence, ablation.correct),
            title=f"{name}: {last.name}",
            note=f"skill {last.metrics['skill']:+.2f}",
        )
        # A name may hold what no file name may: that of a remote model, a slash.
        stem = re.sub(r"[^\w.+-]+", "-", name)
        files += save_both(diagram, folder / f"confidence-reliability-{stem}{suffix}")
    return files


def draw_steps(ablations: Sequence[Ablation], path: Path) -> list[Path]:
    """The ablation's figure alone; its description is `checksum`. Raises DataError as `draw` does."""
    from lsp_calib.evaluation.figures import draw_ablation, save_both

    figure = partial(
        draw_ablation,
        *_steps(ablations),
        [ablation.correct.size for ablation in ablations],
        title="What each step of evidence adds",
        note="out of fold by project; 95 % intervals",
    )
    return list(save_both(figure, path, checksum(ablations)))


def checksum(ablations: Sequence[Ablation]) -> str:
    """16 hexadecimal digits that change with anything that the ablation's figure shows."""
    names, series = _steps(ablations)
    shown = [
        [
            model,
            name,
            *(None if bound is None else f"{bound:.3f}" for bound in (item.low, item.value, item.high)),
        ]
        for model, items in series.items()
        for name, item in zip(names, items, strict=True)
        if item is not None
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def print_ablations(ablations: Sequence[Ablation], console: Console) -> None:
    for ablation in ablations:
        console.print(summary(ablation))
        print_tables(tables(ablation), console)
    console.print(NOTE)


def _steps(ablations: Sequence[Ablation]) -> tuple[list[str], Mapping[str, list[Interval | None]]]:
    """The rows' names over all ablations, in order, and each ablation's skill by row."""
    names = list(dict.fromkeys(row.name for ablation in ablations for row in ablation.rows))
    series: dict[str, list[Interval | None]] = {}
    for shown, ablation in zip(_names(ablations), ablations, strict=True):
        skill = {row.name: row.metrics["skill"] for row in ablation.rows}
        series[shown] = [skill.get(name) for name in names]
    return names, series


def _names(ablations: Sequence[Ablation]) -> list[str]:
    """What each ablation is called: its model; with its prompt where there are several of the model; with its
    number where that is not enough either."""
    names = [ablation.model for ablation in ablations]
    if len(set(names)) < len(names):
        prompts = [f"{ablation.model}, {ablation.header.prompt_version}" for ablation in ablations]
        names = [
            long if names.count(short) > 1 else short for short, long in zip(names, prompts, strict=True)
        ]
    return [
        f"{name} ({names[:at].count(name) + 1})" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    ]


def _quality(row: Row) -> list[str]:
    return [
        row.name,
        *quality(row.metrics)[:2],
        share(row.tiers["accept"], least=True),
        share(row.tiers["reject"]),
        *(share(row.acceptable[target], least=True) for target in TARGETS),
    ]


def share(found: Share, *, least: bool = False) -> str:
    """A share and how much of it is right, in words."""
    if found.precision is None or found.least is None:
        return "0 %"
    bound = f" (≥ {100 * found.least:.1f})" if least else ""
    return f"{percent(found.share)}, {100 * found.precision:.1f} % right{bound}"


def _error(row: Row, error: BoundedError | None) -> str:
    if error is None:
        return ""
    if "ece" not in row.metrics:
        return "–"
    return f"{error.value:.3f} ({error.limit:.3f}){'' if error.inside else ' !'}"


def _numbers(row: Row) -> list[tuple[str, float | None, float | None, float | None]]:
    """(name, value, low, high) of all numbers of a row."""
    found = [(name, i.value, i.low, i.high) for name, i in row.metrics.items() if name != "ece"]
    if "ece" in row.metrics:
        found += [(f"ece.{place}", error.value, None, error.limit) for place, error in row.errors.items()]
    shares = {**row.tiers, **{f"at-{target:g}": found for target, found in row.acceptable.items()}}
    for name, kind in shares.items():
        found += [
            (f"{name}.share", kind.share, None, None),
            (f"{name}.right", kind.precision, kind.least, None),
        ]
    return [*found, ("cost-ms", row.cost_ms, None, None)]
