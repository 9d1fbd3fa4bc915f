"""One suggestion that is followed: its lines as they are now, and its outcome so far. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.feedback.lines import shared_ends
from lsp_calib.text_lines import comparable
from lsp_calib.values import Suggestion

# A suggestion is settled after this many seconds without a change to its line, once the user has moved on.
SETTLE_AFTER = 30.0
# A suggestion shown for fewer seconds cannot have been read: leaving it is no evidence against it.
UNREAD_BELOW = 0.75
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

    @property
    def as_expected(self) -> bool:
        if self.line is None or not (
            self.expected in self.text if self.within else self.text == self.expected
        ):
            return False
        places = [self.line, *(one.line for one in self.below if one.as_expected and one.line is not None)]
        return len(places) == 1 + len(self.below) and places == sorted(set(places))

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
        was_expected = self.as_expected
        self.text, self.below = text, later
        self.changed_at = now
        if self.as_expected and (self.within or at_once(old, new, self.suggestion.text)):
            self.marked = True
            if self.inserted_at is None:
                self.inserted_at = now
                return [self.event(EventKind.INSERTED, now, seconds=now - self.shown_at)]
        return self._unmarked(now) if was_expected else []

    def gone(self, now: float, how: How) -> list[Event]:
        """The line no longer exists, or cannot be found."""
        assert self.line is not None
        was_expected = self.as_expected
        self.missing = Missing(now, self.line, how)
        self.line = None
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
        correct = None if how in (How.UNREAD, How.LOST) else how in (How.KEPT, How.TYPED)
        label = Label(self.suggestion.id, correct, how, now, self.episode)
        return Event(self.suggestion.id, EventKind.SETTLED, now, label=label)

    def _how(self, now: float) -> How:
        if self.as_expected:
            return How.TYPED if self.inserted_at is None else How.KEPT
        if self.inserted_at is not None:
            return How.EDITED
        if self.text != self.initial:
            return How.TYPED_OVER
        left_at = now if self.moved_on_at is None else self.moved_on_at
        unread = self.changed_at is None and left_at - self.shown_at < UNREAD_BELOW
        return How.UNREAD if unread else How.IGNORED


def at_once(old: str, new: str, suggested: str) -> bool:
    """Whether going from one line to the other inserted the suggestion, rather than typed its last character.

    White space does not count, so that a formatter's blank around an operator does not count as an insertion.
    """
    old, new = old.lstrip(), new.lstrip()
    before, after = shared_ends(old, new)
    added = "".join(new[before : len(new) - after].split())
    removed = "".join(old[before : len(old) - after].split())
    return len(added) - len(removed) >= 2 or (bool(added) and added == "".join(suggested.split()))
