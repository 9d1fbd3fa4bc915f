"""Which request is answered when several are on their way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from feedback_scene import suggestion

from lsp_calib.completion import Completion, Cursor
from lsp_calib.server.completion_requests import Answer, Completions
from lsp_calib.values import ModelIdentity

URI = "file:///a.py"


class Service:
    """Answers at once, or when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def complete(self, cursor: Cursor, *, document: str) -> Completion:
        assert document == URI
        await self.go.wait()
        made = suggestion("x", f"at {cursor.line}")
        return Completion(made, cursor, (-0.1,), ModelIdentity("m", "", ""), "p1")

    def ahead(self, _cursor: Cursor) -> None:
        return None


async def _used(_uri: str, _patience: float | None = None) -> str:
    return ""


def completions(service: Any) -> Completions:
    session: Any = SimpleNamespace(
        running=True,
        excluded=_used,
        notice_calibrators=lambda: None,
        documents=SimpleNamespace(requested=lambda *_: None),
        status=SimpleNamespace(made=lambda _: None, count=lambda _: None),
        settings=SimpleNamespace(ahead=False),
    )
    return Completions(session, service)


async def ready(asked: Completions) -> None:
    """Until the answer is made, and whoever waits for it has not yet been told."""
    while URI not in asked._running or not asked._running[URI].task.done():
        await asyncio.sleep(0)


async def test_an_answer_that_is_ready_when_another_place_is_asked_about_is_not_given() -> None:
    """The editor has moved on: it would throw the answer away, and it would count as shown."""
    service = Service()
    asked = completions(service)
    lines = ("a", "b")
    first = asyncio.create_task(asked.newest(URI, Cursor.at(lines, 0, 1, "python")))
    await asyncio.sleep(0)
    service.go.set()
    await ready(asked)
    second = asyncio.create_task(asked.newest(URI, Cursor.at(lines, 1, 1, "python")))
    assert await first is None
    answer = await second
    assert isinstance(answer, Answer)
    assert answer.completion is not None
    assert answer.completion.suggestion.id == "at 1"


async def test_two_requests_at_one_place_are_both_answered() -> None:
    """An editor asks for its menu and its ghost text at once."""
    service = Service()
    asked = completions(service)
    cursor = Cursor.at(("a", "b"), 0, 1, "python")
    first = asyncio.create_task(asked.newest(URI, cursor))
    await asyncio.sleep(0)
    service.go.set()
    await ready(asked)
    second = asyncio.create_task(asked.newest(URI, cursor))
    for answer in (await first, await second):
        assert answer is not None
        assert answer.completion is not None
        assert answer.completion.suggestion.id == "at 0"
