"""An editor in miniature that speaks to a real server, and looks at what is on disk.

The server is a process and speaks over stdio, or runs on a thread of the test and speaks over a socket: the
same program but for its start, its end, and what a process has once, such as limits and signals.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from lsprotocol import types
from pygls.io_ import run_async
from pygls.lsp.client import LanguageClient as PlainClient
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import register_lsp_features
from scripted_server import Replace, make_server
from server_here import ServerHere

from lsp_calib.server.app import CalibServer
from lsp_calib.values import ModelIdentity

URI = "file:///project/module.py"
MODEL = ModelIdentity("scripted", "Q0", "5c" * 32)
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("scripted_server.py")
FORK_SERVER = Path(__file__).with_name("fork_server.py")
# Seconds. Nothing here takes long: an event that has not happened by then never will.
PATIENCE = 60.0
# What a workspace can set.
WORKSPACE = ("languages", "exclude", "inlineCompletion", "inlineCompletion.enabled")


@functools.cache
def _converter() -> Any:
    converter = default_converter()

    def action(value: Any, _: object) -> types.Command | types.CodeAction:
        # By default each code action is read as a command, with its own command as text.
        kind = types.Command if isinstance(value.get("command"), str) else types.CodeAction
        read: types.Command | types.CodeAction = converter.structure(value, kind)
        return read

    either = types.Command | types.CodeAction
    converter.register_structure_hook_func(lambda kind: kind == either, action)
    return converter


class Client(LanguageClient):
    """pytest-lsp's client, which checks messages against its capabilities and keeps all complaints."""

    def __init__(self) -> None:
        super().__init__(converter_factory=_converter)
        register_lsp_features(self)
        self.complaints: list[str] = []
        self.stderr = b""
        self.statuses: list[Any] = []
        self.configurations_asked = 0
        self.diagnostics_pushed = 0
        self._draining: asyncio.Task[None] | None = None

        @self.feature("lsp-calib/status")
        def status(_params: Any) -> None:
            self.statuses.append(_params)

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The process of a server that is one; of another its `stdin`, `returncode` and `wait` alone."""
        assert self._server is not None
        return self._server

    def cut(self) -> None:
        """End the server, however little it expects it."""
        if isinstance(self._server, ServerHere):
            self._server.cut()
        else:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    def hang_up(self) -> None:
        """End the server's input, as an editor does that dies."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def report_server_error(self, error: Exception, source: Any) -> None:
        if "Parse" not in getattr(source, "__name__", ""):
            self.complaints.append(f"{getattr(source, '__name__', source)}: {error}")

    async def start_io(self, cmd: str, *args: Any, **kwargs: Any) -> None:
        await PlainClient.start_io(self, cmd, *args, **kwargs)
        self._draining = asyncio.create_task(self._drain())

    async def start_here(
        self,
        make: Callable[[Replace], CalibServer],
        patch: pytest.MonkeyPatch,
        variables: Mapping[str, str],
        folder: Path,
    ) -> None:
        """Start a server on a thread of this process, which gets its environment and working folder.

        patch: undone after its end.
        """
        for name in os.environ.keys() - variables.keys() - {"PYTEST_CURRENT_TEST"}:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        mine, its = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=mine)
        self.protocol.set_writer(writer)
        server = self._server = ServerHere(make, its, writer, self._hear, patch)  # type: ignore[assignment]
        self._async_tasks += [
            asyncio.create_task(self._read(reader)),
            asyncio.create_task(self._server_exit()),
        ]
        server.start()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        # An answer to a server that is gone by then ends the reading as well, unlike one into a pipe.
        with contextlib.suppress(ConnectionError):
            await run_async(self._stop_event, reader, self.protocol, None, self.report_server_error)

    async def gone(self) -> int:
        """The exit code of the server, once it has ended and all its output is read."""
        code = await asyncio.wait_for(self.process.wait(), PATIENCE)
        if self._draining is not None:
            await self._draining
        await self.stop()
        return code

    def _hear(self, said: str) -> None:
        self.stderr += said.encode()

    async def _drain(self) -> None:
        assert self.process.stderr is not None
        while chunk := await self.process.stderr.read(65536):
            self.stderr += chunk


