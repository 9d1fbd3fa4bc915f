"""Which lines count as typed by the user and finished."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types
from test_bulk_changes import Clock, change, document

from lsp_calib.feedback.events import SETTLE_AFTER
from lsp_calib.server.documents import Documents
from lsp_calib.server.events import DocumentChanged, Events
from lsp_calib.server.line_replay import BURST, MOST_CHARACTERS, MOST_LINES, FinishedLine, TypedLines

URI, OTHER = "file:///a.py", "file:///b.py"
TEXT = "import os\n\n\ndef main():\n    pass\n"
PASTED = "one two three four"


class Scene:
    """A document that is edited as a server would see it: its changes, what tells bulk, and the lines."""

    def __init__(self, text: str = TEXT) -> None:
        self.document = document(text)
        self.clock = Clock()
        events = Events()
        connection: Any = SimpleNamespace(open_document=lambda _: self.document)
        self.bulk = Documents(connection, events, self.clock)
        events.on(DocumentChanged, self._changed)
        self.lines = TypedLines(b"key")
        self.lines.opened(URI, self.document.bare_lines)

    def change(self, *changes: tuple[tuple[int, int], tuple[int, int], str], after: float = 0.1) -> None:
        """One message."""
        self.clock.now += after
        for start, end, text in changes:
            self.document.apply_change(change(start, end, text))
        self.bulk.changed(URI)

    def _changed(self, changed: DocumentChanged) -> None:
        changes = changed.changes
        self.lines.changed(
            *(URI, self.document.bare_lines, changes.region),
            old=changes.old,
            typed=changed.typed,
            changes=len(changes.all),
            now=self.clock.now,
        )

    def show(self, line: int, below: int = 0) -> None:
        self.lines.shown(URI, line, self.document.bare_lines[line], below)

    def insert(self, line: int, column: int, text: str) -> None:
        self.change(((line, column), (line, column), text))

    def type(self, line: int, column: int, text: str) -> None:
        for offset, letter in enumerate(text):
            self.insert(line, column + offset, letter)

    def save(self) -> list[str]:
        """The lines that wait then."""
        self.bulk.saved(URI)
        self.lines.saved(URI, self.clock.now)
        return self.waiting

    @property
    def waiting(self) -> list[str]:
        return sorted(one.text for one in self.lines.waiting())

    @property
    def only(self) -> FinishedLine:
        (one,) = self.lines.waiting()
        return one


@pytest.fixture
def scene() -> Scene:
    return Scene()


class TestTyped:
    def test_a_line_that_was_typed_and_left(self, scene: Scene) -> None:
        """With the document as it was then: what comes later is not in it."""
        scene.type(1, 0, "x = 12")
        assert scene.waiting == [], "the user is on it"
        scene.insert(1, 6, "\n")
        scene.type(2, 0, "y = 3")
        one = scene.only
        assert (one.text, one.line, one.ready_at) == ("x = 12", 1, pytest.approx(100.7 + SETTLE_AFTER))
        assert one.lines == ("import os", "x = 12", "", "def main():", "    pass", "")

    def test_a_request_elsewhere_leaves_it(self, scene: Scene) -> None:
        scene.type(1, 0, "x = 12")
        scene.lines.requested(URI, 1, 110.0)
        assert scene.waiting == []
        scene.lines.requested(OTHER, 1, 110.0)
        assert scene.only.ready_at == 110.0 + SETTLE_AFTER

    def test_a_save_finishes_all_lines(self, scene: Scene) -> None:
        scene.type(1, 0, "x = 12")
        scene.save()
        assert scene.only.ready_at == scene.clock.now

    def test_a_deletion_over_the_last_line_end_loses_none(self, scene: Scene) -> None:
        """As when an editor trims the lines at the end of a file while it saves it."""
        scene.type(1, 0, "x = 12")
        scene.insert(5, 0, "\n\n")
        assert scene.waiting == ["x = 12"]
        scene.change(((4, 8), (7, 0), ""))
        assert scene.document.bare_lines[-1] == "    pass"
        assert scene.waiting == ["x = 12"]

    def test_a_program_that_changes_another_document_finishes_none(self, scene: Scene) -> None:
        """The user is still on the line, in the middle of a word."""
        first = ("a = 1", "b = 2")
        scene.lines.opened(OTHER, first)
        scene.type(1, 0, "total = ne")
        changed = ("a = 3", "b = 4", "c = 5")
        now = scene.clock.now
        scene.lines.changed(OTHER, changed, (0, 2, 3), old=first, typed=False, changes=1, now=now)
        assert scene.waiting == []
        then = ("a = 34", *changed[1:])
        scene.lines.changed(OTHER, then, (0, 1, 1), old=changed, typed=True, changes=1, now=now)
        assert scene.waiting == ["total = ne"]

    def test_with_words_from_a_menu_and_closed_brackets(self, scene: Scene) -> None:
        scene.type(2, 0, "v = sett")
        scene.change(((2, 4), (2, 8), "settings_of_everything()"))
        scene.type(2, 27, "a")
        assert scene.save() == ["v = settings_of_everything(a)"]

    def test_keys_that_come_together(self, scene: Scene) -> None:
        """As from editors that collect them: with Enter, and the beginning of the next line."""
        scene.change(((1, 0), (1, 0), "a"), ((1, 1), (1, 1), " "), ((1, 2), (1, 2), "= f"))
        scene.change(((1, 5), (1, 5), "oo"), ((1, 7), (1, 7), "\nb"), ((2, 1), (2, 1), " "))
        scene.change(((2, 2), (2, 2), "= 1"), ((2, 5), (2, 5), "\n"))
        found = {one.text: one for one in scene.lines.waiting()}
        assert sorted(found) == ["a = foo", "b = 1"]
        assert found["a = foo"].lines == ("import os", "a = foo", "", "def main():", "    pass", "")
        assert found["b = 1"].lines == ("import os", "a = foo", "b = 1", "", "def main():", "    pass", "")

    def test_enter_between_brackets(self, scene: Scene) -> None:
        scene.type(2, 0, "call()")
        scene.insert(2, 5, "\n    \n")
        scene.type(3, 4, "x")
        assert scene.waiting == ["call("]

    def test_a_line_that_is_gone_back_to(self, scene: Scene) -> None:
        """It counts as it is when it is left for the last time, with what stood around it then."""
        scene.type(1, 0, "x = 12")
        scene.lines.requested(URI, 4, 101.0)
        scene.change(((1, 4), (1, 6), "y"))
        assert scene.waiting == []
        scene.insert(4, 8, "  # later")
        assert scene.only.lines[1:5] == ("x = y", "", "def main():", "    pass")

    def test_it_moves_with_the_lines_around_it(self, scene: Scene) -> None:
        scene.type(2, 0, "x = 12")
        scene.change(((0, 0), (0, 0), "from __future__ import annotations\n\n"))
        one = scene.only
        assert one.lines[2] == "x = 12"
        scene.type(4, 0, "")
        scene.change(((4, 0), (4, 6), "z"))
        assert scene.waiting == []
        assert not scene.lines.take(one)


class TestNotTyped:
    def test_loaded_lines(self, scene: Scene) -> None:
        scene.type(4, 8, "  # hm")
        assert scene.save() == []

    @pytest.mark.parametrize("text", [PASTED, f"{PASTED}\n", f"{PASTED}\n{PASTED}\n"])
    def test_pasted(self, scene: Scene, text: str) -> None:
        scene.insert(1, 0, text)
        scene.type(1, len(PASTED), " + 1")
        assert scene.save() == []

    def test_in_part_pasted(self, scene: Scene) -> None:
        scene.type(1, 0, "x = ")
        scene.insert(1, 4, PASTED)
        scene.type(1, 4 + len(PASTED), " + 1")
        assert scene.save() == []

    def test_at_once(self, scene: Scene) -> None:
        """Redo brings a short line back like a burst of keys."""
        scene.insert(1, 0, "x = 1")
        assert scene.save() == []

    def test_undone(self, scene: Scene) -> None:
        scene.type(1, 0, "x = 1")
        scene.insert(1, 5, "234")
        scene.change(((1, 5), (1, 8), ""))
        assert scene.save() == []

    def test_formatted(self, scene: Scene) -> None:
        """By a formatter during a save, which may change more than white space, or on its own."""
        scene.type(1, 0, "x=(1)")
        scene.bulk.save_begins(URI, types.TextDocumentSaveReason.Manual)
        scene.change(((1, 0), (1, 5), "x = 1"))
        assert scene.save() == []
        scene.type(2, 0, "yy=1")
        scene.insert(2, 4, "\n")
        assert scene.waiting == ["yy=1"]
        scene.change(((2, 2), (2, 3), " = "))
        assert scene.waiting == []

    def test_several_lines_at_once(self, scene: Scene) -> None:
        """As by several cursors, a rename or a comment over lines."""
        scene.type(1, 0, "x = 1")
        scene.insert(1, 5, "\n")
        scene.type(2, 0, "y = 1")
        scene.change(((1, 0), (1, 0), "a"), ((2, 0), (2, 0), "a"))
        assert scene.save() == []

    def test_two_that_were_joined(self, scene: Scene) -> None:
        scene.type(2, 0, "x = 1")
        scene.change(((2, 0), (3, 0), ""))
        assert scene.save() == []

    def test_hardly_anything(self, scene: Scene) -> None:
        scene.type(1, 0, "x=1")
        assert scene.save() == []


class TestShown:
    def test_a_line_with_a_suggestion_is_left_out(self, scene: Scene) -> None:
        scene.show(1)
        scene.type(1, 0, "x = 1")
        scene.type(2, 0, "y = 1")
        assert scene.save() == ["y = 1"]

    def test_whenever_it_was_shown(self, scene: Scene) -> None:
        scene.type(1, 0, "x = 1")
        scene.show(1)
        scene.type(1, 5, "2")
        scene.save()
        scene.show(1)
        assert scene.save() == []

    def test_also_after_it_was_accepted_and_undone(self, scene: Scene) -> None:
        scene.show(1)
        scene.insert(1, 0, PASTED)
        scene.change(((1, 0), (1, len(PASTED)), ""))
        scene.type(1, 0, "x = 1")
        assert scene.save() == []

    def test_so_are_the_lines_below_that_it_showed(self, scene: Scene) -> None:
        scene.show(1, below=2)
        for number in range(4):
            scene.type(1 + number, 0, f"x{number} = 1")
            scene.insert(1 + number, 6, "\n")
        assert scene.save() == ["x3 = 1"]

    def test_its_mark_moves_with_it(self, scene: Scene) -> None:
        scene.show(2)
        scene.insert(0, 0, "\n")
        scene.type(3, 0, "x = 1")
        scene.type(2, 0, "y = 1")
        assert scene.save() == ["y = 1"]


class TestTaking:
    def test_once(self, scene: Scene) -> None:
        scene.type(1, 0, "x = 12")
        scene.save()
        one = scene.only
        assert scene.lines.take(one)
        assert not scene.lines.take(one)
        scene.type(1, 6, "3")
        assert scene.save() == []

    def test_not_after_closing_or_forgetting(self, scene: Scene) -> None:
        scene.type(1, 0, "x = 12")
        scene.save()
        one = scene.only
        scene.lines.clear()
        assert not scene.lines.take(one)
        scene.type(2, 0, "y = 12")
        scene.save()
        one = scene.only
        scene.lines.closed(URI)
        assert not scene.lines.take(one)
        assert scene.waiting == []

    def test_a_draw_is_of_the_line_and_the_key(self) -> None:
        draws = []
        for key in (b"key", b"key", b"other"):
            scene = Scene()
            scene.lines = TypedLines(key)
            scene.lines.opened(URI, scene.document.bare_lines)
            scene.type(1, 0, "x = 12")
            scene.save()
            draws.append(scene.only.draw)
        assert draws[0] == draws[1] != draws[2]

    def test_of_many_some_are_kept_whatever_their_order(self) -> None:
        scene = Scene("")
        for number in range(3 * MOST_LINES):
            scene.type(number, 0, f"x{number} = 1")
            scene.insert(number, len(f"x{number} = 1"), "\n")
        kept = [one.line for one in scene.lines.waiting()]
        assert len(kept) == MOST_LINES
        thirds = [sum(at // MOST_LINES == third for at in kept) for third in range(3)]
        assert min(thirds) > MOST_LINES / 8, "the first ones have the same chance as the last"

    def test_what_has_not_changed_is_not_copied(self) -> None:
        scene = Scene("line\n" * 5_000)
        for number in (10, 20):
            scene.insert(number, 0, "\n")
            scene.type(number, 0, "x = 12")
        scene.save()
        first, second = sorted(scene.lines.waiting(), key=lambda one: one.line)
        assert first.before[0] is second.before[0]
        assert first.before[4_000] is second.before[4_001]

    @pytest.mark.parametrize("text", ["#" * MOST_CHARACTERS + "\n\n", "\n" * 20_001])
    def test_nothing_of_a_large_document(self, text: str) -> None:
        scene = Scene(text)
        scene.type(1, 0, "x = 12")
        assert scene.save() == []

    def test_a_region_that_does_not_fit_loses_what_was_known(self, scene: Scene) -> None:
        scene.type(1, 0, "x = 12")
        old = scene.document.bare_lines
        scene.lines.changed(URI, ("a", "b"), (0, 9, 9), old=old, typed=True, changes=1, now=200.0)
        assert scene.save() == []
        scene.lines.changed(OTHER, ("a",), (0, 1, 1), old=("",), typed=True, changes=1, now=200.0)
        assert scene.waiting == []


@attrs.frozen
class Letter:
    text: str
    typed: bool


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[str, float, float]]:
    kind = st.sampled_from(["type", "type", "type", "enter", "paste", "erase", "cut", "go", "save"])
    place = st.floats(0, 1, exclude_max=True)
    return draw(st.lists(st.tuples(kind, place, place), min_size=1, max_size=60))


@given(edits())
@settings(max_examples=60, deadline=None)
def test_every_letter_of_a_finished_line_was_typed(made: list[tuple[str, float, float]]) -> None:
    """Beside the document every letter is followed with where it comes from."""
    scene = Scene("old line\n\n")
    truth = [[Letter(letter, False) for letter in "old line"], [], []]
    at, column = 1, 0

    def put(text: str, typed: bool) -> None:
        nonlocal at, column
        scene.insert(at, column, text)
        parts = text.split("\n")
        letters = [[Letter(letter, typed) for letter in part] for part in parts]
        rest = truth[at][column:]
        truth[at : at + 1] = [truth[at][:column] + letters[0], *letters[1:]]
        at, column = at + len(parts) - 1, len(parts[-1]) + (column if len(parts) == 1 else 0)
        truth[at] = truth[at][:column] + rest

    for kind, one, two in made:
        if kind == "type":
            for letter in "word = 1"[: 1 + int(one * BURST)]:
                put(letter, True)
        elif kind == "enter":
            put("\n", True)
        elif kind == "paste":
            put(PASTED + "\n" * int(two * 3), False)
        elif kind == "erase" and column:
            scene.change(((at, column - 1), (at, column), ""))
            column -= 1
            del truth[at][column]
        elif kind == "cut" and len(truth) > 2:
            scene.change(((at, 0), (min(at + 1, len(truth) - 1), 0), ""))
            if at + 1 < len(truth):
                del truth[at]
            column = 0
        elif kind == "go":
            at = int(one * len(truth))
            column = int(two * (len(truth[at]) + 1))
        elif kind == "save":
            scene.save()
    assert scene.document.bare_lines == tuple("".join(one.text for one in line) for line in truth)
    scene.save()
    standing = {
        "".join(letter.text for letter in line)
        for line in truth
        if all(letter.typed for letter in line if letter.text.strip())
    }
    assert set(scene.waiting) <= standing
