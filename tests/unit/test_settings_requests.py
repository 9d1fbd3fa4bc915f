"""Requests for the editor's settings, of which several may be under way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types

from lsp_calib.server.app import CalibServer, register
from lsp_calib.settings import Settings


class AsksTwice(CalibServer):
    """first: the first answer, or an error; a second, to another request, excludes documents. seconds: until
    each answer."""

    client_capabilities: Any = SimpleNamespace(workspace=SimpleNamespace(configuration=True))

    def __init__(self, first: object, seconds: tuple[float, float]) -> None:
        super().__init__(Settings())
        self.answers = list(zip((first, {"exclude": ["secret/**"]}), seconds, strict=True))

    async def workspace_configuration_async(self, *_: Any) -> list[object]:  # type: ignore[override]
        answer, seconds = self.answers.pop(0)
        await asyncio.sleep(seconds)
        if isinstance(answer, Exception):
            raise answer
        return [answer]


@pytest.mark.parametrize("first", [{"exclude": []}, ValueError("no")])
async def test_an_answer_to_an_earlier_request_does_not_undo_a_later_one(first: object) -> None:
    """A document that the user has just excluded would be shown to the model again."""
    server: Any = AsksTwice(first, (0.1, 0.0))
    earlier = asyncio.create_task(server.fetch_settings())
    await asyncio.sleep(0.01)
    assert await server.fetch_settings()
    assert server.settings.exclude == ("secret/**",)
    assert await earlier
    assert server.settings.exclude == ("secret/**",)
    assert server.problems == []


async def test_an_answer_that_comes_late_undoes_no_settings_that_were_pushed() -> None:
    server: Any = AsksTwice({"exclude": []}, (0.1, 0.0))
    server.settings_within = 0.02
    server.session = SimpleNamespace(settings_changed=lambda: None)
    handlers: dict[str, Any] = {}
    server.feature = lambda name, *_: lambda handler: handlers.setdefault(name, handler)
    register(server)
    server.answers[1] = (ValueError("no"), 0.0)
    earlier = asyncio.create_task(server.fetch_settings())
    await asyncio.sleep(0.03)
    pushed = types.DidChangeConfigurationParams(settings={"lspCalib": {"exclude": ["secret/**"]}})
    await handlers[types.WORKSPACE_DID_CHANGE_CONFIGURATION](server, pushed)
    assert server.settings.exclude == ("secret/**",)
    await earlier
    await asyncio.sleep(0.1)
    assert server.settings.exclude == ("secret/**",)


async def test_an_answer_holds_while_a_later_request_waits_for_its_own() -> None:
    """The session starts after the first answer: a document that it excludes would be shown to the model."""
    server: Any = AsksTwice({"exclude": ["own/**"]}, (0.01, 0.1))
    earlier = asyncio.create_task(server.fetch_settings())
    later = asyncio.create_task(server.fetch_settings())
    assert await earlier
    assert server.settings.exclude == ("own/**",)
    assert await later
    assert server.settings.exclude == ("secret/**",)
