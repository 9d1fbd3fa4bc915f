"""Summaries of one connection: made when asked for or when idle, inserted, reported, and shown as lenses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidRequest

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.errors import SettingsError
from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.inference.engine import EngineState
from lsp_calib.server.admission import Admission
from lsp_calib.server.documents import DocumentChanged, DocumentClosed
from lsp_calib.server.idle import Idle
from lsp_calib.server.messages import Connection
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.summary_requests import (
    ExampleIndex,
    SummaryRequests,
    Target,
    functions_of,
    parse,
)
from lsp_calib.server.text import CalibDocument
from lsp_calib.server.tracking import SuggestionTracking
from lsp_calib.server.user_messages import SummaryProgress
from lsp_calib.summarization.encoder import installed_encoder
from lsp_calib.summarization.insertion import Insertion, insertion
from lsp_calib.summarization.service import Summary, SummaryService
from lsp_calib.syntax import Function

# What keeps a summary from being inserted, for the user.
NONE_MADE = "The model gave no summary of this function."
CHANGED = "The function has changed while it was summarised. Try again."
NO_PLACE = "This function has documentation already, or no place for it."
REFUSED = "The editor did not apply the change."


def applies_edits(client: types.ClientCapabilities) -> bool:
    """Whether a client changes documents when it is asked to."""
    return bool(get_capability(client, "workspace.apply_edit"))


def _same(found: Sequence[Function], wanted: Function) -> Function | None:
    """The function with the same code, the nearest of several."""
    same = [one for one in found if (one.name, one.code) == (wanted.name, wanted.code)]
    return min(same, key=lambda one: abs(one.start - wanted.start), default=None)


def _answer(reason: str | None, summary: Summary | None = None) -> dict[str, Any]:
    suggestion = None if summary is None else summary.suggestion.to_wire()
    return {"applied": reason is None, "reason": reason, "suggestion": suggestion}


# Seconds: summaries that become known together are one refresh of the lenses.
_REFRESH = 0.2
# Functions for each place: about what is on a screen. A summary takes seconds of two cores.
MOST = 4
# Lines from the place beyond which a function is not on the screen.
NEAR = 60
# Characters of a document beyond which it is not parsed for something that nobody has asked for.
_LARGEST = 200_000


@attrs.define(eq=False, repr=False, slots=False)
class Summaries:
    """Has summaries made, shown as lenses and inserted, and follows what becomes of those that were inserted.

    When all is idle, those of the functions around the last place of the user are made, one after the other.
    """

    _connection: Connection
    _model: Model
    _estimator: ConfidenceEstimator
    _admission: Admission
    _status: Status
    _tracking: SuggestionTracking
    _recorder: Recorder
    _progress: SummaryProgress
    _idle: Idle
    _settled: Callable[[int], object]

    def __attrs_post_init__(self) -> None:
        self._expected: dict[str, tuple[Insertion, Summary]] = {}  # changes that the editor was asked to make
        self._reported: set[str] = set()
        self._hovered = False
        self._place: tuple[str, int] | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._examples = ExampleIndex(self._connection, self._admission)
        self.requests = SummaryRequests(
            SummaryService(self._model.engine, self._estimator, installed_encoder()),
            admission=self._admission,
            examples=self._examples,
            progress=self._progress,
            reload=self._estimator.reload,
            made=self._status.made,
            known_anew=self._known,
        )
        self._idle.run("summaries", self._make_ahead)

    def hovered(self, uri: str, line: int) -> None:
        """The user asks for a summary at a line: others are worth making ahead from now on."""
        self._hovered = True
        self.at(uri, line)

    def moved(self, uri: str, line: int) -> None:
        """The cursor is at a line. Some editors say so repeatedly."""
        if self._place != (uri, line):
            self.at(uri, line)

    async def insert(self, target: Target) -> dict[str, Any]:
        """Insert the summary of a function as its documentation: {applied, reason, suggestion}.

        It is made first unless it is known. Raises SettingsError if the editor cannot be asked for a change.
        """
        if not applies_edits(self._connection.client_capabilities):
            raise SettingsError(
                "This editor does not let a server change a document (workspace/applyEdit). "
                "Copy the summary from the hover instead."
            )
        uri, language = target.document.uri, target.language
        suggestion = await self.requests.of(target)
        summary = self.requests.known(target)
        if summary is None or suggestion is None:
            return _answer(NONE_MADE)
        # The document may have changed meanwhile, or be another object: closed, and opened again. A function
        # that only moved is found again.
        now = self._connection.open_document(uri)
        function = None if now is None else _same(functions_of(now), target.function)
        if now is None or function is None:
            return _answer(CHANGED)
        made = insertion(now.bare_lines, function, language, summary.suggestion.text)
        if made is None:
            return _answer(NO_PLACE, summary)
        self._expected[uri] = made, summary
        params = types.ApplyWorkspaceEditParams(self._edit(now, made), label="Insert summary")
        try:
            result = await self._connection.workspace_apply_edit_async(params)
        except JsonRpcInvalidRequest:
            # Some editors answer with null, against the protocol. The change itself tells what they did.
            return _answer(None, summary)
        if not result.applied:
            self._expected.pop(uri, None)
            return _answer(result.failure_reason or REFUSED, summary)
        return _answer(None, summary)

    async def report_wrong(self, document: CalibDocument, summary: Summary) -> None:
        """The user says that a summary is wrong: a label, on disk when this returns. Raises LspCalibError."""
        now, identity = time.time(), summary.suggestion.id
        self._tracking.drop(identity)
        self._reported.add(identity)
        self._recorder.summary_shown(document, summary, "", now)
        label = Label(identity, False, How.REPORTED, now)
        self._recorder.record(
            [Event(identity, EventKind.REJECTED, now), Event(identity, EventKind.SETTLED, now, label=label)]
        )
        await self._recorder.finish()
        self._settled(1)

    def is_reported(self, suggestion_id: str) -> bool:
        return suggestion_id in self._reported

    async def close(self) -> None:
        self._progress.stop()
        if self._refresh is not None:
            self._refresh.cancel()
        await self.requests.close()
        await self._examples.close()

    def at(self, uri: str, line: int) -> None:
        """The user is at a line, counted from 0."""
        self._place = uri, line
        self._idle.wait("summaries")

    def opened(self, document: CalibDocument) -> None:
        self._examples.opened(document)
        self.at(document.uri, 0)

    def closed(self, closed: DocumentClosed) -> None:
        uri = closed.uri
        self._examples.closed(uri)
        self._expected.pop(uri, None)
        if self._place is not None and self._place[0] == uri:
            self._place = None

    def changed(self, changed: DocumentChanged) -> None:
        """A document has changed: perhaps in the way that the editor was asked for."""
        # Some editors report changes only after a pause, when they have long answered.
        document, lines = changed.document, changed.lines
        made, summary = self._expected.pop(document.uri, (None, None))
        if made is None or summary is None:
            return
        if lines[made.line : made.line + len(made.lines)] == made.lines:
            self._recorder.summary_shown(document, summary, made.lines[0], time.time())
            self._tracking.made(document, made.places, summary.suggestion)

    def _edit(self, document: CalibDocument, made: Insertion) -> types.WorkspaceEdit:
        end = "\r\n" if document.lines and document.lines[0].endswith("\r\n") else "\n"
        place = types.Position(made.line, 0)
        change = types.TextEdit(types.Range(place, place), "".join(f"{line}{end}" for line in made.lines))
        client = self._connection.client_capabilities
        if not get_capability(client, "workspace.workspace_edit.document_changes"):
            return types.WorkspaceEdit(changes={document.uri: [change]})
        name = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(name, [change])])

    async def _make_ahead(self) -> None:
        """Make the summaries around the last place, unless something happens."""
        place = self._place
        document = None if place is None else self._connection.open_document(place[0])
        if place is None or document is None:
            return
        language = document.language
        if not self._goes_ahead(language) or sum(map(len, document.bare_lines)) > _LARGEST:
            return
        await parse(document)
        try:
            for function in _near(functions_of(document), place[1]):
                if not self._goes_ahead(language):
                    return
                await self.requests.prepare(Target.at_its_heading(document, function))
        except asyncio.CancelledError:
            self.requests.give_way()
            raise

    def _goes_ahead(self, language: str) -> bool:
        settings = self._connection.settings
        # Who never looks at a summary pays nothing for summaries.
        is_wanted = settings.code_lens or (settings.hover and self._hovered)
        return (
            is_wanted
            # A request to another machine may cost money.
            and self._connection.settings.remote_url is None
            # Idle work loads no model.
            and self._status.state in (EngineState.READY, EngineState.BUSY)
            and self._admission.may_work_ahead()
            and self._admission.unwanted(language) is None
        )

    def _known(self) -> None:
        if self._connection.settings.code_lens and self._refresh is None:
            self._refresh = asyncio.get_running_loop().call_later(_REFRESH, self._refresh_lenses)

    def _refresh_lenses(self) -> None:
        self._refresh = None
        client = self._connection.client_capabilities
        if get_capability(client, "workspace.code_lens.refresh_support"):
            self._connection.workspace_code_lens_refresh(None)


def _near(found: Sequence[Function], line: int) -> list[Function]:
    """The functions nearest to a line, the nearest first; of nested ones the inner one first."""

    def distance(function: Function) -> int:
        return max(function.start - line, line - function.end + 1, 0)

    near = [one for one in found if distance(one) <= NEAR]
    return sorted(near, key=lambda one: (distance(one), one.end - one.start))[:MOST]
