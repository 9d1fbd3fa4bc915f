""":LspCalib, :checkhealth and the status line in a real Neovim. The server is real, its engine scripted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nvim import HERE, NO_NVIM, NVIM, Neovim

pytestmark = pytest.mark.skipif(not NVIM, reason=NO_NVIM)

PLUGIN = HERE.parents[2] / "editor-configs" / "neovim"
LINE = {"text": "turn first", "tokens": ["turn", " first", ""], "logprobs": [-0.1, -0.1, 0.0]}
SCRIPT = {"answers": {"    re": LINE}, "summary": {"text": "Subtract two numbers."}}


STATUSLINE = "return require('lsp_calib').statusline()"
READY = "○ scripted"


@pytest.fixture
def nvim(open_scripted) -> Neovim:
    nvim = open_scripted(SCRIPT)
    nvim.until("the server is ready", lambda: nvim.lua(STATUSLINE) == READY)
    return nvim


def command(nvim: Neovim, words: str, answer: str) -> str:
    """Runs a command; all messages, once the answer is among them."""
    nvim.keys(f"<Esc>:{words}<CR>")
    said = nvim.says(answer)
    nvim.keys("<CR>")  # a long message waits for it
    return said


def test_status_is_told_in_words(nvim: Neovim) -> None:
    nvim.suggested("G$A    re")
    said = command(nvim, "LspCalib status", "lsp-calib: The script is ready.")
    assert "Model: scripted." in said
    assert re.search(r"Shown since the start: 1 (accept|review|reject)\.", said)
    assert re.search(r"Half of the answers came within \d+ ms, 95 % within \d+ ms\.", said)
    assert "{" not in said
    assert "vim.NIL" not in said
    given = (
        "{ state = 'ready', calibrator = { id = 'line-x', source = 'shipped', state = 'shipped', n = 3 } }"
    )
    assert "Calibrator: shipped, 3 labels (line-x)." in nvim.lua(
        f"return require('lsp_calib.words').status({given})"
    )


def test_why_there_is_nothing_and_why_it_has_its_tier(nvim: Neovim) -> None:
    nvim.keys("GA    xy")

    def explained() -> bool:
        nvim.keys("<Cmd>LspCalib explain<CR>")
        return "The model has nothing to add" in nvim.messages()

    nvim.until("why", explained)
    nvim.suggested("<Esc>0C    re")
    said = command(nvim, "LspCalib why", "Model: scripted.")
    assert re.search(r"[●▲✗] (accept|review|reject) \d+ %: ", said)
    command(nvim, "LspCalib explain", "had a suggestion, or there was no request yet")


def test_a_pause_shows_in_the_status_line_and_ends(nvim: Neovim) -> None:
    command(nvim, "LspCalib pause", "paused until :LspCalib resume.")
    nvim.until("paused", lambda: nvim.lua(STATUSLINE) == "‖ paused")
    assert nvim.lua("return vim.g.lsp_calib_status") == "lsp-calib: paused"
    command(nvim, "LspCalib resume", "suggestions come again.")
    _, badge, _ = nvim.suggested("G$A    re")
    mark, tier = badge.split()[:2]
    nvim.until("the tier", lambda: nvim.lua(STATUSLINE) == f"{READY}  {mark} {tier}")


def test_refit_report_export_and_purge(nvim: Neovim, folder: Path) -> None:
    nvim.lua("vim.ui.open = function(uri) vim.g.opened = uri end")
    nvim.suggested("G$A    re")
    command(nvim, "LspCalib refit", "the calibrator stays as it was: ")
    command(nvim, "LspCalib report", "the report is /")
    assert nvim.until("the page", lambda: nvim.lua("return vim.g.opened")).endswith(".html")
    file = folder / "mine.jsonl"
    command(nvim, f"LspCalib export {file}", f"1 suggestion was exported to {file}.")
    assert file.read_text().strip()
    nvim.lua("vim.fn.confirm = function(question) vim.g.asked = question return 2 end")
    nvim.keys(":LspCalib purge<CR>")
    assert "cannot be undone" in nvim.until("a question", lambda: nvim.lua("return vim.g.asked"))
    assert "removed" not in nvim.messages()
    nvim.lua("vim.fn.confirm = function() return 1 end")
    command(nvim, "LspCalib purge", "1 suggestion was removed.")


def test_a_summary_is_shown_and_inserted(nvim: Neovim) -> None:
    nvim.keys("10Gdd9G")  # subtract has no documentation now, and the server must know it at once
    command(nvim, "LspCalib summary", "Subtract two numbers.")
    command(nvim, "LspCalib insert", "the summary is in place.")
    nvim.until("the documentation", lambda: any("Subtract two numbers." in line for line in nvim.lines()))


def test_subcommands_and_their_arguments_are_completed(nvim: Neovim) -> None:
    def completions(line: str) -> list[str]:
        return list(nvim.lua(f"return vim.fn.getcompletion([[{line}]], 'cmdline')"))

    assert completions("LspCalib re") == ["refit", "regenerate", "report", "restart", "resume", "reviewed"]
    assert completions("LspCalib restart m") == ["model"]
    assert completions("LspCalib status ") == []
    said = command(nvim, "LspCalib nonsense", "there is no :LspCalib nonsense.")
    assert "refit" in said


def test_every_subcommand_is_documented(nvim: Neovim) -> None:
    names = nvim.lua("return vim.tbl_keys(require('lsp_calib.commands').all())")
    help_text = (PLUGIN / "doc" / "lsp_calib.txt").read_text()
    pages = (PLUGIN.parents[1] / "docs" / "editors.md").read_text()
    page = pages.partition("\n## Neovim\n")[2].partition("\n## ")[0]
    assert len(names) > 20
    assert [name for name in names if f"*:LspCalib-{name}*" not in help_text] == []
    assert [name for name in names if f"`{name}" not in page and f"LspCalib {name}" not in page] == []


def test_health_says_what_works(nvim: Neovim) -> None:
    nvim.suggested("G$A    re")
    nvim.keys("<Esc>:checkhealth lsp_calib<CR>")
    text = "\n".join(nvim.until("the report", lambda: "Keys" in str(nvim.lines()) and nvim.lines()))
    for found in (
        "suggestions are ghost text",
        "command line: ",
        "runs for 1 buffer(s)",
        "The script is ready.",
        "Model: scripted.",
        "<Tab>: accept",
    ):
        assert found in text, text
    assert "ERROR" not in text, text


def test_two_workspaces_have_a_server_each(open_scripted, folder: Path) -> None:
    files = []
    for name in ("one", "two"):
        (folder / name / ".git").mkdir(parents=True)
        files.append(folder / name / "module.py")
        files[-1].write_text("def double(number):\n\n")
    nvim = open_scripted(SCRIPT, *files)
    nvim.suggested("G$A    re")
    nvim.keys("<Esc>:silent write<CR>:next<CR>")
    nvim.until("the other file", lambda: nvim.lua("return vim.fn.expand('%:p')") == str(files[1]))
    nvim.attached()
    nvim.suggested("G$A    re")
    clients = nvim.lua("return vim.tbl_map(function(one) return one.root_dir end, vim.lsp.get_clients())")
    assert clients == [str(folder / "one"), str(folder / "two")]
    # Each buffer's commands go to its own server: a pause in one is none in the other.
    command(nvim, "LspCalib pause", "paused until")
    assert nvim.lua(STATUSLINE) == "‖ paused"
    nvim.keys(":previous<CR>")
    nvim.until("the first file", lambda: nvim.lua("return vim.fn.expand('%:p')") == str(files[0]))
    assert nvim.lua(STATUSLINE) == READY


def test_it_is_a_plugin_for_vim_lsp_enable_too(open_scripted, folder: Path) -> None:
    """On the runtimepath: the command is there, and nothing is started or mapped until it is enabled."""
    init = folder / "init.lua"
    init.write_text(
        f"vim.opt.runtimepath:prepend([[{PLUGIN}]])\nvim.o.swapfile = false\n"
        "vim.lsp.config('lsp_calib', { cmd = vim.split(vim.env.LSP_CALIB_SERVER, ' ') })\n"
    )
    nvim = open_scripted(SCRIPT, init=init, attached=False)
    nvim.until("the command", lambda: nvim.lua("return vim.fn.exists(':LspCalib')") == 2)
    assert nvim.lua("return #vim.lsp.get_clients()") == 0
    maps = nvim.lua(
        "return vim.tbl_map(function(map) return map.desc or '' end, vim.api.nvim_get_keymap('i'))"
    )
    assert "suggestion" not in " ".join(maps)
    nvim.lua("vim.lsp.enable('lsp_calib')")
    nvim.attached()
    _, badge, group = nvim.suggested("G$A    re")
    assert badge.strip()
    assert group.startswith("LspCalib")
    nvim.keys("<Cmd>LspCalib accept<CR>")
    nvim.until("the suggestion in the line", lambda: nvim.line() == "    return first")
