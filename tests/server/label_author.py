"""A person at an editor, who tells what becomes of suggestions over the protocol to a real server; and the
table of docs/labels.md that the stories make. The time that passes in them is scripted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import attrs
from scripted_editor import URI, Editor, suggestions

PAGE = Path(__file__).parents[2] / "docs" / "labels.md"
BEGIN, END = "<!-- situations -->\n", "<!-- end of situations -->\n"

TEXT = "def price(net, tax):\n    total = \n    return total\n\n\nprint(price(1, 2))\n"
AT, LAST = 1, 5
SUGGESTED = "net + tax"
NONE = "none"
"""There is no label."""

NOTICED = 1.0
"""Seconds until an editor notices that a program has written a file."""

Place = tuple[int, int]
Story = Callable[["Author"], Awaitable[None]]


@attrs.define
class Author:
    """A person at an editor. Lines and columns count from 0, columns in code points.

    names: of suggestions, by id. restart: connects to another server with the same state. files: of documents
    that are on a disk.
    """

    editor: Editor
    restart: Callable[[], Awaitable[Editor]]
    texts: dict[str, str] = attrs.field(factory=dict)
    names: dict[str, str] = attrs.field(factory=dict)
    seen: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    done: list[tuple[str, int, str, str]] = attrs.field(factory=list)
    undone: list[tuple[str, int, str, str]] = attrs.field(factory=list)
    files: dict[str, Path] = attrs.field(factory=dict)

    def open(self, text: str = TEXT, uri: str = URI) -> None:
        self.texts[uri] = text
        self.editor.open(text, uri)

    def open_file(self, text: str = TEXT, name: str = "module.py") -> str:
        """Opens a document of a file that is there; returns its URI."""
        path = self.editor.home.parent / name
        path.write_text(text, "utf-8")
        uri = path.as_uri()
        self.files[uri] = path
        self.open(text, uri)
        return uri

    async def reads_again(self, text: str, uri: str) -> None:
        """A program writes the file, and the editor shows that: the lines that are not the same."""
        await self.later(1.0)
        self.files[uri].write_text(text, "utf-8")
        os.utime(self.files[uri], times=(time.time() - NOTICED,) * 2)
        old, new = self.texts[uri].splitlines(keepends=True), text.splitlines(keepends=True)
        above = next(at for at, pair in enumerate(zip_longest(old, new)) if pair[0] != pair[1])
        pairs = zip_longest(reversed(old[above:]), reversed(new[above:]))
        end = next(at for at, pair in enumerate(pairs) if pair[0] != pair[1])
        gone, came = "".join(old[above : len(old) - end]), "".join(new[above : len(new) - end])
        self._change(uri, len("".join(old[:above])), gone, came)

    async def together(self, *edits: tuple[Place, Place, str], uri: str = URI, after: float = 0.3) -> None:
        """Several changes in one message, the last place first."""
        await self.later(after)
        text, changes = self.texts[uri], []
        for start, end, new in edits:
            at, to = self._offset(start, uri), self._offset(end, uri)
            text = text[:at] + new + text[to:]
            changes.append((self._place(at, uri), self._place(to, uri), new))
        self.editor.changes(changes, uri)
        self.texts[uri] = text

    def lines(self, uri: str = URI) -> list[str]:
        return self.texts[uri].replace("\r\n", "\n").split("\n")

    async def later(self, seconds: float) -> None:
        await self.editor.later(seconds)

    async def sees(
        self,
        name: str = "suggestion",
        line: int = AT,
        column: int | None = None,
        uri: str = URI,
        *,
        by_hand: bool = False,
    ) -> dict[str, Any]:
        """Gets a suggestion, and looks at it for a second."""
        found, *_ = await self.asks(line, column, uri, by_hand=by_hand)
        self.keep(found, name)
        await self.later(1.0)
        return found

    async def asks(
        self, line: int = AT, column: int | None = None, uri: str = URI, *, by_hand: bool = False
    ) -> list[dict[str, Any]]:
        before = self.lines(uri)[line][:column]
        return suggestions(await self.editor.items(line, _units(before), uri, by_hand=by_hand))

    async def from_menu(self) -> None:
        """Gets a suggestion in the completion menu, and looks at it for a second."""
        place = AT, _units(self.lines()[AT])
        (item,) = (await self.editor.menu(*place)).items
        self.keep(item.data, "suggestion")
        await self.later(1.0)

    def keep(self, suggestion: dict[str, Any], name: str) -> None:
        self.names.setdefault(suggestion["id"], name)
        self.seen[name] = suggestion

    async def replace(self, start: Place, end: Place, text: str, uri: str = URI, after: float = 0.3) -> None:
        """One change, some time after the last."""
        await self.later(after)
        self._change(uri, self._offset(start, uri), self._between(start, end, uri), text)
        self.undone.clear()

    async def insert(
        self, line: int, column: int | None, text: str, uri: str = URI, after: float = 0.3
    ) -> None:
        place = (line, len(self.lines(uri)[line]) if column is None else column)
        await self.replace(place, place, text, uri, after)

    async def type(self, text: str, line: int = AT, column: int | None = None, uri: str = URI) -> None:
        """Character by character."""
        at = len(self.lines(uri)[line]) if column is None else column
        for n, character in enumerate(text):
            await self.insert(line, at + n, character, uri, 0.2)

    async def backspace(self, times: int, line: int = AT, uri: str = URI) -> None:
        for _ in range(times):
            end = len(self.lines(uri)[line])
            await self.replace((line, end - 1), (line, end), "", uri, 0.2)

    async def accept(self, line: int = AT, column: int | None = None, uri: str = URI) -> None:
        """The whole suggestion at once, as Tab does."""
        await self.insert(line, column, SUGGESTED, uri)

    async def put(self, line: int, text: str, uri: str = URI, after: float = 0.3) -> None:
        """Another text in place of a line."""
        await self.replace((line, 0), (line, len(self.lines(uri)[line])), text, uri, after)

    async def put_and_save(self, line: int, text: str, uri: str) -> None:
        """Another text in place of a line; the file has it before the server knows."""
        lines = self.lines(uri)
        lines[line] = text
        self.files[uri].write_text("\n".join(lines), "utf-8")
        await self.put(line, text, uri, after=0.0)
        self.editor.save(uri)

    async def delete_line(self, line: int = AT, uri: str = URI) -> str:
        """Cuts a line with its end; returns it."""
        text = self.lines(uri)[line]
        await self.replace((line, 0), (line + 1, 0), "", uri)
        return text

    async def undo(self, times: int = 1) -> None:
        for _ in range(times):
            await self.later(0.3)
            uri, at, old, new = change = self.done.pop()
            self._change(uri, at, new, old)
            self.done.pop()
            self.undone.append(change)

    async def redo(self) -> None:
        await self.later(0.3)
        uri, at, old, new = self.undone.pop()
        self._change(uri, at, old, new)

    async def elsewhere(self, uri: str = URI, line: int = -2) -> None:
        """Works on another line."""
        n = len(self.lines(uri))
        await self.insert(line % n, None, "#", uri, 1.0)

    async def moves_on(self, uri: str = URI) -> None:
        """Works on another line, and 30 seconds pass."""
        await self.elsewhere(uri)
        await self.later(31.0)

    async def save(self, uri: str = URI) -> None:
        await self.later(0.3)
        if uri in self.files:
            self.files[uri].write_text(self.texts[uri], "utf-8")
        self.editor.save(uri)

    async def close(self, uri: str = URI) -> None:
        await self.later(0.3)
        self.editor.close(uri)

    def _change(self, uri: str, at: int, old: str, new: str) -> None:
        text = self.texts[uri]
        assert text[at : at + len(old)] == old
        self.editor.change(self._place(at, uri), self._place(at + len(old), uri), new, uri)
        self.texts[uri] = text[:at] + new + text[at + len(old) :]
        self.done.append((uri, at, old, new))

    def _offset(self, place: Place, uri: str) -> int:
        line, column = place
        above = self.texts[uri].splitlines(keepends=True)[:line]
        return sum(map(len, above)) + column

    def _between(self, start: Place, end: Place, uri: str) -> str:
        return self.texts[uri][self._offset(start, uri) : self._offset(end, uri)]

    def _place(self, offset: int, uri: str) -> Place:
        before = self.texts[uri][:offset]
        return before.count("\n"), _units(before.rpartition("\n")[2])


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@attrs.frozen
class Situation:
    """labels: by the name of the suggestion; NONE: it gets none. why: for what would surprise a user.

    unknown: names of superseded suggestions of which nothing is known. process: the server is one of its own.
    """

    title: str
    labels: Mapping[str, str]
    story: Story
    why: str = ""
    script: Mapping[str, Any] = attrs.field(factory=dict)
    options: Mapping[str, Any] = attrs.field(factory=dict)
    client: Mapping[str, Any] = attrs.field(factory=lambda: {"inline": True})
    unknown: tuple[str, ...] = ()
    process: bool = False

    def correct(self, name: str) -> bool | None:
        """Whether the label of a suggestion must call it right; None if it must say nothing."""
        how = self.labels[name]
        return None if how in SAYS_NOTHING or name in self.unknown else how in RIGHT


SITUATIONS: list[Situation] = []
RIGHT = ("kept", "kept in parts", "typed")
SAYS_NOTHING = ("unread", "lost", "overwritten", "discarded", NONE)
IN_WORDS = {True: "yes", False: "no", None: ""}


def situation(title: str, label: str | Mapping[str, str], **more: Any) -> Callable[[Story], Story]:
    labels = {"suggestion": label} if isinstance(label, str) else label

    def add(story: Story) -> Story:
        SITUATIONS.append(Situation(title, labels, story, **more))
        return story

    return add


Step = str | Story | tuple[Any, ...]


def told(title: str, label: str | Mapping[str, str], *steps: Step, **more: Any) -> None:
    """A situation whose story is so many steps: names of the author's methods, each with its arguments if it
    has some (those by name in a dictionary, the last one), or other stories."""

    async def story(a: Author) -> None:
        for one in steps:
            if callable(one):
                await one(a)
                continue
            name, *arguments = (one,) if isinstance(one, str) else one
            named = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
            if (done := getattr(a, name)(*arguments, **named)) is not None:
                await done

    situation(title, label, **more)(story)


def seen(title: str, label: str, *steps: Step, **more: Any) -> None:
    """As `told`: a suggestion is read, then come these steps, then work elsewhere."""
    told(title, label, "sees", *steps, "moves_on", **more)


def accepted(title: str, label: str, *steps: Step, **more: Any) -> None:
    """As `seen`, of one that was accepted."""
    seen(title, label, "accept", *steps, **more)


ANOTHER = "the line is not the one that was suggested"
ANOTHER_LINE = "the line is not the one suggested"
BY_PROGRAM = "nobody typed that: what you would have done is not known"


def table() -> Iterator[str]:
    yield "| what you do | label | correct | why |\n|---|---|---|---|\n"
    for one in SITUATIONS:
        several = len(one.labels) > 1
        labels = [f"{name}: `{how}`" if several else f"`{how}`" for name, how in one.labels.items()]
        correct = [IN_WORDS[one.correct(name)] or ("?" if several else "") for name in one.labels]
        yield f"| {one.title} | {', '.join(labels)} | {', '.join(correct)} | {one.why} |\n"


def rendered(page: str) -> str:
    """The page with the table as it is here."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{''.join(table())}\n{END}{after}"
