"""What the model does before anybody asks: it evaluates the prompt where the cursor rests, and completes the
line after an accepted suggestion.

People look before they type. What is evaluated meanwhile is in the model's cache when the first key comes.
`Places` and `Budget` decide, by a clock that is given; `WorkAhead` does it, and all of it gives way at once
when the model is needed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

import attrs
from lsprotocol import types

from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engine import EngineState, Priority
from lsp_calib.inference.processor import default_threads
from lsp_calib.server.admission import Admission, IdleWork
from lsp_calib.server.documents import CalibDocument, DocumentChanged
from lsp_calib.server.messages import Clock, Connection
from lsp_calib.server.model import Model, Status
from lsp_calib.values import LRU, Timing

if TYPE_CHECKING:
    from lsp_calib.completion.memory import CompletionMemory
    from lsp_calib.completion.service import CompletionService
    from lsp_calib.feedback.lines import LineMap
    from lsp_calib.inference.engine import Request

logger = logging.getLogger(__name__)

# Seconds that a cursor stays before its place is evaluated.
REST = 0.4
# Processor seconds, of all threads together, that evaluating takes at most in any window of so many seconds.
BUDGET, WINDOW = 24.0, 120.0
# Nothing is begun with less: a model evaluates some ten tokens in it.
_LEAST = 2.0
# Seconds for which a document counts as worked in after an edit.
_RECENT = 300.0
# Seconds between an insertion and the start of the work on the next line.
AHEAD_PAUSE = 0.05
# Documents whose last edited place is known, and lines that were evaluated and not asked about yet.
_MOST_DOCUMENTS, _MOST_LINES = 100, 16
# A speed is measured over so many tokens at least.
_MEASURED = 16


@attrs.frozen
class Place:
    """A place in an editor's document: line and column, in code points, from 0. It prints as people count."""

    uri: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line + 1}:{self.column + 1}"


class Budget:
    """Processor seconds that may still be spent, in a window that moves with the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: deque[tuple[float, float]] = deque()  # until when it counts, how much

    def spend(self, seconds: float) -> None:
        self._spent.append((self._clock() + WINDOW, seconds))

    def left(self) -> float:
        while self._spent and self._spent[0][0] <= self._clock():
            self._spent.popleft()
        return BUDGET - sum(seconds for _, seconds in self._spent)

    def wait(self) -> float:
        """Seconds until enough is left to begin; 0 if it is."""
        left, now = self.left(), self._clock()
        freed = now
        for until, seconds in self._spent:
            if left >= _LEAST:
                break
            left, freed = left + seconds, until
        return max(freed - now, 0.0)


class Places:
    """Where the user is, by what the editor sends, and which places are worth evaluating. It holds no text.

    here: the place where the cursor is; None if that is not known. Each method that may move it returns
    whether it did.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.here: Place | None = None
        self._tells = False  # whether the client sends where its cursor is
        self._edited = LRU[str, float](_MOST_DOCUMENTS)  # by file, when
        self._last = LRU[str, Place](_MOST_DOCUMENTS)  # by document, the last edited place
        self._opened: set[str] = set()  # documents of which no place is known since
        self._first: Place | None = None  # known of its document when that was opened

    def told(self, place: Place) -> bool:
        """The client says where its cursor is."""
        self._tells = True
        return self._move(place)

    def seen(self, place: Place) -> bool:
        """A request is about a place, which is the cursor's in editors that do not say where that is."""
        return not self._tells and self._move(place)

    def asked(self, place: Place) -> bool:
        """A completion is wanted there."""
        return self._move(place)

    def edited(self, place: Place, file: str) -> bool:
        """The user has changed a document up to a place."""
        self._edited[file] = self._clock()
        self._last[place.uri] = place
        return self._move(place)

    def shifted(self, uri: str, where: LineMap) -> bool:
        """Something else has changed a document: the cursor stays in its line, if that is still there."""
        here = self.here
        if here is None or here.uri != uri or here.line < where.start:
            return False
        stays = here.line >= where.old_end
        line = here.line - where.old_end + where.new_end
        self.here = attrs.evolve(here, line=line) if stays else None
        return True

    def opened(self, uri: str) -> bool:
        """A document was opened: the user goes on where it was edited last, unless the client says where."""
        self._opened.add(uri)
        last = self._last.get(uri)
        return last is not None and not self._tells and self._move(last)

    def closed(self, uri: str) -> None:
        self._opened.discard(uri)
        if self.here is not None and self.here.uri == uri:
            self.here = None

    def is_worth(self, place: Place, file: str, after: str) -> bool:
        """Whether the user is likely to type there. after: the rest of the line, without closers."""
        edited = self._edited.get(file)
        if edited is not None and self._clock() - edited <= _RECENT:
            return True
        # A document opens at its beginning unless something else is known of it.
        opened_there = place == self._first and (place.line, place.column) != (0, 0)
        return opened_there or not after.strip()

    def _move(self, place: Place) -> bool:
        if place.uri in self._opened:
            self._opened.discard(place.uri)
            self._first = place
        moved, self.here = place != self.here, place
        return moved


