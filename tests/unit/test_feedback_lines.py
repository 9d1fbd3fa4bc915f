"""Lines are found again, whatever an editor does around them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

import pytest
from feedback_scene import (
    DELETED,
    EDITED,
    IGNORED,
    KEPT,
    TYPED,
    TYPED_OVER,
    URI,
    Editor,
    suggestion,
)
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.characters import shared_ends
from lsp_calib.feedback.events import How
from lsp_calib.feedback.tracked import FOLLOWED_AT_MOST
from lsp_calib.feedback.tracker import Tracker


class TestEnter:
    """Enter splits a line in two; the first part stays the line."""

    def test_inside(self) -> None:
        editor = Editor("head", "call(", "tail").show(1, "a, b)").put(1, "call(a, b)")
        # The line is still followed where its first part is.
        editor.put(1, "call(a,", "     b)").put(1, "call(", after=1)
        assert editor.put(1, "call(a, b)", after=1).marked() == [(1, "s")]

    def test_before_the_line_moves_it_down(self) -> None:
        editor = Editor("head", "    x = ", "tail").show(1, "1.5").put(1, "    x = 1.5")
        assert editor.put(1, "", "    x = 1.5").marked() == [(2, "s")]

    @pytest.mark.parametrize("before", ["x = ", "    x = ", "", "    ", "# "])
    @pytest.mark.parametrize("next_line", ["", "    ", "# ", "other"])
    @pytest.mark.parametrize("lines_below", [("",), ("", ""), ("end",), ("# ", "end"), ("x = 15",)])
    def test_together_with_the_acceptance(
        self, before: str, next_line: str, lines_below: tuple[str, ...]
    ) -> None:
        """On a blank line this looks exactly like a line inserted above it."""
        editor = Editor("head", before, *lines_below).show(1, "15 + x").put(1, before + "15 + x", next_line)
        assert editor.marked() == [(1, "s")]
        assert editor.save().outcome() == KEPT

    def test_together_with_an_import_above(self) -> None:
        editor = Editor("import a", "", "x = ", "end").show(2, "b.c()")
        assert editor.become("import a", "import b", "", "x = b.c()", "", "end").marked() == [(3, "s")]

    @pytest.mark.parametrize("blank", [False, True])
    @pytest.mark.parametrize("enter", [False, True])
    def test_together_with_several_lines_above(self, blank: bool, enter: bool) -> None:
        before = "    " if blank else "    x = "
        editor = Editor("import a", "", "def f():", before, "end").show(3, "b.c()")
        new = [before + "b.c()", *(["    "] if enter else [])]
        editor.become("import a", "import b", "import c", "", "def f():", *new, "end")
        assert editor.marked() == [(5, "s")]

    def test_together_with_the_line_above_in_place_of_a_blank_one(self) -> None:
        editor = Editor("head", "def f(x):", "", "end").show(2, "    return x")
        assert editor.become("head", "def f(", "    x", "):", "    return x", "end").marked() == [(4, "s")]

    def test_a_block_is_followed_by_its_first_line(self) -> None:
        editor = Editor("def f():", "    ", "end").show(1, "x = 1\n    return x")
        assert editor.put(1, "    x = 1", "    return x").marked() == [(1, "s")]


class TestTheSameTextOnAnotherLine:
    """What comes elsewhere is not the suggestion, and its line has no mark."""

    @pytest.mark.parametrize("above", ["", "    ", "pas", "pass if"])
    def test_written_on_the_line_above(self, above: str) -> None:
        editor = Editor("head", above, "", "end").show(2, "pass").wait(1.0).put(1, "pass")
        assert editor.marked() == []
        assert editor.save().move_on().outcome() == IGNORED

    @pytest.mark.parametrize("blank", ["", "    "])
    @pytest.mark.parametrize("below", [(), ("",), ("return",)])
    @pytest.mark.parametrize(
        "pasted",
        [
            ("if err != nil {", "return", "}"),
            ("if err is not None:", "    return"),
            ("def f():", "    if x:", "        return", "    return", "", "def g():", "    pass"),
            ("", "return", ""),
        ],
    )
    def test_in_lines_that_are_pasted_over_a_blank_one(
        self, pasted: tuple[str, ...], below: tuple[str, ...], blank: str
    ) -> None:
        editor = Editor("head", blank, *below, "end").show(1, "return").wait(1.0).put(1, *pasted)
        assert editor.marked() == []
        # A blank line among those that came may be the line.
        assert editor.close().outcome() == (IGNORED if "" in pasted else TYPED_OVER)

    def test_somewhere_in_a_document_that_is_replaced(self) -> None:
        before = ["def f(x):", "    ", "", "def g(x):"]
        editor = Editor("import a", *before, "    x()", "").show(2, "return").wait(1.0)
        editor.become("import b", *before, "    if x:", "        return", "end")
        assert editor.close().outcome() == IGNORED


class TestWholeDocumentReplaced:
    """Formatters, and clients that send all of the text each time."""

    SOURCE = ("import a,b", "", "def f( x ):", "  y=", "  }", "  return  y", "", "  }", "last")

    def editor(self) -> Editor:
        return Editor(*self.SOURCE).show(3, "x+15").put(3, "  y=x+15")

    def test_reflowed_by_a_formatter_on_save(self) -> None:
        editor = self.editor()
        editor.become("import a", "import b", "", "", "def f(x):", "    y=x+15", "    return y", "", "last")
        assert editor.marked() == [(5, "s")]

    def test_another_branch_checked_out(self) -> None:
        editor = self.editor().become(*(f"{n} wholly different" for n in range(20)))
        assert editor.save().outcome() == EDITED

    def test_the_same_text_elsewhere_is_no_insertion(self) -> None:
        """A line that was there before the change is not the suggestion arriving."""
        editor = (
            Editor("retu", "a", "b", "return").show(0, "rn").become("  retu", "  a", "  b", "  c", "  return")
        )
        assert editor.save().outcome() == IGNORED

    def test_a_line_changed_among_others_is_the_one_most_alike(self) -> None:
        editor = Editor("import a,b", "x = ", "end").show(1, "15").put(1, "x = 15")
        editor.become("import a", "import b", "", "x = 15 + y", "end").put(3, "x = 15")
        assert editor.save().outcome() == KEPT

    def test_typed_over_by_several_lines_is_the_first_of_them(self) -> None:
        editor = Editor("head", "total = ", "end").show(1, "15").put(1, "None", "?")
        assert editor.labels() == {}
        assert editor.save().outcome() == TYPED_OVER

    def test_one_line_for_many_deletes_the_others(self) -> None:
        editor = Editor("head", "a", "total = ", "b", "end").show(2, "15").become("head", "?", "end")
        assert editor.save().outcome() == DELETED

    def test_deleted_with_very_many(self) -> None:
        editor = Editor(*(f"old {n}" for n in range(5000))).show(2500, " x = 15").become("old 0", "old 4999")
        assert editor.save().outcome() == DELETED

    def test_too_much_to_search_is_lost_and_no_label(self) -> None:
        editor = Editor(*(f"old {n}" for n in range(3000))).show(1500, " x = 15")
        editor.become(*(f"new {n}" for n in range(4000))).save()
        assert editor.outcome() == (None, How.LOST)

    def test_what_stands_out_is_found_however_much_changes(self) -> None:
        editor = Editor(*(f"old {n}" for n in range(3000))).show(1500, " x = 15").put(1500, "old 1500 x = 15")
        assert editor.become(*(f"new {n}" for n in range(4000)), "  old 1500 x = 15").marked() == [
            (4000, "s")
        ]


# Lines an edit elsewhere may bring: none of them the followed line or the suggestion.
_OTHER = st.sampled_from(["", "}", "    ", "a = 1", "return", "😀", "x =", "}"])
_EDIT = st.tuples(
    st.floats(0, 1, exclude_max=True), st.integers(0, 3), st.lists(_OTHER, max_size=3), st.booleans()
)


@given(
    above=st.lists(_OTHER, max_size=8),
    below=st.lists(_OTHER, max_size=8),
    edits=st.lists(_EDIT, max_size=12),
    outcome=st.sampled_from([KEPT, TYPED, EDITED, TYPED_OVER, IGNORED]),
    together=st.booleans(),
)
def test_edits_elsewhere_never_change_the_label(
    above: list[str],
    below: list[str],
    edits: list[tuple[float, int, list[str], bool]],
    outcome: tuple[bool | None, How],
    together: bool,
) -> None:
    """Insertions, deletions and replacements around a line leave its label and find its index."""
    editor = Editor(*above, "    total = ", *below).show(len(above), "price * 15").wait(5.0)
    line = len(above)
    if outcome in (KEPT, EDITED):
        editor.put(line, "    total = price * 15").backspace(line, 2 if outcome is EDITED else 0)
    elif outcome in (TYPED, TYPED_OVER):
        editor.type(line, "price * 15" if outcome is TYPED else "None")
    text = editor.lines[line]
    for where, deleted, new, is_above in edits:
        # Kept apart, as lists, so that the truth about where the line is needs no search.
        side = above if is_above else below
        at = int(where * (len(side) + 1))
        side[at : at + deleted] = new
        if not together:
            editor.become(*above, text, *below, after=0.1)
            assert editor.marked() == ([(len(above), "s")] if outcome is KEPT else [])
    editor.become(*above, text, *below, after=0.1)
    assert editor.marked() == ([(len(above), "s")] if outcome is KEPT else [])
    assert editor.close().outcome() == outcome


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("show"), st.integers(0, 5), st.sampled_from(["a", "ab", "é\n", " "])),
            st.tuples(st.just("lines"), st.integers(0, 5), st.lists(st.sampled_from(["", "a", "ab", "b "]))),
            st.tuples(st.sampled_from(["wait", "save", "close", "request"]), st.integers(0, 40), st.none()),
        ),
        max_size=40,
    )
)
def test_every_suggestion_followed_is_settled_exactly_once(
    steps: list[tuple[str, int, object]],
) -> None:
    """Whatever happens, each ends in one label (none in two: `labels`), and is forgotten."""
    editor = Editor("a", "", "b")
    shown = set()
    for number, (step, value, more) in enumerate(steps):
        if step == "show" and value < len(editor.lines):
            assert isinstance(more, str)
            if more.strip():
                shown.add(str(number))
            editor.show(value, more, str(number))
        elif step == "lines":
            assert isinstance(more, list)
            editor.become(*more, after=value)
        elif step == "wait":
            editor.wait(value)
        elif step == "save":
            editor.save()
        elif step == "request":
            editor.events += editor.tracker.requested(URI, value, editor.now)
        elif step == "close":
            editor.close()
        for line, _ in editor.tracker.inserted(URI):
            assert 0 <= line < max(1, len(editor.lines))
    assert set(editor.close().labels()) == shown
    assert editor.tracker.deadline is None


def one_by_one(first: Iterable[str], second: Iterable[str]) -> int:
    same = (a == b for a, b in zip(first, second, strict=False))
    return sum(1 for _ in itertools.takewhile(bool, same))


@given(
    start=st.integers(0, 3000),
    old=st.text("ab", max_size=4),
    new=st.text("ab", max_size=4),
    end=st.integers(0, 3000),
    character=st.sampled_from("ac"),
)
def test_shared_ends(start: int, old: str, new: str, end: int, character: str) -> None:
    """As found one character at a time, on both sides of the size of a block."""
    first = character * start + old + character * end
    second = character * start + new + character * end
    before, after = shared_ends(first, second)
    assert before == one_by_one(first, second)
    assert after == min(min(len(first), len(second)) - before, one_by_one(reversed(first), reversed(second)))
    assert shared_ends(tuple(first), tuple(second)) == (before, after)


def seconds_of(old: list[str], line: int, *versions: list[str], shown: dict[int, str] | None = None) -> float:
    """Of processor time, for changes of a document with a suggestion on a line, or on each of `shown`."""
    tracker = Tracker()
    for at, text in (shown or {line: "x = 15"}).items():
        tracker.shown(URI, old, at, text, suggestion(text, str(at)), 0.0)
    began = time.process_time()
    for version in versions:
        tracker.changed(URI, version, 1.0)
    return time.process_time() - began


def test_a_file_full_of_repeated_lines_takes_milliseconds() -> None:
    """Aligning these without a rule for repeated lines takes cubic time."""

    def seconds(count: int) -> float:
        old = [text for n in range(count) for text in (f"old {n}", "")]
        new = [text for n in range(count + 50) for text in ("", f"new {n}")]
        return seconds_of(old, count, new)

    assert seconds(900) < 200 * max(seconds(90), 1e-3)


def test_a_file_of_equal_lines_takes_milliseconds() -> None:
    """In each place of the suggestion's text its line could be: not all are compared with all."""

    def seconds(count: int) -> float:
        old = ["first", *["x = 15"] * count, "", "last"]
        new = ["other", *["x = 15"] * (count + 1), "other"]
        return seconds_of(old, count + 1, new)

    assert seconds(30_000) < 100 * max(seconds(3_000), 1e-3)


def test_a_local_change_in_a_huge_document_takes_milliseconds() -> None:
    """Ten times the lines: not a hundred times the time, as of what is quadratic."""

    def seconds(count: int) -> float:
        lines = [f"line {n}" for n in range(count)]
        places = [n * count // 100 for n in range(FOLLOWED_AT_MOST)]
        versions = []
        for n in range(10):
            # Fresh strings, as from a client that sends the whole text: identity would make it too easy.
            copy = [f"line {m}" for m in range(count)]
            copy[count // 2 + n] += "x"
            copy.insert(count // 2, "new")
            versions.append(copy)
        return seconds_of(lines, 0, *versions, shown={at: f"{lines[at]} + 15" for at in places})

    assert seconds(100_000) < 40 * max(seconds(10_000), 1e-3)
