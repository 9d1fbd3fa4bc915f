"""Milliseconds of processor time that the features of a suggestion take, in files of several lengths
(`make bench`).

    python tests/programs/text_features_speed.py

The first suggestion in a file reads it. Later ones come after a character on the same line, after Enter, and
on another line of the file. Last comes the suggestion alone, at another line that is read already: that is
what a key waits for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from lsp_calib.characters import split_lines
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.features import DocumentFeatures
from lsp_calib.values import Generation, Stop, Timing, Token

ROOT = Path(__file__).parents[2]
LENGTHS = (200, 2_000, 50_000)
FIRSTS = 5
ROUNDS = 300
ANSWER = Generation("x", tuple(Token(1, -0.1, 0.0, "x") for _ in range(8)), Stop.LINE, Timing())


def main() -> None:
    print(f"{'lines':>7}  {'suggestion':<22}{'median':>8}{'p95':>8}   ms")
    for length in LENGTHS:
        lines = tuple(islice(sources(), length))
        # Up to a definition: a file in order, so that a linter can read it.
        starts = ("@", "class ", "def ")
        end = max(at for at in range(1, len(lines)) if lines[at].startswith(starts) and not lines[at - 1])
        lines = lines[:end]
        for name, times in measured(lines).items():
            times.sort()
            median, p95 = times[len(times) // 2], times[len(times) * 95 // 100]
            print(f"{len(lines):>7}  {name:<22}{median:>8.2f}{p95:>8.2f}")


def measured(lines: tuple[str, ...]) -> dict[str, list[float]]:
    """Milliseconds of each suggestion by what came before it."""
    rng = random.Random(0)
    rows = [row for row, line in enumerate(lines) if line.strip()]
    times: dict[str, list[float]] = {
        "the first": [],
        "after a character": [],
        "after Enter": [],
        "elsewhere": [],
        "where it is read": [],
    }
    for _ in range(FIRSTS):
        times["the first"].append(suggestion(DocumentFeatures(), at(lines, rng.choice(rows), 0)))
    document = DocumentFeatures()
    suggestion(document, at(lines, rows[0], 0))
    for _ in range(ROUNDS):
        row = rng.choice(rows)
        indentation = len(lines[row]) - len(lines[row].lstrip())
        cursor = at(lines, row, indentation)
        times["elsewhere"].append(suggestion(document, cursor))
        times["where it is read"].append(suggestion(document, cursor, lines[row][indentation:]))
        times["after a character"].append(suggestion(document, at(lines, row, indentation + 1)))
        entered = (*lines[: row + 1], lines[row][:indentation], *lines[row + 1 :])
        times["after Enter"].append(suggestion(document, Cursor(entered, row + 1, indentation, "python")))
        document.read(at(lines, row, 0))
    return times


def at(lines: tuple[str, ...], row: int, column: int) -> Cursor:
    """A cursor in a line that ends there."""
    return Cursor((*lines[:row], lines[row][:column], *lines[row + 1 :]), row, column, "python")


def suggestion(
    document: DocumentFeatures,
    cursor: Cursor,
    text: str = "result = [value for value in range(9) if value]",
) -> float:
    start = time.process_time()
    document.read(cursor)
    document.evidence(cursor, text, ANSWER)
    return (time.process_time() - start) * 1e3


def sources() -> Iterator[str]:
    """The lines of this repository's Python files."""
    for folder in ("lsp_calib", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from split_lines(path.read_text("utf-8"))


if __name__ == "__main__":
    main()
