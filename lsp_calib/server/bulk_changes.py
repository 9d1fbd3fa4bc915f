"""Tells changes that nobody types from those that are typed: no completion is wanted amid them. Pure."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import attrs

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


@attrs.frozen
class Change:
    """One change of a document.

    line: its first line, from 0. removed, inserted: how many lines it touched, before and after; 1 within a
        line. small: of one character at most. before, after: numbers that are the same for the same text.
    """

    line: int
    removed: int
    inserted: int
    small: bool
    before: int
    after: int


@attrs.define
class _Document:
    """bulk_at: time of the last change in bulk, None once a request has been held back for it.
    returned_at: of the last change that led back to an earlier state. saving_at: of the save under way."""

    states: deque[int] = attrs.field(factory=lambda: deque(maxlen=_STATES))
    bulk_at: float | None = None
    returned_at: float | None = None
    saving_at: float | None = None


class BulkChanges:
    """Follows the changes of documents: large ones, many at once, those of formatters during a save, and
    bursts of undo or redo. The protocol names none of them, so they are told by their shape.

    clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._documents: dict[str, _Document] = {}

    def changed(self, uri: str, changes: Sequence[Change]) -> bool:
        """The changes of one message. Returns whether they may have been typed: not in bulk, and none of
        them, but for single characters, leads back to an earlier state."""
        if not changes:
            return True
        document = self._documents.setdefault(uri, _Document())
        saving = document.saving_at is not None and self._clock() - document.saving_at <= _SAVE
        bulk = saving or _is_large(changes)
        returned = False
        for change in changes:
            returns = _returns(document, change)
            bulk = (returns and self._is_burst(document)) or bulk
            returned = returned or returns
        document.bulk_at = self._clock() if bulk else None
        return not (bulk or returned)

    def inserted(self, uri: str) -> None:
        """The last change has inserted a suggestion: the user goes on from there."""
        if (document := self._documents.get(uri)) is not None:
            document.bulk_at = None

    def will_save(self, uri: str) -> None:
        """A save begins: what changes until its end is changed by a formatter."""
        self._documents.setdefault(uri, _Document()).saving_at = self._clock()

    def saved(self, uri: str) -> None:
        if (document := self._documents.get(uri)) is not None:
            document.saving_at = None

    def holds_back(self, uri: str) -> bool:
        """Whether the request that has just come is held back. The next one is not."""
        document = self._documents.get(uri)
        if document is None or document.bulk_at is None:
            return False
        late = self._clock() - document.bulk_at > HELD_BACK
        document.bulk_at = None
        return not late

    def forget(self, uri: str) -> None:
        self._documents.pop(uri, None)

    def _is_burst(self, document: _Document) -> bool:
        """Whether the change that has just led back to an earlier state is one of several in a row.

        After one step alone the user may go on at once.
        """
        now = self._clock()
        before, document.returned_at = document.returned_at, now
        return before is not None and now - before <= _BURST


def region_of(changes: Sequence[Change]) -> tuple[int, int, int]:
    """(start, old end, new end) of the lines that the changes of one message touched together: the lines from
    start to the old end became those from start to the new end. At least one change."""
    first = changes[0]
    start, old_end, new_end = first.line, first.line + first.removed, first.line + first.inserted
    for change in changes[1:]:
        old_end += max(change.line + change.removed - new_end, 0)
        new_end = max(new_end, change.line + change.removed) + change.inserted - change.removed
        start = min(start, change.line)
    return start, old_end, new_end


def _returns(document: _Document, change: Change) -> bool:
    """Whether a change leads back to an earlier state. Single characters do not count."""
    if not document.states:
        document.states.append(change.before)
    returns = change.after != change.before and change.after in document.states and not change.small
    document.states.append(change.after)
    if not returns:
        document.returned_at = None
    return returns


def _is_large(changes: Sequence[Change]) -> bool:
    if sum(max(change.removed, change.inserted) - 1 for change in changes) >= MOST_LINES:
        return True
    return len(changes) >= SEVERAL and len({change.line for change in changes}) >= SEVERAL
