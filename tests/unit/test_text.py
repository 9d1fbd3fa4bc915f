"""Documents stored as lines equal those of the client; the text around a cell is the code of its notebook."""

from __future__ import annotations

import re
import sys
import time
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from lsp_calib.server.documents import CalibCodec, CalibDocument, CalibWorkspace, cursor_at

# Few characters, so that line ends of all kinds meet often; one outside the BMP, one foreign line end.
TEXTS = st.text(alphabet="ab\r\n\u2028😀", max_size=12)
_END = re.compile(r"\r\n|\n|\r")


def document(text: str) -> CalibDocument:
    return CalibDocument("untitled:one", source=text, version=1, position_codec=CalibCodec())


def change(text: str, start: tuple[int, int], end: tuple[int, int]) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(
        range=types.Range(types.Position(*start), types.Position(*end)), text=text
    )


@given(text=TEXTS)
def test_lines_end_where_lsp_says(text: str) -> None:
    assert document(text).bare_lines == tuple(_END.split(text))
    assert document(text).source == text


@given(text=TEXTS, edits=st.lists(st.tuples(st.data(), TEXTS), max_size=5))
def test_changes_give_the_text_the_client_has(text: str, edits: list) -> None:  # type: ignore[type-arg]
    """The client's side is a string and two offsets; the server's is ranges in UTF-16 units."""
    kept = document(text)
    units = PositionCodec()
    for data, new in edits:
        ends = [0, *(match.end() for match in _END.finditer(text))]
        # An offset between \r and \n is in no line: no client sends it.
        offsets = [at for at in range(len(text) + 1) if text[at - 1 : at + 1] != "\r\n" or at == 0]
        start = data.draw(st.sampled_from(offsets))
        end = data.draw(st.sampled_from([at for at in offsets if at >= start]))

        def place(offset: int, ends: list[int] = ends, text: str = text) -> tuple[int, int]:
            line = max(at for at, begin in enumerate(ends) if begin <= offset)
            return line, units.client_num_units(text[ends[line] : offset])

        kept.apply_change(change(new, place(start), place(end)))
        text = text[:start] + new + text[end:]
        assert kept.bare_lines == tuple(_END.split(text))
        assert kept.source == text


def test_a_change_leaves_the_other_lines_the_same_objects() -> None:
    kept = document("".join(f"line {n}\n" for n in range(100)))
    before = kept.bare_lines
    kept.apply_change(change("x", (50, 0), (50, 0)))
    after = kept.bare_lines
    assert after[50] == "xline 50"
    assert sum(old is new for old, new in zip(before, after, strict=True)) >= 98


def test_each_line_is_held_once() -> None:
    tracemalloc.start()
    try:
        kept = document("".join(f"line {n} of a document\n" for n in range(20_000)))
        held = sum(map(sys.getsizeof, kept.bare_lines))
        kept.apply_change(change("x", (50, 0), (50, 0)))
        assert kept.bare_lines
        assert held < tracemalloc.get_traced_memory()[0] < 1.6 * held
    finally:
        tracemalloc.stop()


def test_a_whole_new_text_takes_the_place_of_the_old() -> None:
    kept = document("a\nb")
    assert kept.bare_lines == ("a", "b")
    kept.apply_change(types.TextDocumentContentChangeWholeDocument("c\n"))
    assert kept.bare_lines == ("c", "")
    assert kept.source == "c\n"


@given(
    line=st.text(alphabet="ab😀é", max_size=6),
    character=st.integers(0, 20),
    encoding=st.sampled_from(list(types.PositionEncodingKind)),
)
def test_a_position_is_the_character_that_it_leads_to(
    line: str, character: int, encoding: types.PositionEncodingKind
) -> None:
    """By counting units from the line's start: the first character that begins there or after it."""
    codec, units = CalibCodec(encoding), PositionCodec(encoding)
    begins = [units.client_num_units(line[:at]) for at in range(len(line) + 1)]
    found = codec.position_from_client_units([line], types.Position(0, character))
    reached = next((at for at, begin in enumerate(begins) if begin >= character), len(line))
    assert found.character == reached
    assert codec.client_num_units(line) == begins[-1]


def test_a_line_of_a_megabyte_is_not_counted_character_by_character() -> None:
    """As in minified scripts and data, where a key took a second; a twentieth of pygls' time is still ten
    times what it takes."""
    lines, position = ["x" * 1_000_000], types.Position(0, 999_999)

    def seconds(codec: PositionCodec) -> float:
        start = time.process_time()
        assert codec.position_from_client_units(lines, position).character == 999_999
        return time.process_time() - start

    assert min(seconds(CalibCodec()) for _ in range(5)) < min(seconds(PositionCodec()) for _ in range(2)) / 20


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


def cell(workspace: CalibWorkspace, n: int) -> CalibDocument:
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
    cursor = cursor_at(cell(workspace, 3), types.Position(1, 2))
    assert list(cursor.lines) == ["a = 1", "", "", "b = 2", "", "c = 3", "d = 4"]
    assert (cursor.line, cursor.own_line, cursor.before) == (6, 1, "d ")
    alone = cursor_at(cell(workspace, 1), types.Position(0, 2))
    assert (list(alone.lines), alone.line, alone.first) == (["# A title"], 0, 0)


def test_a_key_in_a_cell_changes_the_text_of_the_others_and_what_stays_is_the_same_object() -> None:
    workspace = opened([f"value_{n} = {n}\n%time f({n})" for n in range(20)])
    one, other = cell(workspace, 10), cell(workspace, 11)
    before = cursor_at(one, types.Position(0, 0)).lines
    type_in(workspace, 10, "x")
    after = cursor_at(one, types.Position(0, 1)).lines
    assert after is cursor_at(one, types.Position(0, 0)).lines
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
