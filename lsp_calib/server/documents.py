"""What editors do with their documents, and whether a person did it: the source of all labels.

A change is *typed* if its shape allows it. It is *by a program* if nobody has done it by hand either: a
formatter, a rename, an agent, a checkout or another editor that wrote the file. Undoing and pasting are
neither. The protocol names none of them: their shape, what happens around them, and the file tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import attrs
from lsprotocol import types

from lsp_calib.completion.context import shared_ends
from lsp_calib.feedback.events import By
from lsp_calib.feedback.tracker import Remains
from lsp_calib.files import check_regular, read_file
from lsp_calib.filesystem import on_network
from lsp_calib.server import events as on
from lsp_calib.server.events import Clock, Events, Idle
from lsp_calib.server.messages import Connection
from lsp_calib.server.text import Change, Changes, Lines, path_of
from lsp_calib.text_lines import split_lines

# A change of more lines than this is not typed.
MOST_LINES = 5
# Changes in one message on so many lines were not typed either, unless they are of one key.
SEVERAL = 3
# What editors write for one key.
_PAIRS = frozenset(("()", "[]", "{}", '""', "''", "``"))
# Seconds after such a change in which the next request is held back.
HELD_BACK = 0.5
# Seconds between two steps of one burst of undoing.
_BURST = 1.0
# Seconds that a save takes at most: an editor may begin one and never report its end.
_SAVE = 5.0
# States of a document that are recognised when it returns to them.
_STATES = 64
# Seconds within which two messages come of one action.
_AT_ONCE = 0.1
# Seconds within which a save may have overtaken its own change: Neovim sends what was typed right before it
# writes. What others have written is noticed later: VS Code collects such news for 75 ms (parcelWatcher.ts).
_OVERTAKES = 0.05
# Bytes of a file that are compared with a document.
_LARGEST = 8_000_000

_Stamp = tuple[int, int, int]
"""Of a file: another one was written since."""


@attrs.define
class _Document:
    """bulk_at: time of the last change in bulk, None once a request has been held back for it.
    returned_at: of the last change that led back to an earlier state. saving_at: of the save under way, and
    the reason that the editor gives for it, if it does. unsaved: whether it has changed since. saved: the
    state, and file: the file, as they were when the document was opened or saved; None: there was none.
    notebook: URI of the one that it is a cell of; "": of none. replaced_at: when the last message replaced
    `replaced`."""

    notebook: str = ""
    file: _Stamp | None = None
    saved: int = 0
    unsaved: bool = False
    replaced: Change | None = None
    replaced_at: float = 0.0
    states: deque[int] = attrs.field(factory=lambda: deque(maxlen=_STATES))
    bulk_at: float | None = None
    returned_at: float | None = None
    saving_at: float | None = None
    reason: types.TextDocumentSaveReason | None = None


class FreedMemory:
    """Gives the memory of closed documents back to the system, in a pause after they were closed.

    glibc keeps what is freed below something in use: of 500 documents with 100 MB, most of it. It gives the
    pages back when it is told to. Elsewhere nothing is done: other allocators do so by themselves.
    """

    def __init__(self, idle: Idle, events: Events) -> None:
        self._closed = False
        events.on(on.DocumentClosed, self._was_closed)
        idle.run("memory", self._give_back)

    def _was_closed(self, _: on.DocumentClosed) -> None:
        self._closed = True

    async def _give_back(self) -> None:
        if self._closed and sys.platform == "linux":
            self._closed = False
            await asyncio.to_thread(_trim)


def _trim() -> None:
    import ctypes

    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # musl has none
        trim(0)


class Documents:
    """Sends what editors do with their documents; one that is not open has no events.

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
            notebook = "" if document.notebook is None else document.notebook.uri
            file, state = _stamp(path_of(document.uri)), hash(document.bare_lines)
            self._documents[document.uri] = _Document(notebook, file, state)
            self._events.send(on.DocumentOpened(document, document.bare_lines))

    def changed(self, uri: str) -> None:
        if (document := self._connection.open_document(uri)) is not None:
            changes, lines = document.take_changes(), document.bare_lines
            by = self._by_whom(document.uri, changes, lines) if changes.all else By.USER
            self._events.send(on.DocumentChanged(document, lines, changes, by))

    def save_begins(self, uri: str, reason: types.TextDocumentSaveReason) -> None:
        """What changes until the end of the save is changed by a formatter."""
        document = self._documents.setdefault(uri, _Document())
        document.saving_at = self._clock()
        document.reason = reason

    def saved(self, uri: str) -> None:
        """A save after a pause in typing does not mean anything."""
        document = self._documents.setdefault(uri, _Document())
        reason, document.reason = document.reason, None
        document.saving_at, document.unsaved, document.file = None, False, _stamp(path_of(uri))
        document.saved = document.states[-1] if document.states else document.saved
        if reason is not types.TextDocumentSaveReason.AfterDelay:
            by_hand = reason is types.TextDocumentSaveReason.Manual
            self._events.send(on.DocumentSaved(uri, by_hand))

    def closed(self, uri: str) -> None:
        remains = self.remains(uri)
        if (document := self._documents.pop(uri, None)) is not None:  # cells may be closed twice
            self._events.send(on.DocumentClosed(uri, document.notebook, remains))

    def notebook_closed(self, uri: str) -> None:
        self._events.send(on.NotebookClosed(uri))

    def remains(self, uri: str) -> Remains:
        """What is left of the document once it is closed. It may be asked later, when the file is written."""
        document, path = self._documents.get(uri) or _Document(), path_of(uri)

        def left(lines: Lines) -> Sequence[str]:
            if document.unsaved:
                return _lines_of(path) or ()
            # One that was saved under a name that is no file's, or by another program, has its text there.
            return () if document.file is not None and _stamp(path) is None else lines

        return left

    def holds_back(self, uri: str) -> bool:
        """Whether the request that has just come is held back. The next one is not."""
        document = self._documents.get(uri)
        if document is None or document.bulk_at is None:
            return False
        late = self._clock() - document.bulk_at > HELD_BACK
        document.bulk_at = None
        return not late

    def _by_whom(self, uri: str, changes: Changes, lines: Lines) -> By:
        document = self._documents.setdefault(uri, _Document())
        saving = document.saving_at is not None and self._clock() - document.saving_at <= _SAVE
        returned = _returns(document, changes)
        bulk = (returned and self._is_burst(document)) or saving or _is_large(changes.all)
        document.bulk_at = self._clock() if bulk else None
        reverted = _is_of_whole_lines(changes) and document.unsaved and changes.after == document.saved
        read_again = reverted or _is_in(path_of(uri), document, changes, lines)
        document.unsaved = not read_again
        undone = returned and not _is_whole(changes)
        by_program = saving or (not undone and _is_edited_by_program(changes, lines))
        by_program = self._goes_on(document, changes.all[0]) or by_program
        return By.FILE if read_again else By.PROGRAM if by_program else By.USER

    def _goes_on(self, document: _Document, change: Change) -> bool:
        """Whether a message replaces on another line what the one right before it has replaced, by the same:
        lsp-mode sends each place of a replacement on its own."""
        now, before = self._clock(), document.replaced
        is_new = change.text and not (change.small or change.extends)
        goes_on = is_new and before is not None and now - document.replaced_at <= _AT_ONCE
        same = goes_on and before is not None and before.text == change.text and before.line != change.line
        document.replaced, document.replaced_at = (change if is_new else None), now
        return bool(same)

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


