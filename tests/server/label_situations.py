"""What people, and programs beside them, do with suggestions, and the label that each must get: the table of
models/records/labels/README.md, which `python tests/server/label_situations.py` writes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from label_author import AT, CELL, LAST, SUGGESTED, TEXT, Steps

PAGE = Path(__file__).parents[2] / "models" / "records" / "labels" / "README.md"
BEGIN, END = "<!-- situations -->\n", "<!-- end of situations -->\n"

NONE = "none"
"""There is no label."""


@attrs.frozen
class Situation:
    """labels: by the name of the suggestion; NONE: it gets none. why: for what would surprise a user.

    unknown: names of superseded suggestions of which nothing is known. process: the server is one of its own.
    """

    title: str
    labels: Mapping[str, str]
    steps: Steps
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


def situation(title: str, label: str | Mapping[str, str], steps: Steps, why: str = "", **more: Any) -> None:
    labels = {"suggestion": label} if isinstance(label, str) else label
    SITUATIONS.append(Situation(title, labels, steps, why, **more))


READ = Steps().sees()
TAKEN = READ.accept()
SAVED = TAKEN.save()
OTHERWISE = "    total = net * tax"
OTHER = "file:///project/other.py"


# Accepted and left alone, or not

SETTLED = "it had settled"
NOT_IT = "the line is not the one that was suggested"
AT_IT = "you may still be at it"

situation("accept it, go on elsewhere", "kept", TAKEN.moves_on())
situation("accept it and Enter in one change", "kept", READ.accept(text=f"{SUGGESTED}\n    ").moves_on())
situation("accept it, save", "kept", SAVED, "unless you go on with the line at once")
situation(
    "read it, save, then accept it",
    "kept",
    READ.save().later(1.0).accept().moves_on(),
    "on the screen it can still be taken: a save decides nothing on it",
)
GLANCE: dict[str, Any] = {"answers": {"print(price(1, 2))": {"text": "  "}}, "otherwise": {"text": SUGGESTED}}
GLANCED = READ.later(2.0).sees_none(LAST).sees().later(60.0)
situation(
    "read it, look at another line, come back to it, accept it after a minute",
    "kept",
    GLANCED.accept().moves_on(),
    "who is back can still take it, and has all the time to",
    script=GLANCE,
)
situation(
    "read it, look at another line, come back to it, go on elsewhere",
    "ignored",
    GLANCED.moves_on(),
    script=GLANCE,
)
situation(
    "accept it, stay on the line", NONE, TAKEN.later(3600.0), f"not settled: {AT_IT}, however long it takes"
)
situation(
    "accept it, the editor saves by itself after a pause or as it loses the focus",
    NONE,
    TAKEN.saves_by_itself("AfterDelay", "FocusOut").later(3600.0),
    AT_IT,
)
situation(
    "accept it, save as an editor that gives no reason",
    NONE,
    TAKEN.is_marked(1).saves_by_itself(None).is_marked(0).later(3600.0),
    f"it may have saved by itself: {AT_IT}",
)
situation("accept it, undo", "edited", TAKEN.undo().moves_on())
situation(
    "accept it, save, delete the text, accept it again, write something else, save",
    "edited",
    SAVED.is_marked(0)
    .backspace(len(SUGGESTED))
    .sees(by_hand=True)
    .accept()
    .is_marked(1)
    .put(AT, "zzz = 1")
    .save(),
    "a save by habit: for 30 seconds what you do to the line still counts",
)
situation(
    "accept it, save, delete the text a minute later, accept it again, write something else, save",
    {"first": "kept", "second": "edited"},
    Steps()
    .sees("first")
    .accept()
    .save()
    .later(60.0)
    .backspace(len(SUGGESTED))
    .sees("second", by_hand=True)
    .accept()
    .put(AT, "zzz = 1")
    .save(),
    "it had settled; what is shown anew has a label of its own",
)
situation(
    "read it, go on elsewhere, come back a minute later, accept it",
    {"first": "ignored", "second": "kept"},
    Steps().sees("first").moves_on().later(30.0).sees("second").accept().moves_on(),
    "it had settled; each visit to a line has its own label",
)
situation(
    "type it through, save, delete the text, show it again, type something else",
    "typed over",
    READ.type(SUGGESTED).save().backspace(len(SUGGESTED)).sees().type("net * 2").moves_on(),
)
situation(
    "accept it, go on elsewhere, edit it 20 seconds later",
    "edited",
    TAKEN.elsewhere().later(20.0).put(AT, OTHERWISE).moves_on(),
)
situation(
    "accept it, go on elsewhere, edit it 200 seconds later",
    "kept",
    TAKEN.moves_on().later(170.0).put(AT, OTHERWISE).moves_on(),
    "it had settled; that it did not survive 300 s is an event of its own",
)
situation(
    "accept it, stay on the line, edit it 200 seconds later",
    "edited",
    TAKEN.later(200.0).backspace(3).type("vat").moves_on(),
)
situation("accept it, change it, change it back", "kept", TAKEN.backspace(3).type("tax").moves_on())
situation("accept it, add something at its end", "edited", TAKEN.type(" + tip").moves_on(), NOT_IT)
situation(
    "accept it, save, edit the line 40 seconds later",
    "kept",
    SAVED.later(40.0).put(AT, OTHERWISE).moves_on(),
    SETTLED,
)


# Accepted in part

FIRST_WORD = READ.accept(text="net")
WORDS = FIRST_WORD.accept(text=" +").accept(text=" tax")
situation("accept it word by word", "kept in parts", WORDS.moves_on())
situation(
    "accept it by the editor's partial accept, which asks again after each word",
    "kept in parts",
    FIRST_WORD.sees_the_rest().accept(text=" +").sees_the_rest().accept(text=" tax").moves_on(),
)
situation(
    "accept its first word, type another end", "taken in part", FIRST_WORD.type(" * 2").moves_on(), NOT_IT
)
situation(
    "accept its first word, undo, go on elsewhere",
    "taken in part",
    FIRST_WORD.undo().moves_on(),
    "you have taken it back",
)
situation("accept its first word, undo, accept all of it", "kept", FIRST_WORD.undo().accept().moves_on())
situation(
    "accept it word by word, change its end",
    "edited",
    WORDS.backspace(3).type("vat").moves_on(),
    "all of it was in the line",
)
situation(
    "accept its first word, type on, another one comes, accept that",
    {"first": "taken in part", "second": "kept"},
    Steps().sees("first").accept(text="net").type(" *").sees("second").accept(text=" 2").moves_on(),
    script={"answers": {"    total = net *": {"text": " 2"}}, "otherwise": {"text": "net - 1"}},
)
BLOCK: dict[str, Any] = {
    "script": {
        "answers": {"    total = ": {"text": "net + tax"}, "    ": {"text": "total = net + tax"}},
        "inOrder": [{"text": "    total *= 2"}, {"text": ""}],
    },
}
IN_BLOCK = Steps().open(TEXT.replace("    total = \n", "    \n"), "file:///block.py").sees(by_hand=True)
situation(
    "accept a block, line by line",
    "kept",
    IN_BLOCK.accept(text="total = net + tax").accept(text="\n    total *= 2").moves_on(),
    **BLOCK,
)
situation(
    "accept a block, change its second line",
    "kept",
    IN_BLOCK.accept(text="total = net + tax\n    total *= 2").put(AT + 1, "    total *= 3").moves_on(),
    "the label of a block is that of its first line",
    **BLOCK,
)


# Typed, and not taken

situation("type it through", "typed", READ.type(SUGGESTED).moves_on())
situation(
    "type its beginning, accept the rest",
    "kept",
    READ.type("net").sees_the_rest().accept(text=" + tax").moves_on(),
)
situation(
    "accept one that is a single character",
    "typed",
    READ.accept(text="7").moves_on(),
    "a change of the document does not tell; as one types them more often, the line gets no mark",
    script={"otherwise": {"text": "7"}},
)
situation("type it through and then more", "typed over", READ.type(f"{SUGGESTED} + tip").moves_on(), NOT_IT)
situation("type something else", "typed over", READ.type("net * 2").moves_on())
situation(
    "paste the same text from elsewhere",
    "kept",
    READ.replace((AT, 10), (AT, 12), f"= {SUGGESTED}").moves_on(),
    "a change of the document does not tell",
)
situation("read it, go on elsewhere", "ignored", READ.moves_on())
situation(
    "go on elsewhere within 0.75 s",
    "unread",
    Steps().glimpses().insert(LAST, None, "#", 0.5).later(31.0),
    "too short to have read it",
)
DECIDES = "what the editor reports is a hint; the document decides"
situation("dismiss it (Escape), go on elsewhere", "ignored", READ.says("rejected").moves_on(), DECIDES)
situation(
    "the editor reports that you accepted it, and the document has it nowhere",
    "ignored",
    READ.says("accepted").moves_on(),
    DECIDES,
)
situation("delete the line of one you did not take", "deleted", READ.delete_line().moves_on())


# More than one

TWO: dict[str, Any] = {"answers": {"    total = n": {"text": "et * 2"}}, "otherwise": {"text": "tax"}}
SECOND = Steps().sees("first").type("n").sees("second")
AT_ONCE = Steps().glimpses("first").type("n").sees("second")
situation(
    "type on, another one comes, accept that",
    {"first": "typed over", "second": "kept"},
    SECOND.accept(text="et * 2").moves_on(),
    "each has a label; in a refit the first of a visit counts most",
    script=TWO,
)
situation(
    "type on, another one comes, write what the first said",
    {"first": "typed", "second": "typed over"},
    SECOND.backspace(1).type("tax").moves_on(),
    script=TWO,
)
situation(
    "type on, another one comes, save, take the letter back, accept the first",
    {"first": "kept", "second": "typed over"},
    SECOND.save().backspace(1).sees("first").accept(text="tax").moves_on(),
    script=TWO,
)
situation(
    "type on at once, another one comes, accept that",
    {"first": "superseded", "second": "kept"},
    AT_ONCE.accept(text="et * 2").moves_on(),
    "the line tells that the first was wrong, though nobody could read it",
    script=TWO,
)
situation(
    "type on at once, another one comes, take the letter back and go on elsewhere",
    {"first": "superseded", "second": "typed over"},
    AT_ONCE.backspace(1).moves_on(),
    "nobody wrote what belongs there: nothing is known of one that nobody could read",
    unknown=("first",),
    script=TWO,
)
situation(
    "type on at once, another one comes, take the letter back, look at the first, go on elsewhere",
    {"first": "ignored", "second": "typed over"},
    AT_ONCE.backspace(1).sees("first").moves_on(),
    "the first is on the screen again",
    script=TWO,
)
situation(
    "type what it says before it comes",
    NONE,
    Steps().types_before_it_comes().moves_on(),
    "it was never shown",
    script={"otherwise": {"text": SUGGESTED, "heldUntil": "held"}},
)
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
APART = "labels of alternatives are kept apart: a refit for the first leaves them out"
situation(
    "ask for alternatives, take the third",
    {"first": "typed over", "second": "typed over", "third": "kept"},
    Steps().sees_three().accept(text="net * 2").moves_on(),
    APART,
    script=ALTERNATIVES,
)
situation(
    "ask for three by hand, type a letter of the first, save, take it back, ask again, take the second",
    {"first": "typed over", "second": "kept", "third": "typed over"},
    Steps().sees_three().type("n").save().backspace(1).sees_three().accept(text="sum()").moves_on(),
    script=ALTERNATIVES,
)
MENU: dict[str, Any] = {"client": {"inline": False}}
situation("take it from the completion menu", "kept", Steps().sees_in_menu().accept().moves_on(), **MENU)
situation(
    "take another item of the completion menu",
    "typed over",
    Steps().sees_in_menu().accept(text="network").moves_on(),
    **MENU,
)
HIDDEN = {"otherwise": {"text": SUGGESTED, "logprobs": [-2.0, -2.0]}, "survival": True}
situation(
    "type what a suggestion says that `hideBelow` hid",
    NONE,
    Steps().sees_none().type(SUGGESTED).moves_on(),
    "it was not shown",
    options={"hideBelow": 0.5},
    script=HIDDEN,
)
situation(
    "accept one that `hideBelow` was to hide and that is shown to keep learning",
    "kept",
    TAKEN.moves_on(),
    "with the probability that it was shown, 1 %: it counts for those that were hidden",
    options={"hideBelow": 0.5},
    script={**HIDDEN, "explored": 1.0},
)


# What commands of the editor do to the line

LIKE = "x = \nx = \n\n#\n"
situation(
    "accept it with several cursors",
    "kept",
    Steps()
    .open("x = \ny = \n\n#\n", OTHER)
    .sees(line=0)
    .replace((0, 4), (1, 4), f"{SUGGESTED}\ny = {SUGGESTED}")
    .moves_on(),
    "once: the other lines had no suggestion",
)
situation(
    "have one in each of two like lines, accept only the second",
    {"upper": "ignored", "lower": "kept"},
    Steps().open(LIKE, OTHER).sees("upper", 0).sees("lower", 1).accept(1).moves_on(),
)
situation(
    "paste several lines over a blank line, of which another than the first is what was suggested",
    "typed over",
    Steps()
    .open("def f(err):\n    \n    \n\n#\n", OTHER)
    .sees()
    .accept(text="if err:\n        return err\n    log(err)")
    .is_marked(0)
    .moves_on(),
    "the first of them is on the line, and says something else",
    script={"otherwise": {"text": "return err"}},
)
situation("accept it, split the line", "edited", TAKEN.insert(AT, 16, "\\\n        ").moves_on())
END_OF_IT = len(f"    total = {SUGGESTED}")
situation(
    "accept it, join the next line to it",
    "edited",
    TAKEN.replace((AT, END_OF_IT), (AT + 1, 4), "; ").moves_on(),
)
situation(
    "accept it, comment it out", "edited", TAKEN.insert(AT, 4, "# ").moves_on(), "it is not in the code"
)
situation(
    "accept it, put an `if` above it and indent both",
    "kept",
    TAKEN.replace((AT, 0), (AT, 4), "    if net:\n        ").moves_on(),
)
situation(
    "accept it, indent a block with it",
    "kept",
    TAKEN.together(*(((line, 0), (line, 0), "    ") for line in (2, 1, 0))).moves_on(),
)
situation(
    "accept it, copy the line down and change both",
    "edited",
    TAKEN.insert(AT, 0, f"    total = {SUGGESTED}\n")
    .later(3.0)
    .put(AT, OTHERWISE)
    .put(AT + 1, "    total = tax")
    .moves_on(),
)
DELETED = TAKEN.delete_line()
situation("accept it, delete the line", "edited", DELETED.moves_on())
situation("accept it, cut the line and paste it elsewhere", "kept", DELETED.paste_line(LAST - 2).moves_on())
situation(
    "accept it, cut the line and paste it into another open file, edit it there",
    "edited",
    Steps()
    .open(LIKE, OTHER)
    .goes_to()
    .sees()
    .accept()
    .delete_line()
    .goes_to(OTHER)
    .later(2.0)
    .paste_line(2)
    .put(2, OTHERWISE)
    .moves_on(),
)
situation("accept it, write lines above it", "kept", TAKEN.insert(0, 0, "import math\n\n\n").moves_on())
situation(
    "read it, move its line down, accept it there",
    "kept",
    READ.insert(3, 0, "    total = \n").delete_line().sees(line=2).accept(2).moves_on(),
)


# Other programs

BY_PROGRAM = "nobody typed that: what you would have done is not known"
BEFORE = "you had written something else before"
ON_DISK = "the file has the line"
IN_FILE = Steps().open_file().sees()
SAVED_IN_FILE = IN_FILE.accept().save()
situation(
    "accept it; all of the document is replaced by what it was",
    "overwritten",
    TAKEN.replace_all(text=TEXT).moves_on(),
    BY_PROGRAM,
)
situation(
    "read it; a checkout changes lines above; accept it",
    "kept",
    IN_FILE.reads_again("import math\n\n" + TEXT).later(40.0).accept(AT + 2).moves_on(),
)
situation(
    "accept it, save; a checkout takes the line out at once",
    "overwritten",
    SAVED_IN_FILE.reads_again(TEXT).moves_on(),
    BY_PROGRAM,
)
situation(
    "accept it, save; edit it and save at the same moment",
    "edited",
    SAVED_IN_FILE.later(1.0).put_and_save(AT, OTHERWISE).moves_on(),
    "the file has your change before the server hears of it",
)
situation(
    "accept it, edit it, save; a checkout takes the line out",
    "edited",
    IN_FILE.accept().put(AT, OTHERWISE).save().reads_again(TEXT.replace("    total = \n", "")).moves_on(),
    BEFORE,
)
RATE = ((3, 0), (3, 0), "\nRATE = 2\n\n")
OTHERS = READ.together(((LAST, 0), (LAST, 5), "log"), ((2, 4), (2, 10), "yield"))
situation(
    "read it; an agent writes that line and others",
    "overwritten",
    READ.together(RATE, ((AT, 4), (AT, 12), "gross = net * RATE")).moves_on(),
    BY_PROGRAM,
)
situation(
    "read it; an agent changes several other lines; go on elsewhere",
    "overwritten",
    OTHERS.moves_on(),
    "it goes from the screen with that: you may have wanted it",
)
situation("read it; an agent changes several other lines; accept it", "kept", OTHERS.accept().moves_on())
situation(
    "accept it; an agent makes another line of it",
    "overwritten",
    TAKEN.together(RATE, ((AT, 4), (AT, 21), "gross = net * RATE"), ((0, 4), (0, 9), "tax")).moves_on(),
    BY_PROGRAM,
)
situation(
    "type something else; an agent writes that line and others",
    "typed over",
    READ.type("vat").together(RATE, ((AT, 4), (AT, 15), "gross = net")).moves_on(),
    BEFORE,
)
situation(
    "accept it; on saving a formatter indents the line and strips its end",
    "kept",
    TAKEN.formats(f"\ttotal = {SUGGESTED}").moves_on(),
)
WRAPPED = TAKEN.formats(f"    total = ({SUGGESTED})")
situation(
    "accept it; on saving a formatter wraps it in brackets", "overwritten", WRAPPED.moves_on(), BY_PROGRAM
)
situation(
    "accept it; on saving a formatter wraps it, undo that",
    "kept",
    WRAPPED.put(AT, f"    total = {SUGGESTED}").moves_on(),
)
ROWS = "\n".join(f"a{n} = {n}" for n in range(30))
situation(
    "accept it; a build changes another open file; edit it a minute later",
    "edited",
    Steps()
    .open(ROWS, OTHER)
    .goes_to()
    .sees()
    .accept()
    .goes_to(OTHER)
    .replace_all(text=ROWS.replace("a", "b"))
    .goes_to()
    .later(60.0)
    .accept(text=" + 1")
    .moves_on(),
)


# Documents, editors, servers

NOWHERE = "the line is nowhere any more"
situation("accept it, save, close the file", "kept", SAVED.close())
situation("accept it, close the file without saving", "discarded", TAKEN.close(), NOWHERE)
situation("read it, close the file", "ignored", READ.close())
situation(
    "accept it, save, add something to it, close the file without saving",
    "kept",
    SAVED_IN_FILE.type(" + tip").close(),
    ON_DISK,
)
situation(
    "accept it, save, delete the file at once", "discarded", SAVED_IN_FILE.deletes_file().close(), NOWHERE
)
situation("accept it, leave the editor without saving", "discarded", TAKEN.leaves())
situation(
    "accept it, save, change it, leave the editor without saving",
    "kept",
    SAVED_IN_FILE.put(AT, OTHERWISE).leaves(),
    ON_DISK,
)
situation(
    "accept it; the editor is killed",
    NONE,
    TAKEN.later(1.0).is_killed(),
    "what was not saved is gone, or not: nobody knows",
)
situation(
    "accept it, save, mend the line; the server is killed and started again",
    "edited",
    SAVED.put(AT, OTHERWISE).has_server_killed().moves_on(),
    process=True,
)
situation(
    "accept it, close the file, open it again a minute later and edit the line",
    "kept",
    SAVED.close().later(60.0).open(None).put(AT, OTHERWISE).moves_on(),
    SETTLED,
)
situation(
    "accept it in an untitled document, save that under a name, edit it there",
    "edited",
    Steps().open(TEXT, "untitled:1").sees().accept().opens_as(OTHER).later(5.0).put(AT, OTHERWISE).moves_on(),
)
situation(
    "read it; another file is opened; accept it after a minute",
    "kept",
    READ.open("#\n#\n", OTHER).goes_to().later(60.0).accept().moves_on(),
    "to open a file is not yet to work on it",
)
situation(
    "have one in each of two files, accept one",
    {"here": "kept", "there": "ignored"},
    Steps().open(TEXT, OTHER).sees("there").goes_to().sees("here").accept().moves_on(),
)
for what, uri, text in (
    ("in a file on another machine", "vscode-remote://ssh-remote%2Bhost/project/module.py", TEXT),
    ("in a file with Windows line ends", OTHER, TEXT.replace("\n", "\r\n")),
    (
        "behind characters of two UTF-16 units",
        OTHER,
        TEXT.replace("total = ", "total = '\N{SNAKE}\N{SNAKE}' * "),
    ),
):
    situation(f"accept it {what}", "kept", Steps().open(text, uri).sees().accept().moves_on())

IN_CELL = Steps().open_notebook().sees().accept()
for what, label, steps, why in (
    (
        "save the notebook",
        NONE,
        IN_CELL.in_notebook("save"),
        "a save of which the editor gives no reason may be automatic",
    ),
    ("close the notebook", "discarded", IN_CELL.in_notebook("close").later(2.0), "it was not saved"),
    (
        "run the cell",
        NONE,
        IN_CELL.in_notebook("run", CELL, 1).later(31.0),
        f"a run decides nothing: {AT_IT}",
    ),
):
    situation(f"accept it in a cell, {what}", label, steps, why, client={"inline": True, "notebooks": True})


# Summaries

SUMMARY: dict[str, Any] = {
    "script": {"summary": {"text": "Return a number.", "logprobs": [-0.7]}},
    "client": {"inline": True, "edits": True},
}
INSERTED = Steps().inserts_summary()
situation("insert a summary", "kept", INSERTED.moves_on(), **SUMMARY)
situation(
    "insert a summary, add a sentence to it",
    "kept",
    INSERTED.put(AT, '    """Return a number. It is the total."""').moves_on(),
    "a comment may say more",
    **SUMMARY,
)
situation(
    "insert a summary, change its words",
    "edited",
    INSERTED.put(AT, '    """Give a number."""').moves_on(),
    **SUMMARY,
)
situation(
    "insert a summary, report it as wrong", "reported", INSERTED.reports_summary().moves_on(), **SUMMARY
)


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


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text("utf-8")), "utf-8")
