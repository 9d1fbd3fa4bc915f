"""Blocks: with `shape: "block"` an empty line gets the lines up to the end of the scope."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from scripted_editor import suggestions, until

BLOCK = {"shape": "block"}
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


async def test_without_the_setting_and_in_a_line_that_is_begun_there_is_one_line(connect: Connect) -> None:
    script = after(line("    y = 2"))
    editor = await connect(script)
    editor.open(ABOVE)
    plain = await editor.suggestion(1, 4)
    assert (plain["kind"], plain["text"]) == ("line", "x = 1")
    assert "lines" not in plain
    script["answers"]["    x"] = line(" = 2")
    editor = await connect(script, options=BLOCK)
    editor.open(ABOVE + "x")
    assert (await editor.suggestion(1, 5))["text"] == " = 2"


async def test_while_its_first_line_is_typed_the_rest_stays(connect: Connect) -> None:
    editor = await connect(after(line("    y = 2")), options=BLOCK)
    editor.open(ABOVE)
    block = await editor.suggestion(1, 4)
    n = len(editor.engine.read("asked"))
    for column, char in enumerate("x =", start=4):
        editor.insert(1, column, char)
        rest = await editor.suggestion(1, column + 1)
        assert rest["text"] == block["text"][column - 3 :]
        assert (rest["id"], rest["lines"]) == (block["id"], block["lines"])
    assert len(editor.engine.read("asked")) == n


async def test_its_label_is_that_of_the_first_line(connect: Connect) -> None:
    editor = await connect(after(line("    y = 2")), options=BLOCK)
    editor.open(ABOVE)
    block = await editor.suggestion(1, 4)
    editor.insert(1, 4, block["text"])
    await until(editor.pushed, "a diagnostic")
    assert [one.range.start.line for one in editor.pushed()] == [1]
    editor.save()
    assert await editor.settled() == {block["id"]: "kept"}
    assert editor.rows("SELECT kind, round(confidence, 3) FROM suggestions") == [("line", 0.9)]


async def test_alternatives_are_lines(connect: Connect) -> None:
    script = after(line("    y = 2"))
    script["answers"]["    "]["draws"] = [line("z = 3")]
    editor = await connect(script, options=BLOCK)
    editor.open(ABOVE)
    found = suggestions(await editor.inline(1, 4, by_hand=True))
    assert [(one["kind"], one["text"]) for one in found] == [("block", "x = 1\n    y = 2"), ("line", "z = 3")]


async def test_a_late_line_is_left_out_and_a_request_elsewhere_ends_the_block(
    connect: Connect, tmp_path: Path
) -> None:
    never = {**line("    z = 3"), "heldUntil": str(tmp_path / "never")}
    editor = await connect(after(line("    y = 2"), never, never), options=BLOCK)
    editor.open(ABOVE + "\n\n    a\n")
    assert (await editor.suggestion(1, 4))["text"] == "x = 1\n    y = 2"
    await editor.engine.until("cancelled")
    editor.insert(0, 0, "\n")
    request = asyncio.ensure_future(editor.inline(2, 4))
    await editor.engine.until("asked", 5)
    await editor.inline(4, 5)
    await editor.engine.until("cancelled", 2)
    assert await request is None
