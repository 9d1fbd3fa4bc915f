"""The connection to an editor: its messages as pygls reads them, and what the user is shown.

Imports here delay the answer to `initialize`: keep them few.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import attrs
from cattrs import Converter
from lsprotocol import types
from pygls import uris
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest, JsonRpcServerNotInitialized
from pygls.lsp.server import LanguageServer
from pygls.progress import Progress
from pygls.protocol import LanguageServerProtocol, default_converter
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage
from pygls.protocol.language_server import lsp_method

from lsp_calib import __version__
from lsp_calib.badges import BADGES
from lsp_calib.errors import LspCalibError
from lsp_calib.server.documents import CalibWorkspace
from lsp_calib.settings import Settings, engine_choice

if TYPE_CHECKING:
    from lsp_calib.inference.engine import Engine, StateListener
    from lsp_calib.server.documents import CalibDocument

logger = logging.getLogger(__name__)
Clock = Callable[[], float]
"""Seconds."""


@attrs.frozen
class Pace:
    """Seconds without the user. summaries: then the user reads, thinks or is away, and may ask for what is on
    the screen. refit: nobody is typing; it takes a second or two of a processor. watch: after the first of
    several labels, which often come together, as on a save. edit: what was changed in a line is complete.
    """

    summaries: float = 5.0
    refit: float = 20.0
    watch: float = 1.0
    edit: float = 1.0


# These make sense for open documents alone, and are ignored for others.
_ABOUT_OPEN = {
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_WILL_SAVE,
    types.TEXT_DOCUMENT_DID_SAVE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_SAVE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
}
# Of every kind, with all cells: their order, kinds and languages change.
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithNotebook(notebook="*")], save=True
)


class WithoutParameters(logging.Filter):
    """Removes the parameters of pygls' records: messages of the client, with the text of documents."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("pygls"):
            record.msg = str(record.msg).partition("%")[0].partition("\n")[0].rstrip(" :'\"") + "."
            record.args = ()
            if record.exc_info and record.exc_info[0] is not None:
                # An error's text may quote the wrong value; its type does not.
                record.msg += f" ({record.exc_info[0].__name__})"
                record.exc_info = None
                record.exc_text = None
        return True


def make_converter() -> Converter:
    """pygls' converter. It keeps values of enumerations that only a newer version of the protocol has."""
    converter: Converter = default_converter()  # type: ignore[no-untyped-call]

    def value_of(value: Any, kind: type[Any]) -> Any:
        try:
            return kind(value)
        except ValueError:
            if not issubclass(kind, enum.Enum):
                raise
            return value

    # Enumerations are found by the type of their values.
    converter.register_structure_hook(str, value_of)
    converter.register_structure_hook(int, value_of)
    return converter


