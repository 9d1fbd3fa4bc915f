"""What editors do with their documents, and whether a person did it: the source of all labels.

A change is *by a program* if nobody has made it by hand: a formatter, a rename, an agent, a checkout or
another editor that wrote the file. The protocol names none of them: their shape, what happens around them,
and the file tell.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import attrs
from lsprotocol import types

from lsp_calib.characters import split_lines
from lsp_calib.completion.context import shared_ends
from lsp_calib.feedback.events import By
from lsp_calib.feedback.lines import LineMap
from lsp_calib.feedback.tracker import Remains
from lsp_calib.files import check_regular, on_network, read_file
from lsp_calib.server.idle import Clock
from lsp_calib.server.messages import Connection
from lsp_calib.server.text import CalibDocument, Change, Changes, Lines, path_of

# A change of more lines than this is not typed.
MOST_LINES = 5
# Changes in one message on so many lines were not typed either, unless the same comes or goes on each.
SEVERAL = 3
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
class _Edited:
    """An open document as its file has it, and what led to its present state.

    file, saved: the file, and the state, as they were when the document was opened or saved; None: there was
    no file. unsaved: whether it has changed since. states: the last ones. saving_at: time of the save under
    way, and the reason that the editor gives for it, if it does. notebook: URI of the one that it is a cell
    of; "": of none. replaced_at: when the last message replaced `replaced`."""

    notebook: str = ""
    file: _Stamp | None = None
    saved: int = 0
    unsaved: bool = False
    states: deque[int] = attrs.field(factory=lambda: deque(maxlen=_STATES))
    saving_at: float | None = None
    reason: types.TextDocumentSaveReason | None = None
    replaced: Change | None = None
    replaced_at: float = 0.0


@attrs.frozen
class DocumentChanged:
    """What one message has changed. lines: as they are now."""

    document: CalibDocument
    lines: Lines
    changes: Changes
    by: By


@attrs.frozen
class DocumentSaved:
    """by_hand: what is in it is finished, unless the user goes on with it at once; otherwise the editor does
    not say whether it has saved by itself."""

    uri: str
    by_hand: bool


@attrs.frozen
class DocumentClosed:
    """notebook: URI of the one that it was a cell of, which may be open; "": of none. remains: the lines that
    are left of those that it was closed with."""

    uri: str
    notebook: str
    remains: Remains


class Documents:
    """Tells what editors do with their documents, and who did it; None of one that is not open.

    clock: seconds that only grow.
    """

    def __init__(self, connection: Connection, clock: Clock = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._documents: dict[str, _Edited] = {}

    def opened(self, uri: str) -> CalibDocument | None:
        """Some editors open a document twice."""
        if (document := self._connection.open_document(uri)) is not None:
            notebook = "" if document.notebook is None else document.notebook.uri
            file, state = _stamp(path_of(document.uri)), hash(document.bare_lines)
            self._documents[document.uri] = _Edited(notebook, file, state)
        return document

    def changed(self, uri: str) -> DocumentChanged | None:
        if (document := self._connection.open_document(uri)) is None:
            return None
        changes = document.take_changes()
        by = self._by_whom(document.uri, changes) if changes.all else By.USER
        return DocumentChanged(document, document.bare_lines, changes, by)

    def save_begins(self, uri: str, reason: types.TextDocumentSaveReason) -> None:
        """What changes until the end of the save is changed by a formatter."""
        document = self._documents.setdefault(uri, _Edited())
        document.saving_at = self._clock()
        document.reason = reason

    def saved(self, uri: str) -> DocumentSaved | None:
        """None of a save after a pause in typing, which does not mean anything."""
        document = self._documents.setdefault(uri, _Edited())
        reason, document.reason = document.reason, None
        document.saving_at, document.unsaved, document.file = None, False, _stamp(path_of(uri))
        document.saved = document.states[-1] if document.states else document.saved
        if reason is types.TextDocumentSaveReason.AfterDelay:
            return None
        return DocumentSaved(uri, by_hand=reason is types.TextDocumentSaveReason.Manual)

    def closed(self, uri: str) -> DocumentClosed | None:
        remains = self.remains(uri)
        document = self._documents.pop(uri, None)
        if document is None:  # cells may be closed twice
            return None
        return DocumentClosed(uri, document.notebook, remains)

    def remains(self, uri: str) -> Remains:
        """What is left of the document once it is closed. It may be asked later, when the file is written."""
        document, path = self._documents.get(uri) or _Edited(), path_of(uri)

        def left(lines: Lines) -> Sequence[str]:
            if document.unsaved:
                return _lines_of(path) or ()
            # One that was saved under a name that is no file's, or by another program, has its text there.
            return () if document.file is not None and _stamp(path) is None else lines

        return left

    def _by_whom(self, uri: str, changes: Changes) -> By:
        document = self._documents.setdefault(uri, _Edited())
        saving = document.saving_at is not None and self._clock() - document.saving_at <= _SAVE
        undone = _returns(document, changes) and not _is_whole(changes)
        by_program = saving or (not undone and _is_edited_by_program(changes))
        by_program = self._goes_on(document, changes.all[0]) or by_program
        reverted = _is_of_whole_lines(changes) and document.unsaved and changes.after == document.saved
        read_again = reverted or _is_in(path_of(uri), document, changes)
        document.unsaved = not read_again
        return By.FILE if read_again else By.PROGRAM if by_program else By.USER

    def _goes_on(self, document: _Edited, change: Change) -> bool:
        """Whether a message replaces on another line what the one right before it has replaced, by the same:
        lsp-mode sends each place of a replacement on its own."""
        now, before = self._clock(), document.replaced
        is_new = change.text and not (change.small or change.extends)
        goes_on = is_new and before is not None and now - document.replaced_at <= _AT_ONCE
        same = goes_on and before is not None and before.text == change.text and before.line != change.line
        document.replaced, document.replaced_at = (change if is_new else None), now
        return bool(same)


def _returns(document: _Edited, changes: Changes) -> bool:
    """Whether changes lead back to an earlier state. Single characters do not count."""
    if not document.states:
        document.states.append(changes.before)
    returns = changes.after != changes.before and changes.after in document.states
    document.states.append(changes.after)
    return returns and not all(change.small for change in changes.all)


def _has_many_lines(changes: Sequence[Change]) -> bool:
    return sum(max(change.removed, change.inserted) - 1 for change in changes) >= MOST_LINES


def _is_whole(changes: Changes) -> bool:
    """Whether the whole document was replaced, of three lines or more."""
    only = changes.all[0]
    return len(changes.all) == 1 and only.line == 0 and only.removed >= max(len(changes.where.old) - 1, 3)


def _is_of_whole_lines(changes: Changes) -> bool:
    """Whether lines were replaced by others, or came, whole: so VS Code shows a file that it reads again."""
    return all(change.whole_lines for change in changes.all)


def _replaces_in_lines(where: LineMap) -> bool:
    """Whether one change replaces the same in several lines: Eglot joins what comes within half a second."""
    if where.old_end != where.new_end:
        return False
    found = []
    changed = slice(where.start, where.old_end)
    for old, new in zip(where.old[changed], where.new[changed], strict=True):
        if old != new:
            above, below = shared_ends(old, new)
            found.append((old[above : len(old) - below], new[above : len(new) - below]))
    return len(found) > 1 and len(set(found)) == 1 and all(found[0])


def _is_edited_by_program(changes: Changes) -> bool:
    """Whether changes are of many lines, or replace something and touch another line, too, or touch several.

    Where users indent lines, comment them out, or type with several cursors, the same comes or goes. Where
    they choose a word from a menu, its beginning is there, and another line may get an import.
    """
    every = changes.all
    if _is_whole(changes) or _has_many_lines(every) or _replaces_in_lines(changes.where):
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


def _is_in(path: Path | None, document: _Edited, changes: Changes) -> bool:
    """Whether a program has written these lines into the document's file, from where the editor has them."""
    # Where there are changes of the user's, no editor reads the file again unless it is told to.
    apart = _is_of_whole_lines(changes) or len({one.line for one in changes.all}) > 1
    if all(one.small for one in changes.all) or (document.unsaved and not apart):
        return False
    stamp = _stamp(path)
    if document.file is None or stamp is None or stamp == document.file:
        return False
    _, written_ns, _ = stamp
    if abs(time.time() - written_ns / 1e9) <= _OVERTAKES or _lines_of(path) != changes.where.new:
        return False
    document.file = stamp
    return True


def _lines_of(path: Path | None) -> Lines | None:
    """The lines of a file; None if it cannot be read, or might take long, as on another machine."""
    with contextlib.suppress(OSError, ValueError):
        if path is not None and not on_network(path.parent):
            return split_lines(read_file(path, _LARGEST).decode("utf-8", "replace").removeprefix("\ufeff"))
    return None
