"""What became of a suggestion of several lines that was put into the document, such as a comment."""

from __future__ import annotations

import pytest
from feedback_scene import EDITED, KEPT, URI, Editor, suggestion
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.feedback.events import SETTLE_AFTER, EventKind

CODE = ("int f() {", "  return 1;", "}", "")
COMMENT = ("/**", " * Return one, which", " * is a number.", " */")
PARTS = ((1, "Return one, which"), (2, "is a number."))


def editor_with_a_comment() -> Editor:
    editor = Editor(*COMMENT, *CODE)
    made = suggestion("Return one, which is a number.")
    editor.events += editor.tracker.made(URI, editor.lines, PARTS, made, editor.now)
    return editor


def test_a_comment_left_alone_is_kept_and_marked_until_it_settles() -> None:
    editor = editor_with_a_comment()
    assert editor.kinds() == [EventKind.SHOWN, EventKind.INSERTED]
    assert editor.marked() == [(1, "s")]
    editor.put(5, "  return 2;")
    editor.wait(SETTLE_AFTER + 1)
    assert editor.outcome() == KEPT
    assert editor.marked() == []


def test_lines_above_and_more_of_a_comment_leave_it_kept() -> None:
    """The user may say more around the sentence; what was suggested is still there."""
    editor = editor_with_a_comment()
    editor.become("// above", *editor.lines)
    editor.become(*editor.lines[:4], " * @return one", *editor.lines[4:])
    editor.put(3, " * is a number. Always.")
    editor.events += editor.tracker.saved(URI, editor.now)
    assert editor.outcome() == KEPT


@pytest.mark.parametrize(
    "lines",
    [
        (*COMMENT[:2], " * is a letter.", " */", *CODE),
        ("/**", " * Give one, which", *COMMENT[2:], *CODE),
        (COMMENT[0], *COMMENT[2:], *CODE),
        (*COMMENT[:2], " */", *CODE),
        (COMMENT[0], COMMENT[2], COMMENT[1], COMMENT[3], *CODE),
        CODE,
    ],
)
def test_a_comment_with_a_line_changed_gone_or_moved_is_edited(lines: tuple[str, ...]) -> None:
    editor = editor_with_a_comment()
    editor.become(*lines)
    editor.events += editor.tracker.saved(URI, editor.now)
    assert editor.outcome() == EDITED
    assert editor.marked() == []


def test_a_change_that_is_undone_is_none() -> None:
    editor = editor_with_a_comment()
    editor.become(*COMMENT[:2], " * is", " */", *CODE)
    assert editor.marked() == []
    editor.become(*COMMENT, *CODE)
    assert editor.marked() == [(1, "s")]
    editor.events += editor.tracker.closed(URI, editor.now)
    assert editor.outcome() == KEPT


@given(above=st.lists(st.sampled_from(["x", "", " */", "int g() {"]), max_size=4))
def test_a_comment_is_found_wherever_it_moves(above: list[str]) -> None:
    editor = editor_with_a_comment()
    editor.become(*above, *editor.lines)
    assert editor.marked() == [(1 + len(above), "s")]
    editor.events += editor.tracker.saved(URI, editor.now)
    assert editor.outcome() == KEPT
