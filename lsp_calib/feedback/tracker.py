"""Follows shown suggestions through document changes alone, to find out their outcomes.

Nothing here reads a clock, a file or an editor: each call passes the time and the event. Editors need not
report that a suggestion was accepted: the document shows it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import attrs

from lsp_calib.feedback.events import (
    RIGHT,
    SETTLE_AFTER,
    SURVIVAL,
    UNREAD_BELOW,
    Event,
    EventKind,
    How,
    Label,
)
from lsp_calib.feedback.lines import LineMap, LostLineError, at_once, is_on_the_way, is_part, solid
from lsp_calib.lru import LRU
from lsp_calib.text_lines import normalised_line
from lsp_calib.values import Suggestion

_log = logging.getLogger(__name__)

# Suggestions followed per document until settled, and again as many for their survival.
FOLLOWED_AT_MOST = 64


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


@attrs.frozen
class Missing:
    """A line that is not in its document. line: where it was. how: deleted, or lost in a large change."""

    at: float
    line: int
    how: How


@attrs.define
class TrackedSuggestion:
    """A suggestion and its line as it is now. Texts are `normalised_line`.

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

    def on_line(self, line: int, text: str, now: float) -> None:
        """It is shown on a line. One whose line was deleted is there: a blank line would not be found."""
        if self.missing is not None:
            self.line, self.text = line, normalised_line(text)
            self.missing, self.changed_at = None, now

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
        self.announced = len(solid(part.partition("\n")[0]))
        self._confirm_part()
        return [self.event(EventKind.TAKEN_IN_PART, now)]

    def _confirm_part(self) -> None:
        grown = len(solid(self.text)) - len(solid(self.initial))
        if self.announced and grown >= self.announced and is_on_the_way(self.text, self.expected):
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

    def became(self, old: str, new: str, now: float, later: list[Below]) -> list[Event]:
        """The line has changed from `old` (ends unstripped) to `new`. later: the further lines."""
        text = normalised_line(new)
        present = [(one.line is None, one.text) for one in self.below]
        if text == self.text and [(one.line is None, one.text) for one in later] == present:
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
        if not is_on_the_way(text, self.expected):
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

    def came_back(self, line: int, now: float) -> None:
        """The line is in the document again, as it was. line: where."""
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
            yield self.event(EventKind.SURVIVED, now, seconds=seconds, unchanged=self.as_expected)

    def settled(self, now: float) -> Event:
        """The event with the label by the present state."""
        how = self._how(now) if self.missing is None else self.missing.how
        if how is How.DELETED and self.inserted_at is not None:
            how = How.EDITED
        elif how is How.DELETED and self.in_parts:
            how = How.TAKEN_IN_PART
        elif how is How.DELETED and self.changed_at is None and not self.read:
            how = How.UNREAD
        # The line that became another tells that a suggestion nobody could read was wrong; one that stayed as
        # it was tells nothing about it.
        unknown = how in (How.UNREAD, How.LOST) or (how is How.SUPERSEDED and self.text == self.initial)
        correct = None if unknown else how in RIGHT
        label = Label(self.suggestion.id, correct, how, now, self.episode)
        right = None if correct is None else self._is_sure_right()
        data = {} if right is None else {"sureRight": right}
        return Event(self.suggestion.id, EventKind.SETTLED, now, data, label=label)

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


@attrs.frozen
class _Visit:
    """The line that the user is on, and the episode of the suggestions shown there."""

    line: int
    episode: str


