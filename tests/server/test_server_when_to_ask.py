"""When the model is not asked: pause, languages, data, what was refused. Asking by hand always works."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from pygls.exceptions import JsonRpcInvalidParams
from scripted_editor import Editor, capabilities, suggestions, until

SCRIPT = {"otherwise": {"text": "x"}}
LINES = "".join(f"line {n}\n" for n in range(20))


async def refused(editor: Editor, line: int, column: int, reason: str) -> str:
    """A request is answered with nothing, for this reason, and the model is not asked; the message."""
    asked = len(editor.engine.read("asked"))
    assert not await editor.items(line, column)
    found = await editor.command("explain")
    assert found["reason"] == reason
    assert len(editor.engine.read("asked")) == asked
    return str(found["message"])


async def by_hand(editor: Editor, line: int, column: int) -> bool:
    """Whether a request that the user makes is answered."""
    return bool(await editor.items(line, column, by_hand=True))


class TestPause:
    async def test_until_it_is_resumed(self, connect: Connect) -> None:
        editor = await connect(SCRIPT, text="a\nb\n")
        await editor.suggestion(0, 1)
        assert await editor.command("pause") is None
        status = await editor.status()
        assert (status["state"], status["message"]) == (
            "paused",
            "Completions are paused until you resume them.",
        )
        assert editor.client.statuses[-1].state == "paused"
        assert "until you resume" in await refused(editor, 0, 1, "paused")
        assert "lsp-calib.resume" in await refused(editor, 1, 1, "paused")
        assert await by_hand(editor, 1, 1)
        assert await editor.command("resume") is None
        assert (await editor.status())["state"] == "ready"
        assert editor.client.statuses[-1].state == "ready"
        await editor.suggestion(0, 1)
        await editor.command("resume")

    async def test_for_some_minutes(self, connect: Connect) -> None:
        editor = await connect(SCRIPT, text="a\n")
        await editor.command("pause", {"minutes": 30})
        assert "for 30 minutes" in await refused(editor, 0, 1, "paused")
        await editor.command("pause", {"minutes": 0.004})
        await until(lambda: editor.client.statuses[-1].state == "ready", "the end of the pause")
        await editor.suggestion(0, 1)

    async def test_a_missing_model_is_worse_than_a_pause(self, connect: Connect) -> None:
        editor = await connect({"failure": ["NoModelError", "No model."]})
        await until(
            lambda: editor.client.statuses[-1:] and editor.client.statuses[-1].state == "noModel", "it"
        )
        await editor.command("pause")
        assert (await editor.status())["state"] == "noModel"

    async def test_the_argument(self, connect: Connect) -> None:
        editor = await connect(SCRIPT)
        for wrong in (5, "5", {"minutes": "5"}, {"minutes": 0}, {"minutes": True}, {"minutes": 1e9}, [1]):
            with pytest.raises(JsonRpcInvalidParams, match='"minutes"'):
                await editor.command("pause", wrong)
        assert (await editor.status())["state"] != "paused"
        await editor.command("pause", {"minutes": None})
        assert (await editor.status())["state"] == "paused"


class TestLanguages:
    async def test_all_but_text_unless_it_is_set(self, connect: Connect) -> None:
        editor = await connect(SCRIPT)
        for number, language in enumerate(("python", "rust", "yaml", "a-new-one")):
            editor.open("a\n", f"file:///{number}", language)
            await editor.suggestion(0, 1, f"file:///{number}")
        editor.open("a\n", "file:///README.md", "markdown")
        assert not await editor.items(0, 1, "file:///README.md")
        found = await editor.command("explain", {"uri": "file:///README.md"})
        assert found["reason"] == "languageOff"
        assert "markdown" in found["message"]
        assert await editor.items(0, 1, "file:///README.md", by_hand=True)

    async def test_as_set(self, connect: Connect) -> None:
        client = capabilities(inline=True, configuration=True)
        editor = await connect(SCRIPT, client=client, settings={"languages": ["rust", "markdown"]})
        editor.open("a\n")
        await refused(editor, 0, 1, "languageOff")
        editor.open("a\n", "file:///README.md", "markdown")
        await editor.suggestion(0, 1, "file:///README.md")
        editor.configure({"languages": ["python"]})
        answer = await editor.inline(0, 1)
        while answer is None or not answer.items:  # until the server has fetched the settings
            answer = await editor.inline(0, 1)


def supply(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


class TestBattery:
    @pytest.fixture
    def script(self, tmp_path: Path) -> dict[str, Any]:
        """A laptop that is not plugged in."""
        supply(tmp_path / "supplies" / "AC", type="Mains", online="0")
        supply(tmp_path / "supplies" / "BAT0", type="Battery", status="Discharging")
        return {**SCRIPT, "supplies": str(tmp_path / "supplies")}

    @pytest.mark.parametrize(("mains", "asked"), [("0", 1), ("1", 2)])
    async def test_there_is_no_work_ahead(
        self, connect: Connect, script: dict[str, Any], tmp_path: Path, mains: str, asked: int
    ) -> None:
        supply(tmp_path / "supplies" / "AC", online=mains)
        editor = await connect({**script, "otherwise": {"text": "xy"}})
        editor.open("a = \n\nb\n")
        await editor.suggestion(0, 4)
        await asyncio.sleep(0.2)
        editor.insert(0, 4, "xy")
        await editor.engine.until("asked", asked)
        await asyncio.sleep(0.3)
        assert len(editor.engine.read("asked")) == asked


async def test_what_is_pasted_is_asked_about_once_it_is_there(connect: Connect) -> None:
    editor = await connect(SCRIPT, text="".join(f"line {n}\n" for n in range(20)))
    editor.insert(3, 0, "pasted\n" * 9)
    await editor.suggestion(12, 0)
    assert len(editor.engine.read("asked")) == 1


class TestRefused:
    """Undo and Escape mean no to that text on that line, until the user asks by hand."""

    async def test_what_is_rejected_does_not_come_back(self, connect: Connect) -> None:
        editor = await connect({"otherwise": {"text": "xyz"}}, text="c = 1\na = \nb = \na = \n")
        first = await editor.suggestion(1, 4)
        await editor.command("rejected", {"id": first["id"]})
        assert "dismissed" in await refused(editor, 1, 4, "refused")
        for line in (2, 3):
            assert (await editor.suggestion(line, 4))["text"] == "xyz", "another place"
        editor.insert(0, 0, "import a\n")
        assert not await editor.items(2, 4), "the model sees another prompt, and says the same"
        editor.insert(2, 4, "w")
        assert (await editor.suggestion(2, 5))["text"] == "xyz", "the line has changed"

    async def test_what_is_accepted_and_undone_does_not_come_back(self, connect: Connect) -> None:
        editor = await connect({"otherwise": {"text": "xyz"}}, options={"prefetch": {"enabled": False}})
        editor.open("a = \n")
        await editor.suggestion(0, 4)
        editor.insert(0, 4, "xyz")
        editor.change((0, 4), (0, 7), "")
        await refused(editor, 0, 4, "refused")
        editor.insert(0, 4, "xyz")
        editor.save()
        editor.change((0, 4), (0, 7), "")
        await refused(editor, 0, 4, "refused")
        editor.insert(0, 4, "x")
        assert (await editor.suggestion(0, 5))["text"] == "yz", "the line has changed: its rest may come"

    async def test_nor_a_part_of_it(self, connect: Connect) -> None:
        editor = await connect({"otherwise": {"text": "net + tax"}}, text="a = \n")
        await editor.suggestion(0, 4)
        editor.insert(0, 4, "net")
        assert (await editor.suggestion(0, 7))["text"] == " + tax"
        editor.change((0, 4), (0, 7), "")
        await refused(editor, 0, 4, "refused")

    async def test_an_alternative(self, connect: Connect) -> None:
        """Escape refuses what was shown beside it as well."""
        second = {"text": "abc", "tokens": [""], "logprobs": [0.0]}
        answer = {"text": "xyz", "tokens": ["xyz", ""], "logprobs": [-0.7, 0.0], "ways": {"9": second}}
        answer["seconds"] = [[0.5, 9], [100.0, None]]
        editor = await connect({"otherwise": answer}, text="a = \n")
        shown = suggestions(await editor.items(0, 4, by_hand=True))
        assert [one["text"] for one in shown] == ["xyz", "abc"]
        await editor.command("rejected", {"id": shown[1]["id"]})
        await refused(editor, 0, 4, "refused")


class TestData:
    async def test_nothing_is_asked_by_itself(self, connect: Connect) -> None:
        line = "f(a,b);" * 80
        editor = await connect(SCRIPT, text=f"{line}\nb = \n")
        await refused(editor, 0, len(line) // 2, "data")
        assert "by hand" in await refused(editor, 0, len(line) // 2 + 1, "data")
        assert await by_hand(editor, 0, len(line) // 2)
        assert (await editor.suggestion(0, len(line) // 2))["source"] == "memory", "it is there now"
        await editor.suggestion(1, 4)
