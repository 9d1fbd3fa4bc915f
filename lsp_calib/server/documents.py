"""Documents: as lines, as LSP counts them, and as cells of notebooks; and what editors do with them, and
whether a person did it: the source of all labels.

A change takes time for its lines only. It is *by a program* if nobody has made it by hand: a formatter, a
rename, an agent, a checkout or another editor that wrote the file. The protocol names none of them: their
shape, what happens around them, and the file tell.

Imports here delay the answer to `initialize`.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import attrs
from lsprotocol import types
from pygls import uris
from pygls.workspace import PositionCodec, ServerTextPosition, TextDocument, Workspace

from lsp_calib.characters import indentation_of, shared_ends, split_lines
from lsp_calib.files import check_regular, names_of, on_network, read_file
from lsp_calib.languages import bounded, identifier_of

if TYPE_CHECKING:
    from lsp_calib.completion.context import Cursor
    from lsp_calib.completion.service import Selected
    from lsp_calib.feedback.events import By
    from lsp_calib.feedback.lines import LineMap
    from lsp_calib.feedback.tracker import Remains
    from lsp_calib.syntax import Function


def path_of(uri: str) -> Path | None:
    """The path of a document, None if its URI is that of something else.

    >>> path_of("file:///a/C%23/b.py").as_posix(), path_of("untitled:1")
    ('/a/C#/b.py', None)
    """
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def path_of_folder(address: str) -> Path | None:
    """The path of a workspace folder by its address, in which nothing is escaped (`workspace_files`).

    >>> path_of_folder("file:///a/C#").as_posix(), path_of_folder("file:///a/100%25").as_posix()
    ('/a/C#', '/a/100%25')
    """
    return path_of(quote(address, safe="/:"))


def _file_names(uri: str) -> tuple[str, ...]:
    """The URI of a document, and the path of its file where links lead elsewhere."""
    path = path_of(uri)
    return (uri,) if path is None else (uri, *names_of(path)[1:])


Lines = tuple[str, ...]

# LSP ends lines at \n, \r\n or \r and nowhere else (`characters.split_lines`).
_END = re.compile(r"(\r\n|\n|\r)")
_ENDS = {end: end for end in ("\n", "\r\n", "\r")}  # each is held once


def _split(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text and their ends; the last line has none."""
    parts = _END.split(text)
    return parts[::2], [*map(_ENDS.__getitem__, parts[1::2]), ""]


@attrs.frozen
class Change:
    """One change of a document, as the editor sends it.

    line: its first line, from 0. removed, inserted: how many lines it touched, before and after; 1 within a
        line. small: of one character at most. end: line and column behind what came, where the cursor is now
        if somebody typed it. text: what came. empty: whether nothing went. extends: whether it begins with
        what went, as where a menu completes a word. whole_lines: whether lines went and came with their ends.
    """

    line: int
    removed: int
    inserted: int
    small: bool
    end: tuple[int, int]
    text: str = attrs.field(default="", repr=False)
    empty: bool = False
    extends: bool = False
    whole_lines: bool = False


@attrs.frozen
class Changes:
    """The changes of one message. where: what they have made of the lines, compared once for all who ask.
    before, after: numbers that are the same for the same text."""

    all: Sequence[Change]
    where: LineMap
    before: int
    after: int


