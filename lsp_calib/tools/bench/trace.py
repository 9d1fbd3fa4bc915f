"""Recorded typing: reading it, and replaying it into a list of lines.

`tests/programs/record_typing.py` makes the shipped recording, and explains which parts of it are real.
"""

from __future__ import annotations

import enum
import gzip
import json
import zlib
from collections.abc import Sequence
from importlib import resources
from typing import Any, Self

import attrs

from lsp_calib.errors import DataError

_FILE = "trace.json.gz"
# Minimum number of steps in an excerpt: opening the document must not outweigh the typing.
_ENOUGH = 16
_CLOSERS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'"}
# What may stand behind an opener for an editor to close it.
_MAY_FOLLOW = frozenset(" \t)]},;:.")

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
    behind: what the editor adds behind the cursor.
    """

    kind: Kind
    start: Place
    end: Place
    text: str
    pause_ms: int
    jump: bool
    behind: str = ""

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
        lines[first : last + 1] = (lines[first][:column] + self.inserted + lines[last][end:]).split("\n")
        return self.cursor

    @property
    def inserted(self) -> str:
        """All that the step puts into the document."""
        return self.text + self.behind

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

    def closing(self) -> Edit:
        """The same edit in an editor that closes brackets and quotes as they are opened.

        A closer that is typed goes over the editor's, and a backspace in an empty pair takes both. What is
        left over is deleted, in a step of its own, before the cursor moves elsewhere and at the end: the text
        after each such step, and at the end, is the same as without.
        """
        lines = list(self.before)
        steps: list[Step] = []
        pending = ""  # behind the cursor, the innermost closer first
        for step in self.steps:
            if pending and steps and (step.jump or steps[-1].cursor != _typed_at(step)):
                _delete(pending, steps, lines)
                pending = ""
            line, column = step.start
            after = lines[step.end[0]][step.end[1] :]
            if step.kind is Kind.TYPE and pending and step.text == pending[0]:
                step = attrs.evolve(step, end=(line, column + 1))
                pending = pending[1:]
            elif step.kind is Kind.TYPE and _is_closed(step.text, lines[line][:column], after):
                step = attrs.evolve(step, behind=_CLOSERS[step.text])
                pending = step.behind + pending
            elif step.kind is Kind.BACKSPACE and pending:
                gone = lines[line][column : step.end[1]] if step.end[0] == line else ""
                if _CLOSERS.get(gone) == pending[0]:
                    step = attrs.evolve(step, end=(line, step.end[1] + 1))
                    pending = pending[1:]
            step.apply(lines)
            steps.append(step)
        if pending:
            _delete(pending, steps, lines)
        return attrs.evolve(self, steps=tuple(steps))


def load_trace() -> tuple[Edit, ...]:
    """The recording that is shipped with the package. Raises DataError if it was changed."""
    data = resources.files("lsp_calib.tools.bench").joinpath(_FILE).read_bytes()
    try:
        edits = tuple(_edit(raw) for raw in json.loads(gzip.decompress(data))["edits"])
    except (OSError, EOFError, zlib.error, KeyError, TypeError, ValueError) as error:
        raise DataError(f"The recorded typing {_FILE} cannot be read: {error}. Install again.") from error
    return edits


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


def _typed_at(step: Step) -> Place | None:
    """The cursor's place before a step that changes what stands before it; None for another one."""
    if step.kind is Kind.BACKSPACE:
        return step.end
    return step.start if step.start == step.end else None


def _is_closed(typed: str, before: str, after: str) -> bool:
    """Whether an editor closes what is typed between these."""
    if typed not in _CLOSERS or (after and after[0] not in _MAY_FOLLOW):
        return False
    return not (typed in "\"'" and before[-1:].isalnum())


def _delete(pending: str, steps: list[Step], lines: list[str]) -> None:
    """Delete the closers behind the cursor."""
    line, column = steps[-1].cursor
    last = steps[-1].pause_ms
    steps.append(Step(Kind.DELETE, (line, column), (line, column + len(pending)), "", last, jump=False))
    steps[-1].apply(lines)


def _edit(raw: dict[str, Any]) -> Edit:
    steps = tuple(Step.from_json(row) for row in raw["steps"])
    return Edit(raw["name"], raw["commit"], tuple(raw["before"]), steps, raw["afterSha256"])
