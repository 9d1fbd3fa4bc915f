"""Without a suggestion a key does what the user had mapped it to before, and an Alt key otherwise nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nvim import NO_NVIM, NO_OLD_NVIM, NVIM, OLD_NVIM, Neovim
from test_neovim_suggestions import REST, SCRIPT

PROGRAMS = [
    pytest.param(NVIM, marks=pytest.mark.skipif(not NVIM, reason=NO_NVIM), id="new"),
    pytest.param(OLD_NVIM, marks=pytest.mark.skipif(not OLD_NVIM, reason=NO_OLD_NVIM), id="0.10"),
]
KEYS = Path(__file__).parents[3] / "editor-configs" / "neovim"

# An earlier mapping of <M-n>, and what `x<M-n>y` is then, in lines. None: no mapping.
EARLIER = {
    "text": ("inoremap <M-n> done…<lt>", ["xdone…<y"]),
    "text that is mapped again": ("inoremap <Plug>(it) done|imap <M-n> a<Plug>(it)", ["xadoney"]),
    "text that is not mapped again": ("inoremap d D|inoremap <M-n> d", ["xdy"]),
    "itself": ("imap <M-n> <M-n>", None),
    "a command": ("inoremap <silent> <M-n> <Cmd>call setline(1, 'set')<CR><End>", ["sety"]),
    "keys": ("inoremap <M-n> <Esc>ia<Right>", ["axy"]),
    "nothing": ("inoremap <M-n> <Nop>", ["xy"]),
    "an expression": ("inoremap <expr> <M-n> col('.') < 3 ? \"\\<Left>…\" : 'no'", ["…yx"]),
    "an expression that is mapped again": ("inoremap d D|imap <expr> <M-n> 'd'", ["xDy"]),
    "an expression that is a number": ("inoremap <expr> <M-n> 40 + 2", ["x42y"]),
    "a function": (
        "lua vim.keymap.set('i', '<M-n>', function() vim.api.nvim_put({ 'put' }, 'c', false, true) end)",
        ["xputy"],
    ),
    "a function that gives keys": (
        "lua vim.keymap.set('i', '<M-n>', function() return '<Left>…' end, { expr = true })",
        ["…yx"],
    ),
    "a function that gives raw keys": (
        "lua vim.keymap.set('i', '<M-n>', function() return '<Left>' end,"
        " { expr = true, replace_keycodes = false })",
        ["x<Left>y"],
    ),
    "a function that gives nothing": (
        "lua vim.keymap.set('i', '<M-n>', function() end, { expr = true })",
        ["xy"],
    ),
    "a function of the script": (
        "lua vim.fn.writefile({ 'fun! s:it()', 'return 34', 'endfun', 'ino <expr> <M-n> <SID>it()' },"
        " vim.env.XDG_STATE_HOME .. '/it.vim') vim.cmd.source(vim.env.XDG_STATE_HOME .. '/it.vim')",
        ["x34y"],
    ),
}


@pytest.fixture
def open_bare(open_editor, folder: Path):
    """Opens an editor without the plugin's setup."""

    def open_(program: str, **options: Any) -> Neovim:
        init = folder / "init.lua"
        init.write_text(f"vim.opt.runtimepath:prepend('{KEYS}') vim.o.swapfile = false")
        return open_editor(program=program, server="none", home=folder, init=init, attached=False, **options)

    return open_


def typed(nvim: Neovim, keys: str) -> list[str]:
    """The lines after keys in an empty buffer."""
    nvim.keys(f"<Esc>:%d _<CR>i{keys}<Esc>")
    nvim.until("normal mode", lambda: nvim.lua("return vim.api.nvim_get_mode().mode") == "n")
    return nvim.lines()


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_kind_of_earlier_mapping_does_what_it_did(open_bare, program: str) -> None:
    nvim = open_bare(program)
    wrong = {}
    for kind, (command, lines) in EARLIER.items():
        nvim.lua(f"vim.cmd.imapclear() vim.cmd([=[{command}]=])")
        before = typed(nvim, "x<M-n>y")
        nvim.lua("require('lsp_calib.keys').set('suggested')")
        # As when init.lua is read again: the first one's mapping is not an earlier one.
        for _ in range(2):
            after = typed(nvim, "x<M-n>y")
            if not (before == after == (lines or before)):
                wrong[kind] = (before, after, lines)
            nvim.lua("require('lsp_calib.keys').set('suggested')")
    assert not wrong