class CalibDocument(TextDocument):
    """A document stored as lines. The whole text is joined whenever it is requested.

    notebook: the one that it is a cell of, if any. file: the URI of the file that it is a part of: of the
    notebook for its cells, else its own. file_names: `file`, and the path of the file behind it where that
    was a link when it was opened. is_open: until the editor closes it. edits: how many changes there were.
    changed_at: when the last one came, in seconds that only grow.
    """

    notebook: Notebook | None = None
    is_open = True
    edits = 0
    changed_at: float | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.file, self.file_names = self.uri, _file_names(self.uri)
        self._lines, self._ends = _split(self._source or "")
        self._source = None  # the text is held once
        self._changes: list[Change] = []
        self._old: Lines = ()  # the lines before `_changes`
        self._functions: tuple[Lines, Sequence[Function]] | None = None
        self._read: tuple[Lines, Lines] = (), ()  # `bare_lines` and `read_lines`

    @property
    def source(self) -> str:
        return "".join(line + end for line, end in zip(self._lines, self._ends, strict=True))

    @cached_property
    def bare_lines(self) -> Lines:
        """Lines without their ends, including the empty one after a last line end. Unchanged lines stay the
        same objects from one version to the next, which makes comparing two versions cheap."""
        return tuple(self._lines)

    @property
    def read_lines(self) -> Lines:
        """`bare_lines`, of which those that a notebook's kernel takes for commands are marked as such."""
        lines = self.bare_lines
        if self.notebook is None:
            return lines
        if self._read[0] is not lines:
            from lsp_calib.syntax.magics import with_commands

            self._read = lines, with_commands(lines, identifier_of(self.language_id or ""))
        return self._read[1]

    def in_its_text(self) -> tuple[Lines, int]:
        """The text that the document is a part of, and the line with which the document begins there.

        That is itself, and for a cell the code of its notebook.
        """
        return (self.bare_lines, 0) if self.notebook is None else self.notebook.around(self)

    @property
    def cells(self) -> tuple[CalibDocument, ...]:
        """The documents whose functions are known in this one: the code cells of a notebook, else itself."""
        return (self,) if self.notebook is None else self.notebook.cells_like(self)

    @cached_property
    def language(self) -> str:
        """The identifier of its language, of bounded length."""
        # lsprotocol lets values of other types through.
        known = isinstance(self.language_id, str) and self.language_id
        return bounded(identifier_of(known or "plaintext"))

    @property
    def is_code(self) -> bool:
        """False for a cell of text in a notebook."""
        return self.notebook is None or any(one is self for one in self.notebook.code)

    def functions_of(self, lines: Lines) -> Sequence[Function] | None:
        """The functions that were found in these lines, if they are those of the document's last version."""
        return self._functions[1] if self._functions is not None and self._functions[0] is lines else None

    def remember_functions(self, lines: Lines, found: Sequence[Function]) -> None:
        """Keep the functions found in these lines until the document changes."""
        if lines is self.bare_lines:
            self._functions = lines, found

    def take_changes(self) -> Changes:
        """The changes since the last call, in their order."""
        from lsp_calib.feedback.lines import LineMap

        new = self.bare_lines
        old = self._old if self._changes else new
        taken = Changes(self._changes, LineMap(old, new), hash(old), hash(new))
        self._changes, self._old = [], ()
        return taken

    def apply_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        old = self.bare_lines
        if not self._changes:
            self._old = old
        self.edits, self.changed_at = self.edits + 1, time.monotonic()
        if isinstance(change, types.TextDocumentContentChangePartial):
            self._changes.append(self._edit(change.range, change.text))
        else:
            self._lines, self._ends = _split(change.text)
            self._changes += _difference(old, tuple(self._lines))
        self._functions = None
        del self.bare_lines

    def place_of(self, position: types.Position) -> tuple[int, int]:
        """Line and column, in code points, of an LSP position; beyond the end of a line or of the document it
        is that end."""
        if position.line >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        place = self.position_codec.position_from_client_units(self._lines, position)
        return place.line, place.character

    def _edit(self, span: types.Range, text: str) -> Change:
        """Put a text in the place of another."""
        (line, column), (end, end_column) = self.place_of(span.start), self.place_of(span.end)
        went, came = self._lines[line][column:end_column] if line == end else "", split_lines(text)
        new = self._lines[line][:column] + text + self._lines[end][end_column:] + self._ends[end]
        first = line
        if line and self._ends[line - 1] == "\r" and new.startswith("\n"):  # these are one end now
            first, new = line - 1, f"{self._lines[line - 1]}\r{new}"
        lines, ends = _split(new)
        if end + 1 < len(self._lines):  # behind its last end the next line stands
            del lines[-1], ends[-1]
        self._lines[first : end + 1], self._ends[first : end + 1] = lines, ends
        return Change(
            line=line,
            removed=end - line + 1,
            inserted=text.count("\n") + 1,
            small=len(text) <= 1 and line == end and end_column - column <= 1,
            end=(line + len(came) - 1, len(came[-1]) + (column if len(came) == 1 else 0)),
            text=text,
            empty=(line, column) == (end, end_column),
            extends=line == end and text.startswith(went),
            whole_lines=column == end_column == 0 and text.endswith("\n"),
        )


