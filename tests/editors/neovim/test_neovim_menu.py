"""Neovim 0.10 and 0.11 have no inline completion: the completion menu, in a real one.

LSP_CALIB_OLD_NVIM: the nvim to use; `.ci/neovim trixie` gets one. The server is real, its engine scripted.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from nvim import NO_OLD_NVIM, OLD_NVIM, Neovim, labels
from scripted_editor import install_curve

pytestmark = pytest.mark.skipif(not OLD_NVIM, reason=NO_OLD_NVIM)

LINE = {
    "text": "turn first * second",
    "tokens": ["turn", " first * second", ""],
    "logprobs": [-0.1, -0.1, 0.0],
}
SCRIPT = {"answers": {"    re": LINE, "    ré = re": LINE}}
TIER = "accept|review|reject"
STATUSLINE = "return require('lsp_calib').statusline()"
ITEMS = "return vim.fn.pumvisible() == 1 and vim.fn.complete_info({ 'items' }).items or nil"


@pytest.fixture
def nvim(open_scripted) -> Neovim:
    return open_scripted(SCRIPT, program=OLD_NVIM)


def test_a_menu_opens_in_a_pause_with_the_badge_and_tab_takes_its_item(nvim: Neovim, home: Path) -> None:
    before = nvim.lua("return vim.o.completeopt")
    nvim.keys("GA    re")
    (item,) = nvim.until("a menu", lambda: nvim.lua(ITEMS))
    assert item["word"] == "return first * second"
    mark, tier, number, sign = item["menu"].split()
    assert (mark, tier) in {("●", "accept"), ("▲", "review"), ("✗", "reject")}
    assert number.isdigit()
    assert sign == "%"
    assert item["kind"] == mark
    assert nvim.line() == "    re", "a menu that opens by itself changes nothing"
    assert tier in nvim.lua("return require('lsp_calib').statusline()")
    nvim.keys("<Tab>")
    nvim.until("the suggestion in the line", lambda: nvim.line() == "    return first * second")
    nvim.keys("<Esc>")
    nvim.until("the user's own options", lambda: nvim.lua("return vim.o.completeopt") == before)
    nvim.until("a mark", nvim.marked)
    nvim.keys(":silent write<CR>")
    assert nvim.until("a label", lambda: labels(home)) == [("kept", 1)]


def test_how_far_it_can_be_trusted_stands_in_its_badge(open_scripted, home: Path) -> None:
    install_curve(home)
    answer = {
        "text": "turn first * second",
        "tokens": ["turn", " first", " *", " second"],
        "logprobs": [-0.01, -0.01, -1.97, -0.01],
        "entropies": [0.1, 0.1, 2.0, 0.1],
    }
    nvim = open_scripted({"answers": {"    re": answer}}, program=OLD_NVIM)
    nvim.keys("GA    re")
    (item,) = nvim.until("a menu", lambda: nvim.lua(ITEMS))
    assert item["menu"].endswith("sure up to first")


def test_characters_beyond_ascii_before_it_shift_nothing(nvim: Neovim) -> None:
    """Positions are in UTF-16 units on the wire and in bytes in Neovim."""
    nvim.keys("GA    ré = re")
    nvim.until("a menu", lambda: nvim.lua(ITEMS))
    nvim.keys("<C-n><C-y>")
    nvim.until("the suggestion in the line", lambda: nvim.line() == "    ré = return first * second")


def test_escape_and_typing_on_leave_what_was_typed(nvim: Neovim) -> None:
    nvim.keys("GA    re")
    nvim.until("a menu", lambda: nvim.lua(ITEMS))
    nvim.keys("<M-e>")
    nvim.until("no menu", lambda: not nvim.lua(ITEMS))
    nvim.keys("x")
    nvim.until("a letter", lambda: nvim.line() == "    rex")


def test_keys_typed_in_one_burst_with_tab_come_after_the_suggestion(nvim: Neovim) -> None:
    nvim.keys("GA    re")
    nvim.until("a menu", lambda: nvim.lua(ITEMS))
    nvim.keys("<Tab>x")
    nvim.until("the suggestion, then the letter", lambda: nvim.line() == "    return first * secondx")


def test_the_menu_of_another_source_is_left_alone(open_scripted) -> None:
    """<Tab> does there what it does without the plugin's keys."""
    lines = []
    for setup in ({}, {"keys": "suggested"}):
        nvim = open_scripted({}, program=OLD_NVIM, setup=setup)
        nvim.lua("vim.o.completeopt = 'menu,menuone,noinsert'")
        nvim.keys("Gofirst_one first_two<CR>first_<C-n>")
        nvim.until("a menu", lambda editor=nvim: editor.lua(ITEMS))
        for action in ("accept", "accept_word", "next", "prev", "dismiss"):
            assert not nvim.lua(f"return require('lsp_calib').{action}()")
        nvim.keys("<Tab>x<Esc>")
        nvim.until("normal mode", lambda editor=nvim: editor.lua("return vim.fn.mode()") == "n")
        lines.append(nvim.line())
    assert lines[0] == lines[1]


