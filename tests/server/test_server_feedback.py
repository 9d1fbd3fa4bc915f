"""From the user's edits to the labels in the store, from document changes alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import stat
from pathlib import Path

import pytest
from conftest import Connect
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from scripted_editor import Editor

from lsp_calib.feedback.store import FeedbackStore

# One line each for the ways in which a suggestion may end.
TEXT = "kept\nedited\nover\nignored\ntyped\ndeleted\n"
WORDS = TEXT.split()
SECRET = "_secret_text"
SCRIPT = {"otherwise": {"text": SECRET, "logprobs": [-0.1, -0.25]}}


async def live(editor: Editor) -> dict[str, str]:
    """Request on each line and treat each suggestion as the line is named. Returns names by id."""
    names = {}
    for word in sorted(WORDS, key="ignored".__eq__):
        names[(await editor.suggestion(WORDS.index(word), len(word)))["id"]] = word
    # A suggestion that was left sooner cannot have been read, and gets no label.
    await asyncio.sleep(0.8)
    editor.insert(0, 4, SECRET)
    editor.insert(1, 6, SECRET)
    editor.change((1, 10), (1, 12), "!")
    editor.insert(2, 4, "board")
    for offset, letter in enumerate(SECRET):
        editor.insert(4, 5 + offset, letter)
    editor.change((5, 0), (6, 0), "")
    return names


async def test_no_source_text_and_no_path_on_disk(connect: Connect) -> None:
    """The store has the numbers of a suggestion, and nothing of the text or of where it was."""
    editor = await connect(SCRIPT, text=TEXT)
    await live(editor)
    await editor.leave()
    written = b"".join(path.read_bytes() for path in editor.home.rglob("*") if path.is_file())
    assert b"scripted" in written
    for trace in (SECRET, "module.py", "ignored\n", "board"):
        assert trace.encode() not in written


async def test_shutdown_settles_and_writes_everything(connect: Connect) -> None:
    """Leaving decides: every label is on disk once `shutdown` is answered."""
    editor = await connect(SCRIPT, process=True)
    editor.open(TEXT, uri="file:///a%20b/c.py")
    identity = (await editor.suggestion(0, 4, "file:///a%20b/c.py"))["id"]
    editor.insert(0, 4, SECRET, "file:///a%20b/c.py")
    editor.save("file:///a%20b/c.py", reason=None)
    await editor.client.shutdown_async(None)
    editor.client.process.kill()
    await editor.client.gone()
    assert editor.labels() == {identity: "kept"}


async def test_a_label_of_a_save_settles_after_a_restart(connect: Connect) -> None:
    """It was on disk when the server was killed; the next one takes it for settled once nobody revises it."""
    editor = await connect(SCRIPT, text=TEXT, process=True)
    identity = (await editor.suggestion(0, 4))["id"]
    editor.insert(0, 4, SECRET)
    assert await editor.saved() == {identity: "kept"}
    editor.client.process.kill()
    await editor.client.gone()
    assert editor.rows("SELECT settled_at FROM labels") == [(None,)]
    with contextlib.closing(sqlite3.connect(editor.home / "feedback.db")) as store, store:
        store.execute("UPDATE labels SET at = at - 61")  # as a minute later
    again = await connect(SCRIPT, text=TEXT, process=True)
    await again.in_order()
    ((at, settled_at),) = again.rows("SELECT at, settled_at FROM labels")
    assert settled_at - at >= 60
    assert again.labels() == {identity: "kept"}


async def test_an_editor_that_does_not_wait_for_the_answer_to_shutdown(connect: Connect) -> None:
    """Neovim sends `shutdown` and disconnects: the labels are written nevertheless."""
    editor = await connect(SCRIPT, text=TEXT)
    identity = (await editor.suggestion(0, 4))["id"]
    editor.insert(0, 4, SECRET)
    editor.save(reason=None)
    await editor.status()
    request = asyncio.ensure_future(editor.client.shutdown_async(None))
    await asyncio.sleep(0)
    editor.client.hang_up()
    await editor.client.gone()
    await asyncio.wait({request})
    request.exception()
    assert editor.labels() == {identity: "kept"}


async def test_turned_off_it_stores_nothing(connect: Connect) -> None:
    """With `feedback.enabled: false` there is no store at all; diagnostics and answers are as ever."""
    editor = await connect(SCRIPT, options={"feedback": {"enabled": False}}, text=TEXT)
    suggestion = await editor.suggestion(0, 4)
    editor.insert(0, 4, SECRET)
    await editor.command("accepted", suggestion)
    assert len(editor.pushed()) == 1
    editor.save()
    assert await editor.leave() == 0
    assert not (editor.home / "feedback.db").exists()


async def test_only_the_owner_can_read_the_state(connect: Connect, tmp_path: Path) -> None:
    """The folder is 0700 and every file in it 0600, also if the folder was open before, and empty."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o755)
    editor = await connect(SCRIPT, calibrated=False, text=TEXT)
    await editor.suggestion(0, 4)
    await editor.in_order()
    assert stat.S_IMODE(editor.home.stat().st_mode) == 0o700
    files = [path for path in editor.home.rglob("*") if path.is_file()]
    assert editor.home / "feedback.db" in files
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files} == {
        path.name: 0o600 for path in files
    }