@attrs.define(eq=False, repr=False, slots=False)
class WorkAhead:
    """All that the model does before it is asked, for one connection. One rule says who gives way: a sign of
    the user in another line stops an evaluation, and a request to the model stops everything. A request in
    the line itself takes the evaluation over: what that is at are the request's own tokens.

    in_comments: whether completions come in comments by themselves, as for `CompletionService.keeps_out`.
    """

    _connection: Connection
    _model: Model
    _admission: Admission
    _status: Status
    _service: CompletionService
    _memory: CompletionMemory
    _in_comments: Callable[[], bool | None]
    _clock: Clock = time.monotonic

    def __attrs_post_init__(self) -> None:
        self._places = Places(self._clock)
        self._budget = Budget(self._clock)
        self._rest = IdleWork("evaluating where the cursor rests", REST, self._evaluate, stops=True)
        self._after_accept = IdleWork("the next line", AHEAD_PAUSE, self._complete, stops=True)
        self._next: tuple[CalibDocument, Cursor] | None = None
        # By document and line: the tokens that were evaluated there, behind those that were known before.
        self._evaluated = LRU[tuple[str, int], tuple[int, int]](_MOST_LINES)
        self._requests = 0  # of the user's that the model is at
        self._line: tuple[str, int] | None = None  # the document and line that are being evaluated
        self._speed = 0.0  # tokens a second; 0: not known yet
        self._early: tuple[str, types.Position] | None = None  # told of a document that is not open

    # Signs of where the user is.

    def told(self, uri: str, position: types.Position) -> None:
        """The client says where its cursor is, perhaps right before it opens the document."""
        document = self._connection.open_document(uri)
        self._early = (uri, position) if document is None else None
        if document is not None:
            self._sign(self._places.told(Place(document.uri, *document.place_of(position))))

    def seen(self, uri: str, position: types.Position) -> None:
        """A request is about a place."""
        if (document := self._connection.open_document(uri)) is not None:
            self._sign(self._places.seen(Place(document.uri, *document.place_of(position))))

    def asked(self, uri: str, cursor: Cursor) -> None:
        """A completion is asked for: if the model is needed, it is needed now."""
        self._places.asked(Place(uri, cursor.own_line, cursor.column))
        self._sign(True)

    def changed(self, change: DocumentChanged) -> None:
        from lsp_calib.feedback.events import By

        uri, all_ = change.document.uri, change.changes.all
        if change.by is By.USER and all_:
            place = Place(uri, *all_[-1].end)
            logger.debug("Edited up to %s.", place)
            self._places.edited(place, change.document.file)
            self._sign(True)
        else:
            self._sign(self._places.shifted(uri, change.changes.where))

    def opened(self, document: CalibDocument) -> None:
        self._sign(self._places.opened(document.uri))
        if self._early is not None and unquote(self._early[0]) == unquote(document.uri):
            self.told(*self._early)

    def go_on(self) -> None:
        """The model is loaded, a pause is over, settings have changed: the place may be evaluated now."""
        self._sign(not self._rest.is_at_work)

    def _sign(self, happened: bool) -> None:
        if happened and self._is_at(self._places.here):
            self._rest.put_off()
        elif happened:
            self._rest.wait()

    def _is_at(self, place: Place | None) -> bool:
        """Whether the line of a place is being evaluated."""
        return place is not None and self._line == (place.uri, place.line)

    # Giving way.

    def give_way(self) -> None:
        """Nothing may be done ahead."""
        self._rest.stop()
        self._after_accept.stop()

    @contextmanager
    def needed(self, place: Place) -> Iterator[None]:
        """The model is needed at a place, in whatever document. Nothing is begun meanwhile: its wait for the
        answer would count as its work."""
        if not self._is_at(place):
            self._rest.stop()
        self._after_accept.stop()
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self.go_on()

    def forget(self, uri: str) -> None:
        """A document is closed, or no model may see it any more."""
        if self._next is not None and self._next[0].uri == uri:
            self._after_accept.stop()
            self._next = None
        if self._places.here is not None and self._places.here.uri == uri:
            self._rest.stop()
        self._places.closed(uri)

    async def close(self) -> None:
        await self._rest.close()
        await self._after_accept.close()

    def may_work_in(self, document: CalibDocument) -> bool:
        """Whether anything may be done ahead in a document."""
        settings = self._connection.settings
        return (
            settings.prefetch
            # A request to another machine takes its time, and may cost money.
            and settings.remote_url is None
            and self._admission.may_work_ahead()
            and not self._admission.excluded(document)
            and self._admission.unwanted(document.language) is None
        )

    # The line after an accepted suggestion.

    def complete_next(self, document: CalibDocument, cursor: Cursor) -> None:
        """Complete the line at a cursor that is not there yet."""
        self._after_accept.stop()
        if not in_data(cursor) and self._memory.recall(document.file, cursor) is None:
            self._next = document, cursor
            self._after_accept.wait()

    async def _complete(self) -> None:
        if self._next is None:
            return
        document, cursor = self._next
        below, file = self._connection.settings.hide_below, document.file
        try:
            if await self._service.keeps_out(cursor, self._in_comments(), document=file):
                return
            outcome = await self._service.complete(cursor, Priority.IDLE, document=file, hide_below=below)
        except LspCalibError as error:
            logger.debug("Not completed ahead: %s", error)
            return
        if below == self._connection.settings.hide_below:
            self._memory.remember(file, cursor, outcome)

    # The place where the cursor rests.

    async def _evaluate(self) -> None:
        await self._after_accept.ended()
        while (found := self._wanted()) is not None:
            place, document, cursor = found
            try:
                if await self._service.keeps_out(cursor, self._in_comments(), document=document.file):
                    return
                if seconds := self._budget.wait():
                    logger.debug("The cursor rests at %s; evaluating waits %.0f s.", place, seconds)
                    await asyncio.sleep(seconds)
                    continue
                logger.debug("The cursor rests at %s.", place)
                request = await self._service.evaluation(cursor, document=document.file)
                if await self._run(place, request):
                    return
            except LspCalibError as error:
                logger.debug("Not evaluated ahead: %s", error)
                return

    def _wanted(self) -> tuple[Place, CalibDocument, Cursor] | None:
        """The place to evaluate now, as a completion would be asked for there; None if there is none."""
        place, loaded = self._places.here, self._model.loaded
        document = None if place is None else self._connection.open_document(place.uri)
        if self._requests or place is None or document is None:
            return None
        if loaded is None or not loaded.evaluates_ahead:
            return None
        # Idle work loads no model.
        if self._status.state not in (EngineState.READY, EngineState.BUSY) or not self.may_work_in(document):
            return None
        lines, first = document.in_its_text()
        if place.line >= len(document.bare_lines):  # the document has become another one
            return None
        cursor = Cursor.at(lines, first + place.line, place.column, document.language, first)
        cursor = cursor.without_closers_behind()
        if in_data(cursor) or not self._places.is_worth(place, document.file, cursor.after):
            return None
        if self._memory.recall(document.file, cursor) is not None:
            return None
        return place, document, cursor

    async def _run(self, place: Place, request: Request) -> bool:
        """Evaluate a prompt; whether it was evaluated to its end, and not to that of the budget."""
        threads = self._connection.settings.threads or default_threads()
        began, timing = self._clock(), None
        self._line = place.uri, place.line
        try:
            async with asyncio.timeout(self._budget.left() / threads):
                timing = (await self._model.engine.generate(request)).timing
        except TimeoutError:
            return False
        finally:
            self._line = None
            self._count(place, timing, self._clock() - began, threads)
        return True

    def _count(self, place: Place, timing: Timing | None, took: float, threads: int) -> None:
        """Add an evaluation to the budget and the status. timing: None of one that was stopped: it has no
        answer, and counts as long as it took, with as many tokens as the model evaluates in that time."""
        if timing is None:
            tokens, reused = round(took * self._speed), 0
            logger.debug("Stopped evaluating %s after %.0f ms.", place, 1e3 * took)
        else:
            self._learn_speed(timing)
            took, reused = timing.prompt_ms / 1e3, timing.prompt_reused
            tokens = timing.prompt_tokens - reused
            logger.debug("Evaluated %s ahead: %s", place, _words(timing))
        self._budget.spend(took * threads)
        ahead = self._status.ahead
        ahead.seconds += took * threads
        ahead.evaluated += tokens
        line = place.uri, place.line
        if (before := self._evaluated.get(line)) is not None:
            tokens, reused = tokens + before[0], min(reused, before[1])
        self._evaluated[line] = tokens, reused

    def answered(self, place: Place, timing: Timing) -> None:
        """A request of the user's has been answered: what of its prompt was evaluated ahead was of use."""
        self._learn_speed(timing)
        for line in (place.line, place.line - 1):  # Enter may have been the first key
            if (ahead := self._evaluated.pop((place.uri, line), None)) is not None:
                tokens, reused = ahead
                self._status.ahead.used += min(tokens, max(timing.prompt_reused - reused, 0))
                break
        logger.debug("Answered at %s after %.0f ms: %s", place, timing.total_ms, _words(timing))

    def _learn_speed(self, timing: Timing) -> None:
        tokens = timing.prompt_tokens - timing.prompt_reused
        if tokens >= _MEASURED and timing.prompt_ms > 0.0:
            self._speed = 1e3 * tokens / timing.prompt_ms


def _words(timing: Timing) -> str:
    return (
        f"a prompt of {timing.prompt_tokens} tokens, {timing.prompt_reused} of them known, evaluated in "
        f"{timing.prompt_ms:.0f} ms."
    )
