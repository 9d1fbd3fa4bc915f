"""`lsp-calib.explain`: why the last request has no suggestion."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams, JsonRpcRequestCancelled
from scripted_editor import URI, Editor, capabilities

SECRET = "file:///project/.env"


async def explained(editor: Editor, reason: str, uri: str | None = URI) -> str:
    """The message, after a check of the rest of the answer."""
    answer: dict[str, Any] = await editor.command("explain", *([] if uri is None else [{"uri": uri}]))
    assert answer is not None
    assert set(answer) == {"reason", "message", "uri", "at"}
    assert (answer["reason"], 0 <= answer["at"] < 60) == (reason, True)
    if uri is not None:
        assert answer["uri"] == uri
    return str(answer["message"])


async def test_nothing_to_explain_before_a_request_and_after_a_suggestion(connect: Connect) -> None:
    editor = await connect({"answers": {"b": {"text": "x"}}}, text="a\nb\n")
    assert await editor.command("explain") is None
    assert await editor.command("explain", {"uri": URI}) is None
    await editor.inline(0, 1)
    await explained(editor, "nothingToAdd")
    await editor.suggestion(1, 1)
    assert await editor.command("explain") is None
    assert await editor.command("explain", {"uri": URI}) is None
    await editor.inline(0, 1)
    await editor.suggestion(1, 1)
    assert await editor.command("explain") is None, "from memory as well"


async def test_an_excluded_document_by_which_rule(connect: Connect) -> None:
    editor = await connect({"otherwise": {"text": "x"}}, options={"exclude": ["private/"]})
    private = "file:///project/private/a.py"
    for uri in (SECRET, private, URI):
        editor.open("PASSWORD = 'hunter2'\n", uri)
        await editor.inline(0, 5, uri)
    message = await explained(editor, "secret", SECRET)
    assert "files of this name usually hold secrets" in message
    assert "hunter2" not in message
    assert "'private/' in the setting `exclude`" in await explained(editor, "excluded", private)
    assert await editor.command("explain") is None, "the last request of all had a suggestion"
    editor.close()
    await explained(editor, "excluded", None)


@pytest.mark.parametrize(("ended_by", "reason"), [("pause", "paused"), ("exclude", "excluded")])
async def test_a_request_that_the_user_ended_meanwhile(
    connect: Connect, tmp_path: Path, ended_by: str, reason: str
) -> None:
    slow = {"otherwise": {"text": "x", "heldUntil": str(tmp_path / "never")}}
    editor = await connect(slow, text="a\n")
    request = asyncio.create_task(editor.inline(0, 1))
    await editor.engine.until("asked")
    if ended_by == "pause":
        await editor.command("pause")
    else:
        editor.configure({"exclude": ["*.py"]}, push=True)
    assert await request is None
    await editor.engine.until("cancelled")
    await explained(editor, reason)


async def test_asking_by_hand_is_advised_where_the_editor_can(connect: Connect) -> None:
    for inline in (True, False):
        editor = await connect({}, client=capabilities(inline=inline), options={"languages": ["rust"]})
        editor.open("a\n")
        await (editor.inline(0, 1) if inline else editor.complete(0, 1))
        message = await explained(editor, "languageOff")
        assert ("ask for by hand" in message) == inline


async def test_nothing_to_add_and_why_each_counted_in_the_status(connect: Connect) -> None:
    answers = {
        "a": {"text": ""},
        "b": {"text": "  \t"},
        "c": {"text": "hunter2" * 40, "stop": "length"},
        "d": {"text": "print('\x07hunter2')"},
        "f(": {"text": ")"},
        "g": {"text": ")]"},
        "": {"text": "hunter2.run()"},
        "h(": {"text": "hunter2, {"},
        "ca": {"text": "se 1:"},
        "# i": {"text": " \u79c1\u306e hunter2"},
        "# ": {"text": "-" * 20},
    }
    editor = await connect(
        {"answers": answers}, text="a\nb\nc\nd\nf()\ng\n\nhunter2.run()\nh()\nca\ncase 1:\n\n# i\n# \n"
    )
    words = (
        *("nothing to add", "nothing to add", "longer than a line", "invisible", "already", "leaves open"),
        *("already", "leaves open", "already", "a comment", "a comment"),
    )
    columns = {4: 2, 6: 0, 8: 2, 9: 2, 12: 3, 13: 2}
    for at, part in enumerate(words):
        line = at if at < 7 else at + 1 if at < 9 else at + 3
        assert not await editor.items(line, columns.get(line, 1)), part
        message = await explained(editor, "nothingToAdd")
        assert part in message
        assert "hunter2" not in message
    await editor.inline(0, 1)
    assert "nothing to add" in await explained(editor, "nothingToAdd"), "from memory as well"
    once = (
        "onlyWhiteSpace",
        "repeatsSuffix",
        "repeatsCase",
        "hiddenCharacters",
        "neverEnded",
        "surplusClosers",
        "leavesOpen",
        "foreignScript",
        "filler",
    )
    counted = {"empty": 1, **dict.fromkeys((*once, "repeatsNextLine"), 1)}
    # That needs a menu: test_server_selected_item.py.
    assert (await editor.status())["withheld"] == {**counted, "otherThanItem": 0}
    kept = await editor.stored("SELECT data FROM events WHERE kind = 'withheld'")
    assert sorted(data for (data,) in kept) == sorted(f'{{"{why}": 1}}' for why in counted)


async def test_what_is_cut_off_is_counted_in_the_status_and_in_the_store(connect: Connect) -> None:
    answers = {
        "f(": {"text": "x) or 1"},
        "g(": {"text": "x, y"},
        "h(": {"text": "x))"},
        "i(": {"text": "x) or 1)"},
        "j ": {"text": "= 1  # 1.1.1.1.1.1.1.1"},
    }
    editor = await connect({"answers": answers}, text="f() or 1\ng(, y)\ni() or 1\nh(\nj \n")
    texts = [(await editor.suggestion(line, 2))["text"] for line in range(5)]
    assert texts == ["x", "x", "x", "x)", "= 1"]
    status = await editor.status()
    assert status["cut"] == {"suffix": 1, "partOfSuffix": 2, "surplusClosers": 1, "comment": 1}
    kept = await editor.stored(
        "SELECT data, COUNT(*) FROM events WHERE kind = 'cut' GROUP BY data ORDER BY data"
    )
    assert kept == [
        *(('{"comment": 1}', 1), ('{"partOfSuffix": 1}', 2)),
        *(('{"suffix": 1}', 1), ('{"surplusClosers": 1}', 1)),
    ]


async def test_without_a_model_it_says_what_to_do(connect: Connect) -> None:
    message = "No model is installed. Run `lsp-calib models pull smollm2-135m`."
    editor = await connect({"failure": ["NoModelError", message]}, text="a")
    await editor.inline(0, 1)
    assert (await explained(editor, "noModel")).endswith(message)


async def test_an_error_of_the_engine(connect: Connect) -> None:
    editor = await connect({"otherwise": {"text": "x", "error": ["EngineDiedError", "It ended."]}}, text="a")
    await editor.inline(0, 1)
    assert (await explained(editor, "error")).endswith("It ended.")


async def test_while_the_model_works_and_after_the_editor_has_cancelled(
    connect: Connect, tmp_path: Path
) -> None:
    editor = await connect({"answers": {"a": {"text": "x", "heldUntil": str(tmp_path / "never")}}})
    editor.open("a\nb\n")
    request = asyncio.ensure_future(editor.inline(0, 1, request_id="mine"))
    await editor.engine.until("asked")
    await explained(editor, "waiting")
    editor.cancel("mine")
    with pytest.raises(JsonRpcRequestCancelled):
        await request
    await explained(editor, "superseded")
    superseded = asyncio.ensure_future(editor.inline(0, 1))
    await editor.engine.until("asked", 2)
    await editor.inline(1, 1)
    assert await superseded is None
    await explained(editor, "nothingToAdd")


async def test_while_the_model_is_loaded_and_before_the_settings_are_known(
    connect: Connect, tmp_path: Path
) -> None:
    script = {"readyWhen": str(tmp_path / "ready"), "otherwise": {"text": "x"}}
    client = capabilities(inline=True)
    editor = await connect(script, client=client, initialized=False, text="a")
    request = asyncio.ensure_future(editor.suggestion(0, 1))
    await asyncio.sleep(0)
    await explained(editor, "starting")
    editor.client.initialized(types.InitializedParams())
    await editor.engine.until("loading")
    await explained(editor, "loading")
    (tmp_path / "ready").touch()
    assert (await request)["text"] == "x"
    assert await editor.command("explain") is None


async def test_a_menu_that_did_not_wait(connect: Connect, release: Path) -> None:
    editor = await connect({"otherwise": {"text": "x", "heldUntil": str(release)}}, client=capabilities())
    editor.open("a")
    await editor.engine.until("loading")
    assert not (await editor.complete(0, 1)).items
    await editor.engine.until("asked")
    await explained(editor, "waiting")
    release.touch()
    await editor.engine.until("answered")
    assert (await editor.menu(0, 1)).items
    assert await editor.command("explain") is None


async def test_turned_off(connect: Connect) -> None:
    editor = await connect({"otherwise": {"text": "x"}}, options={"inlineCompletion": {"enabled": False}})
    editor.open("a")
    await editor.inline(0, 1)
    assert "inlineCompletion.enabled" in await explained(editor, "off")


async def test_turned_off_in_an_editor_that_has_the_menu_alone(connect: Connect) -> None:
    editor = await connect(client=capabilities(), options={"completion": {"enabled": False}})
    assert await editor.command("explain") is None, "no document is open"
    editor.open("a")
    for uri in (URI, None):
        message = await explained(editor, "off", uri)
        assert "completion.enabled" in message
        assert "restart" in message
    assert len(editor.messages) == 0
    editor.close()
    assert await editor.command("explain") is None


async def test_the_argument(connect: Connect) -> None:
    """One URI in another spelling is the same document; of one that is not open nothing is known."""
    editor = await connect()
    editor.open("a", "file:///a%20b.py")
    await editor.inline(0, 1, "file:///a%20b.py")
    answer = await editor.command("explain", {"uri": "file:///a b.py"})
    assert answer["uri"] == "file:///a%20b.py"
    assert await editor.command("explain", {}) == answer | {"at": pytest.approx(answer["at"], abs=30)}
    assert await editor.command("explain", {"uri": "file:///other.py"}) is None
    for wrong in ("file:///a b.py", {"uri": 5}, ["a"], 7):
        with pytest.raises(JsonRpcInvalidParams, match='"uri"'):
            await editor.command("explain", wrong)
