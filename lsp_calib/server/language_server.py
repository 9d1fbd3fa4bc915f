"""The connection to one editor. Imports here delay the answer to `initialize`: keep them few."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.io_ import StdoutWriter
from pygls.lsp.server import LanguageServer

from lsp_calib import __version__
from lsp_calib import settings as settings_module
from lsp_calib.errors import SettingsError
from lsp_calib.inference.engines import open_engine
from lsp_calib.server.clients import traits_of
from lsp_calib.server.framing import Frames, read_frames
from lsp_calib.server.messages import receive, take
from lsp_calib.server.protocol import CalibProtocol, has_inline_completion
from lsp_calib.server.stdio import open_input

if TYPE_CHECKING:
    from lsp_calib.inference.engine import Engine, StateListener
    from lsp_calib.server.session import Session
    from lsp_calib.server.tcp import TcpChoice
    from lsp_calib.server.text import CalibDocument


# Seconds for the last messages to reach a client over TCP.
_FLUSH_SECONDS = 2.0


_NOT_TRUSTED = (
    "lspCalib.trusted is ignored: some editors take such settings from a workspace as well, which may not "
    "choose files, servers or how a model is loaded. Set them in your config.toml. `lsp-calib serve "
    "--trust-editor` is for an editor that takes them from you alone."
)


class CalibServer(LanguageServer):
    """One connection to one editor."""

    protocol: CalibProtocol

    def __init__(self, command_line: settings_module.Trusted, *, trusts_editor: bool = False) -> None:
        super().__init__(
            "lsp-calib",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=CalibProtocol,
        )
        self.command_line = command_line
        self._trusts_editor = trusts_editor
        self.initial_settings = settings_module.Settings()
        self.settings = self.initial_settings
        self.trusted = settings_module.Trusted()
        self.problems: list[str] = []
        self.settings_request: asyncio.Future[Any] | None = None
        self.client_traits = traits_of(None)
        self.make_engine: Callable[[StateListener], Engine] = self._open_engine
        self.shut_down = False
        self.over_tcp = False
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The services behind the features; created when first needed, after the answer to `initialize`."""
        if self._session is None:
            from lsp_calib.server.session import Session

            self._session = Session(self)
        return self._session

    def open_document(self, uri: str) -> CalibDocument | None:
        """The document, None unless it is open: no handler reads from disk behind the editor's back."""
        # pygls keeps documents by their names without percent escapes.
        document: CalibDocument | None = self.workspace.text_documents.get(unquote(uri))
        return document

    def show_result(self, text: str) -> None:
        """Show what a command has answered, where the editor does not."""
        if self.client_traits.drops_results:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))

    def open_documents(self) -> list[CalibDocument]:
        """All open documents, in the order in which they were opened."""
        documents: list[CalibDocument] = list(self.workspace.text_documents.values())
        return documents

    def on_initialize(self, params: types.InitializeParams, capabilities: types.ServerCapabilities) -> None:
        """Resolve the settings and, with them, the capabilities offered to this client."""
        self.client_traits = traits_of(params.client_info.name if params.client_info else None)
        options = params.initialization_options
        named = None
        if isinstance(options, dict):
            # A token authenticates TCP clients; over standard input it has no meaning.
            options = {key: value for key, value in options.items() if key != "token"}
            named = options.get("trusted")
        self.initial_settings, problems = settings_module.parse(options)
        self.settings = self.initial_settings
        if self.over_tcp and named is not None:
            problems.append(settings_module.NOT_TRUSTED_OVER_TCP)
            named = None
        elif named and not self._trusts_editor:
            # Kate, Zed and Sublime Text merge what a checkout says into these options.
            problems.append(_NOT_TRUSTED)
            named = None
        editor, more = settings_module.parse_trusted(named)
        try:
            self.trusted, still_more = settings_module.resolve_trusted(self.command_line, editor)
        except SettingsError as error:
            # Nothing works without a state folder: fail `initialize`, so that the editor shows the reason.
            raise JsonRpcException(str(error), types.LSPErrorCodes.RequestFailed.value) from error
        self.problems = problems + more + still_more
        if self.settings.completion is False or (
            self.settings.completion == "auto" and has_inline_completion(params.capabilities)
        ):
            capabilities.completion_provider = None

    def _open_engine(self, on_state: StateListener) -> Engine:
        choice = settings_module.engine_choice(self.trusted, self.settings)
        return open_engine(choice, on_state)

    def start_io(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Serve one client over standard input and output, until it disconnects."""
        self.protocol.set_writer(StdoutWriter(stdout or sys.stdout.buffer))
        # A client that has disconnected cannot receive an error.
        with contextlib.suppress(BrokenPipeError, KeyboardInterrupt, SystemExit):
            try:
                asyncio.run(self._serve(stdin or sys.stdin.buffer))
            finally:
                self.shutdown()  # type: ignore[no-untyped-call]

    async def _serve(self, stdin: BinaryIO) -> None:
        await read_frames(open_input(stdin), Frames(), partial(receive, self.protocol))

    def serve_tcp(self, choice: TcpChoice) -> None:
        """Serve the first client that presents the token, until it disconnects. Raises SettingsError."""
        from lsp_calib.server.tcp import make_token

        self.over_tcp = True
        token = make_token(choice.token_file)
        with contextlib.suppress(BrokenPipeError, KeyboardInterrupt, SystemExit):
            try:
                asyncio.run(self._serve_tcp(choice, token))
            finally:
                self.shutdown()  # type: ignore[no-untyped-call]

    async def _serve_tcp(self, choice: TcpChoice, token: str) -> None:
        from lsp_calib.server.tcp import Listener, announce

        listener = Listener(token, choice)
        announce(await listener.open(), token, choice.token_file)
        client = await listener.client()
        self.protocol.set_writer(client.writer)
        try:
            take(self.protocol, client.first)
            await read_frames(client.reader, client.frames, partial(receive, self.protocol))
        finally:
            listener.close()
            client.writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await client.writer.wait_closed()

    async def close(self) -> None:
        self.shut_down = True
        # Keep the session: a message that arrives during the closing must not create another one.
        if self._session is not None:
            await self._session.close()