def _difference(old: Lines, new: Lines) -> list[Change]:
    """What a whole new text changes; nothing if it is the same."""
    above, below = shared_ends(old, new)
    went, came = old[above : len(old) - below], new[above : len(new) - below]
    if not went and not came:
        return []
    small = len(went) == len(came) == 1 and abs(len(went[0]) - len(came[0])) <= 1
    same = shared_ends(went[-1], came[-1])[1] if went and came else 0  # characters behind the change
    end = (above + len(came) - 1, len(came[-1]) - same) if came else (above, 0)
    return [Change(above, len(went), len(came), small, end, "\n".join(came))]


class Notebook:
    """A notebook that an editor shows. uri: its own. file_names: as of a document. code: its cells of code,
    in their order."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.file_names = _file_names(uri)
        self.code: tuple[CalibDocument, ...] = ()
        self._text: Lines = ()

    def cells_like(self, cell: CalibDocument) -> tuple[CalibDocument, ...]:
        """The code cells of the language of a code cell, in their order; a cell of text stands alone."""
        if not cell.is_code:
            return (cell,)
        return tuple(one for one in self.code if one.language == cell.language)

    def around(self, cell: CalibDocument) -> tuple[Lines, int]:
        """The text that a cell stands in, and the line there with which it begins.

        Cells are joined with an empty line. The text is the same object as long as nothing changes.
        """
        text: list[str] = []
        first = 0
        for one in self.cells_like(cell):
            if one is cell:
                first = len(text)
            text += (*one.read_lines, "")
        found = tuple(text[:-1])
        if found != self._text:
            self._text = found
        return self._text, first


_UNITS = {
    types.PositionEncodingKind.Utf8: ("utf-8", 1),
    types.PositionEncodingKind.Utf16: ("utf-16-le", 2),
    types.PositionEncodingKind.Utf32: ("utf-32-le", 4),
}


class CalibCodec(PositionCodec):
    """A position beyond the end of a line means its end, as LSP requires; pygls takes one character less.

    pygls counts characters one by one, several times for each position: for a line of a megabyte that took a
    second at every key. Characters of ASCII are units in every encoding.
    """

    def client_num_units(self, string: str) -> int:
        name, size = _UNITS[types.PositionEncodingKind(self.encoding)]
        return len(string) if string.isascii() else len(string.encode(name, "replace")) // size

    def position_from_client_units(
        self, lines: Sequence[str], position: types.Position
    ) -> ServerTextPosition:
        """Within a character of several units it is the end of that. lines: without their ends."""
        line, units = lines[position.line], max(0, position.character)
        name, size = _UNITS[types.PositionEncodingKind(self.encoding)]
        if not line.isascii():
            units = len(line.encode(name, "replace")[: units * size].decode(name, "replace"))
        return ServerTextPosition(position.line, min(units, len(line)))


class CalibWorkspace(Workspace):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._position_codec = CalibCodec(self.position_encoding)
        self._notebooks: dict[str, Notebook] = {}

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> CalibDocument:
        codec = self._position_codec
        return CalibDocument(doc_uri, source, version, language_id, position_codec=codec)

    def remove_text_document(self, doc_uri: str) -> None:
        if isinstance(document := self._text_documents.get(unquote(doc_uri)), CalibDocument):
            document.is_open = False
        super().remove_text_document(doc_uri)

    def put_notebook_document(self, params: types.DidOpenNotebookDocumentParams) -> None:
        super().put_notebook_document(params)
        self._arrange(params.notebook_document.uri)

    def update_notebook_document(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Apply a change of cells; what it says of documents that are not open is ignored."""
        cells = params.change.cells
        texts = () if cells is None else cells.text_content or ()
        if cells is not None and (cells.structure is not None or cells.data):
            if cells.structure is not None and cells.structure.did_close:
                # One that is closed and opened at once, as another language: pygls would close it last.
                opened = {unquote(one.uri) for one in cells.structure.did_open or ()}
                closed = (self._text_documents.get(unquote(one.uri)) for one in cells.structure.did_close)
                cells.structure.did_close = [
                    types.TextDocumentIdentifier(one.uri)
                    for one in closed
                    if one is not None and unquote(one.uri) not in opened
                ]
            cells.text_content = None
            super().update_notebook_document(params)
            self._arrange(params.notebook_document.uri)
            cells.text_content = texts
        # Not by pygls, which goes through all cells at each key.
        for text in texts:
            if unquote(text.document.uri) in self._text_documents:
                for change in text.changes:
                    self.update_text_document(text.document, change)

    def remove_notebook_document(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """Close all cells of a notebook, whichever of them `params` names; then it has all of them."""
        notebook = self._notebooks.pop(unquote(params.notebook_document.uri), None)
        params.cell_text_documents = [
            types.TextDocumentIdentifier(one.uri)
            for one in self._text_documents.values()
            if isinstance(one, CalibDocument) and one.notebook is notebook is not None
        ]
        super().remove_notebook_document(params)

    def _arrange(self, uri: str) -> None:
        """Tell the cells of a notebook which stand beside them."""
        known = self._notebook_documents[unquote(uri)]
        notebook = self._notebooks.setdefault(unquote(uri), Notebook(known.uri))
        code: list[CalibDocument] = []
        for cell in known.cells:
            document = self._text_documents.get(unquote(cell.document))
            if isinstance(document, CalibDocument):
                document.notebook = notebook
                document.file, document.file_names = notebook.uri, notebook.file_names
                code += [document] if cell.kind is types.NotebookCellKind.Code else []
        notebook.code = tuple(code)


def cursor_at(document: CalibDocument, position: types.Position) -> Cursor:
    """The cursor at an LSP position, in the text that the document is a part of."""
    from lsp_calib.completion.context import Cursor

    line, column = document.place_of(position)
    lines, first = document.in_its_text()
    return Cursor.at(lines, first + line, column, document.language, first)


def selected_at(
    document: CalibDocument, cursor: Cursor, info: types.SelectedCompletionInfo
) -> Selected | None:
    """The item selected in the editor's menu; None if nothing at `cursor` can go on from it."""
    from lsp_calib.completion.service import Selected

    span = info.range
    if not span.start.line == span.end.line == cursor.own_line:
        return None
    start, end = (document.place_of(position)[1] for position in (span.start, span.end))
    return Selected.at(cursor, start, end, info.text)


def whole_line(document: CalibDocument, line: int, text: str) -> types.Range:
    """The range of a line's text without its indentation."""
    return part_of_line(document, line, text, len(indentation_of(text)), len(text))


def part_of_line(document: CalibDocument, line: int, text: str, start: int, end: int) -> types.Range:
    """The range of a part of a line's text, given in code points."""
    units = document.position_codec.client_num_units
    return types.Range(types.Position(line, units(text[:start])), types.Position(line, units(text[:end])))


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
    """Tells what editors do with their documents, and who did it.

    clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._documents: dict[str, _Edited] = {}

    def opened(self, document: CalibDocument) -> None:
        """Some editors open a document twice."""
        notebook = "" if document.notebook is None else document.notebook.uri
        file, state = _stamp(path_of(document.uri)), hash(document.bare_lines)
        self._documents[document.uri] = _Edited(notebook, file, state)

    def changed(self, document: CalibDocument) -> DocumentChanged:
        from lsp_calib.feedback.events import By

        changes = document.take_changes()
        by = self._by_whom(document.uri, changes) if changes.all else By.USER
        return DocumentChanged(document, changes.where.new, changes, by)

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
        from lsp_calib.feedback.events import By

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
    if where.old_end != where.new_end or where.old_end - where.start < 2:
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
