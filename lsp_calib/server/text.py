"""Documents with the line ends of LSP, in which a change takes time for its lines only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.workspace import PositionCodec, ServerTextPosition, TextDocument, Workspace

from lsp_calib.server.bulk_changes import Change
from lsp_calib.text_lines import split_keeping_ends

if TYPE_CHECKING:
    from lsp_calib.syntax import Function


class CalibDocument(TextDocument):
    """A document stored as lines: a keystroke costs time for its line, not for the document.

    The whole text is joined only when it is requested.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._split: list[str] | None = None
        self._bare: list[str] = []
        self._snapshot: tuple[str, ...] | None = None
        self._changes: list[Change] = []
        self._state: int | None = None  # of `_bare`, see `Change`
        self._functions: tuple[tuple[str, ...], Sequence[Function]] | None = None

    @property
    def source(self) -> str:
        if self._source is None and self._split is not None:
            self._source = "".join(self._split)
        return str(super().source)

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
            self._snapshot = (*self._bare, *last)
        return self._snapshot

    def _with_ends(self) -> list[str]:
        if self._split is None:
            self._split = split_keeping_ends(self.source)
            self._bare = [line.rstrip("\r\n") for line in self._split]
        return self._split

    def functions_of(self, lines: tuple[str, ...]) -> Sequence[Function] | None:
        """The functions that were found in these lines, if they are those of the document's last version."""
        return self._functions[1] if self._functions is not None and self._functions[0] is lines else None

    def remember_functions(self, lines: tuple[str, ...], found: Sequence[Function]) -> None:
        """Keep the functions found in these lines until the document changes."""
        if lines is self._snapshot:
            self._functions = lines, found

    def take_changes(self) -> list[Change]:
        """The changes since the last call, in their order."""
        changes, self._changes = self._changes, []
        return changes

    def _apply_full_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        old = [*self.bare_lines]
        before = self._state if self._state is not None else _state_of(old)
        super()._apply_full_change(change)
        self._split = self._snapshot = self._functions = None
        new = [*self.bare_lines]
        self._state = _state_of(new)
        most = min(len(old), len(new))
        above = next((at for at in range(most) if old[at] != new[at]), most)
        most -= above
        below = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
        removed, inserted = old[above : len(old) - below], new[above : len(new) - below]
        if removed or inserted:
            small = len(removed) == len(inserted) == 1 and abs(len(removed[0]) - len(inserted[0])) <= 1
            self._changes.append(Change(above, len(removed), len(inserted), small, before, self._state))

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        lines = self._with_ends()
        place = self._position_codec.range_from_client_units(lines, change.range)
        start, end = place.start, place.end
        before = lines[start.line][: start.character] if start.line < len(lines) else ""
        after = lines[end.line][end.character :] if end.line < len(lines) else ""
        # A line more on either side: a \r and a \n that come together are one end.
        first, last = max(start.line - 1, 0), end.line + 2
        above, below = lines[first : start.line], lines[end.line + 1 : last]
        region = split_keeping_ends("".join([*above, before, change.text, after, *below]))
        bare = [line.rstrip("\r\n") for line in region]
        # Unchanged lines stay the same objects.
        for at in range(min(len(above), len(region))):
            if region[at] == lines[first + at]:
                region[at], bare[at] = lines[first + at], self._bare[first + at]
        lines[first:last] = region
        earlier = self._state if self._state is not None else _state_of(self._bare)
        self._state = earlier - _state_of(self._bare[first:last]) + _state_of(bare)
        self._bare[first:last] = bare
        self._source = self._snapshot = self._functions = None
        small = len(change.text) <= 1 and start.line == end.line and end.character - start.character <= 1
        self._changes.append(
            Change(
                start.line,
                end.line - start.line + 1,
                change.text.count("\n") + 1,
                small,
                earlier,
                self._state,
            )
        )


def _state_of(lines: Iterable[str]) -> int:
    """A number that is the same for the same lines. That of a change is found without the other lines."""
    # An empty line counts nothing: the one after a last line end is not in `_bare`.
    return sum(hash(line) for line in lines if line)


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

    def position_to_client_units(
        self, lines: Sequence[str], position: ServerTextPosition | types.Position
    ) -> types.Position:
        if position.line >= len(lines):
            return super().position_to_client_units(lines, position)
        units = self.client_num_units(lines[position.line][: position.character])
        return types.Position(position.line, units)


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

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> CalibDocument:
        return CalibDocument(
            doc_uri,
            source=source,
            version=version,
            language_id=language_id,
            sync_kind=self._sync_kind,
            position_codec=self._position_codec,
        )
