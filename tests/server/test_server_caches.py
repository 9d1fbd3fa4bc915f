"""What is answered without asking the model again: typing back, undoing, returning, and the next line."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import Connect
from scripted_editor import URI, Editor, install_calibrator, suggestions, until

FOO = {"answers": {"x = ": {"text": "foo(bar)"}}, "otherwise": {"text": "other"}}


def asked(editor: Editor) -> int:
    """How often the model was asked for a completion."""
    return len(editor.engine.read("asked"))


async def test_typing_along_and_back(connect: Connect) -> None:
    """The same suggestion all the way: id, confidence and tier."""
    editor = await connect(FOO, text="x = \ny = 1\n")
    first = await editor.suggestion(0, 4)
    for column, char in enumerate("foo", start=4):
        editor.insert(0, column, char)
        await editor.suggestion(0, column + 1)
    for column in (6, 5, 4):
        editor.change((0, column), (0, column + 1), "")
        back = await editor.suggestion(0, column)
        assert back["text"] == "foo(bar)"[column - 4 :]
        assert (back["source"], set(back["timing"].values())) == ("memory", {0})
        same = ("id", "confidence", "rawConfidence", "tier", "calibrator")
        assert [back[key] for key in same] == [first[key] for key in same]
    assert asked(editor) == 1
    assert await editor.stored("SELECT COUNT(*) FROM suggestions") == [(1,)]
    assert (await editor.status())["tiers"] == {"accept": 1, "review": 0, "reject": 0}


async def test_an_accepted_suggestion_that_was_undone_is_the_same_when_asked_by_hand(
    connect: Connect,
) -> None:
    """It is one prediction: it is followed once, and has one label."""
    editor = await connect(FOO, options={"prefetch": {"enabled": False}}, text="x = \ny = 1\n")
    first = await editor.suggestion(0, 4)
    editor.insert(0, 4, "foo(bar)")
    await until(lambda: editor.pushed(), "a diagnostic")
    editor.change((0, 4), (0, 12), "")
    assert suggestions(await editor.items(0, 4)) == [], "by itself it does not come back"
    (again,) = suggestions(await editor.items(0, 4, by_hand=True))
    assert (again["id"], again["text"], again["source"]) == (first["id"], "foo(bar)", "memory")
    editor.insert(0, 4, "foo(bar)")
    assert await editor.saved() == {first["id"]: "kept"}
    assert await editor.stored("SELECT COUNT(*) FROM suggestions") == [(1,)]
    assert editor.rows("SELECT COUNT(*) FROM events WHERE kind = 'shown'") == [(1,)]


async def test_a_place_that_one_returns_to(connect: Connect) -> None:
    """Also where the document was changed out of the model's sight; not where it sees the change."""
    far = "".join(f"value_{n:03} = compute({n:03})\n" for n in range(200))
    editor = await connect(FOO, text=f"{far}x = \ny =\n")
    first = await editor.suggestion(200, 4)
    await editor.suggestion(201, 3)
    editor.change((0, 0), (0, 5), "other")
    again = await editor.suggestion(200, 4)
    assert (again["id"], again["source"]) == (first["id"], "memory")
    editor.insert(199, 0, "# ")
    changed = await editor.suggestion(200, 4)
    assert (changed["source"], changed["id"] == first["id"]) == ("model", False)
    assert asked(editor) == 3


async def test_a_suggestion_after_its_label_is_the_same_answer_with_a_label_of_its_own(
    connect: Connect,
) -> None:
    """Shown again once that has settled, it is another suggestion: a label that is given stays. Both are of
    one visit, so that they count once; the model is not asked for it."""
    editor = await connect({**FOO, "clock": True}, text="x = \ny = 1\n")
    first = await editor.suggestion(0, 4)
    await editor.later(0.8)  # long enough to be read
    editor.insert(0, 4, "no")
    assert await editor.saved() == {first["id"]: "typed over"}
    await editor.later(31.0)
    editor.change((0, 4), (0, 6), "")
    second = await editor.suggestion(0, 4)
    assert (second["text"], second["source"]) == ("foo(bar)", "memory")
    assert (await editor.suggestion(0, 4))["id"] == second["id"] != first["id"]
    editor.insert(0, 4, "foo(bar)")
    assert await editor.saved(2) == {first["id"]: "typed over", second["id"]: "kept"}
    assert editor.rows("SELECT COUNT(*) FROM suggestions") == [(2,)]
    assert editor.rows("SELECT DISTINCT episode FROM labels") == [(first["id"],)]


