"""Which changes are not typing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from lsp_calib.feedback.events import By
from lsp_calib.server.documents import HELD_BACK, Documents
from lsp_calib.server.events import DocumentChanged, Events, SuggestionInserted
from lsp_calib.server.text import CalibCodec, CalibDocument

URI = "file:///a.py"


@attrs.define
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A document that is edited, and what is made of it."""

    def __init__(self, uri: str = URI) -> None:
        self.text, self.uri = "".join(f"line {n}\n" for n in range(20)), uri
        self.document = document(self.text, uri)
        self.clock = Clock()
        self.events = Events()
        connection: Any = SimpleNamespace(open_document=lambda _: self.document)
        self.bulk = Documents(connection, self.events, self.clock)

    def arrives(self, change: types.TextDocumentContentChangeEvent) -> None:
        self.document.apply_change(change)
        self.bulk.changed(URI)

    def pastes(self, lines: int) -> None:
        self.arrives(change((3, 0), (3, 0), "x\n" * lines))

    def change(self, *changes: tuple[tuple[int, int], tuple[int, int], str], after: float = 0.1) -> bool:
        """One message with these changes; whether the next request is held back."""
        self.clock.now += after
        for start, end, text in changes:
            self.document.apply_change(change(start, end, text))
        self.bulk.changed(self.uri)
        return self.bulk.holds_back(self.uri)


def document(text: str, uri: str = URI) -> CalibDocument:
    return CalibDocument(
        uri,
        source=text,
        version=1,
        language_id="python",
        sync_kind=types.TextDocumentSyncKind.Incremental,
        position_codec=CalibCodec(types.PositionEncodingKind.Utf32),
    )