def test_the_status_line_has_no_tier_in_the_menu_of_another_source(nvim: Neovim) -> None:
    nvim.keys("GA    re")
    nvim.until("a menu", lambda: nvim.lua(ITEMS))
    assert re.search(TIER, nvim.lua(STATUSLINE))
    nvim.keys("<C-e><CR><C-u>fir<C-n>")
    nvim.until("another menu", lambda: (items := nvim.lua(ITEMS)) and items[0]["word"] == "first")
    assert not re.search(TIER, nvim.lua(STATUSLINE))


def test_health_says_what_works(nvim: Neovim) -> None:
    nvim.keys("<Esc>:checkhealth lsp_calib<CR>")
    text = "\n".join(nvim.until("the report", lambda: "Keys" in str(nvim.lines()) and nvim.lines()))
    assert "suggestions are in the completion menu" in text
    assert "runs for 1 buffer(s)" in text
    assert "ERROR" not in text, text


def test_a_restart_loses_no_label(nvim: Neovim, home: Path) -> None:
    """The server settles what was inserted and saved before it ends: it is asked to, and not killed."""
    nvim.keys("GA    re")
    nvim.until("a menu", lambda: nvim.lua(ITEMS))
    nvim.keys("<Tab>")
    nvim.until("the suggestion in the line", lambda: nvim.line() == "    return first * second")
    old = nvim.lua("return vim.lsp.get_clients()[1].id")
    nvim.keys("<Esc>:silent write<CR>:LspCalib restart<CR>")
    clients = "return vim.tbl_map(function(one) return one.id end, vim.lsp.get_clients({ bufnr = 0 }))"
    nvim.until("another server", lambda: (now := nvim.lua(clients)) and old not in now)
    assert nvim.until("a label", lambda: labels(home)) == [("kept", 1)]
    nvim.keys("o    re")
    nvim.until("a menu", lambda: nvim.lua(ITEMS))


def test_where_there_is_nothing_to_offer_it_is_not_asked_more_with_every_key(nvim: Neovim) -> None:
    """What an earlier key began to ask for again and again ends with the next key, and with `toggle`."""
    nvim.lua(
        """
        local server = require('lsp_calib.server')
        local request = server.request
        _G.asked = 0
        server.request = function(client, method, ...)
          if method == 'textDocument/completion' then _G.asked = _G.asked + 1 end
          return request(client, method, ...)
        end
        """
    )
    menu = "require('lsp_calib.menu')"
    nvim.keys("GA")
    for key in "qwzq":
        nvim.keys(key)
        time.sleep(0.4)  # longer than the pause after which it asks
    assert nvim.lua("return _G.asked") > 0
    nvim.lua("_G.asked = 0")
    time.sleep(2)
    asked = nvim.lua("return _G.asked")
    assert 0 < asked <= 10, "four a second and no more, as after a single key"
    assert not nvim.lua(f"return {menu}.toggle()")
    time.sleep(0.3)
    nvim.lua("_G.asked = 0")
    time.sleep(1)
    assert nvim.lua("return _G.asked") == 0
    assert not nvim.lua(f"return {menu}.is_on(vim.api.nvim_get_current_buf())")
    assert nvim.lua(f"return {menu}.is_on(999)") is True


@pytest.mark.parametrize("keys", ["<M-n>", "<Esc>:LspCalib trigger<CR>"])
def test_asked_for_by_hand_the_menu_opens(nvim: Neovim, keys: str) -> None:
    nvim.keys(":LspCalib toggle<CR>")
    nvim.says("suggestions are off here")
    nvim.keys("GA    re")
    time.sleep(1)
    assert not nvim.lua(ITEMS)
    nvim.keys(keys)
    (first, *_) = nvim.until("a menu", lambda: nvim.lua(ITEMS))
    assert first["word"] == "return first * second"
    nvim.keys("<M-n><C-y>")
    nvim.until("its item in the line", lambda: nvim.line() == "    return first * second")
