"""What became of the last request for a completion in each document: for the command `lsp-calib.explain`."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from lsp_calib.completion import Cursor
from lsp_calib.server.absence import DOCUMENT_CHANGED, SUPERSEDED, WAITING, Absence

# Documents that are remembered: more than anyone works on at once.
_MOST = 100


@attrs.frozen
class LastRequest:
    """The last request in a document.

    place: its line and column; None if it was refused before a place was looked at.
    at: seconds on the clock. absence: why it has no suggestion (yet); None if it has one.
    """

    uri: str
    place: tuple[int, int] | None
    at: float
    absence: Absence | None


class LastRequests:
    """Holds places and outcomes, no text. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, LastRequest] = {}  # the latest one at the end

    def asked(self, uri: str, cursor: Cursor) -> None:
        """A request has come: nothing is known of it yet."""
        self._put(uri, _place(cursor), WAITING)

    def refused(self, uri: str, absence: Absence) -> None:
        """A request has come that is not looked at."""
        self._put(uri, None, absence)

    def concluded(self, uri: str, cursor: Cursor, absence: Absence | None) -> None:
        """What became of the request at `cursor`; ignored if there is a later one elsewhere."""
        last = self._last.get(uri)
        if last is not None and last.place == _place(cursor):
            self._last[uri] = attrs.evolve(last, absence=absence)

    def cancelled(self, uri: str, cursor: Cursor, why: Absence = SUPERSEDED) -> None:
        """The request at `cursor` was cancelled; ignored if another one at this place was answered."""
        last = self._last.get(uri)
        if last is not None and last.absence is WAITING:
            self.concluded(uri, cursor, why)

    def outdated(self, uri: str) -> None:
        """The suggestion for the last request is not shown: the document has changed."""
        if (last := self._last.get(uri)) is not None:
            self._last[uri] = attrs.evolve(last, absence=DOCUMENT_CHANGED)

    def is_last(self, uri: str, cursor: Cursor) -> bool:
        """Whether no request has come elsewhere in the document since the one at `cursor`."""
        last = self._last.get(uri)
        return last is not None and last.place == _place(cursor)

    def forget(self, uri: str) -> None:
        self._last.pop(uri, None)

    def of(self, uri: str | None) -> LastRequest | None:
        """The last request in a document; uri None: in any document."""
        if uri is None:
            return next(reversed(self._last.values()), None)
        return self._last.get(uri)

    def to_wire(self, last: LastRequest, absence: Absence) -> dict[str, object]:
        """The answer of `lsp-calib.explain`: this absence, for this request."""
        return {
            "reason": absence.reason.value,
            "message": absence.message,
            "uri": last.uri,
            "at": round(self._clock() - last.at, 1),
        }

    def _put(self, uri: str, place: tuple[int, int] | None, absence: Absence) -> None:
        self._last.pop(uri, None)
        self._last[uri] = LastRequest(uri, place, self._clock(), absence)
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]


def _place(cursor: Cursor) -> tuple[int, int]:
    return cursor.line, cursor.column
