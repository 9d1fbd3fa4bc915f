"""Lines that the user has just typed, completed afterwards as if the cursor had been in them: labels of what
nobody was shown."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque

import attrs

from lsp_calib.completion.context import Cursor, drawn_place, in_data
from lsp_calib.completion.service import Completion
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.typed_lines import FinishedLine, TypedLines
from lsp_calib.inference.engine import EngineState
from lsp_calib.server import events as on
from lsp_calib.server.admission import Admission
from lsp_calib.server.completions import Completions
from lsp_calib.server.connection import Connection
from lsp_calib.server.events import Clock, Events, Idle, Pace
from lsp_calib.server.feedback_recorder import FeedbackRecorder
from lsp_calib.server.model import Status
from lsp_calib.server.summary_requests import SummaryRequests
from lsp_calib.syntax import prose_lines
from lsp_calib.syntax.magics import CommandLine
from lsp_calib.text_lines import normalised_line

logger = logging.getLogger(__name__)

# At most this share of the time in which nobody needs the machine.
SHARE = 0.2
_HOUR = 3600.0


@attrs.define(eq=False, repr=False, slots=False)
class LineReplay:
    """Follows what the user types and, when all is idle, completes finished lines one after the other."""

    _connection: Connection
    _completions: Completions
    _recorder: FeedbackRecorder
    _admission: Admission
    _status: Status
    _summaries: SummaryRequests
    _typed: TypedLines
    _idle: Idle
    _pace: Pace
    _events: Events
    _clock: Clock = time.monotonic

    def __attrs_post_init__(self) -> None:
        self._asked: deque[float] = deque()  # when, in the last hour
        self._idle.run("replay", self._replay)
        self._events.on(on.DocumentOpened, self._opened)
        self._events.on(on.DocumentChanged, self._changed)
        self._events.on(on.CompletionRequested, self._requested)
        self._events.on(
            on.SuggestionShown,
            lambda one: self._typed.shown(one.uri, one.completion.cursor.own_line, one.below),
        )
        self._events.on(on.LinesFinished, lambda one: self._typed.saved(one.uri, self._clock()))
        self._events.on(on.DocumentClosed, lambda one: self._typed.closed(one.uri))
        self._events.on(on.SettingsChanged, lambda _: self._settings_changed())

    def _opened(self, opened: on.DocumentOpened) -> None:
        if self._admission.replays:
            self._typed.opened(opened.document.uri, opened.lines)

    def _changed(self, changed: on.DocumentChanged) -> None:
        if self._admission.replays and changed.changes.all:
            self._typed.changed(
                changed.document.uri,
                changed.lines,
                changed.changes.region,
                typed=changed.typed,
                changes=len(changed.changes.all),
                now=self._clock(),
            )

    def _requested(self, requested: on.CompletionRequested) -> None:
        self._typed.requested(requested.uri, requested.cursor.own_line, self._clock())

    def _settings_changed(self) -> None:
        """Where it is forbidden, nothing is kept."""
        if not self._admission.replays:
            self._idle.stop("replay")
            self._typed.clear()

    def _seconds_to_wait(self) -> float | None:
        """Until a line can be replayed; None if there is none, before something happens."""
        waiting = self._typed.waiting() if self._admission.replays else []
        if not waiting:
            return None
        now = self._clock()
        wait = max(min(one.ready_at for one in waiting) - now, 0.0)
        while self._asked and self._asked[0] + _HOUR <= now:
            self._asked.popleft()
        if len(self._asked) >= self._pace.lines_an_hour:
            wait = max(wait, self._asked[0] + _HOUR - now)
        return wait

    async def _replay(self) -> float | None:
        """Replay a line that is ready; the seconds until the next one, None if there is none."""
        wait = self._seconds_to_wait()
        if wait is None or wait > 0:
            return wait
        found = self._next()
        took = None if found is None else await self._replayed(found)
        if took is None:
            return self._pace.retry
        wait = self._seconds_to_wait()
        return None if wait is None else max(took * (1 / SHARE - 1), wait)

    def _next(self) -> FinishedLine | None:
        """A line that is ready, in a document in which it can be replayed now."""
        now = self._clock()
        return next(
            (one for one in self._typed.waiting() if one.ready_at <= now and self._goes(one.uri)), None
        )

    def _goes(self, uri: str) -> bool:
        # Idle work loads no model, and waits while the model works for another window or on a summary.
        is_free = self._status.state is EngineState.READY and not self._summaries.is_busy
        return is_free and self._admission.may_replay(uri)

    async def _replayed(self, found: FinishedLine) -> float | None:
        """Replay a line; the seconds that it took, None if the model could not be asked."""
        document = self._connection.open_document(found.uri)
        if document is None:
            self._typed.take(found)
            return 0.0
        begun, language, own = self._clock(), document.language, found.lines
        lines, first = document.in_its_text(own)
        line = first + found.line
        is_command = isinstance(lines[line], CommandLine)
        if is_command or found.line in await asyncio.to_thread(prose_lines, own, language):
            # Comments, documentation and commands of notebooks: the shipped calibrators have not seen them.
            self._typed.take(found)
            return 0.0
        _, column = drawn_place(found.text, random.Random(found.draw))
        shown = (*lines[:line], found.text[:column], *lines[line + 1 :])
        if in_data(Cursor.at(shown, line, column, language)):
            self._typed.take(found)
            return 0.0
        self._asked.append(begun)
        try:
            outcome = await self._completions.replay(
                found.uri, Cursor.at(shown, line, column, language, first)
            )
        except LspCalibError as error:
            logger.debug("A line could not be replayed: %s", error)
            return None
        if self._typed.take(found) and isinstance(outcome, Completion) and outcome.evidence.logprobs:
            correct = normalised_line(outcome.expected_line) == normalised_line(found.text)
            self._recorder.replayed(found.uri, outcome, found.text, correct, time.time())
            self._events.send(on.LineReplayed(correct))
            self._events.send(on.LabelsRecorded(1))
        return self._clock() - begun
