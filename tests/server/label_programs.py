"""What other programs do to a line, what is thrown away, saved, and moved elsewhere: more of the table of
docs/labels.md, which `python tests/server/label_programs.py` writes."""

from __future__ import annotations

from typing import Any

from label_author import (
    AT,
    BY_PROGRAM,
    LAST,
    NONE,
    PAGE,
    SUGGESTED,
    TEXT,
    Author,
    Step,
    accepted,
    rendered,
    seen,
    situation,
    told,
)
from label_situations import OTHER, TWO
from lsprotocol import types
from scripted_editor import URI

ACCEPTED = TEXT.replace("total = \n", f"total = {SUGGESTED}\n")
WRAPPED = f"    total = ({SUGGESTED})"
OTHERWISE = "    total = net * tax"
BEFORE = "you had written something else before"
ON_DISK = "the file has the line"
SETTLED = "it had settled"


# Other programs


def in_file(title: str, label: str, *steps: tuple[Any, ...], why: str = "") -> None:
    """A situation with a file that is there, in which a suggestion is read first. steps: as for `told`."""

    async def story(a: Author) -> None:
        uri = a.open_file()
        await a.sees(uri=uri)
        for name, *arguments in steps:
            if name == "later":
                await a.later(*arguments)
            else:
                await getattr(a, name)(*arguments, uri=uri)

    situation(title, label, why=why)(story)


WITHOUT = TEXT.replace("    total = \n", "")
ANOTHER = TEXT.replace("total = ", "total = sum((net, tax))")
GONE: list[tuple[Any, ...]] = [("close",), ("later", 2.0)]


in_file(
    "read it; a checkout makes another line of it",
    "overwritten",
    ("reads_again", ANOTHER),
    ("moves_on",),
    why=BY_PROGRAM,
)
in_file(
    "read it; a checkout takes the line out",
    "overwritten",
    ("reads_again", WITHOUT),
    ("moves_on",),
    why=BY_PROGRAM,
)
in_file(
    "read it; a checkout changes lines above; accept it",
    "kept",
    ("reads_again", f"import math\n\n{TEXT}"),
    ("later", 40.0),
    ("accept", AT + 2),
    ("moves_on",),
)
in_file(
    "read it; a program writes just that into the file",
    "overwritten",
    ("reads_again", ACCEPTED),
    ("moves_on",),
    why=BY_PROGRAM,
)
in_file(
    "accept it, save; a checkout takes the line out at once",
    "overwritten",
    ("accept",),
    ("save",),
    ("reads_again", TEXT),
    ("moves_on",),
    why=BY_PROGRAM,
)
in_file(
    "accept it, save; a checkout changes the line below",
    "kept",
    ("accept",),
    ("save",),
    ("reads_again", ACCEPTED.replace("return total", "return total + 1")),
    ("moves_on",),
)
in_file(
    "accept it, save; edit it and save at the same moment",
    "edited",
    ("accept",),
    ("save",),
    ("later", 1.0),
    ("put_and_save", AT, OTHERWISE),
    ("moves_on",),
    why="the file has your change before the server hears of it",
)
in_file(
    "accept it, edit it, save; a checkout takes the line out",
    "edited",
    ("accept",),
    ("put", AT, OTHERWISE),
    ("save",),
    ("reads_again", WITHOUT),
    ("moves_on",),
    why=BEFORE,
)


AGENT = ((3, 0), (3, 0), "\nRATE = 2\n\n"), ((AT, 4), (AT, 12), "gross = net * RATE")


seen(
    "read it; an agent writes that line and others",
    "overwritten",
    ("together", *AGENT),
    why=BY_PROGRAM,
)
seen(
    "read it; an agent changes several other lines; go on elsewhere",
    "overwritten",
    ("together", ((LAST, 0), (LAST, 5), "log"), ((2, 4), (2, 10), "yield")),
    why="it goes from the screen with that: you may have wanted it",
)
seen(
    "read it; an agent changes several other lines; type something else",
    "typed over",
    ("together", ((LAST, 0), (LAST, 5), "log"), ((2, 4), (2, 10), "yield")),
    ("type", "vat"),
)
seen(
    "read it; an agent changes several other lines; accept it",
    "kept",
    ("together", ((LAST, 0), (LAST, 5), "log"), ((2, 4), (2, 10), "yield")),
    "accept",
)
accepted(
    "accept it; an agent makes another line of it",
    "overwritten",
    (
        "together",
        ((3, 0), (3, 0), "\nRATE = 2\n\n"),
        ((AT, 4), (AT, 21), "gross = net * RATE"),
        ((0, 4), (0, 9), "tax"),
    ),
    why=BY_PROGRAM,
)
seen(
    "type something else; an agent writes that line and others",
    "typed over",
    ("type", "vat"),
    ("together", ((3, 0), (3, 0), "\nRATE = 2\n\n"), ((AT, 4), (AT, 15), "gross = net")),
    why=BEFORE,
)
accepted(
    "accept it; at once rename a name in it",
    "overwritten",
    ("together", ((AT, 12), (AT, 15), "base"), ((0, 10), (0, 13), "base")),
    why=BY_PROGRAM,
)
accepted(
    "accept it; replace a word of it in all lines",
    "overwritten",
    ("together", ((2, 11), (2, 16), "whole"), ((AT, 4), (AT, 9), "whole")),
    why=BY_PROGRAM,
)
accepted(
    "accept it, go on; a minute later rename a name in it",
    "kept",
    "moves_on",
    ("later", 30.0),
    ("together", ((AT, 12), (AT, 15), "base"), ((0, 10), (0, 13), "base")),
    why=SETTLED,
)


