"""Requests for the editor's settings, of which several may be under way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from lsp_calib.server.app import CalibServer
from lsp_calib.settings import Settings


class AsksTwice(CalibServer):
    """first: the first answer; a second, to another request, excludes documents. seconds: until
    each answer."""

    client_capabilities: Any = SimpleNamespace(workspace=SimpleNamespace(configuration=True))

    def __init__(self, first: object, seconds: tuple[float, float]) -> None:
        super().__init__(Settings())
        self.answers = list(zip((first, {"exclude": ["secret/**"]}), seconds, strict=True))

    async def workspace_configuration_async(self, *_: Any) -> list[object]:  # type: ignore[override]
        answer, seconds = self.answers.pop(0)
        await asyncio.sleep(seconds)
        return [answer]


async def test_an_answer_to_an_earlier_request_does_not_undo_a_later_one() -> None:
    """A document that the user has just excluded would be shown to the model again."""
    server: Any = AsksTwice({"exclude": []}, (0.1, 0.0))
    earlier = asyncio.create_task(server.fetch_settings())
    await asyncio.sleep(0.01)
    assert await server.fetch_settings()
    assert server.settings.exclude == ("secret/**",)
    assert await earlier
    assert server.settings.exclude == ("secret/**",)
    assert server.problems == []


async def test_an_answer_holds_while_a_later_request_waits_for_its_own() -> None:
    """The session starts after the first answer: a document that it excludes would be shown to the model."""
    server: Any = AsksTwice({"exclude": ["own/**"]}, (0.01, 0.1))
    earlier = asyncio.create_task(server.fetch_settings())
    later = asyncio.create_task(server.fetch_settings())
    assert await earlier
    assert server.settings.exclude == ("own/**",)
    assert await later
    assert server.settings.exclude == ("secret/**",)
