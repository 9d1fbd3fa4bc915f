"""How well the probabilities in blocks are calibrated: that all lines up to a line are right.

    python tests/programs/block_calibration.py PROJECT... --model NAME --stretches 300 --output FILE
    python tests/programs/block_calibration.py --output FILE
    python tests/programs/block_calibration.py PROJECT... --output FILE --first-lines RECORDS [--least 0.5]

The places are the beginnings of lines, after their indentation, in stretches of the source of projects: one
stretch of a file, drawn at random, in which the model's window stands still, so that the next place costs no
more than it does an editor. At each place the lines from there to the end of the scope (as `completion.block`
finds it) are removed, and everything below as well (--condition writing-on). The block is made by the
functions that serve an editor, but without their limit of time. FILE keeps a line of JSON for each place,
without source, and a run goes on with those it holds; without projects the tables alone are printed again.
Processes that share the work write files of their own; `cat` makes one of them.

Below the first, the lines from one on that would be rejected, or has no probability, are left out.

Use projects that the calibrator was not fitted on. A line that is right is the one that was there, its
indentation included, below lines that are all right. The probability of a line beyond the removed ones counts
as wrong.

--first-lines completes the first lines of FILE's blocks once more, those that were promised --least, and
keeps records of them with features: another calibrator can be judged by these (`blind.py RECORDS`). A line
that another calibrator accepts had nearly always more than that.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from offered_lines import parser_of

from lsp_calib.calibration.arrays import quietly
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.validation import bootstrap_mean, summarise
from lsp_calib.commands.records import collect_records
from lsp_calib.completion import block
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.prompt import Layout, LayoutChooser, Surroundings, WindowSize
from lsp_calib.completion.related_code import Nearby, _Place
from lsp_calib.completion.service import Completion, CompletionService
from lsp_calib.corpus.asking import AskingOptions
from lsp_calib.corpus.places import (
    INSERTING,
    WRITING_ON,
    LineItem,
    Task,
    is_asked_for,
    lines_of_scope,
    plain,
    surroundings_of,
    without_below,
)
from lsp_calib.corpus.source import read_lines_of, source_files
from lsp_calib.inference import open_engine
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.models.cards import load_cards
from lsp_calib.syntax import prose_lines
from lsp_calib.values import Tier

_LANGUAGE = "python"
# Lines of a stretch. Elsewhere than at the top of a file the window moves sooner.
_LONGEST = 24

Row = dict[str, Any]


def stretches(root: Path, layout: Layout, *, writing_on: bool, seed: int = 1) -> Iterator[list[LineItem]]:
    """Of each file of a project a stretch of places for which the prompt begins alike, in a random order."""
    rng = random.Random(f"{seed}:{root.name}")
    files = list(source_files(root))
    rng.shuffle(files)
    for path in files:
        lines = read_lines_of(path, _LANGUAGE)
        prose = prose_lines(lines, _LANGUAGE)
        asked = [at for at, line in enumerate(lines) if at not in prose and is_asked_for(line)]
        if not asked:
            continue
        items = [place(root, path, lines, at, writing_on=writing_on) for at in asked]
        drawn = _Place.of(rng.choice(items).cursor, layout)
        alike = [item for item in items if _Place.of(item.cursor, layout) == drawn]
        yield [item for item in alike if item.cursor.line < alike[0].cursor.line + _LONGEST]


def item_at(
    root: Path, group: str, path: Path, lines: Sequence[str], at: int, column: int, stratum: str
) -> LineItem:
    """A place of a file, as `sample_lines` makes it."""
    name, shown = path.relative_to(root).as_posix(), [*lines[:at], lines[at][:column], *lines[at + 1 :]]
    cursor = Cursor.at(shown, at, column, _LANGUAGE)
    id_ = f"{group}/{name}:{at + 1}:{column + 1}"
    return LineItem(id_, group, stratum, cursor, lines[at][column:], root=str(root), name=name)


def place(root: Path, path: Path, lines: Sequence[str], at: int, *, writing_on: bool) -> LineItem:
    """The beginning of a line, in a document without the block that begins there."""
    indentation = len(lines[at]) - len(lines[at].lstrip())
    item = item_at(root, root.name, path, lines, at, indentation, "after-indentation")
    return without_block(item, len(true_block(item, lines)), writing_on=writing_on)


def true_block(item: LineItem, lines: Sequence[str]) -> list[str]:
    """The lines that belong to the block that begins at the item's place. lines: of the whole file."""
    first = item.cursor.before + item.target
    below = lines[item.cursor.line + 1 :]
    return [first, *below[: lines_of_scope(first, below)]][: block.MOST_LINES]


