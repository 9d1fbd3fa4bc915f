"""Which documents the model may see, when it is asked at all, and why a request got no suggestion, in words.

Each sentence says what happened and what to do. None of them quotes the document or the model's answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import attrs

from lsp_calib.calibration.tiers import in_percent
from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import REMOVED, Removal
from lsp_calib.completion.service import Hidden, Nothing
from lsp_calib.errors import LspCalibError, NoModelError
from lsp_calib.exclusion import SECRET_NAME, Exclusion
from lsp_calib.languages import is_chosen
from lsp_calib.lru import LRU
from lsp_calib.power import on_battery
from lsp_calib.server.idle import Clock
from lsp_calib.server.messages import Connection
from lsp_calib.server.text import CalibDocument


@attrs.frozen
class NoSuggestion:
    """Why there is no suggestion.

    reason: a code of the command `lsp-calib.explain`. message: sentences for the user. by_hand: one more
    where the user can ask for a completion by hand: the menu of most editors does not tell that from typing.
    """

    reason: str
    message: str
    by_hand: str = ""


_BY_HAND = "A completion that you ask for by hand comes all the same."

OFF = NoSuggestion(
    "off",
    "Completions as ghost text are turned off. Set inlineCompletion.enabled to true to get them.",
)
MENU_OFF = NoSuggestion(
    "off",
    "Completions in the completion menu are turned off, and this editor shows no ghost text: it has no other "
    'place for them. Set completion.enabled to "auto" or true, and restart the server.',
)
STARTING = NoSuggestion(
    "starting",
    "The editor has not given its settings yet. Until they are known no document is shown to the model: they "
    "may exclude it. Try again in a moment.",
)
LOADING = NoSuggestion(
    "loading",
    "The model is not loaded yet. Completions appear as soon as it is; the status says how far it is.",
)
LOADING_AGAIN = NoSuggestion(
    "loading",
    "The model process had ended. The model is loaded again and reads the document anew, which takes a "
    "moment; completions appear as soon as it has.",
)
WAITING = NoSuggestion(
    "waiting", "The model is still working on the last request. Wait a moment, without typing on."
)
TOO_SLOW = NoSuggestion(
    "tooSlow",
    "The model had not answered when the completion menu opened; the menu does not wait for it. The "
    "completion is there at the next request in the same place.",
)
SUPERSEDED = NoSuggestion(
    "superseded",
    "The last request was cancelled before the model had answered, as happens while you type or move the "
    "cursor. Pause for a moment, or ask again.",
)
DOCUMENT_CHANGED = NoSuggestion(
    "documentChanged",
    "The line changed while the model was working on it: its answer no longer fitted and was dropped. Pause "
    "for a moment, or ask again.",
)
SELECTED_ITEM = NoSuggestion(
    "selectedItem",
    "A suggestion has to begin with the item that is selected in the completion menu, and that item has "
    "several lines or belongs to another place. Close the menu, or select another item.",
)

IN_DATA = NoSuggestion(
    "data",
    "The cursor is inside data: encoded bytes, minified code, a table of numbers, a literal of 200 "
    "characters or a line of 1,000. No completion comes there by itself.",
    _BY_HAND,
)
COMMENT_BY_HAND = NoSuggestion(
    "comment",
    'The cursor is in a comment or a documentation string, and comments is "hand", as it is by default for '
    "models whose card does not say otherwise. A completion comes there when you ask for it by hand. Set "
    'comments to "on" to get them while you type.',
)
COMMENTS_OFF = NoSuggestion(
    "comment",
    'The cursor is in a comment or a documentation string, and comments is "off". Set comments to "hand" or '
    '"on" to get completions there.',
)
REFUSED = NoSuggestion(
    "refused",
    "You have dismissed this suggestion here, or undone it. It does not come back by itself until the line "
    "changes.",
    _BY_HAND,
)


def excluded(why: str) -> NoSuggestion:
    """why: the clause of `Exclusion.reason`."""
    if why == SECRET_NAME:
        return NoSuggestion(
            "secret",
            f"No model is shown this document: {why}. It gets completions under another name; no setting "
            "admits files that hold secrets.",
        )
    return NoSuggestion(
        "excluded",
        f"No model is shown this document: {why}. It gets completions once no pattern in your settings "
        "matches its name.",
    )


def paused(message: str) -> NoSuggestion:
    """message: for how long, a sentence."""
    return NoSuggestion(
        "paused",
        f"{message} The command lsp-calib.resume ends the pause.",
        _BY_HAND,
    )


def language_off(language: str) -> NoSuggestion:
    return NoSuggestion(
        "languageOff",
        f"The setting `languages` does not name {language}, the language of this document. Add it there.",
        _BY_HAND,
    )


def failed(error: LspCalibError) -> NoSuggestion:
    """The model could not be asked, or did not answer; the error itself says what to do."""
    reason = "noModel" if isinstance(error, NoModelError) else "error"
    return NoSuggestion(reason, f"The model could not answer. {error}")


def absence_of(outcome: Hidden | Nothing) -> NoSuggestion:
    if isinstance(outcome, Nothing) and outcome.removal is Removal.OTHER_THAN_ITEM:
        advice = "Close the menu, or select another item."
        return NoSuggestion(SELECTED_ITEM.reason, f"{REMOVED[outcome.removal]} {advice}")
    if isinstance(outcome, Nothing):
        return NoSuggestion("nothingToAdd", f"{REMOVED[outcome.removal]} Type on, or ask in another place.")
    shown, limit = in_percent(outcome.survives, (outcome.hiding.below,))
    shown = shown if outcome.survives >= 0.01 else f"about {100 * outcome.survives:.1g} %"
    return NoSuggestion(
        "hidden",
        "Nothing here is sure enough: the probability that the completion is kept, as it is or after an "
        f"edit, is {shown}, and hideBelow is {limit}. Lower hideBelow, or set it to false, to see such "
        "completions.",
        _BY_HAND,
    )


# Documents that are remembered: more than anyone works on at once.
_MOST = 100


@attrs.frozen
class LastRequest:
    """The last request in a document.

    place: its line and column; None if it was refused before a place was looked at.
    at: seconds on the clock. absence: why it has no suggestion (yet); None if it has one.
    """

    uri: str
    place: tuple[int, int] | None
    at: float
    absence: NoSuggestion | None


class LastRequests:
    """Holds places and outcomes, no text. clock: seconds that only grow."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._last = LRU[str, LastRequest](_MOST)  # the latest one at the end

    def asked(self, uri: str, cursor: Cursor) -> None:
        """A request has come: nothing is known of it yet."""
        self._put(uri, _place(cursor), WAITING)

    def refused(self, uri: str, absence: NoSuggestion) -> None:
        """A request has come that is not looked at."""
        self._put(uri, None, absence)

    def concluded(self, uri: str, cursor: Cursor, absence: NoSuggestion | None) -> None:
        """What became of the request at `cursor`; ignored if there is a later one elsewhere."""
        last = self._last.get(uri)
        if last is not None and last.place == _place(cursor):
            self._last.amend(uri, attrs.evolve(last, absence=absence))

    def cancelled(self, uri: str, cursor: Cursor, why: NoSuggestion = SUPERSEDED) -> None:
        """The request at `cursor` was cancelled; ignored if another one at this place was answered."""
        last = self._last.get(uri)
        if last is not None and last.absence is WAITING:
            self.concluded(uri, cursor, why)

    def outdated(self, uri: str) -> None:
        """The suggestion for the last request is not shown: the document has changed."""
        if (last := self._last.get(uri)) is not None:
            self._last.amend(uri, attrs.evolve(last, absence=DOCUMENT_CHANGED))

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

    def to_wire(self, last: LastRequest, absence: NoSuggestion) -> dict[str, object]:
        """The answer of `lsp-calib.explain`: this absence, for this request."""
        return {
            "reason": absence.reason,
            "message": absence.message,
            "uri": last.uri,
            "at": round(self._clock() - last.at, 1),
        }

    def _put(self, uri: str, place: tuple[int, int] | None, absence: NoSuggestion) -> None:
        self._last[uri] = LastRequest(uri, place, self._clock(), absence)


