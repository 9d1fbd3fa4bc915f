"""What people do with suggestions, and the label that each must get: the table of docs/labels.md.

`label_programs` has more of them, and writes the table into the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from label_author import (
    ANOTHER,
    ANOTHER_LINE,
    AT,
    BY_PROGRAM,
    LAST,
    NONE,
    SUGGESTED,
    TEXT,
    Author,
    Step,
    Story,
    accepted,
    seen,
    situation,
    told,
)
from lsprotocol import types
from scripted_editor import URI, Notebook

# Accepted and left alone, or not


accepted("accept it, go on elsewhere", "kept")
accepted("accept it, press Enter and go on", "kept", ("insert", AT, None, "\n    "))
seen("accept it and Enter in one change", "kept", ("insert", AT, None, f"{SUGGESTED}\n    "))
told("accept it, save", "kept", "sees", "accept", "save", why="unless you go on with the line at once")
seen(
    "read it, save, then accept it",
    "kept",
    "save",
    ("later", 1.0),
    "accept",
    why="on the screen it can still be taken: a save decides nothing on it",
)
seen("read it, save, go on elsewhere", "ignored", "save")


GLANCE: dict[str, Any] = {
    "script": {"answers": {"print(price(1, 2))": {"text": "  "}}, "otherwise": {"text": SUGGESTED}}
}


async def _glances_elsewhere(a: Author) -> None:
    """Sees one, goes to another line, where there is none, and comes back to it."""
    found = await a.sees()
    await a.later(2.0)
    assert await a.asks(LAST) == []
    await a.later(2.0)
    assert (await a.sees())["id"] == found["id"]


told(
    "read it, look at another line, come back to it, accept it after a minute",
    "kept",
    _glances_elsewhere,
    ("later", 60.0),
    "accept",
    "moves_on",
    why="who is back can still take it, and has all the time to",
    **GLANCE,
)
told(
    "read it, look at another line, come back to it, save, accept it",
    "kept",
    _glances_elsewhere,
    "save",
    ("later", 1.0),
    "accept",
    "moves_on",
    **GLANCE,
)


@situation("read it, change another line, come back to it, accept it after a minute", "kept")
async def _(a: Author) -> None:
    found = await a.sees()
    await a.elsewhere()
    assert (await a.sees())["id"] == found["id"]
    await a.later(60.0)
    await a.accept()
    await a.moves_on()


told(
    "read it, look at another line, come back to it, go on elsewhere",
    "ignored",
    _glances_elsewhere,
    ("later", 60.0),
    "moves_on",
    **GLANCE,
)
told(
    "accept it, stay on the line",
    NONE,
    "sees",
    "accept",
    ("later", 3600.0),
    why="not settled: you may still be at it, however long it takes",
)


@situation("accept it, the editor saves by itself after a pause", NONE, why="you may still be at it")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    a.editor.save(reason=types.TextDocumentSaveReason.AfterDelay)
    await a.later(3600.0)


accepted("accept it, undo", "edited", "undo")


@situation(
    "accept it, save, delete the text, accept it again, write something else, save",
    "edited",
    why="a save by habit: for 30 seconds what you do to the line still counts",
)
async def _(a: Author) -> None:
    found = await a.sees()
    await a.accept()
    await a.save()
    await a.editor.in_order()
    assert a.editor.labels() == {found["id"]: "kept"}
    assert a.editor.pushed() == []
    await a.backspace(len(SUGGESTED))
    assert (await a.sees(by_hand=True))["id"] == found["id"]  # by itself it does not come back
    await a.accept()
    await a.editor.in_order()
    (mark,) = a.editor.pushed()
    assert mark.data == {"id": found["id"]}
    await a.put(AT, "zzz = 1")
    await a.save()


@situation(
    "accept it, save, delete the text a minute later, accept it again, write something else, save",
    {"first": "kept", "second": "edited"},
    why="it had settled; what is shown anew has a label of its own",
)
async def _(a: Author) -> None:
    await a.sees("first")
    await a.accept()
    await a.save()
    await a.later(60.0)
    await a.backspace(len(SUGGESTED))
    await a.sees("second", by_hand=True)
    await a.accept()
    await a.put(AT, "zzz = 1")
    await a.save()


told(
    "accept it, save, undo, accept it again, go on elsewhere",
    "kept",
    "sees",
    "accept",
    "save",
    "undo",
    ("sees", {"by_hand": True}),
    "accept",
    "moves_on",
)
told(
    "read it, go on elsewhere, come back a minute later, accept it",
    {"first": "ignored", "second": "kept"},
    ("sees", "first"),
    "moves_on",
    ("later", 30.0),
    ("sees", "second"),
    "accept",
    "moves_on",
    why="it had settled; each visit to a line has its own label",
)
told(
    "type it through, save, delete the text, show it again, type something else",
    "typed over",
    "sees",
    ("type", SUGGESTED),
    "save",
    ("backspace", len(SUGGESTED)),
    "sees",
    ("type", "net * 2"),
    "moves_on",
)
accepted("accept it, undo, redo", "kept", "undo", "redo")
accepted(
    "accept it, go on elsewhere, undo a minute later",
    "kept",
    "moves_on",
    ("later", 30.0),
    ("undo", 2),
    why="it had settled",
)
accepted(
    "accept it, go on elsewhere, edit it 20 seconds later",
    "edited",
    "elsewhere",
    ("later", 20.0),
    ("put", AT, "    total = net * tax"),
)


@situation(
    "accept it, go on elsewhere, edit it 200 seconds later",
    "kept",
    why="it had settled; that it did not survive 300 s is an event of its own",
)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.moves_on()
    await a.later(170.0)
    await a.put(AT, "    total = net * tax")
    await a.moves_on()
    await a.later(400.0)
    await a.editor.in_order()
    survived = [
        json.loads(one) for (one,) in a.editor.rows("SELECT data FROM events WHERE kind = 'survived'")
    ]
    assert [(one["seconds"], one["unchanged"]) for one in survived] == [
        (30, True),
        (120, True),
        (300, False),
        (600, False),
    ]


accepted(
    "accept it, stay on the line, edit it 200 seconds later",
    "edited",
    ("later", 200.0),
    ("backspace", 3),
    ("type", "vat"),
)
accepted("accept it, change it, change it back", "kept", ("backspace", 3), ("type", "tax"))
accepted(
    "accept it, delete the text, type the same again",
    "kept",
    ("backspace", len(SUGGESTED)),
    ("type", SUGGESTED),
)
accepted("accept it, add something at its end", "edited", ("type", " + tip"), why=ANOTHER)
accepted("accept it, add a comment behind it", "edited", ("type", "  # all"), why=ANOTHER)


# Accepted in part


WORD_BY_WORD: list[Step] = [("insert", AT, None, word) for word in ("net", " +", " tax")]


seen("accept it word by word", "kept in parts", *WORD_BY_WORD)


@situation("accept it by the editor's partial accept, which asks again after each word", "kept in parts")
async def _(a: Author) -> None:
    await a.sees()
    for word in ("net", " +"):
        await a.insert(AT, None, word)
        (rest,) = await a.asks()
        assert rest["id"] == a.seen["suggestion"]["id"], "the rest is the same suggestion"
    await a.insert(AT, None, " tax")
    await a.moves_on()


seen(
    "accept its first word, type another end",
    "taken in part",
    ("insert", AT, None, "net"),
    ("type", " * 2"),
    why=ANOTHER_LINE,
)
seen("accept its first word, type the rest", "kept in parts", ("insert", AT, None, "net"), ("type", " + tax"))
seen(
    "accept its first word, leave it at that", "taken in part", ("insert", AT, None, "net"), why=ANOTHER_LINE
)
seen(
    "accept its first word, undo, go on elsewhere",
    "taken in part",
    ("insert", AT, None, "net"),
    "undo",
    why="you have taken it back",
)
seen("accept its first word, undo, accept all of it", "kept", ("insert", AT, None, "net"), "undo", "accept")
seen("accept its first word, delete the line", "taken in part", ("insert", AT, None, "net"), "delete_line")
seen(
    "accept it word by word, change its end",
    "edited",
    *WORD_BY_WORD,
    ("backspace", 3),
    ("type", "vat"),
    why="all of it was in the line",
)
told(
    "accept its first word, type on, another one comes, accept that",
    {"first": "taken in part", "second": "kept"},
    ("sees", "first"),
    ("insert", AT, None, "net"),
    ("type", " *"),
    ("sees", "second"),
    ("insert", AT, None, " 2"),
    "moves_on",
    script={"answers": {"    total = net *": {"text": " 2"}}, "otherwise": {"text": "net - 1"}},
)


BLOCK: dict[str, Any] = {
    "options": {"multiline": True},
    "script": {
        "answers": {"    total = ": {"text": "net + tax"}, "    ": {"text": "total = net + tax"}},
        "inOrder": [{"text": "    total *= 2"}, {"text": ""}],
    },
}
BLOCK_TEXT = TEXT.replace("    total = \n", "    \n")


@situation("accept a block, line by line", "kept", **BLOCK)
async def _(a: Author) -> None:
    a.texts.clear()
    a.open(BLOCK_TEXT, "file:///block.py")
    block = await a.sees(uri="file:///block.py")
    first, _, second = block["text"].partition("\n")
    await a.insert(AT, None, first, "file:///block.py")
    await a.insert(AT, None, f"\n{second}", "file:///block.py")
    await a.moves_on("file:///block.py")


@situation(
    "accept a block, change its second line",
    "kept",
    why="the label of a block is that of its first line",
    **BLOCK,
)
async def _(a: Author) -> None:
    uri = "file:///block.py"
    a.open(BLOCK_TEXT, uri)
    block = await a.sees(uri=uri)
    assert block["kind"] == "block"
    await a.insert(AT, None, block["text"], uri)
    await a.put(AT + 1, "    total *= 3", uri)
    await a.moves_on(uri)


# Typed


seen("type it through", "typed", ("type", SUGGESTED))
seen(
    "type it through, with a typo that you mend",
    "typed",
    ("type", "net + tsx"),
    ("backspace", 2),
    ("type", "ax"),
)


@situation("type its beginning, accept the rest", "kept")
async def _(a: Author) -> None:
    await a.sees()
    await a.type("net")
    (rest,) = await a.asks()
    assert rest["id"] == a.seen["suggestion"]["id"]
    await a.insert(AT, None, " + tax")
    await a.moves_on()


ONE_CHARACTER = {"otherwise": {"text": "7"}}


seen("type one that is a single character", "typed", ("type", "7"), script=ONE_CHARACTER)
seen(
    "accept one that is a single character",
    "typed",
    ("insert", AT, None, "7"),
    why="a change of the document does not tell; as one types them more often, the line gets no mark",
    script=ONE_CHARACTER,
)
seen(
    "type the bracket of one that is a pair, which the editor closes",
    "typed",
    ("insert", AT, None, "[]"),
    script={"otherwise": {"text": "[]"}},
)
seen("type it through and then more", "typed over", ("type", f"{SUGGESTED} + tip"), why=ANOTHER)
seen("type something else", "typed over", ("type", "net * 2"))
seen(
    "paste the same text from elsewhere",
    "kept",
    ("replace", (AT, 10), (AT, 12), f"= {SUGGESTED}"),
    why="a change of the document does not tell",
)
seen("paste something else over the line", "typed over", ("put", AT, "    total = sum((net, tax))"))
accepted(
    "accept it, paste something else over the line", "edited", ("put", AT, "    total = sum((net, tax))")
)


# Not taken


seen("read it, go on elsewhere", "ignored")


@situation("go on elsewhere within 0.75 s", "unread", why="too short to have read it")
async def _(a: Author) -> None:
    (found,) = await a.asks()
    a.keep(found, "suggestion")
    await a.insert(LAST, None, "#", after=0.5)
    await a.later(31.0)


@situation(
    "dismiss it (Escape), go on elsewhere",
    "ignored",
    why="what the editor reports is a hint; the document decides",
)
async def _(a: Author) -> None:
    found = await a.sees()
    await a.editor.command("rejected", {"id": found["id"]})
    await a.moves_on()


@situation("dismiss it, then type the same", "typed")
async def _(a: Author) -> None:
    found = await a.sees()
    await a.editor.command("rejected", {"id": found["id"]})
    await a.type(SUGGESTED)
    await a.moves_on()


@situation(
    "the editor reports that you accepted it, and the document has it nowhere",
    "ignored",
    why="the document decides",
)
async def _(a: Author) -> None:
    found = await a.sees()
    await a.editor.command("accepted", found)
    await a.moves_on()


OTHER: dict[str, Any] = {
    "script": {"answers": {"    total = n": {"text": "et * 2"}}, "otherwise": {"text": "tax"}}
}


told(
    "type on, another one comes, accept that",
    {"first": "typed over", "second": "kept"},
    ("sees", "first"),
    ("type", "n"),
    ("sees", "second"),
    ("insert", AT, None, "et * 2"),
    "moves_on",
    why="each has a label; in a refit the first of a visit counts most",
    **OTHER,
)
told(
    "type on, another one comes, write what the first said",
    {"first": "typed", "second": "typed over"},
    ("sees", "first"),
    ("type", "n"),
    ("sees", "second"),
    ("backspace", 1),
    ("type", "tax"),
    "moves_on",
    **OTHER,
)


async def _second_at_once(a: Author) -> None:
    """Types a letter before anybody can have read the first; another one comes, and is looked at."""
    (found,) = await a.asks()
    a.keep(found, "first")
    await a.type("n")
    await a.sees("second")


told(
    "type on at once, another one comes, accept that",
    {"first": "superseded", "second": "kept"},
    _second_at_once,
    ("insert", AT, None, "et * 2"),
    "moves_on",
    why="the line tells that the first was wrong, though nobody could read it",
    **OTHER,
)
told(
    "type on at once, another one comes, write what the first said",
    {"first": "typed", "second": "typed over"},
    _second_at_once,
    ("backspace", 1),
    ("type", "tax"),
    "moves_on",
    **OTHER,
)
told(
    "type on at once, another one comes, write something else",
    {"first": "superseded", "second": "typed over"},
    _second_at_once,
    ("type", "one"),
    "moves_on",
    **OTHER,
)
told(
    "type on at once, another one comes, take the letter back and go on elsewhere",
    {"first": "superseded", "second": "typed over"},
    _second_at_once,
    ("backspace", 1),
    "moves_on",
    unknown=("first",),
    why="nobody wrote what belongs there: nothing is known of one that nobody could read",
    **OTHER,
)
told(
    "type on at once, another one comes, take the letter back, look at the first, go on elsewhere",
    {"first": "ignored", "second": "typed over"},
    _second_at_once,
    ("backspace", 1),
    ("sees", "first"),
    "moves_on",
    why="the first is on the screen again",
    **OTHER,
)


@situation(
    "type what it says before it comes",
    NONE,
    why="it was never shown",
    script={"otherwise": {"text": SUGGESTED, "heldUntil": "held"}},
)
async def _(a: Author) -> None:
    waiting = asyncio.ensure_future(a.asks())
    await a.editor.engine.until("asked")
    await a.type(SUGGESTED)
    Path(a.editor.home.parent, "held").touch()
    with contextlib.suppress(AssertionError):
        assert await waiting == []
    await a.moves_on()


@situation(
    "the answer says what is there already",
    NONE,
    why="there is nothing to show",
    script={"otherwise": {"text": "  "}},
)
async def _(a: Author) -> None:
    assert await a.asks() == []
    await a.moves_on()


# Alternatives, menus, what is hidden


ALTERNATIVES: dict[str, Any] = {
    "otherwise": {
        "text": "net + tax",
        "tokens": ["net", " + tax", ""],
        "logprobs": [math.log(0.5), math.log(0.8), 0.0],
        "seconds": [[math.log(2.5), 50], [math.log(8), 60], [100.0, None]],
        "ways": {
            "50": {"text": "sum()", "tokens": ["()"], "logprobs": [0.0]},
            "60": {"text": "net * 2", "tokens": [""], "logprobs": [0.0]},
        },
    }
}


@situation(
    "ask for three by hand, type a letter of the first, save, take it back, ask again, take the second",
    {"first": "typed over", "second": "kept", "third": "typed over"},
    script=ALTERNATIVES,
)
async def _(a: Author) -> None:
    for found, name in zip(await a.asks(by_hand=True), ("first", "second", "third"), strict=True):
        a.keep(found, name)
    await a.later(2.0)
    await a.type(a.seen["first"]["text"][0])
    await a.save()
    await a.backspace(1)
    _, second, _ = await a.asks(by_hand=True)
    assert a.names[second["id"]] == "second"
    await a.later(2.0)
    await a.insert(AT, None, second["text"])
    await a.moves_on()


def _takes(rank: int) -> Story:
    async def story(a: Author) -> None:
        for found, name in zip(await a.asks(by_hand=True), ("first", "second", "third"), strict=True):
            a.keep(found, name)
        await a.later(2.0)
        taken = next(one for one in a.seen.values() if one["rank"] == rank)
        await a.insert(AT, None, taken["text"])
        await a.moves_on()

    return story


for _rank, _name in ((2, "second"), (3, "third")):
    situation(
        f"ask for alternatives, take the {_name}",
        {name: "kept" if name == _name else "typed over" for name in ("first", "second", "third")},
        why="labels of alternatives are kept apart: a refit for the first leaves them out",
        script=ALTERNATIVES,
    )(_takes(_rank))


told("take it from the completion menu", "kept", "from_menu", "accept", "moves_on", client={"inline": False})
told(
    "take another item of the completion menu",
    "typed over",
    "from_menu",
    ("insert", AT, None, "network"),
    "moves_on",
    client={"inline": False},
)


HIDE: dict[str, Any] = {
    "options": {"hideBelow": 0.5},
    "script": {"otherwise": {"text": SUGGESTED, "logprobs": [-2.0, -2.0]}, "survival": True},
}


@situation("type what a suggestion says that `hideBelow` hid", NONE, why="it was not shown", **HIDE)
async def _(a: Author) -> None:
    assert await a.asks() == []
    await a.type(SUGGESTED)
    await a.moves_on()


@situation(
    "accept one that `hideBelow` was to hide and that is shown to keep learning",
    "kept",
    why="with the probability that it was shown, 1 %: it counts for those that were hidden",
    options=HIDE["options"],
    script={**HIDE["script"], "explored": 1.0},
)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.moves_on()
    await a.editor.in_order()
    assert a.editor.rows("SELECT shown_probability FROM suggestions") == [(0.01,)]


# What other tools and commands of the editor do to the line


@situation("accept it; on saving a formatter indents the line and strips its end", "kept")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    a.editor.client.text_document_will_save(
        types.WillSaveTextDocumentParams(
            types.TextDocumentIdentifier(URI), types.TextDocumentSaveReason.Manual
        )
    )
    await a.put(AT, f"\ttotal = {SUGGESTED}")
    a.editor.save()


@situation("accept it with several cursors", "kept", why="once: the other lines had no suggestion")
async def _(a: Author) -> None:
    uri = "file:///two.py"
    a.open("x = \ny = \n\n#\n", uri)
    await a.sees(line=0, uri=uri)
    await a.replace((0, 4), (1, 4), f"{SUGGESTED}\ny = {SUGGESTED}", uri)
    await a.moves_on(uri)


@situation("accept it in one of two lines that look the same", "kept")
async def _(a: Author) -> None:
    uri = "file:///two.py"
    a.open("x = \nx = \n\n#\n", uri)
    await a.sees(line=1, uri=uri)
    await a.accept(1, uri=uri)
    await a.moves_on(uri)


TWO = "file:///two.py"


for _name, _line, _labels in (
    ("second", 1, {"upper": "ignored", "lower": "kept"}),
    ("first", 0, {"upper": "kept", "lower": "ignored"}),
):
    told(
        f"have one in each of two like lines, accept only the {_name}",
        _labels,
        ("open", "x = \nx = \n\n#\n", TWO),
        ("sees", "upper", {"line": 0, "uri": TWO}),
        ("sees", "lower", {"line": 1, "uri": TWO}),
        ("accept", _line, {"uri": TWO}),
        ("moves_on", TWO),
    )


BLANK = "file:///project/blank.py"
RETURN = {"otherwise": {"text": "return err"}}


async def _sees_on_a_blank_line(a: Author, line: int) -> None:
    a.open("def f(err):\n    \n    \n\n#\n", BLANK)
    await a.sees(line=line, uri=BLANK)


async def _is_not_marked(a: Author) -> None:
    await a.editor.in_order()
    assert a.editor.pushed(BLANK) == []
    await a.moves_on(BLANK)


@situation("read it on a new line, undo the line, begin it again, accept it there", "kept", script=RETURN)
async def _(a: Author) -> None:
    a.open("def f(err):\n    log(err)\n\n#\n", BLANK)
    await a.insert(1, None, "\n    ", BLANK)
    await a.sees(line=2, uri=BLANK)
    await a.replace((1, 12), (2, 4), "", BLANK)
    await asyncio.sleep(1.1)  # by the real clock: lines that come back at once are a bulk change
    await a.insert(1, None, "\n    ", BLANK)
    await a.sees(line=2, uri=BLANK)
    await a.insert(2, None, "return err", BLANK)
    await a.moves_on(BLANK)


@situation("have one on a blank line, type the same on the blank line above", "ignored", script=RETURN)
async def _(a: Author) -> None:
    await _sees_on_a_blank_line(a, 2)
    await a.type("return err", 1, uri=BLANK)
    await _is_not_marked(a)


@situation(
    "paste several lines over a blank line, of which another than the first is what was suggested",
    "typed over",
    why="the first of them is on the line, and says something else",
    script=RETURN,
)
async def _(a: Author) -> None:
    await _sees_on_a_blank_line(a, 1)
    await a.insert(1, None, "if err:\n        return err\n    log(err)", BLANK)
    await _is_not_marked(a)


@situation("insert another program's snippet that ends as the suggestion", "typed over", script=RETURN)
async def _(a: Author) -> None:
    await _sees_on_a_blank_line(a, 1)
    await a.insert(1, None, "if err:\n        return err", BLANK)
    await _is_not_marked(a)


accepted("accept it, split the line", "edited", ("insert", AT, 16, "\\\n        "))


@situation("accept it, join the next line to it", "edited")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    end = len(a.lines()[AT])
    await a.replace((AT, end), (AT + 1, 4), "; ")
    await a.moves_on()


accepted("accept it, comment it out", "edited", ("insert", AT, 4, "# "), why="it is not in the code")
accepted(
    "accept it, comment it out and in again",
    "kept",
    ("insert", AT, 4, "# "),
    ("replace", (AT, 4), (AT, 6), ""),
)
accepted("accept it, indent the line", "kept", ("insert", AT, 0, "    "))
accepted(
    "accept it, put an `if` above it and indent both",
    "kept",
    ("replace", (AT, 0), (AT, 4), "    if net:\n        "),
)
accepted(
    "accept it, move the line down",
    "kept",
    ("replace", (AT, 0), (AT + 2, 0), f"    return total\n    total = {SUGGESTED}\n"),
)
accepted(
    "accept it, move the line up",
    "kept",
    ("replace", (AT - 1, 0), (AT + 1, 0), f"    total = {SUGGESTED}\ndef price(net, tax):\n"),
)
accepted("accept it, copy the line down", "kept", ("insert", AT, 0, f"    total = {SUGGESTED}\n"))
accepted("accept it, delete the line", "edited", "delete_line")
seen("delete the line of one you did not take", "deleted", "delete_line")
accepted("accept it, delete the line, undo that", "kept", "delete_line", "undo")


@situation("accept it, cut the line and paste it elsewhere", "kept")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    line = await a.delete_line()
    await a.insert(LAST - 2, 0, f"{line}\n")
    await a.moves_on()


accepted("accept it, write lines above it", "kept", ("insert", 0, 0, "import math\n\n\n"))


@situation("accept it; the file is read again from the disk with lines added above", "kept")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.replace((0, 0), (6, 0), "import math\n" + a.texts[URI])
    await a.moves_on()


accepted(
    "accept it; all of the document is replaced by what it was",
    "overwritten",
    ("replace", (0, 0), (6, 0), TEXT),
    why=BY_PROGRAM,
)


# Documents, editors, servers


told(
    "accept it; the editor opens the file once more, as it was on the disk; save",
    "overwritten",
    "sees",
    "accept",
    ("open", TEXT),
    "save",
    why=BY_PROGRAM,
)


@situation("accept it; the editor opens the file once more, with lines added above; save", "kept")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    a.open("import math\n\n" + a.texts[URI])
    await a.save()


seen(
    "read it; another file is opened; accept it after a minute",
    "kept",
    ("open", "#\n#\n", "file:///project/other.py"),
    ("later", 60.0),
    "accept",
    why="to open a file is not yet to work on it",
)


@situation("accept it, save, open another file of as many lines and close this one", "kept")
async def _(a: Author) -> None:
    uri = a.open_file()
    await a.sees(uri=uri)
    await a.accept(uri=uri)
    await a.save(uri)
    other = "pass\n" * TEXT.count("\n")
    a.open(other, "file:///project/other.py")
    a.editor.close(uri)
    await a.later(2.0)


@situation("accept it, rename the file", "kept", why="editors close the old name and open the new one")
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.close()
    a.open(a.texts[URI], "file:///project/renamed.py")
    await a.moves_on("file:///project/renamed.py")


told(
    "accept it, go on in another file",
    "kept",
    ("open", "#\n#\n", "file:///project/other.py"),
    "sees",
    "accept",
    ("moves_on", "file:///project/other.py"),
)


GENERATED = "file:///project/generated.py"


async def _is_generated_anew(a: Author) -> None:
    await a.replace((0, 0), (29, 7), "\n".join(f"b{n} = {n}" for n in range(30)), GENERATED)
    await a.later(60.0)


@situation("read it; a build changes another open file; accept it a minute later", "kept")
async def _(a: Author) -> None:
    a.open("\n".join(f"a{n} = {n}" for n in range(30)), GENERATED)
    await a.sees()
    await _is_generated_anew(a)
    await a.accept()
    await a.moves_on()


@situation("accept it; a build changes another open file; edit it a minute later", "edited")
async def _(a: Author) -> None:
    a.open("\n".join(f"a{n} = {n}" for n in range(30)), GENERATED)
    await a.sees()
    await a.accept()
    await _is_generated_anew(a)
    await a.insert(AT, None, " + 1")
    await a.moves_on()


@situation("have one in each of two files, accept one", {"here": "kept", "there": "ignored"})
async def _(a: Author) -> None:
    uri = "file:///project/other.py"
    a.open(TEXT, uri)
    await a.sees("there", uri=uri)
    await a.sees("here")
    await a.accept()
    await a.moves_on()


def _in_a_document(title: str, uri: str, text: str = TEXT) -> None:
    steps: list[Step] = [("open", text, uri), ("sees", {"uri": uri}), ("accept", {"uri": uri})]
    told(title, "kept", *steps, ("moves_on", uri))


for _what, _uri in (
    ("a notebook cell", "vscode-notebook-cell:/project/book.ipynb#W0sZmlsZQ%3D%3D"),
    ("an untitled document", "untitled:Untitled-1"),
    ("a file on another machine", "vscode-remote://ssh-remote%2Bhost/project/module.py"),
):
    _in_a_document(f"accept it in {_what}", _uri)


def _in_notebook(
    title: str, label: str, tell: Callable[[Author, Notebook], Awaitable[None]], why: str = ""
) -> None:
    async def story(a: Author) -> None:
        book = Notebook(a.editor, {"above": "base = 1", "cell": TEXT, "below": "print(base)"})
        uri = book.cell_uri("cell")
        a.texts[uri] = TEXT
        await a.sees(uri=uri)
        await a.later(0.3)
        book.insert("cell", AT, len(a.lines(uri)[AT]), SUGGESTED)
        a.texts[uri] = TEXT.replace("total = \n", f"total = {SUGGESTED}\n")
        await a.later(0.3)
        await tell(a, book)

    client = {"inline": True, "notebooks": True}
    situation(f"accept it in a cell, {title}", label, why=why, client=client)(story)


async def _saves(_: Author, book: Notebook) -> None:
    book.save()


async def _closes(a: Author, book: Notebook) -> None:
    book.save()
    await _discards(a, book)


async def _discards(a: Author, book: Notebook) -> None:
    book.close()
    await a.later(2.0)


async def _moves(a: Author, book: Notebook) -> None:
    book.move("cell", 0)
    book.insert("below", 0, 0, "#")
    await a.later(31.0)


async def _runs(a: Author, book: Notebook) -> None:
    book.run("cell", 1)
    await a.later(31.0)


async def _deletes(a: Author, book: Notebook) -> None:
    book.remove("cell")
    await a.later(32.0)


async def _brings_back(a: Author, book: Notebook, language: str = "python") -> None:
    book.remove("cell")
    await a.later(1.0)
    book.put(1, "cell", a.texts[book.cell_uri("cell")], language)
    await a.later(1.0)
    book.insert("below", 0, 0, "#")
    await a.later(31.0)


_in_notebook("save the notebook", NONE, _saves, "a save of which the editor gives no reason may be automatic")
_in_notebook("save the notebook, close it", "kept", _closes)
_in_notebook("close the notebook", "discarded", _discards, "it was not saved")
_in_notebook("move the cell, go on in another one", "kept", _moves)
_in_notebook("run the cell", NONE, _runs, "a run decides nothing: you may still be at the line")
_in_notebook("delete the cell", "edited", _deletes)
_in_notebook("delete the cell, undo that, go on in another one", "kept", _brings_back)
_in_notebook(
    "choose another language for the cell, go on in another one",
    "kept",
    lambda a, book: _brings_back(a, book, "r"),
    "VS Code takes the cell out and puts it in again",
)


_in_a_document(
    "accept it in a file with Windows line ends", "file:///project/windows.py", TEXT.replace("\n", "\r\n")
)
_in_a_document(
    "accept it behind characters of two UTF-16 units",
    "file:///project/pairs.py",
    TEXT.replace("total = ", "total = '\N{SNAKE}\N{SNAKE}' * "),
)


@situation(
    "accept it; the editor is killed",
    NONE,
    why="what was not saved is gone, or not: nobody knows",
)
async def _(a: Author) -> None:
    await a.sees()
    await a.accept()
    await a.later(1.0)
    a.editor.client.hang_up()
    await a.editor.client.gone()


@situation(
    "accept it; the server is killed and started again",
    NONE,
    why="what becomes of it is not known",
    process=True,
)
async def _(a: Author) -> None:
    found = await a.sees()
    await a.accept()
    await a.editor.command("accepted", found)
    a.editor.client.process.kill()
    await a.editor.client.gone()
    a.editor = await a.restart()
    a.open(a.texts[URI])
    await a.moves_on()


# Summaries


SUMMARY: dict[str, Any] = {
    "script": {"summary": {"text": "Return a number.", "logprobs": [-0.7]}},
    "client": {"inline": True, "edits": True},
}


async def _insert_summary(a: Author) -> None:
    applied = a.editor.apply_edits()
    place = {"uri": URI, "position": {"line": 0, "character": 4}}
    done = await a.editor.command("insertSummary", place)
    assert done["applied"], done
    (edit,) = applied
    a.keep(done["suggestion"], "suggestion")
    at = edit.range.start.line
    lines = a.texts[URI].splitlines(keepends=True)
    a.texts[URI] = "".join([*lines[:at], edit.new_text, *lines[at:]])


told("insert a summary", "kept", _insert_summary, "moves_on", **SUMMARY)
told(
    "insert a summary, add a sentence to it",
    "kept",
    _insert_summary,
    ("put", AT, '    """Return a number. It is the total."""'),
    "moves_on",
    why="a comment may say more",
    **SUMMARY,
)
told(
    "insert a summary, change its words",
    "edited",
    _insert_summary,
    ("put", AT, '    """Give a number."""'),
    "moves_on",
    **SUMMARY,
)
told("insert a summary, remove it", "edited", _insert_summary, "delete_line", "moves_on", **SUMMARY)


@situation("insert a summary, report it as wrong", "reported", **SUMMARY)
async def _(a: Author) -> None:
    await _insert_summary(a)
    await a.editor.command("reportSummary", {"uri": URI, "position": {"line": 0, "character": 4}})
    await a.moves_on()