def without_block(item: LineItem, length: int, *, writing_on: bool) -> LineItem:
    """The item in a document without the block."""
    cursor, lines = item.cursor, tuple(item.cursor.lines)
    rest = lines[cursor.line + length :]
    shown = Cursor.at(
        (*lines[: cursor.line], cursor.before, *rest), cursor.line, cursor.column, cursor.language
    )
    return attrs.evolve(item, cursor=without_below(shown) if writing_on else shown)


def judged(
    made: tuple[Completion, ...], truth: Sequence[str], estimator: ConfidenceEstimator
) -> dict[str, list[Any]]:
    """Of each line of a block the probability that all up to it are right, its tier, and whether they are."""
    right: list[bool] = []
    for at, line in enumerate(made):
        same = at < len(truth) and line.expected_line.rstrip() == truth[at].rstrip()
        right.append(same and (right[-1] if right else True))
    products = block._product(made)
    tiers = [estimator.tier(p, made[0].suggestion.confidence)[0].value for p in products]
    unlikely = (at for at in range(1, len(made)) if products[at] is None or tiers[at] == Tier.REJECT.value)
    end = next(unlikely, len(made))
    shown = [None if p is None else round(p, 4) for p in products[:end]]
    return {"p": shown, "tier": tiers[:end], "right": right[:end]}


async def ask(runs: Sequence[list[LineItem]], given: argparse.Namespace) -> None:
    """Ask for the places of each stretch in turn that the file does not hold."""
    block.WITHIN = math.inf
    file: Path = given.output
    known = {row["item"] for row in rows_of(file)}
    store = CalibratorStore.open()
    estimator = ConfidenceEstimator(store)
    asked: dict[str, LineItem] = {}

    def find(document: str, cursor: Cursor, layout: Layout) -> Any:
        item = asked[document]

        def found() -> Surroundings:
            return surroundings_of(attrs.evolve(item, cursor=cursor), layout)

        return found

    engine = open_engine(EngineChoice(model=given.model, threads=given.threads))
    layouts = LayoutChooser(store.has_labels, WindowSize(given.window))
    service = CompletionService(engine, estimator, layout_of=layouts.of, nearby=Nearby(find))
    try:
        for items in runs:
            document = items[0].id
            for item in items:
                if item.id in known:
                    continue
                asked[document] = item
                found = await block_at(service, item.cursor, document)
                truth = true_block(item, (Path(item.root) / item.name).read_text("utf-8").split("\n"))
                row = {"item": item.id, "group": item.group, "condition": given.condition}
                row |= {"truth": len(truth), **judged(found, truth, estimator)}
                with file.open("a") as output:
                    output.write(json.dumps(row) + "\n")
            service.forget(document)
    finally:
        await engine.close()


async def block_at(service: CompletionService, cursor: Cursor, document: str) -> tuple[Completion, ...]:
    """The block that an editor would get; empty if there is no completion at all."""
    first = await service.complete(cursor, document=document)
    if not isinstance(first, Completion):
        return ()
    lines, failure = await block.lines_of(lambda cursor: service.complete(cursor, document=document), first)
    if failure is not None:
        raise failure
    return lines


def first_lines(rows: Sequence[Row], projects: Sequence[Path], least: float) -> Task:
    """The places of blocks whose first line was promised at least so much."""
    roots = {path.name: path for path in projects}
    likely = [row for row in rows if row["p"] and row["p"][0] is not None and row["p"][0] >= least]
    items = []
    for row in likely:
        name, line, column = row["item"].rsplit(":", 2)
        group, _, below = name.partition("/")
        path, stratum = roots[group] / below, "after-indentation" if int(column) > 1 else "line-start"
        lines = read_lines_of(path, _LANGUAGE)
        item = item_at(roots[group], group, path, lines, int(line) - 1, int(column) - 1, stratum)
        items.append(item.writing_on() if row["condition"] == WRITING_ON else item.new_line())
    return Task("line", tuple((item.id, plain(item)) for item in items))


