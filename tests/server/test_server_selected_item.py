"""Suggestions while an item of the editor's completion menu is selected: they go on from it."""

from __future__ import annotations

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import Editor, capabilities, suggestions, until


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
    ("line", "character", "selected", "asked", "found"),
    [
        ("os.pa", 5, item(3, 5, "path"), "os.path", ("path.join(a)", 3, 5)),
        ("os.Pa()", 5, item(3, 5, "path"), "os.path", ("path.join(a)", 3, 5)),
        ("os.path", 5, item(3, 7, "path"), "os.path", ("path.join(a)", 3, 7)),
        ("😀 os.pa", 8, item(6, 8, "path"), "😀 os.path", ("path.join(a)", 6, 8)),
        ("os.", 3, item(3, 3, "path"), "os.path", ("path.join(a)", 3, 3)),
    ],
)
async def test_the_model_is_asked_as_if_the_item_stood_there(
    connect: Connect,
    line: str,
    character: int,
    selected: types.SelectedCompletionInfo,
    asked: str,
    found: tuple[str, int, int],
) -> None:
    """The reply begins with the item and replaces what the item would."""
    editor = await connect({"answers": {asked: {"text": ".join(a)"}}}, text=line)
    assert await shown(editor, character, selected) == [found]
    assert [entry["line"] for entry in editor.engine.read("asked")] == [asked]


async def test_another_item_gets_another_suggestion(connect: Connect) -> None:
    answers = {"os.path": {"text": ".join(a)"}, "os.pardir": {"text": " + b"}}
    editor = await connect({"answers": answers}, text="os.pa")
    assert await shown(editor, 5, item(3, 5, "path")) == [("path.join(a)", 3, 5)]
    assert await shown(editor, 5, item(3, 5, "pardir")) == [("pardir + b", 3, 5)]
    assert await shown(editor, 5, item(3, 5, "parent")) == []


async def test_accepted_in_the_menu_it_goes_on_from_memory_as_the_same_suggestion(connect: Connect) -> None:
    editor = await connect({"answers": {"os.path": {"text": ".join(a)"}}}, text="os.pa")
    (before,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "path")))
    editor.change((0, 3), (0, 5), "path")
    after = await editor.suggestion(0, 7)
    assert (after["id"], after["text"], after["source"]) == (before["id"], ".join(a)", "memory")
    assert len(editor.engine.read("asked")) == 1


async def test_it_is_followed_to_its_label(connect: Connect) -> None:
    """Accepted at once, with the letters that the item replaces."""
    answer = {"text": ".join(a)", "tokens": [".", "join", "(a)"], "logprobs": [-0.1, -2.0, -0.1]}
    editor = await connect({"answers": {"os.path": answer}}, text="os.Pa()")
    (suggestion,) = suggestions(await editor.items(0, 5, selected=item(3, 5, "path")))
    doubt = suggestion["doubt"]
    assert suggestion["text"][doubt["start"] : doubt["end"]] == "join"
    editor.change((0, 3), (0, 5), suggestion["text"])
    await until(editor.pushed, "a diagnostic")
    assert await editor.saved() == {suggestion["id"]: "kept"}


@pytest.mark.parametrize(
    "selected",
    [
        item(3, 5, "for x in y:\n    pass"),
        item(0, 2, "a", line=1),
        item(3, 0, "path", last=1),
        item(0, 2, "path"),
    ],
    ids=["several lines", "another line", "over lines", "another place"],
)
async def test_nothing_where_no_suggestion_can_go_on_from_it(
    connect: Connect, selected: types.SelectedCompletionInfo
) -> None:
    editor = await connect({"otherwise": {"text": "x"}}, text="os.pa\nab")
    assert await shown(editor, 5, selected) == []
    assert editor.engine.read("asked") == []
    assert (await editor.command("explain"))["reason"] == "selectedItem"


async def test_with_alternatives_each_begins_with_it(connect: Connect) -> None:
    draws = [{"text": ".exists(a)", "logprobs": [-1.0]}]
    editor = await connect({"answers": {"os.path": {"text": ".join(a)", "draws": draws}}}, text="os.pa")
    found = await editor.items(0, 5, by_hand=True, selected=item(3, 5, "path"))
    assert [one["text"] for one in suggestions(found)] == ["path.join(a)", "path.exists(a)"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_in_all_position_encodings(connect: Connect, encoding: str) -> None:
    editor = await connect(
        {"answers": {"é😀.path": {"text": ".x"}}}, client=capabilities(inline=True, encodings=[encoding])
    )
    editor.open("é😀.pa")
    start = {"utf-8": 7, "utf-16": 4, "utf-32": 3}[encoding]
    assert await shown(editor, start + 2, item(start, start + 2, "path")) == [("path.x", start, start + 2)]
