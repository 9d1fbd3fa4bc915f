"""What users are shown of their own history: the report as a page, what `hideBelow` would have hidden."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import attrs
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.feedback.report import PAGE
from lsp_calib.report.page import write_page
from lsp_calib.server.messages import Connection, UserMessages
from lsp_calib.server.model import Status
from lsp_calib.server.recorder import Recorder

logger = logging.getLogger(__name__)


@attrs.define(eq=False, repr=False, slots=False)
class ReportPage:
    """Writes reports and has them opened, in a browser if the client can do that.

    folder: the state folder.
    """

    _connection: Connection
    _estimator: ConfidenceEstimator
    _recorder: Recorder
    _status: Status
    _messages: UserMessages
    _folder: Path

    def __attrs_post_init__(self) -> None:
        self._path = self._folder / PAGE
        self._opening: asyncio.Task[None] | None = None

    async def show(self) -> str:
        """Write the page on what was recorded so far, and return its path; it is opened meanwhile.

        Raises LspCalibError if it cannot be written.
        """
        estimator = self._estimator
        report = await self._recorder.report(estimator.store, estimator.measure, self._status.latency())
        await asyncio.to_thread(write_page, report, self._path)
        self.stop()
        self._opening = asyncio.create_task(self._open())
        return str(self._path)

    def stop(self) -> None:
        """Wait no longer for the client to open a page."""
        if self._opening is not None:
            self._opening.cancel()

    async def _open(self) -> None:
        can = get_capability(self._connection.client_capabilities, "window.show_document.support")
        if not (can and await self._opened()):
            self._messages.inform(f"The report is {self._path}. Open it in a browser.")

    async def _opened(self) -> bool:
        page = types.ShowDocumentParams(uri=self._path.as_uri(), external=True, take_focus=True)
        try:
            return (await self._connection.window_show_document_async(page)).success
        except JsonRpcException as error:
            logger.warning("The client cannot open the report: %s", error)
            return False
