"""Cells of notebooks: each sees the code around it, and has its own suggestions, labels, marks and hovers."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Connect
from lsprotocol import types
from scripted_editor import Editor, Notebook, capabilities, until

SCORE = "def weighted_harmonic_score(values, weights):\n    return sum(weights) / sum(values)\n"
USE = "values, weights = [1, 2], [3, 4]\nscore = weighted_h"
LAST = "print(score)\n"
TYPED = "score = weighted_h"
FIM = {
    "layout": "fim",
    "fim_prefix": "<P>",
    "fim_suffix": "<S>",
    "fim_middle": "<M>",
    "file": "<F>",
    "project": "<N>",
}
REST = {"text": "armonic_score(values, weights)", "logprobs": [-0.01, -0.3]}
SCRIPT: dict[str, Any] = {
    "answers": {TYPED: REST},
    "otherwise": {"text": "x"},
    "summary": {"text": "Scores."},
}


async def begin(
    connect: Connect, script: dict[str, Any] | None = None, options: Any = None, **more: Any
) -> Editor:
    client = capabilities(inline=True, notebooks=True, **more)
    return await connect({**SCRIPT, **(script or {})}, client=client, options=options)


async def prompt(editor: Editor, line: int, character: int, uri: str) -> str:
    """What the model is shown for a request."""
    before = len(editor.engine.read("asked"))
    await editor.inline(line, character, uri)
    return str((await editor.engine.until("asked", before + 1))[before]["prompt"])


@pytest.mark.parametrize("size", ["small", "large"])
async def test_a_cell_is_shown_to_the_model_as_its_place_in_one_file(connect: Connect, size: str) -> None:
    """The code cells of its language, joined with empty lines; no text, no other language."""
    editor = await begin(connect, {"format": FIM}, {"window": size})
    book = Notebook(editor, {"text": "# Scores", "a": SCORE, "b": USE, "c": LAST})
    book.put(2, "sql", "select *", language="sql")
    shown = await prompt(editor, 1, len(TYPED), book.cell_uri("b"))
    file = "file:///project/book.py"
    editor.open("\n\n".join((SCORE, USE, LAST)), file)
    line = (SCORE + "\n\n").count("\n") + 1
    assert "def weighted_harmonic_score" in shown
    assert shown == await prompt(editor, line, len(TYPED), file)


async def test_a_suggestion_in_a_cell_has_the_cells_position(connect: Connect) -> None:
    editor = await begin(connect)
    book = Notebook(editor, {"a": SCORE, "b": USE, "c": LAST})
    (item,) = await editor.items(1, len(TYPED), book.cell_uri("b"))
    assert item.insert_text == REST["text"]
    assert item.range == types.Range(types.Position(1, len(TYPED)), types.Position(1, len(TYPED)))
    menu = await editor.menu(1, len(TYPED), book.cell_uri("b"))
    edit = menu.items[0].text_edit
    assert isinstance(edit, types.TextEdit)
    assert (edit.range.start.line, edit.range.end.line) == (1, 1)


async def test_cells_that_are_put_in_moved_and_removed(connect: Connect) -> None:
    """What stands above a cell is what the user sees above it."""
    editor = await begin(connect)
    book = Notebook(editor, {"a": "a = 1", "b": "b = 2", "c": "c = "})
    uri = book.cell_uri("c")
    assert await prompt(editor, 0, 4, uri) == "a = 1\n\nb = 2\n\nc = "
    book.put(1, "n", "n = 0")
    assert await prompt(editor, 0, 4, uri) == "a = 1\n\nn = 0\n\nb = 2\n\nc = "
    book.move("b", 0)
    assert await prompt(editor, 0, 4, uri) == "b = 2\n\na = 1\n\nn = 0\n\nc = "
    book.remove("a")
    assert await prompt(editor, 0, 4, uri) == "b = 2\n\nn = 0\n\nc = "
    book.move("c", 0)
    assert await prompt(editor, 0, 4, uri) == "c = "
    book.move("c", 2)
    # As VS Code says that the language of a cell changes.
    book.remove("n")
    book.put(1, "n", "n = 0", language="sql")
    book.run("b", 3)
    assert await prompt(editor, 0, 4, uri) == "b = 2\n\nc = "
    # As another client may say it: closed and opened in one message.
    book.languages["n"] = "python"
    structure = types.NotebookDocumentCellChangeStructure(
        types.NotebookCellArrayChange(1, 1, [book.cell("n")]),
        did_open=[book._item("n", "n = 1")],
        did_close=[types.TextDocumentIdentifier(book.cell_uri("n"))],
    )
    book._send(types.NotebookDocumentCellChanges(structure=structure))
    assert await prompt(editor, 0, 4, uri) == "b = 2\n\nn = 1\n\nc = "


async def test_a_cell_of_text_and_clients_that_know_of_no_notebooks(connect: Connect) -> None:
    """They stand alone, as before."""
    editor = await begin(connect)
    book = Notebook(editor, {"a": "a = 1", "text": "b = "})
    await editor.inline(0, 4, book.cell_uri("text"), by_hand=True)
    assert (await editor.engine.until("asked"))[0]["prompt"] == "b = "
    uris = [f"vscode-notebook-cell:/project/other.ipynb#W{n}" for n in range(2)]
    for uri in uris:
        editor.open("c = ", uri)
    assert await prompt(editor, 0, 4, uris[1]) == "c = "


async def test_what_is_undone_in_a_later_cell_does_not_come_back(connect: Connect) -> None:
    client = capabilities(inline=True, notebooks=True)
    options = {"prefetch": {"enabled": False}}
    editor = await connect({"otherwise": {"text": "xyz"}}, client=client, options=options)
    book = Notebook(editor, {"a": "import os\nimport sys\n", "b": "a = \nb = 1\n"})
    uri = book.cell_uri("b")
    assert await editor.items(0, 4, uri)
    book.insert("b", 0, 4, "xyz")
    book.change("b", (0, 4), (0, 7), "")
    again = await editor.inline(0, 4, uri)
    assert again is None or not again.items


async def test_a_mark_stands_in_its_cell(connect: Connect) -> None:
    """At the cell's own lines, which those of other cells do not move; it goes with the cell."""
    editor = await begin(connect, edits=True)
    book = Notebook(editor, {"a": SCORE, "b": USE, "c": LAST})
    uri = book.cell_uri("b")
    seen = await editor.suggestion(1, len(TYPED), uri)
    book.insert("b", 1, len(TYPED), REST["text"])
    await editor.status()
    (mark,) = editor.pushed(uri)
    assert (mark.range.start.line, mark.data) == (1, {"id": seen["id"]})
    book.insert("a", 0, 0, "import math\n")
    book.insert("b", 0, 0, "# here\n")
    await editor.status()
    (mark,) = editor.pushed(uri)
    assert mark.range.start.line == 2
    actions = await editor.actions(2, 4, uri, types.CodeActionContext([mark]))
    assert "Mark suggestion as reviewed" in actions
    book.remove("b")
    await editor.status()
    assert set(editor.client.diagnostics) == {uri}
    assert editor.pushed(uri) == []


