"""Reads the server's results from its state folder: labels, and the calibrators before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.feedback.rows import evidence_of
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.values import Evidence, ModelIdentity


@attrs.frozen
class Refitted:
    """The new calibrator, and its confidences beside the old ones.

    changes: for each label: id, raw, before, after, tierBefore, tierAfter, correct.
    """

    calibrator: Calibrator
    changes: Sequence[Mapping[str, Any]]


class StateReader:
    """Reads a server's state folder, while the server is running."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._shelf = CalibratorStore(state / "calibrators", home.shipped_models() / "calibrators")

    def labels(self) -> dict[str, dict[str, Any]]:
        """`correct`, `how` and `episode` of settled suggestions, by suggestion id."""
        return {
            row["id"]: {key: row["label"][key] for key in ("correct", "how", "episode")}
            for row in self._rows()
            if row["label"] is not None
        }

    def shipped(self) -> Calibrator:
        """The calibrator with which the server started."""
        return self._shelf.choose(self._purpose(self._rows()), personal=False).calibrator

    def refitted(self, result: Mapping[str, Any]) -> Refitted | None:
        """The refitted calibrator. None if the answer of `lsp-calib.refit` does not name the one in use."""
        rows = self._rows()
        old, new = self.shipped(), self._shelf.choose(self._purpose(rows)).calibrator
        if not result["calibrator"] or result["calibrator"]["id"] != new.id or new.id == old.id:
            return None
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
        return Refitted(new, sorted(changes, key=lambda one: -one["raw"]))

    def probability(self, calibrator: Calibrator, suggestion_id: str) -> float | None:
        """What a calibrator says of a suggestion that was shown; None if it is not in the store (yet)."""
        row = next((row for row in self._rows() if row["id"] == suggestion_id), None)
        return None if row is None else calibrator.probability(_evidence(row))

    def _rows(self) -> list[dict[str, Any]]:
        store = FeedbackStore(self._state / "feedback.db")
        try:
            return list(store.export())
        finally:
            store.close()

    @staticmethod
    def _purpose(rows: Sequence[Mapping[str, Any]]) -> Purpose:
        row = rows[0]
        # The store does not keep the quantisation; the checksum identifies the file.
        model = ModelIdentity(row["model"], "", row["model_sha256"])
        return Purpose(model, row["prompt_version"], "line", row["language"])


def _evidence(row: Mapping[str, Any]) -> Evidence:
    return evidence_of(row["logprobs"], row["features"], row["features_version"], row["place"])
