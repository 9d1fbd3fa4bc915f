"""Completions of one connection: which request asks the model, what is made beside its answer, and the answer
in the shapes of the protocol.

`textDocument/inlineCompletion` is for ghost text, `textDocument/completion` for the menu of editors without
it, which waits `PATIENCE` at most. docs/architecture.md follows one keystroke through every station.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import attrs
from lsprotocol import types

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.calibration.tiers import in_percent
from lsp_calib.completion.block import MOST_LINES, block_of, lines_of, may_begin
from lsp_calib.completion.context import Cursor, in_data, next_place
from lsp_calib.completion.memory import CompletionMemory
from lsp_calib.completion.prompt import Layout, Surroundings
from lsp_calib.completion.reasons import Nothing, Refusal, Removal
from lsp_calib.completion.related_code import Nearby, Neighbourhood, OpenFile
from lsp_calib.completion.second import Witness, known_pair, second_opinion
from lsp_calib.completion.service import Completion, CompletionService, Decide, beginning_with
from lsp_calib.errors import EngineError, LspCalibError, NoModelError, RequestCancelledError
from lsp_calib.inference.engine import EngineState, Priority
from lsp_calib.languages import suffix_of
from lsp_calib.server.admission import Admission
from lsp_calib.server.ahead import Place, WorkAhead
from lsp_calib.server.documents import (
    CalibDocument,
    DocumentClosed,
    path_of,
    path_of_folder,
    selected_at,
)
from lsp_calib.server.follow_ups import DerivedSuggestions, Result
from lsp_calib.server.messages import Connection, ProgressBar, has_inline_completion
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.tracking import SuggestionTracking
from lsp_calib.values import Suggestion, new_suggestion_id
from lsp_calib.workspace_files import address, folder_of

logger = logging.getLogger(__name__)

# Seconds; a completion in the menu that takes longer comes with the next request.
PATIENCE = 0.1
# Seconds that a request leaves the model to the one that it supersedes. What that one has evaluated is not
# lost, and its answer may be what the user is just typing.
BUSY_PAUSE = 0.03
# Seconds that a request waits for a model that is loaded again after its process has ended.
LOADS_AGAIN = 1.0
# Seconds after a change from which on a request for the menu is of no key: editors wait a quarter at most.
AT_REST = 1.0

Outcome = Completion | Nothing


@attrs.define
class LastRequest:
    """The last request in a document. It holds no text.

    place: its line and column; None if it was refused before a place was looked at.
    at: seconds on a clock that only grows. nothing: why it has no suggestion (yet); None if it has one.
    """

    uri: str
    place: tuple[int, int] | None
    nothing: Nothing | None
    at: float = attrs.field(factory=time.monotonic)


@attrs.define(eq=False)
class _Run:
    """What a completion in the making is for. Apart from its task, which leads here and not to itself.

    place: the cursor, and the lead as for `Completions.newest`. at: the cursor in front of the lead.
    before: the model's work for an earlier request, to which this one leaves the model first. asks: the model
    has been asked, or need not be. hurry: set once the user asks for it by hand. in_comments: whether a
    completion is wanted in a comment, too. waiting: requests that wait for it without a time limit.
    superseded: set once it is not wanted any more; its outcome, even if just ready, is not delivered.
    """

    place: tuple[Cursor, str]
    at: Cursor
    superseded: asyncio.Future[None]
    before: asyncio.Task[Outcome] | None = None
    asks: bool = False
    hurry: asyncio.Event = attrs.field(factory=asyncio.Event)
    in_comments: bool = False
    waiting: int = 0

    def supersede(self) -> None:
        if not self.superseded.done():
            self.superseded.set_result(None)


@attrs.define(eq=False, repr=False, slots=False)
class Completions:
    """Completions by document, with their alternatives and blocks. A request supersedes the one before it
    there.

    status: whether the model is loaded again. tracking: follows what is shown; it is told of a change before
    this is. progress: of a block. asked: is told of each request. service: by default one that asks the
    model. busy_pause, loads_again: seconds, see their defaults.
    """

    _connection: Connection
    _model: Model
    _estimator: ConfidenceEstimator
    _admission: Admission
    _status: Status
    _tracking: SuggestionTracking
    _recorder: Recorder
    _progress: ProgressBar
    _asked: Callable[[str, Cursor], object]
    _given: CompletionService | None = attrs.field(default=None, alias="service")
    _busy_pause: float = BUSY_PAUSE
    _loads_again: float = LOADS_AGAIN

    def __attrs_post_init__(self) -> None:
        self._nearby = Nearby(self._surroundings)
        self._service = self._given or CompletionService(
            *(self._model.engine, self._estimator),
            layout_of=self._model.layouts.of,
            nearby=self._nearby,
            opened=self._opened_beside,
        )
        self._last: dict[str, LastRequest] = {}  # by document, the latest one at the end
        self._running: dict[str, tuple[_Run, asyncio.Task[Outcome]]] = {}
        self._menu_asked: dict[str, int] = {}  # by document, after how many changes
        self._neighbourhood = Neighbourhood()
        self._memory = CompletionMemory(self._key, self._typed_along)
        self.ahead = WorkAhead(
            *(self._connection, self._model, self._admission, self._status, self._service, self._memory),
            in_comments=lambda: self._in_comments,
        )
        self._alternatives = DerivedSuggestions(self._make_alternatives, is_stale=self._is_settled)
        self._second = DerivedSuggestions(self._make_second, is_stale=self._is_settled)
        self._blocks = DerivedSuggestions(self._make_block, of_line=True)

    async def inline(
        self, document: CalibDocument, cursor: Cursor, context: types.InlineCompletionContext
    ) -> list[tuple[Completion, Suggestion]] | None:
        """What to show as ghost text: completions, each with its suggestion, or with that of the block that
        it begins. None leaves what an editor shows; no items remove it."""
        uri = document.uri
        if not self._connection.settings.inline_completion:
            how = "Set inlineCompletion.enabled to true to get them as ghost text."
            self.refused(uri, Nothing(Refusal.OFF, how))
            return None
        selected, lead = None, ""
        if (item := context.selected_completion_info) is not None:
            selected = selected_at(document, cursor, item)
            if selected is None:
                self.refused(uri, Nothing(Refusal.SELECTED_ITEM))
                return []
            cursor, lead = selected.cursor, selected.lead
        by_hand = context.trigger_kind is types.InlineCompletionTriggerKind.Invoked
        self._asked(uri, cursor)
        outcome = await self.newest(document, cursor, by_hand=by_hand, lead=lead)
        if isinstance(outcome, Nothing):
            return [] if outcome.is_answer else None
        made = [outcome]
        # On an empty line the block is waited for, and for no second opinion of its first line.
        begins = by_hand and selected is None and may_begin(outcome.cursor)
        if by_hand and selected is None and not begins:
            made = [*await self._second.of(document, outcome)] or made
        first = made[0]
        if by_hand and not self.is_superseded(uri, cursor):
            made += first.beside(await self._alternatives.of(document, first))
        block = None
        if selected is None and not self.is_superseded(uri, cursor):
            lines = await self._blocks.of(document, first, begins=begins)
            whole = first if self._connection.settings.sure != "off" else first.without_sure
            block = block_of(whole, lines, self._decide_like(document.file, first))
        if self.is_superseded(uri, cursor):
            return None  # while its follow-ups were made
        shown = []
        for at, completion in enumerate(made):
            part = self.offered(document, completion, lead=lead)
            followed: Completion | None = completion
            if selected is not None and part is not None:
                part, followed = selected.extended(part), selected.extended(completion)
            if part and followed and self._show(document, followed):
                is_block = block is not None and block.lines and not at
                shown.append((followed, block) if block and is_block else (part, part.suggestion))
        return shown

    async def menu(
        self, document: CalibDocument, cursor: Cursor, context: types.CompletionContext | None
    ) -> list[Completion] | None:
        """What to show in the completion menu; None if it is turned off."""
        if self._connection.settings.completion is False:
            self._note_menu_off(document.uri)
            return None
        invoked = context is not None and context.trigger_kind is types.CompletionTriggerKind.Invoked
        until = time.monotonic() + PATIENCE
        # Each typed letter invokes the menu, too.
        by_hand = self._is_at_rest(document) and invoked
        self._asked(document.uri, cursor)
        outcome = await self.newest(document, cursor, patience=PATIENCE, in_comments=by_hand)
        made = [outcome] if isinstance(outcome, Completion) else []
        if made and invoked:
            # Each typed letter invokes the menu: no alternatives are made while the first is typed.
            fresh = made[0].suggestion.source == "model"
            left = max(until - time.monotonic(), 0.001) if fresh else 0.0
            made += made[0].beside(await self._alternatives.of(document, made[0], patience=left))
        return [
            part
            for completion in made
            # In a menu nothing behind the cursor is replaced.
            if (part := self.offered(document, completion, before_closers=True))
            and (followed := completion.up_to_closers())
            and self._show(document, followed)
        ]

    def _show(self, document: CalibDocument, completion: Completion) -> bool:
        """A completion is about to be shown; False if it must not be: the document has changed."""
        if not self._tracking.shown(document, completion):
            if (last := self._last.get(document.uri)) is not None:
                last.nothing = Nothing(Refusal.SUPERSEDED)
            return False
        self._status.shown(completion.suggestion)
        logger.debug("A suggestion goes to the editor, from %s.", completion.suggestion.source)
        return True

    async def newest(
        self,
        document: CalibDocument,
        cursor: Cursor,
        *,
        patience: float | None = None,
        by_hand: bool = False,
        in_comments: bool = False,
        lead: str = "",
    ) -> Outcome:
        """The completion to show at `cursor`, or why there is none (yet).

        Closers behind the cursor are not part of the request: the completion goes over them.
        patience: seconds to wait; a later outcome is kept for the next request at the same place.
        by_hand: the user has asked for it. Then neither a pause nor a language that is off is a reason to
            refuse. in_comments: as far as comments go, the user has.
        lead: the end of what stands before the cursor, if the user has not typed that. The completion begins
            with it, and its cursor stands in front of it.
        """
        cursor, closers, uri = cursor.without_closers_behind(), cursor.after, document.uri
        place = cursor.line, cursor.column
        self._last.pop(uri, None)
        self._last[uri] = LastRequest(uri, place, Nothing(Refusal.WAITING))
        cancelled = Nothing(Refusal.SUPERSEDED)
        outcome: Outcome = cancelled
        try:
            outcome = await self._outcome(document, cursor, lead, patience, by_hand, by_hand or in_comments)
            if isinstance(outcome, Completion):
                outcome = self._as_wanted(document, outcome, closers, by_hand)
        finally:
            # There may be a later one elsewhere, or another one at this place that was answered.
            last = self._last.get(uri)
            if last is not None and last.place == place:
                waits = last.nothing is not None and last.nothing.why is Refusal.WAITING
                if outcome is not cancelled or waits:
                    last.nothing = outcome if isinstance(outcome, Nothing) else None
        return outcome

    def _as_wanted(
        self, document: CalibDocument, found: Completion, closers: str, by_hand: bool
    ) -> Completion | Nothing:
        """A known completion over the closers behind the cursor; why not if it is hidden or refused."""
        wanted = found
        if found.hidden_by is not None:
            if not by_hand:
                return self._hide(found)
            # What the user has seen by hand stays.
            self._memory.reveal(document.file, found.suggestion.id)
            wanted = found.shown
        if closers and not found.cursor.after:
            over = wanted.over(closers)
            if isinstance(over, Nothing):
                if found.suggestion.source == "model":
                    self._count(over)
                return over
            wanted = over
        refused = self._tracking.refused.refuses(document.uri, wanted, by_hand=by_hand)
        return Nothing(Refusal.REFUSED) if refused else wanted

    async def _outcome(
        self,
        document: CalibDocument,
        cursor: Cursor,
        lead: str,
        patience: float | None,
        by_hand: bool,
        in_comments: bool,
    ) -> Outcome:
        uri, at = document.uri, cursor.without_before(len(lead)) if lead else cursor
        refusal = await self._admission.refusal(
            document, patience, language=None if by_hand else cursor.language
        )
        if refusal is not None and not refusal.is_answer:
            return refusal
        for made in (self._second, self._alternatives, self._blocks):
            if uri in made.works:
                made.requested(uri, at)
        if refusal is None and self._connection.settings.comments == "off":
            is_out = await self._service.keeps_out(at, False, document=document.file)
            if self.is_superseded(uri, cursor):
                return Nothing(Refusal.SUPERSEDED)
            refusal = Nothing(Refusal.COMMENT) if is_out else None
        run, task = self._running.get(uri, (None, None))
        # One that is being cancelled may take a moment to end, and has no answer.
        goes_on = task is not None and not (task.done() or task.cancelling())
        is_new = run is None or run.place != (cursor, lead) or not goes_on
        if refusal is not None or is_new:
            known: Outcome | None = refusal or self._recall(document, at, lead, by_hand)
            if known is None and not by_hand and in_data(at):
                known = Nothing(Refusal.DATA)
            if known is not None:
                self._stop(uri, cursor, lead)
                return known
        if run is None or task is None or is_new:
            run, task = self._start(document, cursor, at, lead, by_hand)
        run.in_comments |= in_comments
        if by_hand:
            run.hurry.set()
        late = Refusal.WAITING
        if self._status.loads_again and (patience is None or patience > self._loads_again):
            patience, late = self._loads_again, Refusal.LOADING
        return await self._wait(run, task, patience, late)

    def refused(self, uri: str, why: Nothing) -> None:
        """A request has come that is not looked at."""
        self._last.pop(uri, None)
        self._last[uri] = LastRequest(uri, None, why)

    def last(self, uri: str | None) -> LastRequest | None:
        """The last request in a document; uri None: in any document."""
        return next(reversed(self._last.values()), None) if uri is None else self._last.get(uri)

    def explain(self, last: LastRequest) -> dict[str, Any] | None:
        """Why a request for a completion has no suggestion, as it goes to the client; None if it has one."""
        nothing = last.nothing
        if nothing is None:
            return None
        if nothing.why is Refusal.WAITING:
            if not self._admission.settings_known.is_set():
                nothing = Nothing(Refusal.STARTING)
            elif self._status.state in (EngineState.STARTING, EngineState.LOADING):
                nothing = Nothing(Refusal.LOADING)
        advice = nothing.advice(asks_by_hand=has_inline_completion(self._connection.client_capabilities))
        message = f"{nothing.sentence} {advice}".rstrip()
        at = round(time.monotonic() - last.at, 1)
        return {"reason": nothing.code, "message": message, "uri": last.uri, "at": at}

    def is_superseded(self, uri: str, cursor: Cursor) -> bool:
        """Whether a request has come elsewhere in the document since the one at `cursor`."""
        last = self._last.get(uri)
        return last is None or last.place != (cursor.line, cursor.column)

    def offered(
        self,
        document: CalibDocument,
        completion: Completion,
        *,
        before_closers: bool = False,
        lead: str = "",
    ) -> Completion | None:
        """A completion as it is put on the screen: up to where it can be trusted, if the setting asks for
        that. What is followed is the whole line all the same.

        before_closers: the part that stands before the closers behind the cursor; None if it has none.
        lead: what it has to begin with. Where only less can be trusted it is the whole, as where nothing can.
        """
        part: Completion | None = completion
        sure = self._connection.settings.sure
        if sure == "cut" or before_closers:
            decide = self._decide_like(document.file, completion)
            trusted = completion.up_to_sure(decide) if sure == "cut" else completion
            completion = trusted if trusted.suggestion.text.startswith(lead) else completion
            part = completion.up_to_closers(decide) if before_closers else completion
        return part if part is None or sure != "off" else part.without_sure

    def opened(self, document: CalibDocument) -> None:
        # Some editors open a document twice: drop the data of the first time, but follow what was suggested.
        self.forget(document.uri)
        self._note_menu_off(document.uri)
        self.ahead.opened(document)

    def closed(self, closed: DocumentClosed) -> None:
        self.forget(closed.uri)

    def paused(self, message: str) -> None:
        """Stop the work for all documents; what is remembered of them stays. message: as of `Pause`."""
        if not message:
            self.ahead.go_on()
            return
        why = Nothing(Refusal.PAUSED, message)
        unfinished = {uri for uri, (_, task) in self._running.items() if not task.done()}
        follow_ups = (self._second, self._alternatives, self._blocks)
        for uri in {*unfinished, *(uri for one in follow_ups for uri in one.stop())}:
            self._stop(uri)
            self.refused(uri, why)  # so that the suggestion that waits for the others is not shown
        self.ahead.give_way()

    def settings_changed(self) -> None:
        for document in self._connection.open_documents():
            if (excluded := self._admission.exclusion_of(document)) is not None:
                asked = self._last.get(document.uri)
                self.forget(document.uri)
                if asked is not None:
                    self.refused(document.uri, excluded)
        self._nearby.clear()  # they may show what is excluded now
        self.ahead.give_way()
        self.ahead.go_on()

    def forget_replies(self) -> None:
        """Drop the remembered completions: their confidence, tier or hiding is out of date.

        Requests under way continue: they are assessed when the model has replied.
        """
        self._memory.clear()
        self._second.clear()
        self._alternatives.clear()
        self._blocks.clear()

    def forget(self, uri: str) -> None:
        """Drop everything about a document, and stop the work for it."""
        self._stop(uri)
        self._menu_asked.pop(uri, None)
        self.ahead.forget(uri)
        self._last.pop(uri, None)
        for part in (self._memory, self._service, self._second, self._alternatives, self._blocks):
            part.forget(uri)

    async def close(self) -> None:
        """Stop all work, and wait for its end."""
        tasks: list[asyncio.Task[Any]] = [task for _, task in self._running.values()]
        tasks += [run.before for run, _ in self._running.values() if run.before is not None]
        for uri in list(self._running):
            self.forget(uri)
        await self.ahead.close()
        await self._second.close()
        await self._alternatives.close()
        await self._blocks.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_at_rest(self, document: CalibDocument) -> bool:
        """Whether a request for the menu, which has just come, is not of a key: nothing has changed in the
        document since the last one, or for a moment."""
        at, before = document.changed_at, self._menu_asked.get(document.uri, 0)
        self._menu_asked[document.uri] = document.edits
        return at is None or document.edits == before or time.monotonic() - at > AT_REST

    def _note_menu_off(self, uri: str) -> None:
        """Where the settings turn the menu off, an editor without ghost text gets nothing: remember why."""
        has_ghost_text = has_inline_completion(self._connection.client_capabilities)
        if self._connection.settings.completion is False and not has_ghost_text:
            why = (
                "This editor shows no ghost text, and its completion menu is turned off. "
                'Set completion.enabled to "auto" or true, and restart the server.'
            )
            self.refused(uri, Nothing(Refusal.OFF, why))

    # What is known without the model.

    def _key(self, document: str, cursor: Cursor) -> bytes | None:
        loaded = self._model.loaded
        return None if loaded is None else self._service.key(document, cursor, loaded)

    def _recall(self, document: CalibDocument, at: Cursor, lead: str, by_hand: bool) -> Outcome | None:
        """The outcome that is known without the model. at: in front of the lead."""
        known = self._memory.recall(document.file, at, lead)
        if not isinstance(known, Completion) or (known.hidden_by is not None and not by_hand):
            # Asking the model again would give what was hidden another chance to be shown.
            return known
        # The rest of an alternative is no first suggestion, beside which others could stand.
        if by_hand and known.suggestion.rank > 1:
            return None
        # The same lines may stand in two places. A prediction has one line, and one label.
        if self._tracking.is_elsewhere(document.uri, known.suggestion.id, at.own_line):
            return None
        if self._tracking.is_settled(known.suggestion.id):
            anew = self._fresh(known)
            self._memory.rename(document.file, known.suggestion.id, anew.suggestion.id)
            known = anew
        return known

    def _fresh(self, known: Completion) -> Completion:
        """One that is settled under a new id, so that it gets a label of its own; earlier ones stay."""
        if not self._tracking.is_settled(known.suggestion.id):
            return known
        return attrs.evolve(known, suggestion=attrs.evolve(known.suggestion, id=new_suggestion_id()))

    def _typed_along(self, document: str, known: Completion, typed: int, refuted: float) -> Completion:
        return self._service.typed_along(known, typed, refuted=refuted, document=document)

    def _hide(self, hidden: Completion) -> Nothing:
        self._status.hidden(hidden.suggestion)
        likely, below = hidden.likely_kept, hidden.hidden_by.below if hidden.hidden_by else 0.0
        shown, limit = in_percent(likely, (below,))
        shown = shown if likely >= 0.01 else f"about {100 * likely:.1g} %"
        return Nothing(Refusal.HIDDEN, f"{shown}, and hideBelow is {limit}")

    # The run that asks the model.

    def _stop(self, uri: str, cursor: Cursor | None = None, lead: str = "") -> None:
        """Cancel the completion in the making. cursor, lead: of the new request, if there is one."""
        run, task = self._running.pop(uri, (None, None))
        if run is not None and task is not None:
            if run.place != (cursor, lead):
                run.supersede()
            _cancel(run, task)

    def _start(
        self, document: CalibDocument, cursor: Cursor, at: Cursor, lead: str, by_hand: bool
    ) -> tuple[_Run, asyncio.Task[Outcome]]:
        """Begin a completion. An earlier one goes on for a moment, but its requests are answered now."""
        earlier, work = self._running.pop(document.uri, (None, None))
        run = _Run((cursor, lead), at, asyncio.get_running_loop().create_future())
        if earlier is not None and earlier.place != run.place:
            earlier.supersede()
        if earlier is not None and work is not None and not work.done():
            run.before = work if earlier.asks else earlier.before
            if not earlier.asks:
                work.cancel()
        task = asyncio.create_task(self._complete(document, run, by_hand))
        self._running[document.uri] = run, task
        return run, task

    async def _wait(
        self, run: _Run, task: asyncio.Task[Outcome], patience: float | None, late: Refusal
    ) -> Outcome:
        """The outcome of a run; `late` if it takes longer. Cancelling the last one who waits without a limit
        cancels the run."""
        run.waiting += patience is None
        try:
            ends: set[asyncio.Future[Any]] = {task, run.superseded}
            await asyncio.wait(ends, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            run.waiting -= patience is None
            # A superseded run belongs to its successor.
            if patience is None and not run.waiting and not run.superseded.done():
                _cancel(run, task)
        if run.superseded.done() or (task.done() and task.cancelled()):
            return Nothing(Refusal.SUPERSEDED)
        return task.result() if task.done() else Nothing(late)

    async def _complete(self, document: CalibDocument, run: _Run, by_hand: bool) -> Outcome:
        (_, lead), at, file = run.place, run.at, document.file
        if run.before is not None:
            hurry = asyncio.ensure_future(run.hurry.wait())
            try:
                await asyncio.wait(
                    {hurry, run.before}, timeout=self._busy_pause, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                hurry.cancel()
            run.before.cancel()
            run.before = None
            if (known := self._recall(document, at, lead, run.hurry.is_set())) is not None:
                return known
        run.asks = True
        in_force = self._connection.settings.hide_below
        below = 0.0 if by_hand else in_force
        try:
            if not run.in_comments:
                is_out = await self._service.keeps_out(at, self._in_comments, document=file)
                if is_out and not run.in_comments:
                    return Nothing(Refusal.COMMENT)
            place = Place(document.uri, at.own_line, at.column)
            timed = partial(self.ahead.answered, place)
            with self.ahead.needed(place):
                own = await self._service.complete(
                    at, document=file, hide_below=below, lead=lead, timed=timed
                )
        except RequestCancelledError:
            return Nothing(Refusal.SUPERSEDED)
        except LspCalibError as error:
            # The engine reports failures to the user through its state; the error itself says what to do.
            logger.warning("No completion: %s", error)
            return Nothing(Refusal.NO_MODEL if isinstance(error, NoModelError) else Refusal.ERROR, str(error))
        outcome = beginning_with(lead, own)
        # What the user has seen by hand stays there; what was hidden by another limit does not.
        if by_hand or in_force == self._connection.settings.hide_below:
            self._memory.remember(file, at, own)
            if lead:
                self._memory.remember(file, at, outcome)
        self._count(outcome)
        return outcome

    def _count(self, outcome: Outcome) -> None:
        """An outcome of the model's, shown or not."""
        if isinstance(outcome, Completion):
            self._status.made(outcome.suggestion, outcome.cuts)
            if outcome.cuts:
                self._recorder.cut(outcome)
        elif isinstance(outcome.why, Removal):
            self._status.withheld(outcome.why)
            self._recorder.withheld(outcome.why)

    # What is made besides.

    def _decide_like(self, file: str, first: Completion) -> Decide:
        return partial(
            self._estimator.tier,
            like=first.suggestion.confidence,
            language=first.cursor.language,
            document=file,
        )

    def _is_settled(self, made: Sequence[Completion]) -> bool:
        """Whether one of these has its label: shown once more it is another suggestion."""
        return any(self._tracking.is_settled(one.suggestion.id) for one in made)

    async def _make_second(self, document: CalibDocument, first: Completion) -> Result:
        """The first answer with a second opinion, or both if they differ; none where there is none."""
        if known := known_pair(first):
            return tuple(map(self._fresh, known)), None
        loaded = self._model.loaded
        if loaded is None or self._connection.settings.remote_url is not None:
            return (), None
        file, present = document.file, self._model.layouts.of(loaded)
        witness = Witness.for_(first, loaded, present, self._estimator, file)
        if witness is None:
            return (), None

        async def ask(layout: Layout) -> Outcome:
            # As background work: what the model has evaluated for who types stays in its cache.
            at, background = first.cursor, Priority.BACKGROUND
            with self.ahead.needed(Place(document.uri, at.own_line, at.column)):
                return await self._service.complete(at, background, document=file, layout=layout)

        try:
            on_screen = self._tracking.is_shown(first.suggestion.id)
            made = await second_opinion(first, witness, ask, on_screen=on_screen)
        except TimeoutError:  # asked for again, it goes on with what is evaluated
            return (), EngineError("The second answer took too long.")
        except LspCalibError as error:
            return (), error
        if made:
            self._alternatives.forget(document.uri)  # they stand behind these, with what these leave
        for one in made:  # what is shown now is what stays while it is typed
            bare = attrs.evolve(one, replaced="", kept="")
            self._memory.remember(document.file, one.cursor, bare)
        return made, None

    async def _make_alternatives(self, document: CalibDocument, first: Completion) -> Result:
        second = self._second.made(document.uri)
        beside = second[1:] if second and second[0].suggestion.id == first.suggestion.id else ()
        try:
            made = await self._service.alternatives(first, beside=beside, document=document.file)
        except LspCalibError as error:
            return (), error
        for one in made:  # for the requests that come while they are typed
            self._memory.remember(document.file, one.cursor, one)
        return made, None

    async def _make_block(self, document: CalibDocument, first: Completion) -> Result:
        at = first.cursor

        async def complete(below: Cursor) -> Outcome:
            self._progress.show(f"Completing a block: line {below.line - at.line + 1}.")
            return await self._service.complete(below, document=document.file)

        try:
            with self.ahead.needed(Place(document.uri, at.own_line, at.column)):
                return await lines_of(complete, first)
        finally:
            self._progress.end()

    def inserted(self, uri: str, line: int) -> None:
        """A change has inserted a suggestion in a line, and perhaps the rest of its block below it: complete
        the next line."""
        document = self._connection.open_document(uri)
        if document is None or not self.ahead.may_work_in(document):
            return
        line += self._accepted_below(uri, document.bare_lines[line : line + MOST_LINES])
        lines, first = document.in_its_text()
        self.ahead.complete_next(document, next_place(lines, first + line, document.language))

    def _accepted_below(self, uri: str, lines: Sequence[str]) -> int:
        """How many of the lines below the first the user has accepted with it. lines: from that one on."""
        block = [one.expected_line.strip() for one in self._blocks.made(uri)]
        same = 0
        while same < min(len(block), len(lines)) and lines[same].strip() == block[same]:
            same += 1
        return max(same - 1, 0)

    @property
    def _in_comments(self) -> bool | None:
        """Whether completions come in comments by themselves; None: as the model's card says."""
        comments = self._connection.settings.comments
        return None if comments is None else comments == "on"

    # What the model sees besides the document.

    def _surroundings(self, uri: str, cursor: Cursor, layout: Layout) -> Callable[[], Surroundings]:
        """As `completion.related_code.Find`."""
        opened = [
            OpenFile(path, document.bare_lines)
            for document in self._connection.open_documents()
            if document.notebook is None
            and address(document.uri) != address(uri)
            and (path := path_of(document.uri)) is not None
            and not self._admission.excluded(document)
        ]
        folder = folder_of(uri, tuple(self._connection.workspace.folders))  # of a file
        root = path_of_folder(folder) if folder else None
        # A document without a file, such as a new one, has the name that the editor shows.
        document = path_of(uri) or Path(PurePosixPath(unquote(uri.partition(":")[2])).name)
        if document.suffix == ".ipynb":  # source, shown under the name that a file of it would have
            document = document.with_suffix(suffix_of(cursor.language))
        return partial(
            self._neighbourhood.around, document, root, opened, self._admission.exclusion(), cursor, layout
        )

    def _opened_beside(self, file: str) -> list[Sequence[str]]:
        """The lines of the other documents that are open, without excluded ones."""
        return [
            document.bare_lines
            for document in self._connection.open_documents()
            if document.file != file and not self._admission.excluded(document)
        ]


def _cancel(run: _Run, task: asyncio.Task[Outcome]) -> None:
    task.cancel()
    if run.before is not None:
        run.before.cancel()
