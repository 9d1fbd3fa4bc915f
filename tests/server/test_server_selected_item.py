"""Suggestions while an item of the editor's completion menu is selected: they begin with it, and so do their
probabilities."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import Editor, install_curve, suggestions, until


def item(
    start: int, end: int, text: str, line: int = 0, last: int | None = None
) -> types.SelectedCompletionInfo:
    places = types.Position(line, start), types.Position(line if last is None else last, end)
    return types.SelectedCompletionInfo(types.Range(*places), text)


async def shown(
    editor: Editor, character: int, selected: types.SelectedCompletionInfo
) -> list[tuple[str, int, int]]:
    """(text, start, end) of each suggestion in the first line."""
    items = await editor.items(0, character, selected=selected)
    texts = [suggestion["text"] for suggestion in suggestions(items)]
    assert [item.insert_text for item in items] == texts
    spans = [item.range for item in items if item.range is not None]
    return [(text, span.start.character, span.end.character) for text, span in zip(texts, spans, strict=True)]


@pytest.mark.parametrize(
    ("line", "character", "selected", "asked", "lead", "found"),
    [
        ("os.pa", 5, item(3, 5, "path"), "os.pa", "th", ("path.join(a)", 3, 5)),
        ("os.Pa()", 5, item(3, 5, "path"), "os.", "path", ("path.join(a)", 3, 5)),
        ("os.path", 5, item(3, 7, "path"), "os.pa", "th", ("path.join(a)", 3, 7)),
        ("😀 os.pa", 8, item(6, 8, "path"), "😀 os.pa", "th", ("path.join(a)", 6, 8)),
    ],
)
async def test_the_model_is_asked_behind_what_is_typed_of_the_item(
    connect: Connect,
    line: str,
    character: int,
    selected: types.SelectedCompletionInfo,
    asked: str,
    lead: str,
    found: tuple[str, int, int],
) -> None:
    """The reply begins with the item and replaces what the item would. What is typed and is not the item's
    counts for nothing, and what the item replaces behind the cursor is not there."""
    editor = await connect({"answers": {asked: {"text": lead + ".join(a)"}}}, text=line)
    assert await shown(editor, character, selected) == [found]
    assert [(entry["line"], entry.get("lead", "")) for entry in editor.engine.read("asked")] == [
        (asked, lead)
    ]


OTHER = {
    "text": "rdir",
    "logprobs": [-0.1],
    "leads": {
        "th": {"text": "th.join(a)", "tokens": ["th", ".join(a)"], "logprobs": [-2.0, -0.1]},
        "ck(a)": {"text": "ck(a)", "logprobs": [-3.0]},
    },
}


async def test_an_item_that_the_model_did_not_choose_counts(connect: Connect, tmp_path: Path) -> None:
    """The number is of all that would be inserted. The model's own answer comes once the menu is closed."""
    install_curve(tmp_path / "home")
    editor = await connect({"answers": {"os.pa": OTHER}}, text="os.pa")
    (joined,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "path")))
    (packed,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "pack(a)")))
    assert (joined["text"], packed["text"]) == ("path.join(a)", "pack(a)")
    assert joined["confidence"] == pytest.approx(math.exp(-2.1 / 2))
    assert packed["confidence"] == pytest.approx(math.exp(-3.0))
    assert joined["text"][slice(joined["doubt"]["start"], joined["doubt"]["end"])] == "th"
    (own,) = suggestions(await editor.items(0, 5))
    assert (own["text"], own["confidence"]) == ("rdir", pytest.approx(math.exp(-0.1)))
    (again,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "path")))
    assert (again["id"], again["source"]) == (joined["id"], "memory")
    assert len(editor.engine.read("asked")) == 3


async def test_where_the_own_answer_is_known_and_begins_with_the_item_it_is_that_one(
    connect: Connect,
) -> None:
    editor = await connect({"answers": {"os.pa": {"text": "th.join(a)"}}}, text="os.pa")
    own = await editor.suggestion(0, 5)
    (beside,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "path")))
    assert (beside["id"], beside["text"], beside["source"]) == (own["id"], "path.join(a)", "memory")
    assert (beside["confidence"], beside["tier"]) == (own["confidence"], own["tier"])
    assert len(editor.engine.read("asked")) == 1


