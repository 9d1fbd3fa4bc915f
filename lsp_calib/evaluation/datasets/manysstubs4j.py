"""ManySStuBs4J (Karampatsis and Sutton 2020): simple one-line bugs in Java, with their context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from lsp_calib.evaluation.correctness import exact_match
from lsp_calib.evaluation.datasets.defects4j import line_item
from lsp_calib.evaluation.datasets.folder import Row, number, read_items, text
from lsp_calib.evaluation.lines import LineItem
from lsp_calib.text_lines import split_lines


@attrs.frozen
class Bug:
    """A wrong line and its fix.

    line: its number in the file, from 1. before, after: lines of context around it, without line ends.
    """

    id: str
    group: str
    path: str
    line: int
    buggy_line: str
    fixed_line: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    def is_correct(self, answer: str) -> bool:
        """Exact match with the fix, ignoring white space at both ends."""
        return exact_match("", answer, self.fixed_line)

    def line_item(self) -> LineItem:
        """The place of the fixed line; the buggy one is not shown."""
        return line_item(self.id, self.group, self.before, self.after, self.fixed_line)


def bugs(folder: Path | None = None) -> Iterator[Bug]:
    """The 2,794 bugs. Raises DataError if the data are missing or have another checksum."""
    return read_items("manysstubs4j", _bug, folder)


def _bug(row: Row) -> Bug:
    path = text(row, "path")
    return Bug(
        id=f"SStuB/{number(row, 'bug_index')}",
        # The data do not name projects; files in one folder count as one project.
        group=path.rpartition("/")[0] or path,
        path=path,
        line=number(row, "line"),
        buggy_line=text(row, "buggy_line"),
        fixed_line=text(row, "fixed_line"),
        before=_whole_lines(text(row, "context_before")),
        after=_whole_lines(text(row, "context_after")),
    )


def _whole_lines(source: str) -> tuple[str, ...]:
    lines = split_lines(source)
    return lines if lines[-1] else lines[:-1]
