"""Summaries of one connection: made when asked for or when idle, inserted, reported, and shown as lenses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from pygls.progress import Progress

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.inference.engine import Engine, EngineState
from lsp_calib.server.admission import Admission
from lsp_calib.server.connection import Connection
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.progress import SummaryProgress
from lsp_calib.server.status import Status
from lsp_calib.server.suggestion_tracking import SuggestionTracking
from lsp_calib.server.summaries_ahead import SummariesAhead
from lsp_calib.server.summary_edits import SummaryEdits
from lsp_calib.server.summary_requests import SummaryRequests
from lsp_calib.summarization import Example, SummaryService
from lsp_calib.summarization.installed_encoder import installed_encoder
from lsp_calib.syntax import Function

# Seconds: summaries that become known together are one refresh of the lenses.
_REFRESH = 0.2


class Summaries:
    """The services around summaries.

    work_done: the client's progress bars; None if it shows none. examples_for: as for `SummaryRequests`.
    on_request: called before each request that is admitted. on_labelled: called with the number of new
    labels.
    """

    def __init__(
        self,
        connection: Connection,
        engine: Engine,
        estimator: ConfidenceEstimator,
        *,
        admission: Admission,
        status: Status,
        tracking: SuggestionTracking,
        recorder: FeedbackRecorder,
        work_done: Progress | None,
        examples_for: Callable[[str, Function, str], Awaitable[Sequence[Example]]],
        on_request: Callable[[], None],
        on_labelled: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._admission = admission
        self._status = status
        self._hovered = False
        self._lenses = connection.settings.code_lens
        self._refresh: asyncio.TimerHandle | None = None
        self._progress = SummaryProgress(work_done)
        self.requests = SummaryRequests(
            SummaryService(engine, estimator, installed_encoder()),
            admits=admission.admits,
            examples_for=examples_for,
            on_request=on_request,
            on_made=status.made,
            on_known=self._known,
            on_pending=self._progress.follow,
        )
        self.edits = SummaryEdits(connection, self.requests, tracking, recorder, on_labelled)
        self.ahead = SummariesAhead(self.requests, connection.open_document, self._goes_ahead)

    def hovered(self, uri: str, line: int) -> None:
        """The user asks for a summary at a line: others are worth making ahead from now on."""
        self._hovered = True
        self.ahead.at(uri, line)

    def document_changed(self, uri: str, lines: tuple[str, ...]) -> None:
        self.edits.changed(uri, lines)
        self.ahead.active()

    def document_closed(self, uri: str) -> None:
        self.edits.closed(uri)
        self.ahead.forget(uri)

    def apply_settings(self) -> None:
        if self._connection.settings.code_lens != self._lenses:
            self._lenses = self._connection.settings.code_lens
            self._refresh_lenses()

    def stop(self) -> None:
        """Stop the idle work, until something happens again."""
        self.ahead.stop()

    async def close(self) -> None:
        self.ahead.stop()
        self._progress.stop()
        if self._refresh is not None:
            self._refresh.cancel()
        await self.requests.close()

    def _goes_ahead(self, uri: str) -> bool:
        settings = self._connection.settings
        # Who never looks at a summary pays nothing for summaries.
        is_wanted = settings.code_lens or (settings.hover and self._hovered)
        return (
            settings.hover_ahead
            and is_wanted
            # A request to another machine may cost money.
            and self._connection.trusted.remote_url is None
            # Idle work loads no model.
            and self._status.state in (EngineState.READY, EngineState.BUSY)
            and self._admission.may_work_ahead()
            and self._admission.unwanted(uri) is None
        )

    def _known(self) -> None:
        if self._connection.settings.code_lens and self._refresh is None:
            self._refresh = asyncio.get_running_loop().call_later(_REFRESH, self._refresh_lenses)

    def _refresh_lenses(self) -> None:
        self._refresh = None
        workspace = self._connection.client_capabilities.workspace
        if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self._connection.workspace_code_lens_refresh(None)
