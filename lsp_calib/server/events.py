"""What happens in a connection, as typed events, and what is done in pauses, when nothing happens. Whatever
follows from an event subscribes to it.

A fault in one subscriber is logged and keeps no other from its turn: typing and labels go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from lsp_calib.errors import LspCalibError

if TYPE_CHECKING:
    from lsp_calib.completion.context import Cursor
    from lsp_calib.completion.postprocess import Removal
    from lsp_calib.completion.service import Completion
    from lsp_calib.feedback.events import By
    from lsp_calib.feedback.tracker import Remains
    from lsp_calib.inference.engine import LoadedModel
    from lsp_calib.server.text import CalibDocument, Changes
    from lsp_calib.values import CalibratorRef, Suggestion

logger = logging.getLogger(__name__)
E = TypeVar("E")
Clock = Callable[[], float]
"""Seconds."""

# Documents. A cell of a notebook is one, too.


@attrs.frozen
class DocumentOpened:
    """Some editors open a document twice. lines: as they are now."""

    document: CalibDocument
    lines: tuple[str, ...]


@attrs.frozen
class DocumentChanged:
    """lines: as they are now. changes: those of one message."""

    document: CalibDocument
    lines: tuple[str, ...]
    changes: Changes
    by: By


@attrs.frozen
class DocumentSaved:
    """by_hand: what is in it is finished, unless the user goes on with it at once; otherwise the editor does
    not say whether it has saved by itself."""

    uri: str
    by_hand: bool


@attrs.frozen
class DocumentClosed:
    """notebook: URI of the one that it was a cell of, which may be open; "": of none. remains: the lines that
    are left of those that it was closed with."""

    uri: str
    notebook: str
    remains: Remains


@attrs.frozen
class NotebookClosed:
    """Some editors close its cells before."""

    uri: str


# Requests of the user.


@attrs.frozen
class CompletionRequested:
    """An admitted request; the model may not be needed for it."""

    uri: str
    cursor: Cursor


@attrs.frozen
class SummaryRequested:
    """An admitted request for a summary."""


@attrs.frozen
class UserMoved:
    """The user is at a line, counted from 0."""

    uri: str
    line: int


# What becomes of them.


@attrs.frozen
class SuggestionMade:
    """The model has made a completion or a summary, whether or not it is shown. completion: None of a
    summary."""

    suggestion: Suggestion
    completion: Completion | None = None


@attrs.frozen
class CompletionWithheld:
    """Nothing of the model's answer can be offered."""

    removal: Removal


@attrs.frozen
class SuggestionShown:
    """A suggestion is about to be shown, perhaps again. below: so many lines below its own show as well."""

    uri: str
    completion: Completion
    below: int


@attrs.frozen
class SuggestionOutdated:
    """The document has changed before its suggestion could be shown."""

    uri: str


@attrs.frozen
class SuggestionInserted:
    """A change has inserted a suggestion at a line, counted from 0."""

    uri: str
    line: int


@attrs.frozen
class MarksChanged:
    """The inserted suggestions of a document are others, or elsewhere."""

    uri: str


@attrs.frozen
class LabelsRecorded:
    """n: how many are new."""

    n: int


@attrs.frozen
class SummaryKnown:
    """A summary is known that was not, or another one."""


# The state of the server.


@attrs.frozen
class ModelLoaded:
    loaded: LoadedModel


@attrs.frozen
class SettingsChanged:
    """They may be the same."""


@attrs.frozen
class PauseChanged:
    """message: for how long, a sentence; "" once the pause is over."""

    message: str


@attrs.frozen
class CalibratorChanged:
    """Another calibrator is in force."""

    ref: CalibratorRef


class Events:
    """Sends events to those who subscribed to their type, in the order of the subscriptions."""

    def __init__(self) -> None:
        self._subscribers: dict[type[Any], list[Callable[[Any], object]]] = {}

    def close(self) -> None:
        """Send nothing more."""
        self._subscribers.clear()

    def on(self, kind: type[E], act: Callable[[E], object]) -> None:
        """Have `act` called with each event of a type."""
        self._subscribers.setdefault(kind, []).append(act)

    def send(self, event: object) -> None:
        for act in self._subscribers.get(type(event), ()):
            try:
                act(event)
            except Exception:
                logger.exception("%s could not be handled in full.", type(event).__name__)


# What the server does when the user does nothing: which work, after how many seconds, and what stops it. One
# piece runs at a time, the most urgent first; `WORK` is the whole plan. Work for the very next key
# (`WorkAhead`), which begins with the answer and not in a pause, and the search for examples
# (`ExampleIndex`), which a summary waits for, are no idle work; both ask `Admission.may_work_ahead` as well.

