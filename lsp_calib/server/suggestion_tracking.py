"""Following suggestions through the edits of their documents, with a clock and a timer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence

import attrs
from lsprotocol import types

from lsp_calib.completion import Completion
from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.tracker import Tracker
from lsp_calib.values import Suggestion

logger = logging.getLogger(__name__)

# Seconds until the next attempt after an error.
RETRY = 5.0
# Suggestions whose doubtful span is remembered: more than are on screen, and followed, at once.
_SPANS = 1000
# Settled suggestions that are known for it: more than the memory of completions holds of many documents.
_SETTLED = 4000


class Forwards:
    """Seconds since the epoch that never go back: what is followed when the clock is set back would otherwise
    wait for as long, and what was read would count as not read. clock: seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._behind, self._last = 0.0, clock()

    def __call__(self) -> float:
        now = self._clock() + self._behind
        if now < self._last:
            self._behind += self._last - now
            now = self._last
        self._last = now
        return now


class SuggestionTracking:
    """Reports changes of the open documents to the tracker, and passes on the resulting events.

    lines: the lines of an open document without their ends; None if it is not open.
    on_first_shown: called with the URI, a suggestion shown there for the first time and the time, before its
        events.
    on_events: called with the events of each change, in their order.
    on_marks_changed: called with the URI of each document whose inserted suggestions have changed.
    on_inserted: called with the URI and the line of each suggestion that a change has inserted.
    clock: seconds since the epoch, as all times are; None: the system's.
    """

    def __init__(
        self,
        lines: Callable[[str], Sequence[str] | None],
        *,
        on_first_shown: Callable[[str, Completion, float], None],
        on_events: Callable[[Sequence[Event]], None],
        on_marks_changed: Callable[[str], None],
        on_inserted: Callable[[str, int], None] = lambda *_: None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._now = Forwards(clock or (lambda: time.time()))
        self._lines = lines
        self._on_first_shown = on_first_shown
        self._on_events = on_events
        self._on_marks_changed = on_marks_changed
        self._on_inserted = on_inserted
        self._tracker = Tracker()
        self._timer: asyncio.TimerHandle | None = None
        self._marked: dict[str, list[tuple[int, str]]] = {}
        self._saved_by_itself: set[str] = set()
        self._spans: dict[str, tuple[int, int]] = {}  # in the comparable line, by suggestion id, oldest first
        self._settled: dict[str, None] = {}  # ids, oldest first

    def requested(self, uri: str, line: int) -> None:
        """The editor requests a completion in a line, counted from 0."""
        self._report(self._tracker.requested(uri, line, self._now()), uri)

    def shown(self, uri: str, completion: Completion) -> bool:
        """Follow a suggestion that is about to be shown; False if the document has changed meanwhile."""
        cursor = completion.cursor
        lines = self._lines(uri)
        if lines is None or cursor.line >= len(lines):
            return False
        if lines[cursor.line] != completion.present_line:
            return False
        now = self._now()
        suggestion = completion.suggestion
        events = self._tracker.shown(uri, lines, cursor.line, completion.expected_line, suggestion, now)
        # `suggestion.source` does not tell: one that came too late for its own request is first shown from
        # memory.
        first = next((event for event in events if _shows(event, suggestion)), None)
        if first is not None:
            chance = {"shownProbability": completion.shown_probability}
            events[events.index(first)] = attrs.evolve(first, data=chance)
            self._remember_span(completion)
            self._on_first_shown(uri, completion, now)
        self._report(events, uri)
        return True

    def made(self, uri: str, places: Sequence[tuple[int, str]], suggestion: Suggestion) -> None:
        """Follow a suggestion that a change has just put into a document. places: as for `Tracker.made`."""
        lines = self._lines(uri)
        if lines is not None:
            self._report(self._tracker.made(uri, lines, places, suggestion, self._now()), uri)

    def drop(self, suggestion_id: str) -> None:
        """Follow a suggestion no longer: its outcome is known."""
        self._tracker.drop(suggestion_id)
        for uri in self.marked():
            self._refresh(uri)
        self._schedule()

    def changed(self, uri: str) -> None:
        lines = self._lines(uri)
        if lines is None:
            return
        events = self._tracker.changed(uri, lines, self._now())
        self._report(events, uri)
        for event in events:
            place = self._tracker.place_of(event.suggestion_id) if event.kind is EventKind.INSERTED else None
            if place is not None:
                self._on_inserted(*place)

    def opened(self, uri: str) -> None:
        """A document is open. One that was open before may have another text now; to open any other is no
        work on it, and so tells nothing of what is shown elsewhere."""
        if self._tracker.follows(uri):
            self.changed(uri)

    def displayed(self, suggestion_id: str) -> None:
        """The editor says that a suggestion is on the screen."""
        self._report(self._tracker.displayed(suggestion_id, self._now()))

    def part_accepted(self, suggestion_id: str, units: int) -> None:
        """The editor says that the first `units` UTF-16 units of a suggestion were accepted."""
        self._report(self._tracker.part_accepted(suggestion_id, units, self._now()))

    def is_elsewhere(self, uri: str, suggestion_id: str, line: int) -> bool:
        """Whether a suggestion is followed in another place than this line."""
        return self._tracker.place_of(suggestion_id) not in (None, (uri, line))

    def is_settled(self, suggestion_id: str) -> bool:
        """Whether it is decided what became of a suggestion: shown once more, it is another one."""
        return suggestion_id in self._settled

    def will_save(self, uri: str, reason: types.TextDocumentSaveReason) -> None:
        # An editor's automatic save after a pause in typing does not mean that the line is finished.
        if reason is types.TextDocumentSaveReason.AfterDelay:
            self._saved_by_itself.add(uri)
        else:
            self._saved_by_itself.discard(uri)

    def saved(self, uri: str) -> bool:
        """Whether the user has saved the document, and so finished what is in it."""
        if uri in self._saved_by_itself:
            self._saved_by_itself.discard(uri)
            return False
        self._report(self._tracker.saved(uri, self._now()), uri)
        return True

    def closed(self, uri: str) -> None:
        self._report(self._tracker.closed(uri, self._now()), uri)
        self._marked.pop(uri, None)
        self._saved_by_itself.discard(uri)

    def reviewed(self, suggestion_id: str) -> None:
        """The user has marked a suggestion as reviewed."""
        if self._tracker.reviewed(suggestion_id):
            self._report([Event(suggestion_id, EventKind.REVIEWED, self._now())])
            for uri in self.marked():
                self._refresh(uri)

    def inserted(self, uri: str) -> list[tuple[int, Suggestion]]:
        """(line from 0, suggestion) of each inserted suggestion that is neither settled nor reviewed."""
        return self._tracker.inserted(uri)

    def doubtful(self, suggestion_id: str, line: str) -> tuple[int, int] | None:
        """(start, end) of the least certain word of an inserted suggestion, in code points of its line as it
        is now; None if it is not known.

        line: the text of the line, unchanged but for the white space at its ends.
        """
        span = self._spans.get(suggestion_id)
        indentation = len(line) - len(line.lstrip())
        return None if span is None else (span[0] + indentation, span[1] + indentation)

    def marked(self) -> list[str]:
        """The URIs of the documents with inserted suggestions."""
        return list(self._marked)

    def close(self, uris: Iterable[str]) -> None:
        """Settle everything in these documents: the editor is shutting down."""
        if self._timer is not None:
            self._timer.cancel()
        for uri in uris:
            self._on_events(self._tracker.closed(uri, self._now()))

    def _remember_span(self, completion: Completion) -> None:
        doubt, expected = completion.suggestion.doubt, completion.expected_line
        if doubt is None:
            return
        # An edit may change the indentation of the line, and nothing else of it.
        moved = len(completion.cursor.before) - (len(expected) - len(expected.lstrip()))
        self._spans[completion.suggestion.id] = doubt[0] + moved, doubt[1] + moved
        if len(self._spans) > _SPANS:
            del self._spans[next(iter(self._spans))]

    def _remember_settled(self, events: Iterable[Event]) -> None:
        self._settled |= {one.suggestion_id: None for one in events if one.kind is EventKind.SETTLED}
        while len(self._settled) > _SETTLED:
            del self._settled[next(iter(self._settled))]

    def _report(self, events: list[Event], uri: str | None = None) -> None:
        self._on_events(events)
        self._remember_settled(events)
        # A tick inside the call may have settled lines of other documents as well.
        for other in {*self._marked, *([uri] if uri else [])} if events or uri else ():
            self._refresh(other)
        self._schedule()

    def _refresh(self, uri: str) -> None:
        marked = [(line, suggestion.id) for line, suggestion in self._tracker.inserted(uri)]
        if marked != self._marked.get(uri, []):
            if marked:
                self._marked[uri] = marked
            else:
                self._marked.pop(uri, None)
            self._on_marks_changed(uri)

    def _schedule(self, *, not_before: float = 0.0) -> None:
        """Set the timer to the tracker's next deadline, but at least `not_before` seconds from now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._tracker.next_deadline()
        if deadline is not None:
            # Slightly late rather than slightly early, so that one wake-up is enough.
            delay = max(deadline - self._now(), not_before) + 0.01
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._report(self._tracker.tick(self._now()))
        except Exception:
            # Without a timer no later suggestion would settle on its own.
            logger.exception("Due events could not be recorded. The next attempt is in %s s.", RETRY)
            self._schedule(not_before=RETRY)


def _shows(event: Event, suggestion: Suggestion) -> bool:
    return event.kind is EventKind.SHOWN and event.suggestion_id == suggestion.id
