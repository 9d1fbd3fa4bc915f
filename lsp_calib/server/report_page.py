"""The report, written as a page into the state folder and opened by the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from lsp_calib.feedback.report import PAGE, Report
from lsp_calib.report.writing import write_page

logger = logging.getLogger(__name__)


class Client(Protocol):
    """The part of a connection that opens documents."""

    @property
    def client_capabilities(self) -> types.ClientCapabilities: ...

    def window_show_document_async(
        self, params: types.ShowDocumentParams
    ) -> Awaitable[types.ShowDocumentResult]: ...


class ReportPage:
    """Writes reports and has them opened, in a browser if the client can do that.

    inform: shows the user a message. folder: the state folder.
    """

    def __init__(self, client: Client, inform: Callable[[str], None], folder: Path) -> None:
        self._client = client
        self._inform = inform
        self._path = folder / PAGE
        self._opening: asyncio.Task[None] | None = None

    async def show(self, report: Report, *, opens: bool) -> Path:
        """Write the page and return its path; it is opened meanwhile.

        opens: whether the client may be asked to open it; otherwise a message names the path.
        Raises LspCalibError if it cannot be written.
        """
        await asyncio.to_thread(write_page, report, self._path)
        self.stop()
        self._opening = asyncio.create_task(self._open(opens=opens))
        return self._path

    def stop(self) -> None:
        """Wait no longer for the client to open a page."""
        if self._opening is not None:
            self._opening.cancel()

    async def _open(self, *, opens: bool) -> None:
        window = self._client.client_capabilities.window
        can = window is not None and window.show_document is not None and window.show_document.support
        if not (opens and can and await self._opened()):
            self._inform(f"The report is {self._path}. Open it in a browser.")

    async def _opened(self) -> bool:
        page = types.ShowDocumentParams(uri=self._path.as_uri(), external=True, take_focus=True)
        try:
            return (await self._client.window_show_document_async(page)).success
        except JsonRpcException as error:
            logger.warning("The client cannot open the report: %s", error)
            return False
