"""`textDocument/completion`: the menu, which is never delayed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from conftest import Connect
from lsprotocol import types
from scripted_editor import capabilities

OFFERED = {"answers": {"    return to": {"text": "tal(a) + b", "logprobs": [-0.01]}}}
TEXT = "def add(a, b):\n    return to  # sum\n"


async def test_a_quick_answer_is_in_the_first_menu(connect: Connect) -> None:
    """The menu waits a moment for the model. A busy machine may take longer than that now and then."""
    editor = await connect(OFFERED, text=TEXT)
    first = [await editor.complete(1, 13)]
    for tries in range(1, 30):
        if first[-1].items:
            break
        # Another name above, so that nothing is known of the place.
        editor.open(TEXT.replace("add", f"add{tries}"), uri=f"file:///quick{tries}.py")
        first.append(await editor.complete(1, 13, f"file:///quick{tries}.py"))
    assert first[-1].items, "never in the first answer"


async def test_the_item(connect: Connect) -> None:
    """It inserts a whole word, is sorted last, and has tier, probability, reason and suggestion object."""
    client = capabilities("visual_studio_code")  # an old one: it has no ghost text but label details
    assert client.text_document is not None
    assert client.text_document.completion is not None
    assert client.text_document.completion.completion_item is not None
    client.text_document.completion.completion_item.label_details_support = True
    editor = await connect(OFFERED, client=client, text=TEXT)
    answer = await editor.menu(1, 13)
    assert answer.is_incomplete
    (item,) = answer.items
    assert item.label == "total(a) + b"
    assert item.filter_text == "total(a) + b"
    assert item.text_edit == types.TextEdit(
        types.Range(types.Position(1, 11), types.Position(1, 13)), "total(a) + b"
    )
    assert item.label_details == types.CompletionItemLabelDetails(description="accept")
    assert item.detail == "99 %"
    assert isinstance(item.documentation, str)
    assert item.documentation.startswith("Usually used as it is: more than 99 % likely to be right")
    assert item.sort_text is not None
    assert item.sort_text > "zzzz\uffff"
    assert isinstance(item.data, dict)
    assert item.data["text"] == "tal(a) + b"
    assert item.data["tier"] == "accept"
    assert {"id", "rawConfidence", "calibrator", "timing"} <= set(item.data)


async def test_without_label_details_the_tier_is_in_the_detail(connect: Connect) -> None:
    """Helix, Emacs and others do not show `labelDetails`: nothing is sent that they did not declare."""
    editor = await connect(OFFERED, client=capabilities("helix"), text=TEXT)
    (item,) = (await editor.menu(1, 13)).items
    assert item.label_details is None
    assert item.detail == "accept · 99 %"
    assert item.label == "total(a) + b"


async def test_where_only_labels_are_drawn_the_mark_is_in_the_label(connect: Connect) -> None:
    """Helix's menu has no room for the detail. What is filtered by and inserted stays the text alone."""
    editor = await connect(OFFERED, client=capabilities("helix"), name="Helix", text=TEXT)
    (item,) = (await editor.menu(1, 13)).items
    badges = editor.server.experimental["lspCalib"]["badges"]  # type: ignore[index, call-overload]
    assert item.label == f"{badges['accept']['mark']} total(a) + b"
    assert item.filter_text == "total(a) + b"
    assert isinstance(item.text_edit, types.TextEdit)
    assert item.text_edit.new_text == "total(a) + b"
    assert item.detail == "accept · 99 %"


async def test_the_menu_does_not_wait_for_a_slow_model(connect: Connect, release: Path) -> None:
    """A completion that takes longer than 0.1 s comes with the next request; the model runs only once."""
    slow = {"text": "y", "heldUntil": str(release)}
    editor = await connect({"otherwise": slow}, client=capabilities(), text="x")
    await editor.engine.until("loading")
    await editor.status()
    before = time.monotonic()
    answer = await editor.complete(0, 1)
    waited = time.monotonic() - before
    assert not answer.items
    assert answer.is_incomplete  # or editors would not ask again
    # The model never answers; the margin is for a busy machine.
    assert 0.05 < waited < 1.5
    assert not (await editor.complete(0, 1)).items
    release.touch()
    await editor.engine.until("answered")
    (item,) = (await editor.menu(0, 1)).items
    assert item.label == "xy"
    assert len(editor.engine.read("asked")) == 1
    assert editor.engine.read("cancelled") == []


async def test_a_late_suggestion_is_still_learned_from(connect: Connect, release: Path) -> None:
    """In the store with its numbers and its label. It counts as shown when it is shown: not when it is made,
    and not again with each typed key that matches it."""
    editor = await connect(
        {"otherwise": {"text": "y + zz", "heldUntil": str(release)}}, client=capabilities(), text="x"
    )
    assert not (await editor.complete(0, 1)).items
    release.touch()
    await editor.engine.until("answered")
    assert (await editor.status())["tiers"] == {"accept": 0, "review": 0, "reject": 0}
    (item,) = (await editor.menu(0, 1)).items
    assert isinstance(item.data, dict)
    editor.insert(0, 1, "y")
    assert (await editor.menu(0, 2)).items
    assert (await editor.status())["tiers"] == {"accept": 1, "review": 0, "reject": 0}
    editor.insert(0, 2, " + zz")
    assert await editor.saved() == {item.data["id"]: "kept"}
    assert editor.rows("SELECT id, logprobs FROM suggestions") == [(item.data["id"], "[-0.05,-0.05,-0.05]")]


async def test_no_suggestion_is_an_empty_menu(connect: Connect) -> None:
    """Nothing to offer, a dying engine, no model: an empty list each time, and never an error."""
    death = {"text": "x", "error": ["EngineDiedError", "It ended."]}
    editor = await connect({"answers": {"b": death}}, client=capabilities(), text="a\nb\n")
    assert not (await editor.complete(0, 1)).items
    assert not (await editor.complete(1, 1)).items
    (item,) = (await editor.menu(1, 1)).items
    assert item.label == "bx"


async def test_menu_and_ghost_text_share_one_answer(connect: Connect, release: Path) -> None:
    """An editor that asks for both at one place costs the model one generation."""
    editor = await connect(
        {"otherwise": {"text": "x", "heldUntil": str(release)}},
        options={"completion": {"enabled": True}},
    )
    editor.open("a")
    ghost = asyncio.ensure_future(editor.suggestion(0, 1))
    menu = asyncio.ensure_future(editor.complete(0, 1))
    await editor.engine.until("asked")
    assert not (await menu).items
    release.touch()
    suggestion = await ghost
    (item,) = (await editor.menu(0, 1)).items
    assert isinstance(item.data, dict)
    assert item.data["id"] == suggestion["id"]
    assert len(editor.engine.read("asked")) == 1
