"""How far a line can be trusted: `sure` on the wire, in what is typed along, in a menu, and the setting."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import Editor, capabilities, install_curve, suggestions, until

# The whole line: exp(-0.5) = 0.61, review. Without an error the first three tokens are likelier.
SCRIPT: dict[str, Any] = {
    "answers": {
        "x = ": {
            "text": "alpha(beta)",
            "tokens": ["alpha", "(", "beta", ")"],
            "logprobs": [-0.01, -0.01, -1.97, -0.01],
            "entropies": [0.1, 0.1, 2.0, 0.1],
        },
        "y = ": {
            "text": "gamma",
            "tokens": ["gamma"],
            "logprobs": [-0.01],
            "entropies": [0.1],
        },
        "z = f(": {
            "text": "alpha, beta):",
            "tokens": ["alpha", ", beta", ")", ":"],
            "logprobs": [-0.01, -0.01, -0.01, -1.97],
            "entropies": [0.1, 0.1, 0.1, 2.0],
        },
    }
}
TEXT = "x = \ny = \nz = f()\n"


@pytest.fixture
async def editor(connect: Connect, tmp_path: Path, request: pytest.FixtureRequest) -> Editor:
    options = getattr(request, "param", {})
    install_curve(tmp_path / "home")
    return await connect(SCRIPT, options=options, text=TEXT)


async def test_the_part_that_can_be_trusted_is_on_the_wire(editor: Editor) -> None:
    suggestion = await editor.suggestion(0, 4)
    assert suggestion["tier"] == "review"
    whole, begins = math.exp(-0.5), math.exp(-0.02)
    assert suggestion["sure"] == {"end": 6, "confidence": pytest.approx(whole + (1 - whole) * begins)}
    assert suggestion["reason"].endswith("; sure up to `(`")


async def test_a_mark_on_the_inserted_line_says_what_was_on_the_screen(editor: Editor) -> None:
    """Not how far the line could be trusted before its beginning was typed."""
    assert "sure up to `(`" in (await editor.suggestion(0, 4))["reason"]
    editor.insert(0, 4, "alpha(")
    rest = await editor.suggestion(0, 10)
    editor.insert(0, 10, rest["text"])
    await until(editor.pushed, "a mark on the line")
    (mark,) = editor.pushed()
    assert mark.message == f"Read it first: {rest['reason']}"
    assert "sure up to" not in mark.message


@pytest.mark.parametrize("editor", [{"sure": "off"}], indirect=True)
async def test_off_says_nothing_of_it(editor: Editor) -> None:
    suggestion = await editor.suggestion(0, 4)
    assert (suggestion["text"], suggestion["sure"]) == ("alpha(beta)", None)
    assert "sure up to" not in suggestion["reason"]


@pytest.mark.parametrize("editor", [{"sure": "cut"}], indirect=True)
async def test_cut_offers_the_part_alone_and_follows_the_whole_line(editor: Editor) -> None:
    """The label is of the line that was predicted; whether it begins so is kept beside it."""
    suggestion = await editor.suggestion(0, 4)
    assert (suggestion["text"], suggestion["tier"]) == ("alpha(", "accept")
    assert suggestion["sure"] is None, "the part is all that is offered"
    editor.insert(0, 4, "alpha(")
    editor.insert(0, 10, "other)")
    await editor.saved()
    ((how, correct, data),) = editor.rows(
        "SELECT l.how, l.correct, e.data FROM labels l JOIN events e USING (suggestion_id) "
        "WHERE e.kind = 'provisional'"
    )
    assert (how, correct, json.loads(data)) == ("taken in part", 0, {"sureRight": True})
    (stored,) = editor.rows("SELECT data FROM events WHERE kind = 'shown'")
    assert json.loads(stored[0])["sureConfidence"] == suggestion["confidence"]


@pytest.mark.parametrize("editor", [{"sure": "cut"}], indirect=True)
async def test_cut_replaces_what_the_selected_item_of_a_menu_replaces(editor: Editor) -> None:
    place = types.Range(types.Position(0, 2), types.Position(0, 4))
    (item,) = await editor.items(0, 4, selected=types.SelectedCompletionInfo(place, "= alpha"))
    assert (item.insert_text, item.range) == ("= alpha(", place)


@pytest.mark.parametrize("editor", [{"sure": "cut"}], indirect=True)
async def test_where_less_than_the_selected_item_can_be_trusted_it_is_the_whole_line(editor: Editor) -> None:
    place = types.Range(types.Position(0, 4), types.Position(0, 4))
    (item,) = await editor.items(0, 4, selected=types.SelectedCompletionInfo(place, "alpha(beta"))
    assert (item.insert_text, item.range) == ("alpha(beta)", place)
    (suggestion,) = suggestions([item])
    assert suggestion["confidence"] == pytest.approx(math.exp(-2.0 / 4))


async def test_a_menu_offers_the_part_before_closers_with_its_own_probability(
    connect: Connect, tmp_path: Path
) -> None:
    install_curve(tmp_path / "home")
    editor = await connect(SCRIPT, client=capabilities(), text=TEXT)
    (item,) = (await editor.menu(2, 6)).items
    assert isinstance(item.data, dict)
    assert item.data["text"] == "alpha, beta"
    whole, begins = math.exp(-0.5), math.exp(-0.02)
    assert item.data["confidence"] == pytest.approx(whole + (1 - whole) * begins)
    assert item.data["tier"] == "accept"
