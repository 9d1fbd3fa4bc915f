"""What the model does before the first key: it evaluates the prompt of the place where the cursor rests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from scripted_editor import URI, Editor, Notebook, capabilities, until

# Seconds of rest.
REST = 0.05
SCRIPT: dict[str, Any] = {"restsAfter": REST, "otherwise": {"text": "foo(bar)"}}
TEXT = "a = 1\n\nb = f()\nlong_name = other_name\n"
OTHER = "file:///other.py"
# The places that are evaluated are compared by the text above and before the cursor.
END, BLANK, CLOSER, MIDDLE = (0, 5), (1, 0), (2, 6), (3, 4)


def shown(line: int, column: int, text: str = TEXT) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:line], lines[line][:column]])


async def evaluated(editor: Editor, n: int = 1) -> list[str]:
    """What the model was shown, as soon as there are `n` evaluations."""
    return [one["prompt"] for one in await editor.engine.until("evaluates", n)]


async def none_more(editor: Editor, n: int = 0) -> bool:
    """Whether there are no more than `n` evaluations, long after the cursor has come to rest."""
    await editor.in_order()
    await asyncio.sleep(6 * REST)
    return len(editor.engine.read("evaluates")) == n


@pytest.mark.parametrize("place", [END, BLANK, CLOSER], ids=["end", "blank", "closer"])
async def test_the_first_keys_prompt_begins_with_what_was_evaluated(
    connect: Connect, place: tuple[int, int]
) -> None:
    """In a document that nobody has edited: at the end of a line, on an empty one, before a closer."""
    editor = await connect(SCRIPT, text=TEXT)
    editor.cursor(*place)
    (prompt,) = await evaluated(editor)
    assert prompt == shown(*place)
    editor.insert(*place, "x")
    await editor.inline(place[0], place[1] + 1)
    (asked,) = editor.engine.read("asked")
    assert asked["prompt"] == prompt + "x"


async def test_within_a_line_only_where_the_user_works(connect: Connect) -> None:
    editor = await connect(SCRIPT, text=TEXT)
    editor.cursor(0, 0)
    editor.cursor(*MIDDLE)
    assert await none_more(editor)
    editor.insert(0, 5, "0")
    editor.cursor(*MIDDLE)
    place = shown(*MIDDLE, TEXT.replace("1", "10"))
    await until(lambda: place in [one["prompt"] for one in editor.engine.read("evaluates")], "the place")


async def test_a_newer_place_takes_the_place_of_an_older_one(connect: Connect, tmp_path: Path) -> None:
    script = {**SCRIPT, "evaluation": {"heldUntil": str(tmp_path / "never")}}
    editor = await connect(script, text=TEXT)
    editor.cursor(*END)
    await evaluated(editor)
    editor.cursor(*END)
    assert await none_more(editor, 1), "it has not moved"
    editor.cursor(*BLANK)
    await editor.engine.until("evaluation cancelled")
    assert await evaluated(editor, 2) == [shown(*END), shown(*BLANK)]


@pytest.mark.parametrize("how", ["key elsewhere", "request elsewhere", "close"])
async def test_it_gives_way_at_once(connect: Connect, tmp_path: Path, how: str) -> None:
    editor = await connect({**SCRIPT, "evaluation": {"heldUntil": str(tmp_path / "never")}}, text=TEXT)
    editor.open("z", OTHER)
    editor.cursor(*END)
    await evaluated(editor)
    if how == "key elsewhere":
        editor.insert(*BLANK, "x")
    elif how == "request elsewhere":
        await editor.suggestion(0, 1, OTHER)
    else:
        editor.close()
    await editor.engine.until("evaluation cancelled")
    events = [one["event"] for one in editor.engine.read()]
    assert "asked" not in events[: events.index("evaluation cancelled")]


async def test_a_key_in_the_line_takes_over_what_is_being_evaluated(connect: Connect, tmp_path: Path) -> None:
    """These are its own tokens: the model process lets the step end, which a cancelled one would lose."""
    editor = await connect({**SCRIPT, "evaluation": {"heldUntil": str(tmp_path / "never")}}, text=TEXT)
    editor.cursor(*END)
    await evaluated(editor)
    editor.insert(*END, "x")
    await editor.suggestion(0, 6)
    assert "evaluation cancelled" not in [one["event"] for one in editor.engine.read()]
    await editor.engine.until("evaluation cancelled")  # once the cursor rests there again


@pytest.mark.parametrize("sign", ["hover", "action", "edit", "whole text"])
async def test_in_other_editors_requests_and_edits_say_where_the_cursor_is(
    connect: Connect, sign: str
) -> None:
    """A completion is no sign of its own: what it asks the model for is evaluated with it."""
    editor = await connect(SCRIPT, text=TEXT)
    place, text = END, TEXT
    if sign == "hover":
        await editor.hover(*END)
    elif sign == "action":
        await editor.actions(*END)
    elif sign == "whole text":  # as editors send it that know of no smaller changes
        place, text = (3, 6), TEXT.replace("long_n", "long__n")
        editor.replace_all(text)
    else:
        editor.insert(*END, "\n    ")
        place, text = (1, 4), TEXT.replace("1\n", "1\n    \n")
    assert await evaluated(editor) == [shown(*place, text)]


async def test_the_mouse_is_not_the_cursor_where_the_client_says_where_that_is(connect: Connect) -> None:
    editor = await connect(SCRIPT, text=TEXT)
    editor.cursor(*END)
    await evaluated(editor)
    await editor.hover(*BLANK)
    await none_more(editor, 2)
    assert set(await evaluated(editor)) == {shown(*END)}


class TestFirstInADocument:
    async def test_where_the_client_says_the_cursor_is(self, connect: Connect) -> None:
        """Even right before it opens the document, and within a line."""
        editor = await connect(SCRIPT)
        editor.cursor(*MIDDLE)
        editor.open(TEXT)
        assert await evaluated(editor) == [shown(*MIDDLE)]

    async def test_where_it_was_edited_last(self, connect: Connect) -> None:
        editor = await connect(SCRIPT, text=TEXT)
        editor.insert(*MIDDLE, "x")
        await evaluated(editor)
        editor.close()
        editor.open("z", OTHER)
        assert await none_more(editor, 1)
        editor.open(TEXT)
        assert (await evaluated(editor, 2))[-1] == shown(3, 5)

    async def test_it_waits_for_the_model_which_is_loaded_once(
        self, connect: Connect, tmp_path: Path
    ) -> None:
        ready = tmp_path / "ready"
        editor = await connect({**SCRIPT, "readyWhen": str(ready)}, text=TEXT)
        editor.cursor(*END)
        assert await none_more(editor)
        ready.touch()
        assert await evaluated(editor) == [shown(*END)]
        assert len(editor.engine.read("loading")) == 1


class TestNever:
    @pytest.mark.parametrize(
        "options",
        [{"prefetch": {"enabled": False}}, {"languages": ["go"]}, {"exclude": ["*.py"]}, {"comments": "off"}],
        ids=["prefetch", "languages", "exclude", "comments"],
    )
    async def test_by_the_settings(self, connect: Connect, options: dict[str, Any]) -> None:
        text = "# a comment\n"
        editor = await connect(SCRIPT, options=options, text=text)
        editor.cursor(0, 11)
        assert await none_more(editor)

    async def test_in_a_pause(self, connect: Connect, tmp_path: Path) -> None:
        never = {"heldUntil": str(tmp_path / "never")}
        editor = await connect({**SCRIPT, "evaluation": never}, text=TEXT)
        editor.cursor(*END)
        await evaluated(editor)
        await editor.command("pause")
        await editor.engine.until("evaluation cancelled")
        editor.cursor(*BLANK)
        assert await none_more(editor, 1)
        await editor.command("resume")
        assert (await evaluated(editor, 2))[-1] == shown(*BLANK)

    async def test_on_battery(self, connect: Connect, tmp_path: Path) -> None:
        battery = tmp_path / "supplies" / "BAT0"
        battery.mkdir(parents=True)
        (battery / "type").write_text("Battery\n")
        (battery / "status").write_text("Discharging\n")
        editor = await connect({**SCRIPT, "supplies": str(tmp_path / "supplies")}, text=TEXT)
        await editor.suggestion(*MIDDLE)
        editor.cursor(*END)
        assert await none_more(editor)

    async def test_in_data(self, connect: Connect) -> None:
        line = "f(a,b);" * 80
        editor = await connect(SCRIPT, text=f"{line}\n")
        editor.cursor(0, len(line))
        assert await none_more(editor)

    async def test_where_the_answer_is_remembered(self, connect: Connect) -> None:
        editor = await connect(SCRIPT, text=TEXT)
        await editor.suggestion(*END)
        editor.cursor(*BLANK)
        await evaluated(editor)
        editor.cursor(*END)
        assert await none_more(editor, 1)

    async def test_by_an_engine_that_cannot(self, connect: Connect) -> None:
        editor = await connect({"otherwise": {"text": "x"}}, text=TEXT)
        editor.cursor(*END)
        await asyncio.sleep(0.8)
        assert await none_more(editor)


async def test_no_more_than_the_budget(connect: Connect) -> None:
    """The next place waits until enough of it is there again."""
    spent = {"prompt_ms": 1000.0}
    script = {**SCRIPT, "evaluation": spent, "aheadBudget": 3.5}
    editor = await connect(script, options={"threads": 2}, text=TEXT)
    editor.cursor(*END)
    await editor.engine.until("evaluated")
    editor.cursor(*BLANK)
    assert await none_more(editor, 1)
    assert (await editor.status())["ahead"] == {"evaluated": 280, "used": 0, "seconds": 2.0}


async def test_what_takes_longer_than_the_budget_is_stopped(connect: Connect, tmp_path: Path) -> None:
    script = {**SCRIPT, "evaluation": {"heldUntil": str(tmp_path / "never")}, "aheadBudget": 2.0}
    editor = await connect(script, options={"threads": 16}, text=TEXT)
    editor.cursor(*END)
    await editor.engine.until("evaluation cancelled")
    assert await none_more(editor, 1)
    assert (await editor.status())["ahead"]["seconds"] == pytest.approx(2.0, rel=0.5)


async def test_the_status_says_what_was_of_use(connect: Connect) -> None:
    """20 of the 300 tokens were known before; of the key's prompt 30 are known, so that 10 were of use."""
    editor = await connect(SCRIPT, text=TEXT)
    editor.cursor(*END)
    await editor.engine.until("evaluated")
    for column in (6, 7):
        editor.insert(0, column - 1, "x")
        await editor.suggestion(0, column)
    ahead = (await editor.status())["ahead"]
    assert (ahead["evaluated"], ahead["used"]) == (280, 10)
    assert set(ahead) == {"evaluated", "used", "seconds"}


