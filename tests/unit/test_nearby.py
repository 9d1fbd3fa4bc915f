"""What prompts show of other places is found once for a window, and forgotten with the document."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

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


async def test_what_was_found_before_a_change_of_what_is_excluded_is_not_shown() -> None:
    go, names = threading.Event(), ["secret.py"]

    def find(*_: object) -> Callable[[], Surroundings]:
        name = names[0]

        def read() -> Surroundings:
            assert go.wait(60)
            return Surroundings("p", name)

        return read

    nearby = Nearby(find)
    asked = asyncio.create_task(nearby.of(URI, CURSOR, LAYOUT))
    await asyncio.sleep(0)
    names[0] = "open.py"
    nearby.clear()
    go.set()
    assert (await asked).name == "open.py"


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
