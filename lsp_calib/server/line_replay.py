"""Lines that the user has just typed, completed afterwards as if the cursor had been in them: labels of what
nobody was shown."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import attrs

from lsp_calib.completion import Completion, Cursor
from lsp_calib.completion.places import drawn_place
from lsp_calib.errors import LspCalibError
from lsp_calib.feedback.typed_lines import FinishedLine, TypedLines
from lsp_calib.server.bulk_changes import Change, region_of
from lsp_calib.server.convert import language_of
from lsp_calib.server.text import CalibDocument
from lsp_calib.syntax import prose_lines
from lsp_calib.text_lines import comparable

logger = logging.getLogger(__name__)

# Seconds without a request or a change after which the user reads, thinks or is away. Summaries on the
# screen come first: somebody may ask for them.
IDLE = 8.0
# Seconds after which it is tried again where something was in the way: a battery, another program.
RETRY = 60.0
# At most so many lines an hour, and at most this share of the time in which nobody needs the machine: a
# calibrator needs some hundred labels, and no more in a day.
LINES_AN_HOUR = 60
SHARE = 0.2
_HOUR = 3600.0


@attrs.frozen
class Replayed:
    """What became of a replayed line. line: its text. correct: the completion was the rest of it."""

    uri: str
    line: str
    completion: Completion
    correct: bool


class LineReplay:
    """Follows what the user types and, when all is idle, completes finished lines one after the other.

    document: an open document by its URI. wanted: whether lines are to be replayed at all. goes: whether to
    do so now in a document, by its URI. complete: what the model offers in a document at a place, with
    nothing hidden; raises LspCalibError. on_label: called with each line for which it offered something.
    clock: seconds that only grow.
    """

    def __init__(
        self,
        *,
        document: Callable[[str], CalibDocument | None],
        wanted: Callable[[], bool],
        goes: Callable[[str], bool],
        complete: Callable[[str, Cursor], Awaitable[object]],
        on_label: Callable[[Replayed], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._document = document
        self._wanted = wanted
        self._goes = goes
        self._complete = complete
        self._on_label = on_label
        self._clock = clock
        self._typed = TypedLines()
        self._asked: deque[float] = deque()  # when, in the last hour
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None
        self._stopped = False
        self._labels = 0
        self._correct = 0

    def opened(self, uri: str) -> None:
        document = self._document(uri)
        if document is not None and self._wanted():
            self._typed.opened(uri, document.bare_lines)

    def changed(self, uri: str, document: CalibDocument, changes: Sequence[Change], typed: bool) -> None:
        """The changes of one message. typed: whether they may have been typed, as far as `BulkChanges`
        tells."""
        if self._wanted() and changes:
            self._typed.changed(
                uri,
                document.bare_lines,
                region_of(changes),
                typed=typed,
                changes=len(changes),
                now=self._clock(),
            )
        self.active()

    def requested(self, uri: str, line: int) -> None:
        """There is a request of any kind at a line, from 0: the user is there."""
        self._typed.requested(uri, line, self._clock())
        self.active()

    def shown(self, uri: str, line: int, below: int) -> None:
        """A suggestion is shown on a line, and on so many lines below it: it gets a label of its own."""
        self._typed.shown(uri, line, below)

    def saved(self, uri: str) -> None:
        """The user has saved a document: what is in it is finished."""
        self._typed.saved(uri, self._clock())
        self.active()

    def closed(self, uri: str) -> None:
        """What is known of a document goes with it."""
        self._typed.closed(uri)
        self.active()

    def apply_settings(self) -> None:
        """The settings may have changed: where it is forbidden, nothing is kept."""
        if not self._wanted():
            self.halt()
            self._typed.clear()

    def active(self) -> None:
        """Something happens: stop at once, and begin again some seconds after the last time."""
        self.halt()
        self.resume()

    def resume(self) -> None:
        """What stood in the way may be gone: the model is loaded, a pause is over."""
        works = self._work is not None and not self._work.done()
        if self._timer is None and not works:
            self._begin_in(IDLE)

    def halt(self) -> None:
        """Stop the work, until something happens again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._work is not None:
            self._work.cancel()
            self._work = None

    async def close(self) -> None:
        """Stop for good."""
        self._stopped = True
        work = self._work
        self.halt()
        if work is not None:
            await asyncio.gather(work, return_exceptions=True)

    def to_wire(self) -> dict[str, int]:
        """Numbers of this session: finished lines that wait, labels, and how many of them were right."""
        return {"waiting": len(self._typed.waiting()), "labels": self._labels, "correct": self._correct}

    def _begin_in(self, seconds: float) -> None:
        if not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        wait = self._seconds_to_wait()
        if wait is None:
            return
        if wait > 0:
            self._begin_in(wait)
        else:
            self._work = asyncio.create_task(self._replay())

    def _seconds_to_wait(self) -> float | None:
        """Until a line can be replayed; None if there is none, before something happens."""
        waiting = self._typed.waiting() if self._wanted() else []
        if not waiting:
            return None
        now = self._clock()
        wait = max(min(one.ready_at for one in waiting) - now, 0.0)
        while self._asked and self._asked[0] + _HOUR <= now:
            self._asked.popleft()
        if len(self._asked) >= LINES_AN_HOUR:
            wait = max(wait, self._asked[0] + _HOUR - now)
        return wait

    async def _replay(self) -> None:
        """Replay what is ready; begin again when there is more."""
        again: float | None = 0.0
        while again is not None and again <= 0:
            found = self._next()
            took = None if found is None else await self._replayed(found)
            if took is None:
                again = RETRY
            else:
                await asyncio.sleep(took * (1 / SHARE - 1))
                again = self._seconds_to_wait()
        self._work = None
        if again is not None:
            self._begin_in(again)

    def _next(self) -> FinishedLine | None:
        """A line that is ready, in a document in which it can be replayed now."""
        now = self._clock()
        return next(
            (one for one in self._typed.waiting() if one.ready_at <= now and self._goes(one.uri)), None
        )

    async def _replayed(self, found: FinishedLine) -> float | None:
        """Replay a line; the seconds that it took, None if the model could not be asked."""
        document = self._document(found.uri)
        if document is None:
            self._typed.take(found)
            return 0.0
        begun, language, lines = self._clock(), language_of(document), found.lines
        if found.line in await asyncio.to_thread(prose_lines, lines, language):
            self._typed.take(found)  # comments and documentation, which the shipped calibrators have not seen
            return 0.0
        _, column = drawn_place(found.text, random.Random(found.draw))
        shown = (*lines[: found.line], found.text[:column], *lines[found.line + 1 :])
        self._asked.append(begun)
        try:
            outcome = await self._complete(found.uri, Cursor.at(shown, found.line, column, language))
        except LspCalibError as error:
            logger.debug("A line could not be replayed: %s", error)
            return None
        if self._typed.take(found) and isinstance(outcome, Completion) and outcome.evidence.logprobs:
            correct = comparable(outcome.expected_line) == comparable(found.text)
            self._labels += 1
            self._correct += correct
            self._on_label(Replayed(found.uri, found.text, outcome, correct))
        return self._clock() - begun
