"""What is done in pauses: soon after labels, when the user has stopped, never amid typing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from lsp_calib.errors import DataError
from lsp_calib.feedback.personalisation import LEAST_NEW
from lsp_calib.server.admission import IdleWork
from lsp_calib.server.messages import Pace
from lsp_calib.server.refits import Learning

PACE = Pace(summaries=0.1, refit=0.2, watch=0.02)


@pytest.fixture(autouse=True)
async def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes at once where everybody waits for it, however busy the machine is."""
    loop: Any = asyncio.get_running_loop()
    select, now = loop._selector.select, [loop.time()]

    def at_once(timeout: float | None) -> Any:
        if timeout is None:
            return select(None)
        events = select(0)
        now[0] += 0.0 if events else timeout
        return events

    monkeypatch.setattr(loop, "time", lambda: now[0])
    monkeypatch.setattr(loop._selector, "select", at_once)


class Piece:
    """A piece of work that takes 0.2 s."""

    def __init__(self) -> None:
        self.begun = self.done = 0

    async def __call__(self) -> None:
        self.begun += 1
        await asyncio.sleep(0.2)
        self.done += 1


async def test_what_the_user_does_stops_it_and_it_begins_anew() -> None:
    piece = Piece()
    work = IdleWork("summaries", 0.1, piece, stops=True)
    work.wait()
    await asyncio.sleep(0.2)
    work.wait()
    await asyncio.sleep(0.15)
    assert (piece.begun, piece.done) == (2, 0)
    await work.close()
    work.wait()
    await asyncio.sleep(0.4)
    assert (piece.begun, piece.done) == (2, 0), "closed"


async def test_a_refit_goes_on_while_the_user_types() -> None:
    piece = Piece()
    work = IdleWork("refit", 0.1, piece, stops=False)
    work.wait()
    await asyncio.sleep(0.2)
    work.wait()
    await asyncio.sleep(0.15)
    assert (piece.begun, piece.done) == (1, 1)
    await work.close()


async def test_a_pause_of_the_users_stops_it_until_its_end() -> None:
    piece = Piece()
    work = IdleWork("summaries", 0.1, piece, stops=True)
    work.wait()
    work.stop()
    await asyncio.sleep(0.2)
    assert piece.begun == 0
    work.wait()
    await asyncio.sleep(0.4)
    assert piece.done == 1
    await work.close()


@attrs.define
class Recorder:
    """Notes what is wanted of it."""

    watched: int = 0
    refits: int = 0
    fails: bool = False

    async def learn(self, work: Any) -> None:
        self.watched += work.__name__ == "watch"
        self.refits += work.__name__ == "refit"
        if self.fails and work.__name__ == "watch":
            raise DataError("broken")


class Scene:
    def __init__(self) -> None:
        self.recorder = Recorder()

        async def purpose(_language: str | None = None) -> SimpleNamespace:
            return SimpleNamespace(model=None, prompt_version="p1")

        purposes = [SimpleNamespace(task="line")]
        connection: Any = SimpleNamespace(settings=SimpleNamespace(auto_refit=True))
        known = {"loaded": 1, "language": "python", "promise": 1, "store": None, "reload": lambda: None}
        fakes: Any = SimpleNamespace(purpose=purpose, purposes=purposes, **known)
        recorder: Any = self.recorder
        about: Any = {"pace": PACE, "status": fakes, "messages": fakes, "calibrator_changed": fakes}
        self.learning = Learning(connection, fakes, fakes, recorder, **about)

    async def counts(self, seconds: float = 0.4) -> tuple[int, int]:
        """How often labels were watched and refitted on, after a while."""
        await asyncio.sleep(seconds)
        return self.recorder.watched, self.recorder.refits


@pytest.fixture
def scene(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path))
    return Scene()


async def test_several_labels_are_watched_once_and_refitted_on_in_a_pause(scene: Scene) -> None:
    for _ in range(LEAST_NEW):
        scene.learning.settled(1)
    assert await scene.counts(0.1) == (1, 0)
    assert await scene.counts() == (1, 1)


async def test_few_labels_are_watched_only(scene: Scene) -> None:
    scene.learning.settled(LEAST_NEW - 1)
    assert await scene.counts() == (1, 0)
    scene.learning.settled(1)
    assert await scene.counts() == (2, 1)


async def test_while_the_user_types_nothing_is_refitted(scene: Scene) -> None:
    scene.learning.begin()
    for _ in range(20):
        await asyncio.sleep(0.03)
        scene.learning.when_idle.wait()
    assert scene.recorder.refits == 0
    assert await scene.counts() == (1, 1)
    scene.learning.when_idle.wait()
    assert await scene.counts() == (1, 1), "nothing new"


async def test_a_fault_is_logged_and_stops_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.recorder.fails = True
    scene.learning.begin()
    assert await scene.counts(0.5) == (1, 1)
    assert "New labels could not be used: broken" in caplog.text


async def test_nothing_begins_after_the_end(scene: Scene) -> None:
    scene.learning.begin()
    scene.learning.stop()
    await scene.learning.when_idle.close()
    scene.learning.begin()
    assert await scene.counts() == (0, 0)