def change(start: tuple[int, int], end: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(
        types.Range(types.Position(*start), types.Position(*end)), text
    )


def insert(line: int, column: int, text: str) -> tuple[tuple[int, int], tuple[int, int], str]:
    return (line, column), (line, column), text


@pytest.mark.parametrize(
    "changes",
    [
        [insert(3, 0, "x")],
        [insert(3, 6, "\n    ")],
        [insert(3, 0, "a long paste of one line")],
        [insert(3, 0, "1\n2\n3\n4\n")],
        [((3, 0), (7, 0), "")],
        [insert(3, 6, "a"), insert(3, 7, "b"), insert(3, 8, "c"), insert(3, 9, "\n"), insert(4, 0, "d")],
        [insert(0, 0, "import a\n"), insert(9, 0, "a")],
        *(
            [insert(line, 0, key) for line in range(0, 18, 2)]
            for key in ("x", "(", "()", '""')  # an editor may close what a key opens
        ),
        [((line, 3), (line, 4), "") for line in range(0, 18, 2)],
        [((line, 3), (line, 4), "x") for line in range(0, 18, 2)],
    ],
    ids=[
        *("key", "enter", "long-line", "a-few-lines", "four-gone", "several-keys", "import-added"),
        *(
            f"{what}-with-nine-cursors"
            for what in ("key", "bracket", "brackets", "quotes", "backspace", "key-over")
        ),
    ],
)
def test_typing_is_not_held_back(
    changes: list[tuple[tuple[int, int], tuple[int, int], str]],
) -> None:
    assert not Scene().change(*changes)


@pytest.mark.parametrize(
    "changes",
    [
        [insert(3, 0, "x\n" * 6)],
        [((3, 0), (12, 0), "")],
        [((0, 0), (20, 0), "".join(f"Line {n}\n" for n in range(20)))],
        [insert(1, 0, "x"), insert(5, 0, "x"), insert(9, 0, "y")],
        [insert(1, 0, "xy"), insert(5, 0, "xy"), insert(9, 0, "xy")],
        [((1, 0), (1, 4), "x"), ((5, 0), (5, 4), "x"), ((9, 0), (9, 4), "x")],
        [((1, 0), (1, 4), "()"), ((5, 0), (5, 4), "()"), ((9, 0), (9, 4), "()")],
    ],
    ids=[
        *("paste", "lines-gone", "replaced", "several-texts", "several-places", "renamed"),
        "renamed-to-a-pair",
    ],
)
def test_the_next_request_after_a_bulk_change_is_held_back_and_no_other(
    changes: list[tuple[tuple[int, int], tuple[int, int], str]],
) -> None:
    scene = Scene()
    assert scene.change(*changes)
    assert not scene.bulk.holds_back(URI), "asked again"
    assert not scene.change(insert(0, 0, "y"))


@pytest.mark.parametrize(
    ("changes", "by"),
    [
        ([insert(3, 0, "x")], By.USER),
        ([insert(3, 0, "1\n2\n3\n")], By.USER),
        ([((3, 0), (3, 6), "other")], By.USER),
        ([((3, 0), (4, 0), "")], By.USER),
        ([insert(5, 0, "    "), insert(4, 0, "    "), insert(3, 0, "    ")], By.USER),
        ([((5, 0), (5, 4), ""), ((4, 0), (4, 4), ""), ((3, 0), (3, 4), "")], By.USER),
        ([((9, 0), (9, 4), "word"), insert(0, 0, "import word\n")], By.PROGRAM),
        ([((9, 0), (9, 2), "life"), insert(0, 0, "import life\n")], By.USER),
        ([((9, 0), (9, 4), "word"), ((3, 0), (3, 4), "word")], By.PROGRAM),
        ([((3, 0), (5, 0), "word 3\nword 4\n")], By.PROGRAM),
        ([((3, 0), (5, 0), "one\ntwo\n")], By.USER),
        ([insert(9, 0, "a"), insert(5, 0, "bc"), insert(3, 0, "d")], By.PROGRAM),
        ([insert(3, 0, "x\n" * 6)], By.PROGRAM),
        ([((0, 0), (20, 0), "".join(f"Line {n}\n" for n in range(20)))], By.PROGRAM),
    ],
    ids=[
        *("key", "lines-pasted", "pasted-over", "line-deleted", "indented", "dedented"),
        *("another-word-and-import", "word-from-menu-and-import", "renamed", "renamed-in-one-range"),
        *("two-lines-pasted-over", "several-texts", "many-lines", "all-of-it"),
    ],
)
def test_who_has_changed_it(changes: list[tuple[tuple[int, int], tuple[int, int], str]], by: By) -> None:
    scene = Scene()
    taken: list[DocumentChanged] = []
    scene.events.on(DocumentChanged, taken.append)
    scene.change(*changes)
    assert taken[-1].by is by


def test_what_leads_back_is_the_users_undo_unless_all_of_it_is_replaced() -> None:
    scene = Scene()
    taken: list[DocumentChanged] = []
    scene.events.on(DocumentChanged, taken.append)
    scene.bulk.opened(URI)
    scene.pastes(9)
    scene.change(((3, 0), (12, 0), ""))
    scene.pastes(9)
    scene.change(((0, 0), (29, 0), scene.text))
    assert [one.by for one in taken] == [By.PROGRAM, By.USER, By.USER, By.PROGRAM]


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_one_word_replaced_place_by_place_at_once(seconds: float) -> None:
    """lsp-mode sends each place of a replacement as a message of its own."""
    scene = Scene()
    taken: list[DocumentChanged] = []
    scene.events.on(DocumentChanged, taken.append)
    for line in (3, 4):
        scene.change(((line, 0), (line, 4), "word"), after=seconds)
    assert taken[-1].by is (By.USER if seconds else By.PROGRAM)


def test_what_is_in_the_file_now_is_a_programs(tmp_path: Path) -> None:
    """However small it is, unless the editor has saved it or is saving it; a pipe in the place of the file is
    not opened."""
    path = tmp_path / "a.py"
    scene = Scene(path.as_uri())
    path.write_text(scene.text)
    taken: list[DocumentChanged] = []
    scene.events.on(DocumentChanged, taken.append)
    scene.bulk.opened(scene.uri)
    text = scene.text
    noticed, at_once = 1.0, 0.0
    cases = [(noticed, By.FILE), (None, By.USER), (noticed, By.FILE), (at_once, By.USER)]
    for n, (since, by) in enumerate(cases):
        text = text.replace(f"line {n}\n", f"lane {n}\n")
        if since is None:
            scene.change(((n, 1), (n, 2), "a"), insert(n, 6, "  "))
            text = text.replace(f"lane {n}\n", f"lane {n}  \n")
            path.write_text(text)
            scene.bulk.saved(scene.uri)
        else:
            path.write_text(text)
            os.utime(path, times=(time.time() - since,) * 2)
            scene.change(((n, 0), (n + 1, 0), f"lane {n}\n"))
        assert taken[-1].by is by
    path.unlink()
    os.mkfifo(path)
    scene.change(((9, 0), (10, 0), "lane 9\n"))
    assert taken[-1].by is By.USER
    assert scene.bulk.remains(scene.uri)(("a",)) == ()


def test_it_is_held_back_for_a_short_time_only() -> None:
    scene = Scene()
    scene.pastes(6)
    scene.clock.now += HELD_BACK + 0.01
    assert not scene.bulk.holds_back(URI)


def test_the_whole_text_sent_anew_counts_as_what_differs() -> None:
    scene = Scene()
    taken: list[DocumentChanged] = []
    scene.events.on(DocumentChanged, taken.append)
    scene.arrives(types.TextDocumentContentChangeWholeDocument(scene.text.replace("line 7\n", "line 7x\n")))
    (found,) = taken[0].changes.all
    assert (found.line, found.removed, found.inserted, found.small) == (7, 1, 1, True)
    assert not scene.bulk.holds_back(URI)
    scene.arrives(types.TextDocumentContentChangeWholeDocument("another\n" * 20))
    assert scene.bulk.holds_back(URI)


def test_an_inserted_suggestion_is_not_held_back() -> None:
    scene = Scene()
    scene.pastes(9)
    scene.events.send(SuggestionInserted(URI, 3))
    assert not scene.bulk.holds_back(URI)


def test_undoing_and_redoing_in_a_row_is_held_back_from_the_second_step() -> None:
    scene = Scene()
    words = ("one", "two", "six")
    for at, word in enumerate(words):
        assert not scene.change(insert(0, 3 * at, word))
    undone = [scene.change(((0, 3 * at), (0, 3 * at + 3), "")) for at in (2, 1, 0)]
    assert undone == [False, True, True]
    redone = [scene.change(insert(0, 3 * at, word)) for at, word in enumerate(words)]
    assert redone == [True, True, True]
    assert not scene.change(insert(0, 9, "new")), "a new text is no redo"
    assert not scene.change(((0, 9), (0, 12), "")), "one step alone"
    assert not scene.change(((0, 6), (0, 9), ""), after=5.0), "much later"


def test_backspace_is_not_undo() -> None:
    scene = Scene()
    for column in range(5):
        assert not scene.change(insert(0, column, "x"))
    for column in range(4, -1, -1):
        assert not scene.change(((0, column), (0, column + 1), ""))


def test_what_a_formatter_changes_during_a_save_is_held_back() -> None:
    scene = Scene()
    scene.bulk.save_begins(URI, types.TextDocumentSaveReason.Manual)
    assert scene.change(((0, 4), (0, 5), "  "))
    scene.bulk.saved(URI)
    assert not scene.change(insert(0, 0, "x"))
    scene.bulk.save_begins(URI, types.TextDocumentSaveReason.Manual)  # and never saved
    assert not scene.change(insert(0, 0, "x"), after=60.0)


def test_a_closed_document_is_forgotten() -> None:
    scene = Scene()
    scene.pastes(9)
    scene.bulk.closed(URI)
    assert not scene.bulk.holds_back(URI)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 8),
            st.integers(0, 4),
            st.integers(0, 3),
            st.text("ab\n\r", max_size=4),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_the_state_of_a_document_depends_on_its_text_alone(
    edits: list[tuple[int, int, int, str, bool]],
) -> None:
    """However it came about, incrementally or all at once."""
    found = document("ab\nb\na\n")
    for line, column, gone, text, whole in edits:
        if whole:
            found.apply_change(types.TextDocumentContentChangeWholeDocument(text + found.source))
        else:
            found.apply_change(change((line, column), (line, column + gone), text))
        again = document("another")
        again.apply_change(types.TextDocumentContentChangeWholeDocument(found.source))
        assert found.take_changes().after == again.take_changes().after


