"""Telling the tracker what happens to documents, and the store and the editor what comes of it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.completion import Completion, Cursor
from lsp_calib.feedback.events import Event, EventKind
from lsp_calib.feedback.tracker import Tracker
from lsp_calib.server import diagnostics
from lsp_calib.values import Suggestion

if TYPE_CHECKING:
    from lsp_calib.server.session import Session

logger = logging.getLogger(__name__)

# Seconds until the next attempt after an error.
RETRY = 5.0


class Documents:
    """The open documents, as far as suggestions are followed in them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tracker = Tracker()
        self._timer: asyncio.TimerHandle | None = None
        self._marked: dict[str, list[tuple[int, str]]] = {}
        self._saved_by_itself: set[str] = set()

    def opened(self, uri: str) -> None:
        # Some editors open a document twice: nothing of the first time holds.
        self._session.completions.forget(uri)

    def changed(self, uri: str) -> None:
        lines = self._lines(uri)
        if lines is not None:
            self._record(self._tracker.changed(uri, lines, time.time()), uri)

    def will_save(self, uri: str, reason: types.TextDocumentSaveReason) -> None:
        # An editor that saves after each pause in typing says nothing about a line still being typed.
        if reason is types.TextDocumentSaveReason.AfterDelay:
            self._saved_by_itself.add(uri)
        else:
            self._saved_by_itself.discard(uri)

    def saved(self, uri: str) -> None:
        if uri in self._saved_by_itself:
            self._saved_by_itself.discard(uri)
            return
        self._record(self._tracker.saved(uri, time.time()), uri)

    def closed(self, uri: str) -> None:
        self._session.completions.forget(uri)
        self._record(self._tracker.closed(uri, time.time()), uri)
        self._marked.pop(uri, None)
        self._saved_by_itself.discard(uri)

    def requested(self, uri: str, cursor: Cursor) -> None:
        self._record(self._tracker.requested(uri, cursor.line, time.time()), uri)

    def shown(self, uri: str, completion: Completion) -> bool:
        """Follow a suggestion that is about to be shown; False if the document has moved on meanwhile."""
        cursor = completion.cursor
        lines = self._lines(uri)
        if lines is None or not self._session.running:
            return False
        if cursor.line >= len(lines) or lines[cursor.line] != cursor.before + cursor.after:
            return False
        now = time.time()
        suggestion = completion.suggestion
        events = self._tracker.shown(uri, lines, cursor.line, completion.expected_line, suggestion, now)
        # Its source does not tell: what came too late for its own request is first shown from memory.
        if any(event.kind is EventKind.SHOWN and event.suggestion_id == suggestion.id for event in events):
            self._session.feedback.shown(completion, now)
        self._record(events, uri)
        self._session.status.shown(suggestion)
        return True

    def inserted(self, uri: str) -> list[tuple[int, Suggestion]]:
        """(line from 0, suggestion) of each line that carries a diagnostic."""
        return self._tracker.inserted(uri)

    def reviewed(self, suggestion_id: str) -> None:
        if self._tracker.reviewed(suggestion_id):
            self._record([Event(suggestion_id, EventKind.REVIEWED, time.time())])
            for uri in list(self._marked):
                self._refresh(uri)

    def settings_changed(self) -> None:
        for uri in list(self._marked):
            diagnostics.refresh(self._session.server, uri)

    def close(self) -> None:
        """Settle everything: the editor is leaving."""
        if self._timer is not None:
            self._timer.cancel()
        for document in list(self._session.server.workspace.text_documents.values()):
            self._session.feedback.record(self._tracker.closed(document.uri, time.time()))

    def _lines(self, uri: str) -> tuple[str, ...] | None:
        document = self._session.server.open_document(uri)
        return None if document is None else document.bare_lines

    def _record(self, events: list[Event], uri: str | None = None) -> None:
        self._session.feedback.record(events)
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
            diagnostics.refresh(self._session.server, uri)

    def _schedule(self, *, not_before: float = 0.0) -> None:
        """Set the timer for what the tracker has to do next, `not_before` so many seconds from now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._tracker.next_deadline()
        if deadline is not None:
            # A little late rather than a little early, so that one wake-up is enough.
            delay = max(deadline - time.time(), not_before) + 0.01
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._record(self._tracker.tick(time.time()))
        except Exception:
            # Without a timer no later suggestion would settle by itself.
            logger.exception("What is due now could not be recorded. The next attempt is in %s s.", RETRY)
            self._schedule(not_before=RETRY)
