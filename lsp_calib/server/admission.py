"""Which documents the model may see, when it is asked at all, and what became of the last requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.reasons import Nothing, Refusal
from lsp_calib.exclusion import SECRET_NAME, Exclusion
from lsp_calib.languages import is_chosen
from lsp_calib.lru import LRU
from lsp_calib.server.idle import Clock
from lsp_calib.server.messages import Connection
from lsp_calib.server.text import CalibDocument

# Documents that are remembered: more than anyone works on at once.
_MOST = 100


@attrs.frozen
class LastRequest:
    """The last request in a document.

    place: its line and column; None if it was refused before a place was looked at.
    at: seconds on the clock. nothing: why it has no suggestion (yet); None if it has one.
    """

    uri: str
    place: tuple[int, int] | None
    at: float
    nothing: Nothing | None


class LastRequests:
    """Holds places and outcomes, no text. clock: seconds that only grow."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._last = LRU[str, LastRequest](_MOST)  # the latest one at the end

    def asked(self, uri: str, cursor: Cursor) -> None:
        """A request has come: nothing is known of it yet."""
        self._last[uri] = LastRequest(uri, _place(cursor), self._clock(), Nothing(Refusal.WAITING))

    def refused(self, uri: str, nothing: Nothing) -> None:
        """A request has come that is not looked at."""
        self._last[uri] = LastRequest(uri, None, self._clock(), nothing)

    def concluded(self, uri: str, cursor: Cursor, nothing: Nothing | None) -> None:
        """What became of the request at `cursor`; ignored if there is a later one elsewhere."""
        last = self._last.get(uri)
        if last is not None and last.place == _place(cursor):
            self._last.amend(uri, attrs.evolve(last, nothing=nothing))

    def cancelled(self, uri: str, cursor: Cursor) -> None:
        """The request at `cursor` was cancelled; ignored if another one at this place was answered."""
        last = self._last.get(uri)
        if last is not None and last.nothing is not None and last.nothing.why is Refusal.WAITING:
            self.concluded(uri, cursor, Nothing(Refusal.SUPERSEDED))

    def outdated(self, uri: str) -> None:
        """The suggestion for the last request is not shown: the document has changed."""
        if (last := self._last.get(uri)) is not None:
            self._last.amend(uri, attrs.evolve(last, nothing=Nothing(Refusal.SUPERSEDED)))

    def is_last(self, uri: str, cursor: Cursor) -> bool:
        """Whether no request has come elsewhere in the document since the one at `cursor`."""
        last = self._last.get(uri)
        return last is not None and last.place == _place(cursor)

    def forget(self, uri: str) -> None:
        self._last.pop(uri, None)

    def of(self, uri: str | None) -> LastRequest | None:
        """The last request in a document; uri None: in any document."""
        if uri is None:
            return next(reversed(self._last.values()), None)
        return self._last.get(uri)

    def to_wire(self, last: LastRequest, nothing: Nothing, *, asks_by_hand: bool) -> dict[str, Any]:
        """The answer of `lsp-calib.explain`: why this request has no suggestion."""
        message = f"{nothing.sentence} {nothing.advice(asks_by_hand=asks_by_hand)}".rstrip()
        at = round(self._clock() - last.at, 1)
        return {"reason": nothing.code, "message": message, "uri": last.uri, "at": at}


def _place(cursor: Cursor) -> tuple[int, int]:
    return cursor.line, cursor.column


# Where Linux lists mains adapters and batteries, a folder for each.
SUPPLIES = Path("/sys/class/power_supply")


def on_battery(supplies: Path | None = None) -> bool | None:
    """Whether the machine draws from its battery; None where that is not known, as anywhere but on Linux.

    supplies: the folder to look in, `SUPPLIES` unless given. Machines without a battery run on mains. A
    reading may take some milliseconds, where the firmware is asked.
    """
    try:
        found = list((SUPPLIES if supplies is None else supplies).iterdir())
    except OSError:
        return None
    discharging = False
    for supply in found:
        kind = _read(supply / "type")
        if kind == "Battery":
            # Those of mice and headsets have the scope of a device.
            own = _read(supply / "scope") != "Device"
            discharging = discharging or (own and _read(supply / "status") == "Discharging")
        elif _read(supply / "online") == "1":
            # With a weak adapter the battery may be drained all the same.
            return False
    return discharging


def _read(file: Path) -> str:
    """The text of an attribute; "" where there is none, or it cannot be read."""
    try:
        return file.read_text("ascii", "replace").strip()
    except OSError:
        return ""


# Seconds for which a reading of the source of power counts.
_FRESH = 10.0
# Seconds that a request waits for the settings; the client has five seconds to answer for them.
_SETTINGS_PATIENCE = 6.0


