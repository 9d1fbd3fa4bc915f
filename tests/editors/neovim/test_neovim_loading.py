"""While the model is loaded, a real Neovim says so, and no message is lost for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from nvim import NO_NVIM, NO_OLD_NVIM, NVIM, OLD_NVIM, Neovim

PROGRAMS = [
    pytest.param(NVIM, marks=pytest.mark.skipif(not NVIM, reason=NO_NVIM), id="new"),
    pytest.param(OLD_NVIM, marks=pytest.mark.skipif(not OLD_NVIM, reason=NO_OLD_NVIM), id="0.10"),
]
LOADING, READY = "lsp-calib: Loading the script…", "lsp-calib: scripted is ready."
LINE = {"text": "turn first", "tokens": ["turn", " first", ""], "logprobs": [-0.1, -0.1, 0.0]}


def last_row(nvim: Neovim) -> str:
    """What stands in the command line."""
    cell = "function(column) return vim.fn.screenstring(vim.o.lines, column) end"
    return str(nvim.lua(f"return table.concat(vim.tbl_map({cell}, vim.fn.range(1, 68)))")).rstrip()


def behind_the_line(nvim: Neovim) -> str:
    """What stands behind the end of a line while the model is loaded."""
    found = nvim.marks("lsp_calib_loading")
    return str(found[0][1][0][0]).strip() if found else ""


class Loading:
    """A model that is loaded in two steps, each when the test says so."""

    def __init__(self, folder: Path) -> None:
        self._step, self._end = folder / "step", folder / "end"
        self.script = {
            "answers": {"    re": LINE},
            "loading": [0.0, 0.4],
            "goesOnAt": str(self._step),
            "readyWhen": str(self._end),
        }

    def goes_on(self) -> None:
        self._step.touch()

    def ends(self) -> None:
        self._step.touch()
        self._end.touch()


@pytest.fixture
def loading(folder: Path) -> Loading:
    return Loading(folder)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_line_says_how_far_it_is_and_then_the_model_once(
    open_scripted, folder: Path, loading: Loading, program: str
) -> None:
    nvim = open_scripted(loading.script, program=program, terminal=True)
    nvim.until("that it loads", lambda: last_row(nvim).startswith(LOADING))
    loading.goes_on()
    nvim.until("how far it is", lambda: last_row(nvim) == f"{LOADING} 40 %")
    assert "Loading" not in nvim.messages(), "it is not kept"
    loading.ends()
    nvim.until("the model", lambda: last_row(nvim) == READY)
    other = folder / "other.py"
    other.write_text("a = 1\n")
    nvim.type(f":silent edit {other}\r")
    nvim.until("the other file", lambda: nvim.lines() == ["a = 1"])
    nvim.attached()
    nvim.type("0C    re")
    nvim.until("typing goes on", lambda: nvim.line() == "    re")
    time.sleep(1)
    assert nvim.messages().count(READY) == 1
    assert "Loading" not in nvim.messages() + last_row(nvim)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_message_stays_and_keys_go_where_they_were_meant(
    open_scripted, loading: Loading, program: str
) -> None:
    nvim = open_scripted(loading.script, program=program, terminal=True)
    nvim.until("that it loads", lambda: last_row(nvim).startswith(LOADING))
    nvim.type(":echomsg 'of another'\r")
    nvim.until("the message", lambda: last_row(nvim) == "of another")
    loading.goes_on()
    time.sleep(1)
    assert last_row(nvim) == "of another"
    nvim.type(":let g:typed = ")
    loading.ends()
    time.sleep(1)
    assert last_row(nvim) == ":let g:typed ="
    nvim.type("7\r")
    nvim.until("what was typed", lambda: nvim.lua("return vim.g.typed") == 7)
    nvim.says(READY)


@pytest.mark.parametrize("program", PROGRAMS)
def test_in_insert_mode_it_stands_behind_the_line(open_scripted, loading: Loading, program: str) -> None:
    """The command line has "-- INSERT --"."""
    nvim = open_scripted(loading.script, program=program, terminal=True)
    nvim.type("GA    r")
    nvim.until("that it loads", lambda: behind_the_line(nvim).startswith("Loading the script…"))
    nvim.type("e")
    loading.goes_on()
    nvim.until("how far it is", lambda: behind_the_line(nvim) == "Loading the script… 40 %")
    assert [row for row, *_ in nvim.marks("lsp_calib_loading")] == [nvim.lua("return vim.fn.line('.') - 1")]
    loading.ends()
    nvim.until("the model", lambda: behind_the_line(nvim) == "scripted is ready.")
    nvim.type("s")
    nvim.until("the key", lambda: nvim.line() == "    res")
    assert behind_the_line(nvim) == "scripted is ready."
    nvim.until("nothing", lambda: not behind_the_line(nvim))


@pytest.mark.parametrize("program", PROGRAMS)
def test_switched_off_nothing_is_said(open_scripted, loading: Loading, program: str) -> None:
    setup = {"keys": "suggested", "progress": False}
    nvim = open_scripted(loading.script, program=program, terminal=True, setup=setup)
    state = "return require('lsp_calib').statusline()"
    nvim.until("that it loads, in the status line", lambda: "loading" in nvim.lua(state))
    time.sleep(1)
    assert "Loading" not in last_row(nvim)
    loading.ends()
    nvim.until("ready", lambda: nvim.lua(state) == "○ scripted")
    time.sleep(0.5)
    assert READY not in nvim.messages()


@pytest.mark.skipif(not NVIM, reason=NO_NVIM)
def test_another_place_for_messages_gets_two(open_scripted, loading: Loading) -> None:
    """As plugins have it that show notifications: the server's percentages come there by LspProgress."""
    nvim = open_scripted(loading.script, terminal=True)
    notify = "load('return function(text) table.insert(_G.got, text) end', '@plugin.lua')()"
    nvim.lua(f"_G.got = {{}} vim.notify = {notify}")
    nvim.until("the first", lambda: nvim.lua("return #_G.got") == 1)
    loading.goes_on()
    time.sleep(0.5)
    loading.ends()
    nvim.until("the second", lambda: nvim.lua("return #_G.got") == 2)
    first, second = nvim.lua("return _G.got")
    assert first.startswith(LOADING)
    assert second == READY


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_model_the_line_says_what_to_do(open_scripted, program: str) -> None:
    pull = "`lsp-calib models pull smollm2-135m`"
    failure = f"No model is installed. Run {pull} to get a small one (98 MB)."
    script = {"failure": ["NoModelError", failure]}
    nvim = open_scripted(script, program=program, terminal=True)
    nvim.until("what to do", lambda: last_row(nvim) == f"lsp-calib: no model. Run {pull}")
    assert failure in nvim.lua("return require('lsp_calib.notice').all()")
    nvim.type("GA    x")
    nvim.until("what was typed", lambda: nvim.line() == "    x")
