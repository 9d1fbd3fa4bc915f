"""The suggestions that are followed in one document: their lines as they are now, and the labels that this
gives them.

Nothing here reads a clock, a file or an editor: each call passes the time and what has happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from lsp_calib.characters import normalised_line, shared_ends
from lsp_calib.confidence.features import is_word
from lsp_calib.feedback.events import (
    RIGHT,
    SETTLE_AFTER,
    SURVIVAL,
    TOGETHER,
    UNKNOWN,
    UNREAD_BELOW,
    By,
    Event,
    EventKind,
    How,
    Label,
    Moment,
)
from lsp_calib.feedback.lines import LineMap, LostLineError, share_changed
from lsp_calib.values import LRU, Suggestion

# Suggestions followed per document until settled, and again as many for their survival.
FOLLOWED_AT_MOST = 64
# Copies of a line that are remembered.
_COPIES = 16
# So many characters that come at once, and end where a word ends, are an accepted part. Two are often two
# quick keys in one message, or a bracket that the editor has closed.
LEAST_PART = 3
# What comes with one key where the editor closes brackets and quotes by itself.
CLOSED_BY_EDITORS = frozenset({"()", "[]", "{}", "<>", '""', "''", "``"})

Lines = tuple[str, ...]


@attrs.define
class Moments:
    """The moments at which a suggestion was shown, up to the one at which it was accepted.

    last: the latest. best: the one with the highest probability. stages: the first of each tier and of each
    range of characters typed along. accepted: what was shown when it, or the first part of it, was inserted
    at once; None: it was not. told: those that were to be kept already.
    """

    first: Moment
    last: Moment = attrs.field(init=False)
    best: Moment = attrs.field(init=False)
    stages: list[Moment] = attrs.field(init=False)
    accepted: Moment | None = attrs.field(default=None, init=False)
    told: set[Moment] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.last = self.best = self.first
        self.stages, self.told = [self.first], {self.first}

    def shown(self, moment: Moment) -> None:
        """It is shown once more. Where a part of it stands, that says nothing of what was promised before."""
        self.last = moment
        if self.accepted is not None:
            return
        if (moment.confidence or 0.0) > (self.best.confidence or 0.0):
            self.best = moment
        tiers, ranges = {one.tier for one in self.stages}, {one.typed_range for one in self.stages}
        if moment.tier not in tiers or moment.typed_range not in ranges:
            self.stages.append(moment)

    def accept(self, *, anew: bool = False) -> None:
        """It is accepted now. anew: what was accepted before was taken back, and does not count."""
        if anew or self.accepted is None:
            self.accepted = self.last

    def news(self) -> tuple[Moment, ...]:
        """What is to be kept beside the first one, and was not told before."""
        found = tuple(dict.fromkeys(one for one in (*self.stages, self.best) if one not in self.told))
        self.told.update(found)
        return found


@attrs.frozen
class Below:
    """A further line of a suggestion: the part of it that counts, where it is, and its text as it is now.

    line: None: deleted or lost; then it keeps its text, by which it may come back.
    """

    expected: str
    line: int | None
    text: str

    @property
    def as_expected(self) -> bool:
        return self.line is not None and self.expected in self.text


def _texts(lines: Sequence[Below]) -> list[str | None]:
    return [None if one.line is None else one.text for one in lines]


@attrs.frozen
class Missing:
    """A line that is not in its document. line: where it was. how: deleted, taken out by a program, or lost
    in a large change."""

    at: float
    line: int
    how: How


@attrs.frozen
class Copy:
    """A line that came whole, at some time, with the text of a line that is followed.

    beside: the lines right above it, or below it, are those that it is a copy of.
    """

    line: int
    at: float
    beside: bool


@attrs.define
class TrackedSuggestion:
    """A suggestion and its line as it is now. Texts are `normalised_line`.

    within: the line may hold more than the suggestion: `expected` is the part of it that counts.
    below: further lines of the suggestion that count, in their order. A suggestion of several lines is as
        expected while all of them stand in this order.
    missing: since its line is deleted or lost. It may come back: undone, or pasted elsewhere.
    copies: lines that say the same and came at once; where the line itself goes, one of them is it.
    in_parts: a part of it was inserted before all of it was.
    visible_since: while it can be on the screen; None: the line no longer begins as it says, or another took
        its place. read: it was there long enough. superseded: another took its place before.
    overwritten: a program has made another line of it; what the user would have done is not known. disturbed:
        a program has changed the document while it was to be taken or left.
    emptied_from: its text before it became blank: some editors empty a line before they delete it.
    saved_at: of the first save since it is as it is, or was shown. provisional: the label that was
        written then, as (correct, how), and since with each change that made another of it.
    moments: what was shown of it, and when; None: of one that was made in the document.
    suggestion, on_the_screen: as it was shown first, and last before it was inserted: what is accepted is
        what is on the screen then, with its tier.
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
    copies: Sequence[Copy] = ()
    in_parts: bool = False
    visible_since: float | None = attrs.field(
        default=attrs.Factory(lambda one: one.shown_at, takes_self=True)
    )
    read: bool = False
    superseded: bool = False
    overwritten: bool = False
    disturbed: bool = False
    emptied_from: str = ""
    saved_at: float | None = None
    provisional: tuple[bool | None, How] | None = None
    moments: Moments | None = None
    on_the_screen: Suggestion = attrs.field(
        default=attrs.Factory(lambda one: one.suggestion, takes_self=True)
    )

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
        left, saved, changed = self.moved_on_at, self.saved_at, self.changed_at
        if left is None or (saved is not None and saved < left):
            left = saved
        if left is None:
            return None
        return (left if changed is None or changed < left else changed) + SETTLE_AFTER

    @property
    def survives_at(self) -> float | None:
        if self.inserted_at is None or self.survived == len(SURVIVAL):
            return None
        return self.inserted_at + SURVIVAL[self.survived]

    def event(
        self, kind: EventKind, now: float, label: Label | None = None, **data: bool | int | float
    ) -> Event:
        """With the moments that are news, where it is inserted or gets a label."""
        if self.moments is None or (kind is not EventKind.INSERTED and label is None):
            return Event(self.suggestion.id, kind, now, data, label)
        news, accepted = self.moments.news(), self.moments.accepted
        return Event(self.suggestion.id, kind, now, data, label, news, accepted)

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

    def shown_again(self, suggestion: Suggestion, typed: int, now: float) -> None:
        """It is on the screen once more, as `suggestion`, with so many of its characters typed along."""
        if self.visible_since is None:
            self.visible_since = now
        if self.inserted_at is None:
            self.moved_on_at = self.saved_at = None
            self.on_the_screen = suggestion
            if self.moments is not None:
                self.moments.shown(Moment.of(suggestion, typed))
        self.superseded = self.disturbed = False

    def on_line(self, line: int, text: str, now: float) -> None:
        """It is shown on a line. One whose line was deleted is there: a blank line would not be found."""
        if self.missing is not None:
            self.line, self.text = line, normalised_line(text)
            self.missing, self.changed_at = None, now

    def _take_part(self) -> None:
        self.in_parts = True
        if self.moments is not None:
            self.moments.accept()

    def replaced(self, now: float) -> None:
        """Another suggestion is shown in its place."""
        self._out_of_sight(now)
        self.superseded = not self.read

    def _out_of_sight(self, now: float) -> None:
        self.read, self.visible_since = self._is_read(now), None

    def _is_read(self, now: float) -> bool:
        """Whether it was on the screen for long enough by now."""
        return self.read or (self.visible_since is not None and now - self.visible_since >= UNREAD_BELOW)

    def changed(
        self, where: LineMap, now: float, by: By, moved: Callable[[TrackedSuggestion], bool]
    ) -> list[Event]:
        """The document has changed. moved: whether a line that has left it came to another document just
        before; then it is followed there."""
        if self.line is None:
            self._look_for(where, now)
            return self._revised(now)
        return [*self._followed(where, self.line, now, by, moved), *self._revised(now)]

    def _followed(
        self,
        where: LineMap,
        before: int,
        now: float,
        by: By,
        moved: Callable[[TrackedSuggestion], bool],
    ) -> list[Event]:
        """before: the line that it was."""
        gone = How.DELETED
        if by is not By.USER:
            gone, self.disturbed = How.OVERWRITTEN, self.disturbed or self.is_open
        try:
            after = where.find(before, self.expected)
        except LostLineError:
            after, gone = None, How.LOST
        if (self.copies or where.grew) and not self.below:
            copies = _still(self.copies, self.text, where)
            if after is None or normalised_line(where.new[after]) not in (self.text, self.expected):
                for copy in copies:
                    # What a user copies up and changes is the upper one.
                    if now - copy.at <= TOGETHER or (copy.beside and self.as_expected):
                        after, copies = copy.line, [other for other in copies if other is not copy]
                        break
            came = [Copy(place, now, beside) for place, beside in where.copies(self.text, after)]
            self.copies = [*copies, *came][-_COPIES:]
        if after is None:
            if moved(self):
                return []
            events = self._gone(now, gone)
            self.below = _below(self, where, before)
            return events
        self.line = after
        if by is By.USER and not (after == before and where.only_line == before):
            self.moved_on(now)
        later = _below(self, where, after) if self.below else []
        return self._became(where.old[before], where.new[after], now, later, by)

    def _look_for(self, where: LineMap, now: float) -> None:
        """A line that was deleted or lost may be back: the change is undone, or the line pasted elsewhere.
        A blank one would be found anywhere."""
        if self.missing is None or not self.text:
            return
        self.below = _below(self, where, self.missing.line)
        place = where.appeared(self.text, self.missing.line)
        if place is not None:
            self.came_back(place, now)

    def _became(self, old: str, new: str, now: float, later: list[Below], by: By) -> list[Event]:
        """The line has changed from `old` (ends unstripped) to `new`. later: the further lines."""
        text = normalised_line(new)
        if text == self.text and (not later or _texts(self.below) == _texts(later)):
            self.below = later
            return []
        undecided = by is not By.USER and self._is_undecided
        was_expected, before = self.as_expected, self.text
        self.emptied_from = "" if text else before
        self.text, self.below = text, later
        self.changed_at = now
        from_file = by is By.FILE and undecided and not was_expected
        if self.as_expected and not from_file and (self.within or at_once(old, new, self.suggestion.text)):
            self.marked, self.overwritten = True, False
            if not was_expected:
                self.saved_at = None
            if self.inserted_at is None:
                self.inserted_at = now
                # Parts that were taken back before all of it came at once do not count.
                self.in_parts = self.in_parts and before != self.initial
                if self.moments is not None:
                    self.moments.accept(anew=not self.in_parts)
                return [self.event(EventKind.INSERTED, now, seconds=now - self.shown_at)]
        self.overwritten = from_file or ((self.overwritten or undecided) and not self.as_expected)
        if not is_on_the_way(text, self.expected):
            self._out_of_sight(now)
        elif self.inserted_at is None and not self.within and is_part(before, text, self.expected):
            self._take_part()
        return self._unmarked(now) if was_expected else []

    @property
    def _is_undecided(self) -> bool:
        """Whether the user has not said no to it so far, by what stands in the line."""
        return self.as_expected or (self.inserted_at is None and is_on_the_way(self.text, self.expected))

    def _gone(self, now: float, how: How) -> list[Event]:
        """The line no longer exists, or cannot be found. how: as the change alone says it."""
        assert self.line is not None
        was_expected = self.as_expected
        if how is not How.LOST:
            by_program = self.overwritten or (how is How.OVERWRITTEN and self._is_undecided)
            how = How.OVERWRITTEN if by_program else How.DELETED
        if self.emptied_from and self.changed_at is not None and now - self.changed_at <= TOGETHER:
            self.text = self.emptied_from
        self.missing = Missing(now, self.line, how)
        self.line = None
        self._out_of_sight(now)
        return self._unmarked(now) if was_expected else []

    def looked_for(self, now: float) -> str:
        """Its text, while its line is missing, or blank for a moment; "": it is not."""
        if self.missing is not None:
            return self.text if now - self.missing.at <= SETTLE_AFTER else ""
        return self.emptied_from if now - (self.changed_at or 0.0) <= TOGETHER else ""

    def came_back(self, line: int, now: float) -> None:
        """The line is in a document again, as it was. line: where."""
        self.line, self.missing, self.changed_at = line, None, now
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
            said = self.expected if self.within else normalised_line(self.suggestion.text.partition("\n")[0])
            distance = 1.0 if self.line is None else share_changed(said, self.text)
            unchanged = self.as_expected
            yield self.event(
                EventKind.SURVIVED, now, seconds=seconds, unchanged=unchanged, distance=round(distance, 4)
            )

    def saved(self, now: float) -> list[Event]:
        """The user has saved: the label by the present state, which an edit of the line revises."""
        if self.saved_at is None:
            self.saved_at = now
        return self._provisional(now)

    def _revised(self, now: float) -> list[Event]:
        """The label that was written at a save, if it is another one now."""
        return [] if self.provisional is None else self._provisional(now)

    def _provisional(self, now: float) -> list[Event]:
        before, event = self.provisional, self._labelled(now, EventKind.PROVISIONAL)
        return [] if self.provisional == before else [event]

    def settled(self, now: float, how: How | None = None) -> Event:
        """The event with the label by the present state. how: what has become of it, if that says it."""
        return self._labelled(now, EventKind.SETTLED, how=how)

    def _labelled(self, now: float, kind: EventKind, how: How | None = None) -> Event:
        how = how or self.how(now)
        # The line that became another tells that a suggestion nobody could read was wrong; one that stayed as
        # it was tells nothing about it.
        unknown = how in UNKNOWN or (how is How.SUPERSEDED and self.text == self.initial)
        correct = None if unknown else how in RIGHT
        self.provisional = (correct, how) if kind is EventKind.PROVISIONAL else None
        label = Label(self.suggestion.id, correct, how, now, self.episode, settled=kind is EventKind.SETTLED)
        right = None if correct is None else self._is_sure_right()
        data = {} if right is None else {"sureRight": right}
        return self.event(kind, now, label, **data)

    def how(self, now: float) -> How:
        """What has become of it by now."""
        if self.missing is not None:
            how = self.missing.how
            if how is How.DELETED and self.inserted_at is not None:
                return How.EDITED
            if how is How.DELETED and self.in_parts:
                return How.TAKEN_IN_PART
            return How.UNREAD if how is How.DELETED and self.changed_at is None and not self.read else how
        if self.overwritten:
            return How.OVERWRITTEN
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
        if self.changed_at is None and not self._is_read(left_at):
            return How.UNREAD
        return How.OVERWRITTEN if self.disturbed else How.IGNORED

    def _is_sure_right(self) -> bool | None:
        """Whether the line begins as it would with the part that can be trusted; None if there is none."""
        sure, text = self.suggestion.sure, self.suggestion.text.strip()
        if sure is None or self.below or self.within or text not in self.expected:
            return None
        before = next(
            (
                at
                for at in range(len(self.expected))
                if self.expected.startswith(text, at)
                and self.initial.startswith(self.expected[:at])
                and self.initial.endswith(self.expected[at + len(text) :])
            ),
            self.expected.rfind(text),
        )
        end = before + len(self.suggestion.text[: sure.end].lstrip())
        return self.text.startswith(self.expected[:end])