async def test_a_damaged_store_costs_no_answer(connect: Connect) -> None:
    """It is moved aside and a new one started; the editor's requests are answered throughout."""
    editor = await connect(SCRIPT, initialized=False)
    (editor.home / "feedback.db").write_bytes(b"this is no database " * 100)
    editor.client.initialized(None)  # type: ignore[arg-type]
    editor.open(TEXT)
    suggestion = await editor.suggestion(0, 4)
    await editor.command("accepted", suggestion)
    assert len(list(editor.home.glob("feedback.db.corrupt-*"))) == 1
    assert editor.rows("SELECT id FROM suggestions") == [(suggestion["id"],)]
    [message] = [message for message in editor.messages if "was damaged" in message]
    assert "feedback.db.corrupt-" in message, "the user has to know where the old one is"


async def test_a_store_that_cannot_be_written_is_reported_once(connect: Connect) -> None:
    """Suggestions continue; one message says that nothing is learned from them."""
    editor = await connect(SCRIPT, initialized=False)
    (editor.home / "feedback.db").mkdir()
    editor.client.initialized(None)  # type: ignore[arg-type]
    editor.open(TEXT)
    for line in range(3):
        assert await editor.suggestion(line, 2)
    for _ in range(100):
        if editor.messages:
            break
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    [message] = editor.messages
    assert "feedback.db" in message


async def test_the_workspace_folder_is_kept_as_a_hash(connect: Connect) -> None:
    """So that a user can remove what was shown in it, and nobody can read where it was."""
    editor = await connect(SCRIPT, folders=["file:///code/a%20project", "file:///code"])
    for uri in ("file:///code/a%20project/m.py", "file:///code/b.py", "untitled:Untitled-1"):
        editor.open(TEXT, uri=uri)
        await editor.suggestion(0, 4, uri)
    folders = [
        folder for (folder,) in await editor.stored("SELECT workspace FROM suggestions ORDER BY shown_at")
    ]
    assert folders[0] != folders[1]
    assert folders[2] is None
    store = FeedbackStore(editor.home / "feedback.db")
    assert store.purge(workspaces=["file:///code/a project"]) == 1
    store.close()
    assert b"project" not in b"".join(path.read_bytes() for path in editor.home.glob("feedback*"))
    await editor.suggestion(1, 6, "file:///code/b.py")
    assert await editor.stored("SELECT COUNT(*) FROM suggestions") == [(3,)], "the server goes on"


async def test_export_and_purge_over_the_protocol(connect: Connect, tmp_path: Path) -> None:
    """Export writes a new file, for its owner alone; purge empties the store while the server runs on."""
    editor = await connect(SCRIPT, text=TEXT)
    first = await editor.suggestion(0, 4)
    editor.insert(0, 4, first["text"])
    await editor.in_order()
    path = tmp_path / "export.jsonl"
    assert await editor.command("exportFeedback", {"path": str(path)}) == {"path": str(path), "n": 1}
    assert json.loads(path.read_text("utf-8"))["id"] == first["id"]
    with pytest.raises(JsonRpcException, match="no export overwrites"):
        await editor.command("exportFeedback", {"path": str(path)})
    for name in ("a\0b", "a\ud800b"):
        with pytest.raises(JsonRpcException, match="cannot be written: it is no name of a file"):
            await editor.command("exportFeedback", {"path": f"{tmp_path}/{name}"})
    for wrong in ({"path": "relative.jsonl"}, {"path": 5}, "text"):
        with pytest.raises(JsonRpcInvalidParams, match="absolute"):
            await editor.command("exportFeedback", wrong)
    inside = await editor.command("exportFeedback")
    assert Path(inside["path"]).parent == editor.home
    assert stat.S_IMODE(Path(inside["path"]).stat().st_mode) == 0o600
    assert await editor.command("purgeFeedback") == {"n": 1}
    assert first["id"].encode() not in (editor.home / "feedback.db").read_bytes()
    # The line that stands there now would be a label of what is gone.
    editor.save()
    assert (await editor.suggestion(1, 6))["id"] != first["id"]
    assert await editor.stored("SELECT COUNT(*) FROM suggestions") == [(1,)]
    assert editor.rows("SELECT suggestion_id FROM labels") == []
    assert editor.rows(f"SELECT kind FROM events WHERE suggestion_id = '{first['id']}'") == []
