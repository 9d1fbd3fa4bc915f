"""Lines that the user has just typed are completed when all is idle, and give labels of what nobody saw."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from scripted_editor import URI, Editor, capabilities, until
from test_server_when_to_ask import supply
from test_server_window import FORMAT

TEXT = "import os\n\n\ndef main():\n    pass\n"
LINE, SECOND = "total = price * 12", "answer_of_all = 42"
SOON = {"idle": 0.1, "settleAfter": 0.05, "retry": 0.2}
# The answer is the rest of the first line: right wherever the cursor is in it.
RIGHT = {LINE[:at]: {"text": LINE[at:]} for at in range(len(LINE))}
SCRIPT: dict[str, Any] = {"replay": SOON, "answers": RIGHT, "otherwise": {"text": "nothing like it"}}
# Long enough for anything that may come to have come.
A_WHILE = 0.8


def script(**more: Any) -> dict[str, Any]:
    return {**SCRIPT, **more}


def type_line(editor: Editor, line: int, text: str, uri: str = URI) -> None:
    """As with keys, with Enter at the end."""
    for column, letter in enumerate(text):
        editor.insert(line, column, letter, uri)
    editor.insert(line, len(text), "\n", uri)


def replayed(editor: Editor) -> list[dict[str, Any]]:
    return [entry for entry in editor.engine.read("asked") if entry["background"]]


def rows(editor: Editor) -> list[tuple[Any, ...]]:
    return editor.rows(
        "SELECT s.source, l.how, l.correct, s.language, s.logprobs, s.shown_probability FROM suggestions s "
        "JOIN labels l ON l.suggestion_id = s.id ORDER BY s.shown_at"
    )


async def labelled(editor: Editor, n: int = 1) -> list[tuple[Any, ...]]:
    await until(lambda: len(rows(editor)) >= n, f"{n} labels")
    return rows(editor)


async def never(editor: Editor) -> None:
    """Nothing is replayed."""
    await editor.in_order()
    await asyncio.sleep(A_WHILE)
    assert replayed(editor) == []
    assert rows(editor) == []


async def ready(connect: Connect, script: dict[str, Any] = SCRIPT, **options: Any) -> Editor:
    """An editor with a document, and the model loaded."""
    editor = await connect(script, **options)
    editor.open(TEXT)
    await until(lambda: editor.client.statuses and editor.client.statuses[-1].state == "ready", "the model")
    return editor


class TestALineThatWasTyped:
    async def test_is_completed_with_what_stood_around_it_then(self, connect: Connect) -> None:
        """And gets a label, a right one here; what was typed afterwards is not in the prompt."""
        editor = await ready(connect)
        type_line(editor, 1, LINE)
        for column, letter in enumerate("late"):
            editor.insert(2, column, letter)
        assert await labelled(editor) == [("replay", "typed", 1, "python", "[-0.05,-0.05,-0.05]", 1.0)]
        (asked,) = replayed(editor)
        before = asked["line"]
        assert LINE.startswith(before)
        assert asked["prompt"] == f"import os\n{before}"
        (stored,) = editor.rows("SELECT line, features, place, workspace FROM suggestions")
        assert len(stored[0]) == 16
        assert stored[1] != "{}"
        assert editor.rows("SELECT COUNT(*) FROM events") == [(0,)], "nothing was shown"
        status = await editor.status()
        assert status["replay"] == {"waiting": 0, "labels": 1, "correct": 1}
        assert status["tiers"] == {"accept": 0, "review": 0, "reject": 0}

    async def test_what_stood_below(self, connect: Connect) -> None:
        """As it was when the line was left."""
        editor = await ready(connect, script(format=FORMAT))
        type_line(editor, 1, LINE)
        editor.insert(5, 4, "# and this came later")
        await until(lambda: replayed(editor), "a replay")
        (asked,) = replayed(editor)
        assert "def main()" in asked["prompt"]
        assert "later" not in asked["prompt"]

    async def test_gets_a_wrong_label_where_the_model_would_have_been_wrong(self, connect: Connect) -> None:
        editor = await ready(connect)
        type_line(editor, 1, "quite_another = True")
        ((source, how, correct, *_),) = await labelled(editor)
        assert (source, how, correct) == ("replay", "typed over", 0)

    async def test_gets_none_where_the_model_offers_nothing(self, connect: Connect) -> None:
        editor = await ready(connect, script(answers={}, otherwise={"text": ""}))
        type_line(editor, 1, LINE)
        await until(lambda: len(replayed(editor)) == 1, "a replay")
        await asyncio.sleep(A_WHILE)
        assert rows(editor) == []
        assert len(replayed(editor)) == 1, "nor is it asked again"

    async def test_a_save_finishes_it(self, connect: Connect) -> None:
        editor = await ready(connect, script(replay={**SOON, "settleAfter": 3600.0}))
        for column, letter in enumerate(LINE):
            editor.insert(1, column, letter)
        await never(editor)
        editor.save()
        await labelled(editor)

    async def test_learning_takes_it_in(self, connect: Connect) -> None:
        """A refit on command counts it."""
        editor = await ready(connect)
        type_line(editor, 1, LINE)
        type_line(editor, 2, SECOND)
        await labelled(editor, 2)
        assert (await editor.command("refit"))["n"] == 2


class TestNotReplayed:
    async def test_a_line_with_a_suggestion(self, connect: Connect) -> None:
        """It has a label of its own; the line below it, without a suggestion, is replayed."""
        editor = await ready(connect)
        await editor.suggestion(1, 0)
        type_line(editor, 1, LINE)
        type_line(editor, 2, SECOND)
        editor.save()
        await until(lambda: [row for row in rows(editor) if row[0] == "replay"], "a label")
        await asyncio.sleep(A_WHILE)
        assert [SECOND.startswith(entry["line"]) for entry in replayed(editor)] == [True]
        assert sorted(str(source) for source, *_ in rows(editor)) == ["None", "replay"]

    async def test_a_comment(self, connect: Connect) -> None:
        """The record sampler draws none either."""
        editor = await ready(connect)
        type_line(editor, 1, "# a word on this")
        await never(editor)

    @pytest.mark.parametrize("uri", ["file:///project/.env", "file:///project/private/module.py"])
    async def test_one_of_an_excluded_document(self, connect: Connect, uri: str) -> None:
        editor = await ready(connect, options={"exclude": ["private/"]})
        editor.open(TEXT, uri)
        type_line(editor, 1, LINE, uri)
        editor.save(uri)
        await never(editor)

    @pytest.mark.parametrize(
        "options",
        [
            {"feedback": {"replay": False}},
            {"feedback": {"enabled": False}},
            {"languages": ["rust"]},
            {"trusted": {"feedback": {"replay": False}}},
        ],
    )
    async def test_where_the_settings_forbid_it(self, connect: Connect, options: dict[str, Any]) -> None:
        editor = await ready(connect, options=options)
        type_line(editor, 1, LINE)
        editor.save()
        await never(editor)

    async def test_a_workspace_may_forbid_it_and_not_allow_it(self, connect: Connect, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text("feedback.replay = false\n")
        editor = await ready(
            connect,
            client=capabilities(inline=True, configuration=True),
            settings={"feedback": {"replay": True}},
        )
        type_line(editor, 1, LINE)
        editor.save()
        await never(editor)

    async def test_what_was_typed_before_it_was_forbidden(self, connect: Connect) -> None:
        editor = await ready(connect, script(replay={**SOON, "idle": 0.5}))
        type_line(editor, 1, LINE)
        editor.configure({"feedback": {"replay": False}}, push=True)
        await editor.in_order()
        assert (await editor.status())["replay"]["waiting"] == 0
        editor.configure({"feedback": {"replay": True}}, push=True)
        await never(editor)
        type_line(editor, 2, SECOND)
        await labelled(editor)


class TestWhen:
    async def test_a_completion_goes_first(self, connect: Connect, tmp_path: Path) -> None:
        """The replay is cancelled at once; the line comes again later."""
        gate = tmp_path / "gate"
        held = {line: {**answer, "heldUntil": str(gate)} for line, answer in RIGHT.items()}
        editor = await ready(connect, script(answers=held))
        type_line(editor, 1, LINE)
        await until(lambda: replayed(editor), "a replay")
        assert (await editor.suggestion(4, 4))["text"] == "nothing like it"
        (cancelled,) = editor.engine.read("cancelled")
        assert LINE.startswith(cancelled["line"])
        assert rows(editor) == []
        gate.touch()
        ((source, *_),) = await labelled(editor)
        assert source == "replay"
        assert [entry["line"] for entry in replayed(editor)] == [cancelled["line"]] * 2, "the same place"

    @pytest.mark.parametrize("what", ["change", "hover", "close", "pause"])
    async def test_anything_else_stops_it_too(self, connect: Connect, tmp_path: Path, what: str) -> None:
        held = {line: {**answer, "heldUntil": str(tmp_path / "never")} for line, answer in RIGHT.items()}
        editor = await ready(connect, script(answers=held))
        type_line(editor, 1, LINE)
        await until(lambda: replayed(editor), "a replay")
        if what == "change":
            editor.insert(0, 0, "#")
        elif what == "hover":
            await editor.hover(4, 5)
        elif what == "pause":
            await editor.command("pause")
        else:
            editor.close()
        await editor.engine.until("cancelled")

    async def test_not_on_battery(self, connect: Connect, tmp_path: Path) -> None:
        supply(tmp_path / "supplies" / "AC", type="Mains", online="0")
        supply(tmp_path / "supplies" / "BAT0", type="Battery", status="Discharging")
        editor = await ready(connect, script(supplies=str(tmp_path / "supplies")))
        type_line(editor, 1, LINE)
        await never(editor)

    async def test_not_without_a_model(self, connect: Connect, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        editor = await connect(script(readyWhen=str(gate)), text=TEXT)
        type_line(editor, 1, LINE)
        await never(editor)
        gate.touch()
        await labelled(editor)

    async def test_so_many_an_hour(self, connect: Connect) -> None:
        editor = await ready(connect, script(replay={**SOON, "linesAnHour": 1}))
        type_line(editor, 1, LINE)
        type_line(editor, 2, SECOND)
        await labelled(editor)
        await asyncio.sleep(A_WHILE)
        assert len(replayed(editor)) == 1
        status = await editor.status()
        assert (status["replay"]["waiting"], status["replay"]["labels"]) == (1, 1)

    async def test_an_error_of_the_model_is_tried_again_later(self, connect: Connect) -> None:
        error = ["EngineError", "The script fails."]
        failing = {line: {**answer, "error": error} for line, answer in RIGHT.items()}
        editor = await ready(connect, script(answers=failing))
        type_line(editor, 1, LINE)
        await labelled(editor)
        assert len(replayed(editor)) == 2


async def test_no_line_that_was_typed_is_on_disk(connect: Connect, tmp_path: Path) -> None:
    """Nor the model's answer, or the name of the document: with a log at its most talkative."""
    lines = [f"secret_{number}_word = price_{number} * 12" for number in range(6)]
    editor = await ready(connect, script(log=str(tmp_path / "home" / "server.log")))
    for number, line in enumerate(lines):
        type_line(editor, 1 + number, line)
    await labelled(editor, len(lines))
    await editor.command("refit")
    await editor.leave()
    files = [path for path in editor.home.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files)
    assert b"replay" in written
    assert any(path.name == "server.log" for path in files)
    for line in (*lines, "nothing like it", "module.py", "def main"):
        assert line.encode() not in written
    for number in range(6):
        assert f"secret_{number}_word".encode() not in written
        assert f"price_{number}".encode() not in written