@attrs.define
class _Document:
    """followed: not yet settled, oldest first. surviving: inserted, settled, recorded up to ten minutes.
    visit: None once the user has moved on from the line where a suggestion was shown last."""

    lines: tuple[str, ...]
    followed: dict[str, TrackedSuggestion] = attrs.field(factory=dict)
    surviving: LRU[str, TrackedSuggestion] = attrs.field(factory=lambda: LRU(FOLLOWED_AT_MOST))
    visit: _Visit | None = None

    def all(self) -> Iterator[TrackedSuggestion]:
        yield from self.followed.values()
        yield from self.surviving.values()

    def episode_at(self, line: int) -> str | None:
        """The episode that a suggestion shown on this line now belongs to; None if it begins one.

        A save or a time-out may settle earlier suggestions while the user stays on the line. Suggestions that
        are not settled when the user comes back share their outcome with those shown then.
        """
        if self.visit is not None and self.visit.line == line:
            return self.visit.episode
        return next((one.episode for one in self.followed.values() if one.line == line), None)

    def settle(self, one: TrackedSuggestion, now: float) -> Event:
        del self.followed[one.suggestion.id]
        if one.survives_at is not None:
            self.surviving[one.suggestion.id] = one
        return one.settled(now)

    def each(
        self, ones: Iterable[TrackedSuggestion], work: Callable[[TrackedSuggestion], Iterable[Event]]
    ) -> list[Event]:
        """The events that `work` gives for each suggestion. An error loses only the events of its own
        suggestion."""
        events: list[Event] = []
        for one in list(ones):
            try:
                events += work(one)
            except Exception:  # noqa: BLE001 - whatever it is, the labels of the others are not lost
                _log.exception("A suggestion cannot be followed any further. It gets no label.")
                self.followed.pop(one.suggestion.id, None)
                self.surviving.pop(one.suggestion.id, None)
        return events