class CalibProtocol(LanguageServerProtocol):
    """pygls' protocol. A message that cannot be read costs itself alone: a request is answered with an error,
    a notification is logged. What is no message at all raises ValueError and ends the connection."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """The object as it is: pygls calls this for each object inside a message as well."""
        return data

    def handle_message(self, message: Any) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise ValueError("not a message of JSON-RPC 2.0")
        method, identity = message.get("method"), message.get("id")
        if method is None and "error" not in message:
            message.setdefault("result", None)  # some clients leave it out
        try:
            if isinstance(identity, list | dict):
                raise JsonRpcInvalidRequest("The id of a request is a number or a text.")
            if self._workspace is None and method not in (None, types.INITIALIZE, types.EXIT):
                raise JsonRpcServerNotInitialized(f"{method} was sent before `initialize`.")
            if self._workspace is not None and method == types.INITIALIZE:  # the open documents would go
                raise JsonRpcInvalidRequest("`initialize` was sent before.")
            read = self._read(message)
        except JsonRpcException as error:
            if method is None:
                failure = types.ResponseError(JsonRpcInvalidRequest.CODE, "The response is invalid.")
                self._handle_response(identity if isinstance(identity, str | int) else "", None, failure)
            elif identity is not None:
                self._send_response(identity, error=error.to_response_error())
            else:
                logger.warning("Ignored %.200s of the editor: %s", method, error.message)
            return
        if method is None or self._is_of_open_document(method, read.params):
            super().handle_message(read)

    def _read(self, message: dict[str, Any]) -> Any:
        """Raises JsonRpcException."""
        method = message.get("method")
        if method is None or self.get_message_type(method) is not None:
            return super().structure_message(message)
        # A method of our own. The converter would create a class for each object in its parameters.
        params = message.get("params")
        if "id" in message:
            return JsonRPCRequestMessage(message["id"], method, "2.0", params)
        return JsonRPCNotification(method, "2.0", params)

    def _handle_response(
        self, msg_id: Any, result: Any = None, error: types.ResponseError | None = None
    ) -> None:
        """An answer that nobody waits for any more is dropped: pygls would raise InvalidStateError."""
        future = self._request_futures.get(msg_id)
        if future is not None and future.done():
            del self._request_futures[msg_id]
        else:
            super()._handle_response(msg_id, result, error)

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        if isinstance(msg_id, str | int):  # pygls would look up whatever it is
            super()._handle_cancel_notification(msg_id)

    def _is_of_open_document(self, method: str, params: Any) -> bool:
        """False for a notification about a document or a notebook that is not open.

        Replaces the document's URI by the one with which it was opened: clients escape URIs in several ways.
        """
        for kind in ("text_document", "notebook_document"):
            named = getattr(params, kind, None)
            if named is not None and self._workspace is not None:
                documents: Mapping[str, Any] = getattr(self._workspace, f"{kind}s")
                document = documents.get(unquote(named.uri))
                if document is None:
                    return method not in _ABOUT_OPEN
                named.uri = document.uri
        return True

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        self._workspace = CalibWorkspace(
            self.workspace.root_uri,
            self._server._text_document_sync_kind,
            _folders(params),
            self.workspace.position_encoding,
        )
        capabilities = result.capabilities
        if not pulls_diagnostics(params.capabilities):
            capabilities.diagnostic_provider = None
        capabilities.experimental = {"lspCalib": {"badges": BADGES, "cursor": True, "nextEdit": True}}
        self._server.on_initialize(params, capabilities)  # type: ignore[attr-defined]
        return result

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *arguments: Any) -> Generator[Any, Any, None]:
        # Cancelled handlers leave this dictionary at once, while pygls still goes through it.
        for msg_id, future in list(self._request_futures.items()):
            if msg_id != self.msg_id and not future.done():
                future.cancel()
        yield from super().lsp_shutdown(*arguments)

    def _execute_handler(
        self,
        msg_id: Any,
        handler: Any,
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super()._execute_handler(msg_id, handler, partial(self._finished, msg_id, callback), args, kwargs)

    def _finished(self, msg_id: Any, callback: Callable[[Any], None], future: Any) -> None:
        """Release a handler that has ended: pygls keeps the futures of all notifications, and an error's
        traceback keeps the document that the handler worked on."""
        if self._request_futures.get(msg_id) is future:
            del self._request_futures[msg_id]
        try:
            callback(future)
        finally:
            if not future.cancelled() and (error := future.exception()) is not None:
                error.__traceback__ = None

    def _run_generator(self, future: Any, *, gen: Generator[Any, Any, Any], result_future: Any) -> None:
        # A part is cancelled at the end of the connection; pygls would raise that in the event loop.
        if future is not None and future.cancelled():
            gen.close()
            result_future.cancel()
        else:
            super()._run_generator(future, gen=gen, result_future=result_future)

    def _send_handler_result(self, future: Any, *, msg_id: Any) -> None:
        """Answer a request. An expected error is an answer with its message; pygls would log it with a
        traceback, as a fault of the server."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, LspCalibError):
            code = types.LSPErrorCodes.RequestFailed.value
            self._send_response(msg_id, error=types.ResponseError(code, str(error)))
        else:
            super()._send_handler_result(future, msg_id=msg_id)


