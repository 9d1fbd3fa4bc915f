"""The demo's user and what happened: the function that is written, the reactions, the report."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types
from lsprotocol.converters import get_converter

from lsp_calib.characters import shared_ends
from lsp_calib.errors import DataError, LspCalibError
from lsp_calib.feedback.events import How
from lsp_calib.feedback.store import FeedbackStore

FILE = "calibration/scores.py"
FUNCTION = "auc"
"""The user writes the body of this function of the package's own file, and documents nothing."""

# A suggestion is worth inserting if at least so many characters at its start are right.
_WORTH_INSERTING = 4
# Places in a line at which the user waits for a suggestion before the rest is typed.
_PAUSES = 3


@attrs.frozen
class Moment:
    """What the editor showed at one place: a suggestion's tier and confidence, or why there was none.

    typed: the line up to the cursor. ms: from the request to the answer, as seen by the editor.
    """

    typed: str
    tier: str | None
    confidence: float | None
    ms: float
    reason: str = ""


@attrs.define
class Written:
    """A line that the user wrote.

    line: from 0. target: what it is to be. wire: the suggestion object when it was first shown, None if none
    was. column: of the cursor then. action: the label that it should get. label: the one it got.
    """

    line: int
    target: str
    moments: list[Moment] = attrs.field(factory=list)
    column: int = 0
    wire: dict[str, Any] = attrs.field(factory=dict)
    action: How | None = None
    label: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return str(self.wire.get("text", ""))

    @property
    def expected(self) -> str:
        return self.target[self.column :]

    @property
    def right(self) -> bool:
        """Whether the suggestion equals the intended text, ignoring white space at the end."""
        return bool(self.wire) and self.text.rstrip() == self.expected.rstrip()

    def to_json(self) -> dict[str, Any]:
        """The suggestion object, with line and column from 1, as on the command line."""
        place = {"line": self.line + 1, "column": self.column + 1, "expected": self.expected}
        done = {"right": self.right, "action": self.action, "label": self.label}
        return {**self.wire, **place, **done, "moments": [attrs.asdict(one) for one in self.moments]}


def pauses(target: str) -> list[int]:
    """The columns at which the user waits for a suggestion: after the indentation and the first words."""
    if target.lstrip().startswith("#"):
        return []
    words = [*re.finditer(r"\w+|[^\w\s]", target)][: _PAUSES - 1]
    return [words[0].start(), *(word.end() for word in words)]


def decide(written: Written, past: Sequence[Written], *, last: bool) -> How:
    """Choose the reaction to a suggestion, by the label that it should get.

    The last one is left alone. A right one is kept, or typed if it is short. One wrong one with a good
    beginning is inserted and edited; others are typed over.
    """
    if last:
        return How.IGNORED
    if written.right:
        return How.KEPT if len(written.expected) >= _WORTH_INSERTING else How.TYPED
    alike = shared_ends(written.text, written.expected)[0] >= _WORTH_INSERTING
    edited = any(one.action is How.EDITED for one in past)
    return How.EDITED if alike and not edited else How.TYPED_OVER


def scene_of(lines: Sequence[str]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """The lines above the body of the function, its body without documentation, and those below.

    Raises DataError if there is no such function.
    """
    at = next((at for at, line in enumerate(lines) if line.startswith(f"def {FUNCTION}(")), None)
    if at is None:
        raise DataError(f"The demo's file has no function {FUNCTION}.")
    top = next(line for line in range(at, len(lines)) if lines[line].endswith(":")) + 1
    body = next(line for line in range(top, len(lines)) if lines[line].endswith('"""')) + 1
    end = next(line for line in range(body, len(lines)) if not lines[line].strip())
    return lines[:top], lines[body:end], lines[end:]


@attrs.define
class DemoReport:
    """The events of the demo, as `--json` prints them.

    diagnostics: as pulled when a suggestion was inserted. busy: processors that other programs use, None
    where that is unknown.
    """

    model: str = ""
    busy: float | None = None
    steps: list[dict[str, Any]] = attrs.field(factory=list)
    lines: list[Written] = attrs.field(factory=list)
    hover: dict[str, Any] = attrs.field(factory=dict)
    diagnostics: list[types.Diagnostic] = attrs.field(factory=list)
    refit: dict[str, Any] = attrs.field(factory=dict)
    error: str | None = None

    @property
    def shown(self) -> list[Written]:
        return [one for one in self.lines if one.wire]

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """A running step. The caller sets its `ok` from the evidence; until then the step is not ok."""
        entry: dict[str, Any] = {"name": name, "ok": False, "ms": 0.0}
        self.steps.append(entry)
        started = time.perf_counter()
        try:
            yield entry
        except LspCalibError as error:
            entry["error"] = str(error)
            raise
        finally:
            entry["ms"] = since(started)

    def to_json(self) -> dict[str, Any]:
        document = attrs.asdict(self, recurse=False)
        document["lines"] = [one.to_json() for one in self.lines]
        document["diagnostics"] = get_converter().unstructure(self.diagnostics)
        return document


def since(started: float) -> float:
    """Milliseconds since a reading of `time.perf_counter`."""
    return round((time.perf_counter() - started) * 1e3, 1)


def read_labels(state: Path, shown: Sequence[Written]) -> bool:
    """Give suggestions the labels that a state folder has of them; returns whether all have one."""
    with closing(FeedbackStore(state / "feedback.db")) as store:
        known = {row["id"]: row["label"] for row in store.export()}
    for one in shown:
        found = known.get(one.wire["id"])
        one.label = found and {key: found[key] for key in ("correct", "how", "episode")}
    return all(one.label for one in shown)