@attrs.define
class TrackedDocument:
    """A document, and the suggestions that are followed in it.

    followed: not yet settled, oldest first. surviving: inserted, settled, recorded up to ten minutes.
    deadline: when something is due, in seconds; infinite: nothing is.
    """

    lines: Lines
    followed: dict[str, TrackedSuggestion] = attrs.field(factory=dict)
    surviving: LRU[str, TrackedSuggestion] = attrs.field(factory=lambda: LRU(FOLLOWED_AT_MOST))
    deadline: float = math.inf

    def all(self) -> list[TrackedSuggestion]:
        return [*self.followed.values(), *self.surviving.values()]

    def follow(self, one: TrackedSuggestion, now: float) -> list[Event]:
        """Follow one more; the oldest settles if there are too many."""
        self.followed[one.suggestion.id] = one
        events = []
        if len(self.followed) > FOLLOWED_AT_MOST:
            events.append(self.settle(next(iter(self.followed.values())), now))
        self.times()
        return events

    def settle(self, one: TrackedSuggestion, now: float, how: How | None = None) -> Event:
        del self.followed[one.suggestion.id]
        if one.survives_at is not None:
            self.surviving[one.suggestion.id] = one
        return one.settled(now, how)

    def replaced(self, line: int, suggestion_id: str, now: float) -> None:
        """A suggestion takes the place of those that were shown on its line."""
        for other in self.followed.values():
            if other.line == line and other.suggestion.id != suggestion_id:
                other.replaced(now)

    def active(self, line: int | None, now: float) -> None:
        """The user is at a line, and has moved on from all others. None: somewhere else."""
        for one in self.followed.values():
            if line is None or one.line != line:
                one.moved_on(now)
            else:
                one.returned(now)
        self.times()

    def changed(
        self, where: LineMap, now: float, by: By, moved: Callable[[TrackedSuggestion], bool]
    ) -> list[Event]:
        """It has changed. moved: as for `TrackedSuggestion.changed`."""
        self.lines = where.new
        events = [event for one in self.all() for event in one.changed(where, now, by, moved)]
        self.times()
        return events

    def saved(self, now: float, by_hand: bool) -> list[Event]:
        events: list[Event] = []
        for one in self.followed.values():
            if not one.is_open:
                one.marked = False
                events += one.saved(now) if by_hand else []
        self.times()
        return events

    def due(self, now: float) -> list[Event]:
        """Settle and record what is due by now."""
        events: list[Event] = []
        # Survivors first: suggestions that settle afterwards may replace the oldest of them.
        for one in [*self.surviving.values(), *self.followed.values()]:
            events += one.survivals(now)
            if one.suggestion.id not in self.followed:
                if one.survives_at is None:
                    del self.surviving[one.suggestion.id]
            elif one.settles_at is not None and one.settles_at <= now:
                events.append(self.settle(one, now))
        self.times()
        return events

    def times(self) -> None:
        """Find the deadline anew, once something of a suggestion has changed."""
        found = [one.settles_at for one in self.followed.values()]
        found += [one.survives_at for one in self.all()]
        self.deadline = min((at for at in found if at is not None), default=math.inf)

    def inserted(self) -> list[tuple[int, Suggestion]]:
        """As `tracker.Tracker.inserted`."""
        by_line = {
            one.line: one.on_the_screen
            for one in self.followed.values()
            if one.line is not None and one.marked and not one.reviewed and one.saved_at is None
        }
        return sorted(by_line.items(), key=lambda item: item[0])

    def reviewed(self, suggestion_id: str) -> bool:
        """A suggestion was reviewed, and with it earlier ones that said the same of its line. False: it was
        not there."""
        named = self.followed.get(suggestion_id)
        if named is None or not named.marked or named.reviewed:
            return False
        for one in self.followed.values():
            one.reviewed = one.reviewed or (one.marked and one.line == named.line)
        return True


