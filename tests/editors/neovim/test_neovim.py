"""The shipped Neovim configuration in a real Neovim (0.12 or later), with the real server.

LSP_CALIB_NVIM: the nvim to use (default: the one on PATH). LSP_CALIB_SERVER: the server's program or its
whole command line (default: `lsp-calib` beside the running Python).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
NEEDS = (0, 12)
MODEL_SECONDS = 120.0  # the first answer waits for the model to load
SOURCE = '''\
"""Arithmetic."""


def add(first, second):
    """The sum of two numbers."""
    return first + second


def subtract(first, second):
    """The difference of two numbers."""
    return first - second


def multiply(first, second):
    """The product of two numbers."""

'''


def find_nvim() -> tuple[str | None, str]:
    """The nvim to test with, or None and the reason why there is none."""
    program = os.environ.get("LSP_CALIB_NVIM") or shutil.which("nvim")
    if not program:
        return None, "no nvim on PATH; set LSP_CALIB_NVIM to one of version 0.12 or later"
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{program} does not start: {error}"
    found = re.search(r"NVIM v(\d+)\.(\d+)", said.stdout)
    if not found or (int(found[1]), int(found[2])) < NEEDS:
        return None, f"{program} is {found[0] if found else 'not Neovim'}; 0.12 or later is needed"
    return program, ""


def find_server() -> tuple[str | None, str]:
    """The server's command line, or None and the reason why there is none."""
    server = os.environ.get("LSP_CALIB_SERVER") or str(Path(sys.executable).with_name("lsp-calib"))
    if not shutil.which(server) and not shutil.which(server.split()[0]):
        return None, f"no server at {server}; set LSP_CALIB_SERVER"
    return server, ""


NVIM, NO_NVIM = find_nvim()
SERVER, NO_SERVER = find_server()
pytestmark = [pytest.mark.model, pytest.mark.skipif(not (NVIM and SERVER), reason=NO_NVIM or NO_SERVER)]


