"""What goes wrong in a real Neovim is said once, in a line, and editing goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nvim import NO_NVIM, NVIM, Neovim, scripted

pytestmark = pytest.mark.skipif(not NVIM, reason=NO_NVIM)

LINE = {"text": "turn first", "tokens": ["turn", " first", ""], "logprobs": [-0.1, -0.1, 0.0]}
SCRIPT: dict[str, Any] = {"answers": {"    re": LINE}}


def screen(nvim: Neovim) -> str:
    """The last lines of the screen."""
    return str(
        nvim.lua(
            "local rows = {} for row = 20, 24 do local line = '' for column = 1, 80 do"
            " line = line .. vim.fn.screenstring(row, column) end table.insert(rows, line) end"
            " return table.concat(rows, '\\n')"
        )
    )


def pids(nvim: Neovim) -> list[int]:
    """The processes that this Neovim has started."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(nvim.lua("return vim.fn.getpid()"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [int(pid) for pid in found.stdout.split()]


def test_a_long_message_takes_no_key_while_one_types(open_scripted) -> None:
    """A model that cannot run says so in several sentences; the whole is kept for :LspCalib messages."""
    failure = "There is no model. " + "It means that nothing can be suggested. " * 5 + "Pull one."
    nvim = open_scripted({"failure": ["NoModelError", failure]}, terminal=True)
    nvim.type("GA")
    nvim.says("There is no model.")
    nvim.type("    removed")
    nvim.until("what was typed", lambda: nvim.line() == "    removed")
    assert ":LspCalib messages" in nvim.messages()
    nvim.keys("<Esc>")
    nvim.until("the state", lambda: nvim.lua("return require('lsp_calib').statusline()") == "✗ no model")
    said = nvim.lua("return require('lsp_calib.notice').all()")
    assert said.count(failure) == 1
    nvim.keys(":checkhealth lsp_calib<CR>")
    nvim.until("advice", lambda: ":LspCalib restart model" in "\n".join(nvim.lines()))
    assert "ERROR" in "\n".join(nvim.lines())


def test_settings_are_the_users_own_and_what_is_unknown_or_gone_is_named_once(open_scripted) -> None:
    """A workspace could set few of them: the server takes those of setup() because it is told to."""
    settings = {"tiers.acceptFrom": 1, "tiers": {"rejectBelow": 1}, "debounceMs": 40}
    nvim = open_scripted(SCRIPT, setup={"keys": "suggested", "settings": settings, "modl": "x"})
    assert nvim.suggested("G$A    re")[1].split()[:2] == ["✗", "reject"]
    said = nvim.lua("return require('lsp_calib.notice').all()")
    assert said.count("debounceMs was removed") == 1
    assert said.count("has no key") == said.count('has no key "modl"') == 1
    assert "--trust-editor" in nvim.lua("return require('lsp_calib.config').make({}).cmd")


def test_a_missing_server_is_said_once_and_editing_goes_on(open_scripted, folder: Path) -> None:
    nvim = open_scripted(SCRIPT, server=str(folder / "not-there"), attached=False)
    nvim.says(":LspCalib messages")
    assert nvim.lua("return require('lsp_calib.notice').all()").count("make install") == 1
    nvim.keys("GA    re<Tab>x<Esc>")
    nvim.until("typing", lambda: re.fullmatch(r"    re\s+x", nvim.line()))
    nvim.keys(":LspCalib refit<CR>")
    nvim.says("no server runs for this buffer")
    nvim.keys("<CR>:checkhealth lsp_calib<CR>")
    text = "\n".join(nvim.until("the report", lambda: "Keys" in str(nvim.lines()) and nvim.lines()))
    assert "cannot be run" in text
    assert '"serve", "--trust-editor"' in text, "settings of init.lua would count as a workspace's"
    assert "no server runs" in text


