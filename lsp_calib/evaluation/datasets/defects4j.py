"""Defects4J (Just et al. 2014): its one-line bugs, as patches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.evaluation.datasets.folder import Row, number, read_items, text, texts
from lsp_calib.evaluation.lines import LineItem

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


@attrs.frozen
class Bug:
    """A wrong line and its fix.

    before, after: the lines of context in the patch, without line ends.
    moved: the buggy line was in another place (5 of the bugs); the context then contains it there.
    """

    id: str
    group: str
    path: str
    buggy_line: str
    fixed_line: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    moved: bool

    def line_item(self) -> LineItem:
        """The place of the fixed line, below the buggy one in a comment."""
        return line_item(self.id, self.group, self.before, self.after, self.buggy_line, self.fixed_line)


def line_item(
    id: str, group: str, before: Sequence[str], after: Sequence[str], buggy_line: str, fixed_line: str
) -> LineItem:
    """The question of a repair in Java: the fixed line is missing, above it a comment shows the buggy one.

    Spiess et al. 2024 show the buggy line in the prompt as well (4.2.1); the words for it are ours.
    """
    indentation = buggy_line[: len(buggy_line) - len(buggy_line.lstrip())]
    shown = (f"{indentation}// Buggy line: {buggy_line.strip()}", f"{indentation}// Fixed line:")
    above = (*before, *shown)
    lines = (*above, "", *after)
    return LineItem(id, group, "line-start", Cursor.at(lines, len(above), 0, "java"), fixed_line)


def bugs(folder: Path | None = None) -> Iterator[Bug]:
    """The 142 bugs. Raises DataError if the data are missing or have another checksum."""
    return read_items("defects4j", _bug, folder)


def _bug(row: Row) -> Bug:
    project = text(row, "project")
    (path,) = texts(row, "files")
    body = _hunk(text(row, "src_patch"))
    # The patch turns the fixed program into the buggy one.
    (fixed,) = (at for at, line in enumerate(body) if line.startswith("-"))
    (buggy,) = (at for at, line in enumerate(body) if line.startswith("+"))
    moved = buggy != fixed + 1
    context = [(at, line[1:]) for at, line in enumerate(body) if at != fixed and (moved or at != buggy)]
    return Bug(
        id=f"{project}-{number(row, 'bug_id')}",
        group=project,
        path=path,
        buggy_line=body[buggy][1:],
        fixed_line=body[fixed][1:],
        before=tuple(line for at, line in context if at < fixed),
        after=tuple(line for at, line in context if at > fixed),
        moved=moved,
    )


def _hunk(patch: str) -> list[str]:
    """The lines of a patch's only hunk, with their marks. Raises ValueError if there are several hunks."""
    lines = [line.removesuffix("\r") for line in patch.split("\n")]
    starts = [at for at, line in enumerate(lines) if _HUNK.match(line)]
    if len(starts) != 1:
        raise ValueError(f"its patch has {len(starts)} hunks, not one")
    return [line for line in lines[starts[0] + 1 :] if line[:1] in (" ", "-", "+")]
