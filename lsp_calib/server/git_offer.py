"""The offer to calibrate on the user's own commits: once for each workspace, and nothing without a yes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from lsp_calib.errors import LspCalibError
from lsp_calib.files import write_atomically
from lsp_calib.server.connection import Connection
from lsp_calib.server.paths import path_of_folder
from lsp_calib.syntax.languages import LANGUAGES

logger = logging.getLogger(__name__)

YES, NO = "Calibrate", "Not for this workspace"
# More are of no use: the oldest is forgotten, and offered again.
_MOST = 1000


class Client(Protocol):
    """The part of a connection that asks the user."""

    def window_show_message_request_async(
        self, params: types.ShowMessageRequestParams
    ) -> Awaitable[types.MessageActionItem | None]: ...


class GitOffer:
    """Asks whether to calibrate on commits, and begins if the answer is yes.

    calibrate: begins it for a folder. Raises LspCalibError, which has been shown in its progress and is
    logged. memory: the file that knows where it was offered, by hashes of the folders.
    """

    def __init__(self, client: Client, calibrate: Callable[[Path], Awaitable[object]], memory: Path) -> None:
        self._client = client
        self._calibrate = calibrate
        self._memory = memory
        self._task: asyncio.Task[None] | None = None

    def make(self, folder: Path, samples: int) -> None:
        """Ask for this workspace folder, unless that was done before, or it is in no checkout."""
        if self._task is not None and not self._task.done():
            return
        self._task = asyncio.create_task(self._make(folder, samples))

    def stop(self) -> None:
        """Wait for no answer, and begin nothing more."""
        if self._task is not None:
            self._task.cancel()

    async def _make(self, folder: Path, samples: int) -> None:
        if not await asyncio.to_thread(self._is_new, folder):
            return
        question = (
            f"lsp-calib can calibrate itself on lines that you have committed in {folder.name}, before it "
            f"has seen what you keep: it completes {samples} of them in the background, on this machine, and "
            "compares. That takes a while; its progress can be cancelled."
        )
        answers = [types.MessageActionItem(YES), types.MessageActionItem(NO)]
        try:
            answer = await self._client.window_show_message_request_async(
                types.ShowMessageRequestParams(types.MessageType.Info, question, answers)
            )
            if answer is not None and answer.title == YES:
                await self._calibrate(folder)
        except (LspCalibError, JsonRpcException) as error:
            logger.warning("No calibration on commits: %s", error)

    def _is_new(self, folder: Path) -> bool:
        """Whether the folder is in a checkout and nothing was offered for it before; from now on it was."""
        if not any(os.path.lexists(one / ".git") for one in (folder, *folder.parents)):
            return False
        digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        try:
            known = self._memory.read_text("ascii").split()
        except (OSError, ValueError):
            known = []
        if digest in known:
            return False
        try:
            write_atomically(self._memory, "\n".join([*known[1 - _MOST :], digest]).encode(), 0o600)
        except OSError:
            return False  # it would be offered at each start
        return True


def folder_to_ask_about(connection: Connection, language: str) -> Path | None:
    """The workspace folder that the question is about; None if it is not to be asked. language: of the
    lines."""
    folders = [path_of_folder(one) for one in connection.workspace.folders if one.startswith("file:")]
    trusted = connection.trusted
    if not trusted.git_history or trusted.remote_url is not None or connection.over_tcp:
        return None
    if len(folders) != 1 or folders[0] is None or language not in LANGUAGES:
        return None
    return folders[0]
