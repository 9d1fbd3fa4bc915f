"""When the examples of a workspace are looked for, and how much else may happen meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lsp_calib.characters import split_lines
from lsp_calib.exclusion import Exclusion
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.examples import ExampleIndex
from lsp_calib.summarization import workspace_examples
from lsp_calib.syntax import Function, functions

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


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files together take 2 s, and as long in rests."""
    read = workspace_examples.lines_of

    def lines_of(path: Path) -> Any:
        time.sleep(0.02)
        return read(path)

    monkeypatch.setattr(workspace_examples, "lines_of", lines_of)


class Scene:
    """An index whose surroundings a test decides."""

    def __init__(self, root: Path, **options: float) -> None:
        self.root = root
        self.local = self.allowed = True
        connection: Any = SimpleNamespace(folder_of=lambda _: root.as_uri())
        connection.settings = self
        admission: Any = SimpleNamespace(exclusion=Exclusion, may_work_ahead=lambda: self.allowed)
        self.index = ExampleIndex(connection, admission, **options)

    @property
    def remote_url(self) -> str | None:
        return None if self.local else "http://elsewhere.invalid"

    async def found(self, name: str = "bill.py") -> int:
        function: Function = functions(split_lines(QUERY), "python")[0]
        document = CalibDocument((self.root / name).as_uri(), QUERY, language_id="python")
        return len(await self.index.examples_for(document, function, "python"))

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


@pytest.mark.usefixtures("slow")
async def test_a_pause_stops_the_search_and_it_goes_on_after_it(root: Path) -> None:
    scene = Scene(root, patience=0.0)
    await scene.found()
    await _until(lambda: scene.known >= 1)
    scene.allowed = False
    await asyncio.sleep(0.3)
    stopped = scene.known
    await asyncio.sleep(0.3)
    assert scene.known == stopped < FILES
    scene.allowed = True
    await scene.found()
    await _until(lambda: scene.known == FILES)
    await scene.index.close()


@pytest.mark.usefixtures("slow")
async def test_closing_ends_a_search_at_once(root: Path) -> None:
    scene = Scene(root, patience=0.0)
    await scene.found()
    await asyncio.wait_for(scene.index.close(), 1)
    assert scene.known < FILES


async def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
