"""The change that was made by hand in one line, offered where it probably belongs next."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from scripted_editor import PATIENCE, URI, Editor, Notebook, capabilities

from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.edits.offers import shipped_curve
from lsp_calib.home import private_folder

OTHER = "file:///project/other.py"
# The same word in the same surroundings.
TEXT = """\
class Box:
    def area(self):
        return self.size * self.size

    def grow(self):
        self.size = self.size + 1

    def shrink(self):
        self.size = self.size - 1

    def show(self):
        print(self.size)
"""
LINES = TEXT.split("\n")


def install(home: Path, intercept: float) -> None:
    """A calibrator of the user's: places are so many nats likelier than the shipped curve says."""
    curve = shipped_curve()
    assert curve is not None
    private_folder(home)
    calibrator = Calibrator(
        purpose=curve.purpose,
        curves=(Curve.of_measure("total", 1.0, intercept),),
        raw_measure="total",
        n=1000,
        n_correct=500,
        source="personal",
        state="ready",
        created="2026-01-01",
    )
    CalibratorStore(home / "calibrators", home / "none").promote(calibrator)


@pytest.fixture
def script(tmp_path: Path) -> dict[str, Any]:
    """A clock that only the test moves; edits are complete once the cursor leaves their line. Places are
    likely, whatever the shipped curve says."""
    install(tmp_path / "home", 8.0)
    return {"clock": True, "edit": 3600.0}


