"""Documents as editors change them. Bulk edits are detected, because they want no completion."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import attrs
from lsprotocol import types

from lsp_calib.server import events as on
from lsp_calib.server.connection import Connection
from lsp_calib.server.events import Clock, Events
from lsp_calib.server.text import Change, Changes

# A change of more lines than this is not typed.
MOST_LINES = 5
# So many changes in one message, on as many lines, were not typed either.
SEVERAL = 3
# Seconds after such a change in which the next request is held back.
HELD_BACK = 0.5
# Seconds between two steps of one burst of undoing.
_BURST = 1.0
# Seconds that a save takes at most: an editor may begin one and never report its end.
_SAVE = 5.0
# States of a document that are recognised when it returns to them.
_STATES = 64


@attrs.define
class _Document:
    """bulk_at: time of the last change in bulk, None once a request has been held back for it.
    returned_at: of the last change that led back to an earlier state. saving_at: of the save under way."""

    states: deque[int] = attrs.field(factory=lambda: deque(maxlen=_STATES))
    bulk_at: float | None = None
    returned_at: float | None = None
    saving_at: float | None = None


class Documents:
    """Sends what editors do with their documents; one that is not open has no events.

    It follows their changes for those that nobody types: large ones, many at once, those of formatters during
    a save, and bursts of undo or redo. The protocol names none of them, so they are told by their shape.
    clock: seconds that only grow.
    """

    def __init__(self, connection: Connection, events: Events, clock: Clock = time.monotonic) -> None:
        self._connection = connection
        self._events = events
        self._clock = clock
        self._documents: dict[str, _Document] = {}
        events.on(on.SuggestionInserted, lambda one: self._inserted(one.uri))

    def opened(self, uri: str) -> None:
        if (document := self._connection.open_document(uri)) is not None:
            self._documents.pop(document.uri, None)
            self._events.send(on.DocumentOpened(document, document.bare_lines))

    def changed(self, uri: str) -> None:
        if (document := self._connection.open_document(uri)) is not None:
            changes, lines = document.take_changes(), document.bare_lines
            typed = not changes.all or self._is_typed(document.uri, changes)
            self._events.send(on.DocumentChanged(document, lines, changes, typed))

    def save_begins(self, uri: str, reason: types.TextDocumentSaveReason) -> None:
        """What changes until the end of the save is changed by a formatter."""
        self._documents.setdefault(uri, _Document()).saving_at = self._clock()
        self._events.send(on.SaveBegins(uri, reason))

    def saved(self, uri: str) -> None:
        if (document := self._documents.get(uri)) is not None:
            document.saving_at = None
        self._events.send(on.DocumentSaved(uri))

    def closed(self, uri: str, *, comes_back: bool = False) -> None:
        self._documents.pop(uri, None)
        self._events.send(on.DocumentClosed(uri, comes_back))

    def holds_back(self, uri: str) -> bool:
        """Whether the request that has just come is held back. The next one is not."""
        document = self._documents.get(uri)
        if document is None or document.bulk_at is None:
            return False
        late = self._clock() - document.bulk_at > HELD_BACK
        document.bulk_at = None
        return not late

    def _is_typed(self, uri: str, changes: Changes) -> bool:
        """Whether changes may have been typed: not in bulk, and they do not lead back to an earlier state, or
        only by single characters."""
        document = self._documents.setdefault(uri, _Document())
        saving = document.saving_at is not None and self._clock() - document.saving_at <= _SAVE
        returned = _returns(document, changes)
        bulk = (returned and self._is_burst(document)) or saving or _is_large(changes.all)
        document.bulk_at = self._clock() if bulk else None
        return not (bulk or returned)

    def _inserted(self, uri: str) -> None:
        """The last change has inserted a suggestion: the user goes on from there."""
        if (document := self._documents.get(uri)) is not None:
            document.bulk_at = None

    def _is_burst(self, document: _Document) -> bool:
        """Whether the change that has just led back to an earlier state is one of several in a row.

        After one step alone the user may go on at once.
        """
        now = self._clock()
        before, document.returned_at = document.returned_at, now
        return before is not None and now - before <= _BURST


def _returns(document: _Document, changes: Changes) -> bool:
    """Whether changes lead back to an earlier state. Single characters do not count."""
    if not document.states:
        document.states.append(changes.before)
    returns = changes.after != changes.before and changes.after in document.states
    returns = returns and not all(change.small for change in changes.all)
    document.states.append(changes.after)
    if not returns:
        document.returned_at = None
    return returns


def _is_large(changes: Sequence[Change]) -> bool:
    if sum(max(change.removed, change.inserted) - 1 for change in changes) >= MOST_LINES:
        return True
    return len(changes) >= SEVERAL and len({change.line for change in changes}) >= SEVERAL