def _has_many_lines(changes: Sequence[Change]) -> bool:
    return sum(max(change.removed, change.inserted) - 1 for change in changes) >= MOST_LINES


def _is_large(changes: Sequence[Change]) -> bool:
    if _has_many_lines(changes):
        return True
    return len({change.line for change in changes}) >= SEVERAL and not _is_one_key(changes)


def _is_one_key(changes: Sequence[Change]) -> bool:
    """Whether a key with several cursors may have made changes: a character or none, or a bracket or quote
    with the one that the editor adds, the same at each place."""
    text = changes[0].text
    of_key = all(one.small or (one.empty and text in _PAIRS) for one in changes)
    return of_key and all(one.text == text for one in changes)


def _is_whole(changes: Changes) -> bool:
    """Whether the whole document was replaced, of three lines or more."""
    only = changes.all[0]
    return len(changes.all) == 1 and only.line == 0 and only.removed >= max(len(changes.old) - 1, 3)


def _is_of_whole_lines(changes: Changes) -> bool:
    """Whether lines were replaced by others, or came, whole: so VS Code shows a file that it reads again."""
    return all(change.whole_lines for change in changes.all)


def _replaces_in_lines(changes: Changes, lines: Lines) -> bool:
    """Whether one change replaces the same in several lines: Eglot joins what comes within half a second."""
    start, old_end, new_end = changes.region
    if old_end != new_end or old_end - start < 2:
        return False
    found = []
    for old, new in zip(changes.old[start:old_end], lines[start:new_end], strict=False):
        if old != new:
            above, below = shared_ends(old, new)
            found.append((old[above : len(old) - below], new[above : len(new) - below]))
    return len(found) > 1 and len(set(found)) == 1 and all(found[0])


def _is_edited_by_program(changes: Changes, lines: Lines) -> bool:
    """Whether changes are of many lines, or replace something and touch another line, too, or touch several.

    Where users indent lines, comment them out, or type with several cursors, the same comes or goes. Where
    they choose a word from a menu, its beginning is there, and another line may get an import.
    """
    every = changes.all
    if _is_whole(changes) or _has_many_lines(every) or _replaces_in_lines(changes, lines):
        return True
    nothing_went, nothing_came = all(one.empty for one in every), not any(one.text for one in every)
    if nothing_came or (nothing_went and len({one.text for one in every}) == 1):
        return False
    places = len({one.line for one in every})
    replaces = any(one.text and not (one.small or one.extends) for one in every)
    return places >= SEVERAL or (places > 1 and replaces)


def _stamp(path: Path | None) -> _Stamp | None:
    """None: there is no such file."""
    with contextlib.suppress(OSError, ValueError):
        if path is not None:
            status = check_regular(path)
            return status.st_ino, status.st_mtime_ns, status.st_size
    return None


def _is_in(path: Path | None, document: _Document, changes: Changes, lines: Lines) -> bool:
    """Whether a program has written these lines into the document's file, from where the editor has them."""
    # Where there are changes of the user's, no editor reads the file again unless it is told to.
    apart = _is_of_whole_lines(changes) or len({one.line for one in changes.all}) > 1
    if all(one.small for one in changes.all) or (document.unsaved and not apart):
        return False
    stamp = _stamp(path)
    if document.file is None or stamp is None or stamp == document.file:
        return False
    _, written_ns, _ = stamp
    if abs(time.time() - written_ns / 1e9) <= _OVERTAKES or _lines_of(path) != lines:
        return False
    document.file = stamp
    return True


def _lines_of(path: Path | None) -> Lines | None:
    """The lines of a file; None if it cannot be read, or might take long, as on another machine."""
    with contextlib.suppress(OSError, ValueError):
        if path is not None and not on_network(path.parent):
            return split_lines(read_file(path, _LARGEST).decode("utf-8", "replace").removeprefix("\ufeff"))
    return None
