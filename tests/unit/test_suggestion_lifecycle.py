"""A suggestion's way from request to label, without an editor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from feedback_scene import URI, suggestion

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.server import events as on
from lsp_calib.server.events import Events
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.suggestion_tracking import SuggestionTracking
from lsp_calib.settings import Settings, Trusted
from lsp_calib.values import Evidence, ModelIdentity

IDENTITY = "0123456789abcdef"


@attrs.define
class Scene:
    """One open document, and the events about it."""

    tracking: SuggestionTracking
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

    def document(self, uri: str = URI, *, is_open: bool = True) -> Any:
        return SimpleNamespace(uri=uri, bare_lines=self.lines, is_open=is_open)

    def type(self, text: str) -> None:
        self.lines[0] += text
        self.tracking.changed(URI, self.lines)

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
    connection: Any = SimpleNamespace(
        settings=Settings(feedback=enabled),
        trusted=Trusted(),
        folder_of=lambda _: "",
    )
    messages: Any = SimpleNamespace(warn=warnings.append)
    events = Events()
    recorder = FeedbackRecorder(connection, messages, events, database)
    tracking = SuggestionTracking(events)
    events.on(on.SuggestionShown, lambda one: calls.append(f"shown {one.completion.suggestion.id}"))
    events.on(on.SuggestionOutdated, lambda one: calls.append(f"outdated {one.uri}"))
    events.on(on.MarksChanged, lambda one: calls.append(f"marks {one.uri}"))
    events.on(on.LabelsRecorded, lambda one: calls.append(f"labels {one.n}"))
    return Scene(tracking, recorder, database, lines, calls, warnings)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    scene = make_scene(tmp_path)
    yield scene
    scene.tracking.close([])


async def test_from_request_to_label(scene: Scene) -> None:
    offer = scene.offer("12")
    scene.tracking.requested(URI, offer.cursor.own_line)
    assert scene.tracking.shown(scene.document(), offer)
    scene.type("12")
    assert [line for line, _ in scene.tracking.inserted(URI)] == [0]
    scene.tracking.saved(URI)
    assert scene.tracking.inserted(URI) == []
    assert scene.calls == [f"shown {IDENTITY}", f"marks {URI}", "labels 1", f"marks {URI}"]
    [row] = await scene.stored()
    assert (row["id"], row["label"]["correct"], row["label"]["how"]) == (IDENTITY, True, "kept")


async def test_a_suggestion_for_a_line_that_has_changed_is_not_shown(scene: Scene) -> None:
    offer = scene.offer("1")
    scene.type("2")
    assert not scene.tracking.shown(scene.document(), offer)
    assert not scene.tracking.shown(scene.document("file:///closed.py", is_open=False), offer)
    assert scene.calls == [f"outdated {URI}", "outdated file:///closed.py"]


async def test_after_settling_nothing_is_shown(scene: Scene) -> None:
    """The editor is shutting down: what is shown now would never get its label."""
    offer = scene.offer("1")
    assert scene.tracking.shown(scene.document(), offer)
    scene.tracking.close([URI])
    assert not scene.tracking.shown(scene.document(), offer)
    [row] = await scene.stored()
    assert row["label"] is not None


async def test_a_hint_is_on_disk_when_it_is_answered(scene: Scene) -> None:
    scene.tracking.shown(scene.document(), scene.offer("1"))
    await scene.recorder.hint("accepted", IDENTITY)
    store = FeedbackStore(scene.database)
    [row] = store.export()
    store.close()
    assert "accepted" in [event["kind"] for event in row["events"]]
    await scene.recorder.close()


async def test_where_feedback_is_off_nothing_is_stored(tmp_path: Path) -> None:
    """The suggestion is followed all the same: its diagnostic moves with its line."""
    scene = make_scene(tmp_path, enabled=False)
    scene.tracking.shown(scene.document(), scene.offer("12"))
    scene.type("12")
    assert [line for line, _ in scene.tracking.inserted(URI)] == [0]
    await scene.recorder.hint("accepted", IDENTITY)
    scene.tracking.close([URI])
    assert await scene.stored() == []


async def test_a_store_that_cannot_be_opened_is_reported_and_typing_goes_on(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    scene.database.mkdir()
    assert scene.tracking.shown(scene.document(), scene.offer("1"))
    scene.type("1")
    scene.tracking.close([URI])
    await scene.recorder.close()
    assert scene.warnings
    assert all(warning.startswith("Feedback on suggestions cannot be stored: ") for warning in scene.warnings)
