"""No memory is kept for closed documents, invalid messages and failed handlers."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from scripted_server import ScriptedEngine

from lsp_calib.completion.memory import MOST_REMEMBERED
from lsp_calib.server import create_server
from lsp_calib.server.app import CalibServer

# Long lines: one text outweighs what requests leave, and is soon read while each allocation is traced.
LINES = 1000
VALUE = repr("a value with a few words " * 4)


class Sink:
    """Collects the messages of the server."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        self.sent.append(json.loads(data.partition(b"\r\n\r\n")[2]))


@attrs.define
class Scene:
    server: CalibServer
    sink: Sink

    def give(self, message: dict[str, Any]) -> None:
        self.server.protocol.handle_message(json.loads(json.dumps({"jsonrpc": "2.0", **message})))

    def tell(self, event: str, **params: Any) -> None:
        self.give({"method": f"textDocument/{event}", "params": params})


@pytest.fixture
def _without_collector() -> Iterator[None]:
    """The garbage collector counts objects, not bytes: what waits for it may be large, and wait for long.

    pytest keeps every record of the log, and with it what is in an error's frames: nothing is logged.
    """
    logging.disable()
    gc.collect()
    # A cache that other tests have filled would replace what was there before by as much that counts as new.
    for name, module in sys.modules.items():
        if name.startswith("lsp_calib."):
            for one in vars(module).values():
                if hasattr(one, "cache_clear"):
                    one.cache_clear()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


@pytest.fixture
async def scene(home: Path) -> AsyncIterator[Scene]:
    """A server in this process that is initialized; `test/fails` fails, whatever it is given."""
    server, sink = create_server(), Sink()
    assert home.is_dir()

    @server.feature("test/fails")
    def fails(_ls: CalibServer, _params: object) -> None:
        raise ValueError("it failed")

    server.protocol.set_writer(sink)  # type: ignore[arg-type]
    server.make_engine = lambda heard: ScriptedEngine(  # type: ignore[method-assign]
        {"otherwise": {"text": "xy"}}, heard, server.settings
    )
    scene = Scene(server, sink)
    params = {"processId": None, "rootUri": None, "capabilities": {}}
    scene.give({"id": "start", "method": "initialize", "params": params})
    scene.give({"method": "initialized", "params": {}})
    await server.session.model.engine.ready()
    yield scene
    await server.close()


def text_of(number: int, value: str = VALUE) -> str:
    body = "".join(f"value_{number}_{line} = {value}\n" for line in range(LINES))
    return f"def number_{number}():\n    return {number}\n{body}"


async def work_on(scene: Scene, number: int) -> weakref.ref[Any]:
    """Open, edit, ask, hover and close; with invalid messages in between."""
    uri, text = f"file:///project/a%20file{number}.py", text_of(number)
    item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    scene.tell("didOpen", textDocument=item)
    document = weakref.ref(scene.server.open_document(uri))
    named: dict[str, Any] = {"uri": uri}
    for line in range(2, 8):
        place = {"line": line, "character": 3}
        change = {"range": {"start": place, "end": place}, "text": "z"}
        scene.tell("didChange", textDocument={**named, "version": line}, contentChanges=[change])
        # Escaped in another way it is the same document.
        ask = {"textDocument": {"uri": uri.replace("%20", " ")}, "position": {"line": line, "character": 9}}
        trigger = {"context": {"triggerKind": 1}}
        request = {"method": "textDocument/inlineCompletion", "params": {**ask, **trigger}}
        scene.give({"id": f"{number}-{line}", **request})
        await asyncio.sleep(0.005)
    scene.give({"id": f"edit-{number}", "method": "lsp-calib/nextEdit", "params": ask})
    await asyncio.sleep(0.05)
    assert scene.server.session.next_edits._rules
    hover = {"textDocument": named, "position": {"line": 0, "character": 5}}
    scene.give({"id": f"hover-{number}", "method": "textDocument/hover", "params": hover})
    whole = [{"text": text}]
    for _ in range(5):
        scene.tell("didChange", textDocument={"uri": f"{uri}x", "version": 9}, contentChanges=whole)
        scene.give({"method": "test/fails", "params": {"text": text}})
        scene.give({"id": "odd", "method": "test/fails", "params": {"text": text}})
        scene.give({"id": "no request of the server's", "result": {"text": text}})
    await asyncio.sleep(0.05)
    scene.tell("didClose", textDocument=named)
    await asyncio.sleep(0.05)
    scene.sink.sent.clear()
    return document