def _place(cursor: Cursor) -> tuple[int, int]:
    return cursor.line, cursor.column


# Seconds for which a reading counts.
_FRESH = 10.0
# Seconds that a request waits for the settings; the client has five seconds to answer for them.
_SETTINGS_PATIENCE = 6.0


class Admission:
    """Decides by the settings in force now, the pause and the source of power."""

    def __init__(self, connection: Connection, paused: Callable[[str], object]) -> None:
        """paused: as for `Pause`."""
        self._connection = connection
        self._open = True
        self.settings_known = asyncio.Event()  # set once the settings of the start are known
        self.pause = Pause(paused)
        self._power = PowerWatch()

    def settings_changed(self) -> None:
        self._power.on_battery()  # so that it is known once it matters

    def stop(self) -> None:
        """Admit nothing more."""
        self._open = False
        self.pause.stop()

    async def close(self) -> None:
        await self._power.close()

    async def admits(self, document: CalibDocument) -> bool:
        return await self.refusal(document) is None

    async def refusal(self, document: CalibDocument, patience: float | None = None) -> NoSuggestion | None:
        """Why a document may not be used for a prompt, None if it may.

        patience: seconds to wait at the start, until the settings that exclude documents are known.
        """
        if not self.settings_known.is_set():
            limit = _SETTINGS_PATIENCE if patience is None else patience
            try:
                await asyncio.wait_for(self.settings_known.wait(), limit)
            except TimeoutError:
                return STARTING
        if not (self._open and document.is_open):
            # Closed meanwhile: what a request remembers of the document would stay.
            return SUPERSEDED
        why = self.excluded(document)
        return excluded(why) if why else None

    def unwanted(self, language: str) -> NoSuggestion | None:
        """Why a request that the user has not made by hand is not answered now, None if it is."""
        if self.pause.message:
            return paused(self.pause.message)
        return None if is_chosen(language, self._connection.settings.languages) else language_off(language)

    @property
    def in_comments(self) -> bool | None:
        """Whether completions in comments and documentation strings come by themselves; None: as the model's
        card says."""
        comments = self._connection.settings.comments
        return None if comments is None else comments == "on"

    def may_work_ahead(self) -> bool:
        """Whether the model may work on what nobody has asked for yet: not in a pause, nor on battery."""
        return self._open and not self.pause.message and not self._power.on_battery()

    def excluded(self, document: CalibDocument) -> str:
        """Why a document is excluded, "" if it is not. The names of its file decide."""
        return self.exclusion().reason(*document.file_names)

    def exclusion(self) -> Exclusion:
        """Also for the pieces of other files in a prompt (`completion.related_code`,
        `summarization.workspace_examples`), where `workspace_files` leaves out more."""
        return Exclusion(self._connection.settings.exclude)


