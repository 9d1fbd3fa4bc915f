"""The demo's user: the places to write at, and the reaction to each suggestion."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import attrs

from lsp_calib.errors import DataError
from lsp_calib.feedback.events import How
from lsp_calib.feedback.lines import shared_ends


class Action(enum.StrEnum):
    """The user's reaction to a suggestion."""

    KEPT = "kept"
    KEPT_ANYWAY = "keptAnyway"  # wrong, but the most confident one
    TYPED_OVER = "typedOver"
    EDITED = "edited"  # inserted first
    LEFT_ALONE = "leftAlone"


# The expected labels in the feedback store, which sees only document changes.
BECOMES = {
    Action.KEPT: How.KEPT,
    Action.KEPT_ANYWAY: How.KEPT,
    Action.TYPED_OVER: How.TYPED_OVER,
    Action.EDITED: How.EDITED,
    Action.LEFT_ALONE: How.IGNORED,
}

CURSOR = "▏"


@attrs.frozen
class Place:
    """Where the user writes: at the mark in the first line of `function` that starts with `start`."""

    function: str
    start: str

    def find(self, lines: Sequence[str]) -> tuple[int, int]:
        """Line and column (from 0) of the cursor. Raises DataError if the file has no such line."""
        text = self.start.replace(CURSOR, "")
        for at in range(line_of(lines, self.function) + 1, len(lines)):
            if lines[at].strip().startswith(text):
                return at, lines[at].index(text) + self.start.index(CURSOR)
        raise DataError(f"The demo's file has no line {text!r} in {self.function}.")


# Places after an indentation, in words, and after dots and operators, from the top of the file to its end.
# A small model gets some of them right and more of them wrong. The suggestion at the last one is left alone.
FILE = "calibration/scores.py"
PLACES = (
    Place("brier_score", "▏return float("),
    Place("skill_score", "reference = reference_▏"),
    Place("skill_score", "brier = brier_sc▏ore("),
    Place("log_loss", "epsilon = np.▏"),
    Place("log_likelihoods", "p = np.▏"),
    Place("auc", "p, y =▏"),
    Place("auc", "neg▏atives = "),
    Place("auc", "if positives == 0 or neg▏"),
    Place("expected_calibration_error", "gap = np.▏"),
    Place("ties", "_, inverse, equal = np.unique(p, return_▏"),
)
HOVERED = "skill_score"

# A wrong suggestion is worth editing if at least this many characters at its start are right.
_WORTH_EDITING = 4


@attrs.define
class Shown:
    """A suggestion that was shown, and its outcome.

    line, column: of the cursor, from 0. expected: the text that the user wants to write there. wire: the
    suggestion object. ms: from the request to the answer, as seen by the editor. spent_ms: duration of the
    user's reaction. label: its label in the feedback store.
    """

    line: int
    column: int
    before: str
    expected: str
    wire: dict[str, Any]
    ms: float
    action: Action | None = None
    spent_ms: float = 0.0
    label: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        return str(self.wire["id"])

    @property
    def text(self) -> str:
        return str(self.wire["text"])

    @property
    def right(self) -> bool:
        """Whether it equals the intended text, ignoring white space at the end."""
        return self.text.rstrip() == self.expected.rstrip()

    @property
    def labelled_as_expected(self) -> bool:
        return (
            self.action is not None
            and self.label is not None
            and self.label["how"] == BECOMES[self.action].value
        )

    def to_json(self) -> dict[str, Any]:
        """The suggestion object, with line and column from 1, as on the command line."""
        return {
            **self.wire,
            "line": self.line + 1,
            "column": self.column + 1,
            "expected": self.expected,
            "right": self.right,
            "action": None if self.action is None else self.action.value,
            "roundTripMs": round(self.ms, 1),
        }


def decide(shown: Shown, past: Sequence[Shown], *, last_chance: bool) -> Action:
    """Choose the reaction to a suggestion, given the reactions to earlier ones.

    A right one is kept. One wrong one with a good beginning is inserted and edited; others are typed over.
    last_chance: whether this is the last place at which something can be inserted and edited.
    """
    if shown.right:
        return Action.KEPT
    done = {one.action for one in past}
    alike = shared_ends(shown.text, shown.expected)[0] >= _WORTH_EDITING
    if Action.TYPED_OVER in done and Action.EDITED not in done and (alike or last_chance):
        return Action.EDITED
    return Action.TYPED_OVER


def line_of(lines: Sequence[str], function: str) -> int:
    """The line of a function's signature (from 0). Raises DataError if there is none."""
    for at, line in enumerate(lines):
        if line.startswith(f"def {function}("):
            return at
    raise DataError(f"The demo's file has no function {function}.")