async def _formats(a: Author, line: str = WRAPPED) -> None:
    """On saving: the formatter's changes come before the save is over."""
    name = types.TextDocumentIdentifier(URI)
    reason = types.TextDocumentSaveReason.Manual
    a.editor.client.text_document_will_save(types.WillSaveTextDocumentParams(name, reason))
    await a.put(AT, line)
    a.editor.save(reason=None)


told(
    "accept it; on saving a formatter wraps it in brackets",
    "overwritten",
    "sees",
    "accept",
    _formats,
    "moves_on",
    why=BY_PROGRAM,
)
accepted(
    "accept it; on saving a formatter wraps it, undo that",
    "kept",
    _formats,
    ("put", AT, f"    total = {SUGGESTED}"),
)


@situation("accept it, edit it; on saving a formatter changes it further", "edited", why=BEFORE)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.put(AT, OTHERWISE)
    await _formats(a, "    total = (net * tax)")
    await a.moves_on()


# Thrown away


told("accept it, save, close the file", "kept", "sees", "accept", "save", "close", ("later", 2.0))
told(
    "accept it, close the file without saving",
    "discarded",
    "sees",
    "accept",
    "close",
    ("later", 2.0),
    why="the line is nowhere any more",
)
told("read it, close the file", "ignored", "sees", "close", ("later", 2.0))


in_file(
    "accept it, save, add something to it, close the file without saving",
    "kept",
    ("accept",),
    ("save",),
    ("type", " + tip"),
    *GONE,
    why=ON_DISK,
)
in_file(
    "read it, change another line, close the file without saving",
    "ignored",
    ("elsewhere",),
    *GONE,
    why=ON_DISK,
)


@situation("accept it, save, delete the file at once", "discarded", why="the line is nowhere any more")
async def _(a: Author) -> None:
    uri = a.open_file()
    await a.sees(uri=uri)
    await a.accept(uri=uri)
    await a.save(uri)
    await a.editor.in_order()
    a.files[uri].unlink()
    await a.close(uri)
    await a.later(2.0)


told(
    "accept it in an untitled document, drop that",
    "discarded",
    ("open", TEXT, "untitled:1"),
    ("sees", {"uri": "untitled:1"}),
    ("accept", {"uri": "untitled:1"}),
    ("close", "untitled:1"),
    ("later", 2.0),
)


async def _leaves(a: Author) -> None:
    await a.editor.leave()


told("accept it, leave the editor without saving", "discarded", "sees", "accept", _leaves)
told("accept it, save, leave the editor", "kept", "sees", "accept", "save", _leaves)


@situation("accept it, save, change it, leave the editor without saving", "kept", why=ON_DISK)
async def _(a: Author) -> None:
    uri = a.open_file()
    await a.sees(uri=uri)
    await a.accept(uri=uri)
    await a.save(uri)
    await a.put(AT, OTHERWISE, uri)
    await a.editor.leave()


# Saved and gone on with


told(
    "accept it, save, mend the line 2 seconds later, go on elsewhere",
    "edited",
    "sees",
    "accept",
    "save",
    ("later", 2.0),
    ("put", AT, OTHERWISE),
    "moves_on",
)
told("accept it, save, undo, save", "edited", "sees", "accept", "save", "undo", "save", ("later", 31.0))
told(
    "accept it, save, edit the line 40 seconds later",
    "kept",
    "sees",
    "accept",
    "save",
    ("later", 40.0),
    ("put", AT, OTHERWISE),
    "moves_on",
    why=SETTLED,
)


@situation("accept it, save, mend the line; the server is killed and started again", "edited", process=True)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.save()
    await a.put(AT, OTHERWISE)
    await a.editor.in_order()
    a.editor.client.process.kill()
    await a.editor.client.gone()
    a.editor = await a.restart()
    a.open(a.texts[URI])
    await a.moves_on()


