"""Which documents the model may see, when it is asked at all, and what is done when the user does nothing.

Work for the very next key, which begins with the answer and not in a pause, and the search for examples
(`ExampleIndex`), which a summary waits for, are no idle work; both ask `Admission.may_work_ahead`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from lsp_calib.completion.reasons import Nothing, Refusal
from lsp_calib.errors import LspCalibError
from lsp_calib.exclusion import SECRET_NAME, Exclusion, why_excluded
from lsp_calib.languages import is_chosen
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.messages import Clock, Connection

logger = logging.getLogger(__name__)

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
        return why_excluded(self._connection.settings.exclude, document.file_names)

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


class IdleWork:
    """Work that begins once nothing has happened for some seconds, each time that `wait` was called.

    piece: does it. A LspCalibError is logged: the user has asked for nothing. stops: whether `wait` stops it.
    """

    def __init__(self, name: str, after: float, piece: Callable[[], Awaitable[None]], *, stops: bool) -> None:
        self._name, self._after, self._piece, self._stops = name, after, piece, stops
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def wait(self) -> None:
        """Something has happened: begin so many seconds from now."""
        self.stop()
        self.put_off()

    def put_off(self) -> None:
        """As `wait`, but what is begun goes on until then."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(self._after, self._begin)

    def stop(self) -> None:
        """Do nothing until something happens; what is begun ends if it can be stopped."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and self._stops:
            self._task.cancel()

    @property
    def is_at_work(self) -> bool:
        """Whether it is begun, and not being stopped."""
        return self._task is not None and not (self._task.done() or self._task.cancelling())

    async def ended(self) -> None:
        """Wait for the end of what is begun."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """End it for good."""
        self._closed = self._stops = True
        self.stop()
        await self.ended()

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._do())
        else:
            self.wait()

    async def _do(self) -> None:
        try:
            await self._piece()
        except LspCalibError as error:
            logger.warning("Idle work (%s) could not be done: %s", self._name, error)
        except Exception:
            logger.exception("Idle work (%s) has failed.", self._name)
