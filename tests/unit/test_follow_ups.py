"""What is made after a suggestion: how long it goes on, and for whom."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import attrs
import pytest
from feedback_scene import suggestion

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion
from lsp_calib.errors import EngineError, LspCalibError
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.follow_ups import DerivedSuggestions, Made
from lsp_calib.values import Evidence, ModelIdentity

URI = "file:///a.py"
DOCUMENT = CalibDocument(URI, "", language_id="python")


class Scene:
    """Follow-ups of lines that are ready once `go` is set."""

    def __init__(self, **grace: float) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.cancelled = 0
        self.fails = False
        self.works = DerivedSuggestions(self._make, of_line=True, **grace)

    async def _make(self, _document: CalibDocument, first: Completion) -> tuple[Made, LspCalibError | None]:
        self.begun += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fails:
            before = attrs.evolve(first, suggestion=suggestion("before"))
            return (before,), EngineError("no answer")
        return (first,), None

    async def waiting(self, typed: str = "", *, begins: bool = True) -> asyncio.Task[Made]:
        self.works.requested(URI, completion(typed).cursor)
        task = asyncio.create_task(self.works.of(DOCUMENT, completion(typed), begins=begins))
        await turns()
        return task


def shown(made: Made) -> str:
    return "".join(one.expected_line for one in made)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def stopped(task: asyncio.Task[Made]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def completion(typed: str = "", line: int = 0) -> Completion:
    """The rest of `x = 1`, of which a beginning is typed."""
    cursor = Cursor.at([typed, ""], line, len(typed), "python")
    made = suggestion("x = 1".removeprefix(typed))
    return Completion(made, cursor, Evidence(), ModelIdentity("m", "", ""), "p")


async def test_a_failure_keeps_nothing_of_its_call() -> None:
    """The frames of the error hold the prompt."""

    class Local:
        pass

    locals_: list[weakref.ref[Local]] = []

    async def make(_document: CalibDocument, _first: Completion) -> tuple[Made, LspCalibError | None]:
        try:
            local = Local()
            locals_.append(weakref.ref(local))
            raise EngineError("no answer")
        except EngineError as error:
            return (), error

    works = DerivedSuggestions(make)
    assert await works.of(DOCUMENT, completion()) == ()
    await turns()
    gc.collect()
    assert [one() for one in locals_] == [None]


async def test_it_ends_a_moment_after_nobody_waits_for_it() -> None:
    scene = Scene(grace=0.01)
    await stopped(await scene.waiting())
    assert scene.cancelled == 0
    while not scene.cancelled:
        await asyncio.sleep(0.005)
    assert shown(scene.works.made(URI)) == ""
    scene.go.set()
    assert shown(await (await scene.waiting())) == "x = 1", "it is made anew"
    assert scene.begun == 2


async def test_unless_another_request_for_the_place_waits_for_it() -> None:
    scene = Scene(grace=0.05)
    await stopped(await scene.waiting())
    later = await scene.waiting(begins=False)
    await asyncio.sleep(0.1)
    scene.go.set()
    assert shown(await later) == shown(scene.works.made(URI)) == "x = 1"
    assert (scene.begun, scene.cancelled) == (1, 0)
    await asyncio.sleep(0.1)
    assert shown(scene.works.made(URI)) == "x = 1", "what is made stays"


async def test_where_it_has_not_begun_a_half_line_begins_nothing() -> None:
    scene = Scene()
    assert shown(await (await scene.waiting("x", begins=False))) == ""
    assert scene.begun == 0


@pytest.mark.parametrize(
    ("typed", "line", "goes_on"), [("", 0, True), ("x =", 0, False), ("y", 0, False), ("", 1, False)]
)
async def test_which_request_ends_it(typed: str, line: int, goes_on: bool) -> None:
    scene = Scene()
    waits = await scene.waiting()
    scene.works.requested(URI, completion(typed, line).cursor)
    await turns()
    assert scene.cancelled == (0 if goes_on else 1)
    scene.go.set()
    assert shown(await waits) == ("x = 1" if goes_on else "")


async def test_another_text_does_not_end_what_is_made() -> None:
    scene = Scene()
    scene.go.set()
    await (await scene.waiting())
    assert shown(await (await scene.waiting("x", begins=False))) == "x = 1"
    scene.works.requested(URI, completion("y").cursor)
    assert shown(scene.works.made(URI)) == "x = 1"
    scene.works.requested(URI, completion("", 1).cursor)
    assert shown(scene.works.made(URI)) == ""


async def test_all_work_is_stopped_and_what_is_made_stays() -> None:
    scene = Scene()
    waits = await scene.waiting()
    assert scene.works.stop() == [URI]
    assert shown(await waits) == ""
    assert scene.cancelled == 1
    await stopped(await scene.waiting())
    assert scene.works.stop() == [], "nobody waits for it"
    await turns()
    assert scene.cancelled == 2
    scene.go.set()
    await (await scene.waiting())
    assert scene.works.stop() == []
    assert shown(scene.works.made(URI)) == "x = 1"


async def test_what_has_failed_is_made_anew_and_until_then_there_is_what_it_had() -> None:
    scene = Scene()
    scene.go.set()
    scene.fails = True
    assert shown(await (await scene.waiting())) == "before"
    assert shown(scene.works.made(URI)) == "before"
    assert shown(await (await scene.waiting("x", begins=False))) == "before"
    assert shown(await scene.works.of(DOCUMENT, completion(), patience=0)) == "before"
    assert scene.begun == 1, "on half a line nothing begins, and nobody waits"
    scene.fails = False
    assert shown(await (await scene.waiting())) == "x = 1"
    assert shown(await (await scene.waiting())) == "x = 1"
    assert scene.begun == 2, "what is made stays"


async def test_work_that_fails_while_it_is_stopped_is_stopped() -> None:
    scene = Scene()
    scene.fails = True
    waits = await scene.waiting()
    scene.works.requested(URI, completion("", 1).cursor)
    scene.go.set()
    assert shown(await waits) == ""
    assert scene.cancelled == 1
