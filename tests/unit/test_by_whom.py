"""By whom a change is: the user, a program, or one that wrote the file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from lsp_calib.feedback.events import By
from lsp_calib.server.documents import CalibCodec, CalibDocument, DocumentChanged, Documents

URI = "file:///a.py"


class Scene:
    """A document that is edited, and what is made of it."""

    def __init__(self, uri: str = URI) -> None:
        self.text, self.uri = "".join(f"line {n}\n" for n in range(20)), uri
        self.document = document(self.text, uri)
        self.now = 100.0
        self.documents = Documents(lambda: self.now)
        self.taken: list[DocumentChanged] = []

    def _changed(self) -> None:
        self.taken.append(self.documents.changed(self.document))

    def arrives(self, change: types.TextDocumentContentChangeEvent) -> None:
        self.document.apply_change(change)
        self._changed()

    def pastes(self, lines: int) -> None:
        self.arrives(change((3, 0), (3, 0), "x\n" * lines))

    def change(self, *changes: tuple[tuple[int, int], tuple[int, int], str], after: float = 0.1) -> None:
        """One message with these changes."""
        self.now += after
        for start, end, text in changes:
            self.document.apply_change(change(start, end, text))
        self._changed()


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
    where = types.Range(types.Position(*start), types.Position(*end))
    return types.TextDocumentContentChangePartial(where, text)


def insert(line: int, column: int, text: str) -> tuple[tuple[int, int], tuple[int, int], str]:
    return (line, column), (line, column), text


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
    scene.change(*changes)
    assert scene.taken[-1].by is by


def test_what_leads_back_is_the_users_undo_unless_all_of_it_is_replaced() -> None:
    scene = Scene()
    scene.pastes(9)
    scene.change(((3, 0), (12, 0), ""))
    scene.pastes(9)
    scene.change(((0, 0), (29, 0), scene.text))
    assert [one.by for one in scene.taken] == [By.PROGRAM, By.USER, By.USER, By.PROGRAM]


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_one_word_replaced_place_by_place_at_once(seconds: float) -> None:
    """lsp-mode sends each place of a replacement as a message of its own."""
    scene = Scene()
    for line in (3, 4):
        scene.change(((line, 0), (line, 4), "word"), after=seconds)
    assert scene.taken[-1].by is (By.USER if seconds else By.PROGRAM)


def test_what_is_in_the_file_now_is_a_programs(tmp_path: Path) -> None:
    """However small it is, unless the editor has saved it or is saving it; a pipe in the place of the file is
    not opened."""
    path = tmp_path / "a.py"
    scene = Scene(path.as_uri())
    path.write_text(scene.text)
    scene.documents.opened(scene.document)
    text = scene.text
    noticed, at_once = 1.0, 0.0
    cases = [(noticed, By.FILE), (None, By.USER), (noticed, By.FILE), (at_once, By.USER)]
    for n, (since, by) in enumerate(cases):
        text = text.replace(f"line {n}\n", f"lane {n}\n")
        if since is None:
            scene.change(((n, 1), (n, 2), "a"), insert(n, 6, "  "))
            text = text.replace(f"lane {n}\n", f"lane {n}  \n")
            path.write_text(text)
            scene.documents.saved(scene.uri)
        else:
            path.write_text(text)
            os.utime(path, times=(time.time() - since,) * 2)
            scene.change(((n, 0), (n + 1, 0), f"lane {n}\n"))
        assert scene.taken[-1].by is by
    path.unlink()
    os.mkfifo(path)
    scene.change(((9, 0), (10, 0), "lane 9\n"))
    assert scene.taken[-1].by is By.USER
    assert scene.documents.remains(scene.uri)(("a",)) == ()


def test_the_whole_text_sent_anew_counts_as_what_differs() -> None:
    scene = Scene()
    scene.arrives(types.TextDocumentContentChangeWholeDocument(scene.text.replace("line 7\n", "line 7x\n")))
    (found,) = scene.taken[0].changes.all
    assert (found.line, found.removed, found.inserted, found.small) == (7, 1, 1, True)


PLACES = st.tuples(st.integers(0, 8), st.integers(0, 4), st.integers(0, 3))
EDITS = st.tuples(PLACES, st.text("ab\n\r", max_size=4), st.booleans())


@given(st.lists(EDITS, max_size=8))
def test_the_state_of_a_document_depends_on_its_text_alone(
    edits: list[tuple[tuple[int, int, int], str, bool]],
) -> None:
    """However it came about, incrementally or all at once."""
    found = document("ab\nb\na\n")
    for (line, column, gone), text, whole in edits:
        if whole:
            found.apply_change(types.TextDocumentContentChangeWholeDocument(text + found.source))
        else:
            found.apply_change(change((line, column), (line, column + gone), text))
        again = document("another")
        again.apply_change(types.TextDocumentContentChangeWholeDocument(found.source))
        assert hash(found.bare_lines) == hash(again.bare_lines)


@given(st.lists(st.sampled_from(["a", "b", "", "line", "x = 1"]), min_size=2, max_size=6), st.randoms())
def test_another_order_of_the_lines_is_another_state(lines: list[str], random: Random) -> None:
    shuffled = random.sample(lines, len(lines))
    states = [document("\n".join(each)).take_changes().after for each in (lines, shuffled)]
    assert (states[0] == states[1]) == (lines == shuffled)
