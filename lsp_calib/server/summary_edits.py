"""Summaries that a user puts into the source or reports as wrong: both become labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from lsprotocol import types

from lsp_calib.errors import SettingsError
from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.server.connection import Connection
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.suggestion_tracking import SuggestionTracking
from lsp_calib.server.summary_requests import SummaryRequests
from lsp_calib.server.summary_target import Target, functions_of
from lsp_calib.server.text import CalibDocument
from lsp_calib.summarization import Summary
from lsp_calib.summarization.insertion import Insertion, insertion
from lsp_calib.syntax import Function

# What keeps a summary from being inserted, for the user.
NONE_MADE = "The model gave no summary of this function."
CHANGED = "The function has changed while it was summarised. Try again."
NO_PLACE = "This function has documentation already, or no place for it."
REFUSED = "The editor did not apply the change."


@attrs.frozen
class _Expected:
    """A change that the editor was asked to make."""

    insertion: Insertion
    summary: Summary


class SummaryEdits:
    """Has the editor insert summaries, and follows what becomes of them.

    on_labelled: called with the number of new labels.
    """

    def __init__(
        self,
        connection: Connection,
        requests: SummaryRequests,
        tracking: SuggestionTracking,
        recorder: FeedbackRecorder,
        on_labelled: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._tracking = tracking
        self._recorder = recorder
        self._on_labelled = on_labelled
        self._expected: dict[str, _Expected] = {}
        self._reported: set[str] = set()

    async def insert(self, document: CalibDocument, target: Target) -> dict[str, Any]:
        """Insert the summary of a function as its documentation: {applied, reason, suggestion}.

        It is made first unless it is known. Raises SettingsError if the editor cannot be asked for a change.
        """
        if not applies_edits(self._connection.client_capabilities):
            raise SettingsError(
                "This editor does not let a server change a document (workspace/applyEdit). "
                "Copy the summary from the hover instead."
            )
        uri, language = document.uri, target.language
        suggestion = await self._requests.of(uri, target.function, language)
        summary = self._requests.known(uri, target.function, language)
        if summary is None or suggestion is None:
            return _answer(NONE_MADE)
        # The document may have changed meanwhile, or be another object: closed, and opened again. A function
        # that only moved is found again.
        now = self._connection.open_document(uri)
        function = None if now is None else _same(functions_of(now), target.function)
        if now is None or function is None:
            return _answer(CHANGED)
        document, lines = now, now.bare_lines
        made = insertion(lines, function, language, summary.suggestion.text)
        if made is None:
            return _answer(NO_PLACE, summary)
        self._expected[uri] = _Expected(made, summary)
        params = types.ApplyWorkspaceEditParams(self._edit(document, made), label="Insert summary")
        result = await self._connection.workspace_apply_edit_async(params)
        if not result.applied:
            self._expected.pop(uri, None)
            return _answer(REFUSED if not result.failure_reason else result.failure_reason, summary)
        return {"applied": True, "reason": None, "suggestion": summary.suggestion.to_wire()}

    def changed(self, uri: str, lines: tuple[str, ...]) -> None:
        """A document has changed: perhaps in the way that the editor was asked for."""
        # Some editors report changes only after a pause, when they have long answered.
        expected = self._expected.pop(uri, None)
        if expected is None:
            return
        made = expected.insertion
        if lines[made.line : made.line + len(made.lines)] == made.lines:
            self._recorder.summary_shown(uri, expected.summary, made.lines[0], time.time())
            self._tracking.made(uri, made.places, expected.summary.suggestion)

    def closed(self, uri: str) -> None:
        self._expected.pop(uri, None)

    async def report_wrong(self, uri: str, summary: Summary) -> None:
        """The user says that a summary is wrong: a label, on disk when this returns. Raises LspCalibError."""
        now, identity = time.time(), summary.suggestion.id
        self._tracking.drop(identity)
        self._reported.add(identity)
        self._recorder.summary_shown(uri, summary, "", now)
        label = Label(identity, False, How.REPORTED, now)
        self._recorder.record(
            [Event(identity, EventKind.REJECTED, now), Event(identity, EventKind.SETTLED, now, label=label)]
        )
        await self._recorder.finish()
        self._on_labelled(1)

    def is_reported(self, suggestion_id: str) -> bool:
        return suggestion_id in self._reported

    def _edit(self, document: CalibDocument, made: Insertion) -> types.WorkspaceEdit:
        end = "\r\n" if document.lines and document.lines[0].endswith("\r\n") else "\n"
        place = types.Position(made.line, 0)
        change = types.TextEdit(types.Range(place, place), "".join(f"{line}{end}" for line in made.lines))
        workspace = self._connection.client_capabilities.workspace
        edits = workspace.workspace_edit if workspace else None
        if edits is None or not edits.document_changes:
            return types.WorkspaceEdit(changes={document.uri: [change]})
        name = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(name, [change])])


def applies_edits(client: types.ClientCapabilities) -> bool:
    """Whether a client changes documents when it is asked to."""
    return client.workspace is not None and bool(client.workspace.apply_edit)


def _same(found: Sequence[Function], wanted: Function) -> Function | None:
    """The function with the same code, the nearest of several."""
    same = [one for one in found if (one.name, one.code) == (wanted.name, wanted.code)]
    return min(same, key=lambda one: abs(one.start - wanted.start), default=None)


def _answer(reason: str, summary: Summary | None = None) -> dict[str, Any]:
    suggestion = None if summary is None else summary.suggestion.to_wire()
    return {"applied": False, "reason": reason, "suggestion": suggestion}
