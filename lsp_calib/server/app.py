"""Serving one editor, from `initialize` to `shutdown`. Imports here delay the answer to `initialize`: keep
them few."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.io_ import StdinAsyncReader, run_async

from lsp_calib import home
from lsp_calib.server.messages import KNOWN, Connection, has_inline_completion
from lsp_calib.settings import Settings, in_workspace, parse, resolve

if TYPE_CHECKING:
    from lsp_calib.server.session import Session

logger = logging.getLogger(__name__)

SECTION = "lspCalib"
_NOT_TRUSTED = (
    "lspCalib.trusted is ignored: some editors take such settings from a workspace as well, which may not "
    "choose files, servers or how a model is loaded. Set them in your config.toml. `lsp-calib serve "
    "--trust-editor` is for an editor that takes them from you alone."
)


def end_within(seconds: float, code: Callable[[], int]) -> threading.Timer:
    """End this process in so many seconds, whatever its threads do, unless the timer is cancelled."""
    timer = threading.Timer(seconds, lambda: os._exit(code()))
    timer.daemon = True
    timer.start()
    return timer


class _Output:
    """Standard output as pygls writes to it. Once the client has gone, what is written is dropped."""

    def __init__(self, stdout: BinaryIO) -> None:
        self._descriptor = stdout.fileno()  # not its buffer, which would be flushed at exit

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        """Nothing: answers may be under way at `exit`."""


class CalibServer(Connection):
    """A connection that is served, and the features of its session."""

    def __init__(self, command_line: Settings, *, trusts_editor: bool = False) -> None:
        super().__init__()
        self.command_line = command_line
        self._trusts_editor = trusts_editor
        # Those of the start, beside which a workspace may set some.
        self.initial_settings = self.settings
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
        if params.client_info:
            self.client_traits = KNOWN.get(params.client_info.name.casefold(), self.client_traits)
        options = params.initialization_options
        named = options.get("trusted") if isinstance(options, dict) else None
        problems: list[str] = []
        if named and not self._trusts_editor:
            # Kate, Zed and Sublime Text merge what a checkout says into these options.
            problems.append(_NOT_TRUSTED)
            named = None
        editor, more = parse(named)
        # Nothing works without a state folder: its error is the answer, so that the editor shows the reason.
        own, still_more = resolve(self.command_line, editor)
        self.settings, wrong = in_workspace(options, own)
        self.initial_settings = self.settings
        self.problems = wrong + problems + more + still_more
        if self.settings.completion is False or (
            self.settings.completion == "auto" and has_inline_completion(params.capabilities)
        ):
            capabilities.completion_provider = None

    def start_io(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Serve one client until it disconnects or sends what is no message. The process ends soon after it,
        whatever its threads still do.

        stdout: unbuffered so far; its descriptor is written to.
        """
        self.protocol.set_writer(_Output(stdout or sys.stdout.buffer))
        with contextlib.suppress(KeyboardInterrupt, SystemExit), asyncio.Runner() as runner:
            try:
                runner.run(self._serve(stdin or sys.stdin.buffer))
            finally:
                # Both the runner and the interpreter wait for threads, and one may wait without end, as for a
                # disk that does not answer.
                end_within(self.last_work, lambda: 0 if self.shut_down else 1)
        self.shutdown()  # type: ignore[no-untyped-call]

    async def _serve(self, stdin: BinaryIO) -> None:
        def give_up(error: Exception, _: object) -> None:
            raise error

        try:
            reader = StdinAsyncReader(stdin, self.thread_pool)
            quiet = logging.Logger("without a handler", logging.CRITICAL)
            await run_async(threading.Event(), reader, self.protocol, quiet, give_up)
        except Exception as error:  # noqa: BLE001 - reading cannot go on behind it
            logger.error(
                "The editor broke the base protocol (%s); the connection is closed. Restart the server.",
                type(error).__name__,
            )

    async def close(self) -> None:
        self.shut_down = True
        # Keep the session: a message that arrives during the closing must not create another one.
        if (session := self.__dict__.get("session")) is not None:
            await session.close()

    async def fetch_settings(self) -> bool:
        """Request the settings from the client and apply them. False if it gives none."""
        if not get_capability(self.client_capabilities, "workspace.configuration"):
            return False
        params = types.ConfigurationParams(items=[types.ConfigurationItem(section=SECTION)])
        request = asyncio.ensure_future(self.workspace_configuration_async(params))
        self.settings_asked += 1
        number = self.settings_asked
        try:
            answer = await asyncio.wait_for(asyncio.shield(request), self.settings_within)
        except TimeoutError:
            self.problems.append(
                f"The editor did not give its settings within {self.settings_within:g} seconds. They hold as "
                "soon as they come; until then the settings so far stay in force."
            )
            request.add_done_callback(lambda late: self._apply_late(number, late))
            return False
        except Exception as error:  # noqa: BLE001 - whatever the client answers, the server keeps the settings it has
            if number < self.settings_asked:
                return True
            self.problems.append(
                f"The editor did not give its settings ({error}). The settings so far stay in force."
            )
            return False
        self._apply_answer(number, answer)
        return True

    def apply_settings(self, raw: object) -> None:
        """Take settings that the client has pushed."""
        self.settings_answered = self.settings_asked
        self._apply(raw)

    def _apply_late(self, number: int, request: asyncio.Future[Any]) -> None:
        if request.cancelled() or request.exception() is not None:
            return  # the connection has ended
        if self._apply_answer(number, request.result()):
            self.session.settings_changed()

    def _apply_answer(self, number: int, answer: Any) -> bool:
        """Answers may come in another order than the requests: that to the newest request holds."""
        if number < self.settings_answered:
            return False
        self.settings_answered = number
        self._apply(answer[0] if answer else None)
        return True

    def _apply(self, raw: object) -> None:
        # A setting that is missing returns to its value at the start, also if an earlier change had set it.
        self.settings, problems = in_workspace(raw, self.initial_settings)
        self.problems += problems


def register(server: CalibServer) -> None:
    """Handle the messages of the server's life."""

    @server.feature(types.INITIALIZED)
    async def initialized(ls: CalibServer, _params: types.InitializedParams) -> None:
        await ls.fetch_settings()
        ls.session.start()
        # Not before: it takes milliseconds.
        await asyncio.to_thread(home.close_memory)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configuration_changed(ls: CalibServer, params: types.DidChangeConfigurationParams) -> None:
        if not await ls.fetch_settings():
            pushed = params.settings.get(SECTION) if isinstance(params.settings, dict) else None
            if pushed is not None:
                ls.apply_settings(pushed)
        ls.session.settings_changed()

    @server.feature(types.SHUTDOWN)
    async def shutdown(ls: CalibServer, _params: None) -> None:
        seconds = ls.last_work
        try:
            # Begun at once, not in a task: `exit` may be the next message.
            async with asyncio.timeout(seconds):
                await ls.close()
        except TimeoutError:
            logger.error("Work that was under way did not end within %g s; it is given up.", seconds)
