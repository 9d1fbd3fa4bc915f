"""Completions of one connection: the service, and all that is made ahead of or after a completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.completion import Completion, CompletionService, Cursor, Hidden, Nothing, Removal
from lsp_calib.completion.block import MOST_LINES, Decide, block_of, lines_before, lines_of, may_begin
from lsp_calib.completion.layouts import Layouts
from lsp_calib.completion.memory import CompletionMemory
from lsp_calib.completion.nearby import Nearby
from lsp_calib.completion.prompt import WindowSize
from lsp_calib.completion.purpose import line_purpose
from lsp_calib.feedback.workspace import folder_of
from lsp_calib.inference.engine import Engine, LoadedModel, Priority
from lsp_calib.server.absence import BULK_CHANGE, MENU_OFF, Absence
from lsp_calib.server.admission import Admission
from lsp_calib.server.bulk_changes import BulkChanges
from lsp_calib.server.completion_requests import CompletionRequests
from lsp_calib.server.connection import Connection
from lsp_calib.server.convert import language_of
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.follow_ups import FollowUps
from lsp_calib.server.last_requests import LastRequests
from lsp_calib.server.nearby_files import NearbyFiles
from lsp_calib.server.protocol import has_inline_completion
from lsp_calib.server.status import Status
from lsp_calib.server.work_ahead import WorkAhead
from lsp_calib.settings import Settings
from lsp_calib.values import Suggestion


class Completions:
    """Completions with their alternatives and blocks, and the work ahead of them.

    last: the last request of each document. is_elsewhere, is_settled: as for `CompletionRequests`.
    on_request: called with each request before it is answered.
    """

    def __init__(
        self,
        connection: Connection,
        engine: Engine,
        estimator: ConfidenceEstimator,
        *,
        admission: Admission,
        last: LastRequests,
        bulk_changes: BulkChanges,
        status: Status,
        recorder: FeedbackRecorder,
        is_elsewhere: Callable[[str, str, int], bool],
        is_settled: Callable[[str], bool],
        on_request: Callable[[str, Cursor], None],
    ) -> None:
        self._connection = connection
        self._engine = engine
        self._estimator = estimator
        self._admission = admission
        self._last = last
        self._bulk_changes = bulk_changes
        self._status = status
        self._recorder = recorder
        self._on_request = on_request
        self._hidden_below = connection.settings.hide_below
        self._layouts = Layouts(estimator.store.has_labels, lambda: _window(connection.settings))
        files = NearbyFiles(
            connection.open_documents,
            lambda uri: folder_of(uri, connection.workspace.folders),
            admission.exclusion,
        )
        self._nearby = Nearby(files)
        service = CompletionService(engine, estimator, layout_of=self._layouts.of, nearby=self._nearby)
        self._service = service
        memory = CompletionMemory(service.key)
        self._ahead = WorkAhead(
            service,
            memory,
            looks_ahead=lambda: connection.settings.ahead and admission.may_work_ahead(),
            # A request to another machine takes its time, and may cost money.
            goes_on=lambda: connection.trusted.remote_url is None,
            hide_below=lambda: connection.settings.hide_below,
        )
        self.alternatives: FollowUps[tuple[Completion, ...]] = FollowUps(self._alternatives, ())
        self._blocks: FollowUps[tuple[Completion, ...]] = FollowUps(
            lambda uri, first: lines_of(
                partial(service.complete, document=uri),
                first,
                self._decide_like(uri, first),
                hide_below=connection.settings.hide_below,
            ),
            (),
            of_line=True,
            before=lines_before,
        )
        self.requests = CompletionRequests(
            service,
            memory,
            self._ahead,
            last=last,
            refusal=admission.refusal,
            unwanted=admission.unwanted,
            held_back=lambda uri: BULK_CHANGE if bulk_changes.holds_back(uri) else None,
            is_elsewhere=is_elsewhere,
            is_settled=is_settled,
            on_request=self._requested,
            on_made=self._completed,
            on_hidden=status.hidden,
            on_nothing=self._withheld,
            hide_below=lambda: connection.settings.hide_below,
            pause=lambda: _seconds(connection.settings.debounce_ms),
        )

    def is_superseded(self, uri: str, cursor: Cursor) -> bool:
        """Whether a request has come elsewhere in the document since the one at `cursor`."""
        return not self._last.is_last(uri, cursor)

    async def block(self, uri: str, first: Completion) -> Suggestion:
        """The suggestion to offer for a completion: with the lines below it, where the setting asks for
        them."""
        if self._connection.settings.shape != "block":
            return first.suggestion
        # While the first line is typed, the others stay as they are; on half a line no block begins.
        lines = await self._blocks.of(uri, first, begins=may_begin(first.cursor))
        return block_of(first, lines, self._decide_like(uri, first))

    def inserted(self, uri: str, line: int) -> None:
        """A change has inserted a suggestion in a line, and perhaps the rest of its block below it."""
        self._bulk_changes.inserted(uri)
        document = self._connection.open_document(uri)
        if document is None or self._admission.unwanted(uri) or self._admission.exclusion().reason(uri):
            return
        line += self._accepted_below(uri, document.bare_lines[line : line + MOST_LINES])
        self._ahead.inserted(uri, document.bare_lines, line, language_of(document))

    async def replay(self, uri: str, cursor: Cursor) -> Completion | Hidden | Nothing:
        """What would be offered at `cursor`, for nobody to see: nothing is hidden, nor remembered.

        In the cache for background work, so that the next request of the user finds its own as it was.
        Raises ModelError or EngineError if the model could not be asked.
        """
        return await self._service.complete(cursor, Priority.BACKGROUND, document=uri)

    def purpose_of(self, loaded: LoadedModel, language: str) -> Purpose:
        """The purpose of completions by a model, with the prompts it gets."""
        return line_purpose(loaded, self._layouts.of(loaded), language)

    async def purpose(self, language: str) -> Purpose:
        """As `purpose_of`, by the model that is loaded. Raises LspCalibError if there is none."""
        return self.purpose_of(await self._engine.ready(), language)

    def apply_settings(self) -> None:
        self._nearby.clear()  # they may show what is excluded now
        below = self._connection.settings.hide_below
        if below != self._hidden_below:
            self._hidden_below = below
            self.forget_replies()

    def forget_replies(self) -> None:
        """Drop the remembered completions: their confidence, tier or hiding is out of date."""
        self.requests.forget_replies()
        self.alternatives.clear()
        self._blocks.clear()

    def forget(self, uri: str) -> None:
        """Drop what is remembered of a document."""
        self.requests.forget(uri)
        self.alternatives.forget(uri)
        self._blocks.forget(uri)

    def note_menu_off(self, uri: str) -> None:
        """Where the settings turn the menu off, an editor without ghost text gets nothing: remember why."""
        has_ghost_text = has_inline_completion(self._connection.client_capabilities)
        if self._connection.settings.completion is False and not has_ghost_text:
            self._last.refused(uri, MENU_OFF)

    def stop(self, why: Absence) -> None:
        """Stop the work for all documents; what is remembered of them stays."""
        self.requests.stop(why)
        for uri in {*self.alternatives.stop(), *self._blocks.stop()}:
            self._last.refused(uri, why)  # so that the suggestion that waits for the others is not shown

    async def close(self) -> None:
        await self.requests.close()
        await self.alternatives.close()
        await self._blocks.close()

    def _accepted_below(self, uri: str, lines: Sequence[str]) -> int:
        """How many of the lines below the first the user has accepted with it. lines: from that one on."""
        block = [one.expected_line.strip() for one in self._blocks.made(uri)]
        same = 0
        while same < min(len(block), len(lines)) and lines[same].strip() == block[same]:
            same += 1
        return max(same - 1, 0)

    async def _alternatives(self, uri: str, first: Completion) -> tuple[Completion, ...]:
        below = self._connection.settings.hide_below
        made = await self._service.alternatives(first, document=uri, hide_below=below)
        if below == self._connection.settings.hide_below:
            self.requests.remember(uri, made)
        return made

    def _decide_like(self, uri: str, first: Completion) -> Decide:
        return partial(
            self._estimator.tier,
            like=first.suggestion.confidence,
            language=first.cursor.language,
            document=uri,
        )

    def _requested(self, uri: str, cursor: Cursor) -> None:
        self.alternatives.requested(uri, cursor)
        self._blocks.requested(uri, cursor)
        self._on_request(uri, cursor)

    def _completed(self, completion: Completion) -> None:
        self._status.made(completion.suggestion)
        for why in completion.cuts:
            self._status.cut(why)
        self._recorder.cut(completion.suggestion.id, completion.cuts)

    def _withheld(self, removal: Removal) -> None:
        self._status.withheld(removal)
        self._recorder.withheld(removal)


def _window(settings: Settings) -> WindowSize | None:
    return None if settings.window == "auto" else WindowSize(settings.window)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
