"""What became of a suggestion, told from document changes alone; its line is found whatever is done."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

import attrs
import pytest
from feedback_scene import (
    DELETED,
    EDITED,
    IGNORED,
    KEPT,
    KEPT_IN_PARTS,
    SUPERSEDED,
    SUPERSEDED_UNKNOWN,
    TAKEN_IN_PART,
    TYPED,
    TYPED_OVER,
    UNREAD,
    URI,
    Editor,
    offered,
    suggestion,
)
from hypothesis import given
from hypothesis import strategies as st

from lsp_calib.characters import shared_ends
from lsp_calib.feedback.events import SETTLE_AFTER, SURVIVAL, UNREAD_BELOW, By, Event, EventKind, How
from lsp_calib.feedback.lines import LineMap
from lsp_calib.feedback.tracked import FOLLOWED_AT_MOST
from lsp_calib.feedback.tracker import Tracker
from lsp_calib.values import Sure


class TestLabels:
    """Ways in which a suggestion can end, beside those that the server's tests tell (label_situations.py)."""

    def test_inserted_in_the_middle_of_a_line_is_kept(self) -> None:
        assert offered("print()", "'😀', x", after=")").put(0, "print('😀', x)").move_on().outcome() == KEPT

    @pytest.mark.parametrize(
        ("before", "added", "marks", "outcome"),
        [("value =", " 7", 1, KEPT), ("value = ", "7", 0, TYPED), ("value = ", "()", 0, TYPED)],
    )
    def test_what_one_key_makes_is_typed_and_gets_no_mark(
        self, before: str, added: str, marks: int, outcome: tuple[bool, How]
    ) -> None:
        """Nobody can tell a key from Tab there, and who types wants no mark; a blank before it tells."""
        editor = offered(before, added).put(0, before + added)
        assert len(editor.marked()) == marks
        assert editor.move_on().outcome() == outcome

    @given(begun=st.integers(0, 4), saves=st.integers(1, 3), accepted=st.booleans())
    def test_a_save_decides_nothing_on_what_is_on_the_screen(
        self, begun: int, saves: int, accepted: bool
    ) -> None:
        editor = offered("return ", "alpha").type(0, "alph"[:begun])
        for _ in range(saves):
            editor.wait(5.0).save()
            assert editor.labels() == {}
        if accepted:
            assert editor.put(0, "return alpha").save().outcome() == (TYPED if begun == 4 else KEPT)
        else:
            assert editor.move_on().outcome() == (TYPED_OVER if begun else IGNORED)

    def test_who_typed_at_once_has_seen_it(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return y", after=0.1).put(0, "return ", after=0.1)
        assert editor.put(1, "y", after=0.1).wait(SETTLE_AFTER).outcome() == IGNORED

    def test_a_line_that_comes_back_is_judged_by_its_end(self) -> None:
        editor = Editor("a", "return ", "b").show(1, "x + 1").put(1).become("a", "return ", "b")
        assert editor.put(1, "return None").save().outcome() == TYPED_OVER

    def test_another_line_or_a_blank_one_is_not_the_one_that_was_deleted(self) -> None:
        for gone in ("return ", ""):
            editor = Editor("a", gone, "b").show(1, "x + 1").put(1)
            assert editor.become("a", "another" if gone else "", "b").save().outcome() == DELETED

    def test_a_formatter_that_spaces_what_was_typed_inserts_nothing(self) -> None:
        assert offered("x", " = 1").type(0, "=1").put(0, "x = 1").move_on().outcome() == TYPED


class TestSavedByHabit:
    @given(story=st.lists(st.sampled_from(["save", "accept", "edit", "back", "wait", "away"]), max_size=9))
    def test_the_label_at_a_save_is_the_one_that_settles(self, story: list[str]) -> None:
        """Unless the line changes; and it does settle, whether the user leaves the line or not."""
        editor = offered("return ", "x + 1")
        texts = {
            "accept": (0, "return x + 1"),
            "edit": (0, "return y"),
            "back": (0, "return "),
            "away": (1, "#"),
        }
        for step in story:
            if step in texts:
                editor.put(*texts[step])
            elif step == "save":
                editor.save()
            else:
                editor.wait(10.0)
        said = editor.labels().get("s")
        if said is not None and not said.settled and story[-1] == "save":
            settled = editor.wait(SETTLE_AFTER).labels()["s"]
            assert settled.settled
            assert (settled.correct, settled.how) == (said.correct, said.how)

    def test_each_change_of_the_line_revises_it_once(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return x + 1").save().type(0, " + y").backspace(0, 4)
        editor.wait(SETTLE_AFTER)
        labels = [event.label for event in editor.events if event.label is not None]
        told = [(How.KEPT, False), (How.EDITED, False), (How.KEPT, False), (How.KEPT, True)]
        assert [(label.how, label.settled) for label in labels] == told


class TestWhereItWent:
    def test_a_copy_elsewhere_counts_only_while_it_may_be_one_action(self) -> None:
        """Neovim moves a line by a copy and a removal; who pastes one and edits the other later has two."""
        for seconds, outcome in ((0.2, KEPT), (5.0, EDITED)):
            editor = Editor("return ", "", "a", "b", "").show(0, "x + 1").put(0, "return x + 1")
            editor.put(3, "b", "return x + 1").put(0, "return None", after=seconds)
            assert editor.move_on().outcome() == outcome

    def test_a_line_that_was_typed_again_is_no_copy(self) -> None:
        editor = Editor("return ", "", "b", "").show(0, "x + 1").put(0, "return x + 1")
        editor.type(1, "return x + 1", after=0.01).put(0, "return None", after=0.01)
        assert editor.move_on().outcome() == EDITED

    def test_the_same_text_in_another_document_later_is_another_line(self) -> None:
        """A deleted line has 30 seconds."""
        editor = offered("return ", "x + 1").put(0, "return x + 1").put(0).wait(SETTLE_AFTER + 1)
        where = LineMap(("",), ("return x + 1",))
        editor.events += editor.tracker.changed("file:///b.py", ["return x + 1"], editor.now, where=where)
        assert editor.outcome() == EDITED


LINES = st.sampled_from(["return x + 1", "return y", "return ", "gone"])
PROGRAMS = st.sampled_from([by for by in By if by is not By.USER])


@given(changes=st.lists(st.tuples(LINES, PROGRAMS), max_size=5))
def test_what_a_program_does_is_never_a_refusal(changes: list[tuple[str, By]]) -> None:
    """Where the user has not made another line of it, none of what programs do makes it wrong."""
    editor = offered("return ", "x + 1").put(0, "return x + 1")
    for text, by in changes:
        editor.lines = ["import x" if text == "gone" else text, editor.lines[-1]]
        editor.events += editor.tracker.changed(URI, editor.lines, editor.now, by=by)
    assert editor.move_on().outcome()[0] is not False


WORDS = st.lists(st.sampled_from(["alpha", "beta_2", "gam", "delta9"]), min_size=2, max_size=5)


class TestParts:
    @given(words=WORDS, taken=st.integers(1, 4), end=st.sampled_from(["as it says", "another", "nothing"]))
    def test_a_word_taken_and_the_rest_typed(self, words: list[str], taken: int, end: str) -> None:
        """Right or wrong is what the line says; in parts it was however many words were taken."""
        text = " + ".join(words)
        editor = offered("return ", text)
        taken = min(taken, len(words) - 1)
        for n in range(1, taken + 1):
            editor.put(0, "return " + " + ".join(words[:n]))
        assert editor.tracker.is_taken("s")
        rest = text[len(" + ".join(words[:taken])) :]
        editor.type(0, {"as it says": rest, "another": " - 1", "nothing": ""}[end]).close()
        assert editor.outcome() == (KEPT_IN_PARTS if end == "as it says" else TAKEN_IN_PART)

    @given(words=WORDS, burst=st.integers(1, 2))
    def test_keys_that_come_in_twos_take_no_part(self, words: list[str], burst: int) -> None:
        text = " + ".join(words)
        editor = offered("return ", text)
        for end in range(burst, len(text) - 1, burst):
            editor.put(0, "return " + text[:end], after=0.2)
        assert editor.put(0, "return 1").save().outcome() == TYPED_OVER

    @pytest.mark.parametrize(
        ("shown", "put", "typed"),
        [("alphabet", "alpha", "ist"), ("alpha + beta", "one", "")],
        ids=["amid a word", "another text"],
    )
    def test_what_is_no_part_was_typed(self, shown: str, put: str, typed: str) -> None:
        assert offered("return ", shown).put(0, f"return {put}").type(0, typed).save().outcome() == TYPED_OVER


class TestSuperseded:
    @given(seconds=st.floats(0.0, 2.0), changed=st.booleans())
    def test_only_what_could_not_be_read(self, seconds: float, changed: bool) -> None:
        editor = offered("return ", "alpha", "first").wait(seconds)
        read = editor.now - 1000.0 >= 0.75
        editor.show(0, "beta", "second").wait(5.0)
        if changed:
            editor.type(0, "None")
        editor.close()
        unread = SUPERSEDED if changed else SUPERSEDED_UNKNOWN
        assert editor.outcome("first") == ((TYPED_OVER if changed else IGNORED) if read else unread)
        assert editor.outcome("second") == (TYPED_OVER if changed else IGNORED)

    def test_the_time_ends_when_the_line_says_something_else(self) -> None:
        """The next suggestion comes late; the first went with the key that contradicted it."""
        editor = offered("return ", "alpha", "first").type(0, "x", after=0.3).wait(5.0)
        assert editor.show(0, "yz", "second").save().outcome("first") == SUPERSEDED

    def test_alternatives_stand_beside_each_other(self) -> None:
        editor = Editor("return ", "")
        for rank, text in ((1, "alpha"), (2, "beta")):
            one = attrs.evolve(suggestion(text, text), rank=rank)
            editor.events += editor.tracker.shown(URI, editor.lines, 0, "return " + text, one, editor.now)
        editor.type(0, "None", after=1.0).save()
        assert editor.outcome("alpha") == editor.outcome("beta") == TYPED_OVER

    def test_on_another_line_nothing_is_replaced(self) -> None:
        editor = Editor("return ", "x = ", "").show(0, "alpha", "first").show(1, "beta", "second")
        assert editor.save().outcome("first") == UNREAD


class TestWhenItSettles:
    def test_who_comes_back_and_leaves_again_has_left_then(self) -> None:
        editor = (
            offered("return ", "x + 1").look_at(1, after=3.0).look_at(0, after=20.0).look_at(1, after=20.0)
        )
        left = editor.now
        assert editor.wait(60.0).outcome() == IGNORED
        assert editor.labels()["s"].at == left + SETTLE_AFTER

    @pytest.mark.parametrize(
        ("typed", "later", "outcome"), [("x + 1", "x + 2", TYPED), ("zero", "x + 1", TYPED_OVER)]
    )
    def test_what_was_typed_settles_although_the_user_comes_back(
        self, typed: str, later: str, outcome: tuple[bool, How]
    ) -> None:
        editor = (
            offered("return ", "x + 1").wait(3.0).type(0, typed).look_at(1, after=3.0).look_at(0, after=20.0)
        )
        assert editor.wait(60.0).put(0, f"return {later}").move_on().outcome() == outcome

    def test_to_come_back_too_late_changes_nothing(self) -> None:
        editor = offered("return ", "x + 1").look_at(1, after=3.0)
        editor.now += SETTLE_AFTER + 1
        assert editor.look_at(0, after=0.0).outcome() == IGNORED

    def test_what_was_accepted_settles_although_the_user_looks_at_it_again(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return x + 1").look_at(1, after=3.0)
        left = editor.now
        assert editor.look_at(0, after=20.0).wait(60.0).outcome() == KEPT
        assert editor.labels()["s"].at == left + SETTLE_AFTER

    @given(first=st.floats(0.0, 2.0), away=st.floats(0.0, 20.0), second=st.floats(0.0, 2.0))
    def test_the_time_away_is_no_time_to_read(self, first: float, away: float, second: float) -> None:
        editor = Editor("return ", "")
        times = [editor.now]
        editor.show(0, "x + 1")
        for line, seconds in ((1, first), (0, away), (1, second)):
            editor.look_at(line, after=seconds)
            times.append(editor.now)
        editor.close()
        read = times[1] - times[0] >= UNREAD_BELOW or times[3] - times[2] >= UNREAD_BELOW
        assert editor.outcome() == (IGNORED if read else UNREAD)

    def test_thirty_seconds_after_the_last_change_to_the_line(self) -> None:
        editor = offered("return ", "x + 1").put(1, "y", after=1.0).put(0, "return x + 1", after=20.0)
        changed = editor.now
        editor.put(1, "yy", after=20.0)  # of no account: elsewhere
        assert editor.wait(60.0).labels()["s"].at == changed + SETTLE_AFTER

    @pytest.mark.parametrize(("seconds", "outcome"), [(0.5, UNREAD), (1.0, IGNORED)])
    def test_who_closes_the_document_has_left_then(self, seconds: float, outcome: tuple[bool, How]) -> None:
        """Although it settles a second later, in case that it is opened again."""
        editor = offered("return ", "x + 1").wait(seconds)
        editor.events += editor.tracker.closed(URI, editor.now)
        assert editor.labels() == {}
        assert editor.wait(2.0).outcome() == outcome

    def test_thirty_seconds_after_moving_on(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return x + 1").put(1, "y", after=100.0)
        moved_on = editor.now
        assert editor.wait(29.9).labels() == {}
        assert editor.wait(60.0).labels()["s"].at == moved_on + SETTLE_AFTER

    def test_a_change_that_comes_before_a_late_tick_changes_no_label(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return x + 1").put(1, "y")
        editor.now += 31.0
        editor.lines[0] = "return x"
        editor.events += editor.tracker.changed(URI, editor.lines, editor.now)
        assert editor.outcome() == KEPT

    def test_a_change_of_white_space_keeps_no_suggestion_waiting(self) -> None:
        editor = offered("return ", "x + 1").put(1, "y")
        moved_on = editor.now
        assert editor.put(0, "  return ", after=20.0).wait(60.0).labels()["s"].at == moved_on + SETTLE_AFTER

    def test_a_suggestion_on_another_line_is_a_request_there(self) -> None:
        editor = Editor("return ", "y = ").show(0, "x + 1").wait(5.0).show(1, "2", "other").wait(SETTLE_AFTER)
        assert editor.outcome() == IGNORED
        assert "other" not in editor.labels()

    def test_showing_brings_the_document_up_to_date(self) -> None:
        editor = Editor("x = ", "y = ").show(0, "15")
        editor.lines = ["new", "x = 15", "y = "]
        assert editor.show(2, "16", "other").marked() == [(1, "s")]

    def test_showing_twice_is_showing_once(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return x + 1")
        editor.show(0, " + 2")  # the same id
        editor.save().show(0, " + 2")
        assert editor.kinds().count(EventKind.SHOWN) == 1
        assert editor.outcome() == KEPT

    def test_what_would_change_nothing_is_not_followed(self) -> None:
        editor = offered("return x", "  ")
        editor.events += editor.tracker.shown(URI, editor.lines, 9, "y", suggestion("y", "t"), editor.now)
        assert editor.save().kinds() == [EventKind.SHOWN, EventKind.SHOWN]

    def test_the_oldest_are_settled_when_there_are_too_many(self) -> None:
        editor = Editor("x = ")
        for n in range(FOLLOWED_AT_MOST + 2):
            editor.show(0, f"{n}1", str(n))
        assert list(editor.labels()) == ["0", "1"]

    def test_an_empty_document_is_one_empty_line(self) -> None:
        tracker = Tracker()
        tracker.shown(URI, [], 0, "import os", suggestion("import os"), 0.0)
        tracker.changed(URI, ["import os"], 1.0)
        assert [line for line, _ in tracker.inserted(URI)] == [0]


class TestEpisodes:
    """One line, one visit: what was shown then is named after the first of it."""

    def episodes(self, editor: Editor) -> dict[str, str]:
        return {identity: label.episode for identity, label in editor.close().labels().items()}

    def test_keystrokes_on_one_line_share_one(self) -> None:
        editor = Editor("", "y = ")
        for identity in ("a", "b", "c"):
            editor.show(0, "wrong", identity).type(0, "x")
        of = self.episodes(editor.show(1, "2", "other line"))
        assert of == {"a": "a", "b": "a", "c": "a", "other line": "other line"}

    def test_a_save_does_not_end_the_visit(self) -> None:
        editor = offered("", "wrong", "before").type(0, "x").save().type(0, "y").show(0, "wrong", "after")
        assert self.episodes(editor) == {"before": "before", "after": "before"}

    def test_to_come_back_is_another_visit(self) -> None:
        editor = offered("", "wrong", "first").type(0, "x").move_on()
        assert "first" in editor.labels()
        assert self.episodes(editor.show(0, "wrong", "second")) == {"first": "first", "second": "second"}

    def test_to_come_back_before_it_settled_is_none(self) -> None:
        """One end of the line decides about both."""
        editor = offered("", "wrong", "first").type(0, "x").put(1, "elsewhere").show(0, "wrong", "second")
        assert self.episodes(editor) == {"first": "first", "second": "first"}

    def test_what_is_shown_again_begins_the_visit_anew(self) -> None:
        """It may settle before the user leaves the line, and another one be shown there."""
        editor = offered("", "wrong", "first").look_at(1).show(0, "wrong", "first").type(0, "x").save()
        assert "first" in editor.labels()
        assert self.episodes(editor.show(0, "wrong", "second")) == {"first": "first", "second": "first"}

    def test_work_in_another_document_ends_the_visit(self) -> None:
        editor = offered("", "wrong", "first")
        editor.events += editor.tracker.changed("untitled:b", ["b"], editor.now)
        editor.wait(SETTLE_AFTER).show(0, "wrong", "second")
        assert self.episodes(editor) == {"first": "first", "second": "second"}

    def test_the_line_is_followed_when_others_come_above_it(self) -> None:
        editor = Editor("", "x = ").show(1, "1", "first").become("new", "", "x = ").show(2, "1", "second")
        assert self.episodes(editor) == {"first": "first", "second": "first"}


class TestSurvival:
    def survived(self, editor: Editor) -> list[tuple[float, bool]]:
        survived = [event for event in editor.events if event.kind is EventKind.SURVIVED]
        return [(event.data["seconds"], bool(event.data["unchanged"])) for event in survived]

    def test_recorded_beyond_settlement(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return x + 1")
        inserted = editor.now
        assert editor.move_on().outcome() == KEPT
        editor.become("new", *editor.lines, after=100.0).put(1, "return x", after=100.0).wait(1000.0)
        assert self.survived(editor) == [(30, True), (120, True), (300, False), (600, False)]
        times = [event.at - inserted for event in editor.events if event.kind is EventKind.SURVIVED]
        assert times == list(SURVIVAL)
        assert editor.tracker.deadline is None

    @pytest.mark.parametrize(
        ("then", "distance"),
        [
            ("return x + 1", 0.0),
            ("return x + 1  # all", 0.0),
            ("return f(x + 1)", 0.0),
            ("return x - 1", 0.2),
            ("return None", 0.8),  # a blank stands, too
            ("", 1.0),
        ],
    )
    def test_with_what_changed_of_what_was_accepted(self, then: str, distance: float) -> None:
        """What stands around it does not count."""
        editor = offered("return ", "x + 1").put(0, "return x + 1").put(0, *([then] if then else []))
        editor.wait(40.0)
        ((event),) = [one for one in editor.events if one.kind is EventKind.SURVIVED]
        assert event.data["distance"] == distance

    def test_a_deleted_line_did_not_survive(self) -> None:
        deleted = offered("return ", "x + 1").put(0, "return x + 1").put(0).wait(130.0)
        assert self.survived(deleted) == [(30, False), (120, False)]

    def test_ends_with_the_document(self) -> None:
        editor = offered("return ", "x + 1").put(0, "return x + 1").close()
        assert editor.tracker.deadline is None
        editor.events += editor.tracker.tick(editor.now + 1000)
        assert self.survived(editor) == []

    def test_what_was_typed_has_none(self) -> None:
        assert self.survived(offered("return ", "x + 1").type(0, "x + 1").wait(1000)) == []


class TestDiagnostics:
    """`inserted`: which lines carry a sign."""

    def test_goes_when_the_line_is_changed_or_it_is_settled(self) -> None:
        editor = offered("x = ", "15")
        assert editor.marked() == []
        assert editor.put(0, "x = 15").marked() == [(0, "s")]
        assert editor.type(0, "0").marked() == []
        assert editor.backspace(0, 1).marked() == []
        assert offered("x = ", "15").put(0, "x = 15").save().marked() == []

    def test_goes_when_it_is_reviewed_with_all_that_said_the_same(self) -> None:
        editor = Editor("x = ", "y = ").show(0, "15", "earlier").show(0, "15", "later").show(1, "16", "other")
        editor.become("x = 15", "y = 16")
        assert editor.marked() == [(0, "later"), (1, "other")]
        assert editor.tracker.reviewed("later")
        assert editor.marked() == [(1, "other")]
        assert not editor.tracker.reviewed("later")
        assert not editor.tracker.reviewed("unheard of")

    def test_a_review_is_of_what_is_there_now(self) -> None:
        editor = offered("x = ", "15", "first").put(0, "x = 15").show(0, " + y", "second")
        assert editor.tracker.reviewed("first")
        assert editor.put(0, "x = 15 + y").marked() == [(0, "second")]

    @pytest.mark.parametrize("where", [0, 3])
    def test_follows_a_line_that_is_moved(self, where: int) -> None:
        editor = Editor("a", "x = ", "b", "c", "d").show(1, "15").put(1, "x = 15")
        rest = ["a", "b", "c", "d"]
        assert editor.become(*rest[:where], "x = 15", *rest[where:]).marked() == [(where, "s")]


def test_an_event_cannot_carry_text() -> None:
    with pytest.raises(TypeError, match="numbers"):
        Event("s", EventKind.ACCEPTED, 0.0, {"line": "password = 'secret'"})  # type: ignore[dict-item]


def test_a_survivor_whose_place_is_taken_costs_no_label() -> None:
    """At one late tick the last survival of the oldest is due, and another one settles and survives."""
    most = FOLLOWED_AT_MOST
    editor = Editor(*[f"x{n} = " for n in range(most + 1)])
    for n in range(most):
        editor.show(n, "15", str(n))
    editor.become(*[f"x{n} = 15" for n in range(most)], editor.lines[most]).save().wait(SURVIVAL[-1] - 10)
    editor.show(most, "16", "last").put(most, f"x{most} = 16").put(0, "elsewhere")
    editor.now += SETTLE_AFTER + 10
    editor.events += editor.tracker.tick(editor.now)
    assert editor.outcome("last") == KEPT
    due = [e for e in editor.events if e.kind is EventKind.SURVIVED and e.suggestion_id == "0"]
    assert [event.data["seconds"] for event in due] == list(SURVIVAL)
    assert editor.tracker.deadline is not None


def test_a_moved_block_with_like_lines_keeps_its_label() -> None:
    """Told by the neighbour: the text alone stands in two places."""
    load, condition, returned = "    x = load()", "    if a:", "        return None"
    editor = Editor("def f(a, b):", load, condition, returned, "    if b:", "        ", "#").show(
        5, "return None"
    )
    editor.put(5, returned).become("def f(a, b):", condition, returned, "    if b:", returned, load, "#")
    assert editor.move_on().outcome() == KEPT


def test_deleted_before_anybody_could_read_it_is_not_wrong() -> None:
    editor = Editor("a = 1", "", "#").show(1, "net = 5").become("a = 1", "#", after=0.2)
    assert editor.move_on().outcome() == UNREAD


@pytest.mark.parametrize("suffix", [", x, y)", ", q)"])
def test_the_sure_part_is_looked_for_where_the_suggestion_was(suffix: str) -> None:
    """The same text may stand behind the cursor."""
    editor = Editor(f"f({suffix}", "")
    one = attrs.evolve(suggestion("x, y"), sure=Sure(1, 0.97))
    editor.events += editor.tracker.shown(URI, editor.lines, 0, f"f(x, y{suffix}", one, editor.now)
    editor.put(0, f"f(x, z{suffix}").move_on()
    (settled,) = [event for event in editor.events if event.label]
    assert settled.data == {"sureRight": True}


@pytest.mark.parametrize("lost", ["first", "last"])
@pytest.mark.parametrize("undone", [True, False])
def test_a_deleted_line_of_a_summary_comes_back_as_it_was(lost: str, undone: bool) -> None:
    lines = ("def f(a):", '    """Return the price', '    of all."""', "    return a")
    editor = Editor(*lines)
    places = [(1, lines[1]), (2, lines[2])]
    editor.events += editor.tracker.made(URI, editor.lines, places, suggestion("x"), editor.now)
    editor.become(*(line for at, line in enumerate(lines) if at != (1 if lost == "first" else 2)))
    if undone:
        editor.become(*lines)
    assert editor.move_on().outcome() == (KEPT if undone else EDITED)


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
    assert editor.put(5, "  return 2;").wait(SETTLE_AFTER + 1).outcome() == KEPT
    assert editor.marked() == []


def test_lines_above_and_more_of_a_comment_leave_it_kept() -> None:
    """The user may say more around the sentence; what was suggested is still there."""
    editor = editor_with_a_comment().become("// above", *COMMENT, *CODE)
    editor.become(*editor.lines[:4], " * @return one", *editor.lines[4:]).put(3, " * is a number. Always.")
    assert editor.save().outcome() == KEPT


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
    editor = editor_with_a_comment().become(*lines).save()
    assert editor.outcome() == EDITED
    assert editor.marked() == []


def test_a_change_that_is_undone_is_none() -> None:
    editor = editor_with_a_comment().become(*COMMENT[:2], " * is", " */", *CODE)
    assert editor.marked() == []
    assert editor.become(*COMMENT, *CODE).marked() == [(1, "s")]
    assert editor.close().outcome() == KEPT


@given(above=st.lists(st.sampled_from(["x", "", " */", "int g() {"]), max_size=4))
def test_a_comment_is_found_wherever_it_moves(above: list[str]) -> None:
    editor = editor_with_a_comment().become(*above, *COMMENT, *CODE)
    assert editor.marked() == [(1 + len(above), "s")]
    assert editor.save().outcome() == KEPT


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
def test_every_suggestion_followed_is_settled_exactly_once(steps: list[tuple[str, int, object]]) -> None:
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