class Neovim:
    """A headless Neovim, driven as a person would: keys go in, what the buffer shows comes out."""

    def __init__(self, folder: Path, file: Path) -> None:
        assert NVIM is not None
        assert SERVER is not None
        self.log = folder / "nvim" / "lsp.log"
        self.socket = str(folder / "nvim.sock")
        self.process = subprocess.Popen(
            [NVIM, "--headless", "--listen", self.socket, "--clean", "-u", str(HERE / "init.lua"), str(file)],
            env=os.environ | {"XDG_STATE_HOME": str(folder), "LSP_CALIB_SERVER": SERVER},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _remote(self, *arguments: str) -> str:
        assert NVIM is not None
        command = [NVIM, "--server", self.socket, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr or done.stdout)
        return done.stdout + done.stderr  # an expression's value comes on either, by version

    def keys(self, keys: str) -> None:
        self._remote("--remote-send", keys)

    def lua(self, body: str) -> Any:
        """The value that a Lua function with this body returns."""
        quoted = f"vim.json.encode((function() {body} end)() or vim.NIL)".replace("'", "''")
        return json.loads(self._remote("--remote-expr", f"luaeval('{quoted}')"))

    def until(self, what: str, met: Callable[[], Any], seconds: float = 10.0) -> Any:
        """The first true value of met(); fails with Neovim's messages and log if there is none in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := met():
                return value
            time.sleep(0.05)
        messages = self.lua("return vim.fn.execute('messages')")
        log = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
        return pytest.fail(f"not within {seconds:.0f} s: {what}\n{self.line()!r}\n{messages}\n{log}")

    def line(self) -> str:
        return str(self.lua("return vim.api.nvim_get_current_line()"))

    def marks(self, namespace: str) -> list[Any]:
        """(row, virtual text as [text, highlight group] pairs) of each mark in this namespace."""
        found = self.lua(
            f"return vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_create_namespace('{namespace}'), 0, -1,"
            " { details = true })"
        )
        return [(row, details["virt_text"]) for _, row, _, details in found or []]

    def badges(self) -> list[Any]:
        return self.marks("lsp_calib")

    def ghosts(self) -> list[Any]:
        return self.marks("nvim.lsp.inline_completion")

    def close(self) -> None:
        try:
            self.keys("<C-\\><C-N>:qall!<CR>")
            self.process.wait(10)
        except (RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


@pytest.fixture
def nvim() -> Iterator[Neovim]:
    # Not pytest's tmp_path: a socket's path has room for about 100 characters.
    with tempfile.TemporaryDirectory(prefix="nvim-") as name:
        folder = Path(name)
        file = folder / "arithmetic.py"
        file.write_text(SOURCE)
        editor = Neovim(folder, file)
        try:
            editor.until("Neovim listens", lambda: Path(editor.socket).exists())
            attached = "return #vim.lsp.get_clients({ bufnr = 0, name = 'lsp_calib' })"
            editor.until("the server is attached", lambda: editor.lua(attached))
            yield editor
        finally:
            editor.close()


def suggested(nvim: Neovim, keys: str) -> tuple[str, str, str]:
    """Types keys on the last line; (ghost text, badge, its highlight group) once both are on screen."""
    nvim.keys("G$" + keys)

    def both() -> Any:
        ghosts, badges = nvim.ghosts(), nvim.badges()
        return ghosts and badges and (ghosts[0], badges[0])

    ghost, badge = nvim.until("a suggestion with its badge", both, MODEL_SECONDS)
    assert ghost[0] == badge[0], "the badge is on the suggestion's line"
    text, group = badge[1][0]
    return ghost[1][0][0], text, group


def test_a_suggestion_shows_its_tier_and_tab_accepts_it(nvim: Neovim) -> None:
    """Typing brings ghost text and a badge; Tab puts the text in the line and tells the server."""
    ghost, badge, group = suggested(nvim, "A    re")
    assert ghost.strip()
    said = re.fullmatch(r"  \S+ (accept|review|reject)( \d{1,3} %)?", badge)
    assert said, badge
    assert group == "LspCalib" + said[1].capitalize()
    colour = f"return vim.fn.synIDattr(vim.fn.synIDtrans(vim.fn.hlID('{group}')), 'fg')"
    assert nvim.lua(colour), "the badge has a colour"

    nvim.keys("<Tab>")
    nvim.until("the suggestion in the line", lambda: nvim.line() == "    re" + ghost)
    nvim.until("an answer to lsp-calib.accepted", lambda: nvim.lua("return vim.g.commands_answered") == 1)
    nvim.until("a badge only beside a suggestion", lambda: len(nvim.badges()) == len(nvim.ghosts()))


def test_typing_on_and_accepting_at_once_leaves_no_stray_characters(nvim: Neovim) -> None:
    """Neovim alone would leave what was typed since the answer behind the accepted text."""
    ghost, _, _ = suggested(nvim, "A    re")
    nvim.keys(ghost[:2].replace("<", "<lt>") + "<Tab>")
    nvim.until("the suggestion, once", lambda: nvim.line() == "    re" + ghost)


def test_the_badge_goes_with_the_suggestion(nvim: Neovim) -> None:
    """Leaving insert mode takes both away; Tab without a suggestion is a Tab."""
    suggested(nvim, "A    re")
    nvim.keys("<Esc>")
    nvim.until("no ghost text and no badge", lambda: not nvim.ghosts() and not nvim.badges())
    nvim.keys("o<Tab>x")
    nvim.until("an indented line", lambda: re.fullmatch(r"\s+x", nvim.line()))


def test_the_report_is_opened(nvim: Neovim) -> None:
    """:LspCalibReport names the page; the server asks Neovim to open it, which asks the system."""
    nvim.lua("vim.ui.open = function(uri) vim.g.opened = uri end")
    nvim.keys("<Esc>:LspCalibReport<CR>")
    opened = nvim.until("the page is opened", lambda: nvim.lua("return vim.g.opened or ''"))
    assert opened.endswith("/report.html")
    nvim.until("the path", lambda: "the report is /" in nvim.lua("return vim.fn.execute('messages')"))


def test_status_command_and_statusline(nvim: Neovim) -> None:
    """:LspCalibStatus prints the status object; the notification feeds a variable for the status line."""
    suggested(nvim, "A    re")
    variable = "return vim.g.lsp_calib_status or ''"
    nvim.until("the status variable", lambda: nvim.lua(variable).startswith("lsp-calib: "))
    nvim.keys("<Esc>:LspCalibStatus<CR>")
    nvim.until("the status", lambda: "  state: " in nvim.lua("return vim.fn.execute('messages')"))
