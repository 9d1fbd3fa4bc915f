"""Summaries beyond the hover on a signature: places, work ahead, code lenses, code actions, labels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from scripted_editor import URI, Editor, capabilities, until

TEXT = """class Box:
    def add(self, b):
        def inner():
            return b
        total = self.add(inner())
        items.append(b)
        return total

    def append(self, b):
        return free(b)


def free(b):
    return b
"""
SUMMARY = {"summary": {"text": "Return a number.", "logprobs": [-0.7]}}


def asked(editor: Editor) -> list[str]:
    """The last function in each prompt for a summary, by its first line."""
    prompts = [one["prompt"] for one in editor.engine.read("asked") if one["summary"]]
    return [prompt.rpartition("\n\n\n")[2].partition("def ")[2].partition("(")[0] for prompt in prompts]


async def hovered(editor: Editor, line: int, character: int) -> str | None:
    hover = await editor.hover(line, character)
    if hover is None:
        return None
    assert isinstance(hover.contents, types.MarkupContent)
    return hover.contents.value


def place(line: int, character: int, uri: str = URI) -> dict[str, Any]:
    return {"uri": uri, "position": {"line": line, "character": character}}


class TestPlaces:
    async def test_a_call_shows_the_function_of_this_file(self, connect: Connect) -> None:
        """With the range of the name. A method of another object, or an unknown name, shows nothing."""
        editor = await connect(SUMMARY, text=TEXT)
        hover = await editor.hover(9, 17)
        assert hover is not None
        assert hover.range == types.Range(types.Position(9, 15), types.Position(9, 19))
        assert asked(editor) == ["free"]
        assert await editor.hover(4, 23) is not None, "a method of its own object"
        assert await editor.hover(5, 16) is None, "a method of another one"
        assert await editor.hover(5, 9) is None, "a word that is no call"
        assert await editor.hover(6, 10) is None

    async def test_a_moved_function_keeps_its_summary_and_a_changed_one_does_not(
        self, connect: Connect
    ) -> None:
        editor = await connect(SUMMARY, text=TEXT)
        await hovered(editor, 12, 5)
        editor.insert(0, 0, "import os\n\n")
        await hovered(editor, 14, 5)
        assert asked(editor) == ["free"]
        editor.insert(15, 12, " + 1")
        await hovered(editor, 14, 5)
        assert asked(editor) == ["free"] * 2


class TestAhead:
    async def test_after_a_hover_the_functions_around_are_made_when_idle(self, connect: Connect) -> None:
        """The nearest first, as idle work; the next hover has its summary without asking."""
        editor = await connect({**SUMMARY, "summariesAfter": 0.05}, text=TEXT)
        await asyncio.sleep(0.3)
        assert asked(editor) == [], "nobody has looked at a summary yet"
        await hovered(editor, 12, 5)
        await until(lambda: len(asked(editor)) == 4, "all functions")
        assert asked(editor) == ["free", "append", "add", "inner"]
        assert [one["idle"] for one in editor.engine.read("asked")] == [False, True, True, True]
        await editor.engine.until("answered", 4)
        await hovered(editor, 8, 9)
        assert len(asked(editor)) == 4

    async def test_it_follows_the_cursor(self, connect: Connect) -> None:
        """Editors ask for code actions where it is; asking again at the same line disturbs nothing."""
        editor = await connect({**SUMMARY, "summariesAfter": 0.3}, client=capabilities(edits=True))
        editor.open(TEXT + "\n" * 200 + "def last(b):\n    return b\n")
        line = TEXT.count("\n") + 200
        await hovered(editor, 12, 5)
        await editor.actions(line, 4)
        for _ in range(8):
            await asyncio.sleep(0.1)
            await editor.actions(line, 4)
        await until(lambda: len(asked(editor)) > 1, "idle work")
        assert asked(editor) == ["free", "last"]

    async def test_a_key_stops_it_and_a_hover_keeps_it(self, connect: Connect, release: Path) -> None:
        release.touch()
        script = {"summary": {"text": "Return.", "heldUntil": str(release)}, "summariesAfter": 0.5}
        editor = await connect({**script, "hoverSeconds": 20}, text=TEXT)
        await hovered(editor, 12, 5)
        release.unlink()
        editor.insert(0, 0, "\n")
        await until(lambda: asked(editor)[-1] == "append", "idle work")
        before = len(asked(editor))
        editor.insert(0, 0, "\n")
        await editor.engine.until("cancelled")
        await until(lambda: len(asked(editor)) > before, "idle work again")
        hover = asyncio.create_task(hovered(editor, 10, 9))
        await editor.status()  # answered after the hover has begun
        stopped = len(editor.engine.read("cancelled"))
        editor.insert(0, 0, "\n")
        await editor.in_order()
        release.touch()
        assert (await hover or "").startswith("Return")
        assert len(editor.engine.read("cancelled")) == stopped
        assert asked(editor).count("append") == 2, "the hover waited for the idle work"

    @pytest.mark.parametrize("options", [{"languages": ["go"]}, {"hover.enabled": False}])
    async def test_where_it_is_off_nothing_is_made(self, connect: Connect, options: dict[str, Any]) -> None:
        editor = await connect({**SUMMARY, "summariesAfter": 0.02}, options=options, text=TEXT)
        await hovered(editor, 12, 5)
        await asyncio.sleep(0.3)
        assert len(asked(editor)) <= 1

    async def test_not_in_a_pause(self, connect: Connect) -> None:
        editor = await connect({**SUMMARY, "summariesAfter": 0.02}, text=TEXT)
        await editor.command("pause")
        await hovered(editor, 12, 5)
        await asyncio.sleep(0.3)
        assert asked(editor) == ["free"]


class TestLenses:
    async def test_off_by_default(self, connect: Connect) -> None:
        editor = await connect(SUMMARY, text=TEXT)
        assert await editor.lenses() is None

    async def test_one_for_each_function_and_its_summary_once_known(self, connect: Connect) -> None:
        """Showing them asks no model; a click does, and the lenses are refreshed."""
        refreshed: list[None] = []
        editor = await connect(SUMMARY, options={"codeLens.enabled": True}, client=capabilities(lenses=True))

        @editor.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def refresh(_params: None) -> None:
            refreshed.append(None)

        editor.open(TEXT)
        lenses = await editor.lenses()
        assert lenses is not None
        assert [lens.command.title for lens in lenses if lens.command] == ["○ summarise"] * 4
        assert [lens.range.start.line for lens in lenses] == [1, 2, 8, 12]
        assert asked(editor) == []
        assert lenses[3].command is not None
        shown = await editor.command("showSummary", *lenses[3].command.arguments or [])
        assert (shown["kind"], shown["text"]) == ("summary", "Return a number.")
        assert editor.messages[-1].startswith(
            "Return a number. (may say what its author would: about 5 in 10"
        )
        await until(lambda: refreshed, "a refresh")
        lenses = await editor.lenses()
        assert lenses is not None
        title = "🟡 Return a number. (may say what its author would)"
        assert [lens.command.title for lens in lenses if lens.command][3] == title

    async def test_none_where_documentation_is_written(self, connect: Connect) -> None:
        """Nor is a summary made ahead that no lens would show."""
        text = TEXT.replace("def free(b):\n", 'def free(b):\n    """Give b back."""\n')
        options = {"codeLens.enabled": True}
        editor = await connect({**SUMMARY, "summariesAfter": 0.02}, options=options, text=text)
        lenses = await editor.lenses()
        assert lenses is not None
        assert [lens.range.start.line for lens in lenses] == [1, 2, 8]
        await editor.engine.until("answered", 3)
        await asyncio.sleep(0.2)
        assert sorted(asked(editor)) == ["add", "append", "inner"]
        editor.insert(13, 4, "pass #")  # the documentation is a comment now
        lenses = await editor.lenses()
        assert lenses is not None
        assert [lens.range.start.line for lens in lenses] == [1, 2, 8, 12]


class TestActions:
    async def test_they_ask_nothing_and_offer_what_fits(self, connect: Connect) -> None:
        editor = await connect(SUMMARY, client=capabilities(edits=True))
        editor.open(TEXT.replace("def free(b):\n", 'def free(b):\n    """Old."""\n'))
        assert list(await editor.actions(8, 6)) == ["Insert summary as docstring"]
        assert list(await editor.actions(12, 6)) == [], "it has documentation"
        assert list(await editor.actions(0, 0)) == []
        automatic = types.CodeActionContext([], trigger_kind=types.CodeActionTriggerKind.Automatic)
        assert list(await editor.actions(6, 9, context=automatic)) == [], "no light bulb on each line"
        assert list(await editor.actions(6, 9)) != [], "by hand, anywhere in the function"
        only = types.CodeActionContext([], only=[types.CodeActionKind.QuickFix])
        assert list(await editor.actions(8, 6, context=only)) == []
        only = types.CodeActionContext([], only=[types.CodeActionKind.Refactor])
        assert list(await editor.actions(8, 6, context=only)) == ["Insert summary as docstring"]
        assert asked(editor) == []
        await hovered(editor, 8, 9)
        titles = ["Insert summary as docstring", "Regenerate summary", "Report summary as wrong"]
        assert list(await editor.actions(8, 6)) == titles

    @pytest.mark.parametrize("late", [False, True], ids=["first", "late"])
    async def test_an_inserted_summary_is_marked_and_becomes_a_label(
        self, connect: Connect, late: bool
    ) -> None:
        editor = await connect(SUMMARY, client=capabilities(edits=True, pull=True))
        applied = editor.apply_edits(late=late)
        editor.open(TEXT)
        action = (await editor.actions(12, 4))["Insert summary as docstring"]
        assert action.command is not None
        assert action.command.command == "lsp-calib.insertSummary"
        done = await editor.command("insertSummary", *action.command.arguments or [])
        assert done["applied"], done
        (edit,) = applied
        assert (edit.range.start, edit.new_text) == (types.Position(13, 0), '    """Return a number."""\n')
        await until(lambda: editor.rows("SELECT 1 FROM events WHERE kind = 'inserted'"), "the insertion")
        (diagnostic,) = await editor.pull()
        assert diagnostic.range.start.line == 13
        assert diagnostic.code == "review"
        assert diagnostic.message.startswith("May say what its author would: about 5 in 10 ")
        review = types.CodeActionContext([diagnostic])
        assert "Mark suggestion as reviewed" in await editor.actions(13, 6, context=review)
        assert "Insert summary as docstring" not in await editor.actions(12, 4)
        assert await editor.saved() == {done["suggestion"]["id"]: "kept"}
        ((kind, language, line),) = editor.rows("SELECT kind, language, line IS NOT NULL FROM suggestions")
        assert (kind, language, line) == ("summary", "python", 1)
        assert await editor.pull() == []

    async def test_an_edit_that_is_refused_leaves_nothing(self, connect: Connect) -> None:
        editor = await connect(SUMMARY, client=capabilities(edits=True))
        editor.apply_edits(refuses=True)
        editor.open(TEXT)
        done = await editor.command("insertSummary", place(12, 4))
        assert not done["applied"]
        assert done["reason"] in editor.messages
        editor.insert(13, 0, '    """Return a number."""\n')
        assert await editor.stored("SELECT * FROM suggestions") == []

    async def test_an_answer_of_null_is_no_error(self, connect: Connect) -> None:
        """Some editors make the change and answer with nothing."""
        editor = await connect(SUMMARY, client=capabilities(edits=True))
        applied = editor.apply_edits(says_nothing=True)
        editor.open(TEXT)
        done = await editor.command("insertSummary", place(12, 4))
        assert (done["applied"], done["reason"], len(applied)) == (True, None, 1)
        assert await editor.saved() == {done["suggestion"]["id"]: "kept"}

    @pytest.mark.parametrize("how", ["changed", "opened again"])
    async def test_a_function_that_changes_meanwhile_is_left_alone(
        self, connect: Connect, release: Path, how: str
    ) -> None:
        """A document that is opened again is read again."""
        slow = {"summary": {"text": "Return a number.", "heldUntil": str(release)}}
        editor = await connect(slow, client=capabilities(edits=True))
        applied = editor.apply_edits()
        editor.open(TEXT)
        waiting = asyncio.create_task(editor.command("insertSummary", place(12, 4)))
        await editor.engine.until("asked")
        if how == "changed":
            editor.insert(13, 12, " + 1")
        else:
            editor.close()
            editor.open(f"import os\n\n\n{TEXT}")
        await editor.in_order()
        release.touch()
        done = await waiting
        if how == "changed":
            assert "changed" in done["reason"]
            assert applied == []
        else:
            assert done["applied"]
            assert [edit.range.start for edit in applied] == [types.Position(16, 0)]

    async def test_a_report_is_a_label_and_the_hover_says_so(self, connect: Connect) -> None:
        editor = await connect(SUMMARY, client=capabilities(edits=True), text=TEXT)
        with pytest.raises(JsonRpcException, match="no summary yet"):
            await editor.command("reportSummary", place(12, 4))
        await hovered(editor, 12, 5)
        assert await editor.command("reportSummary", place(12, 4)) is None
        assert list(editor.labels().values()) == ["reported"]
        assert editor.rows("SELECT correct FROM labels") == [(0,)]
        assert "You reported this summary as wrong" in (await hovered(editor, 12, 5) or "")
        assert "Report summary as wrong" not in await editor.actions(12, 4)

    async def test_another_wording_has_no_confidence(self, connect: Connect) -> None:
        summary = {**SUMMARY["summary"], "draws": [{"text": ""}, {"text": "Give a number."}]}
        editor = await connect({"summary": summary}, client=capabilities(edits=True), text=TEXT)
        await hovered(editor, 12, 5)
        made = await editor.command("regenerateSummary", place(12, 4))
        assert (made["text"], made["confidence"], made["tier"]) == ("Give a number.", None, "review")
        text = await hovered(editor, 12, 5) or ""
        assert text.startswith("Give a number")
        assert "another wording" in text

    async def test_clients_that_apply_no_edits_are_offered_none(self, connect: Connect) -> None:
        editor = await connect(SUMMARY, text=TEXT)
        assert await editor.actions(12, 4) == {}
        with pytest.raises(JsonRpcException, match="workspace/applyEdit"):
            await editor.command("insertSummary", place(12, 4))

    async def test_wrong_arguments_are_answered(self, connect: Connect) -> None:
        editor = await connect(SUMMARY, text=TEXT)
        for argument in (None, {}, {"uri": URI}, place(-1, 0), {"uri": 1}, "x"):
            with pytest.raises(JsonRpcException, match="position"):
                await editor.command("showSummary", argument)

    async def test_places_without_a_function_are_answered(self, connect: Connect) -> None:
        editor = await connect(SUMMARY, text=TEXT)
        for where in (place(0, 0), place(12, 0, "file:///other.py")):
            with pytest.raises(JsonRpcException):
                await editor.command("showSummary", where)
        assert asked(editor) == []


async def test_excluded_documents_get_nothing(connect: Connect) -> None:
    options = {"exclude": ["**/module.py"], "codeLens.enabled": True}
    editor = await connect(SUMMARY, options=options, client=capabilities(edits=True), text=TEXT)
    assert await hovered(editor, 12, 5) is None
    assert await editor.lenses() is None
    assert await editor.actions(12, 4) == {}
    for command in ("showSummary", "insertSummary", "regenerateSummary"):
        with pytest.raises(JsonRpcException, match=r"is shown this document: it matches '\*\*/module"):
            await editor.command(command, place(12, 4))
    assert asked(editor) == []