async def test_marks_are_pulled_for_a_cell(connect: Connect) -> None:
    editor = await begin(connect, pull=True)
    book = Notebook(editor, {"a": SCORE, "b": USE})
    uri = book.cell_uri("b")
    await editor.suggestion(1, len(TYPED), uri)
    book.insert("b", 1, len(TYPED), REST["text"])
    assert [one.range.start.line for one in await editor.pull(uri)] == [1]
    assert await editor.pull(book.cell_uri("a")) == []


async def test_the_hover_knows_a_function_of_another_cell(connect: Connect) -> None:
    """Over a call and over the definition, with one summary. The kernel's commands do not hide it."""
    editor = await begin(connect)
    magic = "%matplotlib inline\n!pip install 'scores\ndf.head?\n"
    use = "total = weighted_harmonic_score([1], [2])\n"
    book = Notebook(editor, {"a": magic + SCORE, "sh": "%%bash\necho 'it is (\n", "b": use})
    hover = await editor.hover(0, 12, book.cell_uri("b"))
    assert hover is not None
    assert hover.range == types.Range(types.Position(0, 8), types.Position(0, 31))
    assert isinstance(hover.contents, types.MarkupContent)
    assert "Scores" in hover.contents.value
    defined = await editor.hover(3, 6, book.cell_uri("a"))
    assert defined is not None
    assert defined.range is not None
    assert defined.range.start.line == 3
    assert len([one for one in editor.engine.read("asked") if one["summary"]]) == 1
    # Two of one name: only the kernel knows which is meant.
    book.put(3, "d", SCORE)
    assert await editor.hover(0, 12, book.cell_uri("b")) is None


async def test_a_summary_goes_into_its_own_cell(connect: Connect) -> None:
    editor = await begin(connect, edits=True)
    book = Notebook(editor, {"z": "import math\n\n", "a": SCORE})
    asked: list[types.ApplyWorkspaceEditParams] = []

    @editor.client.feature(types.WORKSPACE_APPLY_EDIT)
    def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        asked.append(params)
        return types.ApplyWorkspaceEditResult(applied=True)

    uri = book.cell_uri("a")
    assert "Insert summary as docstring" in await editor.actions(0, 6, uri)
    await editor.command("insertSummary", {"uri": uri, "position": {"line": 0, "character": 6}})
    (change,) = asked[0].edit.document_changes or ()
    assert isinstance(change, types.TextDocumentEdit)
    assert change.text_document.uri == uri
    assert change.edits[0].range.start.line == 1  # type: ignore[union-attr]


async def test_a_notebook_with_a_secret_name_is_not_shown_to_the_model(connect: Connect) -> None:
    """Whatever a client calls its cells."""
    editor = await begin(connect)
    book = Notebook(editor, {"a": "a = "}, "file:///project/id_rsa")
    book.cell_uri = lambda name: f"cell:{name}"  # type: ignore[method-assign]
    book.put(1, "b", "b = ")
    assert await editor.inline(0, 4, "cell:b") is None
    assert (await editor.command("explain", {"uri": "cell:b"}))["reason"] == "secret"


async def test_messages_about_what_is_not_open(connect: Connect) -> None:
    """They are ignored, and what comes with them counts."""
    editor = await begin(connect)
    book = Notebook(editor, {"a": "a = "})
    for uri in ("file:///project/never.ipynb", book.uri):
        span = types.Range(types.Position(0, 0), types.Position(0, 0))
        changes = [
            types.NotebookDocumentCellContentChanges(
                types.VersionedTextDocumentIdentifier(2, name),
                [types.TextDocumentContentChangePartial(span, "b = 1\n")],
            )
            for name in ("cell:unknown", book.cell_uri("a"))
        ]
        editor.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(2, uri),
                types.NotebookDocumentChangeEvent(
                    cells=types.NotebookDocumentCellChanges(text_content=changes)
                ),
            )
        )
    assert await prompt(editor, 1, 4, book.cell_uri("a")) == "b = 1\na = "


async def test_the_server_offers_notebooks_to_clients_that_have_them(connect: Connect) -> None:
    editor = await begin(connect)
    offered = editor.server.notebook_document_sync
    assert isinstance(offered, types.NotebookDocumentSyncOptions)
    assert offered.save
    await until(lambda: editor.client.complaints == [], "no complaint")
