"""Samples places for line completion from real source, in proportions as people ask for them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.errors import DataError
from lsp_calib.evaluation.correctness import exact_match
from lsp_calib.syntax import prose_lines
from lsp_calib.text_lines import split_lines

# The share of each kind of place. Most requests come after Enter, with the indentation already there, and
# while a word is being typed.
STRATA = {"line-start": 0.10, "after-indentation": 0.40, "mid-line": 0.25, "mid-word": 0.25}

INSERTING, WRITING_ON = "inserting", "writing-on"
"""The conditions: the text below the line stands, or everything below is left out, as where new code is
written at the end of a file."""

_LONGEST_LINE = 160
_MOST_BYTES = 500_000
_SKIPPED_FOLDERS = {
    ".git",
    ".hg",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    "site-packages",
    "build",
    "dist",
}
_MID_LINE = re.compile(r"(?<=[\s(\[{.,=])(?=\S)")
_MID_WORD = re.compile(r"(?<=\w)(?=\w)")


@attrs.frozen
class LineItem:
    """One place: a cursor in a line from which the rest, `target`, was removed.

    group: items of one group (a project) stay together in cross-validation.
    condition: INSERTING or WRITING_ON.
    """

    id: str
    group: str
    stratum: str
    cursor: Cursor
    target: str
    condition: str = INSERTING

    def is_correct(self, completion: str) -> bool:
        """Exact match of the whole line, ignoring white space at both ends."""
        return exact_match(self.cursor.before, completion, self.target)

    def writing_on(self) -> LineItem:
        """The same place in a document that ends with its line."""
        return attrs.evolve(self, cursor=without_below(self.cursor), condition=WRITING_ON)


def without_below(cursor: Cursor) -> Cursor:
    """The cursor in a document that ends with its line."""
    return attrs.evolve(cursor, lines=tuple(cursor.lines[: cursor.line + 1]))


def python_files(root: Path) -> Iterator[Path]:
    """Python files below `root` (or `root` itself), sorted; folders of third-party code are left out."""
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).parts[:-1]
        if not _SKIPPED_FOLDERS.intersection(inside) and not any(part.startswith(".") for part in inside):
            yield path


def sample_lines(root: Path, group: str, count: int, seed: int = 0) -> list[LineItem]:
    """At most `count` places in the Python files below `root`, a line at most once.

    Deterministic for the same files and seed. Raises DataError if there is no Python file.
    """
    rng = random.Random(f"{seed}:{group}")
    candidates: list[tuple[Path, Sequence[str], int]] = []
    for path in python_files(root):
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > _MOST_BYTES:
                continue
            lines: Sequence[str] = split_lines(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        prose = prose_lines(lines, "python")
        candidates += [
            (path, lines, at)
            for at, line in enumerate(lines)
            if line.strip() and len(line) <= _LONGEST_LINE and at not in prose and len(line.strip()) > 3
        ]
    if not candidates:
        raise DataError(f"There is no Python source below {root}.")
    rng.shuffle(candidates)
    items: list[LineItem] = []
    weights = dict(STRATA)
    while candidates and weights and len(items) < count:
        # Draw the kind first, then a line with such a place. Drawing lines first would give too few places of
        # the kinds that not every line has.
        (stratum,) = rng.choices(list(weights), weights=list(weights.values()))
        columns = (_column(lines[at], stratum, rng) for _, lines, at in candidates)
        drawn = next(((n, column) for n, column in enumerate(columns) if column is not None), None)
        if drawn is None:
            del weights[stratum]
            continue
        n, column = drawn
        path, lines, at = candidates.pop(n)
        items.append(_item(root, group, path, lines, at, column, stratum))
    return items


def _item(
    root: Path, group: str, path: Path, lines: Sequence[str], at: int, column: int, stratum: str
) -> LineItem:
    name = path.relative_to(root).as_posix() if root.is_dir() else path.name
    shown = [*lines[:at], lines[at][:column], *lines[at + 1 :]]
    return LineItem(
        id=f"{group}/{name}:{at + 1}:{column + 1}",
        group=group,
        stratum=stratum,
        cursor=Cursor.at(shown, at, column, "python"),
        target=lines[at][column:],
    )


def _column(line: str, stratum: str, rng: random.Random) -> int | None:
    indentation = len(line) - len(line.lstrip())
    if stratum == "line-start":
        return 0
    if stratum == "after-indentation":
        return indentation or None
    pattern = _MID_LINE if stratum == "mid-line" else _MID_WORD
    places = [match.start() for match in pattern.finditer(line) if match.start() > indentation]
    return rng.choice(places) if places else None
