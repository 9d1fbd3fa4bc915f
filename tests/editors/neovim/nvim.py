"""A real Neovim, driven as a person would: keys go in, what the buffer shows comes out."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
SCRIPTED = HERE.parents[1] / "server" / "scripted_server.py"
RISING = HERE.parent / "rising_server.py"
ROWS, COLUMNS = 24, 80
# How many times longer everything may take, on a machine that is busy.
PATIENCE = float(os.environ.get("LSP_CALIB_PATIENCE", "1"))
# A server ends after its editor, and may write until then.
ENDING = 20.0 * PATIENCE
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


NVIM = os.environ.get("LSP_CALIB_NVIM", "")
OLD_NVIM = os.environ.get("LSP_CALIB_OLD_NVIM", "")
NO_NVIM = "LSP_CALIB_NVIM names no Neovim 0.12 or later: see .ci/neovim"
NO_OLD_NVIM = "LSP_CALIB_OLD_NVIM names no Neovim 0.10 or 0.11: see .ci/neovim trixie"
SERVER = os.environ.get("LSP_CALIB_SERVER") or str(Path(sys.executable).with_name("lsp-calib"))


def scripted(folder: Path, script: Mapping[str, Any]) -> str:
    """The command line of the real server with an engine that answers as the script says."""
    file = folder / "script.json"
    file.write_text(json.dumps(script))
    return f"{sys.executable} {SCRIPTED} {file}"


def rising(server: str) -> str:
    """The command line of a server whose suggestions are the surer the more of them is typed."""
    return f"{sys.executable} {RISING} {server}"


def labels(home: Path) -> list[tuple[str, int]]:
    """How each label in a state folder's store came about, and 1 if the suggestion was right, else 0."""
    file = home / "feedback.db"
    if not file.exists():
        return []
    with contextlib.closing(sqlite3.connect(file, timeout=5)) as store:
        try:
            return store.execute("SELECT how, correct FROM labels").fetchall()
        except sqlite3.OperationalError:  # the file is there, the first transaction is not
            return []


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short path: a socket's path has room for about 100 characters.

    It is removed at the end, tried again while a server that has not ended yet puts files there.
    """
    folder = Path(tempfile.mkdtemp(prefix="nvim-"))
    try:
        yield folder
    finally:
        end = time.monotonic() + ENDING
        while folder.exists():
            try:
                shutil.rmtree(folder)
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)


class Neovim:
    """program: nvim. files: to open. server: its command line. home: the server's state folder.

    terminal: in a terminal of 80 by 24, where messages that do not fit wait for a key; headless otherwise.
    """

    def __init__(
        self,
        program: str,
        folder: Path,
        *files: Path,
        server: str,
        home: Path,
        setup: Mapping[str, Any] | None = None,
        init: Path = HERE / "init.lua",
        terminal: bool = False,
        cwd: Path | None = None,
    ) -> None:
        self.program = program
        self.log = folder / "nvim" / "lsp.log"
        self.socket = str(folder / "nvim.sock")
        environment = os.environ | {
            "XDG_STATE_HOME": str(folder),
            "LSP_CALIB_SERVER": server,
            "LSP_CALIB_HOME": str(home),
            "TERM": "xterm-256color",
        }
        if setup is not None:
            environment["LSP_CALIB_SETUP"] = json.dumps(setup)
        arguments = ["--listen", self.socket, "--clean", "-u", str(init), *map(str, files)]
        nothing = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [program, "--headless", *arguments],
            env=environment, stdin=nothing, stdout=nothing, stderr=nothing, cwd=cwd,
        )  # fmt: skip
        self._master, self._screen = -1, None
        self.until("Neovim listens", lambda: Path(self.socket).exists())
        if terminal:
            # A screen of its own, as `nvim` alone starts one: a Neovim that was unpacked cannot start itself.
            self._master, ours = pty.openpty()
            fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            self._screen = subprocess.Popen(
                [program, "--server", self.socket, "--remote-ui"],
                env=environment, stdin=ours, stdout=ours, stderr=ours, start_new_session=True,
            )  # fmt: skip
            os.close(ours)
            threading.Thread(target=self._drain, daemon=True).start()
            self.until("a screen", lambda: self.lua("return #vim.api.nvim_list_uis()") == 1)

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(self._master, 65536):
                pass

    def _remote(self, *arguments: str) -> str:
        command = [self.program, "--server", self.socket, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30 * PATIENCE, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr or done.stdout)
        return done.stdout + done.stderr  # an expression's value comes on either, by version

    def keys(self, keys: str) -> None:
        self._remote("--remote-send", keys)

    def type(self, text: str) -> None:
        """Type in the terminal itself: what a prompt takes is lost."""
        os.write(self._master, text.encode())

    def lua(self, body: str) -> Any:
        """The value that a Lua function with this body returns."""
        quoted = f"vim.json.encode((function() {body} end)() or vim.NIL)".replace("'", "''")
        return json.loads(self._remote("--remote-expr", f"luaeval('{quoted}')"))

    def until(self, what: str, met: Callable[[], Any], seconds: float = 20.0) -> Any:
        """The first true value of met(); fails with Neovim's messages and log if there is none in time."""
        end = time.monotonic() + seconds * PATIENCE
        while time.monotonic() < end:
            if value := met():
                return value
            time.sleep(0.05)
        log = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
        try:
            seen = f"{self.line()!r}\n{self.messages()}"
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            seen = f"Neovim does not answer: {error}"
        return pytest.fail(f"not within {seconds:.0f} s: {what}\n{seen}\n{log}")

    def attached(self) -> None:
        """Wait until the server serves the current buffer."""
        # get_clients leaves those out that have not been initialised.
        clients = "return #vim.lsp.get_clients({ bufnr = 0, name = 'lsp_calib' })"
        self.until("the server is attached", lambda: self.lua(clients))

    def line(self) -> str:
        return str(self.lua("return vim.api.nvim_get_current_line()"))

    def lines(self) -> list[str]:
        return list(self.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, false)"))

    def messages(self) -> str:
        return str(self.lua("return vim.fn.execute('messages')"))

    def says(self, text: str, seconds: float = 20.0) -> str:
        """Wait until a text is among the messages."""
        return str(
            self.until(f"the message {text!r}", lambda: text in (said := self.messages()) and said, seconds)
        )

    def marks(self, namespace: str) -> list[Any]:
        """(row, virtual text as [text, group] pairs, virtual lines) of each mark in this namespace."""
        found = self.lua(
            f"return vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_create_namespace('{namespace}'), 0, -1,"
            " { details = true })"
        )
        return [
            (row, details["virt_text"], details.get("virt_lines") or []) for _, row, _, details in found or []
        ]

    def badges(self) -> list[Any]:
        return self.marks("lsp_calib")

    def ghosts(self) -> list[Any]:
        return self.marks("nvim.lsp.inline_completion")

    def ghost(self) -> str:
        """The ghost text on screen, "" if there is none."""
        found = self.ghosts()
        if not found:
            return ""
        _, first, others = found[0]
        return "\n".join(
            "".join(text for text, group in chunks if group != "ComplHintMore") for chunks in [first, *others]
        )

    def film(self) -> Any:
        """A terminal that shows this Neovim, and keeps the pictures of the row that has the badge."""
        from editor_terminal import FilmedTerminal

        screen = FilmedTerminal(
            [self.program, "--server", self.socket, "--remote-ui"], {}, Path(self.socket).parent
        )

        def row() -> Any:
            rows = [n for n, text in enumerate(screen.lines()) if re.search("  [●▲✗] ", text)]
            return rows and (rows[0],)

        (screen.row,) = self.until("the row with the badge", row)
        return screen

    def suggested(self, keys: str, seconds: float = 20.0) -> tuple[str, str, str]:
        """Types keys; (ghost text, badge, its highlight group) once both are on screen."""
        self.keys(keys)

        def both() -> Any:
            ghosts, badges = self.ghosts(), self.badges()
            return ghosts and badges and (ghosts[0], badges[0])

        ghost, badge = self.until("a suggestion with its badge", both, seconds)
        assert ghost[0] == badge[0], "the badge is on the suggestion's line"
        text, group = badge[1][0]
        return ghost[1][0][0], text, group

    def marked(self) -> list[dict[str, Any]]:
        """The server's diagnostics in the current buffer."""
        return list(
            self.lua(
                "return vim.tbl_map(function(one)"
                " return { lnum = one.lnum, code = one.code, message = one.message } end,"
                " vim.diagnostic.get(0))"
            )
            or []
        )

    def close(self) -> None:
        try:
            self.keys("<C-\\><C-N>:qall!<CR>")
            self.process.wait(10)
        except (RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        if self._screen is not None:
            try:
                self._screen.wait(10)
            except subprocess.TimeoutExpired:
                self._screen.kill()
                self._screen.wait()
            os.close(self._master)
