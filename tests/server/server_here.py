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
from typing import Any, cast

import pytest
from pygls.lsp._base_server import BaseLanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter
from scripted_server import Replace

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator import Calibrator
from lsp_calib.server import language_server
from lsp_calib.server.language_server import CalibServer
from lsp_calib.server.main import WithoutParameters

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
        replace(language_server, "end_within", lambda *_: threading.Timer(0, lambda: None))
        replace(home, "close_memory", lambda: None)
        # What each process makes anew, and is the same each time, is made once.
        replace(Calibrator, "load", _load_once)
        converter = _idle.pop() if _idle else _Converter()
        defaults = LanguageServerProtocol, lambda: converter, None
        replace(BaseLanguageServer.__init__, "__defaults__", defaults)
        server = self._make(replace)
        stream = cast("Any", self._connection)
        server.start_io(stream, stream)
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


class _Converter:
    """A converter of messages that a later server uses again: by then it has written its code for them."""

    def __init__(self) -> None:
        self._converter = default_converter()
        self._hooks: dict[type, Callable[[Any, type], Any]] = {}

    def register_structure_hook(self, kind: type, hook: Callable[[Any, type], Any]) -> None:
        if kind not in self._hooks:
            self._converter.register_structure_hook(kind, lambda value, of: self._hooks[kind](value, of))
        self._hooks[kind] = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._converter, name)


_idle: list[_Converter] = []


def _load_once(path: Path) -> Calibrator:
    """The calibrator in a file; a shipped one is read once."""
    return _shipped(path) if path.is_relative_to(_SHIPPED) else _load(path)


@functools.cache
def _shipped(path: Path) -> Calibrator:
    return _load(path)
