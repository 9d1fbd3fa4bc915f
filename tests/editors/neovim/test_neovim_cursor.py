"""Where the cursor is, as a real Neovim tells it: `lsp-calib/cursor` among what the server has read."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nvim import NO_NVIM, NO_OLD_NVIM, NVIM, OLD_NVIM, SOURCE, Neovim
from test_neovim_trouble import pids
from told import EVERY, METHOD, Wire

PROGRAMS = [
    pytest.param(NVIM, marks=pytest.mark.skipif(not NVIM, reason=NO_NVIM), id="0.12"),
    pytest.param(OLD_NVIM, marks=pytest.mark.skipif(not OLD_NVIM, reason=NO_OLD_NVIM), id="0.10"),
]


@pytest.fixture
def wire(folder: Path) -> Wire:
    return Wire(folder / "wire.jsonl")


@pytest.fixture(params=PROGRAMS)
def opened(request: pytest.FixtureRequest, open_scripted, wire: Wire) -> Callable[..., Neovim]:
    """Opens a Neovim on `file`, or on other files."""
    return lambda *files: open_scripted({"wire": str(wire.file)}, *files, program=request.param)


def test_the_place_is_told_when_a_document_opens_and_when_the_cursor_moves(
    opened, wire: Wire, file: Path, folder: Path
) -> None:
    """After the document itself; nothing of a buffer that the server does not have."""
    nvim = opened()
    nvim.until("the first place", lambda: wire.places() == [(file.name, 0, 0)])
    other = folder / "other.py"
    other.write_text(SOURCE)
    nvim.keys(f":edit +9 {other}<CR>")
    nvim.until("the other document", lambda: wire.places()[1:] == [(other.name, 8, 0)])
    nvim.keys("4Gw")
    nvim.until("the jump", lambda: wire.places()[-1] == (other.name, 3, 4))
    methods = wire.methods()
    assert methods.index("textDocument/didOpen") < methods.index(METHOD)
    second = methods.index("textDocument/didOpen", methods.index(METHOD))
    assert methods[second + 1 :].count(METHOD) == len(wire.places()) - 1

    told, buffers = len(wire.places()), "return vim.fn.bufnr('$')"
    before = nvim.lua(buffers)
    nvim.keys(":new<CR>ione<CR>two<Esc>gg:quit!<CR>")
    nvim.until("back", lambda: nvim.lua(buffers) > before and nvim.line().startswith("def add"))
    time.sleep(2 * EVERY)
    assert len(wire.places()) == told, "nothing has changed"


def test_of_a_long_way_few_places_are_told_and_the_last_one_always(opened, wire: Wire, file: Path) -> None:
    nvim = opened()
    nvim.until("the first place", wire.places)
    begun = time.monotonic()
    for _ in range(12):
        nvim.keys("j")
        nvim.keys("l")
    nvim.until("the last place", lambda: wire.places()[-1] == (file.name, 12, 0))
    told = wire.places()[1:]
    assert told == sorted(told)
    assert len(told) <= (time.monotonic() - begun) / EVERY + 2


def test_insert_mode_is_told_at_once_and_typing_is_not(opened, wire: Wire, file: Path) -> None:
    """Not held back by a move before it; the line that `o` opens is in the document before that is told."""
    nvim = opened()
    nvim.until("the first place", wire.places)
    time.sleep(2 * EVERY)
    nvim.keys("j")
    nvim.until("the move", lambda: wire.places()[-1] == (file.name, 1, 0))
    nvim.keys("5Go")
    nvim.until("the new line", lambda: wire.places()[-1][1] == 5)
    assert wire.places()[-1] == (file.name, 5, 4), "the line has an indentation"
    methods = wire.methods()
    assert methods[methods.index("textDocument/didChange") + 1] == METHOD
    told = len(wire.places())
    for key in "total = 0":
        nvim.keys("<Space>" if key == " " else key)
    nvim.until("what was typed", lambda: nvim.line() == "    total = 0")
    time.sleep(2 * EVERY)
    assert len(wire.places()) == told
    nvim.keys("<Esc>12GA")
    nvim.until("the end of another line", lambda: wire.places()[-1] == (file.name, 11, 25))


def test_positions_are_in_the_encoding_that_was_agreed_on(opened, wire: Wire, folder: Path) -> None:
    file = folder / "wide.py"
    file.write_text('name = "🦆é" + 1\n')
    nvim = opened(file)
    encoding = nvim.lua("return vim.lsp.get_clients()[1].offset_encoding")
    nvim.keys("f+")
    before = 'name = "🦆é" '
    units = {"utf-8": len(before.encode()), "utf-16": len(before) + 1, "utf-32": len(before)}
    nvim.until("the place", lambda: wire.places()[-1:] == [(file.name, 0, units[encoding])])


def test_nothing_is_told_to_a_server_that_does_not_ask_for_it(opened, wire: Wire) -> None:
    nvim = opened()
    nvim.until("the first place", wire.places)
    nvim.lua("vim.lsp.get_clients()[1].server_capabilities.experimental.lspCalib.cursor = nil")
    told = len(wire.places())
    nvim.keys("5Gl")
    nvim.keys("A")
    time.sleep(2 * EVERY)
    assert len(wire.places()) == told


def test_a_server_that_has_gone_is_told_nothing_and_the_next_one_the_place(
    opened, wire: Wire, file: Path
) -> None:
    nvim = opened()
    nvim.until("the first place", wire.places)
    nvim.keys("5G")
    nvim.until("the place", lambda: wire.places()[-1] == (file.name, 4, 0))
    (server,) = pids(nvim)
    os.kill(server, signal.SIGKILL)
    nvim.keys("6G")
    nvim.keys("7G")
    nvim.says("the server has ended")
    nvim.keys("9G")
    time.sleep(2 * EVERY)
    assert not re.search(r"E\d+:|Error|stack traceback", nvim.messages())
    told = len(wire.places())
    nvim.keys(":LspCalib restart<CR>")
    nvim.until("the place", lambda: wire.places()[told:] == [(file.name, 8, 0)])
