"""Follows shown suggestions through document changes alone, to find out their outcomes.

Nothing here reads a clock, a file or an editor: each call passes the time and the event. Editors need not
report that a suggestion was accepted: the document shows it. What a program has changed, as a formatter, a
checkout or an agent does, tells nothing of what the user would have done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import attrs

from lsp_calib.characters import normalised_line
from lsp_calib.feedback.events import TOGETHER, By, Event, EventKind, How, Moment
from lsp_calib.feedback.lines import LineMap
from lsp_calib.feedback.tracked import Below, Lines, Moments, TrackedDocument, TrackedSuggestion
from lsp_calib.values import Suggestion

# Seconds within which a document that was closed is opened again, where it is one action to the user.
REOPENED = 1.0

Remains = Callable[[Lines], Sequence[str]]
"""Of a document that was closed with these lines: those that are left of it."""


@attrs.frozen
class _Visit:
    """The line that the user is on since a suggestion was shown there, and the episode of those shown."""

    uri: str
    line: int
    episode: str


@attrs.frozen
class _Closing:
    """A document was closed. notebook: URI of the one that it was a cell of; "": of none. several: with other
    cells of that: users delete one at a time, a notebook that is read again loses more."""

    at: float
    remains: Remains
    notebook: str
    several: bool = False


@attrs.define
class _Change:
    """What the last messages have made of a document, or of nothing when it was opened. first, last: when
    they came. old, new: its lines before them, and now."""

    first: float
    last: float
    old: Lines
    new: Lines

    @property
    def where(self) -> LineMap:
        return LineMap(self.old, self.new)


@attrs.define
class _Document(TrackedDocument):
    """closing: it is not open, and may be opened again at once."""

    closing: _Closing | None = None


class Tracker:
    """Distinguishes suggestions that were kept, typed, edited, taken in part, typed over, superseded, ignored
    or not even read.

    `now` is in seconds, of one clock; Unix time where the events are to be stored. Lines count from 0 and
    come without their line ends. Each call first handles everything that is due by `now`, so that a late
    `tick` changes no label. Not for use from several threads at once.

    deadline: when `tick` has something to do next, in seconds; None if nothing is pending.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._documents: dict[str, _Document] = {}
        self._visit: _Visit | None = None
        self._recent: dict[str, _Change] = {}
        self._cells: dict[str, tuple[str, float]] = {}  # closed, with their notebook and when

    def shown(
        self,
        uri: str,
        lines: Sequence[str],
        line: int,
        expected_line: str,
        suggestion: Suggestion,
        now: float,
        data: Mapping[str, float] = MappingProxyType({}),
        *,
        typed: int = 0,
    ) -> list[Event]:
        """Follow a suggestion that is now shown. This counts as a request on its line as well.

        lines: the whole document as it is now. data: of the event that says so. typed: characters of the
            suggestion that were typed along.
        expected_line: what the line would be with (the first line of) the suggestion inserted.
        The first of several (rank 1) takes the place of those that were shown on this line before. A
        suggestion that is followed already is on the screen again; otherwise it stays as it is. One that
        would change nothing, or lies outside the document, is reported as shown but not followed: its outcome
        could never be known.
        """
        events = self._until(now)
        document = self._documents.get(uri)
        lines = tuple(lines)
        if document is not None and document.lines != lines:
            events += self.changed(uri, lines, now)
        self._active(uri, line, now)
        document = self._documents.get(uri)
        if document is not None and suggestion.rank == 1:  # alternatives stand beside the first
            document.replaced(line, suggestion.id, now)
        if any(self._named(suggestion.id)):
            if document is not None and (one := document.followed.get(suggestion.id)):
                one.on_line(line, lines[line], now)
                one.shown_again(suggestion, typed, now)
                document.times()
                if one.line == line:
                    self._visit = _Visit(uri, line, one.episode)
            return self._then(events)
        events.append(Event(suggestion.id, EventKind.SHOWN, now, dict(data)))
        # An empty document is one empty line, however the caller splits it.
        lines = lines or ("",)
        expected = normalised_line(expected_line)
        if not 0 <= line < len(lines) or normalised_line(lines[line]) == expected:
            return self._then(events)
        initial = normalised_line(lines[line])
        document = self._documents.get(uri) or _Document(lines)
        self._documents[uri] = document
        episode = self._episode_at(uri, line) or suggestion.id
        self._visit = _Visit(uri, line, episode)
        one = TrackedSuggestion(
            *(suggestion, episode, line, initial, expected, now, initial),
            moments=Moments(Moment.of(suggestion, typed)),
        )
        return self._then([*events, *document.follow(one, now)])

    def made(
        self,
        uri: str,
        lines: Sequence[str],
        places: Sequence[tuple[int, str]],
        suggestion: Suggestion,
        now: float,
        *,
        shown: Moment | None = None,
        episode: str = "",
    ) -> list[Event]:
        """Follow a suggestion that has just been put into the document, perhaps as several lines.

        lines: the whole document as it is now. places: (line, text) of each of its lines: what counts is
            whether the line holds the text. At least one. The user may add to such lines, as to a comment.
        shown: it was shown before, as this; None: it is shown now. episode: its own unless given.
        """
        events = self.changed(uri, lines, now)
        (line, expected), *below = [(at, normalised_line(text)) for at, text in places]
        document = self._documents.setdefault(uri, _Document(tuple(lines)))
        text = normalised_line(document.lines[line])
        one = TrackedSuggestion(
            *(suggestion, episode or suggestion.id, line, "", expected, now, text),
            changed_at=now,
            inserted_at=now,
            marked=True,
            within=True,
            below=[Below(part, at, normalised_line(document.lines[at])) for at, part in below],
        )
        events += document.follow(one, now)
        if shown is None:
            events.append(Event(suggestion.id, EventKind.SHOWN, now))
        else:
            one.moments = Moments(shown)
            one.moments.accept()
        return self._then([*events, one.event(EventKind.INSERTED, now, seconds=0.0)])

    def drop(self, suggestion_id: str) -> None:
        """Follow a suggestion no longer; it gets no label here."""
        for uri, document in list(self._documents.items()):
            document.followed.pop(suggestion_id, None)
            document.surviving.pop(suggestion_id, None)
            document.times()
            self._forget_if_empty(uri)
        self._then([])

    def requested(self, uri: str, line: int, now: float) -> list[Event]:
        """The editor asked for something on this line: the user is there, and has left all others."""
        events = self._until(now)
        self._active(uri, line, now)
        return self._then(events)

    def changed(
        self,
        uri: str,
        lines: Sequence[str],
        now: float,
        *,
        where: LineMap | None = None,
        by: By = By.USER,
    ) -> list[Event]:
        """The document was changed. lines: the whole document as it is now. where: to these from those of
            before, if they are known.

        by: what a program does is no refusal, and no work on the document.
        """
        events = self._until(now)
        document, new = self._documents.get(uri), tuple(lines) or ("",)
        if document is None:
            if by is By.USER:
                self._active(uri, None, now)
            if where is not None and self._documents:
                self._came(uri, where, now)
            return self._then(events)
        if where is None or where.old is not document.lines:
            where = LineMap(document.lines, new)
        if where.is_identity:
            return self._then(events)
        visit = self._visit
        if visit is not None and visit.uri == uri and where.only_line != visit.line:
            self._visit = None
        if by is By.USER:
            self._active(uri, None, now, but=document)

        def moved(one: TrackedSuggestion) -> bool:
            if went := self._went(uri, one):
                self._move(one, uri, *went, now)
            return went is not None

        events += document.changed(where, now, by, moved)
        self._came(uri, where, now)
        return self._then(events)

    def opened(self, uri: str, lines: Sequence[str], now: float, *, is_code: bool = True) -> list[Event]:
        """A document is open. One that is open already, or was closed just now, is opened once more: a
        program may have made other lines of it, and another language makes none.

        is_code: False for a cell of text in a notebook, where no line is code.
        """
        events, new = self._until(now), tuple(lines) or ("",)
        if uri in self._documents:
            self._documents[uri].closing = None
            return events + self.changed(
                uri, new if is_code else ("",), now, by=By.FILE if is_code else By.USER
            )
        for other, document in list(self._documents.items()):
            if document.closing is not None and _same(document.lines, new):
                return events + self._renamed(other, uri, new, now)
        if self._documents:
            self._came(uri, LineMap(("",), new), now)
        return self._then(events)

    def saved(self, uri: str, now: float, *, by_hand: bool = True) -> list[Event]:
        """The document was saved: no line that is inserted carries a diagnostic any more.

        by_hand: all that is followed in it gets its label as well, but for what can still be accepted. An
            edit of the line in the next 30 seconds revises it.
        Not to be called for a save that an editor makes after a pause.
        """
        events = self._until(now)
        document = self._documents.get(uri)
        return self._then(events if document is None else events + document.saved(now, by_hand))

    def closed(
        self, uri: str, now: float, remains: Remains = lambda lines: lines, *, notebook: str = ""
    ) -> list[Event]:
        """The document was closed: what is followed in it settles, unless it is opened again at once.

        remains: called once that is decided. notebook: URI of the one that it was a cell of. As long as that
        is open itself, the cell was deleted or changed, and its lines may come back.
        """
        events = self._until(now)
        document, several = self._documents.get(uri), False
        if notebook:
            self._cells = {cell: one for cell, one in self._cells.items() if now - one[1] <= TOGETHER}
            self._cells[uri] = notebook, now
            several = sum(one[0] == notebook for one in self._cells.values()) > 1
            for one in self._documents.values() if several else ():
                if one.closing is not None and one.closing.notebook == notebook:
                    one.closing = attrs.evolve(one.closing, several=True)
        if document is None:
            return self._then(events)
        for other, recent in self._others(uri):
            if recent.old == ("",) and _same(recent.new, document.lines):
                return events + self._renamed(uri, other, recent.new, now)
        document.closing = _Closing(now, remains, notebook, several)
        for suggestion in list(document.all()) if notebook else ():
            if went := self._went(uri, suggestion):  # its lines had been put into another cell
                self._move(suggestion, uri, *went, now)
        return self._then(events)

    def notebook_closed(self, notebook: str) -> None:
        """A notebook was closed: its cells were not deleted."""
        for document in self._documents.values():
            if document.closing is not None and document.closing.notebook == notebook:
                document.closing = attrs.evolve(document.closing, notebook="")

    def finish(self, now: float) -> list[Event]:
        """Nothing that is closed is opened again: settle what is in it."""
        events = self._until(now)
        for uri, document in list(self._documents.items()):
            if document.closing is not None:
                events += self._end(uri, document, attrs.evolve(document.closing, notebook=""), now)
        return self._then(events)

    def _is_closing(self, uri: str) -> bool:
        document = self._documents.get(uri)
        return document is not None and document.closing is not None

    def _renamed(self, old: str, uri: str, lines: Lines, now: float) -> list[Event]:
        """A document goes on under another URI."""
        document = self._documents.pop(old)
        document.closing = None
        self._leave(old)
        if uri in self._documents:  # it was shown one under the new name already
            into = self._documents[uri]
            into.followed = {**document.followed, **into.followed}
            into.surviving.update(document.surviving)
            into.times()
        else:
            self._documents[uri] = document
        return self.changed(uri, lines, now, by=By.FILE)

    def _end(self, uri: str, document: _Document, closing: _Closing, now: float) -> list[Event]:
        """A document stays closed: settle what is followed in it by what is left of it."""
        document.closing = None
        if closing.notebook:
            return self.changed(uri, ("",), now, by=By.FILE if closing.several else By.USER)
        before = {id_: one.text for id_, one in document.followed.items()}
        for left in document.followed.values():
            left.moved_on(closing.at)
        events = self.changed(uri, closing.remains(document.lines), now, by=By.FILE)
        for one in list(document.followed.values()):
            stands = one.as_expected or one.text == before[one.suggestion.id]
            lost = one.missing is not None and one.missing.at == now
            events.append(document.settle(one, now, None if stands and not lost else How.DISCARDED))
        self._documents.pop(uri, None)
        self._leave(uri)
        self._forget_recent()
        return events

    def tick(self, now: float) -> list[Event]:
        """Settle and record what is due by now."""
        return self._then(self._until(now))

    def _until(self, now: float) -> list[Event]:
        """What is due by now, before anything else."""
        events: list[Event] = []
        if self.deadline is not None and self.deadline <= now:
            self._recent = {uri: one for uri, one in self._recent.items() if one.last + TOGETHER > now}
            for uri, document in list(self._documents.items()):
                if document.closing is not None:
                    if (ends := document.closing.at + REOPENED) > now:
                        continue
                    events += self._end(uri, document, document.closing, ends)
                    if uri not in self._documents:
                        continue
                events += document.due(now)
        for uri in list(self._documents):
            self._forget_if_empty(uri)
        self._forget_recent()
        return events

    def _then(self, events: list[Event]) -> list[Event]:
        """The events of a call, at its end."""
        times = [one.last + TOGETHER for one in self._recent.values()]
        for document in self._documents.values():
            closing = document.closing
            times.append(document.deadline if closing is None else closing.at + REOPENED)
        self.deadline = min((at for at in times if at < math.inf), default=None)
        return events

    def _forget_recent(self) -> None:
        if not self._documents:  # nothing is missing that may have come elsewhere
            self._recent.clear()

    def inserted(self, uri: str) -> list[tuple[int, Suggestion]]:
        """(line, suggestion as it was accepted) for each line that carries a diagnostic, in order of lines.

        That is: inserted, not changed nor saved since, not settled, not reviewed; the latest suggestion where
        several said the same of a line.
        """
        document = self._documents.get(uri)
        return [] if document is None or document.closing is not None else document.inserted()

    def is_taken(self, suggestion_id: str) -> bool:
        """Whether a suggestion that is followed, or a part of it, was inserted at once and not typed."""
        return any(one.inserted_at is not None or one.in_parts for _, one in self._named(suggestion_id))

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

    def reviewed(self, suggestion_id: str) -> bool:
        """Record a review: `inserted` leaves the suggestion's line out from now on. False: it was not
        there."""
        return any(document.reviewed(suggestion_id) for document in self._documents.values())

    def _came(self, uri: str, where: LineMap, now: float) -> None:
        """A document was changed or opened: what is missing in others may have come to it."""
        recent = self._recent.get(uri)
        if recent is None or now - recent.first > 2 * TOGETHER:
            self._recent[uri] = _Change(now, now, where.old, where.new)
        else:
            recent.last, recent.new = now, where.new
        for other, document in list(self._documents.items()):
            if other == uri:
                continue
            for one in list(document.all()):
                closing = document.closing is not None and document.closing.notebook
                if text := one.text if closing and one.line is not None else one.looked_for(now):
                    place = where.appeared(text, 0)
                    if place is not None:
                        one.text = text
                        self._move(one, other, uri, where.new, place, now)

    def _others(self, uri: str) -> list[tuple[str, _Change]]:
        """What has just become of other documents, that are open, by their URIs."""
        found = [(other, one) for other, one in self._recent.items() if other != uri]
        return [(other, one) for other, one in found if not self._is_closing(other)]

    def _went(self, uri: str, one: TrackedSuggestion) -> tuple[str, Lines, int] | None:
        """The (URI, lines, line) of the document that a line came to just before it was lost in its own; None
        if it came to none."""
        for other, recent in self._others(uri) if one.text else ():
            place = recent.where.appeared(one.text, 0)
            if place is not None:
                return other, recent.new, place
        return None

    def _move(
        self, one: TrackedSuggestion, uri: str, target: str, lines: Lines, place: int, now: float
    ) -> None:
        """A suggestion is followed in another document from now on. lines, place: there."""
        source, id_ = self._documents[uri], one.suggestion.id
        into = self._documents.setdefault(target, _Document(lines))
        if source.followed.pop(id_, None) is not None:
            into.followed[id_] = one
        elif source.surviving.pop(id_, None) is not None:
            into.surviving[id_] = one
        one.copies, one.disturbed = (), one.disturbed or one.is_open
        one.came_back(place, now)
        one.moved_on(now)
        source.times()
        into.times()

    def _active(self, uri: str, line: int | None, now: float, but: _Document | None = None) -> None:
        """Record activity on a line (None: unknown lines) of a document: the user is there, and has moved on
        from all others."""
        for other, document in self._documents.items():
            if document is not but:
                document.active(line if other == uri else None, now)
        visit = self._visit
        if visit is not None and (visit.uri != uri or (but is None and visit.line != line)):
            self._visit = None

    def _leave(self, uri: str) -> None:
        if self._visit is not None and self._visit.uri == uri:
            self._visit = None

    def _episode_at(self, uri: str, line: int) -> str | None:
        """The episode that a suggestion shown on this line now belongs to; None if it begins one.

        A save or a time-out may settle earlier suggestions while the user stays on the line. Suggestions that
        are not settled when the user comes back share their outcome with those shown then.
        """
        if self._visit is not None and (self._visit.uri, self._visit.line) == (uri, line):
            return self._visit.episode
        followed = self._documents[uri].followed.values()
        return next((one.episode for one in followed if one.line == line), None)

    def _forget_if_empty(self, uri: str) -> None:
        document = self._documents[uri]
        kept = document.closing is not None or (self._visit is not None and self._visit.uri == uri)
        if not document.followed and not document.surviving and not kept:
            del self._documents[uri]


def _same(one: Lines, other: Lines) -> bool:
    """Whether two documents say the same, however they end."""
    short, long = sorted((one, other), key=len)
    return long[: len(short)] == short and not any(line.strip() for line in long[len(short) :])
