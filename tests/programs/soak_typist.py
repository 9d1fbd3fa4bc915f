"""One of the editors of `make soak`: its user, and the other programs that write into what is open in it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import attrs
from lsprotocol import types
from soak_edits import Edit, agents_edits, another_version, changed, formatters_edits, replace_in

from lsp_calib.characters import same_line, shared_ends
from lsp_calib.tools.client import Document, Editor

PATIENCE = 240.0
# So many keys in a row ask for a completion; the rest is typed too fast for that.
_KEYS_ASKED = 8
# How probable it is that another program writes: at a key, while a suggestion is shown, after accepting it.
_WHILE_TYPING, _WHILE_SHOWN, _AFTERWARDS = 0.004, 0.06, 0.12

Act = Callable[["Place"], Awaitable[None]]


class SoakDocument(Document):
    """A document into which other programs write."""

    def edits(self, edits: Iterable[Edit]) -> None:
        """Replace several texts in one message. Each edit counts in the text that those before it leave, so
        the one furthest down comes first."""
        changes: list[types.TextDocumentContentChangeEvent] = []
        for start, end, text in edits:
            span = types.Range(self.position(*start), self.position(*end))
            changes.append(types.TextDocumentContentChangePartial(range=span, text=text))
            replace_in(self.lines, (start, end, text))
        self.tell_changes(changes)

    def accept(self, item: types.InlineCompletionItem, line: int) -> None:
        """Put a suggestion into a line: the one that it was made for, which may have moved since."""
        span, units = item.range, self.lines[line].encode("utf-16-le")
        assert span is not None
        start, end = (
            len(units[: 2 * at.character].decode("utf-16-le", "ignore")) for at in (span.start, span.end)
        )
        self.replace(line, start, end, str(item.insert_text))

    def reload(self) -> None:
        """Read the file again as VS Code does: one change of the lines from the first that differs to the
        last."""
        old, new = self.lines, self.path.read_text("utf-8").split("\n")
        before, behind = shared_ends(old, new)
        if old == new:
            return
        if behind:
            inserted = "".join(f"{line}\n" for line in new[before : len(new) - behind])
            self.edit((before, 0), (len(old) - behind, 0), inserted)
        else:
            self.edit((0, 0), (len(old) - 1, len(old[-1])), "\n".join(new))

    def reopen(self, *, from_disk: bool = False) -> None:
        """Close the file and open it again, with the text that it has in the editor, or on the disk: so
        Neovim and Emacs read a file again."""
        self.close()
        if from_disk:
            self.lines = self.path.read_text("utf-8").split("\n")
        self.open()

    def save_with(self, edits: Iterable[Edit]) -> None:
        """Save by hand; `edits` are what a formatter changes then."""
        self.will_save(types.TextDocumentSaveReason.Manual)
        self.edits(edits)
        self.did_save()


@attrs.define(eq=False)
class Place:
    """A line that somebody writes. true: as it is to become. text: as it was left."""

    document: SoakDocument
    line: int
    true: str
    text: str = ""

    def write(self, text: str) -> None:
        """Make this of the line, by one change of what differs."""
        now = self.document.lines[self.line]
        before, behind = shared_ends(now, text)
        self.document.replace(self.line, before, len(now) - behind, text[before : len(text) - behind])
        self.leave()

    def leave(self) -> None:
        self.text = self.document.lines[self.line]

    def find(self) -> bool:
        """Whether the line is there as it was left, perhaps elsewhere."""
        same = [at for at, line in enumerate(self.document.lines) if line == self.text]
        self.line = min(same, key=lambda at: abs(at - self.line), default=self.line)
        return bool(same)


class Typist:
    """One editor and its user. The same seed does the same in the same order while the same is suggested.

    folder: its own. seconds: of requests, by kind; they are added here. answered: how many keys
    were answered. met: how often the documents were changed by what.
    """

    def __init__(self, editor: Editor, folder: Path, seconds: dict[str, list[float]], seed: int) -> None:
        self.editor, self._seconds = editor, seconds
        self._chance = random.Random(seed)
        self._committed = {path: path.read_text("utf-8") for path in sorted(folder.glob("*.py"))}
        self._open: list[SoakDocument] = []
        self._begun: list[Place] = []
        self._accepted: deque[Place] = deque(maxlen=4)
        self.answered = 0
        self.met: Counter[str] = Counter()
        self._reloads = 0
        self._until = 0.0

    async def work(self, until: float) -> None:
        self._until = until
        for path in self._committed:  # what a first summary loads, and the first of a document, is no growth
            document = SoakDocument(self.editor, path, "python")
            await self._hover(document)
            document.close()
        acts = (self._type, self._hover, self._save, self._format, self._close, self._others_write)
        while time.monotonic() < until:
            document = self._document()
            if self._begun and self._chance.random() < 0.3:
                await self._finish(self._begun.pop(0))
            else:
                await self._chance.choices(acts, (12, 2, 1, 0.5, 0.5, 1.2))[0](document)

    def _document(self) -> SoakDocument:
        """An open one; now and then another is opened and an old one closed."""
        if not self._open or self._chance.random() < 0.1:
            path = self._chance.choice(list(self._committed))
            if all(one.path != path for one in self._open):
                self._open.append(SoakDocument(self.editor, path, "python"))
            if len(self._open) > 3:
                self._tidy(old := self._open.pop(0))
                old.close()
        return self._chance.choice(self._open)

    def _tidy(self, document: SoakDocument) -> None:
        """Finish the lines that were begun, and save them."""
        for place in self._begun:
            if place.document is document and place.find():
                place.write(place.true)
        document.save()

    async def _pause(self, least: float, most: float) -> None:
        await asyncio.sleep(self._chance.uniform(least, most))

    async def _hover(self, document: SoakDocument) -> None:
        heads = [at for at, line in enumerate(document.lines) if line.lstrip().startswith("def ")]
        if heads:
            line, began = self._chance.choice(heads), time.monotonic()
            await document.hover(line, document.lines[line].index("def ") + 4, PATIENCE)
            self._seconds["hover"].append(time.monotonic() - began)

    async def _save(self, document: SoakDocument) -> None:
        """Save by hand; sometimes a formatter has its way then."""
        formats = self._chance.random() < 0.5
        self.met["formatter on saving"] += formats
        document.save_with(self._formatted(document)) if formats else document.save()
        await document.diagnostics()

    async def _format(self, document: SoakDocument) -> None:
        self.met["formatter by hand"] += 1
        document.edits(self._formatted(document))
        await self._pause(0.2, 1.0)

    def _formatted(self, document: SoakDocument) -> list[Edit]:
        """What the formatter changes: sometimes also lines that were accepted."""
        own = [at.line for at in self._accepted if at.document is document and self._is_there(at)]
        return formatters_edits(document.lines, self._chance, own if self._chance.random() < 0.4 else ())

    async def _close(self, document: SoakDocument) -> None:
        """Close without saving, and open again."""
        self.met["closed and opened"] += 1
        self._open.remove(document)
        document.close()
        await self._pause(0.2, 2.0)
        self._open.append(SoakDocument(self.editor, document.path, "python"))
        for place in (*self._begun, *self._accepted):
            if place.document is document:
                place.document = self._open[-1]

    async def _type(self, document: SoakDocument) -> None:
        """Type some keys of a line again, then do with the suggestion what people do."""
        lines = [at for at, line in enumerate(document.lines) if len(line.strip()) > 8]
        place = Place(document, line := self._chance.choice(lines), document.lines[line])
        start = len(place.true) - len(place.true.lstrip())
        end = self._chance.randrange(start + 1, len(place.true))
        place.write(place.true[:start])
        item = await self._keys(place, end)
        interrupted = self._chance.random() < _WHILE_SHOWN
        if (interrupted and not await self._interrupted(place)) or not self._is_there(place):
            return
        if item is None:
            await self._type_on(place)
            return
        right = same_line(place.true[:end] + str(item.insert_text), place.true)
        acts: tuple[Act, ...] = (self._type_on, self._go_elsewhere, self._give_up)
        taken = self._chance.random() < (0.7 if right else 0.35)
        if taken:
            await self._accept(place, item)
            acts = (self._settle_down, self._undo)
        weights = (0.9, 0.1) if taken else (0.6, 0.2, 0.2)
        await self._chance.choices(acts, weights)[0](place)

    async def _keys(self, place: Place, end: int) -> types.InlineCompletionItem | None:
        """Type so far, with a request at each of the first keys and the last; what is suggested then."""
        item, document = None, place.document
        start = len(document.lines[place.line])
        for column in range(start, end):
            if time.monotonic() > self._until:
                return None
            document.replace(place.line, column, column, place.true[column])
            place.leave()
            if start + _KEYS_ASKED <= column < end - 1:
                await self._pause(0.02, 0.06)
                continue
            if self._chance.random() < 0.3 and column < end - 1:
                cancel = document.complete_later(place.line, column + 1)
                await self._pause(0, 0.05)
                cancel()
            else:
                began = time.monotonic()
                item = await document.complete(place.line, column + 1, PATIENCE)
                self._seconds["key"].append(time.monotonic() - began)
                self.answered += 1
            await self._pause(0.02, 0.2)
            if self._chance.random() < _WHILE_TYPING and not await self._interrupted(place):
                return None
        return item

    async def _accept(self, place: Place, item: types.InlineCompletionItem) -> None:
        await self._pause(0.2, 1.5)
        place.document.accept(item, place.line)
        place.leave()
        self._accepted.append(place)

    async def _settle_down(self, place: Place) -> None:
        """After accepting: what is right stays; what is not is mended soon, later, or never."""
        await self._pause(0.2, 1.0)
        if self._chance.random() < _AFTERWARDS and not await self._interrupted(place):
            return
        if same_line(place.text, place.true):
            return
        when = self._chance.random()
        if when < 0.75:
            await self._pause(0.5, 6.0)
            place.write(place.true)
        elif when < 0.95:
            self._begun.append(place)

    async def _undo(self, place: Place) -> None:
        await self._pause(0.3, 2.0)
        before, _ = shared_ends(place.text, place.true)
        place.write(place.true[:before])
        await self._pause(0.3, 1.0)
        await self._type_on(place)

    async def _type_on(self, place: Place) -> None:
        """Type the rest: through the suggestion where that is right, over it where it is not."""
        await self._keys(place, len(place.true))

    async def _go_elsewhere(self, place: Place) -> None:
        """Leave the line as it is, to come back later."""
        self._begun.append(place)

    async def _give_up(self, place: Place) -> None:
        """Undo all of it."""
        await self._pause(0.2, 1.0)
        place.write(place.true)

    async def _finish(self, place: Place) -> None:
        if self._is_there(place):
            if place.true.startswith(place.text):
                await self._type_on(place)
            else:
                place.write(place.true)

    async def _interrupted(self, place: Place) -> bool:
        """Another program writes while the user is at a line; whether that is still there as it was left."""
        here = self._chance.random() < 0.6
        await self._others_write(
            place.document if here else self._chance.choice(self._open), place if here else None
        )
        return self._is_there(place)

    def _is_there(self, place: Place) -> bool:
        return place.document in self._open and place.find()

    async def _others_write(self, document: SoakDocument, place: Place | None = None) -> None:
        """Another program writes into a document. place: where the user is in it."""
        kind = self._chance.choice(("checkout", "agent", "agent on disk"))
        self.met[kind] += 1
        chance, at = self._chance, None if place is None else place.line
        if kind == "agent":
            edits = agents_edits(document.lines, chance, at)
            if place is not None and chance.random() < 0.4:  # it finishes the very line
                text = place.true + chance.choice(("", "", "  # as planned"))
                edits.append(((place.line, 0), (place.line, len(place.text)), text))
                edits.sort(key=lambda edit: edit[:2], reverse=True)
            document.edits(edits)
            return
        if document.path.read_text("utf-8") != document.text:
            reasons = types.TextDocumentSaveReason
            document.save(reasons.AfterDelay if chance.random() < 0.5 else reasons.Manual)
            await self._pause(0.0, 0.5)
        if kind == "checkout":
            text = another_version(self._committed[document.path], chance)
        else:
            text = "\n".join(changed(document.lines, agents_edits(document.lines, chance, at)))
        document.path.write_text(text, "utf-8")
        await self._pause(0.02, 0.3)
        self._reloads += 1
        if self._reloads % 2:
            document.reload()
        else:
            document.reopen(from_disk=True)
