"""What is made besides the completion that was asked for: alternatives, lines below, work ahead of it.

The latest completions of each document are remembered, hidden ones too: typing along, going back and
returning need no model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import attrs

from lsp_calib.completion.context import Cursor, in_data, next_place
from lsp_calib.completion.postprocess import closed_by_editors
from lsp_calib.completion.service import Completion, CompletionService, Hidden, Nothing
from lsp_calib.errors import LspCalibError
from lsp_calib.inference.engine import Priority
from lsp_calib.lru import LRU
from lsp_calib.server.admission import Admission
from lsp_calib.server.messages import Connection
from lsp_calib.server.text import CalibDocument
from lsp_calib.values import Timing

logger = logging.getLogger(__name__)

Made = tuple[Completion, ...]
"""Alternatives to a suggestion, or the lines of a block; none where none can be made, or none is ready."""

_Result = tuple[Made, LspCalibError | None]
"""What was made, and why the model could not be asked for all of it, None if it could."""

# Seconds that the work for a line goes on when no request waits for it any more: the next key cancels one
# request and sends another.
GRACE = 1.0


@attrs.define
class _Work:
    """line: what the cursor's line becomes with the suggestion. waiting: requests that wait for it without a
    time limit. superseded: its result is not delivered. end: of the work, unless another request waits."""

    what: object
    cursor: Cursor
    line: str
    task: asyncio.Task[tuple[Made, bool]]
    waiting: int = 0
    superseded: bool = False
    end: asyncio.TimerHandle | None = None

    @property
    def is_there(self) -> bool:
        """Whether it has come to its end."""
        return self.task.done() and not self.task.cancelled()

    @property
    def has_failed(self) -> bool:
        return self.is_there and self.task.exception() is None and self.task.result()[1]


@attrs.define(eq=False, repr=False, slots=False)
class DerivedSuggestions:
    """Follow-ups of suggestions, by document. Each is made once; a request elsewhere in the document ends it.

    make: makes the follow-up of a suggestion in a document. What has failed is made anew when it is wanted
        again. Of a block the lines above the failure are there all the same.
    of_line: whether it is the same for a line of the document, however much of its suggestion is typed; then
        its making goes on while that is typed.
    grace: seconds that the work for a line goes on when no request waits for it any more.
    is_stale: whether a result is out of date and is made again, as one that has labels already.
    """

    _make: Callable[[CalibDocument, Completion], Awaitable[_Result]]
    _of_line: bool = False
    _grace: float = GRACE
    _is_stale: Callable[[Made], bool] = lambda _: False
    _works: dict[str, _Work] = attrs.field(factory=dict, init=False)

    async def of(
        self,
        document: CalibDocument,
        first: Completion,
        *,
        patience: float | None = None,
        begins: bool = True,
    ) -> Made:
        """The follow-up of a suggestion; nothing if it is superseded.

        patience: seconds to wait; a later one is kept for the next request at the same place. 0: only one
        that is made already. begins: whether to make it where that has not begun, or has failed.
        """
        work = self._known(document.uri, first)
        if begins and patience != 0 and (work is None or work.has_failed):
            work = self._begun(document, first)
        if work is None:
            return ()
        if patience is None:
            await self._wait(work)
        else:
            await asyncio.wait({work.task}, timeout=patience)
        if work.superseded or not work.is_there:
            return ()
        return work.task.result()[0]

    def requested(self, uri: str, cursor: Cursor) -> None:
        """There is a request in a document: what is made for another place there is not wanted any more."""
        work = self._works.get(uri)
        if work is None:
            return
        if self._of_line:
            same = work.cursor.line == cursor.line
            # Where none of the line is left to type, or more than at first, the model is asked, and each line
            # of the block would be a newer request than that.
            # What is made already comes again if another text is taken back.
            typed = work.cursor.column <= cursor.column < len(work.line)
            same = same and (work.task.done() or (typed and work.line.startswith(cursor.before)))
        else:
            same = work.cursor == cursor
        if not same:
            self.forget(uri)

    def made(self, uri: str) -> Made:
        """What was made last in a document; nothing if it is not ready or not wanted any more."""
        work = self._works.get(uri)
        if work is None or not work.is_there or work.task.exception():
            return ()
        return work.task.result()[0]

    def _known(self, uri: str, first: Completion) -> _Work | None:
        """The work for this suggestion, if there is one that is not being stopped."""
        work = self._works.get(uri)
        if work is None or work.task.cancelling() or work.what != self._what(first):
            return None
        return None if self._is_stale(self.made(uri)) else work

    def _begun(self, document: CalibDocument, first: Completion) -> _Work:
        self.forget(document.uri)
        task = asyncio.create_task(self._made(document, first))
        work = _Work(self._what(first), first.cursor, first.expected_line, task)
        self._works[document.uri] = work
        return work

    def _what(self, first: Completion) -> tuple[Any, ...]:
        if not self._of_line:
            return first.suggestion.id, first.cursor
        cursor = first.cursor
        return first.suggestion.id, cursor.line, first.expected_line

    def forget(self, uri: str) -> None:
        """Drop what there is for a document, and stop the work for it."""
        work = self._works.pop(uri, None)
        if work is not None:
            work.superseded = True
            work.task.cancel()

    def stop(self) -> list[str]:
        """Stop all work that is not done; returns the documents in which a request waits for it."""
        unfinished = {uri: work for uri, work in self._works.items() if not work.task.done()}
        for uri in unfinished:
            self.forget(uri)
        return [uri for uri, work in unfinished.items() if work.waiting]

    def clear(self) -> None:
        """Drop everything: it was assessed by another calibrator or policy."""
        for uri in list(self._works):
            self.forget(uri)

    async def close(self) -> None:
        """Stop all work, and wait for its end."""
        tasks = [work.task for work in self._works.values()]
        self.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, work: _Work) -> None:
        """Wait for the end. Cancelling the last waiter cancels the task, that for a line after a moment."""
        work.waiting += 1
        if work.end is not None:
            work.end.cancel()
        try:
            await asyncio.wait({work.task})
        finally:
            work.waiting -= 1
            if not work.waiting and not work.task.done():
                if self._of_line:
                    work.end = asyncio.get_running_loop().call_later(self._grace, work.task.cancel)
                else:
                    work.task.cancel()

    async def _made(self, document: CalibDocument, first: Completion) -> tuple[Made, bool]:
        """What was made, and whether the model could not be asked for all of it."""
        made, failure = await self._make(document, first)
        if failure is not None:
            # The suggestion itself is there; that nothing follows it is no failure to the user.
            logger.debug("No follow-up, or not all of it: %s", failure)
        # The error itself would keep the frames of its call, and so the prompt in them.
        return made, failure is not None


# Completions that are remembered of a document: more than a user goes back to. Each takes a few kilobytes,
# since a completion has at most `completion.service.MOST_TOKENS` tokens and no line of the document is kept
# with it.
MOST_REMEMBERED = 64

Outcome = Completion | Hidden | Nothing
"""What the service has answered."""

TypedAlong = Callable[[CalibDocument, Completion, int, float], Completion]
"""A completion in a document once so many characters of its text were typed: with its confidence there. The
last: how likely other suggestions for the place were that do not agree with what was typed."""


# Stands for the cursor of a remembered completion, whose document is not kept.
_NOWHERE = Cursor(("",), 0, 0)


@attrs.frozen
class _Remembered:
    """column: of the cursor that the outcome was made for. text: of the completion, "" if there is none."""

    outcome: Outcome
    column: int
    text: str


class CompletionMemory:
    """Remembers outcomes by what the model was shown, so that the same prompt has the same answer again.

    A suggestion that comes from here keeps its id: it is the same prediction of the same line. Its confidence
    is that of the moment, by what is typed of it. Its features may have been computed before an edit that no
    prompt shows.

    A hidden one is shown once what is typed of it has lifted its confidence over the limit.

    key: of the prompt for a cursor in a document and of its line, the same for as long as both are; None if
        there is no model to say so. No text can be read from it.
    """

    def __init__(self, key: Callable[[CalibDocument, Cursor], bytes | None], typed_along: TypedAlong) -> None:
        self._key = key
        self._typed_along = typed_along
        self._documents: dict[str, LRU[tuple[bytes, int, str], _Remembered]] = {}

    def remember(self, document: CalibDocument, cursor: Cursor, outcome: Outcome) -> None:
        """Keep the outcome of a request at `cursor`; it takes the place of an earlier one for this prompt.

        An alternative (rank 2 or 3) stands beside the first: it is recalled once its beginning is typed. An
        answer with a lead stands beside the model's own: it is recalled for that lead, or once that is typed.
        """
        key = outcome.key or self._key(document, cursor)
        if key is None:
            return
        rank, text = 1, ""
        if not isinstance(outcome, Nothing):
            completion = _completion_of(outcome)
            rank, text = completion.suggestion.rank, completion.suggestion.text
            outcome = _with(outcome, attrs.evolve(completion, cursor=_NOWHERE))
        known = self._documents.setdefault(document.uri, LRU(MOST_REMEMBERED))
        known[key, rank, outcome.lead] = _Remembered(outcome, cursor.column, text)

    def recall(self, document: CalibDocument, cursor: Cursor, lead: str = "") -> Outcome | None:
        """What is known for `cursor`, the latest first; None if nothing is.

        lead: what a suggestion has to begin with there.

        That is the outcome for this prompt, or the rest of a completion, shown or hidden, whose beginning
        stands before the cursor. What is typed is in doubt no longer: the span of doubt shrinks, and goes
        with its last character.
        """
        known = self._documents.get(document.uri)
        if not known:
            return None
        before = cursor.before

        @cache
        def key_of(typed: int, closed: int) -> bytes | None:
            return self._key(document, _without(cursor, typed, closed))

        # What is typed may begin several of one place: the first suggestion counts, not an alternative.
        latest = reversed(known.items())
        for (key, rank, led), one in sorted(latest, key=lambda item: item[0][1]):
            typed = cursor.column - one.column
            if typed and not (0 < typed < len(one.text) and before.endswith(one.text[:typed])):
                continue
            if not typed and rank > 1:
                continue
            # An answer that was made to begin so stands for the model's own once that is typed.
            if not lead.startswith(led[typed:]) if one.text else led != lead:
                continue
            closed = 0
            if key != key_of(typed, 0):
                closed = len(_closed(one.text, typed, cursor.after))
                if not closed or key != key_of(typed, closed):
                    continue
            rest = one.text[typed : len(one.text) - closed]
            if typed and not rest.strip():
                continue  # nothing that can be seen is left
            if one.text and not rest.startswith(lead):
                continue
            known.move_to_end((key, rank, led))
            outcome = one.outcome
            if isinstance(outcome, Nothing):
                return outcome
            now = attrs.evolve(_completion_of(outcome), cursor=cursor)
            if typed:
                place = _without(cursor, typed, closed)
                refuted = self._refuted(document, place, key, led, one.text[:typed]) if rank > 1 else 0.0
                now = self._typed_along(document, now, typed, refuted)
            now = now.with_text(rest, -typed)
            suggestion = attrs.evolve(now.suggestion, source="memory", timing=Timing())
            now = attrs.evolve(now, suggestion=suggestion, key=None, lead=now.lead[typed:])
            if isinstance(outcome, Completion):
                return now
            return outcome.at(attrs.evolve(now, was_hidden=now.was_hidden or typed > 0))
        return None

    def _refuted(self, document: CalibDocument, place: Cursor, key: bytes, led: str, typed: str) -> float:
        """How likely the suggestions were that an alternative stands beside, and that do not begin with what
        was typed since.

        place, key, led: of the alternative. The first there may be the rest of what was made before, with the
        probability that it had there.
        """
        beside = {of: one.outcome for of, one in self._documents[document.uri].items() if of[0] == key}
        found: list[Outcome | None] = [*beside.values()]
        if all(rank > 1 for _, rank, _ in beside):
            found.append(self.recall(document, place, led))
        others = [_completion_of(one).suggestion for one in found if isinstance(one, Completion | Hidden)]
        wrong = (one.confidence.calibrated for one in others if not one.text.startswith(typed))
        return sum(filter(None, wrong))

    def reveal(self, document: CalibDocument, suggestion_id: str) -> None:
        """Show a suggestion from now on wherever it is recalled."""
        self._change(document, suggestion_id, lambda one: one.shown if isinstance(one, Hidden) else one)

    def rename(self, document: CalibDocument, suggestion_id: str, new_id: str) -> None:
        """Give a suggestion another id wherever it is recalled. Where it is hidden it still is."""

        def renamed(outcome: Completion | Hidden) -> Completion | Hidden:
            one = _completion_of(outcome)
            return _with(outcome, attrs.evolve(one, suggestion=attrs.evolve(one.suggestion, id=new_id)))

        self._change(document, suggestion_id, renamed)

    def _change(
        self,
        document: CalibDocument,
        suggestion_id: str,
        change: Callable[[Completion | Hidden], Completion | Hidden],
    ) -> None:
        known = self._documents.get(document.uri, LRU(MOST_REMEMBERED))
        for key, one in list(known.items()):
            outcome = one.outcome
            if not isinstance(outcome, Nothing) and _completion_of(outcome).suggestion.id == suggestion_id:
                known[key] = attrs.evolve(one, outcome=change(outcome))

    def forget(self, uri: str) -> None:
        """Drop all that is known of a document."""
        self._documents.pop(uri, None)

    def clear(self) -> None:
        self._documents.clear()


def _completion_of(outcome: Completion | Hidden) -> Completion:
    return outcome.completion if isinstance(outcome, Hidden) else outcome


def _with(outcome: Completion | Hidden, completion: Completion) -> Completion | Hidden:
    """The outcome with another completion in its place, hidden as it is."""
    return attrs.evolve(outcome, completion=completion) if isinstance(outcome, Hidden) else completion


def _closed(text: str, typed: int, after: str) -> str:
    """What an editor has added after the cursor while the beginning of a text was typed: the closers that it
    leaves open, if they are the end of the rest."""
    closers = closed_by_editors(text[:typed])
    while not after.startswith(closers):
        closers = closers[:-1]
    return closers if text[typed:].endswith(closers) else ""


def _without(cursor: Cursor, typed: int, closed: int) -> Cursor:
    """The cursor before the last characters were typed, and so many after it added."""
    if not typed:
        return cursor
    column = cursor.column - typed
    return cursor.in_line(cursor.before[:column] + cursor.after[closed:], column)


# Seconds between a reply and the start of the work.
AHEAD_PAUSE = 0.05


@attrs.define(eq=False, repr=False, slots=False)
class WorkAhead:
    """Completes the line after an inserted suggestion.

    memory: where completions made ahead are kept, for the request that they are made for.
    """

    _service: CompletionService
    _memory: CompletionMemory
    _connection: Connection
    _admission: Admission
    _next: asyncio.Task[None] | None = attrs.field(default=None, init=False)
    _next_in: str = attrs.field(default="", init=False)

    def inserted(self, document: CalibDocument, line: int) -> None:
        """A suggestion was inserted in a line of a document: complete the next one."""
        # A request to another machine takes its time, and may cost money.
        if not self._looks_ahead() or self._connection.settings.remote_url is not None:
            return
        self.give_way()
        lines, first = document.in_its_text()
        cursor = next_place(lines, first + line, document.language)
        if not in_data(cursor) and self._memory.recall(document, cursor) is None:
            self._next_in = document.uri
            self._next = asyncio.create_task(self._complete(document, cursor))

    def give_way(self) -> None:
        """The model is needed, in whatever document: stop completing the next line."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def forget(self, uri: str) -> None:
        """Stop the work for a document."""
        if self._next_in == uri:
            self.give_way()

    async def close(self) -> None:
        tasks = [self._next] if self._next else []
        self.give_way()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _looks_ahead(self) -> bool:
        return self._connection.settings.prefetch and self._admission.may_work_ahead()

    async def _complete(self, document: CalibDocument, cursor: Cursor) -> None:
        await asyncio.sleep(AHEAD_PAUSE)
        below = self._connection.settings.hide_below
        try:
            if await self._service.keeps_out(cursor, self._admission.in_comments, document=document.file):
                return
            outcome = await self._service.complete(
                cursor, Priority.IDLE, document=document.file, hide_below=below
            )
        except LspCalibError as error:
            logger.debug("Not completed ahead: %s", error)
            return
        if below == self._connection.settings.hide_below:
            self._memory.remember(document, cursor, outcome)