class Pause:
    """The pause of automatic completions that the user asks for. It ends with the session at the latest."""

    def __init__(self, paused: Callable[[str], object]) -> None:
        """paused: is told for how long, a sentence; "" once the pause is over."""
        self._paused = paused
        self._message = ""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def message(self) -> str:
        """For how long, a sentence; "" if there is no pause."""
        return self._message

    def begin(self, minutes: float | None) -> None:
        """Pause from now on, for so many minutes, or until `end`. It replaces an earlier pause."""
        self.stop()
        self._message = "Completions are paused until you resume them."
        if minutes is not None:
            unit = "minute" if minutes == 1 else "minutes"
            self._message = f"Completions are paused for {minutes:g} {unit}."
            self._timer = asyncio.get_running_loop().call_later(60 * minutes, self.end)
        self._paused(self._message)

    def end(self) -> None:
        """Resume. Without a pause this does nothing."""
        if self._message:
            self.stop()
            self._paused(self._message)

    def stop(self) -> None:
        """End the pause without telling anyone: the session closes."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._message = None, ""


class PowerWatch:
    """Reads the source of power in a thread, when somebody wants to know and the last reading is old.

    read: True on battery, None if that is not known. clock: seconds that only grow.
    """

    def __init__(self, read: Callable[[], bool | None] = on_battery, clock: Clock = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._known: bool | None = None
        self._at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    def on_battery(self) -> bool:
        """As it was at the last reading. Until the first one, and where it is not known: mains."""
        is_old = self._at is None or self._clock() - self._at > _FRESH
        if is_old and self._reading is None:
            self._reading = asyncio.create_task(self._look())
        return bool(self._known)

    async def close(self) -> None:
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _look(self) -> None:
        try:
            self._known = await asyncio.to_thread(self._read)
        finally:
            self._at, self._reading = self._clock(), None
