"""A text that takes a parser long: the server gives its parses up, and answers beside it as before.

A stand-in takes the time, by sleep: no text here slows tree-sitter down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from conftest import Connect
from scripted_editor import Editor, capabilities
from slow_parser import SlowParser

from lsp_calib.syntax import source_tree

# A parse of it takes six seconds in the stand-in, and a tenth of one is allowed.
TEXT = "slow = 1\n\n\ndef total(items):\n    return sum(items)\n\n\n" * 2_000
PIECE = 0.25
LINE = TEXT.count("\n") // 2
INNOCENT = "def add(one, other):\n    return one + other\n"
WHOLE = PIECE * len(TEXT) / source_tree._PIECE


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowParser:
    parser = SlowParser(time.sleep, piece=PIECE)
    parser.stand_in(monkeypatch)
    monkeypatch.setattr(source_tree, "thread_time", time.perf_counter)
    return parser


async def longest(editor: Editor, requests: list[Callable[[], Awaitable[object]]]) -> float:
    """The longest that one of the requests takes, or `status` while they are answered."""
    slowest = [0.0]

    async def timed(request: Callable[[], Awaitable[object]]) -> None:
        start = time.perf_counter()
        await request()
        slowest[0] = max(slowest[0], time.perf_counter() - start)

    over = asyncio.Event()

    async def ask() -> None:
        while not over.is_set():
            await timed(editor.status)
            await asyncio.sleep(0.01)

    asking = asyncio.create_task(ask())
    for request in requests:
        await timed(request)
    over.set()
    await asking
    return slowest[0]


async def test_a_text_that_takes_long_to_parse_does_not_hold_the_server_up(
    connect: Connect, slow: SlowParser
) -> None:
    client = capabilities(inline=True, pull=True, edits=True)
    options = {"codeLens": {"enabled": True}}
    editor = await connect({"otherwise": {"text": "x"}}, client=client, options=options)
    editor.open(TEXT)
    asked = [lambda: editor.hover(LINE, 0), lambda: editor.actions(LINE, 0), editor.lenses, editor.pull]
    before = await longest(editor, [*asked, lambda: editor.inline(LINE, 0)])
    editor.insert(LINE, 0, "\n")  # a change, after which all is asked anew
    assert max(before, await longest(editor, [*asked, lambda: editor.inline(LINE, 0)])) < WHOLE
    assert slow.calls
    assert max(slow.finished, default=0) < len(TEXT) / 2


async def test_nor_does_one_beside_the_document(connect: Connect, slow: SlowParser, tmp_path: Path) -> None:
    """In a file of the workspace, and in another document that is open."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "beside.py").write_text(TEXT)
    (root / "innocent.py").write_text(INNOCENT)
    script = {"summary": {"text": "Add all."}, "otherwise": {"text": "x"}}
    client = capabilities(inline=True, pull=True, edits=True)
    editor = await connect(script, client=client, folders=[root.as_uri()])
    uri = (root / "innocent.py").as_uri()
    editor.open(INNOCENT, uri=uri)
    editor.open(TEXT, uri=(root / "open.py").as_uri())
    hover, actions = lambda: editor.hover(0, 5, uri), lambda: editor.actions(0, 5, uri)
    asked = [hover, actions, lambda: editor.pull(uri), lambda: editor.inline(1, 0, uri)]
    assert await longest(editor, asked) < WHOLE
    assert slow.calls
    assert max(slow.finished, default=0) < len(TEXT) / 2
