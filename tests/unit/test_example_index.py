"""When the examples of a workspace are looked for, and how much else may happen meanwhile."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lsp_calib.exclusion import Exclusion
from lsp_calib.server.events import Events
from lsp_calib.server.summary_requests import ExampleIndex, Rests, Target
from lsp_calib.server.text import CalibDocument
from lsp_calib.syntax import Function, functions
from lsp_calib.text_lines import split_lines

SHOP = '''def total_{n}(items):
    """Sum the prices of items."""
    return sum(item.price for item in items) + {n}
'''
QUERY = "def price_of(items):\n    return sum(item.price for item in items)\n"
FILES = 100


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for n in range(FILES):
        (tmp_path / f"shop_{n:03}.py").write_text(SHOP.format(n=n))
    return tmp_path


class Scene:
    """An index whose surroundings a test decides."""

    def __init__(self, root: Path, **rests: float) -> None:
        self.root = root
        self.local = self.allowed = True
        self.making: list[str] = []
        connection: Any = SimpleNamespace(folder_of=lambda _: root.as_uri(), open_documents=list)
        connection.trusted = self
        admission: Any = SimpleNamespace(exclusion=Exclusion, may_work_ahead=lambda: self.allowed)
        self.index = ExampleIndex(connection, admission, self.making, Events(), Rests(**rests))

    @property
    def remote_url(self) -> str | None:
        return None if self.local else "http://elsewhere.invalid"

    async def found(self, name: str = "bill.py") -> int:
        function: Function = functions(split_lines(QUERY), "python")[0]
        document = CalibDocument((self.root / name).as_uri(), QUERY, language_id="python")
        return len(await self.index.examples_for(Target.at_its_heading(document, function)))

    @property
    def known(self) -> int:
        return sum(len(one) for one in self.index._indexes.values())


async def test_the_first_summary_waits_for_the_nearest_files(root: Path) -> None:
    scene = Scene(root)
    # Examples of nearly the same words are shown once.
    assert await scene.found() == 1
    assert scene.known == FILES
    await scene.index.close()


@pytest.mark.parametrize("forbidden", ["local", "allowed"])
async def test_no_workspace_is_read_where_that_is_not_wanted(root: Path, forbidden: str) -> None:
    scene = Scene(root)
    setattr(scene, forbidden, False)
    assert await scene.found() == 0
    assert scene.known == 0
    setattr(scene, forbidden, True)
    assert await scene.found() == 1
    await scene.index.close()


async def test_a_pause_stops_the_search_and_it_goes_on_after_it(root: Path) -> None:
    scene = Scene(root, patience=0.0, busy=60.0, look=0.001)
    scene.making.append("a summary")
    await scene.found()
    await _until(lambda: scene.known >= 1)
    await asyncio.sleep(0.2)
    assert scene.known < FILES, "it rests while the model works"
    scene.allowed = False
    await asyncio.sleep(0.3)
    stopped = scene.known
    scene.making.clear()
    await asyncio.sleep(0.3)
    assert scene.known == stopped < FILES
    scene.allowed = True
    await scene.found()
    await _until(lambda: scene.known == FILES)
    await scene.index.close()


async def test_closing_ends_a_search_at_once(root: Path) -> None:
    scene = Scene(root, patience=0.0, typing=60.0)
    scene.index.opened(CalibDocument("file:///elsewhere/a.py", "x = 1\n", language_id="python"))
    await scene.found()
    start = time.monotonic()
    await scene.index.close()
    assert time.monotonic() - start < 30


async def test_a_document_counts_as_it_is_until_it_is_closed(root: Path) -> None:
    scene = Scene(root)
    path = root / "mine.py"
    document = CalibDocument(path.as_uri(), SHOP.format(n="item.tax / items.count"), language_id="python")
    scene.index.opened(document)
    await scene.found()
    assert scene.known == FILES + 1
    scene.index.closed(document.uri)
    assert scene.known == FILES
    await scene.index.close()


async def _until(true: object) -> None:
    end = time.monotonic() + 20
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
