"""Neovim 0.10 and 0.11 have no inline completion: the completion menu, in a real one.

LSP_CALIB_OLD_NVIM: the nvim to use; `.ci/neovim trixie` gets one. The server is real, its engine scripted.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from nvim import NO_OLD_NVIM, OLD_NVIM, Neovim, labels

pytestmark = pytest.mark.skipif(not OLD_NVIM, reason=NO_OLD_NVIM)

LINE = {
    "text": "turn first * second",
    "tokens": ["turn", " first * second", ""],
    "logprobs": [-0.1, -0.1, 0.0],
}
SCRIPT = {"answers": {"    re": LINE, "    ré = re": LINE}}
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


def test_commands_restart_and_health(nvim: Neovim) -> None:
    nvim.keys(":LspCalib status<CR>")
    nvim.until("the status", lambda: "lsp-calib: " in nvim.messages())
    old = nvim.lua("return vim.lsp.get_clients()[1].id")
    nvim.keys("<CR>:LspCalib restart<CR>")
    clients = "return vim.tbl_map(function(one) return one.id end, vim.lsp.get_clients({ bufnr = 0 }))"
    nvim.until("another server", lambda: (now := nvim.lua(clients)) and old not in now)
    nvim.keys("GA    re")
    nvim.until("a menu", lambda: nvim.lua(ITEMS))
    nvim.keys("<Esc>:checkhealth lsp_calib<CR>")
    text = "\n".join(nvim.until("the report", lambda: "Keys" in str(nvim.lines()) and nvim.lines()))
    assert "suggestions are in the completion menu" in text
    assert "runs for 1 buffer(s)" in text
    assert "ERROR" not in text, text
