"""Which documents the model may see, and when it is asked at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lsp_calib.exclusion import Exclusion
from lsp_calib.languages import is_chosen
from lsp_calib.server.absence import (
    ON_BATTERY,
    STARTING,
    SUPERSEDED,
    Absence,
    excluded,
    language_off,
    paused,
)
from lsp_calib.server.connection import Connection
from lsp_calib.server.convert import language_of
from lsp_calib.server.pause import Pause
from lsp_calib.server.power_watch import PowerWatch

# Seconds that a request waits for the settings; the client has five seconds to answer for them.
_SETTINGS_PATIENCE = 6.0


class Admission:
    """Decides by the settings in force now, the pause and the source of power.

    on_pause: called when a pause begins or ends.
    """

    def __init__(self, connection: Connection, on_pause: Callable[[], None]) -> None:
        self._connection = connection
        self._open = True
        self._settings_known = asyncio.Event()  # set once the settings of the start are known
        self.pause = Pause(on_pause)
        self._power = PowerWatch()

    @property
    def settings_are_known(self) -> bool:
        return self._settings_known.is_set()

    def settings_known(self) -> None:
        """The settings of the start are known."""
        self._settings_known.set()

    def apply_settings(self) -> None:
        if self._connection.settings.on_battery != "on":
            self._power.on_battery()  # so that it is known once it matters

    def stop(self) -> None:
        """Admit nothing more."""
        self._open = False
        self.pause.stop()

    async def close(self) -> None:
        await self._power.close()

    async def admits(self, uri: str) -> bool:
        return await self.refusal(uri) is None

    async def refusal(self, uri: str, patience: float | None = None) -> Absence | None:
        """Why a document may not be used for a prompt, None if it may.

        patience: seconds to wait at the start, until the settings that exclude documents are known.
        """
        if not self._settings_known.is_set():
            limit = _SETTINGS_PATIENCE if patience is None else patience
            try:
                await asyncio.wait_for(self._settings_known.wait(), limit)
            except TimeoutError:
                return STARTING
        if not self._open or self._connection.open_document(uri) is None:
            # Closed meanwhile: what a request remembers of the document would stay.
            return SUPERSEDED
        why = self.exclusion().reason(uri)
        return excluded(why) if why else None

    def unwanted(self, uri: str) -> Absence | None:
        """Why a request that the user has not made by hand is not answered now, None if it is."""
        if self.pause.message:
            return paused(self.pause.message)
        settings = self._connection.settings
        document = self._connection.open_document(uri)
        if document is not None and not is_chosen(language_of(document), settings.languages):
            return language_off(language_of(document))
        return ON_BATTERY if settings.on_battery == "off" and self._power.on_battery() else None

    def may_work_ahead(self) -> bool:
        """Whether the model may work on what nobody has asked for yet: not in a pause, nor on battery."""
        if not self._open or self.pause.message:
            return False
        return self._connection.settings.on_battery == "on" or not self._power.on_battery()

    @property
    def replays(self) -> bool:
        """Whether finished lines may be completed for their labels at all: on this machine alone, and neither
        the user nor a workspace forbids it."""
        trusted, settings = self._connection.trusted, self._connection.settings
        return settings.feedback and settings.replay and trusted.replay and trusted.remote_url is None

    def may_replay(self, uri: str) -> bool:
        """Whether a finished line of a document may be completed now."""
        return (
            self.settings_are_known
            and self.replays
            and self.may_work_ahead()
            and self.unwanted(uri) is None
            and not self.exclusion().reason(uri)
        )

    def exclusion(self) -> Exclusion:
        return Exclusion((*self._connection.trusted.exclude, *self._connection.settings.exclude))
