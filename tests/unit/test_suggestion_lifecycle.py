"""A suggestion's way from request to label, without an editor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from feedback_scene import URI, suggestion

from lsp_calib.calibration import CalibratorStore
from lsp_calib.completion import Completion, Cursor
from lsp_calib.errors import EngineError
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.engine import LoadedModel
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.suggestion_lifecycle import SuggestionLifecycle
from lsp_calib.values import Evidence, ModelIdentity

IDENTITY = "0123456789abcdef"


async def _no_model() -> LoadedModel:
    raise EngineError("There is no model.")


@attrs.define
class Scene:
    """One open document, and what the lifecycle has called."""

    lifecycle: SuggestionLifecycle
    recorder: FeedbackRecorder
    database: Path
    lines: list[str]
    calls: list[str]
    warnings: list[str]

    def offer(self, text: str) -> Completion:
        """A completion at the end of the first line."""
        cursor = Cursor.at(tuple(self.lines), 0, len(self.lines[0]), "python")
        return Completion(
            suggestion(text, IDENTITY), cursor, Evidence((-0.1,)), ModelIdentity("m", "", ""), "p1"
        )

    def type(self, text: str) -> None:
        self.lines[0] += text
        self.lifecycle.tracking.changed(URI)

    async def stored(self) -> list[dict[str, Any]]:
        """What is in the store, once everything is written."""
        await self.recorder.close()
        if not self.database.exists():
            return []
        store = FeedbackStore(self.database)
        found = list(store.export())
        store.close()
        return found


def make_scene(folder: Path, *, enabled: bool = True) -> Scene:
    lines, calls, warnings = ["x = ", ""], list[str](), list[str]()
    database = folder / "feedback.db"
    recorder = FeedbackRecorder(
        lambda: database,
        enabled=lambda: enabled,
        workspace_of=lambda _: "",
        retention_days=365,
        warn=warnings.append,
    )
    lifecycle = SuggestionLifecycle(
        recorder,
        CalibratorStore(folder / "calibrators", folder / "shipped"),
        lines={URI: lines}.get,
        purpose=_no_model,
        on_requested=lambda: calls.append("requested"),
        on_shown=lambda shown: calls.append(f"shown {shown.id}"),
        on_outdated=lambda uri: calls.append(f"outdated {uri}"),
        on_marks_changed=lambda uri: calls.append(f"marks {uri}"),
        on_refitted=lambda ref: calls.append(f"refitted {ref.id}"),
    )
    return Scene(lifecycle, recorder, database, lines, calls, warnings)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    scene = make_scene(tmp_path)
    yield scene
    scene.lifecycle.tracking.close([])


async def test_from_request_to_label(scene: Scene) -> None:
    offer = scene.offer("12")
    scene.lifecycle.requested(URI, offer.cursor)
    assert scene.lifecycle.shown(URI, offer)
    scene.type("12")
    assert [line for line, _ in scene.lifecycle.tracking.inserted(URI)] == [0]
    scene.lifecycle.tracking.saved(URI)
    assert scene.lifecycle.tracking.inserted(URI) == []
    assert scene.calls == ["requested", f"shown {IDENTITY}", f"marks {URI}", f"marks {URI}"]
    [row] = await scene.stored()
    assert (row["id"], row["label"]["correct"], row["label"]["how"]) == (IDENTITY, True, "kept")


async def test_a_suggestion_for_a_line_that_has_changed_is_not_shown(scene: Scene) -> None:
    offer = scene.offer("1")
    scene.type("2")
    assert not scene.lifecycle.shown(URI, offer)
    assert not scene.lifecycle.shown("file:///closed.py", offer)
    assert scene.calls == [f"outdated {URI}", "outdated file:///closed.py"]


async def test_after_settling_nothing_is_shown(scene: Scene) -> None:
    """The editor is shutting down: what is shown now would never get its label."""
    offer = scene.offer("1")
    assert scene.lifecycle.shown(URI, offer)
    scene.lifecycle.settle([URI])
    assert not scene.lifecycle.shown(URI, offer)
    [row] = await scene.stored()
    assert row["label"] is not None


async def test_a_hint_is_on_disk_when_it_is_answered(scene: Scene) -> None:
    scene.lifecycle.shown(URI, scene.offer("1"))
    await scene.lifecycle.hinted("accepted", IDENTITY)
    store = FeedbackStore(scene.database)
    [row] = store.export()
    store.close()
    assert "accepted" in [event["kind"] for event in row["events"]]
    await scene.recorder.close()


async def test_without_a_model_a_refit_fails_and_changes_nothing(scene: Scene) -> None:
    with pytest.raises(EngineError, match="There is no model"):
        await scene.lifecycle.refit()
    assert scene.calls == []
    await scene.recorder.close()


async def test_where_feedback_is_off_nothing_is_stored(tmp_path: Path) -> None:
    """The suggestion is followed all the same: its diagnostic moves with its line."""
    scene = make_scene(tmp_path, enabled=False)
    scene.lifecycle.shown(URI, scene.offer("12"))
    scene.type("12")
    assert [line for line, _ in scene.lifecycle.tracking.inserted(URI)] == [0]
    await scene.lifecycle.hinted("accepted", IDENTITY)
    scene.lifecycle.settle([URI])
    assert await scene.stored() == []


async def test_a_store_that_cannot_be_opened_is_reported_and_typing_goes_on(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    scene.database.mkdir()
    assert scene.lifecycle.shown(URI, scene.offer("1"))
    scene.type("1")
    scene.lifecycle.settle([URI])
    await scene.recorder.close()
    assert scene.warnings
    assert all(warning.startswith("Feedback on suggestions cannot be stored: ") for warning in scene.warnings)
