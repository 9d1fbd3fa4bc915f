"""A person at an editor, who tells what becomes of suggestions over the protocol to a real server.

The time that passes meanwhile is scripted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import attrs
from lsprotocol import types
from scripted_editor import URI, Editor, Notebook, suggestions

TEXT = "def price(net, tax):\n    total = \n    return total\n\n\nprint(price(1, 2))\n"
AT, LAST = 1, 5
SUGGESTED = "net + tax"
CELL = "cell"

NOTICED = 1.0
"""Seconds until an editor notices that a program has written a file."""

Place = tuple[int, int]


@attrs.frozen
class Steps:
    """What a person does: `Steps().sees().accept()` calls these methods of an `Author`."""

    done: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = ()

    def __getattr__(self, name: str) -> Callable[..., Steps]:
        assert hasattr(Author, name), name
        return lambda *given, **named: Steps((*self.done, (name, given, named)))

    async def by(self, author: Author) -> None:
        for name, given, named in self.done:
            await getattr(author, name)(*given, **named)


@attrs.define
class Author:
    """A person at an editor, in one document at a time. Lines and columns, in code points, count from 0.

    names: of suggestions, by id. restart: connects to another server with the same state. files: of documents
    that are on a disk.
    """

    editor: Editor
    restart: Callable[[], Awaitable[Editor]]
    uri: str = URI
    texts: dict[str, str] = attrs.field(factory=dict)
    names: dict[str, str] = attrs.field(factory=dict)
    seen: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    done: list[tuple[int, str, str]] = attrs.field(factory=list)
    files: dict[str, Path] = attrs.field(factory=dict)
    book: Notebook | None = None
    cut: str = ""

    @property
    def text(self) -> str:
        return self.texts[self.uri]

    @property
    def lines(self) -> list[str]:
        return self.text.replace("\r\n", "\n").split("\n")

    # Documents

    async def open(self, text: str | None = None, uri: str = URI) -> None:
        """text: that of the document before unless given."""
        self.texts[uri] = self.text if text is None else text
        self.uri = uri
        self.editor.open(self.text, uri)

    async def open_file(self) -> None:
        """Goes on in a document with a file."""
        path = self.editor.home.parent / "module.py"
        path.write_text(TEXT, "utf-8")
        self.files[path.as_uri()] = path
        await self.open(TEXT, path.as_uri())

    async def open_notebook(self) -> None:
        self.book = Notebook(self.editor, {"above": "base = 1", CELL: TEXT, "below": "print(base)"})
        self.uri = self.book.cell_uri(CELL)
        self.texts[self.uri] = TEXT

    async def in_notebook(self, name: str, *given: Any) -> None:
        """A method of the notebook."""
        await self.later(0.3)
        getattr(self.book, name)(*given)

    async def goes_to(self, uri: str = URI) -> None:
        self.uri = uri

    async def save(self) -> None:
        await self.later(0.3)
        if self.uri in self.files:
            self.files[self.uri].write_text(self.text, "utf-8")
        self.editor.save(self.uri)

    async def saves_by_itself(self, *reasons: str | None) -> None:
        """The editor does. reasons: what it says before each save."""
        for name in reasons:
            self.editor.save(self.uri, name and types.TextDocumentSaveReason[name])

    async def close(self, seconds: float = 2.0) -> None:
        """It stays closed for so long."""
        await self.later(0.3)
        self.editor.close(self.uri)
        await self.later(seconds)

    async def opens_as(self, uri: str) -> None:
        """As editors do on saving under another name: the new one is opened, then the old one closed."""
        old = self.uri
        await self.open(None, uri)
        self.editor.close(old)

    # Time, and the end

    async def later(self, seconds: float) -> None:
        await self.editor.later(seconds)

    async def elsewhere(self, line: int = -2) -> None:
        """Works on another line."""
        await self.insert(line % len(self.lines), None, "#", 1.0)

    async def moves_on(self) -> None:
        """Works on another line, and 30 seconds pass."""
        await self.elsewhere()
        await self.later(31.0)

    async def leaves(self) -> None:
        await self.editor.leave()

    async def is_killed(self) -> None:
        self.editor.client.hang_up()
        await self.editor.client.gone()

    async def has_server_killed(self) -> None:
        await self.editor.in_order()
        self.editor.client.process.kill()
        await self.editor.client.gone()
        self.editor = await self.restart()
        await self.open(None, self.uri)

    # Suggestions

    async def sees(self, name: str = "suggestion", line: int = AT, *, by_hand: bool = False) -> None:
        """Gets a suggestion, and looks at it for a second."""
        found, *_ = await self.asks(line, by_hand=by_hand)
        self.keep(found, name)
        await self.later(1.0)

    async def glimpses(self, name: str = "suggestion") -> None:
        """Gets one, and has no time to look."""
        (found,) = await self.asks()
        self.keep(found, name)

    async def sees_none(self, line: int = AT) -> None:
        assert await self.asks(line) == []
        await self.later(2.0)

    async def sees_the_rest(self) -> None:
        """Of the suggestion, a part of which is in the line."""
        (rest,) = await self.asks()
        assert rest["id"] == self.seen["suggestion"]["id"]

    async def sees_three(self) -> None:
        for found, name in zip(await self.asks(by_hand=True), ("first", "second", "third"), strict=True):
            self.keep(found, name)
        await self.later(2.0)

    async def sees_in_menu(self) -> None:
        (item,) = (await self.editor.menu(AT, _units(self.lines[AT]))).items
        self.keep(item.data, "suggestion")
        await self.later(1.0)

    async def types_before_it_comes(self) -> None:
        """What holds the answer is gone once all of it is there."""
        waiting = asyncio.ensure_future(self.asks())
        await self.editor.engine.until("asked")
        await self.type(SUGGESTED)
        Path(self.editor.home.parent, "held").touch()
        with contextlib.suppress(AssertionError):
            assert await waiting == []

    async def says(self, command: str) -> None:
        """The editor reports this of the suggestion."""
        await self.editor.command(command, self.seen["suggestion"])

    async def asks(self, line: int = AT, *, by_hand: bool = False) -> list[dict[str, Any]]:
        before = _units(self.lines[line])
        return suggestions(await self.editor.items(line, before, self.uri, by_hand=by_hand))

    def keep(self, suggestion: dict[str, Any], name: str) -> None:
        assert self.names.setdefault(suggestion["id"], name) == name
        self.seen[name] = suggestion

    async def is_marked(self, times: int) -> None:
        await self.editor.in_order()
        assert len(self.editor.pushed(self.uri)) == times

    async def inserts_summary(self) -> None:
        applied = self.editor.apply_edits()
        done = await self.editor.command("insertSummary", _function(self.uri))
        assert done["applied"], done
        (edit,) = applied
        self.keep(done["suggestion"], "suggestion")
        at = self._offset((edit.range.start.line, 0))
        self.texts[self.uri] = self.text[:at] + edit.new_text + self.text[at:]

    async def reports_summary(self) -> None:
        await self.editor.command("reportSummary", _function(self.uri))

    # Changes

    async def replace(self, start: Place, end: Place, text: str, after: float = 0.3) -> None:
        """One change, some time after the last."""
        await self.later(after)
        at = self._offset(start)
        self._change(at, self.text[at : self._offset(end)], text)

    async def insert(self, line: int, column: int | None, text: str, after: float = 0.3) -> None:
        place = (line, len(self.lines[line]) if column is None else column)
        await self.replace(place, place, text, after)

    async def type(self, text: str, line: int = AT) -> None:
        """Character by character."""
        for character in text:
            await self.insert(line, None, character, 0.2)

    async def backspace(self, times: int) -> None:
        for _ in range(times):
            end = len(self.lines[AT])
            await self.replace((AT, end - 1), (AT, end), "", 0.2)

    async def accept(self, line: int = AT, text: str = SUGGESTED) -> None:
        """All of it at once, as Tab does, or so much."""
        await self.insert(line, None, text)

    async def put(self, line: int, text: str, after: float = 0.3) -> None:
        """Another text in place of a line."""
        await self.replace((line, 0), (line, len(self.lines[line])), text, after)

    async def put_and_save(self, line: int, text: str) -> None:
        """Another text in place of a line; the file has it before the server knows."""
        lines = self.lines
        lines[line] = text
        self.files[self.uri].write_text("\n".join(lines), "utf-8")
        await self.put(line, text, after=0.0)
        self.editor.save(self.uri)

    async def delete_line(self) -> None:
        """Cuts it with its end."""
        self.cut = self.lines[AT] + "\n"
        await self.replace((AT, 0), (AT + 1, 0), "")

    async def paste_line(self, line: int) -> None:
        await self.insert(line, 0, self.cut)

    async def replace_all(self, above: str = "", text: str | None = None) -> None:
        """text: what is there unless given."""
        lines = self.lines
        end = len(lines) - 1, len(lines[-1])
        await self.replace((0, 0), end, above + (self.text if text is None else text))

    async def undo(self) -> None:
        await self.later(0.3)
        at, old, new = self.done.pop()
        self._change(at, new, old)
        self.done.pop()

    async def together(self, *edits: tuple[Place, Place, str]) -> None:
        """Several changes in one message, the last place first."""
        await self.later(0.3)
        text, changes = self.text, []
        for start, end, new in edits:
            at, to = self._offset(start), self._offset(end)
            text = text[:at] + new + text[to:]
            changes.append((self._place(at), self._place(to), new))
        self.editor.changes(changes, self.uri)
        self.texts[self.uri] = text

    async def reads_again(self, text: str) -> None:
        """A program writes the file, and the editor shows that: the lines that are not the same."""
        await self.later(1.0)
        self.files[self.uri].write_text(text, "utf-8")
        os.utime(self.files[self.uri], times=(time.time() - NOTICED,) * 2)
        old, new = self.text.splitlines(keepends=True), text.splitlines(keepends=True)
        above = next(at for at, pair in enumerate(zip_longest(old, new)) if pair[0] != pair[1])
        pairs = zip_longest(reversed(old[above:]), reversed(new[above:]))
        end = next(at for at, pair in enumerate(pairs) if pair[0] != pair[1])
        gone, came = "".join(old[above : len(old) - end]), "".join(new[above : len(new) - end])
        self._change(len("".join(old[:above])), gone, came)

    async def deletes_file(self) -> None:
        await self.editor.in_order()
        self.files[self.uri].unlink()

    async def formats(self, line: str) -> None:
        """On saving: the formatter's changes come before the save is over."""
        name = types.TextDocumentIdentifier(self.uri)
        reason = types.TextDocumentSaveReason.Manual
        self.editor.client.text_document_will_save(types.WillSaveTextDocumentParams(name, reason))
        await self.put(AT, line)
        self.editor.save(self.uri, reason=None)

    def _change(self, at: int, old: str, new: str) -> None:
        text = self.text
        assert text[at : at + len(old)] == old
        start, end = self._place(at), self._place(at + len(old))
        if self.book is not None and self.uri == self.book.cell_uri(CELL):
            self.book.change(CELL, start, end, new)
        else:
            self.editor.change(start, end, new, self.uri)
        self.texts[self.uri] = text[:at] + new + text[at + len(old) :]
        self.done.append((at, old, new))

    def _offset(self, place: Place) -> int:
        line, column = place
        return sum(map(len, self.text.splitlines(keepends=True)[:line])) + column

    def _place(self, offset: int) -> Place:
        before = self.text[:offset]
        return before.count("\n"), _units(before.rpartition("\n")[2])


def _function(uri: str) -> dict[str, Any]:
    return {"uri": uri, "position": {"line": 0, "character": 4}}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
