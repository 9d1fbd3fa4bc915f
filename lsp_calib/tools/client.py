"""A client that acts like an editor: stdio, the capabilities of VS Code, documents that change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from lsp_calib import __version__
from lsp_calib.errors import LspCalibError

T = TypeVar("T")
# Seconds to wait for requests that do not need a model.
_PROMPT = 20.0

CAPABILITIES = types.ClientCapabilities(
    general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16]),
    window=types.WindowClientCapabilities(
        work_done_progress=True, show_message=types.ShowMessageRequestClientCapabilities()
    ),
    workspace=types.WorkspaceClientCapabilities(
        configuration=True,
        workspace_folders=True,
        execute_command=types.ExecuteCommandClientCapabilities(),
        diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True),
    ),
    text_document=types.TextDocumentClientCapabilities(
        synchronization=types.TextDocumentSyncClientCapabilities(will_save=True, did_save=True),
        inline_completion=types.InlineCompletionClientCapabilities(),
        hover=types.HoverClientCapabilities(
            content_format=[types.MarkupKind.Markdown, types.MarkupKind.PlainText]
        ),
        diagnostic=types.DiagnosticClientCapabilities(),
        publish_diagnostics=types.PublishDiagnosticsClientCapabilities(),
    ),
)


# It obeys the settings that the tools send as trusted: they are those of the user, resolved already.
SERVER = (sys.executable, "-P", "-m", "lsp_calib", "serve", "--trust-editor")


class Editor(LanguageClient):
    """A client of one server process. Every wait ends: on the answer, the server's end, or a timeout.

    messages: the messages that the server showed to the user. percentages: of its reported progress.
    state, state_message, model: from its last `lsp-calib/status`. refreshes: how often it requested that
    diagnostics be pulled again. takes_cursor: whether the server wants to know where the cursor rests.
    sent_at, received_at: times of `time.perf_counter` at which a message was last sent and bytes were last
    received; this client's own work on messages is not between them.
    """

    def __init__(self) -> None:
        super().__init__("lsp-calib-demo", __version__)
        self.messages: list[str] = []
        self.percentages: list[float] = []
        self.state, self.state_message = "", ""
        self.model: str | None = None
        self.refreshes = 0
        self.takes_cursor = False
        self.exit_code: int | None = None
        self.sent_at = self.received_at = 0.0
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        self._said: deque[str] = deque(maxlen=8)
        self._draining: asyncio.Task[None] | None = None
        self._register()

    @property
    def pid(self) -> int | None:
        """The id of the server's process, None before its start."""
        return self._server.pid if self._server is not None else None

    async def start(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, own_group: bool = False
    ) -> None:
        """Start the server. Raises LspCalibError if there is no such program.

        own_group: start it so that Ctrl-C in the terminal does not reach it.
        """
        # Then we can end it in order.
        group = 0 if own_group and os.name == "posix" else None
        try:
            await self.start_io(*command, env=dict(env), cwd=cwd, process_group=group)
        except OSError as error:
            raise LspCalibError(f"{command[0]} could not be started: {error}.") from error
        assert self._server is not None
        assert self._server.stderr is not None
        self._watch_the_clock(self._server)
        self._draining = asyncio.create_task(self._drain(self._server.stderr))

    async def open_session(self, folder: Path, options: Mapping[str, Any]) -> types.InitializeResult:
        """Send `initialize` and `initialized`; returns the server's capabilities."""
        uri = folder.as_uri()
        result: types.InitializeResult = await self.ask(
            types.INITIALIZE,
            types.InitializeParams(
                process_id=os.getpid(),
                client_info=types.ClientInfo("lsp-calib demo", __version__),
                root_uri=uri,
                workspace_folders=[types.WorkspaceFolder(uri, folder.name)],
                capabilities=CAPABILITIES,
                initialization_options=dict(options),
            ),
        )
        experimental: Any = result.capabilities.experimental or {}
        self.takes_cursor = bool(experimental.get("lspCalib", {}).get("cursor"))
        self.tell(types.INITIALIZED, types.InitializedParams())
        return result

    async def ask(self, method: str, params: object, seconds: float = _PROMPT) -> Any:
        """Send a request; returns its result. Raises LspCalibError on failure, server end or timeout."""
        self._check_alive(method)
        return await self._within(self.protocol.send_request_async(method, params), method, seconds)

    def tell(self, method: str, params: object) -> None:
        """Send a notification. Raises LspCalibError if the server has ended."""
        self._check_alive(method)
        self.protocol.notify(method, params)

    def ask_later(self, method: str, params: object) -> Callable[[], None]:
        """Send a request whose answer, including an error, is ignored.

        Returns a function that cancels it (`$/cancelRequest`). Raises LspCalibError if the server has ended.
        """
        self._check_alive(method)
        request = uuid.uuid4().hex
        answer = self.protocol.send_request(method, params, msg_id=request)
        # Retrieve an error; otherwise it would be reported as never retrieved.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return lambda: self.tell(types.CANCEL_REQUEST, types.CancelParams(request))

    async def command(self, name: str, *arguments: object, seconds: float = _PROMPT) -> Any:
        """The result of `workspace/executeCommand`."""
        params = types.ExecuteCommandParams(command=name, arguments=list(arguments))
        return await self.ask(types.WORKSPACE_EXECUTE_COMMAND, params, seconds)

    async def until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until the server's notifications make `condition` true.

        what: name of the wait in the LspCalibError that is raised after `seconds` or if the server ends.
        """

        async def watch() -> None:
            while not condition():
                self._news.clear()
                await self._news.wait()

        await self._within(watch(), what, seconds)

    async def quit(self) -> int:
        """Send `shutdown` and `exit`; returns the process's exit code."""
        await self.ask(types.SHUTDOWN, None)
        self.tell(types.EXIT, None)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), _PROMPT)
        if self.exit_code is None:
            raise LspCalibError(f"The server did not end within {_PROMPT:.0f} s of `exit`.")
        return self.exit_code

    async def close(self) -> None:
        """End the server in any state."""
        server = self._server
        if server is not None and server.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                server.kill()
        if server is not None:
            stop: Callable[[], Awaitable[None]] = self.stop
            await stop()
        if self._draining is not None:
            await self._draining

    def _watch_the_clock(self, server: asyncio.subprocess.Process) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        write, feed = server.stdin.write, server.stdout.feed_data

        def sent(data: bytes) -> None:
            self.sent_at = time.perf_counter()
            write(data)

        def received(data: bytes) -> None:
            self.received_at = time.perf_counter()
            feed(data)

        server.stdin.write = sent  # type: ignore[method-assign, assignment]
        server.stdout.feed_data = received  # type: ignore[method-assign, assignment]

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        self.exit_code = server.returncode
        self._gone.set()

    async def _within(self, work: Awaitable[T], what: str, seconds: float) -> T:
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not self._gone.is_set():
                return task.result()
            if self._gone.is_set():
                raise self._death(what)
            raise LspCalibError(f"The server did not finish {what} within {seconds:.0f} s.")
        except JsonRpcException as error:
            raise LspCalibError(f"The server answered {what} with an error: {error}.") from error
        except RuntimeError as error:
            # When the process ends, pygls fails pending requests just before it calls `server_exit`.
            raise self._death(what) from error
        finally:
            for one in (task, gone):
                if not one.done():
                    one.cancel()
                elif not one.cancelled():
                    one.exception()

    def _check_alive(self, what: str) -> None:
        if self._gone.is_set():
            raise self._death(what)

    def _death(self, what: str) -> LspCalibError:
        code = self._server.returncode if self._server is not None else None
        words = "".join(f"\n  {line}" for line in self._said)
        return LspCalibError(
            f"The server ended (exit code {code}) before it finished {what}."
            + (f" Its last words:{words}" if words else "")
        )

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        """Read standard error, so that the server never blocks on it; its last lines are kept."""
        while line := await stream.readline():
            self._said.append(line.decode("utf-8", "replace").rstrip()[:300])

    def _register(self) -> None:
        on: Callable[[str], Callable[[Callable[[Any], object]], object]] = self.feature

        @on(types.WINDOW_SHOW_MESSAGE)
        def show_message(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

        @on("lsp-calib/status")
        def status(params: Any) -> None:
            self.state, self.state_message, self.model = params.state, params.message, params.model
            self._news.set()

        @on(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
        def create_progress(_params: types.WorkDoneProgressCreateParams) -> None:
            return

        @on(types.PROGRESS)
        def progress(params: types.ProgressParams) -> None:
            value = params.value
            share = value.get("percentage") if isinstance(value, dict) else None
            if share is not None:
                self.percentages.append(float(share))
            self._news.set()

        @on(types.WORKSPACE_CONFIGURATION)
        def configuration(params: types.ConfigurationParams) -> list[dict[str, Any]]:
            return [{} for _ in params.items]

        @on(types.WORKSPACE_DIAGNOSTIC_REFRESH)
        def refresh(_params: None) -> None:
            self.refreshes += 1
            self._news.set()


class Document:
    """A file that is open in the editor. Lines and columns (in code points) count from 0."""

    def __init__(self, editor: Editor, path: Path, language: str) -> None:
        self.uri = path.as_uri()
        self.path = path
        self.version = 1
        self.lines = path.read_text("utf-8").split("\n")
        self._editor = editor
        self._language = language
        self.open()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def identifier(self) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri)

    def position(self, line: int, column: int) -> types.Position:
        """The place in UTF-16 code units, the default of the protocol."""
        return types.Position(line, len(self.lines[line][:column].encode("utf-16-le")) // 2)

    def look(self, line: int, column: int) -> None:
        """Move the cursor to a place. Nothing is sent to a server that does not want to know."""
        if self._editor.takes_cursor:
            params = {"textDocument": {"uri": self.uri}, "position": self.position(line, column)}
            self._editor.tell("lsp-calib/cursor", params)

    def replace(self, line: int, start: int, end: int, text: str) -> None:
        """Replace columns `start` to `end` of a line with `text`."""
        self.edit((line, start), (line, end), text)

    def edit(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        """Replace the text between two places (line, column) with `text`."""
        span = types.Range(self.position(*start), self.position(*end))
        self.lines[start[0] : end[0] + 1] = (
            self.lines[start[0]][: start[1]] + text + self.lines[end[0]][end[1] :]
        ).split("\n")
        self.tell_changes([types.TextDocumentContentChangePartial(range=span, text=text)])

    def tell_changes(self, changes: list[types.TextDocumentContentChangeEvent]) -> None:
        """Send changes that were made in `lines`."""
        self.version += 1
        identifier = types.VersionedTextDocumentIdentifier(uri=self.uri, version=self.version)
        self._editor.tell(
            types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(identifier, changes)
        )

    def open(self) -> None:
        """Open the file in the editor, with the text that it has there."""
        item = types.TextDocumentItem(self.uri, self._language, self.version, self.text)
        self._editor.tell(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))

    def close(self) -> None:
        """Close the file in the editor."""
        self._editor.tell(types.TEXT_DOCUMENT_DID_CLOSE, types.DidCloseTextDocumentParams(self.identifier))

    async def complete(
        self, line: int, column: int, seconds: float, *, by_hand: bool = False
    ) -> types.InlineCompletionItem | None:
        """The first inline completion at this place, None if there is none. by_hand: the user asked."""
        params = self._completion_at(line, column, by_hand=by_hand)
        answer = await self._editor.ask(types.TEXT_DOCUMENT_INLINE_COMPLETION, params, seconds)
        items = answer.items if isinstance(answer, types.InlineCompletionList) else answer
        return next(iter(items or ()), None)

    def complete_later(self, line: int, column: int) -> Callable[[], None]:
        """Ask for an inline completion without waiting for it; returns a function that cancels it."""
        return self._editor.ask_later(
            types.TEXT_DOCUMENT_INLINE_COMPLETION, self._completion_at(line, column)
        )

    def _completion_at(
        self, line: int, column: int, *, by_hand: bool = False
    ) -> types.InlineCompletionParams:
        kinds = types.InlineCompletionTriggerKind
        return types.InlineCompletionParams(
            context=types.InlineCompletionContext(kinds.Invoked if by_hand else kinds.Automatic),
            text_document=self.identifier,
            position=self.position(line, column),
        )

    def save(self, reason: types.TextDocumentSaveReason = types.TextDocumentSaveReason.Manual) -> None:
        """Save the file."""
        self.will_save(reason)
        self.did_save()

    def will_save(self, reason: types.TextDocumentSaveReason) -> None:
        params = types.WillSaveTextDocumentParams(self.identifier, reason)
        self._editor.tell(types.TEXT_DOCUMENT_WILL_SAVE, params)

    def did_save(self) -> None:
        self.path.write_text(self.text, "utf-8")
        self._editor.tell(types.TEXT_DOCUMENT_DID_SAVE, types.DidSaveTextDocumentParams(self.identifier))

    async def diagnostics(self) -> list[types.Diagnostic]:
        """All diagnostics of the document, pulled."""
        answer = await self._editor.ask(
            types.TEXT_DOCUMENT_DIAGNOSTIC, types.DocumentDiagnosticParams(text_document=self.identifier)
        )
        return list(answer.items)

    async def hover(self, line: int, column: int, seconds: float) -> types.Hover | None:
        params = types.HoverParams(self.identifier, self.position(line, column))
        answer: types.Hover | None = await self._editor.ask(types.TEXT_DOCUMENT_HOVER, params, seconds)
        return answer


def suggestion_of(item: types.InlineCompletionItem | None) -> dict[str, Any] | None:
    """The suggestion object that an item carries."""
    carried = item.command.arguments if item and item.command else None
    return dict(carried[0]) if carried and isinstance(carried[0], dict) else None