async def test_the_line_after_an_accepted_suggestion_comes_first(connect: Connect, tmp_path: Path) -> None:
    """The end of the accepted line is evaluated after it."""
    held = tmp_path / "release"
    answers = {"x = ": {"text": "foo(bar)"}, "": {"text": "late", "heldUntil": str(held)}}
    editor = await connect({**SCRIPT, "answers": answers, "restsAfter": 0.3}, text="x = \n\ny = 1\n")
    await editor.suggestion(0, 4)
    editor.insert(0, 4, "foo(bar)")
    await editor.engine.until("asked", 2)
    await asyncio.sleep(0.6)
    assert editor.engine.read("evaluates") == []
    held.touch()
    assert await evaluated(editor) == ["x = foo(bar)"]


async def test_a_cell_of_a_notebook(connect: Connect) -> None:
    client = capabilities(inline=True, notebooks=True)
    editor = await connect(SCRIPT, client=client)
    book = Notebook(editor, {"text": "# Scores", "a": "a = 1", "b": "b = "})
    editor.cursor(0, 4, book.cell_uri("b"))
    assert await evaluated(editor) == ["a = 1\n\nb = "]
    book.insert("b", 0, 4, "x")
    await editor.inline(0, 5, book.cell_uri("b"))
    assert [one["prompt"] for one in editor.engine.read("asked")] == ["a = 1\n\nb = x"]
    editor.cursor(0, 8, book.cell_uri("text"))
    assert await none_more(editor, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        *(None, [], 5, {}, {"textDocument": 1, "position": 2}, {"textDocument": {"uri": URI}}),
        {"textDocument": {"uri": 5}, "position": {"line": 0, "character": 0}},
        {"textDocument": {"uri": URI}, "position": {"line": -1, "character": 0}},
        {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 2**40}},
    ],
)
async def test_what_names_no_place_is_ignored(connect: Connect, wrong: object) -> None:
    editor = await connect(SCRIPT, text=TEXT)
    editor.client.protocol.notify("lsp-calib/cursor", wrong)
    assert await none_more(editor)
    assert editor.messages == []
    editor.cursor(10**6, 10**6)
    await until(lambda: editor.engine.read("evaluates"), "the end of the document, where such a place is")