async def test_the_same_lines_in_two_places_are_two_predictions(connect: Connect) -> None:
    """Where nothing in sight of the model differs."""
    block = "".join(f"value_{n:03} = compute({n:03})\n" for n in range(160))
    editor = await connect(FOO, text=f"{block}x = \n{block}x = \n{block}")
    first = await editor.suggestion(160, 4)
    second = await editor.suggestion(321, 4)
    assert (second["text"], second["source"], second["id"] == first["id"]) == ("foo(bar)", "model", False)


@pytest.mark.parametrize("change", ["calibrator", "closed"])
async def test_what_is_out_of_date_is_forgotten(connect: Connect, change: str, tmp_path: Path) -> None:
    editor = await connect(FOO, settings={}, text="x = \n")
    first = await editor.suggestion(0, 4)
    if change == "calibrator":
        install_calibrator(tmp_path / "home", intercept=1.0)
    else:
        editor.close()
        editor.open("x = \n")
    await editor.in_order()
    for _ in range(2):  # a new calibrator is noticed with a request
        again = await editor.suggestion(0, 4)
    assert again["id"] != first["id"]
    assert asked(editor) == 2


class TestNextLine:
    """After a suggestion was accepted, the next line is completed before anybody asks."""

    SCRIPT: ClassVar[dict[str, Any]] = {
        "answers": {"def f():": {"text": ""}, "x = ": {"text": "foo(bar)"}, "    ": {"text": "return 1"}},
        "otherwise": {"text": "other"},
    }

    async def accepted(self, editor: Editor) -> None:
        editor.open("def f():\n    pass\nx = \n\ny = 1\n")
        await editor.suggestion(2, 4)
        editor.insert(2, 4, "foo(bar)")
        await editor.engine.until("asked", 2)

    async def test_it_is_there_when_the_user_presses_enter(self, connect: Connect) -> None:
        editor = await connect(self.SCRIPT)
        await self.accepted(editor)
        await editor.engine.until("answered", 2)
        (_, ahead) = editor.engine.read("asked")
        assert ahead["idle"]
        assert await editor.stored("SELECT COUNT(*) FROM suggestions") == [(1,)], "it is not shown yet"
        editor.insert(2, 12, "\n")
        suggestion = await editor.suggestion(3, 0)
        assert (suggestion["text"], suggestion["source"]) == ("other", "memory")
        assert asked(editor) == 2
        editor.insert(3, 0, "other")
        assert (await editor.saved(2))[suggestion["id"]] == "kept"
        assert await editor.stored("SELECT COUNT(*) FROM suggestions") == [(2,)]

    async def test_any_request_goes_before_it(self, connect: Connect, tmp_path: Path) -> None:
        never = {"text": "late", "heldUntil": str(tmp_path / "never")}
        editor = await connect({"answers": {"x = ": {"text": "foo(bar)"}, "": never, "z": {"text": "1"}}})
        editor.open("x = \n\ny = 1\n")
        await editor.suggestion(0, 4)
        editor.insert(0, 4, "foo(bar)")
        await editor.engine.until("asked", 2)
        editor.open("z", "file:///other.py")
        assert (await editor.suggestion(0, 1, "file:///other.py"))["text"] == "1"
        assert [entry["line"] for entry in editor.engine.read("cancelled")] == [""]

    @pytest.mark.parametrize(
        "options", [{"prefetch": {"enabled": False}}, {"languages": ["go"]}], ids=["prefetch", "languages"]
    )
    async def test_it_can_be_turned_off(self, connect: Connect, options: dict[str, Any]) -> None:
        editor = await connect(self.SCRIPT, options=options, text="x = \n\ny = 1\n")
        assert (await editor.inline(0, 4, by_hand=True)).items  # type: ignore[union-attr]
        editor.insert(0, 4, "foo(bar)")
        await until(lambda: editor.pushed(), "a diagnostic")
        await asyncio.sleep(0.2)
        assert asked(editor) == 1

    async def test_typing_the_suggestion_is_not_accepting_it(self, connect: Connect) -> None:
        editor = await connect(self.SCRIPT, text="x = \n\ny = 1\n")
        await editor.suggestion(0, 4)
        for column, char in enumerate("foo(bar)", start=4):
            editor.insert(0, column, char)
        await editor.in_order()
        await asyncio.sleep(0.2)
        assert asked(editor) == 1


async def test_a_closed_document_takes_its_next_line_with_it(connect: Connect, tmp_path: Path) -> None:
    never = {"text": "late", "heldUntil": str(tmp_path / "never")}
    editor = await connect({"answers": {"x = ": {"text": "foo(bar)"}}, "otherwise": never})
    editor.open("x = \n\ny = 1\n")
    await editor.suggestion(0, 4)
    editor.insert(0, 4, "foo(bar)")
    await editor.engine.until("asked", 2)
    editor.close(URI)
    await editor.engine.until("cancelled")