# What a terminal sends for each suggested key: <Esc> and the letter, and one Alt key of its own.
SENT = {
    **{f"<M-{letter}>": [f"\x1b{letter}", f"\x1b[{ord(letter)};3u"] for letter in "snpejl"},
    "<M-Right>": ["\x1b[1;3C", "\x1b\x1b[C"],
    "<M-Down>": ["\x1b[1;3B", "\x1b\x1b[B"],
}
STATE = (
    "return { vim.api.nvim_buf_get_lines(0, 0, -1, false), vim.api.nvim_get_mode().mode,"
    " vim.api.nvim_win_get_cursor(0), vim.fn.getreg('\"') }"
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_alt_key_that_nobody_has_mapped_does_nothing(open_bare, program: str) -> None:
    """Neovim alone takes it for Escape and a command: `s` removes a character, `p` puts a line."""
    nvim = open_bare(program, terminal=True)
    nvim.lua("require('lsp_calib.keys').set('suggested')")
    suggested = nvim.lua("return require('lsp_calib.keys').SUGGESTED")
    assert {*SENT, "<Tab>"} == set(suggested.values())
    in_normal_mode = nvim.lua(
        "return vim.tbl_filter(function(key) return vim.fn.maparg(key, 'n') ~= '' end,"
        " vim.tbl_values(require('lsp_calib.keys').SUGGESTED))"
    )
    assert set(in_normal_mode) == {"<M-e>", "<M-j>", "<M-l>"}
    wrong = {}
    places = [(key, "i") for key in SENT] + [(key, "n") for key in in_normal_mode]
    for key, mode in places:
        for sent in SENT[key]:
            nvim.lua("vim.fn.setreg('\"', 'a line', 'V') vim.g.reached = 0")
            begin = "i" if mode == "i" else ""
            nvim.keys(f"<C-\\><C-N>:%d _<CR>iab cd<CR>ef gh<Esc>gg0ll{begin}")
            nvim.until("the mode", lambda mode=mode: nvim.lua(STATE)[1] == mode)
            before = nvim.lua(STATE)
            nvim.type(sent)
            # Typed after it: once this is done, the key has been read.
            nvim.type("\x0f" * (mode == "i") + ":let g:reached = 1\r")
            nvim.until("the key", lambda: nvim.lua("return vim.g.reached") == 1)
            nvim.until("a mode", lambda: nvim.lua(STATE)[1] in "in")
            if (after := nvim.lua(STATE)) != before:
                wrong[key, sent, mode] = (before, after)
    assert not wrong


@pytest.mark.parametrize("program", PROGRAMS)
def test_another_key_is_itself(open_bare, program: str) -> None:
    nvim = open_bare(program)
    nvim.lua("vim.cmd.imapclear()")
    keys = {"accept": "<Tab>", "word": "<C-t>", "line": "<C-e>", "next": "<Right>"}
    before = {key: typed(nvim, f"x{key}y") for key in keys.values()}
    table = ", ".join(f"{name} = '{key}'" for name, key in keys.items())
    nvim.lua(f"require('lsp_calib.keys').set({{ {table} }})")
    assert {key: typed(nvim, f"x{key}y") for key in keys.values()} == before
    assert before["<Tab>"] == ["x\ty"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_earlier_mapping_of_normal_mode_does_what_it_did(open_bare, program: str) -> None:
    nvim = open_bare(program)
    nvim.lua("vim.cmd('nnoremap <M-j> Aend<Esc>') require('lsp_calib.keys').set('suggested')")
    nvim.keys("<Esc>:%d _<CR>ia<Esc><M-j>")
    nvim.until("what was mapped", lambda: nvim.lines() == ["aend"])


@pytest.mark.skipif(not NVIM, reason=NO_NVIM)
def test_a_mapping_of_a_buffer_goes_first_and_is_not_taken_for_the_others(open_bare) -> None:
    nvim = open_bare(NVIM)
    nvim.lua("vim.cmd('inoremap <M-n> all') vim.cmd('inoremap <buffer> <M-n> here')")
    nvim.lua("require('lsp_calib.keys').set('suggested')")
    assert typed(nvim, "x<M-n>y") == ["xherey"]
    nvim.lua("vim.cmd('iunmap <buffer> <M-n>')")
    assert typed(nvim, "x<M-n>y") == ["xally"]


@pytest.mark.skipif(not NVIM, reason=NO_NVIM)
def test_a_suggestion_goes_before_an_earlier_mapping(open_scripted, folder: Path) -> None:
    shipped = (Path(__file__).parent / "init.lua").read_text()
    here = f"local here = '{Path(__file__).parent}'"
    init = folder / "init.lua"
    lines = [here if line.startswith("local here") else line for line in shipped.splitlines()]
    init.write_text("\n".join(["vim.keymap.set('i', '<Tab>', 'mine')", *lines]))
    nvim = open_scripted(SCRIPT, init=init)
    assert nvim.suggested("G$A    re")[0] == REST
    nvim.keys("<Tab>")
    nvim.until("the suggestion", lambda: nvim.line() == "    re" + REST)
    nvim.keys("<Esc>o<Tab>x")
    nvim.until("the earlier mapping", lambda: nvim.line().strip() == "minex")
