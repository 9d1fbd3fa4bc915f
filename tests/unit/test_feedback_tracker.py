"""What became of a suggestion, told from document changes alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.feedback.tracker import FOLLOWED_AT_MOST, SETTLE_AFTER, SURVIVAL, Tracker
from lsp_calib.values import CalibratorRef, Confidence, Suggestion, Tier, Timing

URI = "file:///a.py"


def suggestion(text: str, identity: str = "s") -> Suggestion:
    confidence = Confidence(
        calibrated=0.5,
        raw=0.6,
        measure="geometric-mean-first-4",
        tier=Tier.REVIEW,
        reason="",
        certified=False,
        calibrator=CalibratorRef("c", "prior", "learning", 0),
        first_tokens=4,
    )
    return Suggestion(identity, "line", text, confidence, "m", 3, "model", Timing())


class Editor:
    """A document, a clock, and a tracker that is told of every change."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.now = 1000.0
        self.tracker = Tracker()
        self.events: list[Event] = []

    def show(self, line: int, text: str, identity: str = "s", after: str = "") -> None:
        """Show `text` at the end of a line, or before `after`, which ends it."""
        before = self.lines[line].removesuffix(after)
        expected = before + text.split("\n")[0] + after
        self.events += self.tracker.shown(
            URI, self.lines, line, expected, suggestion(text, identity), self.now
        )

    def wait(self, seconds: float) -> None:
        """Let time pass as a server would: tick whenever it is due."""
        end = self.now + seconds
        while (due := self.tracker.next_deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            self.events += self.tracker.tick(self.now)
        self.now = end

    def become(self, *lines: str, after: float = 1.0) -> None:
        self.wait(after)
        self.lines = list(lines)
        self.events += self.tracker.changed(URI, self.lines, self.now)

    def put(self, line: int, *new: str, after: float = 1.0) -> None:
        """Replace one line by others (by none: delete it)."""
        self.become(*self.lines[:line], *new, *self.lines[line + 1 :], after=after)

    def type(self, line: int, text: str, after: float = 0.2) -> None:
        for character in text:
            self.put(line, self.lines[line] + character, after=after)

    def backspace(self, line: int, times: int) -> None:
        for _ in range(times):
            self.put(line, self.lines[line][:-1], after=0.2)

    def move_on(self) -> None:
        """Edit the last line, and stay away."""
        self.put(len(self.lines) - 1, self.lines[-1] + "#", after=2.0)
        self.wait(SETTLE_AFTER)

    def save(self) -> None:
        self.events += self.tracker.saved(URI, self.now)

    def labels(self) -> dict[str, Label]:
        found: dict[str, Label] = {}
        for event in self.events:
            assert (event.label is not None) == (event.kind is EventKind.SETTLED)
            if event.label is not None:
                assert event.suggestion_id not in found, "settled twice"
                found[event.suggestion_id] = event.label
        return found

    def outcome(self, identity: str = "s") -> tuple[bool | None, How]:
        label = self.labels()[identity]
        return label.correct, label.how

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def marked(self) -> list[tuple[int, str]]:
        return [(line, one.id) for line, one in self.tracker.inserted(URI)]


KEPT = (True, How.KEPT)
TYPED = (True, How.TYPED)
EDITED = (False, How.EDITED)
TYPED_OVER = (False, How.TYPED_OVER)
IGNORED = (False, How.IGNORED)
DELETED = (False, How.DELETED)
UNREAD = (None, How.UNREAD)


class TestLabels:
    """Each way a suggestion can end, as an editor's changes tell it."""

    def test_inserted_and_left_alone_is_kept(self) -> None:
        editor = Editor("def f(x):", "    return ", "")
        editor.show(1, "x + 1")
        editor.put(1, "    return x + 1")
        editor.move_on()
        assert editor.outcome() == KEPT
        assert editor.kinds()[:2] == [EventKind.SHOWN, EventKind.INSERTED]

    def test_inserted_in_the_middle_of_a_line_is_kept(self) -> None:
        editor = Editor("print()", "")
        editor.show(0, "'😀', x", after=")")
        editor.put(0, "print('😀', x)")
        editor.move_on()
        assert editor.outcome() == KEPT

    def test_accepted_word_by_word_is_kept(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "alpha + beta")
        editor.put(0, "return alpha")
        editor.put(0, "return alpha +")
        assert editor.marked() == []
        editor.put(0, "return alpha + beta")
        editor.move_on()
        assert editor.outcome() == KEPT

    def test_one_character_suggestion_inserted_is_kept(self) -> None:
        editor = Editor("f(x", "")
        editor.show(0, ")")
        editor.put(0, "f(x)")
        editor.move_on()
        assert editor.outcome() == KEPT

    def test_typed_out_character_by_character_is_typed(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.type(0, "x + 1")
        assert EventKind.INSERTED not in editor.kinds()
        assert editor.marked() == []
        editor.move_on()
        assert editor.outcome() == TYPED

    def test_inserted_then_changed_is_edited(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.backspace(0, 1)
        editor.type(0, "2")
        editor.move_on()
        assert editor.outcome() == EDITED
        assert editor.kinds().count(EventKind.CHANGED) == 1

    def test_inserted_and_undone_is_edited(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.put(0, "return ")
        editor.move_on()
        assert editor.outcome() == EDITED

    def test_changed_and_changed_back_is_kept(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.backspace(0, 1)
        editor.type(0, "1")
        editor.move_on()
        assert editor.outcome() == KEPT

    def test_another_text_is_typed_over(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.type(0, "None")
        editor.move_on()
        assert editor.outcome() == TYPED_OVER

    def test_moving_on_after_reading_is_ignored(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.wait(0.75)
        editor.events += editor.tracker.requested(URI, 1, editor.now)
        editor.wait(SETTLE_AFTER)
        assert editor.outcome() == IGNORED

    def test_moving_on_at_once_is_unread_and_no_label(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.wait(0.74)
        editor.events += editor.tracker.requested(URI, 1, editor.now)
        editor.wait(SETTLE_AFTER)
        assert editor.outcome() == UNREAD

    @pytest.mark.parametrize(("seconds", "outcome"), [(0.5, UNREAD), (5.0, IGNORED)])
    def test_saving_or_closing_is_moving_on(self, seconds: float, outcome: tuple[bool | None, How]) -> None:
        for leave in (Tracker.saved, Tracker.closed):
            editor = Editor("return ", "")
            editor.show(0, "x + 1")
            editor.wait(seconds)
            editor.events += leave(editor.tracker, URI, editor.now)
            assert editor.outcome() == outcome

    def test_a_deleted_line_is_settled_at_once(self) -> None:
        editor = Editor("a", "return ", "b")
        editor.show(1, "x + 1")
        editor.put(1)
        assert editor.outcome() == DELETED

    def test_an_inserted_line_that_is_deleted_was_edited(self) -> None:
        editor = Editor("a", "return ", "b")
        editor.show(1, "x + 1")
        editor.put(1, "return x + 1")
        editor.put(1)
        assert editor.outcome() == EDITED

    def test_each_keystrokes_suggestion_has_its_own_label(self) -> None:
        """Superseded suggestions are judged by the same rule as the last one."""
        editor = Editor("ret", "")
        editor.show(0, "urn None", "first")
        editor.type(0, "u")
        editor.show(0, "rn x + 1", "second")
        editor.type(0, "r")
        editor.show(0, "n x + 1", "third")
        editor.put(0, "return x + 1")
        editor.move_on()
        assert {identity: editor.outcome(identity) for identity in editor.labels()} == {
            "first": TYPED_OVER,
            "second": KEPT,
            "third": KEPT,
        }

    def test_white_space_at_the_ends_is_no_difference(self) -> None:
        editor = Editor("  return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "  return x + 1")
        editor.put(0, "\treturn x + 1  ")
        assert editor.marked() == [(0, "s")]
        editor.move_on()
        assert editor.outcome() == KEPT

    def test_a_formatter_that_spaces_what_was_typed_inserts_nothing(self) -> None:
        editor = Editor("x", "")
        editor.show(0, " = 1")
        editor.type(0, "=1")
        editor.put(0, "x = 1")
        editor.move_on()
        assert editor.outcome() == TYPED


class TestEnter:
    """Enter splits a line in two; the first part stays the line."""

    def test_at_the_end(self) -> None:
        editor = Editor("return ", "tail")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.put(0, "return x + 1", "")
        editor.type(1, "y = 2")
        assert editor.marked() == [(0, "s")]
        editor.move_on()
        assert editor.outcome() == KEPT

    def test_inside(self) -> None:
        editor = Editor("head", "call(", "tail")
        editor.show(1, "a, b)")
        editor.put(1, "call(a, b)")
        editor.put(1, "call(a,", "     b)")
        editor.put(1, "call(", after=1)
        editor.put(1, "call(a, b)", after=1)  # the line is still followed where its first part is
        assert editor.marked() == [(1, "s")]

    def test_before_the_line_moves_it_down(self) -> None:
        editor = Editor("head", "    x = ", "tail")
        editor.show(1, "1.5")
        editor.put(1, "    x = 1.5")
        editor.put(1, "", "    x = 1.5")
        assert editor.marked() == [(2, "s")]

    @pytest.mark.parametrize("before", ["x = ", "    x = ", "", "    ", "# "])
    @pytest.mark.parametrize("next_line", ["", "    ", "# ", "other"])
    @pytest.mark.parametrize("lines_below", [("",), ("", ""), ("end",), ("# ", "end"), ("x = 15",)])
    def test_together_with_the_acceptance(
        self, before: str, next_line: str, lines_below: tuple[str, ...]
    ) -> None:
        """On a blank line this looks exactly like a line inserted above it."""
        editor = Editor("head", before, *lines_below)
        editor.show(1, "15 + x")
        editor.put(1, before + "15 + x", next_line)
        assert editor.marked() == [(1, "s")]
        editor.save()
        assert editor.outcome() == KEPT

    def test_together_with_an_import_above(self) -> None:
        editor = Editor("import a", "", "x = ", "end")
        editor.show(2, "b.c()")
        editor.become("import a", "import b", "", "x = b.c()", "", "end")
        assert editor.marked() == [(3, "s")]

    def test_a_block_is_followed_by_its_first_line(self) -> None:
        editor = Editor("def f():", "    ", "end")
        editor.show(1, "x = 1\n    return x")
        editor.put(1, "    x = 1", "    return x")
        assert editor.marked() == [(1, "s")]


class TestWhenItSettles:
    def test_not_before_the_user_moved_on(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.events += editor.tracker.requested(URI, 0, editor.now)
        editor.wait(3600)
        assert editor.labels() == {}

    def test_thirty_seconds_after_the_last_change_to_the_line(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(1, "y", after=1.0)
        editor.put(0, "return x + 1", after=20.0)
        changed = editor.now
        editor.put(1, "yy", after=20.0)  # of no account: elsewhere
        editor.wait(60.0)
        assert editor.labels()["s"].at == changed + SETTLE_AFTER

    def test_thirty_seconds_after_moving_on(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.put(1, "y", after=100.0)
        moved_on = editor.now
        editor.wait(29.9)
        assert editor.labels() == {}
        editor.wait(60.0)
        assert editor.labels()["s"].at == moved_on + SETTLE_AFTER

    def test_work_in_another_document_is_elsewhere(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.wait(5.0)
        editor.events += editor.tracker.changed("untitled:b", ["b"], editor.now)
        editor.wait(SETTLE_AFTER)
        assert editor.outcome() == IGNORED

    def test_a_change_that_comes_before_a_late_tick_changes_no_label(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.put(1, "y")
        editor.now += 31.0
        editor.lines[0] = "return x"
        editor.events += editor.tracker.changed(URI, editor.lines, editor.now)
        assert editor.outcome() == KEPT

    def test_a_change_of_white_space_keeps_no_suggestion_waiting(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(1, "y")
        moved_on = editor.now
        editor.put(0, "  return ", after=20.0)
        editor.wait(60.0)
        assert editor.labels()["s"].at == moved_on + SETTLE_AFTER

    def test_showing_twice_is_showing_once(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.show(0, " + 2")  # the same id
        editor.save()
        editor.show(0, " + 2")
        assert editor.kinds().count(EventKind.SHOWN) == 1
        assert editor.outcome() == KEPT

    def test_what_would_change_nothing_is_not_followed(self) -> None:
        editor = Editor("return x", "")
        editor.show(0, "  ")
        editor.events += editor.tracker.shown(URI, editor.lines, 9, "y", suggestion("y", "t"), editor.now)
        editor.save()
        assert editor.kinds() == [EventKind.SHOWN, EventKind.SHOWN]

    def test_the_oldest_are_settled_when_there_are_too_many(self) -> None:
        editor = Editor(*(f"x{n} = " for n in range(FOLLOWED_AT_MOST + 2)))
        for n in range(FOLLOWED_AT_MOST + 2):
            editor.show(n, "1", str(n))
            editor.wait(1.0)
            if n == FOLLOWED_AT_MOST - 1:
                assert set(editor.labels()) == {str(n) for n in range(n - int(SETTLE_AFTER))}
        busy = Editor("x = ")
        for n in range(FOLLOWED_AT_MOST + 2):
            busy.show(0, f"{n}1", str(n))
        assert list(busy.labels()) == ["0", "1"]

    def test_an_empty_document_is_one_empty_line(self) -> None:
        tracker = Tracker()
        tracker.shown(URI, [], 0, "import os", suggestion("import os"), 0.0)
        tracker.changed(URI, ["import os"], 1.0)
        assert [line for line, _ in tracker.inserted(URI)] == [0]


class TestSurvival:
    def survived(self, editor: Editor) -> list[tuple[float, bool]]:
        return [
            (event.data["seconds"], bool(event.data["unchanged"]))
            for event in editor.events
            if event.kind is EventKind.SURVIVED
        ]

    def test_recorded_beyond_settlement(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        inserted = editor.now
        editor.move_on()
        assert editor.outcome() == KEPT
        editor.become("new", *editor.lines, after=100.0)
        editor.put(1, "return x", after=100.0)
        editor.wait(1000.0)
        assert self.survived(editor) == [(30, True), (120, True), (300, False), (600, False)]
        times = [event.at - inserted for event in editor.events if event.kind is EventKind.SURVIVED]
        assert times == list(SURVIVAL)
        assert editor.tracker.next_deadline() is None

    def test_a_deleted_line_did_not_survive(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.put(0)
        editor.wait(130.0)
        assert self.survived(editor) == [(30, False), (120, False)]

    def test_ends_with_the_document(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.put(0, "return x + 1")
        editor.events += editor.tracker.closed(URI, editor.now)
        assert editor.tracker.next_deadline() is None
        editor.events += editor.tracker.tick(editor.now + 1000)
        assert self.survived(editor) == []

    def test_what_was_typed_has_none(self) -> None:
        editor = Editor("return ", "")
        editor.show(0, "x + 1")
        editor.type(0, "x + 1")
        editor.wait(1000)
        assert self.survived(editor) == []


class TestDiagnostics:
    """`inserted`: which lines carry a sign."""

    def test_goes_when_the_line_is_changed(self) -> None:
        editor = Editor("x = ", "")
        editor.show(0, "15")
        assert editor.marked() == []
        editor.put(0, "x = 15")
        assert editor.marked() == [(0, "s")]
        editor.type(0, "0")
        assert editor.marked() == []
        editor.backspace(0, 1)
        assert editor.marked() == []

    def test_goes_when_it_is_settled(self) -> None:
        editor = Editor("x = ", "")
        editor.show(0, "15")
        editor.put(0, "x = 15")
        editor.save()
        assert editor.marked() == []

    def test_goes_when_it_is_reviewed_with_all_that_said_the_same(self) -> None:
        editor = Editor("x = ", "y = ")
        editor.show(0, "15", "earlier")
        editor.show(0, "15", "later")
        editor.show(1, "16", "other")
        editor.become("x = 15", "y = 16")
        assert editor.marked() == [(0, "later"), (1, "other")]
        assert editor.tracker.reviewed("later")
        assert editor.marked() == [(1, "other")]
        assert not editor.tracker.reviewed("later")
        assert not editor.tracker.reviewed("unheard of")

    def test_a_review_is_of_what_is_there_now(self) -> None:
        editor = Editor("x = ", "")
        editor.show(0, "15", "first")
        editor.put(0, "x = 15")
        editor.show(0, " + y", "second")
        assert editor.tracker.reviewed("first")
        editor.put(0, "x = 15 + y")
        assert editor.marked() == [(0, "second")]

    @pytest.mark.parametrize("where", [0, 3])
    def test_follows_a_line_that_is_moved(self, where: int) -> None:
        editor = Editor("a", "x = ", "b", "c", "d")
        editor.show(1, "15")
        editor.put(1, "x = 15")
        rest = ["a", "b", "c", "d"]
        editor.become(*rest[:where], "x = 15", *rest[where:])
        assert editor.marked() == [(where, "s")]


class TestWholeDocumentReplaced:
    """Formatters, and clients that send all of the text each time."""

    SOURCE = ("import a,b", "", "def f( x ):", "  y=", "  }", "  return  y", "", "  }", "last")

    def editor(self) -> Editor:
        editor = Editor(*self.SOURCE)
        editor.show(3, "x+15")
        editor.put(3, "  y=x+15")
        return editor

    def test_indented_by_a_formatter_on_save(self) -> None:
        editor = self.editor()
        editor.become(*("  " + line for line in editor.lines))
        assert editor.marked() == [(3, "s")]
        editor.save()
        assert editor.outcome() == KEPT

    def test_reflowed_by_a_formatter_on_save(self) -> None:
        editor = self.editor()
        editor.become("import a", "import b", "", "", "def f(x):", "    y=x+15", "    return y", "", "last")
        assert editor.marked() == [(5, "s")]

    def test_the_formatter_changed_the_line_itself(self) -> None:
        """Equality is up to white space at the ends only: this is the definition, not a judgement."""
        editor = self.editor()
        editor.become(
            "import a", "import b", "", "", "def f(x):", "    y = x + 15", "    return y", "", "last"
        )
        editor.save()
        assert editor.outcome() == EDITED

    def test_another_branch_checked_out(self) -> None:
        editor = self.editor()
        editor.become(*(f"{n} wholly different" for n in range(20)))
        assert editor.outcome() == EDITED

    def test_the_same_text_elsewhere_is_no_insertion(self) -> None:
        """A line that was there before the change is not the suggestion arriving."""
        editor = Editor("retu", "a", "b", "return")
        editor.show(0, "rn")
        editor.become("  retu", "  a", "  b", "  c", "  return")
        editor.save()
        assert editor.outcome() == IGNORED

    def test_too_much_to_search_is_lost_and_no_label(self) -> None:
        editor = Editor(*(f"old {n}" for n in range(3000)))
        editor.show(1500, " x = 15")
        editor.become(*(f"new {n}" for n in range(4000)))
        assert editor.outcome() == (None, How.LOST)

    def test_what_stands_out_is_found_however_much_changes(self) -> None:
        editor = Editor(*(f"old {n}" for n in range(3000)))
        editor.show(1500, " x = 15")
        editor.put(1500, "old 1500 x = 15")
        editor.become(*(f"new {n}" for n in range(4000)), "  old 1500 x = 15")
        assert editor.marked() == [(4000, "s")]


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
    editor = Editor(*above, "    total = ", *below)
    line = len(above)
    editor.show(line, "price * 15")
    editor.wait(5.0)
    if outcome is KEPT:
        editor.put(line, "    total = price * 15")
    elif outcome is EDITED:
        editor.put(line, "    total = price * 15")
        editor.backspace(line, 2)
    elif outcome is TYPED:
        editor.type(line, "price * 15")
    elif outcome is TYPED_OVER:
        editor.type(line, "None")
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
    editor.save()
    assert editor.outcome() == outcome


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
    """Whatever happens, each ends in one label (`labels` checks that none ends in two), and all is forgotten."""
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
            editor.events += editor.tracker.closed(URI, editor.now)
        for line, _ in editor.tracker.inserted(URI):
            assert 0 <= line < max(1, len(editor.lines))
    editor.events += editor.tracker.closed(URI, editor.now)
    assert set(editor.labels()) == shown
    assert editor.tracker.next_deadline() is None


def test_a_local_change_in_a_huge_document_takes_milliseconds() -> None:
    """Generous by ten times, so that it fails for what is quadratic and not for a busy machine."""
    lines = [f"line {n}" for n in range(100_000)]
    tracker = Tracker()
    for n in range(FOLLOWED_AT_MOST):
        tracker.shown(URI, lines, 1000 * n, lines[1000 * n] + " + 15", suggestion(" + 15", str(n)), 0.0)
    versions = []
    for n in range(10):
        # Fresh strings, as from a client that sends the whole text: identity would make it too easy.
        copy = [f"line {m}" for m in range(100_000)]
        copy[50_000 + n] += "x"
        copy.insert(50_000, "new")
        versions.append(copy)
    begun = time.perf_counter()
    for version in versions:
        tracker.changed(URI, version, 1.0)
    assert (time.perf_counter() - begun) / len(versions) < 0.1


def test_an_event_cannot_carry_text() -> None:
    with pytest.raises(TypeError, match="numbers"):
        Event("s", EventKind.ACCEPTED, 0.0, {"line": "password = 'secret'"})  # type: ignore[dict-item]