@pytest.mark.usefixtures("_without_collector")
async def test_closed_documents_are_released(scene: Scene) -> None:
    """With everything about them: four more rounds take less memory than one text."""
    for number in range(2):
        await work_on(scene, number)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        documents = [await work_on(scene, number) for number in range(2, 6)]
        # The last hover may be under way, and a thread that reads a document for its features goes on to the
        # end, some milliseconds.
        deadline = time.monotonic() + 60
        while (
            scene.server.protocol._request_futures
            or tracemalloc.get_traced_memory()[0] - before >= len(text_of(0))
        ) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            gc.collect()  # pygls makes a type of each message without one, and a type holds itself
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [document() for document in documents] == [None] * 4
    assert after - before < len(text_of(0))
    next_edits = scene.server.session.next_edits
    kept = next_edits._rules, next_edits._texts, next_edits._shown._shown, next_edits._history.made
    assert not any(kept)
    # pygls would keep one for each notification there ever was.
    assert not scene.server.protocol._request_futures


async def test_a_summary_does_not_keep_the_code_that_it_describes(scene: Scene) -> None:
    """Two hundred are kept, and a function may be a whole file."""
    code = "def long():\n" + "".join(f"    value_{line} = {line}\n" for line in range(LINES))
    item = {"uri": "file:///long.py", "languageId": "python", "version": 1, "text": code}
    scene.tell("didOpen", textDocument=item)
    hover = {"textDocument": {"uri": item["uri"]}, "position": {"line": 0, "character": 5}}
    scene.give({"id": 1, "method": "textDocument/hover", "params": hover})
    summaries = scene.server.session.summaries.requests
    while not summaries._known:
        await asyncio.sleep(0.01)
    assert len(repr(dict(summaries._known))) < len(code) / 2


async def test_complaints_about_settings_stay_short(scene: Scene) -> None:
    """Wrong values are not repeated at length, however long and many they are."""
    odd = {"tiers": {"preset": "x" * 100_000}, "y" * 100_000: 1} | {f"no{n}": n for n in range(5000)}
    scene.give({"method": "workspace/didChangeConfiguration", "params": {"settings": {"lspCalib": odd}}})
    await asyncio.sleep(0.05)
    shown = [m["params"]["message"] for m in scene.sink.sent if m.get("method") == "window/showMessage"]
    assert len(shown) == 1
    assert "tiers.preset" in shown[0]
    assert len(shown[0]) < 5000


async def test_remembered_completions_keep_neither_documents_nor_their_earlier_versions(scene: Scene) -> None:
    """However much is typed: the tuple of lines of one version alone takes 8 bytes a line."""
    uri, text = "file:///long.py", text_of(0, "0")
    # Without a grammar: a tree of syntax takes more than all of this.
    item = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
    scene.tell("didOpen", textDocument=item)
    requests = scene.server.session.completions

    async def type_in(first: int, last: int) -> None:
        for line in range(first, last):
            place = {"line": line, "character": 3}
            change = {"range": {"start": place, "end": place}, "text": "z"}
            scene.tell("didChange", textDocument={"uri": uri, "version": line}, contentChanges=[change])
            ask = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 4}}
            context = {"context": {"triggerKind": 1}}
            scene.give({"id": line, "method": "textDocument/inlineCompletion", "params": {**ask, **context}})
            while not any(message.get("id") == line for message in scene.sink.sent):
                await asyncio.sleep(0.001)
            scene.sink.sent.clear()

    limit = MOST_REMEMBERED * 8 * LINES / 3
    tracemalloc.start()
    try:
        await type_in(2, 70)  # what is bounded is full
        known = requests._memory._documents[uri]
        assert len(known) == MOST_REMEMBERED
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await type_in(70, 134)
        gc.collect()
        # A thread that reads a version for its features goes on to the end.
        deadline = time.monotonic() + 60
        while tracemalloc.get_traced_memory()[0] - before >= limit and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(known) == MOST_REMEMBERED
    # As many completions as before, all of them new: 64 versions of the lines would take 1.5 million bytes.
    assert after - before < limit
