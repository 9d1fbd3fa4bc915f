"""How well the probabilities in blocks are calibrated: that all lines up to a line are right.

    python tests/programs/block_calibration.py PROJECT... --model NAME --count 300 --output FILE
    python tests/programs/block_calibration.py --output FILE

The places are beginnings of lines in the source of projects, whose lines from there to the end of the scope
(as `completion.block` finds it) are removed: every other time everything below as well. The block is made by
the functions that serve an editor, but without their limit of time. FILE keeps a line of JSON for each place,
without source, and a run goes on with those it holds; without projects the table alone is printed again.

Use projects that the calibrator was not fitted on. A line that is right is the one that was there, its
indentation included. The probability of a line beyond the removed ones counts as wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.validation.intervals import summarise
from lsp_calib.calibration.warnings import quietly
from lsp_calib.completion import Completion, CompletionService, Cursor, block
from lsp_calib.completion.layouts import Layouts
from lsp_calib.completion.nearby import Nearby
from lsp_calib.completion.prompt import Layout, Surroundings
from lsp_calib.evaluation.lines import LineItem, sample_lines, without_below
from lsp_calib.evaluation.surroundings import surroundings_of
from lsp_calib.inference.choice import EngineChoice
from lsp_calib.inference.engines import open_engine


def begins(item: LineItem) -> bool:
    """Whether the item is a whole line."""
    return not item.cursor.before.strip()


def true_block(item: LineItem, lines: tuple[str, ...]) -> list[str]:
    """The lines that belong to the block that begins at the item's place. lines: of the whole file."""
    first = item.cursor.before + item.target
    found = [first]
    for line in lines[item.cursor.line + 1 :]:
        scope = block.scope_of(first, line)
        if scope is block.Scope.OUTSIDE or len(found) == block.MOST_LINES:
            break
        found.append(line)
        if scope is block.Scope.LAST:
            break
    return found


def without_block(item: LineItem, length: int, *, writing_on: bool) -> LineItem:
    """The item in a document without the block."""
    cursor, lines = item.cursor, tuple(item.cursor.lines)
    rest = lines[cursor.line + length :]
    shown = Cursor.at(
        (*lines[: cursor.line], cursor.before, *rest), cursor.line, cursor.column, cursor.language
    )
    return attrs.evolve(item, cursor=without_below(shown) if writing_on else shown)


def judged(made: tuple[Completion, ...], truth: list[str]) -> dict[str, list[Any]]:
    """For each line of a block the probability that all up to it are right, and whether they are."""
    right: list[bool] = []
    for at, line in enumerate(made):
        same = at < len(truth) and line.expected_line.rstrip() == truth[at].rstrip()
        right.append(same and (right[-1] if right else True))
    return {"p": [None if p is None else round(p, 6) for p in block._product(made)], "right": right}


async def ask(items: list[LineItem], model: str, threads: int, file: Path) -> None:
    block.WITHIN = math.inf
    known = {json.loads(line)["item"] for line in file.read_text().splitlines()} if file.exists() else set()
    store = CalibratorStore.open()
    estimator = ConfidenceEstimator(store)
    by_id = {item.id: item for item in items}

    def find(document: str, cursor: Cursor, layout: Layout) -> Any:
        def found() -> Surroundings:
            return surroundings_of(attrs.evolve(by_id[document], cursor=cursor), layout)

        return found

    engine = open_engine(EngineChoice(model=model, threads=threads))
    layouts = Layouts(store.has_labels)
    service = CompletionService(engine, estimator, layout_of=layouts.of, nearby=Nearby(find))
    try:
        for number, item in enumerate(items):
            if item.id in known:
                continue
            truth = true_block(item, (*item.cursor.lines,))
            by_id[item.id] = asked = without_block(item, len(truth), writing_on=number % 2 == 1)
            found = await block_at(service, estimator, asked)
            row = {"item": item.id, "group": item.group, "truth": len(truth), "below": number % 2 == 0}
            with file.open("a") as output:
                output.write(json.dumps({**row, **judged(found, truth)}) + "\n")
            service.forget(item.id)
    finally:
        await engine.close()


async def block_at(
    service: CompletionService, estimator: ConfidenceEstimator, item: LineItem
) -> tuple[Completion, ...]:
    """The block that an editor would get; empty if there is no completion at all."""
    first = await service.complete(item.cursor, document=item.id)
    if not isinstance(first, Completion):
        return ()
    return await block.lines_of(
        lambda cursor: service.complete(cursor, document=item.id),
        first,
        lambda p: estimator.tier(p, first.suggestion.confidence),
    )


def report(file: Path) -> None:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    blocks = [row for row in rows if len(row["p"]) > 1]
    print(f"{len(rows)} places, {len(blocks)} blocks of two lines and more\n")
    print("| up to line | n | right | promised | skill | ECE (a calibrated score's) |")
    print("|---|--:|--:|--:|--:|---|")
    for name, wanted in (("1", {0}), ("2", {1}), ("3", {2}), ("4 to 12", set(range(3, 12))), ("all", None)):
        pairs = [
            (p, right, row["group"])
            for row in rows
            for at, (p, right) in enumerate(zip(row["p"], row["right"], strict=True))
            if p is not None and (wanted is None or at in wanted)
        ]
        if not pairs:
            continue
        p, right, groups = map(np.array, zip(*pairs, strict=True))
        cells = [name, str(right.size), f"{right.mean():.1%}", f"{p.mean():.1%}"]
        if 0 < right.sum() < right.size:
            with quietly():
                found = summarise(p, right.astype(np.bool_), groups)
            ece = found["ece"]
            cells += [f"{found['skill'].value:+.2f}", f"{ece.value:.3f} ({ece.low:.3f} to {ece.high:.3f})"]
        print("| " + " | ".join([*cells, *[""] * (6 - len(cells))]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("projects", nargs="*", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    if given.projects:
        each = -(-given.count // len(given.projects))
        sampled = [sample_lines(path, path.name, 8 * each, seed=1) for path in given.projects]
        drawn = [[item for item in items if begins(item)] for items in sampled]
        # The projects by turns, so that an unfinished run is of all of them.
        items = [items[at] for at in range(each) for items in drawn if at < len(items)]
        asyncio.run(ask(items[: given.count], given.model, given.threads, given.output))
    report(given.output)


if __name__ == "__main__":
    main()
