"""Follows shown suggestions through document changes alone, to find out their outcomes.

Nothing here reads a clock, a file or an editor: each call passes the time and the event. Editors need not
report that a suggestion was accepted: the document shows it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import attrs

from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.feedback.lines import LineMap, LostLineError, shared_ends
from lsp_calib.text_lines import comparable
from lsp_calib.values import Suggestion

_log = logging.getLogger(__name__)

# A suggestion is settled after this many seconds without a change to its line, once the user has moved on.
SETTLE_AFTER = 30.0
# A suggestion shown for fewer seconds cannot have been read: leaving it is no evidence against it.
UNREAD_BELOW = 0.75
# Seconds after insertion at which it is recorded whether the line is still as suggested.
SURVIVAL = (30, 120, 300, 600)
# Suggestions followed per document until settled, and again as many for their survival.
FOLLOWED_AT_MOST = 64


@attrs.define
class _Followed:
    """A suggestion and its line as it is now. Texts are `comparable`."""

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

    @property
    def as_expected(self) -> bool:
        return self.line is not None and self.text == self.expected

    @property
    def settles_at(self) -> float | None:
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

    def became(self, old: str, new: str, now: float) -> list[Event]:
        """The line has changed from `old` (ends unstripped) to `new`."""
        text = comparable(new)
        if text == self.text:
            return []
        was_expected = self.as_expected
        self.text = text
        self.changed_at = now
        if self.as_expected and _at_once(old, new, self.suggestion.text):
            self.marked = True
            if self.inserted_at is None:
                self.inserted_at = now
                return [self.event(EventKind.INSERTED, now, seconds=now - self.shown_at)]
        return self._unmarked(now) if was_expected else []

    def gone(self, now: float) -> list[Event]:
        """The line no longer exists, or cannot be found."""
        was_expected = self.as_expected
        self.line = None
        return self._unmarked(now) if was_expected else []

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

    def settled(self, now: float, gone: How | None = None) -> Event:
        """The event with the label by the present state. gone: the outcome if the line is deleted or lost."""
        how = gone or self._how(now)
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
    followed: dict[str, _Followed] = attrs.field(factory=dict)
    surviving: dict[str, _Followed] = attrs.field(factory=dict)
    visit: _Visit | None = None

    def all(self) -> Iterator[_Followed]:
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

    def settle(self, one: _Followed, now: float, gone: How | None = None) -> Event:
        del self.followed[one.suggestion.id]
        if one.survives_at is not None:
            self.surviving[one.suggestion.id] = one
            if len(self.surviving) > FOLLOWED_AT_MOST:
                del self.surviving[next(iter(self.surviving))]
        return one.settled(now, gone)

    def each(self, ones: Iterable[_Followed], work: Callable[[_Followed], Iterable[Event]]) -> list[Event]:
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
    """Distinguishes suggestions that were kept, edited, typed over, ignored or not even read.

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
    ) -> list[Event]:
        """Follow a suggestion that is now shown. This counts as a request on its line as well.

        lines: the whole document as it is now.
        expected_line: what the line would be with (the first line of) the suggestion inserted.
        A suggestion that is followed already stays as it is. One that would change nothing, or lies outside
        the document, is reported as shown but not followed: its outcome could never be known.
        """
        events = self.tick(now)
        document = self._documents.get(uri)
        lines = tuple(lines)
        if document is not None and document.lines != lines:
            events += self.changed(uri, lines, now)
        self._active(uri, line, now)
        if any(suggestion.id in d.followed or suggestion.id in d.surviving for d in self._documents.values()):
            return events
        events.append(Event(suggestion.id, EventKind.SHOWN, now))
        # An empty document is one empty line, however the caller splits it.
        lines = lines or ("",)
        expected = comparable(expected_line)
        if not 0 <= line < len(lines) or comparable(lines[line]) == expected:
            return events
        initial = comparable(lines[line])
        document = self._documents.setdefault(uri, _Document(lines))
        episode = document.episode_at(line) or suggestion.id
        document.visit = _Visit(line, episode)
        one = _Followed(suggestion, episode, line, initial, expected, now, initial)
        document.followed[suggestion.id] = one
        if len(document.followed) > FOLLOWED_AT_MOST:
            events.append(document.settle(next(iter(document.followed.values())), now))
        return events

    def requested(self, uri: str, line: int, now: float) -> list[Event]:
        """The editor asked for something on this line: the user has moved on from all other lines."""
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
        self._active(uri, None, now, but=document)
        if document.visit is not None and not where.touches_only(document.visit.line):
            document.visit = None
        return events + document.each(
            document.all(), lambda one: self._follow(document, one, old, where, now)
        )

    def saved(self, uri: str, now: float) -> list[Event]:
        """The document was saved: settle all that is followed in it."""
        events = self.tick(now)
        document = self._documents.get(uri)
        if document is not None:
            events += document.each(document.followed.values(), lambda one: [document.settle(one, now)])
            self._forget_if_empty(uri)
        return events

    def closed(self, uri: str, now: float) -> list[Event]:
        """The document was closed: settle all that is followed in it, and forget it."""
        events = self.saved(uri, now)
        self._documents.pop(uri, None)
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
    def _due(document: _Document, now: float, one: _Followed) -> Iterator[Event]:
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

    def place_of(self, suggestion_id: str) -> tuple[str, int] | None:
        """(URI, line) of a suggestion that is followed; None if it is not, or its line is gone."""
        for uri, document in self._documents.items():
            one = document.followed.get(suggestion_id) or document.surviving.get(suggestion_id)
            if one is not None and one.line is not None:
                return uri, one.line
        return None

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

    def _follow(
        self, document: _Document, one: _Followed, old: tuple[str, ...], where: LineMap, now: float
    ) -> list[Event]:
        if one.line is None:
            return []
        before, gone = one.line, How.DELETED
        try:
            after = where.find(before, one.expected)
        except LostLineError:
            after, gone = None, How.LOST
        if after is None:
            events = one.gone(now)
            if one.suggestion.id in document.followed:
                events.append(document.settle(one, now, gone))
            return events
        one.line = after
        if not (after == before and where.touches_only(before)):
            one.moved_on(now)
        return one.became(old[before], document.lines[after], now)

    def _active(self, uri: str, line: int | None, now: float, but: _Document | None = None) -> None:
        """Record activity on a line (None: unknown lines) of a document: the user has moved on from all
        others."""
        for other, document in self._documents.items():
            if document is not but:
                for one in document.followed.values():
                    if other != uri or one.line != line:
                        one.moved_on(now)
                if document.visit is not None and (other != uri or document.visit.line != line):
                    document.visit = None

    def _forget_if_empty(self, uri: str) -> None:
        document = self._documents[uri]
        if not document.followed and not document.surviving and document.visit is None:
            del self._documents[uri]


def _at_once(old: str, new: str, suggested: str) -> bool:
    """Whether going from one line to the other inserted the suggestion, rather than typed its last character.

    White space does not count, so that a formatter's blank around an operator does not count as an insertion.
    """
    old, new = old.lstrip(), new.lstrip()
    before, after = shared_ends(old, new)
    added = "".join(new[before : len(new) - after].split())
    removed = "".join(old[before : len(old) - after].split())
    return len(added) - len(removed) >= 2 or (bool(added) and added == "".join(suggested.split()))