def test_a_server_that_dies_is_told_and_started_again(open_scripted) -> None:
    nvim = open_scripted(SCRIPT, terminal=True)
    nvim.suggested("G$A    re")
    (server,) = pids(nvim)
    os.kill(server, signal.SIGKILL)
    nvim.says("the server has ended")
    nvim.type("moved = 1")
    nvim.until("typing goes on", lambda: nvim.line() == "    removed = 1")
    nvim.keys("<Esc>:LspCalib restart<CR>")
    nvim.attached()
    assert pids(nvim) not in ([], [server])
    assert nvim.suggested("0C    re")[0] == "turn first"


@pytest.mark.parametrize("how", ["LspCalib restart", "lsp restart lsp_calib"])
def test_a_restart_brings_suggestions_back(open_scripted, how: str) -> None:
    nvim = open_scripted(SCRIPT)
    nvim.suggested("G$A    re")
    (before,) = pids(nvim)
    nvim.keys(f"<Esc>:{how}<CR>")
    nvim.until("another process", lambda: (now := pids(nvim)) and before not in now)
    nvim.attached()
    assert nvim.suggested("0C    re")[0] == "turn first"
    assert "has ended" not in nvim.messages()


def test_a_workspace_chooses_nothing(open_scripted, folder: Path) -> None:
    """Neither the server nor a setting, whatever lies in the folder that Neovim was started in."""
    hostile = folder / "hostile"
    (hostile / ".git").mkdir(parents=True)
    touched = folder / "touched"
    for name in ("lsp-calib", "nvim", "python3"):
        (hostile / name).write_text(f"#!/bin/sh\ntouch {touched}\n")
        (hostile / name).chmod(0o755)
    for name in ("lsp_calib.py", "sitecustomize.py"):
        (hostile / name).write_text(f"open({str(touched)!r}, 'w')\n")
    for name in (".lsp-calib.json", ".nvim.lua", ".exrc", "lsp/lsp_calib.lua", "lua/lsp_calib/init.lua"):
        (hostile / name).parent.mkdir(exist_ok=True, parents=True)
        (hostile / name).write_text(f"io.open({str(touched)!r}, 'w'):close()\n")
    settings = (
        '{"lspCalib": {"inlineCompletion": {"enabled": false}, "remote": {"url": "http://127.0.0.1:9"}}}'
    )
    for name in (".vscode/settings.json", ".nvim/settings.json", "lspCalib.json"):
        (hostile / name).parent.mkdir(exist_ok=True)
        (hostile / name).write_text(settings)
    file = hostile / "module.py"
    file.write_text("def double(number):\n\n")
    journal = folder / "journal"
    nvim = open_scripted(SCRIPT | {"journal": str(journal)}, file, cwd=hostile)
    assert nvim.suggested("G$A    re")[0] == "turn first"
    nvim.keys("<Esc>:checkhealth lsp_calib<CR>")
    nvim.until("the report", lambda: "Keys" in str(nvim.lines()))
    assert not touched.exists()
    assert '"remote": null' in journal.read_text()


def test_a_relative_name_of_the_server_is_found_on_the_path_alone(open_scripted, folder: Path) -> None:
    """What setup() is given becomes an absolute path at once: a later :cd changes nothing."""
    real = scripted(folder, SCRIPT).split()
    programs = folder / "programs"
    programs.mkdir()
    program = programs / "calib-server"
    program.write_text(f"#!/bin/sh\nexec {' '.join(real)}\n")
    program.chmod(0o755)
    trap = folder / "trap"
    trap.mkdir()
    (trap / "calib-server").write_text(f"#!/bin/sh\ntouch {folder / 'touched'}\n")
    (trap / "calib-server").chmod(0o755)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    try:
        nvim = open_scripted(SCRIPT, server="unused", setup={"cmd": ["calib-server", "serve"]}, cwd=trap)
    finally:
        os.environ["PATH"] = os.environ["PATH"].removeprefix(f"{programs}{os.pathsep}")
    assert nvim.lua("return vim.lsp.get_clients()[1].config.cmd[1]") == str(program)
    assert not (folder / "touched").exists()
    assert sys.executable in real
