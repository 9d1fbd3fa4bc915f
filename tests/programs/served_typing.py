"""Probabilities as the server sends them while lines are typed, on source that no record names.

    python tests/programs/served_typing.py TREE... --model NAME [--count 150] [--output FILE]

True lines are typed character by character, by a client that acts like an editor: it closes brackets and
quotes, and asks after each key. Each suggestion is compared with the line as it comes to be. Told by the
characters typed along it, and by the tier shown: how many moments, what was promised, and what was right.
Also told: how many keys were answered from memory, and what became of suggestions that were hidden at first.
The user's models are used, in a scratch state folder. --output keeps the moments as lines of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
from lsprotocol import types
from served_confidence import PATIENCE_S, opened, scratch

from lsp_calib.calibration.arrays import BoolArray, FloatArray
from lsp_calib.calibration.scores import expected_calibration_error, skill_score
from lsp_calib.evaluation.lines import LineItem, sample_lines
from lsp_calib.text_lines import same_line
from lsp_calib.tools.client import Document, suggestion_of

BINS = ((0, 0), (1, 4), (5, 8), (9, 14), (15, 999))
_CLOSERS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'"}
_TYPED = re.compile(r"typed along for (\d+) ")


@attrs.frozen
class Moment:
    """What the server answered to a key. typed: characters typed along. source: "" without a suggestion."""

    item: str
    column: int
    id: str
    typed: int
    confidence: float | None
    tier: str
    source: str
    right: bool


@attrs.define
class Typist:
    """Types the rest of a line, as an editor that closes brackets and quotes has it."""

    document: Document
    line: int
    column: int
    behind: str = ""

    def key(self, char: str) -> None:
        if self.behind[:1] == char:  # typed over
            self.behind = self.behind[1:]
            self.column += 1
            return
        last = self.document.lines[self.line][self.column - 1 : self.column]
        closer = _CLOSERS.get(char, "")
        if char in "\"'" and (last.isalnum() or last in ("_", char)):
            closer = ""
        self.document.replace(self.line, self.column, self.column, char + closer)
        self.column += 1
        self.behind = closer + self.behind


def becomes(document: Document, item: types.InlineCompletionItem, line: int) -> str:
    """The line with a suggestion in it."""
    assert item.range is not None
    units = document.lines[line].encode("utf-16-le")
    start, end = item.range.start.character, item.range.end.character
    rest = units[2 * end :].decode("utf-16-le")
    return units[: 2 * start].decode("utf-16-le") + str(item.insert_text) + rest


async def typed(items: Sequence[LineItem], folder: Path, model: str) -> list[Moment]:
    found: list[Moment] = []
    async for item, document in opened(items, folder, model):
        typist = Typist(document, item.cursor.line, item.cursor.column)
        true = item.cursor.before + item.target
        for char in ("", *item.target[:-1]):
            if char:
                typist.key(char)
            found.append(await _moment(typist, item, true))
        print(f"{item.id} is typed", file=sys.stderr, flush=True)
    return found


async def _moment(typist: Typist, item: LineItem, true: str) -> Moment:
    answer = await typist.document.complete(typist.line, typist.column, PATIENCE_S)
    wire = suggestion_of(answer)
    if answer is None or wire is None:
        return Moment(item.id, typist.column, "", 0, None, "", "", right=False)
    along = _TYPED.search(wire["reason"])
    return Moment(
        *(item.id, typist.column, wire["id"], int(along[1]) if along else 0),
        *(wire["confidence"], wire["tier"], wire["source"]),
        right=same_line(becomes(typist.document, answer, typist.line), true),
    )


def _share(right: BoolArray, promised: FloatArray) -> str:
    if not right.size:
        return "none"
    return f"{right.size} moments, promised {promised.mean():.2f}, right {right.mean():.2f}"


def report(moments: Sequence[Moment]) -> Iterator[str]:
    keys = Counter(one.source or "none" for one in moments)
    total = sum(keys.values())
    yield "keys: " + ", ".join(f"{name} {n} ({n / total:.0%})" for name, n in sorted(keys.items()))
    shown = [one for one in moments if one.confidence is not None]
    first = {one.item: one.column for one in reversed(moments)}
    p = np.array([one.confidence for one in shown], dtype=np.float64)
    right = np.array([one.right for one in shown], dtype=np.bool_)
    began: dict[str, int] = {}
    for one in shown:
        began.setdefault(one.id, one.column - one.typed)
    along = np.array([one.column - began[one.id] for one in shown])
    tiers = np.array([one.tier for one in shown])
    error = expected_calibration_error(p, right)
    yield f"all: {_share(right, p)}, skill {skill_score(p, right):+.3f}, ECE {error:.3f}"
    for least, most in BINS:
        at = (along >= least) & (along <= most)
        yield f"typed {least} to {most}: {_share(right[at], p[at])}"
        for tier in ("accept", "review", "reject"):
            yield f"  {tier}: {_share(right[at & (tiers == tier)], p[at & (tiers == tier)])}"
    at = along >= 9
    yield f"typed 9 and more: {_share(right[at], p[at])}"
    accepted = tiers == "accept"
    yield f"accept: {accepted.mean():.0%} of moments; {_share(right[accepted], p[accepted])}"
    seen: dict[str, Moment] = {}
    for one in shown:
        seen.setdefault(one.id, one)
    back = [one for one in seen.values() if one.typed > 0]
    came = sum(one.right for one in back)
    yield f"shown first after something of them was typed: {len(back)} suggestions, {came} right"
    yield f"{len(first)} lines"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    each = -(-given.count // len(given.trees))
    items = [item for tree in given.trees for item in sample_lines(tree, tree.resolve().name, each)]
    with scratch() as folder:
        moments = asyncio.run(typed(items[: given.count], folder, given.model))
    if given.output is not None:
        given.output.write_text("".join(json.dumps(attrs.asdict(one)) + "\n" for one in moments), "utf-8")
    print("\n".join(report(moments)))


if __name__ == "__main__":
    main()