class Admission:
    """Decides by the settings in force now, the pause and the source of power."""

    def __init__(
        self, connection: Connection, paused: Callable[[str], object], clock: Clock = time.monotonic
    ) -> None:
        """paused: as for `Pause`."""
        self._connection = connection
        self._clock = clock
        self._open = True
        self._on_battery, self._read_at = False, -_FRESH
        self.settings_known = asyncio.Event()  # set once the settings of the start are known
        self.pause = Pause(paused)

    def settings_changed(self) -> None:
        self._is_on_battery()  # so that it is known once it matters

    def stop(self) -> None:
        """Admit nothing more."""
        self._open = False
        self.pause.stop()

    async def admits(self, document: CalibDocument) -> bool:
        return await self.refusal(document) is None

    async def refusal(
        self, document: CalibDocument, patience: float | None = None, *, language: str | None = None
    ) -> Nothing | None:
        """Why a document may not be used for a prompt, None if it may.

        patience: seconds to wait at the start, until the settings that exclude documents are known.
        language: of a request for a completion that the user has not made by hand: whether it is `unwanted`.
        """
        if not self.settings_known.is_set():
            limit = _SETTINGS_PATIENCE if patience is None else patience
            try:
                await asyncio.wait_for(self.settings_known.wait(), limit)
            except TimeoutError:
                return Nothing(Refusal.STARTING)
        if not (self._open and document.is_open):
            # Closed meanwhile: what a request remembers of the document would stay.
            return Nothing(Refusal.SUPERSEDED)
        return self.exclusion_of(document) or (self.unwanted(language) if language is not None else None)

    def unwanted(self, language: str) -> Nothing | None:
        """Why a request that the user has not made by hand is not answered now, None if it is."""
        if self.pause.message:
            return Nothing(Refusal.PAUSED, self.pause.message)
        if not is_chosen(language, self._connection.settings.languages):
            return Nothing(Refusal.LANGUAGE_OFF, language)
        return None

    @property
    def in_comments(self) -> bool | None:
        """Whether completions in comments and documentation strings come by themselves; None: as the model's
        card says."""
        comments = self._connection.settings.comments
        return None if comments is None else comments == "on"

    def may_work_ahead(self) -> bool:
        """Whether the model may work on what nobody has asked for yet: neither in a pause nor on battery."""
        return self._open and not self.pause.message and not self._is_on_battery()

    def _is_on_battery(self) -> bool:
        """As it was at the last reading, which may take milliseconds and is made in a thread. Until the first
        one, and where it is not known: mains."""
        if self._clock() - self._read_at >= _FRESH:
            self._read_at = self._clock()
            asyncio.get_running_loop().run_in_executor(None, self._read_power)
        return self._on_battery

    def _read_power(self) -> None:
        self._on_battery = bool(on_battery())

    def excluded(self, document: CalibDocument) -> str:
        """Why a document is excluded, "" if it is not. The names of its file decide."""
        return self.exclusion().reason(*document.file_names)

    def exclusion_of(self, document: CalibDocument) -> Nothing | None:
        """The same as a refusal, None if it is not."""
        why = self.excluded(document)
        return Nothing(Refusal.SECRET if why == SECRET_NAME else Refusal.EXCLUDED, why) if why else None

    def exclusion(self) -> Exclusion:
        """Also for the pieces of other files in a prompt (`completion.related_code`,
        `summarization.workspace_examples`), where `workspace_files` leaves out more."""
        return Exclusion(self._connection.settings.exclude)


class Pause:
    """The pause of automatic completions that the user asks for. It ends with the session at the latest.

    message: for how long, a sentence; "" if there is no pause.
    """

    def __init__(self, paused: Callable[[str], object]) -> None:
        """paused: is told the message."""
        self._paused = paused
        self._timer: asyncio.TimerHandle | None = None
        self.message = ""

    def begin(self, minutes: float | None) -> None:
        """Pause from now on, for so many minutes, or until `end`. It replaces an earlier pause."""
        self.stop()
        self.message = "Completions are paused until you resume them."
        if minutes is not None:
            unit = "minute" if minutes == 1 else "minutes"
            self.message = f"Completions are paused for {minutes:g} {unit}."
            self._timer = asyncio.get_running_loop().call_later(60 * minutes, self.end)
        self._paused(self.message)

    def end(self) -> None:
        """Resume. Without a pause this does nothing."""
        if self.message:
            self.stop()
            self._paused(self.message)

    def stop(self) -> None:
        """End the pause without telling anyone: the session closes."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.message = None, ""