def _still(copies: Iterable[Copy], text: str, where: LineMap) -> list[Copy]:
    """The copies of a line that still say the same after a change, where they are now."""
    found = []
    for copy in copies:
        try:
            at = where.find(copy.line, text)
        except LostLineError:
            continue
        if at is not None and normalised_line(where.new[at]) == text:
            found.append(attrs.evolve(copy, line=at))
    return found


def _below(one: TrackedSuggestion, where: LineMap, near: int) -> list[Below]:
    """The further lines of a suggestion after a change. near: where its first line is, or was."""
    places = [_where(where, below, near) for below in one.below]
    return [
        attrs.evolve(below, line=at, text=below.text if at is None else normalised_line(where.new[at]))
        for below, at in zip(one.below, places, strict=True)
    ]


def _where(where: LineMap, below: Below, near: int) -> int | None:
    """Where a further line of a suggestion is now; None if it is gone, or cannot be found."""
    if below.line is None:
        return where.appeared(below.text, near)
    try:
        return where.find(below.line, below.expected)
    except LostLineError:
        return None


def is_part(old: str, new: str, expected: str) -> bool:
    """Whether going from one line to the other inserted a part of what is expected, rather than typed it.

    Editors accept parts word by word: what came ends where a word ends, and has LEAST_PART characters or more
    besides white space. All three lines are `normalised_line`, and the new one is on its way to what is
    expected.

    >>> is_part("x =", "x = net", "x = net + tax"), is_part("x =", "x = ne", "x = net + tax")
    (True, False)
    """
    before, after = shared_ends(old, new)
    added = "".join(new[before : len(new) - after].split())
    if before + after < len(old) or len(added) < LEAST_PART:
        return False
    end, _ = shared_ends(new, expected)
    if not is_on_the_way(old, expected):
        return False
    return not (is_word(expected[end - 1 : end]) and is_word(expected[end : end + 1]))


def solid(text: str) -> str:
    """Without white space, which editors change on their own."""
    return "".join(text.split())


def is_on_the_way(line: str, expected: str) -> bool:
    """Whether a line is the expected one but for a piece that is still to come."""
    return sum(shared_ends(line, expected)) == len(line)


def at_once(old: str, new: str, suggested: str) -> bool:
    """Whether going from one line to the other inserted the suggestion, rather than typed its last character.

    White space does not count, so that a formatter's blank around an operator does not count as an insertion,
    unless it is the suggestion's own. One character, and a pair that the editor closes by itself, count as
    typed, also where they are all of the suggestion: the change is ambiguous, and a line that was typed
    needs no mark.
    """
    old, new = old.lstrip(), new.lstrip()
    before, after = shared_ends(old, new)
    piece = new[before : len(new) - after]
    added, removed = solid(piece), solid(old[before : len(old) - after])
    if added in CLOSED_BY_EDITORS:
        return False
    return len(added) - len(removed) >= 2 or (bool(added) and len(piece) >= 2 and piece == suggested)
