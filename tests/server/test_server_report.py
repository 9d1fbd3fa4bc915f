"""`lsp-calib.showReport`: the page is written, and the client opens it or says where it is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from scripted_editor import Editor, capabilities, until

SCRIPT = {"otherwise": {"text": "_secret_text", "logprobs": [-0.1, -0.25]}}
TEXT = "kept\nother\n"


async def one_kept(editor: Editor) -> None:
    """A suggestion that is shown, inserted and settled."""
    editor.open(TEXT)
    await editor.suggestion(0, 4)
    editor.insert(0, 4, "_secret_text")
    await editor.saved(1)


async def test_the_client_opens_the_page(connect: Connect) -> None:
    """It holds what was recorded until now, the session's latency, and neither text nor paths."""
    client = capabilities(inline=True)
    client.window = types.WindowClientCapabilities(show_document=types.ShowDocumentClientCapabilities(True))
    editor = await connect(SCRIPT, client=client)
    await one_kept(editor)
    path = Path((await editor.command("showReport"))["path"])
    assert path == editor.home / "report.html"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    page = path.read_text("utf-8")
    assert "1 visit with a known outcome: too few to say anything yet." in page
    assert "Half of the last answers since the server started came within" in page
    for trace in ("_secret_text", "module.py", "file:", str(editor.home)):
        assert trace not in page
    await until(lambda: bool(editor.client.shown_documents), "the page is opened")
    (shown,) = editor.client.shown_documents
    assert (shown.uri, shown.external) == (path.as_uri(), True)
    assert not any("The report is" in message for message in editor.messages)
    await editor.command("purgeFeedback")
    assert not path.exists()


async def test_a_client_that_opens_nothing_is_told_the_path(connect: Connect) -> None:
    editor = await connect(SCRIPT)
    path = (await editor.command("showReport"))["path"]
    await until(lambda: any(path in message for message in editor.messages), "a message with the path")
    assert "nothing to report yet" in Path(path).read_text("utf-8")


async def test_it_is_refused_where_something_else_lies(connect: Connect) -> None:
    editor = await connect(SCRIPT)
    (editor.home / "report.html").write_text("mine")
    with pytest.raises(JsonRpcException, match="is no report"):
        await editor.command("showReport")
    assert (editor.home / "report.html").read_text() == "mine"