def rows_of(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def tables(rows: Sequence[Row]) -> str:
    """What the probabilities are worth, by line, and of all lines after the first, by tier."""
    blocks = [row for row in rows if len(row["p"]) > 1]
    every = range(block.MOST_LINES)
    text = [
        "| up to line | lines | right | promised | skill | ECE; if calibrated | accepted @ right |",
        "|---|--:|--:|--:|---|---|---|",
    ]
    for name, source, wanted in (
        ("1, of all", rows, every[:1]),
        ("1, of a block of two lines and more", blocks, every[:1]),
        ("2", blocks, every[1:2]),
        ("3", blocks, every[2:3]),
        ("4 to 12", blocks, every[3:]),
        ("2 to 12", blocks, every[1:]),
        ("the last, so the whole block", [last(row) for row in blocks], every),
    ):
        lines = [line for row in source for line in _lines(row, wanted)]
        if lines:
            text.append("| " + " | ".join([name, *_cells(lines)]) + " |")
    given_right = [
        (now / before, right, row["group"], tier)
        for row in blocks
        for (before, now), right, ready, tier in zip(
            itertools.pairwise(row["p"]), row["right"][1:], row["right"], row["tier"][1:], strict=False
        )
        if ready
    ]
    if given_right:
        cells = _cells(given_right)[:-1]
        text.append("| " + " | ".join(["a line's own, below lines that are all right", *cells, ""]) + " |")
    text += ["", "| after the first | lines | right | promised |", "|---|--:|--:|--:|"]
    for tier in Tier:
        of_tier = [line for row in blocks for line in _lines(row, every[1:]) if line[3] == tier.value]
        if of_tier:
            p, right, groups, _ = zip(*of_tier, strict=True)
            share = bootstrap_mean(right, groups)
            bounds = "" if share.low is None else f" ({share.low:.0%} to {share.high:.0%})"
            text.append(f"| {tier.value} | {len(of_tier)} | {share.value:.0%}{bounds} | {np.mean(p):.0%} |")
    return "\n".join(text)


def counted(rows: Sequence[Row]) -> str:
    """How many places and blocks there are."""
    blocks = sum(len(row["p"]) > 1 for row in rows)
    projects = len({row["group"] for row in rows})
    return f"{len(rows):,} places of {projects} projects, {blocks} blocks of two lines and more"


def last(row: Row) -> Row:
    return {**row, **{key: row[key][-1:] for key in ("p", "right", "tier")}}


def _lines(row: Row, wanted: range) -> list[tuple[float, bool, str, str]]:
    """The lines of a block with these numbers: probability, whether all up to it are right, project, tier."""
    found = zip(row["p"], row["right"], row["tier"], strict=True)
    return [(p, right, row["group"], tier) for at, (p, right, tier) in enumerate(found) if at in wanted]


def _cells(lines: Sequence[tuple[float, bool, str, str]]) -> list[str]:
    p, right, groups, tiers = map(np.array, zip(*lines, strict=True))
    cells = [str(right.size), f"{right.mean():.0%}", f"{p.mean():.0%}", "", ""]
    if 0 < right.sum() < right.size:
        with quietly():
            found = summarise(p, right.astype(np.bool_), groups)
        cells[3:] = [format(found["skill"], "+.2f"), format(found["ece"], ".3f")]
    accepted = right[tiers == Tier.ACCEPT.value]
    cells.append(f"{accepted.size / right.size:.0%} @ {accepted.mean():.0%}" if accepted.size else "none")
    return cells


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("projects", nargs="*", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--window", choices=[size.value for size in WindowSize], default="large")
    parser.add_argument("--condition", choices=[INSERTING, WRITING_ON], default=WRITING_ON)
    parser.add_argument("--stretches", type=int, default=100)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--first-lines", type=Path, metavar="RECORDS")
    parser.add_argument("--least", type=float, default=0.5)
    given = parser.parse_args()
    if given.first_lines is not None:
        task = first_lines(rows_of(given.output), given.projects, given.least)
        window = WindowSize(given.window)
        asking = AskingOptions(say=print, model=given.model, threads=given.threads, window=window)
        collect_records(task, given.first_lines, asking)
        return
    if given.projects:
        layout = Layout.of(load_cards()[given.model], WindowSize(given.window))
        drawn = [stretches(path, layout, writing_on=given.condition == WRITING_ON) for path in given.projects]
        # The projects by turns, so that an unfinished run is of all of them.
        turns = itertools.zip_longest(*drawn)
        runs = (run for turn in turns for run in turn if run is not None)
        asyncio.run(ask(list(itertools.islice(runs, given.stretches)), given))
    rows = rows_of(given.output)
    print(counted(rows), tables(rows), sep="\n\n")


if __name__ == "__main__":
    main()