async def test_an_engine_that_cannot_score_an_item_gives_nothing_beside_another_one(connect: Connect) -> None:
    """Its own answer is kept for the moment when the menu closes."""
    editor = await connect({"answers": {"os.pa": {"text": "rdir"}}}, text="os.pa")
    for _ in range(2):
        assert await shown(editor, 5, item(3, 5, "path")) == []
        why = await editor.command("explain")
        assert (why["reason"], "selected in the completion menu" in why["message"]) == ("selectedItem", True)
    assert (await editor.status())["withheld"]["otherThanItem"] == 1
    assert await shown(editor, 5, item(3, 5, "pardir")) == [("pardir", 3, 5)]
    assert (await editor.suggestion(0, 5))["text"] == "rdir"
    assert len(editor.engine.read("asked")) == 1


async def test_accepted_in_the_menu_it_goes_on_from_memory_as_the_same_suggestion(connect: Connect) -> None:
    editor = await connect({"answers": {"os.pa": OTHER}}, text="os.pa")
    (before,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "path")))
    editor.change((0, 3), (0, 5), "path")
    after = await editor.suggestion(0, 7)
    assert (after["id"], after["text"], after["source"]) == (before["id"], ".join(a)", "memory")
    assert len(editor.engine.read("asked")) == 1


async def test_accepted_while_the_model_works_on_it_the_line_goes_on_behind_it(
    connect: Connect, tmp_path: Path
) -> None:
    """The document is then what it was to be with the item, and another answer is due there."""
    held = {"text": "th.join(a)", "heldUntil": str(tmp_path / "go")}
    editor = await connect({"answers": {"os.pa": held, "os.path": {"text": ".own"}}}, text="os.pa")
    first = asyncio.create_task(editor.inline(0, 5, selected=item(3, 5, "path")))
    await until(lambda: editor.engine.read("asked"), "a question")
    editor.change((0, 3), (0, 5), "path")
    second = asyncio.create_task(editor.items(0, 7))
    await until(lambda: len(editor.engine.read("asked")) > 1 or second.done(), "a second question")
    (tmp_path / "go").touch()
    assert [one["text"] for one in suggestions(await second)] == [".own"]
    assert await first is None
    assert editor.engine.read("cancelled")


async def test_it_is_followed_to_its_label(connect: Connect) -> None:
    """Accepted at once, with the letters that the item replaces."""
    answer = {
        "text": "path.join(a)",
        "tokens": ["path", ".", "join", "(a)"],
        "logprobs": [-0.1, -0.1, -2.0, -0.1],
    }
    editor = await connect({"answers": {"os.": answer}}, text="os.Pa()")
    (suggestion,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "path")))
    doubt = suggestion["doubt"]
    assert suggestion["text"][doubt["start"] : doubt["end"]] == "join"
    editor.change((0, 3), (0, 5), suggestion["text"])
    await until(editor.pushed, "a diagnostic")
    assert await editor.saved() == {suggestion["id"]: "kept"}


@pytest.mark.parametrize("options", [{"comments": "hand"}, {"exclude": ["**/*.py"]}])
async def test_where_nothing_is_to_come_by_itself_no_item_brings_it(
    connect: Connect, options: dict[str, Any]
) -> None:
    editor = await connect(
        {"answers": {"# os.pa": {"text": "th.join(a)"}}}, options=options, text="# os.pa\n"
    )
    answer = await editor.inline(0, 7, selected=item(5, 7, "path"))
    assert not (answer and answer.items)
    assert (await editor.command("explain"))["reason"] == "excluded" if "exclude" in options else "comment"
    assert editor.engine.read("asked") == []


@pytest.mark.parametrize(
    "selected",
    [
        item(3, 5, "for x in y:\n    pass"),
        item(0, 2, "path"),
    ],
)
async def test_nothing_where_no_suggestion_can_go_on_from_it(
    connect: Connect, selected: types.SelectedCompletionInfo
) -> None:
    editor = await connect({"otherwise": {"text": "x"}}, text="os.pa\nab")
    assert await shown(editor, 5, selected) == []
    assert editor.engine.read("asked") == []
    assert (await editor.command("explain"))["reason"] == "selectedItem"


@pytest.mark.parametrize("own", [True, False])
async def test_with_alternatives_each_begins_with_it(connect: Connect, own: bool) -> None:
    draws = [{"text": "rent", "logprobs": [-0.5]}, {"text": "th.exists(a)", "logprobs": [-1.0]}]
    answer: dict[str, Any] = {"text": "th.join(a)", "draws": draws}
    if not own:
        answer = {"text": "x", "leads": {"th": answer}}
    editor = await connect({"answers": {"os.pa": answer}}, text="os.pa")
    found = await editor.items(0, 5, by_hand=True, selected=item(3, 5, "path"))
    assert [one["text"] for one in suggestions(found)] == ["path.join(a)", "path.exists(a)"]
