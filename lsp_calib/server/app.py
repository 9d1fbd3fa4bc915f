"""Serving one editor: from `initialize` to `shutdown`, and who hears of what happens in between, in which
order. Imports here delay the answer to `initialize`: keep them few."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import sys
import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.io_ import StdinAsyncReader, run_async

from lsp_calib import home
from lsp_calib.server.messages import KNOWN, Connection, ProgressBar, UserMessages, has_inline_completion
from lsp_calib.settings import Settings, in_workspace, parse, resolve, tier_policy

if TYPE_CHECKING:
    from lsp_calib.completion.context import Cursor
    from lsp_calib.inference.engine import LoadedModel
    from lsp_calib.values import CalibratorRef

logger = logging.getLogger(__name__)
T = TypeVar("T")

SECTION = "lspCalib"
_NOT_TRUSTED = (
    "lspCalib.trusted is ignored: some editors take such settings from a workspace as well, which may not "
    "choose files, servers or how a model is loaded. Set them in your config.toml. `lsp-calib serve "
    "--trust-editor` is for an editor that takes them from you alone."
)


def end_within(seconds: float, code: int) -> None:
    """End this process in so many seconds, whatever its threads do."""
    timer = threading.Timer(seconds, lambda: os._exit(code))
    timer.daemon = True
    timer.start()


class _Output:
    """Standard output as pygls writes to it. Once the client has gone, what is written is dropped."""

    def __init__(self, stdout: BinaryIO) -> None:
        self._descriptor = stdout.fileno()  # not its buffer, which would be flushed at exit

    def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # the client has made it so: half a message would end the session
                select.select([], [self._descriptor], [])
            except OSError:
                return

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
        self._settings_asked = self._settings_answered = 0
        # Seconds for work that is under way when the connection ends, such as writes to the feedback store.
        self.last_work = 10.0
        # Seconds for which the start waits for the editor's settings.
        self.settings_within = 5.0
        self.shut_down = False

    @cached_property
    def session(self) -> Session:
        """The services behind the features; created when first needed, after the answer to `initialize`."""
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
            except KeyboardInterrupt:
                self.last_work = min(self.last_work, 1.0)  # the thread that reads never ends
                raise
            finally:
                # Both the runner and the interpreter wait for threads, and one may wait without end, as for a
                # disk that does not answer.
                end_within(self.last_work, 0 if self.shut_down else 1)
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
        if (session := self.__dict__.get("session")) is not None:
            session.rest()

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
        self._settings_asked += 1
        number = self._settings_asked
        try:
            answer = await self.workspace_configuration_async(params)
        except Exception as error:  # noqa: BLE001 - whatever the client answers, the server keeps the settings it has
            self.problems.append(
                f"The editor did not give its settings ({error}). The settings so far stay in force."
            )
            return False
        # Answers may come in another order than the requests: that to the newest request holds.
        if number > self._settings_answered:
            self._settings_answered = number
            self.apply_settings(answer[0] if answer else None)
        return True

    def apply_settings(self, raw: object) -> None:
        # A setting that is missing returns to its value at the start, also if an earlier change had set it.
        self.settings, problems = in_workspace(raw, self.initial_settings)
        self.problems += problems


class Session:
    """The services behind the features, and the order in which each hears of what happens.

    They are constructed after the answer to `initialize`: their imports are slow.
    """

    def __init__(self, connection: Connection) -> None:
        from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
        from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
        from lsp_calib.server.admission import Admission
        from lsp_calib.server.completion import Completions
        from lsp_calib.server.documents import Documents
        from lsp_calib.server.model import Model, Status
        from lsp_calib.server.next_edit import NextEdits
        from lsp_calib.server.recorder import Recorder, ReportPage
        from lsp_calib.server.refits import Learning
        from lsp_calib.server.summaries import Summaries
        from lsp_calib.server.tracking import Diagnostics, SuggestionTracking

        self._connection = connection
        self._closed = False
        pace = connection.pace
        shows_bars = get_capability(connection.client_capabilities, "window.work_done_progress")
        work_done = connection.work_done_progress if shows_bars else None
        self.messages = messages = UserMessages(connection)
        self._estimator = estimator = ConfidenceEstimator(
            CalibratorStore.open(),
            tier_policy(connection.settings),
            self.calibrator_changed,
            measure=connection.settings.measure,
        )
        estimator.overrides = connection.settings.overrides
        self.admission = admission = Admission(connection, self.paused)
        self.status = status = Status(connection, estimator)
        self.model = model = Model(
            connection, estimator, status, messages, ProgressBar(work_done), self.loaded
        )
        self.recorder = recorder = Recorder(connection, messages)
        self.documents = Documents()
        self.suggestions = tracking = SuggestionTracking(recorder, self.settled, connection.clock)
        self.diagnostics = Diagnostics(connection, tracking)
        self.learning = Learning(
            connection,
            model,
            estimator,
            recorder,
            status=status,
            messages=messages,
            pace=pace,
            calibrator_changed=self.calibrator_changed,
        )
        self.completions = Completions(
            connection,
            model,
            estimator,
            admission=admission,
            status=status,
            tracking=tracking,
            recorder=recorder,
            progress=ProgressBar(work_done),
            asked=self.asked,
        )
        self.summaries = Summaries(
            connection,
            model,
            estimator,
            admission=admission,
            status=status,
            tracking=tracking,
            recorder=recorder,
            pace=pace,
            settled=self.settled,
        )
        self.next_edits = NextEdits(
            *(connection, estimator),
            admission=admission,
            tracking=tracking,
            recorder=recorder,
            settled=self.settled,
        )
        self.report_page = ReportPage(
            connection, estimator, recorder, messages, latency=status.latency, folder=home.state_dir()
        )

    def start(self) -> None:
        """Report faults in the settings and load the model, in the background."""
        self.admission.settings_known.set()
        self.settings_changed()
        self.model.load()

    # What editors do with documents. A cell of a notebook is one, too.

    def opened(self, uri: str) -> None:
        if (document := self._connection.open_document(uri)) is not None:
            self.documents.opened(document)
            told = self.completions.opened, self.next_edits.opened, self.summaries.opened
            _tell(document, self.suggestions.opened, *told)

    def changed(self, uri: str) -> None:
        if (document := self._connection.open_document(uri)) is None:
            return
        change = self.documents.changed(document)
        _tell(change, self.completions.ahead.changed)  # what it evaluates is of another place now
        # The tracking first: it knows what the change has inserted.
        inserted = self.suggestions.changed(change)
        for inside, line in inserted:
            self.completions.inserted(inside, line)
        accepted = {line for inside, line in inserted if inside == change.document.uri}
        _tell(change, partial(self.next_edits.changed, inserted=accepted))
        if self.summaries.expected:
            _tell(change, self.summaries.changed)
        # The user is at work: what is done in pauses waits.
        self.summaries.ahead.wait()
        self.learning.when_idle.wait()

    def saved(self, uri: str) -> None:
        self.next_edits.saved()
        if (save := self.documents.saved(uri)) is not None:
            self.suggestions.saved(save)

    def closed(self, uri: str) -> None:
        if (closed := self.documents.closed(uri)) is not None:
            told = self.completions.closed, self.next_edits.closed, self.summaries.closed
            _tell(closed, self.suggestions.closed, *told)

    def cursor(self, uri: str, position: types.Position) -> None:
        """The client says where its cursor is."""
        self.completions.ahead.told(uri, position)
        if (document := self._connection.open_document(uri)) is not None:
            self.next_edits.at(document.uri, document.place_of(position)[0])

    # What becomes of suggestions.

    def asked(self, uri: str, cursor: Cursor) -> None:
        """The user, or the editor, asks for a completion."""
        self.completions.ahead.asked(uri, cursor)
        self._estimator.reload()
        self.suggestions.requested(uri, cursor.own_line)
        self.next_edits.at(uri, cursor.own_line)
        self.summaries.place = uri, cursor.own_line
        self.summaries.ahead.wait()
        self.learning.when_idle.wait()

    def settled(self, labels: int) -> None:
        """So many new labels are recorded."""
        self.learning.settled(labels)

    # The state of the server.

    def loaded(self, model: LoadedModel) -> None:
        self._complain()
        self.learning.begin()  # perhaps labels are left from an earlier session
        self.completions.ahead.go_on()
        self.summaries.requests.loaded(model.identity)
        self.summaries.ahead.wait()

    def calibrator_changed(self, ref: CalibratorRef) -> None:
        """Another calibrator is in force."""
        self._complain()
        self.status.calibrator_changed(ref)
        self.completions.forget_replies()
        self.next_edits.calibrator_changed()
        self.summaries.requests.assess_again()

    def paused(self, message: str) -> None:
        """message: for how long, a sentence; "" once the pause is over."""
        if message:
            self.summaries.ahead.stop()
        else:
            self.summaries.ahead.wait()
        _tell(message, self.status.paused, self.completions.paused)

    def settings_changed(self) -> None:
        """Apply the settings in force now; they may be the same."""
        problems, self._connection.problems = self._connection.problems, []
        self.messages.warn(*problems)
        self.admission.settings_changed()
        self.completions.settings_changed()
        self.next_edits.settings_changed()

    def rest(self) -> None:
        """The connection has ended: begin no idle work any more, for which there are no threads."""
        self.completions.ahead.give_way()
        self.next_edits.stop()
        self.summaries.ahead.stop()
        self.learning.when_idle.stop()

    async def close(self) -> None:
        """Settle and store the suggestions and release the model. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        opened = [document.uri for document in self._connection.open_documents()]
        self.suggestions.close({uri: self.documents.remains(uri) for uri in opened})
        self.next_edits.finish()
        for one in (self.recorder, self.messages, self.learning, self.report_page):
            one.stop()
        self.admission.stop()
        self.status.close()
        self.model.stop()
        await self.learning.when_idle.close()
        await self.completions.close()
        await self.next_edits.close()
        await self.summaries.close()
        await self.model.engine.close()
        await self.recorder.close()

    def _complain(self) -> None:
        for complaint in self._estimator.complaints:
            self.messages.warn(complaint)


