"""The main job in a real Neovim (0.12 or later), with the real server and the real model.

LSP_CALIB_NVIM: the nvim to use. LSP_CALIB_SERVER: the server's program or its
whole command line (default: `lsp-calib` beside the running Python).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nvim import NO_NVIM, NVIM, SERVER, Neovim

pytestmark = pytest.mark.skipif(not NVIM, reason=NO_NVIM)
MODEL_SECONDS = 120.0  # the first answer waits for the model to load


@pytest.fixture
def nvim(open_editor, file: Path, home_with_summaries: Path) -> Neovim:
    return open_editor(file, server=SERVER, home=home_with_summaries)


def suggested(nvim: Neovim) -> tuple[str, str, str]:
    return nvim.suggested("G$A    re", MODEL_SECONDS)


def test_a_suggestion_shows_its_tier_is_accepted_marked_and_the_mark_goes(nvim: Neovim) -> None:
    """Typing brings ghost text and a badge; Tab puts it in the line, which is marked until it is edited."""
    ghost, badge, group = suggested(nvim)
    assert ghost.strip()
    said = re.fullmatch(r"  \S (accept|review|reject)( (<1|>99|\d{1,3}) %)?", badge)
    assert said, badge
    assert group == "LspCalib" + said[1].capitalize()
    colour = f"return vim.fn.synIDattr(vim.fn.synIDtrans(vim.fn.hlID('{group}')), 'fg')"
    assert nvim.lua(colour), "the badge has a colour"

    nvim.keys("<Tab>")
    nvim.until("the suggestion in the line", lambda: nvim.line() == "    re" + ghost)
    nvim.keys("<Esc>")
    (mark,) = nvim.until("a mark", nvim.marked)
    assert (mark["lnum"], mark["code"]) == (nvim.lua("return vim.fn.line('.') - 1"), said[1])
    nvim.until("no badge without a suggestion", lambda: not nvim.badges())
    nvim.keys("ccx<Esc>")
    nvim.until("the mark goes with an edit", lambda: not nvim.marked())


def test_a_hover_shows_the_summary_with_its_tier(nvim: Neovim) -> None:
    nvim.keys("4G5|")
    floats = (
        "for _, win in ipairs(vim.api.nvim_list_wins()) do"
        " if vim.api.nvim_win_get_config(win).relative ~= '' then"
        " return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false), ' ')"
        " end end"
    )

    def summary() -> str:
        """What K shows; another K would enter the window, so it is closed again by moving the cursor."""
        nvim.keys("K")
        text = nvim.until("a window", lambda: nvim.lua(floats))
        nvim.keys("l")
        nvim.until("no window", lambda: not nvim.lua(floats))
        nvim.keys("h")
        return "" if "summarising" in text else text

    text = nvim.until("a summary", summary, MODEL_SECONDS)
    assert re.match(r"[A-Z]\w+ \w+", text), text
    assert re.search(r"\bwhat its author would\b", text), text
    assert not re.search(r"\\|\*\*", text), text


def test_health_names_the_program_the_model_and_the_labels(nvim: Neovim) -> None:
    nvim.keys(":checkhealth lsp_calib<CR>")
    text = "\n".join(
        nvim.until("the report", lambda: "Keys" in str(nvim.lines()) and nvim.lines(), MODEL_SECONDS)
    )
    assert re.search(r"lsp-calib, version \d", text), text
    assert "models installed: smollm2-135m" in text, text
    assert "0 of your suggestions have a label" in text, text
    assert "ERROR" not in text, text
