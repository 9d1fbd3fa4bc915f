"""Serving one editor. Imports here delay the answer to `initialize`: keep them few."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, BinaryIO

from lsprotocol import types

from lsp_calib import settings as settings_module
from lsp_calib.server.connection import KNOWN, USUAL, Connection
from lsp_calib.server.messages import has_inline_completion, receive
from lsp_calib.server.streams import Frames, Input, Output, read_frames

if TYPE_CHECKING:
    from lsp_calib.server.session import Session


def end_within(seconds: float, code: Callable[[], int]) -> threading.Timer:
    """End this process in so many seconds, whatever its threads do, unless the timer is cancelled."""
    timer = threading.Timer(seconds, lambda: os._exit(code()))
    timer.daemon = True
    timer.start()
    return timer


_NOT_TRUSTED = (
    "lspCalib.trusted is ignored: some editors take such settings from a workspace as well, which may not "
    "choose files, servers or how a model is loaded. Set them in your config.toml. `lsp-calib serve "
    "--trust-editor` is for an editor that takes them from you alone."
)


class CalibServer(Connection):
    """A connection that is served, and the features of its session."""

    def __init__(self, command_line: settings_module.Trusted, *, trusts_editor: bool = False) -> None:
        super().__init__()
        self.command_line = command_line
        self._trusts_editor = trusts_editor
        # Without an editor's and a workspace's; those of the start.
        self.own_settings = self.initial_settings = self.settings
        # Requests for the settings: how many were made, and which one was answered last.
        self.settings_asked = self.settings_answered = 0
        # Seconds for work that is under way when the connection ends, such as writes to the feedback store.
        self.last_work = 10.0
        # Seconds for which the start waits for the editor's settings.
        self.settings_within = 5.0
        self.shut_down = False

    @cached_property
    def session(self) -> Session:
        """The services behind the features; created when first needed, after the answer to `initialize`."""
        from lsp_calib.server.session import Session

        return Session(self)

    def on_initialize(self, params: types.InitializeParams, capabilities: types.ServerCapabilities) -> None:
        """Resolve the settings and, with them, the capabilities offered to this client."""
        self.client_traits = KNOWN.get(
            (params.client_info.name if params.client_info else "").casefold(), USUAL
        )
        options = params.initialization_options
        named = None
        if isinstance(options, dict):
            named = options.get("trusted")
        problems: list[str] = []
        if named and not self._trusts_editor:
            # Kate, Zed and Sublime Text merge what a checkout says into these options.
            problems.append(_NOT_TRUSTED)
            named = None
        editor, more = settings_module.parse_trusted(named)
        # Nothing works without a state folder: its error is the answer, so that the editor shows the reason.
        self.trusted, still_more = settings_module.resolve_trusted(self.command_line, editor)
        self.own_settings = settings_module.of_the_user(self.trusted)
        self.initial_settings, wrong = settings_module.parse(options, self.own_settings, self.own_settings)
        self.settings = self.initial_settings
        self.problems = wrong + problems + more + still_more
        if self.settings.completion is False or (
            self.settings.completion == "auto" and has_inline_completion(params.capabilities)
        ):
            capabilities.completion_provider = None

    def start_io(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Serve one client over standard input and output, until it disconnects."""
        output = Output(stdout or sys.stdout.buffer)
        self.protocol.send_to(output)
        self._run(self._serve(stdin or sys.stdin.buffer, output), output.finish)

    async def _serve(self, stdin: BinaryIO, output: Output) -> None:
        incoming = Input(stdin, output.input_ended)
        output.on_gone = incoming.end
        await read_frames(incoming.stream, Frames(), partial(receive, self.protocol), output)

    def _run(self, connection: Coroutine[Any, Any, None], finish: Callable[[], None] = lambda: None) -> None:
        """Serve one connection to its end. The process ends soon after it, whatever its threads still do.

        finish: called after it, for the last messages.
        """
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            try:
                with asyncio.Runner() as runner:
                    try:
                        runner.run(connection)
                    finally:
                        # Both the runner and the interpreter wait for threads, and one may wait without end,
                        # as for a disk that does not answer.
                        end_within(self.last_work, lambda: 0 if self.shut_down else 1)
            finally:
                finish()
                self.shutdown()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        self.shut_down = True
        # Keep the session: a message that arrives during the closing must not create another one.
        if (session := self.__dict__.get("session")) is not None:
            await session.close()
