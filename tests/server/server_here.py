"""A server on a thread of the test's own process: no start of a process, no imports."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cattrs import Converter
from scripted_server import Replace

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.server import app, messages
from lsp_calib.server.app import CalibServer
from lsp_calib.server.messages import WithoutParameters

_SHIPPED = home.shipped_models() / "calibrators"
_load = Calibrator.load


class ServerHere:
    """A server, with as much of a process's interface as the editor needs.

    make: constructs it. stdin: what the editor writes to. hear: gets what the log says. patch: what the whole
    process shares is patched until the end of the test. The process itself stays as it is: it is not ended,
    and others may trace it.
    """

    pid = os.getpid()

    def __init__(
        self,
        make: Callable[[Replace], CalibServer],
        connection: socket.socket,
        stdin: asyncio.StreamWriter,
        hear: Callable[[str], None],
        patch: pytest.MonkeyPatch,
    ) -> None:
        self.stdin = stdin
        self.returncode: int | None = None
        self._make, self._connection, self._patch = make, connection, patch
        self._log = logging.StreamHandler(_Heard(hear))
        self._log.addFilter(WithoutParameters())
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)

    def start(self) -> None:
        logging.getLogger().addHandler(self._log)
        self._thread.start()

    def cut(self) -> None:
        """End the connection, as if the editor had died."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    async def wait(self) -> int:
        """The exit code that a process would have."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def _run(self) -> None:
        code = 1
        try:
            code = self._serve()
        finally:
            self.cut()  # it ends the thread that reads
            self._loop.call_soon_threadsafe(self._end, code)

    def _serve(self) -> int:
        replace = self._patch.setattr
        replace(app, "end_within", lambda *_: None)
        replace(home, "close_memory", lambda: None)
        # What each process makes anew, and is the same each time, is made once.
        replace(Calibrator, "load", _load_once)
        converter = _idle.pop() if _idle else messages.make_converter()
        replace(messages, "make_converter", lambda: converter)
        server = self._make(replace)
        with self._connection.makefile("rb") as stdin, self._connection.makefile("wb") as stdout:
            server.start_io(stdin, stdout)
        if (session := server.__dict__.get("session")) is not None:
            session.recorder._thread.shutdown()
            if session.recorder._store is not None:  # the end of a process would close it
                session.recorder._store.close()
        _idle.append(converter)
        return 0 if server.shut_down else 1

    def _end(self, code: int) -> None:
        self._thread.join()
        self._connection.close()
        logging.getLogger().removeHandler(self._log)
        self.returncode = code
        self._ended.set()


class _Heard(io.TextIOBase):
    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear

    def write(self, text: str) -> int:
        self._hear(text)
        return len(text)


_idle: list[Converter] = []


def _load_once(path: Path) -> Calibrator:
    """The calibrator in a file; a shipped one is read once."""
    return _shipped(path) if path.is_relative_to(_SHIPPED) else _load(path)


@functools.cache
def _shipped(path: Path) -> Calibrator:
    return _load(path)
