"""From `initialized` to `shutdown`, and changes of the settings in between."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability

from lsp_calib import home
from lsp_calib.server.language_server import CalibServer
from lsp_calib.settings import parse

logger = logging.getLogger(__name__)

SECTION = "lspCalib"


def register(server: CalibServer) -> None:
    @server.feature(types.INITIALIZED)
    async def initialized(ls: CalibServer, _params: types.InitializedParams) -> None:
        await _fetch_settings(ls)
        ls.session.start()
        # Not before: it takes milliseconds.
        await asyncio.to_thread(home.close_memory)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configuration_changed(ls: CalibServer, params: types.DidChangeConfigurationParams) -> None:
        if not await _fetch_settings(ls):
            pushed = params.settings.get(SECTION) if isinstance(params.settings, dict) else None
            if pushed is not None:
                ls.settings_answered = ls.settings_asked
                _apply(ls, pushed)
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


async def _fetch_settings(ls: CalibServer) -> bool:
    """Request the settings from the client and apply them. False if it gives none."""
    if not get_capability(ls.client_capabilities, "workspace.configuration"):
        return False
    params = types.ConfigurationParams(items=[types.ConfigurationItem(section=SECTION)])
    request = asyncio.ensure_future(ls.workspace_configuration_async(params))
    ls.settings_asked += 1
    number = ls.settings_asked
    try:
        answer = await asyncio.wait_for(asyncio.shield(request), ls.settings_within)
    except TimeoutError:
        ls.problems.append(
            f"The editor did not give its settings within {ls.settings_within:g} seconds. They hold as soon "
            "as they come; until then the settings so far stay in force."
        )
        request.add_done_callback(lambda late: _apply_late(ls, number, late))
        return False
    except Exception as error:  # noqa: BLE001 - whatever the client answers, the server keeps the settings it has
        if number < ls.settings_asked:
            return True
        ls.problems.append(
            f"The editor did not give its settings ({error}). The settings so far stay in force."
        )
        return False
    _apply_answer(ls, number, answer)
    return True


def _apply_late(ls: CalibServer, number: int, request: asyncio.Future[Any]) -> None:
    if request.cancelled() or request.exception() is not None:
        return  # the connection has ended
    if _apply_answer(ls, number, request.result()):
        ls.session.settings_changed()


def _apply_answer(ls: CalibServer, number: int, answer: Any) -> bool:
    """Answers may come in another order than the requests: that to the newest request holds."""
    if number < ls.settings_answered:
        return False
    ls.settings_answered = number
    _apply(ls, answer[0] if answer else None)
    return True


def _apply(ls: CalibServer, raw: object) -> None:
    # A workspace may change these settings, but not loosen the user's; none of them names a file or a host. A
    # setting that is missing returns to its value at the start, also if an earlier change had set it.
    ls.settings, problems = parse(raw, ls.initial_settings, ls.own_settings)
    ls.problems += problems
