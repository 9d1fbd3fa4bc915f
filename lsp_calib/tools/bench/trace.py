"""Recorded typing: reading it, and replaying it into a list of lines.

`tests/programs/record_typing.py` makes the shipped recording, and explains which parts of it are real.
"""

from __future__ import annotations

import enum
import gzip
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, Self

import attrs

_FILE = "trace.json.gz"
# Minimum number of steps in an excerpt: opening the document must not outweigh the typing.
_ENOUGH = 16

Place = tuple[int, int]
"""Line and column (in code points), both from 0."""


class Kind(enum.StrEnum):
    """The kind of a change, as the user made it."""

    TYPE = "type"
    NEWLINE = "newline"
    BACKSPACE = "backspace"
    DELETE = "delete"  # of a selection


@attrs.frozen
class Step:
    """One change of the document: `text` replaces the text from `start` to `end`.

    pause_ms: since the previous step. jump: whether the cursor was first moved here from another place.
    """

    kind: Kind
    start: Place
    end: Place
    text: str
    pause_ms: int
    jump: bool

    @property
    def cursor(self) -> Place:
        """The cursor's place after the step."""
        head, newline, tail = self.text.rpartition("\n")
        if not newline:
            return self.start[0], self.start[1] + len(tail)
        return self.start[0] + head.count("\n") + 1, len(tail)

    def apply(self, lines: list[str]) -> Place:
        """Make the change in `lines`; returns the cursor's place after it."""
        (first, column), (last, end) = self.start, self.end
        lines[first : last + 1] = (lines[first][:column] + self.text + lines[last][end:]).split("\n")
        return self.cursor

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> Self:
        kind, line, column, last, end, text, pause, jump = row
        return cls(Kind(kind), (line, column), (last, end), text, pause, bool(jump))


@attrs.frozen
class Edit:
    """One document being edited.

    name: for people. commit: of this repository, the source of the text. before: lines at the start.
    after_sha256: of the text at the end of the whole edit, in UTF-8.
    """

    name: str
    commit: str
    before: tuple[str, ...]
    steps: tuple[Step, ...]
    after_sha256: str

    def replay(self) -> list[str]:
        """The lines after all steps."""
        return self.lines_after(len(self.steps))

    def lines_after(self, count: int) -> list[str]:
        """The lines after the first `count` steps."""
        lines = list(self.before)
        for step in self.steps[:count]:
            step.apply(lines)
        return lines

    def excerpt(self, count: int) -> Edit:
        """`count` consecutive steps, around the first jump if any; earlier steps are already applied."""
        if count >= len(self.steps):
            return self
        jump = next((at for at, step in enumerate(self.steps) if at and step.jump), 0)
        first = min(max(jump - count // 2, 0), len(self.steps) - count)
        before = tuple(self.lines_after(first))
        return attrs.evolve(self, before=before, steps=self.steps[first : first + count])


def load_trace() -> tuple[Edit, ...]:
    """The recording that is shipped with the package."""
    data = resources.files("lsp_calib.tools.bench").joinpath(_FILE).read_bytes()
    return tuple(_edit(raw) for raw in json.loads(gzip.decompress(data))["edits"])


def select(edits: Sequence[Edit], steps: int) -> tuple[Edit, ...]:
    """About `steps` steps of a recording: excerpts of as many edits as possible, each long enough."""
    chosen: list[Edit] = []
    left = steps
    count = min(max(steps // _ENOUGH, 1), len(edits))
    for at, edit in enumerate(sorted(edits[:count], key=lambda edit: len(edit.steps))):
        part = edit.excerpt(left // (count - at))
        left -= len(part.steps)
        chosen.append(part)
    return tuple(chosen)


def _edit(raw: dict[str, Any]) -> Edit:
    steps = tuple(Step.from_json(row) for row in raw["steps"])
    return Edit(raw["name"], raw["commit"], tuple(raw["before"]), steps, raw["afterSha256"])
