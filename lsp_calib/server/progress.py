"""Progress of the model's loading, for clients that show it."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from lsprotocol import types

from lsp_calib.inference.engine import EngineState

if TYPE_CHECKING:
    from lsp_calib.server.app import CalibServer


class LoadProgress:
    """`window/workDoneProgress` from the start of loading to its end."""

    def __init__(self, server: CalibServer) -> None:
        self._server = server
        self._token: str | None = None
        self._begun = False
        self._creating: asyncio.Task[None] | None = None

    def update(self, state: EngineState, message: str, fraction: float | None) -> None:
        if not self._supported():
            return
        if state is EngineState.LOADING:
            if self._token is None:
                self._token = str(uuid.uuid4())
                self._creating = asyncio.create_task(self._begin(self._token, message))
            elif self._begun and fraction is not None:
                report = types.WorkDoneProgressReport(percentage=round(100 * fraction))
                self._server.work_done_progress.report(self._token, report)
        elif self._token is not None:
            token, begun = self._token, self._begun
            self._token, self._begun = None, False
            if begun:
                self._server.work_done_progress.end(token, types.WorkDoneProgressEnd(message=message))

    async def _begin(self, token: str, message: str) -> None:
        try:
            await self._server.work_done_progress.create_async(token)
        except Exception:  # noqa: BLE001 - a client that refuses progress gets none
            self._token = None
            return
        if self._token != token:
            return  # loaded before the client had answered
        self._begun = True
        begin = types.WorkDoneProgressBegin(title="lsp-calib", message=message, percentage=0)
        self._server.work_done_progress.begin(token, begin)

    def _supported(self) -> bool:
        window = self._server.client_capabilities.window
        return window is not None and bool(window.work_done_progress)