@attrs.define
class Journal:
    """What happened to the engine."""

    path: Path

    def read(self, event: str | None = None) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        entries = [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]
        return [entry for entry in entries if event in (None, entry["event"])]

    async def until(self, event: str, n: int = 1) -> list[dict[str, Any]]:
        """The entries of this kind, as soon as there are `n`."""
        await until(lambda: len(self.read(event)) >= n, f"{n} × {event} in the journal")
        return self.read(event)


class Editor:
    """One connection. Lines and characters count from 0, characters in the client's units."""

    def __init__(self, client: Client, home: Path, journal: Journal) -> None:
        self.client = client
        self.home = home
        self.engine = journal
        self.initialized: types.InitializeResult | None = None
        self._version = 1

    @property
    def server(self) -> types.ServerCapabilities:
        assert self.initialized is not None
        return self.initialized.capabilities

    @property
    def messages(self) -> list[str]:
        return [message.message for message in self.client.messages]

    def open(self, text: str, uri: str = URI, language: str = "python") -> None:
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, start: tuple[int, int], end: tuple[int, int], text: str, uri: str = URI) -> None:
        """Replace a range."""
        span = types.Range(types.Position(*start), types.Position(*end))
        self._change(types.TextDocumentContentChangePartial(span, text), uri=uri)

    def changes(
        self, changes: Sequence[tuple[tuple[int, int], tuple[int, int], str]], uri: str = URI
    ) -> None:
        """Replace several ranges, with one message."""
        self._change(
            *(
                types.TextDocumentContentChangePartial(
                    types.Range(types.Position(*start), types.Position(*end)), text
                )
                for start, end, text in changes
            ),
            uri=uri,
        )

    def insert(self, line: int, character: int, text: str, uri: str = URI) -> None:
        self.change((line, character), (line, character), text, uri)

    def replace_all(self, text: str, uri: str = URI) -> None:
        self._change(types.TextDocumentContentChangeWholeDocument(text), uri=uri)

    def save(
        self,
        uri: str = URI,
        reason: types.TextDocumentSaveReason | None = types.TextDocumentSaveReason.Manual,
    ) -> None:
        """reason: None: as from an editor that says nothing before a save."""
        name = types.TextDocumentIdentifier(uri)
        if reason is not None:
            self.client.text_document_will_save(types.WillSaveTextDocumentParams(name, reason))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(name))

    def close(self, uri: str = URI) -> None:
        name = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(name))

    def cursor(self, line: int, character: int, uri: str = URI) -> None:
        """Say where the cursor is."""
        position = {"line": line, "character": character}
        self.client.protocol.notify("lsp-calib/cursor", {"textDocument": {"uri": uri}, "position": position})

    async def inline(
        self,
        line: int,
        character: int,
        uri: str = URI,
        request_id: str | None = None,
        *,
        by_hand: bool = False,
        selected: types.SelectedCompletionInfo | None = None,
    ) -> types.InlineCompletionList | None:
        kinds = types.InlineCompletionTriggerKind
        kind = kinds.Invoked if by_hand else kinds.Automatic
        params = types.InlineCompletionParams(
            context=types.InlineCompletionContext(kind, selected),
            text_document=types.TextDocumentIdentifier(uri),
            position=types.Position(line, character),
        )
        sent = self.client.protocol.send_request_async(
            types.TEXT_DOCUMENT_INLINE_COMPLETION, params, request_id
        )
        return await asyncio.wait_for(sent, PATIENCE)

    async def items(
        self, line: int, character: int, uri: str = URI, **how: Any
    ) -> Sequence[types.InlineCompletionItem]:
        """The items at a place. None of them takes old ghost text away; null would leave it."""
        answer = await self.inline(line, character, uri, **how)
        assert answer is not None
        return answer.items

    async def suggestion(self, line: int, character: int, uri: str = URI) -> dict[str, Any]:
        """The suggestion object of the only inline completion at this place."""
        (suggestion,) = suggestions(await self.items(line, character, uri))
        return suggestion

    async def complete(
        self, line: int, character: int, uri: str = URI, *, invoked: bool = False
    ) -> types.CompletionList:
        params = types.CompletionParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        if invoked:
            params.context = types.CompletionContext(types.CompletionTriggerKind.Invoked)
        answer = await asyncio.wait_for(self.client.text_document_completion_async(params), PATIENCE)
        assert isinstance(answer, types.CompletionList)
        return answer

    async def menu(self, line: int, character: int, uri: str = URI) -> types.CompletionList:
        """The menu once it has an item. It waits for the model for a moment alone: editors ask again."""
        deadline = time.monotonic() + PATIENCE
        while not (answer := await self.complete(line, character, uri)).items:
            assert time.monotonic() < deadline, "waited in vain for an item in the menu"
            await asyncio.sleep(0.01)
        return answer

    async def hover(self, line: int, character: int, uri: str = URI) -> types.Hover | None:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        return await asyncio.wait_for(self.client.text_document_hover_async(params), PATIENCE)

    async def hovered(self, line: int, character: int, uri: str = URI) -> types.MarkupContent:
        """What a hover shows, which there is."""
        hover = await self.hover(line, character, uri)
        assert hover is not None
        assert isinstance(hover.contents, types.MarkupContent)
        return hover.contents

    async def actions(
        self, line: int, character: int, uri: str = URI, context: types.CodeActionContext | None = None
    ) -> dict[str, types.CodeAction]:
        """The code actions at a place, by title."""
        place = types.Position(line, character)
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri),
            types.Range(place, place),
            context or types.CodeActionContext([]),
        )
        answer = await asyncio.wait_for(self.client.text_document_code_action_async(params), PATIENCE)
        return {one.title: one for one in answer or [] if isinstance(one, types.CodeAction)}

    async def lenses(self, uri: str = URI) -> list[types.CodeLens] | None:
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        answer = await asyncio.wait_for(self.client.text_document_code_lens_async(params), PATIENCE)
        return None if answer is None else list(answer)

    def apply_edits(
        self, *, refuses: bool = False, late: bool = False, says_nothing: bool = False
    ) -> list[types.TextEdit]:
        """From now on apply the edits that the server asks for; returns the list of those applied.

        late: the server hears of the change after the answer, as from editors that collect changes.
        """
        applied: list[types.TextEdit] = []

        @self.client.feature(types.WORKSPACE_APPLY_EDIT)
        def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult | None:
            edits = [(uri, edit) for uri, each in (params.edit.changes or {}).items() for edit in each]
            for change in params.edit.document_changes or []:
                assert isinstance(change, types.TextDocumentEdit)
                assert change.text_document.version == self._version
                edits += [(change.text_document.uri, one) for one in change.edits]  # type: ignore[misc]
            for uri, edit in () if refuses else edits:
                applied.append(edit)
                tell = functools.partial(self._replace, edit, uri)
                asyncio.get_running_loop().call_later(0.05, tell) if late else tell()
            return None if says_nothing else types.ApplyWorkspaceEditResult(applied=not refuses)

        return applied

    async def pull(self, uri: str = URI) -> list[types.Diagnostic]:
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
        report = await asyncio.wait_for(self.client.text_document_diagnostic_async(params), PATIENCE)
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        return list(report.items)

    async def command(self, name: str, *arguments: Any) -> Any:
        params = types.ExecuteCommandParams(f"lsp-calib.{name}", list(arguments))
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), PATIENCE)

    async def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = await self.command("status")
        return answer

    def pushed(self, uri: str = URI) -> list[types.Diagnostic]:
        return list(self.client.diagnostics.get(uri, []))

    def cancel(self, request_id: str) -> None:
        self.client.cancel_request(types.CancelParams(request_id))

    def configure(self, settings: Any, *, push: bool = False) -> None:
        """Change the settings and notify the server; with their values if `push`."""
        self.client.set_configuration(settings, section="lspCalib")
        sent = {"lspCalib": settings} if push else None
        params = types.DidChangeConfigurationParams(settings=sent)
        self.client.workspace_did_change_configuration(params)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The result of a query to the feedback store on disk."""
        path = self.home / "feedback.db"
        if not path.exists():
            return []
        connection = sqlite3.connect(path, timeout=5)
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # the file is there, the first transaction is not
                return []
            raise
        finally:
            connection.close()

    def labels(self) -> dict[str, str]:
        """How each suggestion got its label, by id."""
        return dict(self.rows("SELECT suggestion_id, how FROM labels"))

    async def later(self, seconds: float) -> None:
        """So many seconds pass, by the clock of a script with `clock`."""
        await self.client.protocol.send_request_async("test/later", {"seconds": seconds})

    async def settled(self, n: int = 1) -> dict[str, str]:
        await until(lambda: len(self.labels()) >= n, f"{n} labels")
        return self.labels()

    async def saved(self, n: int = 1) -> dict[str, str]:
        """The labels after a save, as soon as there are `n`."""
        self.save()
        return await self.settled(n)

    async def stored(self, query: str) -> list[tuple[Any, ...]]:
        """The result of a query, once all that was done before is written."""
        await self.in_order()
        return self.rows(query)

    async def in_order(self) -> None:
        """Wait until the server has handled all earlier messages and finished its writes."""
        await self.status()
        await self.command("rejected", {"id": "0" * 16})

    async def leave(self) -> int:
        """Shut down and exit as an editor does. Returns the exit code."""
        await asyncio.wait_for(self.client.shutdown_async(None), PATIENCE)
        self.client.exit(None)
        return await self.client.gone()

    def _replace(self, edit: types.TextEdit, uri: str) -> None:
        self._change(types.TextDocumentContentChangePartial(edit.range, edit.new_text), uri=uri)

    def _change(self, *changes: types.TextDocumentContentChangeEvent, uri: str) -> None:
        self._version += 1
        name = types.VersionedTextDocumentIdentifier(version=self._version, uri=uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(name, list(changes)))


class Notebook:
    """A notebook in an editor, with the messages that VS Code's client sends for it.

    cells: the code or the text of each, by its name; a cell of text has a name that begins with "text".
    """

    def __init__(
        self, editor: Editor, cells: Mapping[str, str], uri: str = "file:///project/book.ipynb"
    ) -> None:
        self.editor, self.uri = editor, uri
        self.order = list(cells)
        self.version = 1
        self.languages: dict[str, str] = {}
        book = types.NotebookDocument(
            uri, "jupyter-notebook", 1, [self.cell(name) for name in cells], metadata={"kernel": {"a": [1]}}
        )
        opened = [self._item(name, text) for name, text in cells.items()]
        editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(book, opened))

    def cell_uri(self, name: str) -> str:
        return f"vscode-notebook-cell:{self.uri.removeprefix('file://')}#{name}"

    def cell(self, name: str, order: int | None = None) -> types.NotebookCell:
        kind = types.NotebookCellKind.Markup if name.startswith("text") else types.NotebookCellKind.Code
        summary = None if order is None else types.ExecutionSummary(order, True)
        return types.NotebookCell(kind, self.cell_uri(name), {"tags": ["a"]}, summary)

    def change(self, name: str, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        span = types.Range(types.Position(*start), types.Position(*end))
        self.version += 1
        named = types.VersionedTextDocumentIdentifier(self.version, self.cell_uri(name))
        change = types.NotebookDocumentCellContentChanges(
            named, [types.TextDocumentContentChangePartial(span, text)]
        )
        self._send(types.NotebookDocumentCellChanges(text_content=[change]))

    def insert(self, name: str, line: int, character: int, text: str) -> None:
        self.change(name, (line, character), (line, character), text)

    def run(self, name: str, order: int) -> None:
        self._send(types.NotebookDocumentCellChanges(data=[self.cell(name, order)]))

    def put(self, at: int, name: str, text: str, language: str = "python") -> None:
        """A new cell."""
        self.order.insert(at, name)
        self.languages[name] = language
        array = types.NotebookCellArrayChange(at, 0, [self.cell(name)])
        self._structure(array, did_open=[self._item(name, text)])

    def remove(self, name: str) -> None:
        at = self.order.index(name)
        self.order.remove(name)
        gone = [types.TextDocumentIdentifier(self.cell_uri(name))]
        self._structure(types.NotebookCellArrayChange(at, 1), did_close=gone)

    def move(self, name: str, to: int) -> None:
        self.order.remove(name)
        self.order.insert(to, name)
        array = types.NotebookCellArrayChange(0, len(self.order), [self.cell(one) for one in self.order])
        self._structure(array)

    def save(self) -> None:
        self.editor.client.notebook_document_did_save(
            types.DidSaveNotebookDocumentParams(types.NotebookDocumentIdentifier(self.uri))
        )

    def close(self) -> None:
        cells = [types.TextDocumentIdentifier(self.cell_uri(name)) for name in self.order]
        self.editor.client.notebook_document_did_close(
            types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(self.uri), cells)
        )

    def _item(self, name: str, text: str) -> types.TextDocumentItem:
        language = self.languages.get(name, "markdown" if name.startswith("text") else "python")
        return types.TextDocumentItem(self.cell_uri(name), language, 1, text)

    def _structure(self, array: types.NotebookCellArrayChange, **more: Any) -> None:
        structure = types.NotebookDocumentCellChangeStructure(array, **more)
        self._send(types.NotebookDocumentCellChanges(structure=structure))

    def _send(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        named = types.VersionedNotebookDocumentIdentifier(self.version, self.uri)
        change = types.NotebookDocumentChangeEvent(cells=cells)
        self.editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(named, change))


def suggestions(items: Sequence[types.InlineCompletionItem]) -> list[dict[str, Any]]:
    """The suggestion objects of inline completions."""
    commands = [item.command for item in items]
    return [dict(command.arguments[0]) for command in commands if command and command.arguments]


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition holds. Fails if it does not within the time limit."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


def capabilities(
    editor: str = "plain",
    *,
    inline: bool = False,
    pull: bool = False,
    configuration: bool = False,
    encodings: list[str] | None = None,
    progress: bool = False,
    edits: bool = False,
    lenses: bool = False,
    notebooks: bool = False,
) -> types.ClientCapabilities:
    """The capabilities of an editor. "plain" declares only what the arguments ask for."""
    if editor == "plain":
        declared = types.ClientCapabilities()
    elif editor == "helix":
        declared = _helix()
    else:
        declared = client_capabilities(editor)
    document = declared.text_document or types.TextDocumentClientCapabilities()
    workspace = declared.workspace or types.WorkspaceClientCapabilities()
    declared = attrs.evolve(declared, text_document=document, workspace=workspace)
    if editor == "plain":
        kinds = [types.MarkupKind.Markdown, types.MarkupKind.PlainText]
        document.hover = types.HoverClientCapabilities(content_format=kinds)
        workspace.configuration = configuration
        declared.window = types.WindowClientCapabilities(work_done_progress=progress)
    if inline:
        document.inline_completion = types.InlineCompletionClientCapabilities(dynamic_registration=True)
    if pull:
        document.diagnostic = types.DiagnosticClientCapabilities()
        workspace.diagnostics = types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    if edits:
        workspace.apply_edit = True
        workspace.workspace_edit = types.WorkspaceEditClientCapabilities(document_changes=True)
        kinds = types.ClientCodeActionKindOptions(value_set=[types.CodeActionKind.RefactorRewrite])
        literals = types.ClientCodeActionLiteralOptions(kinds)
        document.code_action = types.CodeActionClientCapabilities(code_action_literal_support=literals)
    if lenses:
        workspace.code_lens = types.CodeLensWorkspaceClientCapabilities(refresh_support=True)
    if notebooks:
        synchronization = types.NotebookDocumentSyncClientCapabilities(execution_summary_support=True)
        declared.notebook_document = types.NotebookDocumentClientCapabilities(synchronization)
    if encodings is not None:
        kinds_ = [types.PositionEncodingKind(name) for name in encodings]
        declared.general = types.GeneralClientCapabilities(position_encodings=kinds_)
    return declared


def _helix() -> types.ClientCapabilities:
    """The relevant capabilities of Helix 25.01, of which pytest-lsp has no record."""
    return types.ClientCapabilities(
        workspace=types.WorkspaceClientCapabilities(
            configuration=True, workspace_folders=True, apply_edit=True
        ),
        text_document=types.TextDocumentClientCapabilities(
            completion=types.CompletionClientCapabilities(
                completion_item=types.ClientCompletionItemOptions(
                    snippet_support=True, insert_replace_support=True, deprecated_support=True
                )
            ),
            hover=types.HoverClientCapabilities(content_format=[types.MarkupKind.Markdown]),
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(version_support=True),
        ),
        window=types.WindowClientCapabilities(work_done_progress=True),
        general=types.GeneralClientCapabilities(
            position_encodings=[
                types.PositionEncodingKind.Utf8,
                types.PositionEncodingKind.Utf32,
                types.PositionEncodingKind.Utf16,
            ]
        ),
    )


def install_calibrator(home: Path, intercept: float = 0.0) -> Path:
    """Install a calibrator that returns the raw confidence: the log-probabilities decide the tier.

    intercept: another one does not quite believe it. Returns the file of the last one.
    """
    from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve
    from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
    from lsp_calib.calibration.calibrators.purpose import Purpose
    from lsp_calib.home import private_folder

    private_folder(home)
    for task, version in (("summary", "summary-bm25-1"), ("line", "line-prefix-1")):
        calibrator = Calibrator(
            purpose=Purpose(MODEL, version, task, "python"),
            curves=(Curve.of_measure("geometric-mean-first-4", 1.0, intercept),),
            raw_measure="geometric-mean-first-4",
            n=100,
            n_correct=50,
            source="personal",
            state="ready",
            created="2026-01-01",
        )
        file = CalibratorStore(home / "calibrators", home / "none").promote(calibrator)
    return file


def install_survival(home: Path) -> None:
    """A curve by which a line that does not end unchanged never survives."""
    from lsp_calib.calibration.calibrators.calibrator import Curve, write_document
    from lsp_calib.calibration.calibrators.line_curves import SURVIVAL, SurvivalCurve
    from lsp_calib.calibration.document import written
    from lsp_calib.home import private_folder

    private_folder(home)
    curve = SurvivalCurve(
        model=MODEL,
        prompt_version="line-prefix-1",
        n=100,
        n_survived=0,
        curves=(Curve.of_measure("total", 0.0, -100.0),),
    )
    write_document(home / "calibrators" / SURVIVAL / "scripted.json", written(curve))


def install_second(home: Path) -> None:
    """Calibrators of both windows, and a curve by which two answers that agree are as certain as both
    together; of two that differ the surer one is half a nat less sure than by itself, the other one three."""
    from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve, write_document
    from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
    from lsp_calib.calibration.calibrators.line_curves import SECOND, OfTwo, SecondOpinion
    from lsp_calib.calibration.calibrators.purpose import Purpose
    from lsp_calib.calibration.document import written
    from lsp_calib.home import private_folder

    private_folder(home)
    calibrator = Calibrator(
        purpose=Purpose(MODEL, "line-prefix-large-1", "line", "python"),
        curves=(Curve.of_measure("geometric-mean-first-4", 1.0, 0.0),),
        raw_measure="geometric-mean-first-4",
        n=100,
        n_correct=50,
        source="personal",
        state="ready",
        created="2026-01-01",
    )
    CalibratorStore(home / "calibrators", home / "none").promote(calibrator)
    curve = SecondOpinion(
        model=MODEL,
        prompt_version="line-prefix-1",
        other_version="line-prefix-large-1",
        agreed=OfTwo(10, 5, 0.0, 1.0, 1.0),
        chosen=OfTwo(10, 5, -0.5, 1.0, 0.0),
        rest=OfTwo(10, 5, -3.0, 1.0, 0.0),
    )
    write_document(home / "calibrators" / SECOND / "scripted.json", written(curve))


def install_curve(home: Path) -> None:
    """A curve by which a beginning is right as often as its tokens say."""
    from lsp_calib.calibration.calibrators.calibrator import Weighted
    from lsp_calib.calibration.calibrators.line_curves import NAMES, PREFIXES, PrefixCurve, TypedAlong
    from lsp_calib.calibration.document import written
    from lsp_calib.confidence.features import PREFIX_VERSION
    from lsp_calib.home import private_folder

    weights = {"total": 1.0}
    features = tuple(Weighted(name, 0.0, 1.0, weights.get(name, 0.0)) for name in NAMES)
    folder = home / "calibrators" / PREFIXES
    for one in (home, folder.parent, folder):
        private_folder(one)
    document = written(
        PrefixCurve(
            version=PREFIX_VERSION,
            model=MODEL,
            prompt_version="line-prefix-1",
            n=10,
            n_right=5,
            intercept=0.0,
            features=features,
            typed=TypedAlong(0.0, 0.0, 1.0, 10, 5),
        )
    )
    (folder / "line.json").write_text(json.dumps(document))


def command(script: Path, *, forked: bool = True) -> list[str]:
    """The command that starts a scripted server. forked: from a process with the imports, if possible."""
    if forked and hasattr(os, "fork"):
        return [sys.executable, "-I", "-S", str(FORK_SERVER), _fork_server(), "--start", str(script)]
    return [sys.executable, str(PROGRAM), str(script)]


@functools.cache
def _fork_server() -> str:
    """The socket of this process's fork server, which ends with it."""
    folder = tempfile.mkdtemp(prefix="lsp-calib-fork-")
    path = f"{folder}/socket"
    server = subprocess.Popen(
        [sys.executable, str(FORK_SERVER), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def end() -> None:
        for stream in (server.stdin, server.stdout):
            assert stream is not None
            stream.close()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return path


def environment(home: Path) -> dict[str, str]:
    """The environment of a server of this checkout, without the variables of the user that runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "LSP_CALIB_HOME": str(home), "HOME": str(home)}


def of_user(options: Any) -> Any:
    """`initializationOptions` of a client that tells the user's own settings apart from a workspace's."""
    if not isinstance(options, dict):
        return options
    free = {key: one for key, one in options.items() if key in WORKSPACE}
    own = {key: one for key, one in options.items() if key not in (*WORKSPACE, "trusted")}
    return {**free, "trusted": {**own, **options.get("trusted", {})}}


async def start(
    folder: Path,
    script: Mapping[str, Any],
    *,
    client: types.ClientCapabilities | None = None,
    options: Any = None,
    plain: bool = False,
    settings: Any = None,
    calibrated: bool = True,
    env: Mapping[str, str] | None = None,
    initialized: bool = True,
    forked: bool = True,
    here: pytest.MonkeyPatch | None = None,
    folders: Sequence[str] = (),
    root: str | None = None,
    name: str | None = None,
) -> Editor:
    """An editor connected to its own server.

    options: the user's settings, sent as VS Code's client does (`of_user`), or as they are if `plain`.
    settings: what the editor answers to `workspace/configuration`. env: more for the server's environment.
    calibrated: with the calibrator of `install_calibrator`. initialized: with the handshake done. forked: see
    `command`. here: it is a thread of this process, for which this is patched. folders: of the workspace, as
    URIs. root: that of an editor that knows of no folders. name:
    what the editor calls itself.
    """
    home = folder / "home"
    journal = Journal(folder / "journal.jsonl")
    file = folder / "script.json"
    script = {"journal": str(journal.path), **script}
    file.write_text(json.dumps(script), "utf-8")
    if calibrated:
        install_calibrator(home)
    if script.get("survival"):
        install_survival(home)
    if script.get("second"):
        install_second(home)
    connection = Client()
    if settings is not None:
        connection.set_configuration(settings, section="lspCalib")
    variables = environment(home) | dict(env or {})
    if here is None:
        await connection.start_io(*command(file, forked=forked), env=variables, cwd=folder)
    else:
        make = functools.partial(make_server, json.loads(file.read_text("utf-8")))
        await connection.start_here(make, here, variables, folder)
    editor = Editor(connection, home, journal)
    connection.capabilities = client or capabilities(inline=True)
    params = types.InitializeParams(
        capabilities=connection.capabilities,
        process_id=os.getpid(),
        initialization_options=options if plain else of_user(options),
        client_info=types.ClientInfo(name) if name else None,
        root_uri=root,
        workspace_folders=[types.WorkspaceFolder(uri, uri.rpartition("/")[2]) for uri in folders] or None,
    )
    editor.initialized = await asyncio.wait_for(connection.initialize_async(params), PATIENCE)
    if initialized:
        connection.initialized(types.InitializedParams())
    return editor