def _folders(params: types.InitializeParams) -> Sequence[types.WorkspaceFolder]:
    """The workspace folders of a client; its root if it knows of no folders, such as lsp-mode and vim-lsp."""
    if params.workspace_folders is not None:
        return params.workspace_folders
    root = params.root_uri or (uris.from_fs_path(params.root_path) if params.root_path else None)
    if not root:
        return ()
    return (types.WorkspaceFolder(root, unquote(root).rstrip("/").rpartition("/")[2]),)


def has_inline_completion(client: types.ClientCapabilities) -> bool:
    return get_capability(client, "text_document.inline_completion") is not None


def pulls_diagnostics(client: types.ClientCapabilities) -> bool:
    """Whether the client pulls diagnostics and can be asked to pull again; otherwise they are pushed."""
    pulls = get_capability(client, "text_document.diagnostic") is not None
    return pulls and bool(get_capability(client, "workspace.diagnostics.refresh_support"))


def is_of_kind(kind: types.CodeActionKind | str | None, wanted: types.CodeActionKind | str) -> bool:
    """Whether a kind of code action is the wanted one or a part of it; all are parts of the empty one."""
    one, other = (str(getattr(name, "value", name)) for name in (kind, wanted))
    return not other or f"{one}.".startswith(f"{other}.")


@attrs.frozen
class ClientTraits:
    """What some editors do and their capabilities do not tell, by the name that each gives itself.

    draws_labels_alone: the completion menu shows label and kind of an item, and its detail only beside the
    selected one. drops_results: the user sees nothing of what a command answers. hover_patience: seconds
    that a hover waits for its summary.
    """

    draws_labels_alone: bool = False
    drops_results: bool = False
    hover_patience: float = 3.0


KNOWN = {
    # Tried with 25.07 (tests/editors/helix).
    "helix": ClientTraits(draws_labels_alone=True, drops_results=True),
    # It shows hovers once all servers of a buffer have answered.
    "neovim": ClientTraits(hover_patience=0.15),
}
"""By `clientInfo.name`, in small letters."""


class Connection(LanguageServer):
    """The editor's settings and documents, and messages to it.

    settings: those in force now. problems: sentences about wrong settings, not yet shown to the user.
    clock: Unix seconds. pace: when idle work is done.
    """

    protocol: CalibProtocol

    def __init__(self) -> None:
        super().__init__(
            "lsp-calib",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=_NOTEBOOKS,
            protocol_cls=CalibProtocol,
            converter_factory=make_converter,
        )
        self.settings = Settings()
        self.problems: list[str] = []
        self.client_traits = ClientTraits()
        self.make_engine: Callable[[StateListener], Engine] = self._open_engine
        self.clock: Clock = time.time
        self.pace = Pace()

    def _open_engine(self, on_state: StateListener) -> Engine:
        from lsp_calib.inference import open_engine

        return open_engine(engine_choice(self.settings), on_state)

    def open_document(self, uri: str) -> CalibDocument | None:
        """The document, None unless it is open: no handler reads from disk behind the editor's back."""
        # pygls keeps documents by their names without percent escapes.
        document: CalibDocument | None = self.workspace.text_documents.get(unquote(uri))
        return document

    def open_documents(self) -> list[CalibDocument]:
        """All open documents, in the order in which they were opened."""
        documents: list[CalibDocument] = list(self.workspace.text_documents.values())
        return documents

    def folder_of(self, document: CalibDocument) -> str:
        """The address of the workspace folder of a document, "" if it is in none."""
        from lsp_calib.workspace_files import folder_of

        return folder_of(document.file, tuple(self.workspace.folders))

    def workspace_edit(
        self, edits: Iterable[tuple[CalibDocument, list[types.TextEdit]]]
    ) -> types.WorkspaceEdit:
        """Edits of documents as they are now, in the form that the client takes."""
        if not get_capability(self.client_capabilities, "workspace.workspace_edit.document_changes"):
            return types.WorkspaceEdit(changes={document.uri: each for document, each in edits})
        versioned = types.OptionalVersionedTextDocumentIdentifier
        return types.WorkspaceEdit(
            document_changes=[
                types.TextDocumentEdit(versioned(uri=document.uri, version=document.version), list(each))
                for document, each in edits
            ]
        )

    def show_result(self, text: str) -> None:
        """Show what a command has answered, where the editor does not."""
        if self.client_traits.drops_results:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))

    def window_show_message(self, params: types.ShowMessageParams) -> None:
        from lsp_calib.characters import shown

        # A message may repeat a name from a file, a model or a workspace.
        super().window_show_message(types.ShowMessageParams(params.type, shown(params.message)))


