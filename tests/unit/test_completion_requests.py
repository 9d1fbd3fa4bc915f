"""Which of several concurrent requests is answered."""

from __future__ import annotations

import asyncio
from typing import Any

from feedback_scene import suggestion

from lsp_calib.completion import Completion, Cursor
from lsp_calib.server.completion_requests import CompletionReply, CompletionRequests
from lsp_calib.server.last_requests import LastRequests
from lsp_calib.values import Evidence, ModelIdentity

URI = "file:///a.py"


class Service:
    """Answers once `go` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def complete(self, cursor: Cursor, *, document: str, hide_below: float) -> Completion:
        assert (document, hide_below) == (URI, 0.0)
        await self.go.wait()
        made = suggestion("x", f"at {cursor.line}")
        return Completion(made, cursor, Evidence((-0.1,)), ModelIdentity("m", "", ""), "p1")

    def ahead(self, _cursor: Cursor) -> None:
        return None

    def forget(self, _document: str) -> None:
        pass


async def _no_refusal(_uri: str, _patience: float | None) -> None:
    return None


def requests(service: Any) -> CompletionRequests:
    return CompletionRequests(
        service,
        last=LastRequests(),
        refusal=_no_refusal,
        on_request=lambda *_: None,
        on_made=lambda _: None,
        on_hidden=lambda _: None,
        on_nothing=lambda _: None,
        hide_below=lambda: 0.0,
        looks_ahead=lambda: False,
    )


async def ready(asked: CompletionRequests) -> None:
    """Until the reply is made, and the request that waits for it has not yet received it."""
    while URI not in asked._running or not asked._running[URI].task.done():
        await asyncio.sleep(0)


async def test_a_reply_is_not_delivered_after_a_request_at_another_place() -> None:
    """The editor would discard a reply for the old place, and it would count as shown."""
    service = Service()
    asked = requests(service)
    lines = ("a", "b")
    first = asyncio.create_task(asked.newest(URI, Cursor.at(lines, 0, 1, "python")))
    await asyncio.sleep(0)
    service.go.set()
    await ready(asked)
    second = asyncio.create_task(asked.newest(URI, Cursor.at(lines, 1, 1, "python")))
    assert await first is None
    answer = await second
    assert isinstance(answer, CompletionReply)
    assert answer.completion is not None
    assert answer.completion.suggestion.id == "at 1"


async def test_two_requests_at_one_place_are_both_answered() -> None:
    """An editor requests its menu and its ghost text at the same time."""
    service = Service()
    asked = requests(service)
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
