"""Faults are shown once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from lsprotocol import types

from lsp_calib.server.messages import UserMessages


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