class UserMessages:
    """Shows each error and warning once, until `forget`; no message after `stop`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._shown: set[str] = set()
        self._stopped = False

    def error(self, message: str) -> None:
        self._once([message], types.MessageType.Error)

    def warn(self, *messages: str) -> None:
        """Show those of the messages that are new, one a line."""
        self._once(messages, types.MessageType.Warning)

    def inform(self, message: str) -> None:
        """Show a message, also if it was shown before."""
        if not self._stopped:
            self._connection.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))

    def log(self, sentence: str) -> None:
        """A line in the editor's log; no message that interrupts."""
        logger.info("%s", sentence)
        if not self._stopped:
            self._connection.window_log_message(types.LogMessageParams(types.MessageType.Info, sentence))

    def forget(self) -> None:
        """From now on the same errors and warnings are shown again."""
        self._shown.clear()

    def stop(self) -> None:
        self._stopped = True

    def _once(self, messages: Iterable[str], kind: types.MessageType) -> None:
        new = [message for message in dict.fromkeys(messages) if message not in self._shown]
        if new and not self._stopped:
            self._shown.update(new)
            self._connection.window_show_message(types.ShowMessageParams(kind, "\n".join(new)))


class ProgressBar:
    """`window/workDoneProgress` while something goes on.

    work_done: the client's progress bars; None if it shows none.
    """

    def __init__(self, work_done: Progress | None) -> None:
        self._work_done = work_done
        self._bar: asyncio.Task[str | None] | None = None

    def show(self, message: str, percentage: int | None = None) -> None:
        """Show how far it is. It begins with the first call."""
        if self._work_done is None:
            return
        if self._bar is None:
            self._bar = asyncio.create_task(self._begin(self._work_done, message, percentage))
        elif self._bar.done() and (token := self._bar.result()) is not None:
            self._work_done.report(
                token, types.WorkDoneProgressReport(message=message, percentage=percentage)
            )

    def end(self, message: str | None = None) -> None:
        """It is over, if it has begun. message: how it ended."""
        if self._bar is not None:
            self._bar.add_done_callback(partial(self._end, message))
        self._bar = None

    async def _begin(self, work_done: Progress, message: str, percentage: int | None) -> str | None:
        """The token of a bar that is shown now; None if the client refuses, which then gets none any more."""
        token = str(uuid.uuid4())
        try:
            await work_done.create_async(token)
        except Exception:  # noqa: BLE001 - whatever the client answers
            self._work_done = None
            return None
        start = types.WorkDoneProgressBegin(title="lsp-calib", message=message, percentage=percentage)
        work_done.begin(token, start)
        return token

    def _end(self, message: str | None, bar: asyncio.Task[str | None]) -> None:
        token = None if bar.cancelled() else bar.result()
        if token is not None and self._work_done is not None:
            self._work_done.end(token, types.WorkDoneProgressEnd(message=message))
            self._work_done.tokens.pop(token, None)