def _tell(happened: T, *acts: Callable[[T], object]) -> None:
    """A fault in one of them is logged, and keeps no other from its turn."""
    for act in acts:
        try:
            act(happened)
        except Exception:
            name = getattr(act, "func", act)
            logger.exception("%s has failed.", name.__qualname__)


def register(server: CalibServer) -> None:
    """Handle the messages of the server's life, those about documents and notebooks, and diagnostics that the
    client pulls."""

    @server.feature(types.INITIALIZED)
    async def initialized(ls: CalibServer, _params: types.InitializedParams) -> None:
        fetching = asyncio.create_task(ls.fetch_settings())
        _, late = await asyncio.wait({fetching}, timeout=ls.settings_within)
        if late:
            ls.problems.append(
                f"The editor did not give its settings within {ls.settings_within:g} seconds. They hold as "
                "soon as they come; until then the settings so far stay in force."
            )
        ls.session.start()
        # Not before: it takes milliseconds.
        await asyncio.to_thread(home.close_memory)
        if late and await fetching:
            ls.session.settings_changed()

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

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: CalibServer, params: types.DidOpenTextDocumentParams) -> None:
        ls.session.opened(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: CalibServer, params: types.DidChangeTextDocumentParams) -> None:
        ls.session.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_WILL_SAVE)
    def will_save(ls: CalibServer, params: types.WillSaveTextDocumentParams) -> None:
        ls.session.documents.save_begins(params.text_document.uri, params.reason)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: CalibServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.session.saved(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: CalibServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.session.closed(params.text_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_opened(ls: CalibServer, params: types.DidOpenNotebookDocumentParams) -> None:
        ls.session.completions.forget(params.notebook_document.uri)
        # The first cell last: there the user begins.
        for cell in reversed(params.cell_text_documents):
            ls.session.opened(cell.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def notebook_changed(ls: CalibServer, params: types.DidChangeNotebookDocumentParams) -> None:
        cells = params.change.cells
        if cells is None:
            return
        if cells.structure is not None:
            for one in cells.structure.did_close or ():
                ls.session.closed(one.uri)
            for cell in cells.structure.did_open or ():
                ls.session.opened(cell.uri)
        for text in cells.text_content or ():
            ls.session.changed(text.document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def notebook_saved(ls: CalibServer, params: types.DidSaveNotebookDocumentParams) -> None:
        for document in ls.open_documents():
            if document.notebook is not None and document.notebook.uri == params.notebook_document.uri:
                ls.session.saved(document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_closed(ls: CalibServer, params: types.DidCloseNotebookDocumentParams) -> None:
        for cell in params.cell_text_documents:
            ls.session.closed(cell.uri)
        ls.session.suggestions.notebook_closed(params.notebook_document.uri)
        ls.session.completions.forget(params.notebook_document.uri)

    options = types.DiagnosticOptions(
        identifier="lsp-calib", inter_file_dependencies=False, workspace_diagnostics=False
    )

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    def pull(
        ls: CalibServer, params: types.DocumentDiagnosticParams
    ) -> types.RelatedFullDocumentDiagnosticReport:
        found = ls.session.diagnostics.current(params.text_document.uri)
        return types.RelatedFullDocumentDiagnosticReport(items=found)
