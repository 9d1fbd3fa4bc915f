"""An editor in a pseudo-terminal: keys go in as a person would type them, what its screen shows comes out."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import psutil
import pyte

COLUMNS, LINES = 100, 30
# How many times longer everything may take, on a machine that is busy.
PATIENCE = float(os.environ.get("LSP_CALIB_PATIENCE", "1"))
# A document to type in, and the folders of programs: with the server that is tested, and without any.
SOURCE = '''\
"""Arithmetic."""


def add(first, second):
    return first + second


def subtract(first, second):
    """The difference of two numbers."""
    return first - second


def multiply(first, second):
    """The product of two numbers."""

'''
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
ELSEWHERE = os.pathsep.join(one for one in PATH.split(":") if not (Path(one) / "lsp-calib").exists())
# Sequences that pyte 0.8.2 would print: those with the private markers < = >, those of Kitty's keyboard, and
# questions in device control strings.
_BEYOND_PYTE = re.compile(rb"\x1b\[(?:[<=>][0-9;:]*[ -/]*[@-~]|\?[0-9;]*u)|\x1bP[^\x1b]*\x1b\\")
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|P[^\x1b]*\x1b?)?\Z")


def _own_terminal() -> None:
    """Makes standard input the terminal of this session: Emacs opens /dev/tty."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class _Screen(pyte.Screen):
    """A screen that answers questions of the program, such as what kind of terminal this is."""

    def __init__(self, answer: Callable[[str], object]) -> None:
        super().__init__(COLUMNS, LINES)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def report_device_status(self, mode: int, **_kwargs: Any) -> None:
        super().report_device_status(mode)

    def set_margins(self, *margins: Any, private: bool = False) -> None:
        if not private:
            super().set_margins(*margins)


class EditorTerminal:
    """A program on a screen of COLUMNS by LINES.

    command: its command line. environment: added to this process's. folder: where it runs.
    mirror: gets all that the program writes, such as a real terminal that a picture is taken of.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        mirror: BinaryIO | None = None,
    ) -> None:
        self._mirror = mirror
        self._screen = _Screen(self.keys)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._ends, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        self._terminal = os.ttyname(theirs)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def keys(self, keys: str) -> None:
        """Types keys: characters, and control characters as terminals send them."""
        os.write(self._ends, keys.encode())

    def wrote(self) -> None:
        """The program has written to its screen: for those who look at each picture of it."""

    def unread(self) -> int:
        """How many bytes of the keys the program has not read yet. Only of one whose terminal is raw."""
        theirs = os.open(self._terminal, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            return int(struct.unpack("i", fcntl.ioctl(theirs, termios.FIONREAD, bytes(4)))[0])
        finally:
            os.close(theirs)

    def lines(self) -> list[str]:
        """The lines of the screen, without the spaces at their ends."""
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    def text(self) -> str:
        return "\n".join(self.lines()).rstrip()

    def until(self, what: str, met: Callable[[str], Any], seconds: float = 20.0) -> Any:
        """The first true value of met(screen); fails with the screen if there is none in time."""
        end = time.monotonic() + seconds * PATIENCE
        while time.monotonic() < end:
            if value := met(self.text()):
                return value
            if self.process.poll() is not None:
                raise AssertionError(f"the editor has ended before: {what}\n{self.text()}")
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{self.text()}")

    def sees(self, pattern: str, seconds: float = 20.0) -> re.Match[str]:
        """Where the screen shows what this regular expression matches, once it does."""
        found: re.Match[str] = self.until(pattern, lambda screen: re.search(pattern, screen, re.M), seconds)
        return found

    def close(self) -> None:
        """Ends the program and all that it has started in this terminal."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGHUP)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._reader.join(5)
        os.close(self._ends)

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                data = os.read(self._ends, 65536)
            except OSError:  # the program has closed the terminal
                return
            if not data:
                return
            if self._mirror is not None:
                self._mirror.write(data)
                self._mirror.flush()
            data = rest + data
            cut = _UNFINISHED.search(data)
            data, rest = (data[: cut.start()], data[cut.start() :]) if cut else (data, b"")
            with self._lock:
                self._stream.feed(_BEYOND_PYTE.sub(b"", data))
                self.wrote()


class FilmedTerminal(EditorTerminal):
    """One whose pictures of a row are kept, each time that the program has written.

    row: which, from 0; none while it is None. pictures: when, the text without spaces at its end, the cells.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.row: int | None = None
        self.pictures: list[tuple[float, str, list[Any]]] = []
        super().__init__(command, environment, folder)

    def close(self) -> None:
        self.row = None
        super().close()

    def wrote(self) -> None:
        if self.row is not None:
            cells = [self._screen.buffer[self.row][column] for column in range(COLUMNS)]
            self.pictures.append((time.monotonic(), "".join(cell.data for cell in cells).rstrip(), cells))


def servers_of(editor: EditorTerminal) -> list[psutil.Process]:
    """The processes of lsp-calib's server that an editor has started. Fails if there is none."""
    found = []
    for one in psutil.Process(editor.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended
            if "serve" in (words := one.cmdline()) and "lsp-calib" in " ".join(words):
                found.append(one)
    assert found, "the editor has started no server"
    return found