async def next_edit(
    editor: Editor, line: int = 3, character: int = 0, uri: str = URI
) -> dict[str, Any] | None:
    """What is offered with the cursor there, by default in a line of which nothing is changed."""
    position = {"line": line, "character": character}
    sent = {"textDocument": {"uri": uri}, "position": position}
    answer = await editor.client.protocol.send_request_async("lsp-calib/nextEdit", sent)
    return None if answer is None else dict(_plain(answer))


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {key: _plain(one) for key, one in value._asdict().items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def rename(
    editor: Editor, line: int, character: int, new: str = "width", uri: str = URI, old: int = 4
) -> None:
    """Type another word, letter by letter."""
    editor.change((line, character), (line, character + old), new[0], uri)
    for at, letter in enumerate(new[1:], character + 1):
        editor.insert(line, at, letter, uri)


def place_of(edit: dict[str, Any] | None) -> tuple[int, int, int]:
    assert edit is not None
    span = edit["range"]
    assert span["start"]["line"] == span["end"]["line"]
    return span["start"]["line"], span["start"]["character"], span["end"]["character"]


def apply(editor: Editor, edit: dict[str, Any] | None) -> dict[str, Any]:
    """Put an edit into its document, with one message."""
    line, start, end = place_of(edit)
    assert edit is not None
    editor.change((line, start), (line, end), edit["text"], edit["uri"])
    return edit


async def renamed_twice(editor: Editor) -> dict[str, Any]:
    """Both words of the first line; what is offered then."""
    rename(editor, 2, 20)
    editor.cursor(3, 0)
    rename(editor, 2, 33)
    found = await next_edit(editor)
    assert found is not None
    return found


def action_text(action: types.CodeAction, text: str = TEXT, uri: str = URI) -> str:
    """A document with the edits of a code action."""
    assert action.edit is not None
    lines = text.split("\n")
    for change in action.edit.document_changes or ():
        assert isinstance(change, types.TextDocumentEdit)
        edits: Sequence[Any] = change.edits if change.text_document.uri == uri else ()
        for one in sorted(edits, key=lambda one: -one.range.start.character):
            line = one.range.start.line
            start, end = one.range.start.character, one.range.end.character
            lines[line] = lines[line][:start] + one.new_text + lines[line][end:]
    return "\n".join(lines)


async def test_the_third_place_of_a_rename_is_offered(connect: Connect, script: dict[str, Any]) -> None:
    """With all that a suggestion has, under one id until the state changes; the next one after it."""
    editor = await connect(script, text=TEXT)
    assert editor.server.experimental["lspCalib"]["nextEdit"] is True
    assert await next_edit(editor) is None
    first = await renamed_twice(editor)
    assert place_of(first)[0] == 5
    assert (first["uri"], first["kind"], first["text"]) == (URI, "edit", "width")
    assert first["confidence"] >= 0.5
    assert "2 times so far" in first["reason"]
    assert (await next_edit(editor))["id"] == first["id"]  # type: ignore[index]
    places = [place_of(apply(editor, first))]
    while (found := await next_edit(editor)) is not None:
        places.append(place_of(apply(editor, found)))
    assert sorted(places) == [(5, 13, 17), (5, 26, 30), (8, 13, 17), (8, 26, 30), (11, 19, 23)]


async def test_positions_are_in_the_clients_units(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT.replace("print(self", "print('😀', self"))
    first = await renamed_twice(editor)
    found: dict[str, Any] | None = first
    while place_of(found)[0] != 11:
        apply(editor, found)
        found = await next_edit(editor)
    assert place_of(found) == (11, 25, 29)


async def test_an_edit_is_complete_after_a_second_without_a_key(
    connect: Connect, script: dict[str, Any]
) -> None:
    editor = await connect({**script, "edit": 0.01}, text=TEXT)
    editor.change((2, 20), (2, 24), "width")
    deadline = time.monotonic() + PATIENCE
    while await next_edit(editor, 2, 25) is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_rest_within_an_edit_does_not_divide_it(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect({**script, "edit": 0.01}, text=TEXT)
    for start, end, text in ((20, 24, "wi"), (22, 22, "dth")):
        editor.change((2, start), (2, end), text)
        await asyncio.sleep(0.2)
    assert (await next_edit(editor))["text"] == "width"  # type: ignore[index]


async def test_what_is_not_likely_enough_is_not_offered(connect: Connect, tmp_path: Path) -> None:
    install(tmp_path / "home", -8.0)
    editor = await connect({"edit": 3600.0}, text=TEXT)
    rename(editor, 2, 20)
    assert await next_edit(editor) is None
    absence = await editor.command("explain", {"uri": URI, "kind": "edit"})
    assert re.fullmatch(r"\d places, none likely enough: <?\d+ %\.", absence["message"])


async def test_while_the_line_is_changed_nothing_is_offered(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    rename(editor, 2, 20)
    assert await next_edit(editor, 2, 25) is None
    absence = await editor.command("explain", {"uri": URI, "kind": "edit"})
    assert "leaves its line" in absence["message"]
    editor.save()
    assert await next_edit(editor, 2, 25) is not None


async def test_undone_it_is_offered_no_more(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    rename(editor, 2, 20)
    assert await next_edit(editor) is not None
    editor.change((2, 20), (2, 25), "size")
    assert await next_edit(editor) is None
    absence = await editor.command("explain", {"uri": URI, "kind": "edit"})
    assert absence["message"].startswith("No edit was made")


async def test_most_of_the_lines_above_are_deleted(connect: Connect, script: dict[str, Any]) -> None:
    """The edit is known where it stands now."""
    editor = await connect(script, client=capabilities(inline=True, edits=True), text=TEXT)
    rename(editor, 8, 13)
    editor.cursor(9, 0)
    editor.change((0, 0), (7, 0), "")
    assert any("size" in title for title in await editor.actions(1, 13))


async def test_without_its_curve_it_says_so(
    connect: Connect, script: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lsp_calib.edits.offers.FILE", Path("edits", "none.json"))
    editor = await connect(script, text=TEXT)
    rename(editor, 2, 20)
    assert await next_edit(editor) is None
    absence = await editor.command("explain", {"uri": URI, "kind": "edit"})
    assert "cannot be read" in absence["message"]


async def test_what_nobody_has_typed_is_no_edit(connect: Connect, script: dict[str, Any]) -> None:
    """Pasted lines, a formatter's changes, what comes in many places at once, and accepted suggestions."""
    editor = await connect({**script, "otherwise": {"text": "width - 1", "logprobs": [-0.1]}}, text=TEXT)
    editor.change((8, 25), (8, 33), "")
    await editor.suggestion(8, 25)
    editor.insert(8, 25, "width - 1")
    assert await next_edit(editor, 0) is None
    editor.change((2, 0), (3, 0), LINES[2].replace("size", "width", 1) + "\n    # more\n")
    assert await next_edit(editor, 0) is None
    reason = types.TextDocumentSaveReason.Manual
    params = types.WillSaveTextDocumentParams(types.TextDocumentIdentifier(URI), reason)
    editor.client.text_document_will_save(params)
    editor.change((6, 13), (6, 17), "width")
    editor.save(reason=None)
    assert await next_edit(editor, 0) is None
    editor.changes([((line, 12), (line, 13), "_") for line in (6, 9)])
    assert await next_edit(editor, 0) is None
    absence = await editor.command("explain", {"uri": URI, "kind": "edit"})
    assert absence["message"].startswith("No edit was made")


async def test_a_change_in_many_places_ends_what_was_offered(
    connect: Connect, script: dict[str, Any]
) -> None:
    """A rename, or several cursors: all of it is done."""
    editor = await connect(script, text=TEXT)
    await renamed_twice(editor)
    editor.changes([((line, 0), (line, 0), "#") for line in (5, 8)])
    assert await next_edit(editor) is None


async def test_a_name_that_is_changed_in_several_documents_is_no_edit(
    connect: Connect, script: dict[str, Any]
) -> None:
    """Where another server renames something, each document may have it in one line."""
    editor = await connect(script, text=TEXT)
    editor.open(TEXT, OTHER)
    for uri in (URI, OTHER):
        editor.change((11, 19), (11, 23), "width", uri)
    assert await next_edit(editor) is None
    await editor.later(1)
    editor.changes([((line, 13), (line, 17), "width") for line in (5, 8, 10)])
    editor.change((8, 13), (8, 17), "width", OTHER)
    assert await next_edit(editor) is None


async def test_a_cell_of_a_notebook_is_a_document(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, client=capabilities(inline=True, notebooks=True))
    line = "box.size = box.size + 1"
    notebook = Notebook(editor, {"one": line, "text": "the size", "two": line})
    notebook.change("one", (0, 4), (0, 8), "width")
    editor.cursor(0, 0, notebook.cell_uri("two"))
    notebook.change("one", (0, 16), (0, 20), "width")
    found = await next_edit(editor, 0, 0, notebook.cell_uri("text"))
    assert found is None
    found = await next_edit(editor, 0, 0, notebook.cell_uri("two"))
    assert place_of(found) == (0, 4, 8)
    assert found is not None
    assert found["uri"] == notebook.cell_uri("two")


async def test_other_documents_of_the_language(connect: Connect, script: dict[str, Any]) -> None:
    """Open, and neither excluded nor of another language."""
    editor = await connect(script, options={"exclude": ["secret/**"]}, text="self.size = self.size + 1\n")
    line = "self.size = self.size + 1\n"
    editor.open("// size\nself.size = self.size + 1\n", "file:///project/a.js", "javascript")
    editor.open(line, "file:///project/secret/b.py")
    rename(editor, 0, 5)
    editor.cursor(1, 0)
    rename(editor, 0, 18)
    assert await next_edit(editor, 1) is None
    editor.open(line, OTHER)
    found = await next_edit(editor, 1)
    assert found is not None
    assert found["uri"] == OTHER
    assert await next_edit(editor, 0, 0, "file:///project/a.js") is None
    # Complete once it goes on in another document.
    await editor.later(1)
    rename(editor, 0, 5, uri=OTHER)
    assert place_of(await next_edit(editor, 1)) == (0, 18, 22)


async def test_a_line_that_could_not_be_parsed_is_no_place(connect: Connect, script: dict[str, Any]) -> None:
    text = "x = [size]\ny = [size]\ndef size():\n    pass\n"
    editor = await connect(script, text=text)
    for line in (0, 1):
        rename(editor, line, 5, "3")
        editor.cursor(4, 0)
    assert await next_edit(editor, 4) is None
    absence = await editor.command("explain", {"uri": URI, "kind": "edit"})
    assert "parsed" in absence["message"]


async def test_code_actions_change_a_place_or_all(connect: Connect, script: dict[str, Any]) -> None:
    """At the line of the edit, and at a place: one step, with the version of the document."""
    client = capabilities(inline=True, edits=True)
    editor = await connect(script, client=client, text=TEXT)
    await renamed_twice(editor)
    now = TEXT.replace(LINES[2], LINES[2].replace("size", "width"))
    at_edit = await editor.actions(2, 12)
    (one,) = [title for title in at_edit if title.startswith("Change `size` to `width` in line")]
    assert "%" in one
    at_place = await editor.actions(5, 0)
    here = [title for title in at_place if "here too" in title]
    assert here
    assert not any("likely places" in title for title in await editor.actions(4, 0))
    changed = action_text(at_place[here[0]], now)
    assert changed.count("width") == 3
    sure = [title for title in at_edit if title.endswith("likely places")]
    assert sure
    whole = at_edit[sure[0]]
    n = int(sure[0].split()[2])
    assert action_text(whole, now).count("width") == 2 + n
    assert whole.command is not None
    assert whole.command.arguments is not None
    assert len(whole.command.arguments) == n
    assert whole.edit is not None
    (change,) = whole.edit.document_changes or ()
    assert isinstance(change, types.TextDocumentEdit)
    edits = [(one.range, one.new_text) for one in change.edits if isinstance(one, types.TextEdit)]
    editor.changes(
        [
            ((at.start.line, at.start.character), (at.end.line, at.end.character), new)
            for at, new in sorted(edits, key=lambda one: (-one[0].start.line, -one[0].start.character))
        ]
    )
    await editor.command("editApplied", *whole.command.arguments)
    labels = await editor.saved(n)
    assert {labels[one["id"]] for one in whole.command.arguments} == {"kept"}


async def test_turned_off_there_is_none(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, options={"nextEdit": {"enabled": False}}, text=TEXT)
    rename(editor, 2, 20)
    assert await next_edit(editor) is None
    absence = await editor.command("explain", {"uri": URI, "kind": "edit"})
    assert "nextEdit.enabled" in absence["message"]


async def test_a_dismissed_place_is_not_offered_again(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    first = await renamed_twice(editor)
    await editor.command("editDismissed", {"id": first["id"]})
    assert editor.labels() == {first["id"]: "ignored"}
    assert editor.rows("SELECT correct FROM labels") == [(0,)]
    second = await next_edit(editor)
    assert second is None or place_of(second) != place_of(first)


async def test_labels(connect: Connect, script: dict[str, Any]) -> None:
    """Applied and kept; applied and undone; made by hand; changed otherwise; left alone for ten minutes."""
    editor = await connect(script, text=TEXT)
    kept = apply(editor, await renamed_twice(editor))["id"]
    edit = apply(editor, await next_edit(editor))
    undone = edit["id"]
    line, start, _ = place_of(edit)
    editor.change((line, start), (line, start + 5), "size")
    found = await next_edit(editor)
    line, start, _ = place_of(found)
    assert found is not None
    typed = found["id"]
    rename(editor, line, start)
    found = await next_edit(editor)
    line, start, _ = place_of(found)
    assert found is not None
    otherwise = found["id"]
    rename(editor, line, start, "depth")
    await next_edit(editor)
    await editor.later(31)
    labels = await editor.settled(4)
    how = {kept: "kept", undone: "edited", typed: "typed", otherwise: "typed over"}
    assert {identity: labels[identity] for identity in how} == how
    rows = editor.rows("SELECT kind, language, model, place, prompt_version, features FROM suggestions")
    assert {row[:5] for row in rows} == {("edit", "any", "next-edit", "python", "edits-1")}
    assert all("repeats" in row[5] for row in rows)


async def test_a_place_that_is_passed_by_was_wrong(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    first = await renamed_twice(editor)
    await editor.later(2)
    assert place_of(first)[0] == 5
    rename(editor, 11, 19)
    await next_edit(editor)
    assert (await editor.settled())[first["id"]] == "ignored"


async def test_after_ten_minutes_it_is_over(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    first = await renamed_twice(editor)
    await editor.later(601)
    assert await next_edit(editor) is None
    assert await editor.settled() == {first["id"]: "ignored"}


async def test_lines_that_come_above_move_what_is_offered(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    first = await renamed_twice(editor)
    editor.insert(0, 0, "import os\nimport re\n")
    again = await next_edit(editor, 3)
    line, start, end = place_of(first)
    assert place_of(again) == (line + 2, start, end)
    assert again is not None
    assert again["id"] == first["id"]


async def test_nothing_is_kept_of_closed_documents(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    await renamed_twice(editor)
    editor.close()
    editor.open("x = 1\n", OTHER)
    assert await next_edit(editor, 0, 0, OTHER) is None
    editor.open(TEXT)
    assert await next_edit(editor) is None


async def test_a_place_must_be_named(connect: Connect, script: dict[str, Any]) -> None:
    editor = await connect(script, text=TEXT)
    with pytest.raises(JsonRpcInvalidParams):
        await editor.client.protocol.send_request_async("lsp-calib/nextEdit", {"textDocument": {}})
    assert await next_edit(editor, uri="file:///project/unknown.py") is None
