"""A remote engine and the server that it asks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from openai_server import OpenAIServer, serving

from lsp_calib.inference.choice import Remote
from lsp_calib.inference.engine import EngineState, Request
from lsp_calib.inference.remote.engine import RemoteEngine
from lsp_calib.inference.remote.server import KEY_VARIABLE, Patience
from lsp_calib.values import Prompt, Segment

QUICK = Patience(connect=5, first=5, between=5, back_off=(0.01, 0.02), longest_wait=0.5, pause=0.2)
PATIENCE = 20.0


@attrs.define
class Scene:
    server: OpenAIServer
    engine: RemoteEngine
    states: list[tuple[EngineState, str]]

    async def say(self, text: str = "def f():\n", forced: str = "", most: int = 12, **options: Any) -> Any:
        return await self.engine.generate(request(text, forced, most, **options))


Play = Callable[..., Awaitable[Scene]]


def request(text: str = "def f():\n", forced: str = "", most: int = 12, **options: Any) -> Request:
    return Request(Prompt(((Segment.TEXT, text),), forced, "test"), most, **options)


@pytest.fixture(autouse=True, name="clean")
def clean_fixture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of whoever runs the tests gets in."""
    monkeypatch.setenv("LSP_CALIB_HOME", str(tmp_path / "home"))
    for name in (KEY_VARIABLE, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(name="play")
async def play_fixture() -> AsyncIterator[Play]:
    """A function that starts a server and an engine that asks it."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(
            remote: dict[str, Any] | None = None, patience: Patience = QUICK, **options: Any
        ) -> Scene:
            server = await stack.enter_async_context(serving(**options))
            states: list[tuple[EngineState, str]] = []
            engine = RemoteEngine(
                Remote(**{"url": server.url, **(remote or {})}),
                on_state=lambda state, words, _: states.append((state, words)),
                patience=patience,
            )
            stack.push_async_callback(engine.close)
            return Scene(server, engine, states)

        yield make


async def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.005)
