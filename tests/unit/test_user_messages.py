"""Faults are shown once, and a client that refuses progress bars gets none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from lsprotocol import types

from lsp_calib.inference.engine import EngineState
from lsp_calib.server.messages import LoadProgress, UserMessages


def test_each_message_is_shown_once_until_they_are_forgotten_and_none_after_the_end() -> None:
    shown: list[types.ShowMessageParams] = []
    messages = UserMessages(cast(Any, SimpleNamespace(window_show_message=shown.append)))
    messages.warn("a")
    messages.warn("a", "b", "c", "b")
    messages.error("c")
    assert [params.message for params in shown] == ["a", "b\nc"]
    messages.forget()
    messages.error("a")
    assert shown[-1] == types.ShowMessageParams(types.MessageType.Error, "a")
    for _ in range(2):
        messages.inform("e")
    assert shown[-2:] == [types.ShowMessageParams(types.MessageType.Info, "e")] * 2
    messages.stop()
    messages.warn("d")
    messages.inform("e")
    assert len(shown) == 5


async def test_a_bar_that_was_asked_for_before_another_was_refused_does_not_begin() -> None:
    """Loading ended and began again before the client had answered: the bar would never end."""
    answers: list[asyncio.Future[None]] = []
    begun: list[str] = []

    def create(_token: str) -> asyncio.Future[None]:
        answers.append(asyncio.get_running_loop().create_future())
        return answers[-1]

    bars = SimpleNamespace(create_async=create, begin=lambda token, _value: begun.append(token))
    progress = LoadProgress(cast(Any, bars))
    for state in (EngineState.LOADING, EngineState.READY, EngineState.LOADING):
        progress.update(state, "", None)
        await asyncio.sleep(0)
    answers[0].set_exception(ValueError("no bars here"))
    await asyncio.sleep(0)
    answers[1].set_result(None)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (len(answers), begun) == (2, [])
