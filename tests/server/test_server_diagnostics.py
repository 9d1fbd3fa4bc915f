"""Diagnostics on inserted suggestions, pushed and pulled."""

from __future__ import annotations

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import URI, Editor, capabilities, until

SCRIPT = {"otherwise": {"text": " + b", "tokens": [" +", " b"], "logprobs": [-0.3, -0.7]}}
TEXT = "import os\n\ndef add(a, b):\n    return a\n"


async def seen(editor: Editor) -> list[types.Diagnostic]:
    """What the editor shows, once the server has handled all messages."""
    await editor.status()
    return await editor.pull() if editor.server.diagnostic_provider else editor.pushed()


def lines(diagnostics: list[types.Diagnostic]) -> list[int]:
    return [diagnostic.range.start.line for diagnostic in diagnostics]


@pytest.mark.parametrize("pull", [False, True], ids=["push", "pull"])
async def test_a_diagnostic_follows_its_line(connect: Connect, pull: bool) -> None:
    """It comes with the inserted suggestion, moves with its line, and goes when that line is changed."""
    editor = await connect(SCRIPT, client=capabilities(inline=True, pull=pull), text=TEXT)
    suggestion = await editor.suggestion(3, 12)
    assert await seen(editor) == []
    editor.insert(3, 12, " + b")
    (diagnostic,) = await seen(editor)
    assert diagnostic.range == types.Range(types.Position(3, 15), types.Position(3, 16)), "the word in doubt"
    assert diagnostic.source == "lsp-calib"
    assert diagnostic.code == "review"
    assert diagnostic.severity is types.DiagnosticSeverity.Hint
    assert diagnostic.data == {"id": suggestion["id"]}
    assert diagnostic.message == (
        "Read it first: the model was unsure where the line ends; least sure of `b`; about 61 % likely to be "
        "right; between 25 % and 78 %"
    )
    editor.insert(0, 0, "# one\n# two\n")
    assert lines(await seen(editor)) == [5]
    editor.change((0, 0), (1, 0), "")
    assert lines(await seen(editor)) == [4]
    editor.insert(5, 0, "# below\n")
    assert lines(await seen(editor)) == [4]
    editor.insert(4, 16, " + 1")
    assert await seen(editor) == []
    # Each way has its own message, and never uses the other's.
    if pull:
        assert editor.client.diagnostics == {}
        await until(lambda: editor.client.diagnostic_refresh_count == 4, "a refresh for each change")
    else:
        assert editor.client.diagnostic_refresh_count == 0
        assert set(editor.client.diagnostics) == {URI}


async def test_a_document_that_is_opened_twice(connect: Connect) -> None:
    """With another text, and without a close between: the diagnostic is where its line is now, or nowhere."""
    editor = await connect(SCRIPT, text=TEXT)
    await editor.suggestion(3, 12)
    editor.insert(3, 12, " + b")
    assert lines(await seen(editor)) == [3]
    accepted = TEXT.replace("return a", "return a + b")
    editor.open(f"# one\n# two\n{accepted}")
    assert lines(await seen(editor)) == [5]
    editor.open(TEXT)
    assert await seen(editor) == []


async def test_what_ends_a_diagnostic(connect: Connect) -> None:
    """Saved, marked as reviewed, closed, deleted, undone: the user has decided, and the diagnostic goes."""
    editor = await connect(SCRIPT)
    suggestions = {}
    ends = ("save", "review", "close", "delete", "undo")
    for end in ends:
        editor.open(TEXT, uri=f"untitled:{end}")
        suggestions[end] = await editor.suggestion(3, 12, f"untitled:{end}")
        editor.insert(3, 12, " + b", f"untitled:{end}")
    await editor.status()
    assert [len(editor.pushed(f"untitled:{end}")) for end in ends] == [1] * len(ends)
    editor.save("untitled:save")
    await editor.command("markReviewed", {"id": suggestions["review"]["id"]})
    editor.close("untitled:close")
    editor.change((3, 0), (4, 0), "", "untitled:delete")
    editor.change((3, 12), (3, 16), "", "untitled:undo")
    await editor.in_order()
    assert [len(editor.pushed(f"untitled:{end}")) for end in ends] == [0] * len(ends)
    assert editor.rows("SELECT suggestion_id FROM events WHERE kind = 'reviewed'") == [
        (suggestions["review"]["id"],)
    ]


async def test_severities(connect: Connect) -> None:
    """Never a warning: no suggestion is a fault of the code."""
    answers = {"a": {"text": "11", "logprobs": [-0.01]}, "c": {"text": "33", "logprobs": [-3.0]}}
    answers["b"] = {"text": "22", "logprobs": [-0.5]}
    editor = await connect({"answers": answers}, text="a\nb\nc\n")
    for line, text in enumerate(("11", "22", "33")):
        await editor.suggestion(line, 1)
        editor.insert(line, 1, text)
    kinds = types.DiagnosticSeverity
    assert {d.code: d.severity for d in await seen(editor)} == {
        "accept": kinds.Hint,
        "review": kinds.Hint,
        "reject": kinds.Information,
    }