Piece = Callable[[], Awaitable[float | None]]
"""Does the most urgent piece of a work; returns the seconds until the next one, None if there is none before
something happens."""


@attrs.frozen
class Pace:
    """Seconds without the user. summaries: then the user reads, thinks or is away; somebody may
    ask for what is on the screen. refit: nobody is typing; it takes a second or
    two of a processor. watch: after the first of several labels, which often come together, as on a save.
    memory: after documents were closed; it takes some hundredths of a second.
    """

    summaries: float = 5.0
    refit: float = 20.0
    watch: float = 1.0
    memory: float = 2.0


_TYPING = (DocumentChanged, CompletionRequested)
WORK: tuple[tuple[str, tuple[type[object], ...], bool], ...] = (
    ("summaries", (*_TYPING, DocumentOpened, UserMoved), True),
    ("refit", _TYPING, False),
    ("memory", (*_TYPING, DocumentOpened, DocumentClosed), False),
)
"""Each work by its name in `Pace`: the events after which it waits anew, and whether they stop it as well."""


@attrs.define(eq=False)
class _Work:
    """after: seconds without its events. stops: whether they end it. at: when to begin; None: not
    before something happens."""

    name: str
    after: float
    stops: bool
    piece: Piece | None = None
    at: float | None = None


class Idle:
    """Runs idle work, in the order of `WORK`."""

    def __init__(self, events: Events, pace: Pace) -> None:
        self._works = {name: _Work(name, getattr(pace, name), stops) for name, _, stops in WORK}
        for kind in dict.fromkeys(kind for _, kinds, _ in WORK for kind in kinds):
            events.on(
                kind, partial(self._happened, [self._works[name] for name, kinds, _ in WORK if kind in kinds])
            )
        events.on(ModelLoaded, lambda _: self.resume())
        events.on(PauseChanged, lambda one: self.stop() if one.message else self.resume())
        self._timer: asyncio.TimerHandle | None = None
        self._running: tuple[_Work, asyncio.Task[None]] | None = None
        self._closed = False

    def run(self, name: str, piece: Piece) -> None:
        """Have this done as the work with a name. A LspCalibError is logged: the user has asked for
        nothing."""
        self._works[name].piece = piece

    def wait(self, name: str) -> None:
        """Something has happened: the work begins so many seconds after the last time."""
        self._happened([self._works[name]])

    def _happened(self, works: Sequence[_Work], _event: object = None) -> None:
        now = asyncio.get_running_loop().time()
        for work in works:
            if work.stops and self._runs(work):
                self._cancel()
            if work.piece is not None:
                work.at = now + work.after
        self._arm()

    def resume(self) -> None:
        """What stood in the way may be gone, such as a pause."""
        for work in self._works.values():
            if work.piece is not None and work.at is None and not self._runs(work):
                work.at = asyncio.get_running_loop().time() + work.after
        self._arm()

    def stop(self, *names: str) -> None:
        """Stop the work until something happens; names: all that can be stopped unless given."""
        for work in map(self._works.__getitem__, names or self._works):
            if work.stops:
                work.at = None
                if self._runs(work):
                    self._cancel()
        self._arm()

    async def close(self) -> None:
        """End all work for good."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            task = self._running[1]
            self._cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _cancel(self) -> None:
        if self._running is not None:
            self._running[1].cancel()
            self._running = None

    def _runs(self, work: _Work) -> bool:
        return self._running is not None and self._running[0] is work

    def _arm(self) -> None:
        """Wake up for the next work. A timer that is early is left as it is: keys come fast."""
        if self._closed or self._running is not None:
            return
        due = min((one.at for one in self._works.values() if one.at is not None), default=None)
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._wake)

    def _wake(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for work in self._works.values():
            if self._running is None and work.at is not None and work.at <= now and work.piece is not None:
                work.at = None
                self._running = work, asyncio.create_task(self._do(work, work.piece))
        self._arm()

    async def _do(self, work: _Work, piece: Piece) -> None:
        again = None
        try:
            again = await piece()
        except LspCalibError as error:
            logger.warning("Idle work (%s) could not be done: %s", work.name, error)
        except Exception:
            logger.exception("Idle work (%s) has failed.", work.name)
        finally:
            if self._running is not None and self._running[1] is asyncio.current_task():
                self._running = None
        if again is not None and work.at is None:
            work.at = asyncio.get_running_loop().time() + again
        self._arm()
