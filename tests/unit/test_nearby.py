"""What prompts show of other places is found once for a window, and forgotten with the document."""

from __future__ import annotations

import asyncio
import threading

from lsp_calib.completion import Cursor
from lsp_calib.completion.nearby import Nearby
from lsp_calib.completion.prompt import Layout, Surroundings
from lsp_calib.inference.models.cards import CompletionFormat

URI = "file:///a.py"
LAYOUT = Layout(CompletionFormat("fim", "<pre>", "<suf>", "<mid>"), 400, "v", related=200)
CURSOR = Cursor(("x = ",), 0, 4)


async def test_it_is_found_once() -> None:
    calls: list[int] = []
    nearby = Nearby(lambda *_: lambda: (calls.append(1), Surroundings("p", "a.py"))[1])
    assert nearby.known(URI, CURSOR, LAYOUT) is None
    found = await nearby.of(URI, CURSOR, LAYOUT)
    assert nearby.known(URI, CURSOR, LAYOUT) == await nearby.of(URI, CURSOR, LAYOUT) == found
    assert len(calls) == 1
    nearby.forget(URI)
    assert nearby.known(URI, CURSOR, LAYOUT) is None


async def test_nothing_is_kept_of_a_document_that_is_closed_while_its_files_are_read() -> None:
    go = threading.Event()

    def find() -> Surroundings:
        assert go.wait(60)
        return Surroundings("p", "a.py")

    nearby = Nearby(lambda *_: find)
    asked = asyncio.create_task(nearby.of(URI, CURSOR, LAYOUT))
    await asyncio.sleep(0)
    nearby.forget(URI)
    go.set()
    assert (await asked).name == "a.py"
    assert nearby.known(URI, CURSOR, LAYOUT) is None
