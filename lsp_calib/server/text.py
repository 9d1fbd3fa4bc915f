"""Documents with the line ends of LSP: a change takes time for its lines only. Cells of notebooks, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, unquote

import attrs
from lsprotocol import types
from pygls import uris
from pygls.workspace import PositionCodec, ServerTextPosition, TextDocument, Workspace

from lsp_calib.files import names_of
from lsp_calib.languages import bounded, identifier_of
from lsp_calib.text_lines import indentation_of, split_lines

if TYPE_CHECKING:
    from lsp_calib.completion.context import Cursor
    from lsp_calib.completion.service import Selected
    from lsp_calib.syntax import Function
    from lsp_calib.syntax.magics import CellReader


def path_of(uri: str) -> Path | None:
    """The path of a document, None if its URI is that of something else.

    >>> path_of("file:///a/C%23/b.py").as_posix(), path_of("untitled:1")
    ('/a/C#/b.py', None)
    """
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def _file_names(uri: str) -> tuple[str, ...]:
    """The URI of a document, and the path of its file where links lead elsewhere."""
    path = path_of(uri)
    return (uri,) if path is None else (uri, *names_of(path)[1:])


def path_of_folder(address: str) -> Path | None:
    """The path of a workspace folder by its address, in which nothing is escaped (`workspace_files`).

    >>> path_of_folder("file:///a/C#").as_posix(), path_of_folder("file:///a/100%25").as_posix()
    ('/a/C#', '/a/100%25')
    """
    return path_of(quote(address, safe="/:"))


# LSP ends lines at \n, \r\n or \r and nowhere else (`text_lines`).
_WITH_END = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_FOREIGN_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def split_keeping_ends(text: str) -> list[str]:
    """Lines with their line ends. No empty line follows a line end at the end of the text."""
    if _FOREIGN_ENDS.search(text) is None:
        return text.splitlines(keepends=True)  # the fast way for large documents
    return _WITH_END.findall(text)


Lines = tuple[str, ...]

_ENDS = {end: end for end in ("", "\n", "\r\n", "\r")}


class _WithEnds(Sequence[str]):
    """Lines with their ends, which are held apart: each line is held once. bare: the lines without them."""

    def __init__(self, text: str) -> None:
        self.bare: list[str] = []
        self._ends: list[str] = []
        self.put(0, 0, split_keeping_ends(text))

    def put(self, first: int, last: int, lines: Sequence[str], bare: Sequence[str] = ()) -> None:
        """Put lines, which have their ends, in the place of those from `first` to (not including) `last`.

        bare: the same without their ends, as far as there are strings of them already.
        """
        without = [*bare, *(line.rstrip("\r\n") for line in lines[len(bare) :])]
        self.bare[first:last] = without
        self._ends[first:last] = [_ENDS[line[len(one) :]] for line, one in zip(lines, without, strict=True)]

    def __len__(self) -> int:
        return len(self.bare)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [line + end for line, end in zip(self.bare[at], self._ends[at], strict=True)]
        return self.bare[at] + self._ends[at]


class _Packed(Sequence[str]):
    """The lines of a text without their ends, split when they are first looked at. For any thread."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _lines(self) -> Lines:
        return split_lines(self._text)

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Lines: ...
    def __getitem__(self, at: int | slice) -> str | Lines:
        return self._lines[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)


# Documents of which the lines are held: those that a user works in by turns. A line of Python takes 49 bytes
# more than its text, so the others hold their text as one string.
MOST_SPLIT = 16


class _Split:
    """The documents that hold their lines: the one that was used longest ago is packed for another one."""

    def __init__(self) -> None:
        self._documents: dict[int, CalibDocument] = {}

    def used(self, document: CalibDocument) -> None:
        self._documents.pop(id(document), None)
        self._documents[id(document)] = document
        while len(self._documents) > MOST_SPLIT:
            self._documents.pop(next(iter(self._documents))).pack()

    def closed(self, document: CalibDocument) -> None:
        self._documents.pop(id(document), None)


@attrs.frozen
class Change:
    """One change of a document.

    line: its first line, from 0. removed, inserted: how many lines it touched, before and after; 1 within a
        line. small: of one character at most. text: what came. empty: whether nothing went. extends: whether
        it begins with what went, as where a menu completes a word. whole_lines: whether lines went and came
        with their ends.
    """

    line: int
    removed: int
    inserted: int
    small: bool
    text: str = attrs.field(default="", repr=False)
    empty: bool = False
    extends: bool = False
    whole_lines: bool = False