@situation(
    "accept it, save as an editor that gives no reason",
    NONE,
    why="it may have saved by itself: you may still be at it",
)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.editor.in_order()
    assert len(a.editor.pushed()) == 1
    a.editor.save(reason=None)
    await a.editor.in_order()
    assert a.editor.pushed() == [], "the mark goes all the same"
    await a.later(3600.0)


@situation("accept it; the editor saves by itself, as it loses the focus", NONE, why="you may still be at it")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    a.editor.save(reason=types.TextDocumentSaveReason.FocusOut)
    await a.later(3600.0)


@situation("accept it, choose another language for the file, mend the line", "edited")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    a.editor.close()
    a.editor.open(a.texts[URI], language="ruby")
    await a.put(AT, OTHERWISE)
    await a.moves_on()


@situation("accept it, choose another language for the file, go on elsewhere", "kept")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    a.editor.close()
    a.editor.open(a.texts[URI], language="ruby")
    await a.moves_on()


@situation(
    "accept it, close the file, open it again a minute later and edit the line", "kept", why="it had settled"
)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.save()
    await a.close()
    await a.later(60.0)
    a.open(a.texts[URI])
    await a.put(AT, OTHERWISE)
    await a.moves_on()


# Moved elsewhere


async def _to_the_other_file(a: Author) -> None:
    a.open("x = \nx = \n\n#\n", TWO)
    await a.sees()
    await a.accept()
    line = await a.delete_line()
    await a.insert(2, 0, f"{line}\n", TWO, after=2.0)


@situation("accept it, cut the line and paste it into another open file", "kept")
async def _(a: Author) -> None:
    await _to_the_other_file(a)
    await a.moves_on(TWO)


@situation("accept it, cut the line and paste it into another open file, edit it there", "edited")
async def _(a: Author) -> None:
    await _to_the_other_file(a)
    await a.put(2, OTHERWISE, TWO)
    await a.moves_on(TWO)


@situation(
    "accept it, save the file under another name",
    "kept",
    why="editors open the new one, then close the old one",
)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    a.open(a.texts[URI], "file:///project/other.py")
    await a.close()
    await a.moves_on("file:///project/other.py")


@situation("accept it in an untitled document, save that under a name, edit it there", "edited")
async def _(a: Author) -> None:
    a.open(TEXT, "untitled:1")
    await a.sees(uri="untitled:1")
    await a.accept(uri="untitled:1")
    a.open(a.texts["untitled:1"], "file:///project/named.py")
    await a.close("untitled:1")
    await a.later(5.0)
    await a.put(AT, OTHERWISE, "file:///project/named.py")
    await a.moves_on("file:///project/named.py")


COPIED: list[Step] = [("insert", AT, 0, f"    total = {SUGGESTED}\n"), ("later", 3.0)]


accepted("accept it, copy the line up and change the upper one", "kept", *COPIED, ("put", AT, OTHERWISE))
accepted(
    "accept it, copy the line down and change the lower one", "kept", *COPIED, ("put", AT + 1, OTHERWISE)
)
accepted(
    "accept it, copy the line down and change both",
    "edited",
    *COPIED,
    ("put", AT, OTHERWISE),
    ("put", AT + 1, "    total = tax"),
)
BLOCK = [((line, 4 * (line > 0)), (line, 4 * (line > 0)), "# ") for line in (2, 1, 0)]
accepted(
    "accept it, comment out a block with it", "edited", ("together", *BLOCK), why="it is not in the code"
)
accepted(
    "accept it, comment out a block with it, and in again",
    "kept",
    ("together", *BLOCK),
    ("together", *((start, (start[0], start[1] + 2), "") for start, _, _ in BLOCK)),
)
accepted(
    "accept it, indent a block with it",
    "kept",
    ("together", *(((line, 0), (line, 0), "    ") for line in (2, 1, 0))),
)


@situation("read it, move its line down, accept it there", "kept")
async def _(a: Author) -> None:
    await a.sees()
    await a.insert(3, 0, "    total = \n")
    await a.delete_line()
    await a.sees(line=2)
    await a.accept(2)
    await a.moves_on()


@situation(
    "type on, another one comes, save, take the letter back, accept the first",
    {"first": "kept", "second": "typed over"},
    **OTHER,
)
async def _(a: Author) -> None:
    await a.sees("first")
    await a.type("n")
    await a.sees("second")
    await a.save()
    await a.backspace(1)
    await a.sees("first")
    await a.insert(AT, None, "tax")
    await a.moves_on()


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text("utf-8")), "utf-8")
