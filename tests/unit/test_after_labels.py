"""What new labels set off: the watch soon, a refit in a pause, never amid typing."""

from __future__ import annotations

import asyncio

import pytest

from lsp_calib.errors import DataError
from lsp_calib.feedback.self_refit import LEAST_NEW
from lsp_calib.server import after_labels
from lsp_calib.server.after_labels import AfterLabels


class Scene:
    def __init__(self) -> None:
        self.watched = self.refits = 0
        self.fails = False
        self.after = AfterLabels(self._watch, self._refit)

    async def _watch(self) -> None:
        self.watched += 1
        if self.fails:
            raise DataError("broken")

    async def _refit(self) -> None:
        self.refits += 1


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(after_labels, "SOON", 0.02)
    monkeypatch.setattr(after_labels, "IDLE", 0.2)
    return Scene()


async def test_several_labels_are_watched_once_and_refitted_on_in_a_pause(scene: Scene) -> None:
    for _ in range(LEAST_NEW):
        scene.after.labelled(1)
    await asyncio.sleep(0.1)
    assert (scene.watched, scene.refits) == (1, 0)
    await asyncio.sleep(0.4)
    assert (scene.watched, scene.refits) == (1, 1)


async def test_few_labels_are_watched_only(scene: Scene) -> None:
    scene.after.labelled(LEAST_NEW - 1)
    await asyncio.sleep(0.4)
    assert (scene.watched, scene.refits) == (1, 0)
    scene.after.labelled(1)
    await asyncio.sleep(0.4)
    assert (scene.watched, scene.refits) == (2, 1)


async def test_while_the_user_types_nothing_is_refitted(scene: Scene) -> None:
    scene.after.begin()
    for _ in range(20):
        await asyncio.sleep(0.03)
        scene.after.active()
    assert scene.refits == 0
    await asyncio.sleep(0.4)
    assert scene.refits == 1
    scene.after.active()
    await asyncio.sleep(0.4)
    assert scene.refits == 1, "nothing new"


async def test_a_fault_is_logged_and_stops_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.fails = True
    scene.after.begin()
    await asyncio.sleep(0.5)
    assert "New labels could not be used: broken" in caplog.text
    assert scene.refits == 1


async def test_nothing_begins_after_the_end(scene: Scene) -> None:
    scene.after.begin()
    scene.after.stop()
    scene.after.begin()
    await asyncio.sleep(0.4)
    assert (scene.watched, scene.refits) == (0, 0)