@attrs.frozen
class Changes:
    """The changes of one message. before, after: numbers that are the same for the same text. old: the lines
    before them.

    region: (start, old end, new end) of the lines that they touched together: those from start to the old end
        became those from start to the new end.
    """

    all: Sequence[Change]
    before: int
    after: int
    region: tuple[int, int, int]
    old: Lines = attrs.field(repr=False)

    @classmethod
    def of(cls, changes: Sequence[Change], before: int, after: int, old: Lines) -> Changes:
        start = old_end = new_end = changes[0].line if changes else 0
        for change in changes:
            old_end += max(change.line + change.removed - new_end, 0)
            new_end = max(new_end, change.line + change.removed) + change.inserted - change.removed
            start = min(start, change.line)
        return cls(changes, before, after, (start, old_end, new_end), old)


class CalibDocument(TextDocument):
    """A document stored as lines: a keystroke costs time for its line, not for the document.

    The whole text is joined whenever it is requested, and not kept, unless the document is packed: then it is
    held instead of the lines. notebook: the one that it is a cell of, if any. is_open: until the editor
    closes it. edits: how many changes there were.
    """

    notebook: Notebook | None = None
    is_open = True
    edits = 0
    split_ones: _Split | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._names = _file_names(self.uri)
        self._split: _WithEnds | None = None
        self._snapshot: tuple[str, ...] | None = None
        self._changes: list[Change] = []
        self._state: int | None = None  # of the text when `_changes` was empty
        self._old: Lines = ()  # its lines then
        self._functions: tuple[tuple[str, ...], Sequence[Function]] | None = None
        self._read: tuple[tuple[str, ...], tuple[str, ...]] = (), ()  # `bare_lines` and `read_lines`
        self._reader: CellReader | None = None

    @property
    def source(self) -> str:
        return str(super().source) if self._split is None else "".join(self._split[:])

    @property
    def lines(self) -> Sequence[str]:
        """Lines with their ends, as pygls expects them."""
        return self._with_ends()

    @property
    def bare_lines(self) -> tuple[str, ...]:
        """Lines without their ends, including the empty one after a last line end. Unchanged lines stay the
        same objects from one version to the next, which makes comparing two versions cheap."""
        if self._snapshot is None:
            lines = self._with_ends()
            last = ("",) if not lines or lines[-1].endswith(("\n", "\r")) else ()
            self._snapshot = (*lines.bare, *last)
        return self._snapshot

    def _with_ends(self) -> _WithEnds:
        if self._split is None:
            self._split = _WithEnds(self.source)
            self._source = None  # the text is held once
            if self.split_ones is not None and self.is_open:
                self.split_ones.used(self)
        return self._split

    def pack(self) -> None:
        """Hold the text as one string until its lines are asked for; nothing else changes."""
        if self._split is not None and not self._changes:
            self._source = self.source
            self._split = self._snapshot = self._functions = self._reader = None
            self._old, self._read = (), ((), ())

    @property
    def lines_when_read(self) -> Sequence[str]:
        """`bare_lines` of now, for something that may not look at them. For any thread."""
        return self.bare_lines if self._split is not None else _Packed(self.source)

    @property
    def read_lines(self) -> tuple[str, ...]:
        """`bare_lines`, of which those that a notebook's kernel takes for commands are marked as such."""
        return self._marked(self.bare_lines)

    def in_its_text(self, lines: tuple[str, ...] | None = None) -> tuple[tuple[str, ...], int]:
        """The text that the document is a part of, and the line with which the document begins there.

        That is itself, and for a cell the code of its notebook. lines: the document's own, at another time.
        """
        if self.notebook is None:
            return lines or self.bare_lines, 0
        own = self._marked(lines) if lines else self.read_lines
        return self.notebook.around(self, own)

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
    def file(self) -> str:
        """The URI of the file that it is a part of: of the notebook for its cells, else its own."""
        return self.uri if self.notebook is None else self.notebook.uri

    @property
    def file_names(self) -> tuple[str, ...]:
        """`file`, and the path of the file behind it where that was a link when it was opened."""
        return self._names if self.notebook is None else self.notebook.file_names

    @property
    def is_code(self) -> bool:
        """False for a cell of text in a notebook."""
        return self.notebook is None or self.notebook.holds_code(self)

    def _marked(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        if self.notebook is None:
            return lines
        if self._read[0] is not lines:
            if self._reader is None:
                from lsp_calib.syntax.magics import CellReader

                self._reader = CellReader()
            self._read = lines, self._reader.read(lines, identifier_of(self.language_id or ""))
        return self._read[1]

    def functions_of(self, lines: tuple[str, ...]) -> Sequence[Function] | None:
        """The functions that were found in these lines, if they are those of the document's last version."""
        return self._functions[1] if self._functions is not None and self._functions[0] is lines else None

    def remember_functions(self, lines: tuple[str, ...], found: Sequence[Function]) -> None:
        """Keep the functions found in these lines until the document changes."""
        if lines is self._snapshot:
            self._functions = lines, found

    def take_changes(self) -> Changes:
        """The changes since the last call, in their order."""
        before, old, lines = self._state, self._old, self.bare_lines
        self._state, self._old = hash(lines), lines
        taken = Changes.of(self._changes, self._state if before is None else before, self._state, old)
        self._changes = []
        return taken

    def apply_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        if not self._changes:
            self._old = self.bare_lines
            self._state = hash(self._old)
        if self.split_ones is not None and self.is_open:
            self.split_ones.used(self)
        self.edits += 1
        super().apply_change(change)
        if self.notebook is not None:
            self.notebook.changed(self)

    def _apply_full_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        from lsp_calib.completion.context import shared_ends

        old = self.bare_lines
        super()._apply_full_change(change)
        self._split = self._snapshot = self._functions = None
        new = self.bare_lines
        above, below = shared_ends(old, new)
        removed, inserted = old[above : len(old) - below], new[above : len(new) - below]
        if removed or inserted:
            small = len(removed) == len(inserted) == 1 and abs(len(removed[0]) - len(inserted[0])) <= 1
            self._changes.append(Change(above, len(removed), len(inserted), small, "\n".join(inserted)))

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        lines = self._with_ends()
        place = self._position_codec.range_from_client_units(lines, change.range)
        start, end = place.start, place.end
        before = lines[start.line][: start.character] if start.line < len(lines) else ""
        after = lines[end.line][end.character :] if end.line < len(lines) else ""
        went = lines[start.line][start.character : end.character] if start.line < len(lines) else ""
        # The empty line after the last line end is none of `lines`; a place in it counts as one above it.
        has_end = not lines or lines[-1].endswith(("\n", "\r"))
        beyond = has_end and change.range.start.line < len(lines) <= change.range.end.line
        # A line more on either side: a \r and a \n that come together are one end.
        first, last = max(start.line - 1, 0), end.line + 2
        above, below = lines[first : start.line], lines[end.line + 1 : last]
        region = split_keeping_ends("".join([*above, before, change.text, after, *below]))
        # Unchanged lines stay the same objects.
        same = lines.bare[first : start.line] if region[: len(above)] == above else []
        lines.put(first, last, region, same)
        self._snapshot = self._functions = None
        small = len(change.text) <= 1 and start.line == end.line and end.character - start.character <= 1
        removed = end.line - start.line + 1 + beyond
        self._changes.append(
            Change(
                line=start.line,
                removed=removed,
                inserted=change.text.count("\n") + 1,
                small=small and not beyond,
                text=change.text,
                empty=start == end and not beyond,
                extends=start.line == end.line and change.text.startswith(went),
                whole_lines=start.character == end.character == 0 and change.text.endswith("\n"),
            )
        )


class Notebook:
    """A notebook that an editor shows. uri: its own. file_names: as of a document.

    The text around a cell is kept while the user works in that cell: a keystroke costs time for its cell, and
    for one copy of the list of lines, as in a file.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.file_names = _file_names(uri)
        self._code: tuple[CalibDocument, ...] = ()
        self._cell: CalibDocument | None = None  # in which the user works: what stands above and below it
        self._above: Lines = ()
        self._below: Lines = ()
        self._whole: tuple[Lines, Lines] = (), ()  # the cell's lines, and all

    def arrange(self, code: Iterable[CalibDocument]) -> None:
        """These are the code cells now, in their order."""
        self._code = tuple(code)
        self._cell = None

    def changed(self, cell: CalibDocument) -> None:
        """The text of a cell has changed."""
        if self._cell is not cell:
            self._cell = None

    def holds_code(self, cell: CalibDocument) -> bool:
        return any(one is cell for one in self._code)

    def cells_like(self, cell: CalibDocument) -> tuple[CalibDocument, ...]:
        """The code cells of the language of a code cell, in their order; a cell of text stands alone."""
        if not self.holds_code(cell):
            return (cell,)
        language = cell.language
        return tuple(one for one in self._code if one.language == language)

    def around(self, cell: CalibDocument, own: Lines) -> tuple[Lines, int]:
        """The text that the lines `own` of a cell stand in, and the line there with which they begin.

        Cells are joined with an empty line. The same lines give the same object as long as nothing changes.
        """
        if self._cell is not cell:
            cells = self.cells_like(cell)
            at = next(at for at, one in enumerate(cells) if one is cell)
            self._cell, self._whole = cell, ((), ())
            self._above = tuple(line for one in cells[:at] for line in (*one.read_lines, ""))
            self._below = tuple(line for one in cells[at + 1 :] for line in ("", *one.read_lines))
        if self._whole[0] is not own:
            self._whole = own, (*self._above, *own, *self._below)
        return self._whole[1], len(self._above)


class CalibCodec(PositionCodec):
    """A position beyond the end of a line means its end, as LSP requires; pygls takes one character less.

    pygls counts characters one by one, several times for each position: for a line of a megabyte that took a
    second at every key. Characters of ASCII are units in every encoding; others are looked for here.
    """

    def client_num_units(self, string: str) -> int:
        if string.isascii() or self.encoding == types.PositionEncodingKind.Utf32:
            return len(string)
        if self.encoding == types.PositionEncodingKind.Utf8:
            return len(string.encode("utf-8", "surrogatepass"))
        return len(string) + len(_OF_TWO_UNITS.findall(string))

    def position_from_client_units(
        self, lines: Sequence[str], position: types.Position
    ) -> ServerTextPosition:
        if position.line >= len(lines):
            return super().position_from_client_units(lines, position)
        line, units = lines[position.line].rstrip("\r\n"), max(0, position.character)
        if line.isascii() or self.encoding == types.PositionEncodingKind.Utf32:
            at = units
        elif self.encoding == types.PositionEncodingKind.Utf8:
            at = _character_of_bytes(line.encode("utf-8", "surrogatepass"), units)
        else:
            at = _character_of_utf16(line, units)
        return ServerTextPosition(position.line, min(at, len(line)))


_OF_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")


def _character_of_utf16(line: str, units: int) -> int:
    """The first character that begins at so many units or after."""
    more = 0  # than characters, before the one looked at
    for found in _OF_TWO_UNITS.finditer(line):
        begin = found.start() + more
        if begin >= units:
            break
        if units == begin + 1:
            return found.start() + 1
        more += 1
    return units - more


def _character_of_bytes(line: bytes, units: int) -> int:
    while units < len(line) and line[units] & 0xC0 == 0x80:
        units += 1
    return len(line[:units].decode("utf-8", "surrogatepass"))


class CalibWorkspace(Workspace):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._position_codec = CalibCodec(self.position_encoding)
        self._notebooks: dict[str, Notebook] = {}
        self._split_ones = _Split()

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> CalibDocument:
        document = CalibDocument(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )
        document.split_ones = self._split_ones
        return document

    def remove_text_document(self, doc_uri: str) -> None:
        if isinstance(document := self._text_documents.get(unquote(doc_uri)), CalibDocument):
            document.is_open = False
            self._split_ones.closed(document)
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
        code = []
        for cell in known.cells:
            document = self._text_documents.get(unquote(cell.document))
            if not isinstance(document, CalibDocument):
                continue
            document.notebook = notebook
            if cell.kind is types.NotebookCellKind.Code:
                code.append(document)
        notebook.arrange(code)


def cursor_at(document: CalibDocument, position: types.Position) -> Cursor:
    """The cursor at an LSP position, in the text that the document is a part of; beyond the end of a line or
    of the document means that end."""
    from lsp_calib.completion.context import Cursor

    line, column = place_in(document, position)
    lines, first = document.in_its_text()
    return Cursor.at(lines, first + line, column, document.language, first)


def place_in(document: CalibDocument, position: types.Position) -> tuple[int, int]:
    """Line and column, in code points, of an LSP position in a document; bounded as for `cursor_at`."""
    lines = document.bare_lines
    if position.line >= len(lines):
        return len(lines) - 1, len(lines[-1])
    # A position inside a surrogate pair is rounded.
    return position.line, document.position_codec.position_from_client_units(lines, position).character


def selected_at(
    document: CalibDocument, cursor: Cursor, info: types.SelectedCompletionInfo
) -> Selected | None:
    """The item selected in the editor's menu; None if nothing at `cursor` can go on from it."""
    from lsp_calib.completion.service import Selected

    span = info.range
    if not span.start.line == span.end.line == cursor.own_line:
        return None
    start, end = (place_in(document, position)[1] for position in (span.start, span.end))
    return Selected.at(cursor, start, end, info.text)


def whole_line(document: CalibDocument, line: int, text: str) -> types.Range:
    """The range of a line's text without its indentation."""
    return part_of_line(document, line, text, len(indentation_of(text)), len(text))


def part_of_line(document: CalibDocument, line: int, text: str, start: int, end: int) -> types.Range:
    """The range of a part of a line's text, given in code points."""
    units = document.position_codec.client_num_units
    return types.Range(types.Position(line, units(text[:start])), types.Position(line, units(text[:end])))
