"""One suggestion that is followed: its lines as they are now, and its outcome so far. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from lsp_calib.feedback.events import RIGHT, Event, EventKind, How, Label
from lsp_calib.feedback.lines import shared_ends
from lsp_calib.text_lines import comparable
from lsp_calib.values import Suggestion

# A suggestion is settled after this many seconds without a change to its line, once the user has moved on.
SETTLE_AFTER = 30.0
# A suggestion shown for fewer seconds cannot have been read: leaving it is no evidence against it.
UNREAD_BELOW = 0.75
# So many characters that come at once, and end where a word ends, are an accepted part. Two are often two
# quick keys in one message, or a bracket that the editor has closed.
LEAST_PART = 3
# What comes with one key where the editor closes brackets and quotes by itself.
CLOSED_BY_EDITORS = frozenset({"()", "[]", "{}", "<>", '""', "''", "``"})
# Seconds after insertion at which it is recorded whether the line is still as suggested.
SURVIVAL = (30, 120, 300, 600)


@attrs.frozen
class Below:
    """A further line of a suggestion: the part of it that counts, where it is, and its text as it is now.

    line: None: deleted or lost.
    """

    expected: str
    line: int | None
    text: str

    @property
    def as_expected(self) -> bool:
        return self.line is not None and self.expected in self.text


@attrs.frozen
class Missing:
    """A line that is not in its document. line: where it was. how: deleted, or lost in a large change."""

    at: float
    line: int
    how: How


@attrs.define
class Followed:
    """A suggestion and its line as it is now. Texts are `comparable`.

    within: the line may hold more than the suggestion: `expected` is the part of it that counts.
    below: further lines of the suggestion that count, in their order. A suggestion of several lines is as
        expected while all of them stand in this order.
    missing: since its line is deleted or lost. It may come back: undone, or pasted elsewhere.
    in_parts: a part of it was inserted before all of it was. announced: characters of a part, without white
        space, that the editor says was accepted, and that the next change may bring.
    displayed: the editor has said that it is on the screen; `shown_at` is then.
    visible_since: while it can be on the screen; None: the line no longer begins as it says, or another took
        its place. read: it was there long enough. superseded: another took its place before.
    """

    suggestion: Suggestion
    episode: str
    line: int | None  # None: deleted or lost
    initial: str
    expected: str
    shown_at: float
    text: str
    changed_at: float | None = None
    moved_on_at: float | None = None
    inserted_at: float | None = None
    marked: bool = False  # inserted and unchanged since
    reviewed: bool = False
    survived: int = 0  # how many of SURVIVAL are recorded
    within: bool = False
    below: list[Below] = attrs.field(factory=list)
    missing: Missing | None = None
    in_parts: bool = False
    announced: int = 0
    displayed: bool = False
    visible_since: float | None = attrs.field(
        default=attrs.Factory(lambda one: one.shown_at, takes_self=True)
    )
    read: bool = False
    superseded: bool = False

    @property
    def as_expected(self) -> bool:
        if self.line is None or not (
            self.expected in self.text if self.within else self.text == self.expected
        ):
            return False
        places = [self.line, *(one.line for one in self.below if one.as_expected and one.line is not None)]
        return len(places) == 1 + len(self.below) and places == sorted(set(places))

    @property
    def is_open(self) -> bool:
        """Whether it may be on the screen, for the user who is still at its line to take or leave."""
        waits = self.visible_since is not None and self.moved_on_at is None
        return waits and self.inserted_at is None and not self.as_expected

    @property
    def settles_at(self) -> float | None:
        if self.missing is not None:
            return self.missing.at + SETTLE_AFTER
        if self.moved_on_at is None:
            return None
        last = self.moved_on_at if self.changed_at is None else max(self.moved_on_at, self.changed_at)
        return last + SETTLE_AFTER

    @property
    def survives_at(self) -> float | None:
        if self.inserted_at is None or self.survived == len(SURVIVAL):
            return None
        return self.inserted_at + SURVIVAL[self.survived]

    def event(self, kind: EventKind, now: float, **data: bool | int | float) -> Event:
        return Event(self.suggestion.id, kind, now, data)

    def moved_on(self, now: float) -> None:
        if self.moved_on_at is None:
            self.moved_on_at = now

    def returned(self, now: float) -> None:
        """The user is at its line again: what is not taken yet can still be.

        One that was inserted settles as if the user had stayed away: it has its answer.
        """
        if self.moved_on_at is None or self.inserted_at is not None or self.as_expected:
            return
        if self.visible_since is not None:
            self._out_of_sight(self.moved_on_at)  # nobody reads a line from elsewhere
            self.visible_since, self.moved_on_at = now, None

    def shown_again(self, now: float) -> None:
        """It is on the screen once more."""
        if self.visible_since is None:
            self.visible_since = now
        if self.inserted_at is None:
            self.moved_on_at = None
        self.superseded = False

    def on_screen(self, now: float) -> list[Event]:
        """The editor says that it is on the screen now, for the first time: it was not there before."""
        if self.displayed or self.changed_at is not None or self.visible_since is None:
            return []
        event = self.event(EventKind.DISPLAYED, now, seconds=now - self.shown_at)
        self.displayed, self.shown_at, self.visible_since = True, now, now
        return [event]

    def part_accepted(self, units: int, now: float) -> list[Event]:
        """The editor says that the user has accepted the first `units` UTF-16 units of the suggestion.

        The document decides: its line has the part already, or gets it with the next change.
        """
        if units <= 0 or self.within or self.inserted_at is not None:
            return []
        part = self.suggestion.text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore")
        self.announced = len(_solid(part.partition("\n")[0]))
        self._confirm_part()
        return [self.event(EventKind.TAKEN_IN_PART, now)]

    def _confirm_part(self) -> None:
        grown = len(_solid(self.text)) - len(_solid(self.initial))
        if self.announced and grown >= self.announced and _is_on_the_way(self.text, self.expected):
            self.in_parts, self.announced = True, 0

    def replaced(self, now: float) -> None:
        """Another suggestion is shown in its place."""
        self._out_of_sight(now)
        self.superseded = not self.read

    def _out_of_sight(self, now: float) -> None:
        self.read, self.visible_since = self._is_read(now), None

    def _is_read(self, now: float) -> bool:
        """Whether it was on the screen for long enough by now."""
        return self.read or (self.visible_since is not None and now - self.visible_since >= UNREAD_BELOW)

    def became(self, old: str, new: str, now: float, below: Sequence[tuple[int | None, str]]) -> list[Event]:
        """The line has changed from `old` (ends unstripped) to `new`.

        below: for each further line where it is now, None if it is gone, and its text.
        """
        text = comparable(new)
        later = [
            Below(one.expected, line, comparable(text))
            for one, (line, text) in zip(self.below, below, strict=True)
        ]
        if text == self.text and [one.text for one in later] == [one.text for one in self.below]:
            self.below = later
            return []
        was_expected, before = self.as_expected, self.text
        self.text, self.below = text, later
        self.changed_at = now
        if self.as_expected and (self.within or at_once(old, new, self.suggestion.text)):
            self.marked = True
            if self.inserted_at is None:
                self.inserted_at = now
                # Parts that were taken back before all of it came at once do not count.
                self.in_parts = self.in_parts and before != self.initial
                return [self.event(EventKind.INSERTED, now, seconds=now - self.shown_at)]
        if not _is_on_the_way(text, self.expected):
            self._out_of_sight(now)
        elif self.inserted_at is None and not self.within:
            self.in_parts = self.in_parts or is_part(before, text, self.expected)
            self._confirm_part()
        self.announced = 0
        return self._unmarked(now) if was_expected else []

    def gone(self, now: float, how: How) -> list[Event]:
        """The line no longer exists, or cannot be found."""
        assert self.line is not None
        was_expected = self.as_expected
        self.missing = Missing(now, self.line, how)
        self.line = None
        self._out_of_sight(now)
        return self._unmarked(now) if was_expected else []

    def came_back(self, lines: Sequence[int], now: float) -> None:
        """The line, and those below, are in the document again, as they were. lines: where."""
        self.line, *below = lines
        self.below = [attrs.evolve(one, line=line) for one, line in zip(self.below, below, strict=True)]
        self.missing, self.changed_at = None, now
        self.marked = self.as_expected and self.inserted_at is not None

    def _unmarked(self, now: float) -> list[Event]:
        self.marked = False
        if self.inserted_at is None:
            return []
        return [self.event(EventKind.CHANGED, now, seconds=now - self.inserted_at)]

    def survivals(self, now: float) -> Iterator[Event]:
        while (due := self.survives_at) is not None and due <= now:
            seconds = SURVIVAL[self.survived]
            self.survived += 1
            yield self.event(EventKind.SURVIVED, now, seconds=seconds, unchanged=self.as_expected)

    def settled(self, now: float) -> Event:
        """The event with the label by the present state."""
        how = self._how(now) if self.missing is None else self.missing.how
        if how is How.DELETED and self.inserted_at is not None:
            how = How.EDITED
        elif how is How.DELETED and self.in_parts:
            how = How.TAKEN_IN_PART
        # The line that became another tells that a suggestion nobody could read was wrong; one that stayed as
        # it was tells nothing about it.
        unknown = how in (How.UNREAD, How.LOST) or (how is How.SUPERSEDED and self.text == self.initial)
        correct = None if unknown else how in RIGHT
        label = Label(self.suggestion.id, correct, how, now, self.episode)
        return Event(self.suggestion.id, EventKind.SETTLED, now, label=label)

    def _how(self, now: float) -> How:
        if self.as_expected:
            if self.in_parts:
                return How.KEPT_IN_PARTS
            return How.TYPED if self.inserted_at is None else How.KEPT
        if self.inserted_at is not None:
            return How.EDITED
        if self.in_parts:
            return How.TAKEN_IN_PART
        if self.superseded:
            return How.SUPERSEDED
        if self.text != self.initial:
            return How.TYPED_OVER
        left_at = now if self.moved_on_at is None else self.moved_on_at
        unread = self.changed_at is None and not self._is_read(left_at)
        return How.UNREAD if unread else How.IGNORED


def is_part(old: str, new: str, expected: str) -> bool:
    """Whether going from one line to the other inserted a part of what is expected, rather than typed it.

    Editors accept parts word by word: what came ends where a word ends, and has LEAST_PART characters or more
    besides white space. All three lines are `comparable`.

    >>> is_part("x =", "x = net", "x = net + tax"), is_part("x =", "x = ne", "x = net + tax")
    (True, False)
    """
    if not (_is_on_the_way(old, expected) and _is_on_the_way(new, expected)):
        return False
    before, after = shared_ends(old, new)
    added = "".join(new[before : len(new) - after].split())
    if before + after < len(old) or len(added) < LEAST_PART:
        return False
    end, _ = shared_ends(new, expected)
    return not (_is_of_a_word(expected[end - 1 : end]) and _is_of_a_word(expected[end : end + 1]))


def _solid(text: str) -> str:
    """Without white space, which editors change on their own."""
    return "".join(text.split())


def _is_on_the_way(line: str, expected: str) -> bool:
    """Whether a line is the expected one but for a piece that is still to come."""
    return sum(shared_ends(line, expected)) == len(line)


def _is_of_a_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def at_once(old: str, new: str, suggested: str) -> bool:
    """Whether going from one line to the other inserted the suggestion, rather than typed its last character.

    White space does not count, so that a formatter's blank around an operator does not count as an insertion,
    unless it is the suggestion's own. One character, and a pair that the editor closes by itself, count as
    typed, also where they are all of the suggestion: the change does not tell, and who has typed them wants
    no mark on the line.
    """
    old, new = old.lstrip(), new.lstrip()
    before, after = shared_ends(old, new)
    piece = new[before : len(new) - after]
    added, removed = _solid(piece), _solid(old[before : len(old) - after])
    if added in CLOSED_BY_EDITORS:
        return False
    return len(added) - len(removed) >= 2 or (bool(added) and len(piece) >= 2 and piece == suggested)
