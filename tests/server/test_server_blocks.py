"""Blocks: with `multiline: true` an empty line gets the lines up to the end of the scope."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled
from scripted_editor import Editor, suggestions

Request = asyncio.Future[types.InlineCompletionList | None]

BLOCK = {"multiline": True}
ABOVE = "def f():\n    "


def line(text: str, p: float = 0.9) -> dict[str, Any]:
    return {"text": text, "logprobs": [math.log(p)] * 3}


def after(*lines: dict[str, Any]) -> dict[str, Any]:
    """A script in which an empty line gets one answer after the other."""
    return {"answers": {"    ": line("x = 1")}, "inOrder": [*lines, line("")]}


async def test_a_block_with_a_tier_for_each_line(connect: Connect) -> None:
    editor = await connect(after(line("    y = 2"), line("    return y", 0.6), line("z = 3")), options=BLOCK)
    editor.open(ABOVE)
    block = await editor.suggestion(1, 4)
    assert block["text"] == "x = 1\n    y = 2\n    return y"
    assert block["kind"] == "block"
    assert [one["confidence"] for one in block["lines"]] == pytest.approx([0.9, 0.81, 0.486])
    assert [one["tier"] for one in block["lines"]] == ["accept", "accept", "review"]
    assert (block["confidence"], block["tier"]) == (pytest.approx(0.486), "review")
    assert "accept through line 2 of 3" in block["reason"]


async def test_it_ends_above_a_line_that_hide_below_would_hide(connect: Connect) -> None:
    script = after(line("    y = 2", 0.8), line("    return y", 0.6)) | {"survival": True}
    editor = await connect(script, options=BLOCK | {"hideBelow": 0.7}, text=ABOVE)
    block = await editor.suggestion(1, 4)
    assert block["text"] == "x = 1\n    y = 2"
    assert [one["confidence"] for one in block["lines"]] == pytest.approx([0.9, 0.72])


async def test_without_the_setting_and_in_a_line_that_is_begun_there_is_one_line(connect: Connect) -> None:
    script = after(line("    y = 2"))
    editor = await connect(script, text=ABOVE)
    plain = await editor.suggestion(1, 4)
    assert (plain["kind"], plain["text"]) == ("line", "x = 1")
    assert "lines" not in plain
    script["answers"]["    x"] = line(" = 2")
    editor = await connect(script, options=BLOCK, text=ABOVE + "x")
    assert (await editor.suggestion(1, 5))["text"] == " = 2"


async def test_while_its_first_line_is_typed_the_rest_stays(connect: Connect) -> None:
    editor = await connect(after(line("    y = 2")), options=BLOCK, text=ABOVE)
    block = await editor.suggestion(1, 4)
    n = len(editor.engine.read("asked"))
    for column, char in enumerate("x =", start=4):
        editor.insert(1, column, char)
        rest = await editor.suggestion(1, column + 1)
        assert rest["text"] == block["text"][column - 3 :]
        assert (rest["id"], rest["lines"]) == (block["id"], block["lines"])
    assert len(editor.engine.read("asked")) == n


@pytest.mark.parametrize(
    ("first", "typed", "behind"),
    [("x = f(a)", "x = f(", ")"), ('x = f("ä", [a])', 'x = f("ä", [', "])"), ("x = '😀'", "x = '", "'")],
)
async def test_what_the_editor_closes_while_the_first_line_is_typed_is_covered(
    connect: Connect, first: str, typed: str, behind: str
) -> None:
    """The lines below would come before it otherwise: the bracket would stand at the end of the last one."""
    script = after(line("    y = 2"), line("    return y"))
    script["answers"]["    "] = line(first)
    editor = await connect(script, options=BLOCK, text=ABOVE)
    block = await editor.suggestion(1, 4)
    n = len(editor.engine.read("asked"))
    editor.insert(1, 4, typed + behind)
    column = 4 + len(typed)
    (item,) = await editor.items(1, column)
    assert len(editor.engine.read("asked")) == n
    (rest,) = suggestions([item])
    assert (rest["id"], rest["kind"]) == (block["id"], "block")
    assert item.insert_text == rest["text"] == block["text"].removeprefix(typed)
    assert item.range == types.Range(types.Position(1, column), types.Position(1, column + len(behind)))
    present = f"    {typed}{behind}"
    accepted = present[:column] + item.insert_text + present[column + len(behind) :]
    assert accepted == "    " + block["text"]
    editor.change((1, column), (1, column + len(behind)), item.insert_text)
    assert await editor.saved() == {block["id"]: "kept in parts"}


async def test_a_late_line_is_left_out_and_a_request_elsewhere_ends_the_block(
    connect: Connect, tmp_path: Path
) -> None:
    never = {**line("    z = 3"), "heldUntil": str(tmp_path / "never")}
    editor = await connect(after(line("    y = 2"), never, never), options=BLOCK, text=ABOVE + "\n\n    a\n")
    assert (await editor.suggestion(1, 4))["text"] == "x = 1\n    y = 2"
    await editor.engine.until("cancelled")
    editor.insert(0, 0, "\n")
    request = asyncio.ensure_future(editor.inline(2, 4))
    await editor.engine.until("asked", 5)
    await editor.inline(4, 5)
    await editor.engine.until("cancelled", 2)
    assert await request is None


class TestFailure:
    """The model cannot be asked for a line below the first."""

    async def failed(self, connect: Connect) -> Editor:
        """An editor that has got two lines, since the third has failed."""
        fails = {**line("    return y"), "error": ["EngineError", "No answer."]}
        script = after(line("    y = 2"), fails, line("    y = 2"), line("    return y"))
        editor = await connect(script, options=BLOCK, text=ABOVE)
        assert (await editor.suggestion(1, 4))["text"] == "x = 1\n    y = 2"
        return editor

    async def test_the_lines_above_stay_and_asked_again_it_is_made_again(self, connect: Connect) -> None:
        editor = await self.failed(connect)
        whole = await editor.suggestion(1, 4)
        assert whole["text"] == "x = 1\n    y = 2\n    return y"
        n = len(editor.engine.read("asked"))
        assert (await editor.suggestion(1, 4))["text"] == whole["text"]
        assert len(editor.engine.read("asked")) == n, "what is made stays"


class TestTypedWhileItIsMade:
    """Each key cancels the request before it; the block goes on while its first line is typed."""

    async def begun(self, connect: Connect, release: Path) -> tuple[Editor, Request]:
        """An editor that waits for the second line, and its request, "first"."""
        late = {**line("    y = 2"), "heldUntil": str(release)}
        script = after(late)
        script["answers"]["    z"] = line(" = 3")
        editor = await connect(script, options=BLOCK, text=ABOVE + "\n\n    a\n")
        request = asyncio.ensure_future(editor.inline(1, 4, request_id="first"))
        await editor.engine.until("asked", 2)
        return editor, request

    async def cancelled(self, editor: Editor, request: Request, column: int, char: str) -> None:
        editor.insert(1, column, char)
        editor.cancel("first")
        with pytest.raises(JsonRpcRequestCancelled):
            await request

    async def test_it_is_there_with_the_next_key(self, connect: Connect, tmp_path: Path) -> None:
        editor, request = await self.begun(connect, tmp_path / "release")
        await self.cancelled(editor, request, 4, "x")
        rest = asyncio.ensure_future(editor.suggestion(1, 5))
        await editor.in_order()
        (tmp_path / "release").touch()
        found = await rest
        assert (found["kind"], found["text"]) == ("block", " = 1\n    y = 2")
        assert not editor.engine.read("cancelled")
        editor.insert(1, 5, " ")
        assert (await editor.suggestion(1, 6))["text"] == "= 1\n    y = 2"


class TestPause:
    async def test_it_stops_a_block_that_is_being_made(self, connect: Connect, tmp_path: Path) -> None:
        never = {**line("    y = 2"), "heldUntil": str(tmp_path / "never")}
        editor = await connect(after(never, never), options=BLOCK, text=ABOVE)
        request = asyncio.ensure_future(editor.inline(1, 4))
        await editor.engine.until("asked", 2)
        await editor.command("pause")
        assert await request is None
        await editor.engine.until("cancelled")
        assert (await editor.command("explain"))["reason"] == "paused"
        assert await editor.stored("SELECT COUNT(*) FROM suggestions") == [(0,)]


class TestNextLine:
    """After a block was accepted, the line below all that was accepted is completed before anybody asks."""

    @pytest.mark.parametrize("n", [1, 3])
    async def test_of_so_many_lines(self, connect: Connect, n: int) -> None:
        script = after(line("    y = 2"), line("    return y"))
        editor = await connect(script, options=BLOCK, text=ABOVE + "\n\nz = f()\n")
        block = await editor.suggestion(1, 4)
        accepted = block["text"].split("\n")[:n]
        assert len(accepted) == n
        known = len(editor.engine.read("asked"))
        editor.insert(1, 4, "\n".join(accepted))
        ahead = (await editor.engine.until("asked", known + 1))[-1]
        assert ahead["idle"]
        above = ["def f():", "    x = 1", "    y = 2", "    return y"][: n + 1]
        # Below `return` an editor indents less.
        indentation = "" if n == 3 else "    "
        assert ahead["prompt"].endswith("\n".join([*above, indentation]))
        await editor.engine.until("answered", known + 1)
        await editor.in_order()
        if n < 3:  # there the model ends the line at once
            editor.insert(n, len(above[-1]), "\n" + indentation)
            assert (await editor.suggestion(n + 1, len(indentation)))["source"] == "memory"
