"""Suggestions once they are shown: followed through edits, and marked by diagnostics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import attrs
from lsprotocol import types

from lsp_calib.badges import tier_and_reason
from lsp_calib.characters import indentation_of
from lsp_calib.completion.service import Completion
from lsp_calib.feedback.events import Event, EventKind, Moment
from lsp_calib.feedback.tracker import Remains, Tracker
from lsp_calib.server.documents import (
    CalibDocument,
    DocumentChanged,
    DocumentClosed,
    DocumentSaved,
    Lines,
    part_of_line,
    whole_line,
)
from lsp_calib.server.messages import Clock, Connection, pulls_diagnostics
from lsp_calib.server.recorder import Recorder
from lsp_calib.values import LRU, Suggestion, Tier

# Suggestions whose doubtful span is remembered: more than are on screen, and followed, at once.
_SPANS = 1000
# (line from 0, suggestion) of what is marked in a document.
Marked = list[tuple[int, Suggestion]]
# Settled suggestions that are known for it: more than the memory of completions holds of many documents.
_SETTLED = 4000


class SuggestionTracking:
    """Follows suggestions from the moment when they are shown until they are settled, and has what happens
    recorded.

    settled: is told how many labels are new. marks_changed: is told the document in which the inserted
    suggestions are others, or elsewhere, and these. clock: seconds since the epoch, as all times are.
    """

    def __init__(
        self, recorder: Recorder, settled: Callable[[int], object], clock: Clock = time.time
    ) -> None:
        self._recorder = recorder
        self._labelled = settled
        self.marks_changed: Callable[[str, Marked], object] = lambda *_: None
        self._now = clock
        self._tracker = Tracker()
        self._timer: asyncio.TimerHandle | None = None
        self._marked: dict[str, Marked] = {}
        self.refused = Refused(self._tracker.is_taken)
        self._spans: dict[str, tuple[int, int]] = {}  # in the normalised line, by suggestion id
        self._settled = LRU[str, None](_SETTLED)  # ids
        self._closed = False

    def requested(self, uri: str, line: int) -> None:
        """The editor requests a completion in a line, counted from 0."""
        self._report(self._tracker.requested(uri, line, self._now()))

    def shown(self, document: CalibDocument, completion: Completion) -> bool:
        """Follow a suggestion that is about to be shown; False if it must not be shown any more: the document
        has changed."""
        if self._closed:
            return False
        cursor, uri, lines = completion.cursor, document.uri, document.bare_lines
        if (
            not document.is_open
            or cursor.own_line >= len(lines)
            or lines[cursor.own_line] != completion.present_line
        ):
            return False
        now = self._now()
        suggestion, expected = completion.suggestion, completion.expected_line
        data = {"shownProbability": completion.shown_probability}
        if (sure := suggestion.sure) is not None:
            data["sureConfidence"] = sure.confidence
        where = uri, lines, cursor.own_line
        events = self._tracker.shown(*where, expected, suggestion, now, data, typed=completion.typed)
        # `suggestion.source` does not tell: one that came too late for its own request is first shown from
        # memory.
        known = EventKind.SHOWN, suggestion.id
        first = any((one.kind, one.suggestion_id) == known for one in events)
        if suggestion.doubt is not None:
            # An edit may change the indentation of the line, and nothing else of it.
            moved = len(cursor.before) - (len(expected) - len(expected.lstrip()))
            self._spans[suggestion.id] = suggestion.doubt[0] + moved, suggestion.doubt[1] + moved
            if len(self._spans) > _SPANS:
                del self._spans[next(iter(self._spans))]
        else:
            self._spans.pop(suggestion.id, None)  # what was in doubt is typed
        if first:
            self._recorder.shown(document, completion, now, events)
        elif events:
            self._recorder.record(events)
        self._conclude(events, uri)
        self.refused.shown(uri, completion)
        return True

    def made(
        self, document: CalibDocument, places: Sequence[tuple[int, str]], suggestion: Suggestion
    ) -> None:
        """Follow a suggestion that a change has just put into a document. places: as for `Tracker.made`."""
        uri, lines = document.uri, document.bare_lines
        self._report(self._tracker.made(uri, lines, places, suggestion, self._now()), uri)

    def applied(self, document: CalibDocument, line: int, text: str, edits: Sequence[Suggestion]) -> None:
        """Follow an edit that a change has just made, by the suggestions that it was shown as, the first one
        first. text: what the line holds as long as it stands."""
        uri, lines, now = document.uri, document.bare_lines, self._now()
        for one in edits:
            made = self._tracker.made(
                *(uri, lines, [(line, text)], one, now), shown=Moment.of(one, 0), episode=edits[0].id
            )
            self._report(made, uri)

    def drop(self, suggestion_id: str) -> None:
        """Follow a suggestion no longer: its outcome is known."""
        place = self._tracker.place_of(suggestion_id)
        self._tracker.drop(suggestion_id)
        self._conclude([], place and place[0])

    def changed(self, change: DocumentChanged) -> list[tuple[str, int]]:
        """A document was changed. Returns where this has inserted suggestions: URI and line, from 0."""
        uri, where = change.document.uri, change.changes.where
        events = self._tracker.changed(uri, change.lines, self._now(), where=where, by=change.by)
        self._report(events, uri)
        if not all(one.small for one in change.changes.all):
            self.refused.changed(uri, change.lines)
        inserted = [one.suggestion_id for one in events if one.kind is EventKind.INSERTED]
        return [place for one in inserted if (place := self._tracker.place_of(one)) is not None]

    def saved(self, save: DocumentSaved) -> None:
        self._report(self._tracker.saved(save.uri, self._now(), by_hand=save.by_hand), save.uri)

    def notebook_closed(self, uri: str) -> None:
        """Some editors close its cells before."""
        self._tracker.notebook_closed(uri)

    def opened(self, document: CalibDocument) -> None:
        """A document is open, which is no work on it, and so tells nothing of what is shown elsewhere."""
        uri, lines = document.uri, document.bare_lines
        self._report(self._tracker.opened(uri, lines, self._now(), is_code=document.is_code), uri)

    def is_elsewhere(self, uri: str, suggestion_id: str, line: int) -> bool:
        """Whether a suggestion is followed in another place than this line."""
        return self._tracker.place_of(suggestion_id) not in (None, (uri, line))

    def is_shown(self, suggestion_id: str) -> bool:
        """Whether a suggestion was shown and may still be on the screen."""
        return self._tracker.place_of(suggestion_id) is not None

    def is_settled(self, suggestion_id: str) -> bool:
        """Whether it is decided what became of a suggestion: shown once more, it is another one."""
        return suggestion_id in self._settled

    def closed(self, one: DocumentClosed) -> None:
        self._report(self._tracker.closed(one.uri, self._now(), one.remains, notebook=one.notebook), one.uri)
        self._marked.pop(one.uri, None)

    def reviewed(self, suggestion_id: str) -> None:
        """The user has marked a suggestion as reviewed."""
        if self._tracker.reviewed(suggestion_id):
            self._report([Event(suggestion_id, EventKind.REVIEWED, self._now())])

    def inserted(self, uri: str) -> Marked:
        """Each inserted suggestion that is neither settled nor reviewed."""
        return self._tracker.inserted(uri)

    def doubtful(self, suggestion_id: str, line: str) -> tuple[int, int] | None:
        """(start, end) of the least certain word of an inserted suggestion, in code points of its line as it
        is now; None if it is not known.

        line: the text of the line, unchanged but for the white space at its ends.
        """
        span = self._spans.get(suggestion_id)
        indentation = len(indentation_of(line))
        return None if span is None else (span[0] + indentation, span[1] + indentation)

    def close(self, remains: Mapping[str, Remains]) -> None:
        """Settle everything, and show no more: the editor is shutting down.

        remains: what is left of each open document, by its URI.
        """
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for uri, left in remains.items():
            self._report(self._tracker.closed(uri, self._now(), left), uri)
        self._report(self._tracker.finish(self._now()))

    def _report(self, events: Sequence[Event], uri: str | None = None) -> None:
        """Record what has happened to suggestions, and what follows from it."""
        if events:
            self._recorder.record(events)
        self._conclude(events, uri)

    def _conclude(self, events: Sequence[Event], uri: str | None = None) -> None:
        settled = [one.label for one in events if one.label is not None and one.label.settled]
        if settled:
            if labels := sum(label.correct is not None for label in settled):
                self._labelled(labels)
            self._settled.update({label.suggestion_id: None for label in settled})
        if self._closed:
            return
        # A tick inside the call may have settled lines of other documents as well.
        for other in {*self._marked, *([uri] if uri else [])} if events or uri else ():
            marked = self._tracker.inserted(other)
            before = [(line, suggestion.id) for line, suggestion in self._marked.pop(other, ())]
            if before != [(line, suggestion.id) for line, suggestion in marked]:
                self.marks_changed(other, marked)
            if marked:
                self._marked[other] = marked
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (deadline := self._tracker.deadline) is not None:
            # Slightly late rather than slightly early, so that one wake-up is enough.
            delay = max(deadline - self._now(), 0.0) + 0.01
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._report(self._tracker.tick(self._now()))


# Suggestions that were shown, and texts that were refused, which are remembered.
_MOST_SHOWN, _MOST_REFUSED = 64, 256

_Refusable = tuple[str, int, int]
"""A document, hashes of its line and of that above it, and of the line that a suggestion makes."""


@attrs.define
class _Shown:
    """present: hashes of the line as it was each time when it was shown, with what is refused if it goes."""

    uri: str
    line: int
    present: dict[int, _Refusable] = attrs.field(factory=dict)


class Refused:
    """Remembers the texts that the user has refused on a line: by Escape, or by undoing what was accepted.

    A suggestion is told by the line that it makes: asked again, the model says the same under another id.
    is_taken: whether a suggestion, or a part of it, was inserted at once, not typed.
    """

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self._is_taken = is_taken
        self._shown: dict[str, _Shown] = {}
        self._refused = LRU[_Refusable, None](_MOST_REFUSED)

    def shown(self, uri: str, completion: Completion) -> None:
        """A suggestion is about to be shown."""
        identity, line = completion.suggestion.id, completion.cursor.own_line
        shown = self._shown.pop(identity, None) or _Shown(uri, line)
        shown.line = line
        shown.present[hash(completion.present_line)] = _refusable(uri, completion)
        self._shown[identity] = shown
        if len(self._shown) > _MOST_SHOWN:
            del self._shown[next(iter(self._shown))]

    def changed(self, uri: str, lines: Lines) -> None:
        """A document was changed by more than a character. Taken, a suggestion is refused where its line is
        once more as when it was shown: then it went as it came."""
        for identity, shown in self._shown.items():
            here = shown.uri == uri and shown.line < len(lines) and self._is_taken(identity)
            if here and hash(lines[shown.line]) not in shown.present:
                self._refused.update(dict.fromkeys(shown.present.values()))

    def rejected(self, suggestion_id: str) -> None:
        """The user does not want a suggestion, nor what was shown beside it."""
        if (rejected := self._shown.get(suggestion_id)) is None:
            return
        for shown in self._shown.values():
            if (shown.uri, shown.line) == (rejected.uri, rejected.line):
                beside = shown.present.keys() & rejected.present.keys()
                self._refused.update({shown.present[line]: None for line in beside})

    def refuses(self, uri: str, completion: Completion, *, by_hand: bool) -> bool:
        """Whether the user has refused what a completion would make of its line; by hand it is wanted."""
        text = _refusable(uri, completion)
        if by_hand:
            self._refused.pop(text, None)
        return text in self._refused


def _refusable(uri: str, completion: Completion) -> _Refusable:
    cursor = completion.cursor
    above = cursor.lines[cursor.line - 1] if cursor.line else ""
    return uri, hash((above, completion.present_line)), hash(completion.expected_line)


SOURCE = "lsp-calib"

_SEVERITY = {
    Tier.ACCEPT: types.DiagnosticSeverity.Hint,
    Tier.REVIEW: types.DiagnosticSeverity.Hint,
    Tier.REJECT: types.DiagnosticSeverity.Information,
}


class Diagnostics:
    """The diagnostics of each document, as it is now: on what the tracking calls inserted."""

    def __init__(self, connection: Connection, tracking: SuggestionTracking) -> None:
        self._connection = connection
        self._tracking = tracking
        self._pulls = pulls_diagnostics(connection.client_capabilities)
        tracking.marks_changed = self._changed

    def current(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics of a document; none if it is not open."""
        return self._of(uri, self._tracking.inserted(uri))

    def _of(self, uri: str, marked: Marked) -> list[types.Diagnostic]:
        shown = self._connection.settings.diagnostics
        document = self._connection.open_document(uri) if shown else None
        if document is None:
            return []
        lines = document.bare_lines
        return [
            self._diagnostic(document, line, lines[line], suggestion)
            for line, suggestion in marked
            if line < len(lines)
        ]

    def _changed(self, uri: str, marked: Marked) -> None:
        """Tell the client that the diagnostics of a document may have changed."""
        if self._pulls:
            self._connection.workspace_diagnostic_refresh(None)
        else:
            params = types.PublishDiagnosticsParams(uri=uri, diagnostics=self._of(uri, marked))
            self._connection.text_document_publish_diagnostics(params)

    def _diagnostic(
        self, document: CalibDocument, line: int, text: str, suggestion: Suggestion
    ) -> types.Diagnostic:
        tier = suggestion.confidence.tier
        span = self._tracking.doubtful(suggestion.id, text)
        return types.Diagnostic(
            range=part_of_line(document, line, text, *span) if span else whole_line(document, line, text),
            message=tier_and_reason(suggestion),
            severity=_SEVERITY[tier],
            code=tier.value,
            source=SOURCE,
            data={"id": suggestion.id},
        )
