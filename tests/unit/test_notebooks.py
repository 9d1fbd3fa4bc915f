"""The text around a cell is the code of its notebook."""

from __future__ import annotations

from lsprotocol import types

from lsp_calib.server.documents import CalibDocument, CalibWorkspace, cursor_at

BOOK = "file:///project/book.ipynb"


def cell_uri(n: int) -> str:
    return f"vscode-notebook-cell:/project/book.ipynb#{n}"


def opened(texts: list[str], *, markup: tuple[int, ...] = ()) -> CalibWorkspace:
    workspace = CalibWorkspace(None, types.TextDocumentSyncKind.Incremental)
    kinds = types.NotebookCellKind
    cells = [
        types.NotebookCell(kinds.Markup if n in markup else kinds.Code, cell_uri(n))
        for n in range(len(texts))
    ]
    items = [types.TextDocumentItem(cell_uri(n), "python", 1, text) for n, text in enumerate(texts)]
    book = types.NotebookDocument(BOOK, "jupyter-notebook", 1, cells)
    workspace.put_notebook_document(types.DidOpenNotebookDocumentParams(book, items))
    return workspace


def document(workspace: CalibWorkspace, n: int) -> CalibDocument:
    found = workspace.text_documents[cell_uri(n)]
    assert isinstance(found, CalibDocument)
    return found


def type_in(workspace: CalibWorkspace, n: int, text: str) -> None:
    place = types.Position(0, 0)
    change = types.TextDocumentContentChangePartial(types.Range(place, place), text)
    content = types.NotebookDocumentCellContentChanges(
        types.VersionedTextDocumentIdentifier(2, cell_uri(n)), [change]
    )
    workspace.update_notebook_document(
        types.DidChangeNotebookDocumentParams(
            types.VersionedNotebookDocumentIdentifier(2, BOOK),
            types.NotebookDocumentChangeEvent(
                cells=types.NotebookDocumentCellChanges(text_content=[content])
            ),
        )
    )


def test_the_cursor_of_a_cell_is_that_of_its_place_in_the_joined_text() -> None:
    texts = ["a = 1\n", "# A title", "b = 2", "c = 3\nd = 4"]
    workspace = opened(texts, markup=(1,))
    cursor = cursor_at(document(workspace, 3), types.Position(1, 2))
    assert list(cursor.lines) == ["a = 1", "", "", "b = 2", "", "c = 3", "d = 4"]
    assert (cursor.line, cursor.own_line, cursor.before) == (6, 1, "d ")
    alone = cursor_at(document(workspace, 1), types.Position(0, 2))
    assert (list(alone.lines), alone.line, alone.first) == (["# A title"], 0, 0)


def test_a_key_in_a_cell_changes_the_text_of_the_others_and_what_stays_is_the_same_object() -> None:
    workspace = opened([f"value_{n} = {n}\n%time f({n})" for n in range(20)])
    cell, other = document(workspace, 10), document(workspace, 11)
    before = cursor_at(cell, types.Position(0, 0)).lines
    type_in(workspace, 10, "x")
    after = cursor_at(cell, types.Position(0, 1)).lines
    assert after is cursor_at(cell, types.Position(0, 0)).lines
    assert "xvalue_10 = 10" in cursor_at(other, types.Position(0, 0)).lines
    assert sum(one is not same for one, same in zip(before, after, strict=True)) <= 2


def test_a_closed_notebook_leaves_nothing() -> None:
    workspace = opened(["a = 1", "b = 2"])
    first = types.TextDocumentIdentifier(cell_uri(0))
    params = types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(BOOK), [first])
    workspace.remove_notebook_document(params)
    assert [one.uri for one in params.cell_text_documents] == [cell_uri(0), cell_uri(1)]
    assert not workspace.text_documents
    assert not workspace.notebook_documents