class Tracker:
    """Distinguishes suggestions that were kept, typed, edited, taken in part, typed over, superseded, ignored
    or not even read.

    `now` is in seconds, of one clock; Unix time where the events are to be stored. Lines count from 0 and
    come without their line ends. Each call first handles everything that is due by `now`, so that a late
    `tick` changes no label. Not for use from several threads at once.
    """

    def __init__(self) -> None:
        self._documents: dict[str, _Document] = {}

    def shown(
        self,
        uri: str,
        lines: Sequence[str],
        line: int,
        expected_line: str,
        suggestion: Suggestion,
        now: float,
        data: Mapping[str, float] = MappingProxyType({}),
    ) -> list[Event]:
        """Follow a suggestion that is now shown. This counts as a request on its line as well.

        lines: the whole document as it is now. data: of the event that says so.
        expected_line: what the line would be with (the first line of) the suggestion inserted.
        The first of several (rank 1) takes the place of those that were shown on this line before. A
        suggestion that is followed already is on the screen again; otherwise it stays as it is. One that
        would change nothing, or lies outside the document, is reported as shown but not followed: its outcome
        could never be known.
        """
        events = self.tick(now)
        document = self._documents.get(uri)
        lines = tuple(lines)
        if document is not None and document.lines != lines:
            events += self.changed(uri, lines, now)
        self._active(uri, line, now)
        document = self._documents.get(uri)
        if document is not None and suggestion.rank == 1:  # alternatives stand beside the first
            for other in document.followed.values():
                if other.line == line and other.suggestion.id != suggestion.id:
                    other.replaced(now)
        if any(self._named(suggestion.id)):
            if document is not None and (one := document.followed.get(suggestion.id)):
                one.on_line(line, lines[line], now)
                one.shown_again(now)
                if one.line == line:
                    document.visit = _Visit(line, one.episode)
            return events
        events.append(Event(suggestion.id, EventKind.SHOWN, now, dict(data)))
        # An empty document is one empty line, however the caller splits it.
        lines = lines or ("",)
        expected = normalised_line(expected_line)
        if not 0 <= line < len(lines) or normalised_line(lines[line]) == expected:
            return events
        initial = normalised_line(lines[line])
        document = self._documents.setdefault(uri, _Document(lines))
        episode = document.episode_at(line) or suggestion.id
        document.visit = _Visit(line, episode)
        one = TrackedSuggestion(suggestion, episode, line, initial, expected, now, initial)
        self._follow_at_most(document, one, events, now)
        return events

    def made(
        self,
        uri: str,
        lines: Sequence[str],
        places: Sequence[tuple[int, str]],
        suggestion: Suggestion,
        now: float,
    ) -> list[Event]:
        """Follow a suggestion that has just been put into the document, perhaps as several lines.

        lines: the whole document as it is now. places: (line, text) of each of its lines: what counts is
            whether the line holds the text. At least one. The user may add to such lines, as to a comment.
        """
        events = self.changed(uri, lines, now)
        (line, expected), *below = [(at, normalised_line(text)) for at, text in places]
        document = self._documents.setdefault(uri, _Document(tuple(lines)))
        text = normalised_line(document.lines[line])
        one = TrackedSuggestion(
            *(suggestion, suggestion.id, line, "", expected, now, text),
            changed_at=now,
            inserted_at=now,
            marked=True,
            within=True,
            below=[Below(part, at, normalised_line(document.lines[at])) for at, part in below],
        )
        self._follow_at_most(document, one, events, now)
        shown, inserted = EventKind.SHOWN, one.event(EventKind.INSERTED, now, seconds=0.0)
        return [*events, Event(suggestion.id, shown, now), inserted]

    def displayed(self, suggestion_id: str, now: float) -> list[Event]:
        """The editor says that a suggestion is on the screen: it can be read from now on."""
        return self._hinted(suggestion_id, now, lambda one: one.on_screen(now))

    def part_accepted(self, suggestion_id: str, units: int, now: float) -> list[Event]:
        """The editor says that the first `units` UTF-16 units of a suggestion were accepted."""
        return self._hinted(suggestion_id, now, lambda one: one.part_accepted(units, now))

    def drop(self, suggestion_id: str) -> None:
        """Follow a suggestion no longer; it gets no label here."""
        for uri, document in list(self._documents.items()):
            document.followed.pop(suggestion_id, None)
            document.surviving.pop(suggestion_id, None)
            self._forget_if_empty(uri)

    def requested(self, uri: str, line: int, now: float) -> list[Event]:
        """The editor asked for something on this line: the user is there, and has left all others."""
        events = self.tick(now)
        self._active(uri, line, now)
        return events

    def changed(self, uri: str, lines: Sequence[str], now: float) -> list[Event]:
        """The document was edited. lines: the whole document as it is now."""
        events = self.tick(now)
        document = self._documents.get(uri)
        if document is None:
            self._active(uri, None, now)
            return events
        new = tuple(lines) or ("",)
        where = LineMap(document.lines, new)
        if where.is_identity:
            return events
        old, document.lines = document.lines, new
        if document.visit is not None and not where.touches_only(document.visit.line):
            document.visit = None
        self._active(uri, None, now, but=document)
        return events + document.each(
            document.all(), lambda one: self._follow(document, one, old, where, now)
        )

    def saved(self, uri: str, now: float) -> list[Event]:
        """The document was saved: settle all that is followed in it, but for what can still be accepted.

        Not to be called for a save that an editor makes by itself.
        """
        return self._settle(uri, now, lambda one: not one.is_open)

    def closed(self, uri: str, now: float) -> list[Event]:
        """The document was closed: settle all that is followed in it, and forget it."""
        events = self._settle(uri, now, lambda _: True)
        self._documents.pop(uri, None)
        return events

    def _settle(self, uri: str, now: float, chosen: Callable[[TrackedSuggestion], bool]) -> list[Event]:
        events = self.tick(now)
        document = self._documents.get(uri)
        if document is not None:
            ones = [one for one in document.followed.values() if chosen(one)]
            events += document.each(ones, lambda one: [document.settle(one, now)])
            self._forget_if_empty(uri)
        return events

    def tick(self, now: float) -> list[Event]:
        """Settle and record what is due by now."""
        events: list[Event] = []
        for uri, document in list(self._documents.items()):
            # Survivors first: suggestions that settle afterwards may replace the oldest of them.
            for ones in (document.surviving, document.followed):
                events += document.each(ones.values(), partial(self._due, document, now))
            self._forget_if_empty(uri)
        return events

    @staticmethod
    def _due(document: _Document, now: float, one: TrackedSuggestion) -> Iterator[Event]:
        yield from one.survivals(now)
        if one.suggestion.id not in document.followed:
            if one.survives_at is None:
                del document.surviving[one.suggestion.id]
        elif one.settles_at is not None and one.settles_at <= now:
            yield document.settle(one, now)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do next, in seconds; None if nothing is pending."""
        times: list[float | None] = []
        for document in self._documents.values():
            times += [one.settles_at for one in document.followed.values()]
            times += [one.survives_at for one in document.all()]
        return min((at for at in times if at is not None), default=None)

    def inserted(self, uri: str) -> list[tuple[int, Suggestion]]:
        """(line, suggestion) for each line that carries a diagnostic, in order of lines.

        That is: inserted, not changed since, not settled, not reviewed; the latest suggestion where several
        said the same of a line.
        """
        document = self._documents.get(uri)
        if document is None:
            return []
        by_line = {
            one.line: one.suggestion
            for one in document.followed.values()
            if one.line is not None and one.marked and not one.reviewed
        }
        return sorted(by_line.items(), key=lambda item: item[0])

    def is_taken(self, suggestion_id: str) -> bool:
        """Whether a suggestion that is followed, or a part of it, was inserted at once and not typed."""
        return any(one.inserted_at is not None or one.in_parts for _, one in self._named(suggestion_id))

    def follows(self, uri: str) -> bool:
        """Whether anything is followed in a document."""
        return uri in self._documents

    def place_of(self, suggestion_id: str) -> tuple[str, int] | None:
        """(URI, line) of a suggestion that is followed; None if it is not, or its line is gone."""
        found = self._named(suggestion_id)
        return next(((uri, one.line) for uri, one in found if one.line is not None), None)

    def _named(self, suggestion_id: str) -> Iterator[tuple[str, TrackedSuggestion]]:
        """A suggestion that is followed, with the URI of its document; nothing if it is not."""
        for uri, document in self._documents.items():
            one = document.followed.get(suggestion_id) or document.surviving.get(suggestion_id)
            if one is not None:
                yield uri, one

    def _hinted(
        self, suggestion_id: str, now: float, work: Callable[[TrackedSuggestion], list[Event]]
    ) -> list[Event]:
        """What the editor says of a suggestion; nothing of one that is not followed, or has settled."""
        events = self.tick(now)
        for document in list(self._documents.values()):
            if suggestion_id in document.followed:
                events += document.each([document.followed[suggestion_id]], work)
        return events

    def reviewed(self, suggestion_id: str) -> bool:
        """Record a review: `inserted` leaves the suggestion's line out from now on. False: it was not
        there."""
        for document in self._documents.values():
            named = document.followed.get(suggestion_id)
            if named is None or not named.marked or named.reviewed:
                continue
            # Earlier suggestions that said the same of this line were reviewed with it.
            for one in document.followed.values():
                one.reviewed = one.reviewed or (one.marked and one.line == named.line)
            return True
        return False

    @staticmethod
    def _follow_at_most(document: _Document, one: TrackedSuggestion, events: list[Event], now: float) -> None:
        """Follow one more; the oldest settles if there are too many."""
        document.followed[one.suggestion.id] = one
        if len(document.followed) > FOLLOWED_AT_MOST:
            events.append(document.settle(next(iter(document.followed.values())), now))

    def _follow(
        self, document: _Document, one: TrackedSuggestion, old: tuple[str, ...], where: LineMap, now: float
    ) -> list[Event]:
        if one.line is None:
            self._look_for(document, one, where, now)
            return []
        before, gone = one.line, How.DELETED
        try:
            after = where.find(before, one.expected)
        except LostLineError:
            after, gone = None, How.LOST
        if after is None:
            events = one.gone(now, gone)
            one.below = _below(one, where, document.lines, before)
            return events
        one.line = after
        if not (after == before and where.touches_only(before)):
            one.moved_on(now)
        later = _below(one, where, document.lines, after)
        return one.became(old[before], document.lines[after], now, later)

    @staticmethod
    def _look_for(document: _Document, one: TrackedSuggestion, where: LineMap, now: float) -> None:
        """A line that was deleted or lost may be back: the change is undone, or the line pasted elsewhere.
        A blank one would be found anywhere."""
        if one.missing is None or not one.text:
            return
        one.below = _below(one, where, document.lines, one.missing.line)
        place = where.appeared(one.text, one.missing.line)
        if place is not None:
            one.came_back(place, now)

    def _active(self, uri: str, line: int | None, now: float, but: _Document | None = None) -> None:
        """Record activity on a line (None: unknown lines) of a document: the user is there, and has moved on
        from all others."""
        for other, document in self._documents.items():
            if document is not but:
                for one in document.followed.values():
                    if other != uri or line is None or one.line != line:
                        one.moved_on(now)
                    else:
                        one.returned(now)
                if document.visit is not None and (other != uri or document.visit.line != line):
                    document.visit = None

    def _forget_if_empty(self, uri: str) -> None:
        document = self._documents[uri]
        if not document.followed and not document.surviving and document.visit is None:
            del self._documents[uri]


def _below(one: TrackedSuggestion, where: LineMap, lines: Sequence[str], near: int) -> list[Below]:
    """The further lines of a suggestion after a change. near: where its first line is, or was."""
    places = [_where(where, below, near) for below in one.below]
    return [
        attrs.evolve(below, line=at, text=below.text if at is None else normalised_line(lines[at]))
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
