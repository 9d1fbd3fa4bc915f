"""What an editor says of a suggestion in the notifications of Copilot: kept where it fits, else ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Connect
from scripted_editor import Editor

TEXT = "def f(net, tax):\n    total = \n    return total\n"
SHOWN, PART = "textDocument/didShowCompletion", "textDocument/didPartiallyAcceptCompletion"


async def editor_of(connect: Connect) -> tuple[Editor, dict[str, Any]]:
    editor = await connect({"otherwise": {"text": "net + tax"}}, text=TEXT)
    return editor, await editor.suggestion(1, 12)


def item(suggestion: object) -> dict[str, Any]:
    return {"command": {"title": "", "command": "lsp-calib.accepted", "arguments": [suggestion]}}


def kinds(editor: Editor, identity: str) -> list[str]:
    query = f"SELECT kind FROM events WHERE suggestion_id = '{identity}' ORDER BY number"
    return [kind for (kind,) in editor.rows(query)]


async def test_what_is_said_of_a_suggestion_is_an_event(connect: Connect) -> None:
    """It is displayed once, however often that is said."""
    editor, shown = await editor_of(connect)
    for _ in range(2):
        editor.client.protocol.notify(SHOWN, {"item": item(shown)})
    editor.client.protocol.notify(PART, {"item": item(shown), "acceptedLength": 3})
    editor.insert(1, 12, "net")
    await editor.in_order()
    assert kinds(editor, shown["id"]) == ["shown", "displayed", "taken in part"]
    ((data,),) = editor.rows("SELECT data FROM events WHERE kind = 'displayed'")
    assert set(json.loads(data)) == {"seconds"}
    assert 0.0 <= json.loads(data)["seconds"] < 60.0


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (SHOWN, None),
        (SHOWN, []),
        (SHOWN, {"item": "net + tax"}),
        (SHOWN, {"item": {"command": {"arguments": []}}}),
        (SHOWN, {"item": {"command": {"arguments": ["0123456789abcdef"]}}}),
        (SHOWN, {"item": item({"id": "0123456789abcdef"})}),
        (SHOWN, {"item": item({"id": "def f(net, tax):"})}),
        (PART, {"item": item("OWN")}),
        (PART, {"item": item("OWN"), "acceptedLength": "3"}),
        (PART, {"item": item("OWN"), "acceptedLength": True}),
        (PART, {"item": item("OWN"), "acceptedLength": 0}),
        (PART, {"item": item("OWN"), "acceptedLength": -3}),
        (PART, {"item": item({"id": "0123456789abcdef"}), "acceptedLength": 3}),
    ],
)
async def test_what_does_not_fit_is_ignored(connect: Connect, method: str, params: Any) -> None:
    editor, shown = await editor_of(connect)
    if isinstance(params, dict) and params.get("item") == item("OWN"):
        params = {**params, "item": item(shown)}
    editor.client.protocol.notify(method, params)
    await editor.in_order()
    assert kinds(editor, shown["id"]) == ["shown"]
    assert editor.rows("SELECT COUNT(*) FROM events WHERE kind <> 'rejected'") == [(1,)]
    assert editor.messages == []
    assert editor.client.complaints == []