def test_a_line_that_moved_leads_to_another_state() -> None:
    """Moved up and down again it is as before; moved twice in one direction it is not an undo."""
    scene = Scene()
    for line in (3, 4, 5):
        moved = [insert(line + 2, 0, "line 3\n"), ((line, 0), (line + 1, 0), "")]
        assert not scene.change(*moved)
    back = [((6, 0), (7, 0), ""), insert(5, 0, "line 3\n")]
    assert not scene.change(*back), "one step back"
    back = [((5, 0), (6, 0), ""), insert(4, 0, "line 3\n")]
    assert scene.change(*back), "two are a burst of undo"


@given(st.lists(st.sampled_from(["a", "b", "", "line", "x = 1"]), min_size=2, max_size=6), st.randoms())
def test_another_order_of_the_lines_is_another_state(lines: list[str], random: Random) -> None:
    shuffled = random.sample(lines, len(lines))
    states = [document("\n".join(each)).take_changes().after for each in (lines, shuffled)]
    assert (states[0] == states[1]) == (lines == shuffled)


@given(
    text=st.text("ab\n", max_size=12),
    edits=st.lists(
        st.tuples(*[st.integers(0, 12)] * 2, *[st.integers(0, 4)] * 2, st.text("ab\n", max_size=3))
    ),
)
def test_the_region_has_the_lines_that_came_and_went(
    text: str, edits: list[tuple[int, int, int, int, str]]
) -> None:
    """Also at the empty line after the last line end, which is none of the lines with their ends."""
    found = document(text)
    for first, last, start, end, new in edits:
        old = found.bare_lines
        places = sorted([(first % len(old), start), (last % len(old), end)])
        found.apply_change(change(places[0], places[1], new))
        begin, old_end, new_end = found.take_changes().region
        now = found.bare_lines
        assert len(now) - len(old) == new_end - old_end
        assert now[:begin] == old[:begin]
        assert now[new_end + 1 :] == old[old_end + 1 :]
