"""Blocks: by hand, an empty line gets the lines up to the end of the scope."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled
from scripted_editor import Editor, capabilities, install_curve, suggestions, until

Request = asyncio.Future[types.InlineCompletionList | None]

ABOVE = "def f():\n    "


def line(text: str, p: float = 0.9) -> dict[str, Any]:
    return {"text": text, "logprobs": [math.log(p)] * 3}


def after(*lines: dict[str, Any]) -> dict[str, Any]:
    """A script in which an empty line gets one answer after the other."""
    return {"answers": {"    ": line("x = 1")}, "inOrder": [*lines, line("")]}


async def block_at(editor: Editor, at: int = 1, column: int = 4) -> dict[str, Any]:
    """The first answer by hand."""
    return suggestions(await editor.items(at, column, by_hand=True))[0]


async def test_a_block_with_a_tier_for_each_line(connect: Connect) -> None:
    script = after(line("    y = 2"), line("    z = 3", 0.6), line("    return z", 0.3), line("z = 3"))
    editor = await connect(script, text=ABOVE)
    block = await block_at(editor)
    assert block["text"] == "x = 1\n    y = 2\n    z = 3\n    return z"
    assert block["kind"] == "block"
    assert [one["confidence"] for one in block["lines"]] == pytest.approx([0.9, 0.81, 0.486, 0.1458])
    assert [one["tier"] for one in block["lines"]] == ["accept", "accept", "review", "reject"]
    assert (block["confidence"], block["tier"]) == (pytest.approx(0.1458), "reject")
    assert block["sure"] == {"end": len("x = 1\n    y = 2"), "confidence": pytest.approx(0.81)}
    assert "accept through line 2 of 4, reject from line 4" in block["reason"]


@pytest.mark.parametrize(
    ("text", "at", "lines"),
    [
        ("int f() {\n    \n}\n", (1, 4), ["x = 1;", "    return x;"]),
        ("int f() {\n\n}\n", (1, 0), ["    x = 1;", "    return x;"]),
        ("g(() => {\n    \n});\n", (1, 4), ["x = 1;", "    return x;"]),
        ("int f() {\n    a();\n    \n    b();\n}\n", (2, 4), ["x = 1;", "    return x;"]),
    ],
    ids=["between braces", "not indented", "between closers of the editor", "between lines"],
)
async def test_on_an_empty_line_between_others(
    connect: Connect, text: str, at: tuple[int, int], lines: list[str]
) -> None:
    script = after(*map(line, lines[1:]), line("}"))
    script["answers"]["    "] = line(lines[0])
    if at[1] == 0:
        first = line(lines[0])
        script["inOrder"].insert(0, first)
    editor = await connect(script)
    editor.open(text, "file:///project/module.c", "c")
    found = await editor.items(*at, uri="file:///project/module.c", by_hand=True)
    assert suggestions(found)[0]["text"] == "\n".join(lines)


async def test_with_a_part_of_its_first_line_that_can_be_trusted(connect: Connect, tmp_path: Path) -> None:
    """Where no line is to be accepted, unless nothing is to be said of such parts."""
    first = {"text": "alpha(beta)", "tokens": ["alpha", "(", "beta", ")"]}
    first |= {"logprobs": [-0.01, -0.01, -1.97, -0.01], "entropies": [0.1, 0.1, 2.0, 0.1]}
    script = after(line("    return x")) | {"answers": {"    ": first}}
    install_curve(tmp_path / "home")
    editor = await connect(script, text=ABOVE)
    block = await block_at(editor)
    assert {one["tier"] for one in block["lines"]} == {"review"}
    assert block["text"][: block["sure"]["end"]] == "alpha("
    editor = await connect(script, options={"sure": "off"}, text=ABOVE)
    assert (await block_at(editor))["sure"] is None


async def test_by_itself_and_in_a_line_that_is_begun_there_is_one_line(connect: Connect) -> None:
    script = after(line("    y = 2"))
    editor = await connect(script, text=ABOVE)
    plain = await editor.suggestion(1, 4)
    assert (plain["kind"], plain["text"]) == ("line", "x = 1")
    assert "lines" not in plain
    script["answers"]["    x"] = line(" = 2")
    editor = await connect(script, text=ABOVE + "x")
    assert (await block_at(editor, 1, 5))["text"] == " = 2"


async def test_what_was_there_by_itself_is_its_first_line(connect: Connect) -> None:
    editor = await connect(after(line("    y = 2")), text=ABOVE)
    plain = await editor.suggestion(1, 4)
    block = await block_at(editor)
    assert (block["id"], block["text"]) == (plain["id"], "x = 1\n    y = 2")
    assert (await editor.suggestion(1, 4))["text"] == block["text"], "it stays"


async def test_while_its_first_line_is_typed_the_rest_stays(connect: Connect) -> None:
    editor = await connect(after(line("    y = 2")), text=ABOVE)
    block = await block_at(editor)
    n = len(editor.engine.read("asked"))
    for column, char in enumerate("x =", start=4):
        editor.insert(1, column, char)
        rest = await editor.suggestion(1, column + 1)
        assert rest["text"] == block["text"][column - 3 :]
        assert (rest["id"], rest["lines"]) == (block["id"], block["lines"])
        assert rest["sure"] is None or rest["sure"]["end"] <= len(rest["text"])
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
    editor = await connect(script, text=ABOVE)
    block = await block_at(editor)
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
    script = after(line("    y = 2"), never, never) | {"blockSeconds": 0.5}
    editor = await connect(script, text=ABOVE + "\n\n    a\n")
    assert (await block_at(editor))["text"] == "x = 1\n    y = 2"
    await editor.engine.until("cancelled")
    editor.insert(0, 0, "\n")
    request = asyncio.ensure_future(editor.inline(2, 4, by_hand=True))
    await editor.engine.until("asked", 5)
    await editor.inline(4, 5)
    await editor.engine.until("cancelled", 2)
    assert await request is None


async def test_asked_for_again_it_goes_on_below_a_late_line(connect: Connect, tmp_path: Path) -> None:
    never = {**line("    z = 3"), "heldUntil": str(tmp_path / "never")}
    again = line("    y = 2"), line("    z = 3")
    editor = await connect(after(line("    y = 2"), never, *again) | {"blockSeconds": 0.5}, text=ABOVE)
    assert (await block_at(editor))["text"] == "x = 1\n    y = 2"
    assert (await block_at(editor))["text"] == "x = 1\n    y = 2\n    z = 3"


class TestFailure:
    """The model cannot be asked for a line below the first."""

    async def failed(self, connect: Connect) -> Editor:
        """An editor that has got two lines, since the third has failed."""
        fails = {**line("    return y"), "error": ["EngineError", "No answer."]}
        script = after(line("    y = 2"), fails, line("    y = 2"), line("    return y"))
        editor = await connect(script, text=ABOVE)
        assert (await block_at(editor))["text"] == "x = 1\n    y = 2"
        return editor

    async def test_the_lines_above_stay_and_asked_again_it_is_made_again(self, connect: Connect) -> None:
        editor = await self.failed(connect)
        whole = await block_at(editor)
        assert whole["text"] == "x = 1\n    y = 2\n    return y"
        n = len(editor.engine.read("asked"))
        assert (await block_at(editor))["text"] == whole["text"]
        assert len(editor.engine.read("asked")) == n, "what is made stays"


class TestWhileItIsMade:
    """Whoever asked sees how far it is, and any key ends it."""

    async def begun(self, connect: Connect, release: Path) -> tuple[Editor, Request]:
        """An editor that waits for the second line, and its request, "first"."""
        late = {**line("    y = 2"), "heldUntil": str(release)}
        editor = await connect(after(late, line("    y = 2")), client=capabilities(progress=True), text=ABOVE)
        request = asyncio.ensure_future(editor.inline(1, 4, request_id="first", by_hand=True))
        await editor.engine.until("asked", 2)
        return editor, request

    async def cancelled(self, editor: Editor, request: Request) -> None:
        editor.cancel("first")
        with pytest.raises(JsonRpcRequestCancelled):
            await request

    async def test_a_bar_says_how_far_it_is(self, connect: Connect, tmp_path: Path) -> None:
        editor, request = await self.begun(connect, tmp_path / "release")
        bars = editor.client.progress_reports
        await until(lambda: len(bars) > 1 and all(bars.values()), "a bar beside that of the model")
        (begin, *_), last = [*bars.values()][-1], lambda: [*bars.values()][-1][-1]
        assert begin.message == "Completing a block: line 2."
        (tmp_path / "release").touch()
        assert await request is not None
        await until(lambda: isinstance(last(), types.WorkDoneProgressEnd), "its end")

    async def test_a_key_ends_it_and_the_rest_of_the_line_comes_at_once(
        self, connect: Connect, tmp_path: Path
    ) -> None:
        editor, request = await self.begun(connect, tmp_path / "never")
        editor.insert(1, 4, "x")
        await self.cancelled(editor, request)
        rest = await editor.suggestion(1, 5)
        assert (rest["kind"], rest["text"]) == ("line", " = 1")
        await editor.engine.until("cancelled")

    async def test_cancelled_and_asked_for_again_it_goes_on(self, connect: Connect, tmp_path: Path) -> None:
        editor, request = await self.begun(connect, tmp_path / "release")
        await self.cancelled(editor, request)
        again = asyncio.ensure_future(editor.suggestion(1, 4))
        await editor.in_order()
        (tmp_path / "release").touch()
        assert (await again)["text"].startswith("x = 1\n    y = 2")
        assert not editor.engine.read("cancelled")

    async def test_cancelled_it_ends(self, connect: Connect, tmp_path: Path) -> None:
        editor, request = await self.begun(connect, tmp_path / "never")
        await self.cancelled(editor, request)
        await editor.engine.until("cancelled")


class TestPause:
    async def test_it_stops_a_block_that_is_being_made(self, connect: Connect, tmp_path: Path) -> None:
        never = {**line("    y = 2"), "heldUntil": str(tmp_path / "never")}
        editor = await connect(after(never, never), text=ABOVE)
        request = asyncio.ensure_future(editor.inline(1, 4, by_hand=True))
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
        editor = await connect(script, text=ABOVE + "\n\nz = f()\n")
        block = await block_at(editor)
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
