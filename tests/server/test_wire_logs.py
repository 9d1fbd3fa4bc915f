"""What scripted sessions send, store and ask of the model, compared with recorded logs.

Other tests here each claim one thing; these hold everything else as it is while the server is rebuilt.
`python tests/server/test_wire_logs.py --record` writes the logs anew: look at `git diff --text` of what
changes, as the difference is a change that users or editors meet.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import gzip
import itertools
import json
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from scripted_editor import URI, Editor, Notebook, capabilities, start, until

LOGS = Path(__file__).parents[1] / "golden" / "wire_logs.json.gz"
# Seconds without a message after which a step is over, and between two looks.
QUIET, LOOK = 0.2, 0.02
CODE = "import os\n\n\ndef price(net, tax):\n    total = \n    return total\n\n\nprint(price(1, 2))\n"
PLACE = {"uri": URI, "position": {"line": 3, "character": 5}}
SURE = {"text": "net + tax", "logprobs": [-0.05, -0.05, -0.05]}
DOUBTFUL = {"text": "net - tax", "tokens": ["net", " - ", "tax"], "logprobs": [-0.1, -2.0, -0.7]}
BOTH = {
    "text": "run(x)",
    "tokens": ["run", "(x)", ""],
    "logprobs": [-0.69, -0.22, 0.0],
    "seconds": [[0.9, 50], [2.0, 60], [100.0, None]],
    "ways": {
        "50": {"text": "stop()", "tokens": ["()"], "logprobs": [0.0]},
        "60": {"text": "run()", "tokens": [""], "logprobs": [0.0]},
    },
}
INVOKED = types.CodeActionContext([], trigger_kind=types.CodeActionTriggerKind.Invoked)


class Session:
    """One session. Each step ends when the server is quiet."""

    def __init__(self, editor: Editor, wire: Path) -> None:
        self.editor = editor
        self.steps: list[int] = []
        self._wire = wire

    async def step(self, *work: Any) -> Any:
        """Awaits the work, then silence. What a request raises is in the log."""
        found = []
        for one in work:
            try:
                found.append(await one if asyncio.iscoroutine(one) else one)
            except JsonRpcException:
                found.append(None)
        size, since = -1, 0.0
        while since < QUIET:
            await asyncio.sleep(LOOK)
            now = self._wire.stat().st_size
            size, since = (size, since + LOOK) if now == size else (now, 0.0)
        self.steps.append(len(self._wire.read_text("utf-8").splitlines()))
        return found[0] if found else None  # the first is the one that a session goes on with


Acts = Callable[[Session, Editor], Awaitable[object]]
SESSIONS: dict[str, tuple[Acts, dict[str, Any], dict[str, Any]]] = {}


def session(script: Mapping[str, Any] | None = None, **options: Any) -> Callable[[Acts], Acts]:
    def take(acts: Acts) -> Acts:
        SESSIONS[acts.__name__.strip("_")] = acts, dict(script or {}), options
        return acts

    return take


def asking(script: Mapping[str, Any] | None = None, **options: Any) -> Callable[[Acts], Acts]:
    """As `session`, of one that begins with a request at the empty end of a line of CODE."""

    def take(acts: Acts) -> Acts:
        @functools.wraps(acts)
        async def acts_then(s: Session, e: Editor) -> None:
            e.open(CODE)
            await s.step(e.inline(4, 12))
            await acts(s, e)

        return session(script, **options)(acts_then)

    return take


for _editor in ("plain", "helix", "visual-studio-code", "neovim", "emacs"):

    @session({"otherwise": SURE}, client=capabilities(_editor))
    async def handshake(s: Session, e: Editor) -> None:
        e.open(CODE)
        await s.step(e.complete(4, 12))
        await s.step(e.complete(4, 12, invoked=True))
        await s.step(e.hover(3, 5))
        await s.step(e.command("explain", {"uri": URI}))

    SESSIONS[f"handshake of {_editor}"] = SESSIONS.pop("handshake")


@asking({"otherwise": SURE})
async def accepted_and_saved(s: Session, e: Editor) -> None:
    await s.step(e.insert(4, 12, "net + tax"))
    await s.step(e.save())
    await s.step(e.command("status"))


@asking({"otherwise": SURE})
async def typed_over(s: Session, e: Editor) -> None:
    await s.step(e.insert(4, 12, "n"), e.inline(4, 13))
    await s.step(e.insert(4, 13, "et + "), e.inline(4, 18))
    await s.step(e.insert(4, 18, "something"), e.inline(4, 27))
    await s.step(e.save())
    await s.step(e.close())


@asking({"otherwise": SURE}, client=capabilities(inline=True, pull=True))
async def marks_that_are_pulled(s: Session, e: Editor) -> None:
    await s.step(e.insert(4, 12, "net + tax"), e.pull())
    await s.step(e.change((4, 12), (4, 15), "gross"), e.pull())
    await s.step(e.change((4, 0), (5, 0), ""), e.pull())


@session({"otherwise": DOUBTFUL})
async def marks_that_are_pushed(s: Session, e: Editor) -> None:
    e.open(CODE)
    suggestion = await s.step(e.suggestion(4, 12))
    await s.step(e.insert(4, 12, "net - tax"))
    await s.step(e.command("accepted", suggestion))
    await s.step(e.insert(0, 0, "# first\n"))
    await s.step(e.command("markReviewed", suggestion))
    await s.step(e.close())


@asking({"otherwise": SURE, "survival": True}, options={"hideBelow": 0.97})
async def hidden_but_by_hand(s: Session, e: Editor) -> None:
    await s.step(e.command("explain", {"uri": URI}))
    await s.step(e.inline(4, 12, by_hand=True))
    await s.step(e.inline(4, 12))


@session({"otherwise": BOTH})
async def alternatives(s: Session, e: Editor) -> None:
    e.open("task.")
    await s.step(e.inline(0, 5))
    await s.step(e.inline(0, 5, by_hand=True))
    await s.step(e.insert(0, 5, "sto"), e.inline(0, 8))
    await s.step(e.complete(0, 8, invoked=True))


@session({"otherwise": BOTH}, client=capabilities("plain"))
async def menu_with_alternatives(s: Session, e: Editor) -> None:
    e.open("task.")
    await s.step(e.menu(0, 5))
    await s.step(e.complete(0, 5, invoked=True))


@session(
    {
        "answers": {"    ": {"text": "x = 1"}},
        "inOrder": [{"text": "    y = 2"}, {"text": "    return y"}, {"text": "z = 3"}, {"text": ""}],
        "otherwise": {"text": ""},
    },
)
async def a_block(s: Session, e: Editor) -> None:
    e.open("def f():\n    ")
    await s.step(e.inline(1, 4, by_hand=True))
    await s.step(e.insert(1, 4, "x"), e.inline(1, 5))
    await s.step(e.insert(1, 5, " = 1\n    y = 2\n    return y"))
    await s.step(e.save())


@session({"otherwise": {**SURE, "tokens": ["net", " + ", "tax"]}}, options={"sure": "cut"})
async def cut_where_it_is_sure(s: Session, e: Editor) -> None:
    e.open(CODE)
    await s.step(e.inline(4, 12))


@session({"otherwise": {"text": "x, y)"}})
async def over_closers(s: Session, e: Editor) -> None:
    e.open("print()\n")
    await s.step(e.inline(0, 6))
    await s.step(e.complete(0, 6))


@asking({"answers": {"    total = ": {"text": ""}, "x = ": {"text": "1", "stop": "length"}}})
async def nothing_to_offer(s: Session, e: Editor) -> None:
    await s.step(e.command("explain"))
    await s.step(e.insert(8, 0, "x = "), e.inline(8, 4))
    await s.step(e.command("explain"))
    await s.step(e.command("status"))


@asking({"otherwise": SURE})
async def taken_back(s: Session, e: Editor) -> None:
    await s.step(e.insert(4, 12, "net + tax"))
    await s.step(e.change((4, 12), (4, 21), ""), e.inline(4, 12))
    await s.step(e.command("explain"))
    await s.step(e.inline(4, 12, by_hand=True))


@session({"otherwise": SURE})
async def rejected(s: Session, e: Editor) -> None:
    e.open(CODE)
    suggestion = await s.step(e.suggestion(4, 12))
    await s.step(e.command("rejected", suggestion))
    await s.step(e.inline(4, 12))
    await s.step(e.close())
    await s.step(e.open(CODE), e.inline(4, 12))


@session({"otherwise": SURE})
async def a_change_in_bulk(s: Session, e: Editor) -> None:
    e.open(CODE)
    await s.step(e.insert(8, 0, "a\n" * 8), e.inline(4, 12))
    await s.step(e.command("explain"))
    await s.step(e.inline(4, 12))
    await s.step(e.replace_all(CODE), e.inline(4, 12))


@session({"otherwise": SURE})
async def paused(s: Session, e: Editor) -> None:
    e.open(CODE)
    await s.step(e.command("pause", {"minutes": 5}))
    await s.step(e.inline(4, 12))
    await s.step(e.command("explain"))
    await s.step(e.inline(4, 12, by_hand=True))
    await s.step(e.command("resume"))
    await s.step(e.inline(4, 12))


@session({"otherwise": SURE}, options={"exclude": ["*.secret"], "languages": ["python"]})
async def excluded_and_off(s: Session, e: Editor) -> None:
    for uri, language in (("file:///project/a.secret", "python"), ("file:///project/a.go", "go")):
        e.open(CODE, uri, language)
        await s.step(e.inline(4, 12, uri))
        await s.step(e.command("explain", {"uri": uri}))
        await s.step(e.hover(3, 5, uri))
    e.open(CODE)
    await s.step(e.inline(4, 12))
    await s.step(e.configure({"exclude": ["*.py"]}, push=True), e.inline(4, 12))
    await s.step(e.command("explain"))


@session({"otherwise": SURE})
async def settings_that_are_wrong(s: Session, e: Editor) -> None:
    e.open(CODE)
    await s.step(e.configure({"tiers": {"acceptFrom": 0}, "nothing": 1, "debounceMs": 9}, push=True))
    await s.step(e.configure({"inlineCompletion": {"enabled": False}}, push=True), e.inline(4, 12))
    await s.step(e.command("explain"))
    await s.step(e.configure({"languages": 5}, push=True), e.inline(4, 12))


@asking(
    {"otherwise": SURE},
    client=capabilities(inline=True, configuration=True),
    settings={"inlineCompletion": {"enabled": False}},
)
async def settings_that_are_fetched(s: Session, e: Editor) -> None:
    await s.step(e.inline(4, 12))
    await s.step(e.configure({"inlineCompletion": {"enabled": True}}))
    await s.step(e.inline(4, 12))


@asking({"otherwise": SURE, "clock": True}, options={"prefetch.enabled": False})
async def settled_by_time(s: Session, e: Editor) -> None:
    await s.step(e.insert(4, 12, "net + tax\n"), e.inline(5, 0))
    for seconds in (20, 100, 1000):
        await s.step(e.client.protocol.notify("test/later", {"seconds": seconds}))


@session({"otherwise": SURE}, client=capabilities(inline=True, notebooks=True))
async def a_notebook(s: Session, e: Editor) -> None:
    book = Notebook(e, {"text": "# Prices", "a": "net, tax = 1, 2\n", "b": "total = "})
    uri = book.cell_uri("b")
    await s.step(e.inline(0, 8, uri))
    await s.step(book.insert("b", 0, 8, "net + tax"))
    await s.step(book.run("b", 1))
    await s.step(book.put(3, "c", "more = "), e.inline(0, 7, book.cell_uri("c")))
    await s.step(book.move("c", 1), book.remove("c"))
    await s.step(book.save())
    await s.step(book.close())


@asking({"otherwise": SURE, "afterLabels": {"soon": 0.05, "idle": 0.3}})
async def after_labels(s: Session, e: Editor) -> None:
    await s.step(e.insert(4, 12, "net + tax"), e.save())
    await s.step(e.settled())
    await s.step(e.command("refit"))


@asking({"otherwise": SURE}, options={"tiers": {"policy": "risk"}})
async def a_promise(s: Session, e: Editor) -> None:
    await s.step(
        e.configure({"confidence": {"measure": "mean"}, "tiers": {"policy": "risk"}}, push=True),
        e.inline(4, 12),
    )
    await s.step(e.command("refit"))  # without a label: which ones are set aside is left to chance
    await s.step(e.command("rollbackCalibrator"))
    await s.step(e.inline(8, 18))


@session({"otherwise": SURE})
async def commands(s: Session, e: Editor) -> None:
    await s.step(e.command("explain"))
    await s.step(e.command("status"))
    e.open(CODE)
    await s.step(e.inline(4, 12))
    await s.step(e.insert(4, 12, "net + tax"), e.save(), e.settled())
    await s.step(e.command("exportFeedback"))
    await s.step(e.command("showReport"))
    await s.step(e.command("purgeFeedback"))
    for name in ("accepted", "markReviewed", "pause", "insertSummary", "explain"):
        await s.step(e.command(name, {"id": 3, "minutes": "x", "uri": 7}))


@asking({"otherwise": SURE}, options={"feedback.enabled": False})
async def without_feedback(s: Session, e: Editor) -> None:
    await s.step(e.insert(4, 12, "net + tax"), e.save())
    await s.step(e.command("refit"))


@session({}, client=capabilities(inline=True, edits=True))
async def summaries(s: Session, e: Editor) -> None:
    e.apply_edits()
    e.open(CODE)
    await s.step(e.hover(3, 5))
    await s.step(e.actions(3, 5, context=INVOKED))
    await s.step(e.command("insertSummary", PLACE))
    await s.step(e.save())
    await s.step(e.change((4, 4), (4, 30), '"""Something else."""'), e.save())
    await s.step(e.command("regenerateSummary", PLACE))


@session(
    {"summary": {"text": "Adds."}},
    client=capabilities(inline=True, lenses=True),
    options={"codeLens.enabled": True},
)
async def lenses(s: Session, e: Editor) -> None:

    @e.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(_params: None) -> None:
        """The editor would ask again."""

    e.open(CODE)
    await s.step(e.lenses())
    await s.step(e.command("showSummary", PLACE))
    await s.step(e.lenses())
    await s.step(e.command("reportSummary", PLACE), e.hover(3, 5))


@session(
    {"summariesAfter": 0.1}, options={"codeLens.enabled": True}, client=capabilities(inline=True, lenses=True)
)
async def summaries_ahead(s: Session, e: Editor) -> None:

    @e.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(_params: None) -> None:
        """The editor would ask again."""

    e.open(CODE)
    await s.step(e.engine.until("answered"))
    await s.step(e.lenses())
    await s.step(e.insert(5, 16, " + 1"), e.engine.until("answered", 2))


@session({"summary": {"text": ""}}, client=capabilities("plain", progress=True))
async def no_summary(s: Session, e: Editor) -> None:
    e.open(CODE)
    await s.step(e.hover(3, 5))
    await s.step(e.command("showSummary", PLACE))
    await s.step(e.hover(0, 0))


@asking({"failure": ["NoModelError", "There is no model."]})
async def no_model(s: Session, e: Editor) -> None:
    await s.step(e.command("explain"))
    await s.step(e.hover(3, 5))
    await s.step(e.command("refit"))
    await s.step(e.command("restartModel"))


@asking({"otherwise": {**SURE, "error": ["EngineError", "It broke."]}, "loading": [0.0, 0.5, 1.0]})
async def an_engine_that_fails_once(s: Session, e: Editor) -> None:
    await s.step(e.command("explain"))
    await s.step(e.inline(4, 12))
    ready = sum(status.state == "ready" for status in e.client.statuses)
    await s.step(e.command("restartModel"))
    again = until(lambda: sum(one.state == "ready" for one in e.client.statuses) > ready, "the model again")
    await s.step(again, e.command("status"))


@asking({"otherwise": SURE}, calibrated=False)
async def without_a_calibrator(s: Session, e: Editor) -> None:
    await s.step(e.hover(3, 5))


@asking({"otherwise": SURE})
async def documents_come_and_go(s: Session, e: Editor) -> None:
    e.open(CODE)
    await s.step(e.inline(4, 12))
    other = "file:///project/other.py"
    e.open(CODE, other)
    await s.step(e.inline(4, 12, other))
    await s.step(e.close())
    await s.step(e.inline(4, 12))
    await s.step(e.close(other))


@session(
    {
        "answers": {
            "total = ne": {
                "text": "t + gross",
                "logprobs": [-0.1],
                "leads": {"w_total()": {"text": "w_total()", "logprobs": [-4.0]}},
            }
        }
    }
)
async def selected_in_the_menu(s: Session, e: Editor) -> None:
    e.open("total = ne\n")
    place = types.Range(types.Position(0, 8), types.Position(0, 10))
    await s.step(e.inline(0, 10, selected=types.SelectedCompletionInfo(place, "net")))
    await s.step(e.inline(0, 10, selected=types.SelectedCompletionInfo(place, "new_total()")))
    await s.step(e.inline(0, 10, selected=types.SelectedCompletionInfo(place, "other")))


async def log_of(name: str, folder: Path) -> dict[str, Any]:
    """The steps of a session, what the model was asked, and what is stored: normalised."""
    acts, script, options = SESSIONS[name]
    wire = folder / "wire.jsonl"
    editor = await start(folder, {"wire": str(wire), "clock": True, "menuSeconds": 10.0, **script}, **options)
    one = Session(editor, wire)
    try:
        tried = ("ready", "noModel", "error")
        known = "model" if "failure" not in script else "state"
        await until(
            lambda: any(
                status.state in tried and getattr(status, known) for status in editor.client.statuses
            ),
            "the model",
        )
        await one.step()
        await acts(one, editor)
        await editor.leave()
    finally:
        if editor.client.process.returncode is None:
            editor.client.process.kill()
            await editor.client.gone()
    messages = [json.loads(line) for line in wire.read_text("utf-8").splitlines()]
    bounds = [0, *one.steps, len(messages)]
    names = Names(folder)
    steps = [names.step(messages[a:b]) for a, b in itertools.pairwise(bounds)]
    asked = sorted(
        json.dumps(names.of({key: entry[key] for key in entry if key not in unknown}), sort_keys=True)
        for entry in editor.engine.read()
        for unknown in [("pid",)]
    )
    stored = {
        "suggestions": editor.rows(
            "SELECT id, kind, language, model, prompt_version, measure, tier, shown_probability "
            "FROM suggestions ORDER BY rowid"
        ),
        "events": editor.rows("SELECT suggestion_id, kind, data FROM events ORDER BY number"),
        "labels": editor.rows("SELECT suggestion_id, correct, how FROM labels ORDER BY rowid"),
    }
    return {"steps": steps, "asked": asked, "stored": names.of(stored)}


class Names:
    """Gives what differs from run to run a name by the order in which it comes."""

    _PATTERN = re.compile(
        r"(?<![\d.])(?:\b[0-9a-f]{64}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b[0-9a-f]{16}\b|\b[0-9a-f]{8}\b)"
    )

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._known: dict[str, str] = {}
        self._status: dict[str, Any] = {}

    def step(self, messages: list[dict[str, Any]]) -> dict[str, list[str]]:
        """Answers and notifications of a step come in no order that could be relied on."""
        found: dict[str, list[dict[str, Any]]] = {"in": [], "out": []}
        for one in messages:
            way = "in" if "in" in one else "out"
            body = {key: value for key, value in one[way].items() if key != "jsonrpc"}
            if "rogress" in body.get("method", ""):
                continue  # how far it gets depends on the machine
            if body.get("method") == "lsp-calib/status":
                now = body["params"]
                body["params"] = {key: now[key] for key in now if now[key] != self._status.get(key)}
                self._status = now
            if way == "in" and body.get("method") == "initialize":
                body["params"] = "those of the editor"
            found[way].append(body)
        found["out"].sort(key=lambda body: self._PATTERN.sub("", json.dumps(body, sort_keys=True)))
        return {way: [json.dumps(self.of(body), sort_keys=True) for body in found[way]] for way in found}

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: 0 if key in ("at", "p50", "p95") else self.of(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(one) for one in value]
        if isinstance(value, str):
            value = value.replace(self._folder, "FOLDER")
            value = re.sub(r'("seconds": )[\d.e-]+', r"\g<1>0", value)
            value = self._PATTERN.sub(lambda found: self._name(found[0]), value)
            return re.sub(r"\b20\d\d-?\d\d-?\d\d(T[\d:.+-]*Z?)?", "DATE", value)
        return round(value, 6) if isinstance(value, float) else value

    def _name(self, text: str) -> str:
        if text == "0" * 16 or text == "5c" * 32:
            return text
        return self._known.setdefault(text, f"name-{len(self._known)}")


def recorded() -> dict[str, Any]:
    logs: dict[str, Any] = json.loads(gzip.decompress(LOGS.read_bytes()))
    return logs


async def logs_of(names: Iterable[str], folder: Path) -> dict[str, Any]:
    """The logs of sessions, several at a time."""
    turns = asyncio.Semaphore(6)

    async def one(number: int, name: str) -> Any:
        async with turns:
            own = folder / str(number)
            own.mkdir()
            return await log_of(name, own)

    return dict(zip(names, await asyncio.gather(*map(one, itertools.count(), names)), strict=True))


async def test_sessions_are_as_recorded(tmp_path: Path) -> None:
    before, now = recorded(), await logs_of(SESSIONS, tmp_path)
    differences = []
    for name in SESSIONS:
        old, new = (json.dumps(logs[name], indent=1, sort_keys=True).splitlines() for logs in (before, now))
        differences += difflib.unified_diff(old, new, name, name, lineterm="", n=2)
    assert not differences, "\n".join(differences)


def _record(names: list[str]) -> None:
    """names: of the sessions; none: all of them."""
    with tempfile.TemporaryDirectory() as folder:
        logs = asyncio.run(logs_of(names or SESSIONS, Path(folder)))
    logs = {**(recorded() if names else {}), **logs}
    LOGS.write_bytes(gzip.compress(json.dumps(logs, sort_keys=True).encode(), mtime=0))


if __name__ == "__main__" and sys.argv[1:2] == ["--record"]:
    _record(sys.argv[2:])
