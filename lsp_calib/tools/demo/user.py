"""The demo's user, and the evidence: the places, the reactions, and what the server made of them."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types
from lsprotocol.converters import get_converter

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.characters import shared_ends
from lsp_calib.errors import DataError, LspCalibError
from lsp_calib.feedback.events import How
from lsp_calib.feedback.store import FeedbackStore, evidence_of
from lsp_calib.values import Evidence, ModelIdentity


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


@attrs.define
class DemoReport:
    """The events of the demo, as `--json` prints them.

    diagnostics: as pulled when a suggestion was inserted. stale: suggestions whose diagnostic remained after
    their line was edited. hidden: places where the server showed nothing by itself, and why; the user asked
    there by hand (`byHand`: why there was nothing then either).
    """

    steps: list[dict[str, Any]] = attrs.field(factory=list)
    suggestions: list[Shown] = attrs.field(factory=list)
    hover: dict[str, Any] = attrs.field(factory=dict)
    diagnostics: list[types.Diagnostic] = attrs.field(factory=list)
    stale: list[str] = attrs.field(factory=list)
    hidden: list[dict[str, Any]] = attrs.field(factory=list)
    refit: dict[str, Any] = attrs.field(factory=dict)
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and bool(self.steps) and all(step["ok"] for step in self.steps)

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """A running step. The caller sets its `ok` from the evidence; until then the step is not ok."""
        entry: dict[str, Any] = {"name": name, "ok": False, "ms": 0.0}
        self.steps.append(entry)
        started = time.perf_counter()
        try:
            yield entry
        except LspCalibError as error:
            entry["ok"], entry["error"] = False, str(error)
            raise
        finally:
            entry["ms"] = since(started)

    def to_json(self) -> dict[str, Any]:
        labelled = [one for one in self.suggestions if one.label is not None]
        document: dict[str, Any] = {
            "steps": self.steps,
            "suggestions": [one.to_json() for one in self.suggestions],
            "hidden": self.hidden,
            "hover": self.hover,
            "diagnostics": get_converter().unstructure(self.diagnostics),
            "labels": [{"id": one.id, **(one.label or {})} for one in labelled],
            "refit": self.refit,
        }
        return document if self.error is None else {**document, "error": self.error}


def since(started: float) -> float:
    """Milliseconds since a reading of `time.perf_counter`."""
    return round((time.perf_counter() - started) * 1e3, 1)


class StateReader:
    """Reads a server's state folder, while the server is running."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._shelf = CalibratorStore(state / "calibrators", home.shipped_models() / "calibrators")

    def label(self, shown: Sequence[Shown]) -> bool:
        """Give suggestions that are settled `correct`, `how` and `episode`; returns whether all are."""
        known = {row["id"]: row["label"] for row in self._rows()}
        for one in shown:
            found = known.get(one.id)
            one.label = found and {key: found[key] for key in ("correct", "how", "episode")}
        return all(one.label for one in shown)

    def shipped(self) -> Calibrator:
        """The calibrator with which the server started."""
        return self._shelf.choose(self._purpose(self._rows()), personal=False).calibrator

    def refitted(self, result: Mapping[str, Any]) -> tuple[Calibrator | None, list[dict[str, Any]]]:
        """The refitted calibrator, and its confidences beside the old ones.

        For each label: id, raw, before, after, tierBefore, tierAfter, correct. None and nothing if the answer
        of `lsp-calib.refit` does not name the calibrator in use.
        """
        rows = self._rows()
        old, new = self.shipped(), self._shelf.choose(self._purpose(rows)).calibrator
        if not result["calibrator"] or result["calibrator"]["id"] != new.id or new.id == old.id:
            return None, []
        policy = PRESETS["balanced"]
        changes = []
        for row in rows:
            if row["label"] is None or row["label"]["correct"] is None:
                continue
            evidence = _evidence(row)
            before, after = old.assess(evidence, policy), new.assess(evidence, policy)
            changes.append(
                {
                    "id": row["id"],
                    "raw": round(row["raw"], 4),
                    "before": round(before.calibrated or 0.0, 4),
                    "after": round(after.calibrated or 0.0, 4),
                    "tierBefore": before.tier.value,
                    "tierAfter": after.tier.value,
                    "correct": row["label"]["correct"],
                }
            )
        return new, sorted(changes, key=lambda one: -one["raw"])

    def probability(self, calibrator: Calibrator, suggestion_id: str) -> float | None:
        """What a calibrator says of a suggestion that was shown; None if it is not in the store (yet)."""
        row = next((row for row in self._rows() if row["id"] == suggestion_id), None)
        return None if row is None else calibrator.probability(_evidence(row))

    def _rows(self) -> list[dict[str, Any]]:
        with closing(FeedbackStore(self._state / "feedback.db")) as store:
            return list(store.export())

    @staticmethod
    def _purpose(rows: Sequence[Mapping[str, Any]]) -> Purpose:
        row = rows[0]
        # The store does not keep the quantisation; the checksum identifies the file.
        model = ModelIdentity(row["model"], "", row["model_sha256"])
        return Purpose(model, row["prompt_version"], "line", row["language"])


def _evidence(row: Mapping[str, Any]) -> Evidence:
    return evidence_of(row["logprobs"], row["features"], row["features_version"], row["place"])
