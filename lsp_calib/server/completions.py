"""Completions of one connection: the service, and all that is made ahead of or after a completion."""

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

from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion.block import MOST_LINES, block_of, lines_of, may_begin
from lsp_calib.completion.context import Cursor, in_data
from lsp_calib.completion.postprocess import Removal
from lsp_calib.completion.prompt import Layout, Surroundings
from lsp_calib.completion.related_code import Nearby, Neighbourhood, OpenFile
from lsp_calib.completion.service import (
    Completion,
    CompletionService,
    Decide,
    Hidden,
    Nothing,
    beginning_with,
)
from lsp_calib.errors import LspCalibError, RequestCancelledError
from lsp_calib.inference.engine import EngineState
from lsp_calib.languages import suffix_of
from lsp_calib.server.admission import (
    COMMENT_BY_HAND,
    COMMENTS_OFF,
    IN_DATA,
    LOADING,
    LOADING_AGAIN,
    MENU_OFF,
    REFUSED,
    STARTING,
    TOO_SLOW,
    WAITING,
    Admission,
    LastRequests,
    NoSuggestion,
    absence_of,
    excluded,
    failed,
    paused,
)
from lsp_calib.server.documents import DocumentChanged, DocumentClosed
from lsp_calib.server.follow_ups import CompletionMemory, DerivedSuggestions, Outcome, WorkAhead
from lsp_calib.server.messages import Connection, has_inline_completion
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.text import CalibDocument, path_of, path_of_folder
from lsp_calib.server.tracking import Refused, SuggestionTracking
from lsp_calib.settings import Settings
from lsp_calib.values import Suggestion, new_suggestion_id
from lsp_calib.workspace_files import address, folder_of

logger = logging.getLogger(__name__)

# Seconds that a request leaves the model to the one that it supersedes. What that one has evaluated is not
# lost, and its answer may be what the user is just typing.
BUSY_PAUSE = 0.03
# Seconds that a request waits for a model that is loaded again after its process has ended.
LOADS_AGAIN = 1.0
# Seconds after a change from which on a request for the menu is of no key: editors wait a quarter at most.
AT_REST = 1.0


Reply = tuple[Completion, ...]
"""The answer to a request: one completion; none if the model had nothing to offer, or nothing that is shown,
or was not to be asked now."""

_Task = asyncio.Task[Reply | None]


def _of_replies(settings: Settings) -> tuple[object, ...]:
    """The settings by which remembered replies were made."""
    return settings.hide_below, settings.comments


@attrs.define
class _Before:
    """What comes before a run asks the model. Apart from the run, so that its task does not lead to itself.

    task: the model's work for an earlier request, to which this one leaves the model first. over: the model
    has been asked, or need not be. hurry: set once the user asks for it by hand. in_comments: whether a
    completion is wanted in a comment, too.
    """

    task: _Task | None = None
    over: bool = False
    hurry: asyncio.Event = attrs.field(factory=asyncio.Event)
    in_comments: bool = False

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@attrs.define
class _Run:
    """A completion in the making. lead: as for `Completions.newest`. waiting: requests that wait for it
    without a time limit. superseded: set once a request elsewhere in the document has come; its reply, even
    if just ready, is not delivered."""

    cursor: Cursor
    lead: str
    before: _Before
    task: _Task
    superseded: asyncio.Future[None]
    waiting: int = 0

    @property
    def ends(self) -> set[asyncio.Future[Any]]:
        """A request has nothing more to wait for once one of these is done."""
        return {self.task, self.superseded}

    def cancel(self) -> None:
        self.task.cancel()
        self.before.cancel()

    def supersede(self) -> None:
        if not self.superseded.done():
            self.superseded.set_result(None)


@attrs.define(eq=False, repr=False, slots=False)
class Completions:
    """Completions by document, with their alternatives and blocks. A request supersedes the one before it
    there. `server.features.completions` then has the reply followed and makes an answer of it.

    last: is told what becomes of each request. tracking: knows where suggestions are, and which are settled.
    refused: what the user has said no to. status: whether the model is loaded again. service: by default
    one that asks the model. busy_pause, loads_again: seconds, see their defaults.
    """

    _connection: Connection
    _model: Model
    _estimator: ConfidenceEstimator
    _admission: Admission
    _last: LastRequests
    _status: Status
    _tracking: SuggestionTracking
    _refused: Refused
    _recorder: Recorder
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
        self._running: dict[str, _Run] = {}
        self._changed_at: dict[str, float] = {}  # of documents whose menu has not been asked for since
        self._in_force = _of_replies(self._connection.settings)
        self._neighbourhood = Neighbourhood()
        self._memory = CompletionMemory(self._key, self._typed_along)
        self._ahead = WorkAhead(self._service, self._memory, self._connection, self._admission)
        self.alternatives = DerivedSuggestions(
            self._alternatives,
            is_stale=lambda made: any(self._tracking.is_settled(one.suggestion.id) for one in made),
        )
        self._blocks = DerivedSuggestions(
            lambda document, first: lines_of(
                partial(
                    self._service.complete,
                    document=document.file,
                    hide_below=self._connection.settings.hide_below,
                ),
                first,
                self._decide_like(document.file, first),
            ),
            of_line=True,
        )

    async def newest(
        self,
        document: CalibDocument,
        cursor: Cursor,
        *,
        patience: float | None = None,
        by_hand: bool = False,
        in_comments: bool = False,
        lead: str = "",
    ) -> Reply | None:
        """The reply at `cursor`; None if there is none (yet): it could not be made, was superseded, or the
        document is excluded.

        Closers behind the cursor are not part of the request: the completion goes over them.
        patience: seconds to wait; a later reply is kept for the next request at the same place.
        by_hand: the user has asked for it. Then no pause, no language that is off, no battery and no change
            in bulk is a reason to refuse. in_comments: as far as comments go, the user has.
        lead: the end of what stands before the cursor, if the user has not typed that. The completion begins
            with it, and its cursor stands in front of it.
        """
        cursor, closers, uri = cursor.without_closers_behind(), cursor.after, document.uri
        if by_hand:
            self._refused.wanted(uri, cursor.own_line)
        self._last.asked(uri, cursor)
        try:
            asked = (document, cursor, lead, patience, by_hand, by_hand or in_comments)
            reply = await self._newest(*asked)
            at = cursor.without_before(len(lead))
            if by_hand and reply is not None and isinstance(self._memory.recall(document, at, lead), Hidden):
                # It has waited for a request that the editor had made by itself.
                reply = await self._newest(*asked)
        except asyncio.CancelledError:
            self._last.cancelled(uri, cursor)
            raise
        if reply and not cursor.after and closers:
            reply = self._over(uri, cursor, reply[0], closers)
        if not reply:
            return reply
        refused = self._refused.refuses(uri, reply[0])
        self._last.concluded(uri, cursor, REFUSED if refused else None)
        return () if refused else reply

    async def _newest(
        self,
        document: CalibDocument,
        cursor: Cursor,
        lead: str,
        patience: float | None,
        by_hand: bool,
        in_comments: bool,
    ) -> Reply | None:
        uri, at = document.uri, cursor.without_before(len(lead))
        refusal = await self._admission.refusal(document, patience)
        if refusal is not None:
            self._last.concluded(uri, cursor, refusal)
            return None
        self.alternatives.requested(uri, at)
        self._blocks.requested(uri, at)
        if not by_hand and (unwanted := self._admission.unwanted(cursor.language)):
            return self._nothing(uri, cursor, unwanted)
        if self._connection.settings.comments == "off":
            is_out = await self._service.keeps_out(at, wanted=False, document=document.file)
            if self.is_superseded(uri, cursor):
                return None
            if is_out:
                return self._nothing(uri, cursor, COMMENTS_OFF)
        run = self._running.get(uri)
        # One that is being cancelled may take a moment to end, and has no answer.
        same = run is not None and (run.cursor, run.lead) == (cursor, lead)
        if run is None or not same or run.task.done() or run.task.cancelling():
            if (kept := self._recall(document, cursor, lead, by_hand)) is not None:
                self._stop(uri, cursor, lead)
                return kept
            if not by_hand and in_data(at):
                return self._nothing(uri, cursor, IN_DATA)
            run = self._start(document, cursor, lead, by_hand)
        run.before.in_comments |= in_comments
        if by_hand:
            run.before.hurry.set()
        absence = TOO_SLOW
        if self._status.loads_again and (patience is None or patience > self._loads_again):
            patience, absence = self._loads_again, LOADING_AGAIN
        if patience is None:
            await self._wait(run)
        else:
            await asyncio.wait(run.ends, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not (run.task.done() or run.superseded.done()):
                self._last.concluded(uri, cursor, absence)
        if run.superseded.done() or not run.task.done() or run.task.cancelled():
            return None
        return run.task.result()

    def explain(self, uri: str | None) -> dict[str, Any] | None:
        """Why the last request for a completion has no suggestion, as it goes to the client; None if it has
        one, or if there was none.

        uri: of the document; None: the last one of all.
        """
        last = self._last.of(uri)
        if last is None or last.absence is None:
            return None
        absence = last.absence
        if absence in (WAITING, TOO_SLOW):
            if not self._admission.settings_known.is_set():
                absence = STARTING
            elif self._status.state in (EngineState.STARTING, EngineState.LOADING):
                absence = LOADING
        if absence.by_hand and has_inline_completion(self._connection.client_capabilities):
            absence = attrs.evolve(absence, message=f"{absence.message} {absence.by_hand}")
        return self._last.to_wire(last, absence)

    def is_superseded(self, uri: str, cursor: Cursor) -> bool:
        """Whether a request has come elsewhere in the document since the one at `cursor`."""
        return not self._last.is_last(uri, cursor)

    async def block(self, document: CalibDocument, first: Completion) -> Suggestion:
        """The suggestion to offer for a completion: with the lines below it, where the setting asks for
        them."""
        if not self._connection.settings.multiline:
            return first.suggestion
        # While the first line is typed, the others stay as they are; on half a line no block begins.
        lines = await self._blocks.of(document, first, begins=may_begin(first.cursor))
        return block_of(first, lines, self._decide_like(document.file, first))

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
        if part is None or sure != "off":
            return part
        return attrs.evolve(part, suggestion=attrs.evolve(part.suggestion, sure=None))

    def inserted(self, uri: str, line: int) -> None:
        """A change has inserted a suggestion in a line, and perhaps the rest of its block below it."""
        document = self._connection.open_document(uri)
        if document is None or self._admission.excluded(document):
            return
        if self._admission.unwanted(document.language):
            return
        line += self._accepted_below(uri, document.bare_lines[line : line + MOST_LINES])
        self._ahead.inserted(document, line)

    def opened(self, document: CalibDocument) -> None:
        # Some editors open a document twice: drop the data of the first time, but follow what was suggested.
        self.forget(document.uri)
        self.note_menu_off(document.uri)

    def settings_changed(self) -> None:
        for document in self._connection.open_documents():
            if why := self._admission.excluded(document):
                asked = self._last.of(document.uri)
                self.forget(document.uri)
                if asked is not None:
                    self._last.refused(document.uri, excluded(why))
        self._nearby.clear()  # they may show what is excluded now
        in_force = _of_replies(self._connection.settings)
        if in_force != self._in_force:
            self._in_force = in_force
            self.forget_replies()

    def forget_replies(self) -> None:
        """Drop the remembered completions: their confidence, tier or hiding is out of date.

        Requests under way continue: they are assessed when the model has replied.
        """
        self._memory.clear()
        self.alternatives.clear()
        self._blocks.clear()

    def is_at_rest(self, document: CalibDocument) -> bool:
        """Whether a request for the menu, which has just come, is not of a key: nothing has changed in the
        document since the last one, or for a moment."""
        at = self._changed_at.pop(document.uri, None)
        return at is None or time.monotonic() - at > AT_REST

    def changed(self, change: DocumentChanged) -> None:
        self._changed_at[change.document.uri] = time.monotonic()

    def closed(self, closed: DocumentClosed) -> None:
        self.forget(closed.uri)

    def paused(self, message: str) -> None:
        """message: as for `Pause`."""
        if message:
            self.stop(paused(message))

    def forget(self, uri: str) -> None:
        """Drop everything about a document, and stop the work for it."""
        self._stop(uri)
        self._changed_at.pop(uri, None)
        for part in (
            *(self._ahead, self._memory, self._refused, self._last, self._service),
            *(self.alternatives, self._blocks),
        ):
            part.forget(uri)

    def note_menu_off(self, uri: str) -> None:
        """Where the settings turn the menu off, an editor without ghost text gets nothing: remember why."""
        has_ghost_text = has_inline_completion(self._connection.client_capabilities)
        if self._connection.settings.completion is False and not has_ghost_text:
            self._last.refused(uri, MENU_OFF)

    def stop(self, why: NoSuggestion) -> None:
        """Stop the work for all documents; what is remembered of them stays."""
        for uri, run in list(self._running.items()):
            self._last.cancelled(uri, run.cursor, why)
            self._stop(uri)
        self._ahead.give_way()
        for uri in {*self.alternatives.stop(), *self._blocks.stop()}:
            self._last.refused(uri, why)  # so that the suggestion that waits for the others is not shown

    async def close(self) -> None:
        await self.alternatives.close()
        await self._blocks.close()
        tasks = [run.task for run in self._running.values()]
        tasks += [run.before.task for run in self._running.values() if run.before.task is not None]
        for uri in list(self._running):
            self.forget(uri)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._ahead.close()

    def _accepted_below(self, uri: str, lines: Sequence[str]) -> int:
        """How many of the lines below the first the user has accepted with it. lines: from that one on."""
        block = [one.expected_line.strip() for one in self._blocks.made(uri)]
        same = 0
        while same < min(len(block), len(lines)) and lines[same].strip() == block[same]:
            same += 1
        return max(same - 1, 0)

    async def _alternatives(
        self, document: CalibDocument, first: Completion
    ) -> tuple[tuple[Completion, ...], LspCalibError | None]:
        try:
            made = await self._service.alternatives(first, document=document.file)
            for one in made:  # for the requests that come while they are typed
                self._memory.remember(document, one.cursor, one)
        except LspCalibError as error:
            return (), error
        return made, None

    def _decide_like(self, file: str, first: Completion) -> Decide:
        return partial(
            self._estimator.tier,
            like=first.suggestion.confidence,
            language=first.cursor.language,
            document=file,
        )

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

    def _key(self, document: CalibDocument, cursor: Cursor) -> bytes | None:
        loaded = self._model.loaded
        return None if loaded is None else self._service.key(document.file, cursor, loaded)

    def _recall(self, document: CalibDocument, cursor: Cursor, lead: str, by_hand: bool) -> Reply | None:
        """The reply that is known without the model."""
        at, uri = cursor.without_before(len(lead)), document.uri
        known = self._memory.recall(document, at, lead)
        if known is None:
            return None
        if by_hand and isinstance(known, Hidden):
            known = known.shown
            self._memory.reveal(document, known.suggestion.id)
        if not isinstance(known, Completion):
            if isinstance(known, Hidden):
                self._status.hidden(known.completion.suggestion)  # one that was made ahead was not counted
            # Asking the model again would give what was hidden another chance to be shown.
            self._last.concluded(uri, cursor, absence_of(known))
            return ()
        # The rest of an alternative is no first suggestion, beside which others could stand.
        if by_hand and known.suggestion.rank > 1:
            return None
        # The same lines may stand in two places. A prediction has one line, and one label.
        if self._tracking.is_elsewhere(uri, known.suggestion.id, cursor.own_line):
            return None
        if self._tracking.is_settled(known.suggestion.id):
            known = self._anew(document, known)
        return (known,)

    def _typed_along(
        self, document: CalibDocument, known: Completion, typed: int, refuted: float
    ) -> Completion:
        return self._service.typed_along(known, typed, refuted=refuted, document=document.file)

    def _anew(self, document: CalibDocument, settled: Completion) -> Completion:
        """Reissue an answer under a new id. It gets a label of its own; earlier labels stay as they are."""
        suggestion = attrs.evolve(settled.suggestion, id=new_suggestion_id())
        self._memory.rename(document, settled.suggestion.id, suggestion.id)
        return attrs.evolve(settled, suggestion=suggestion)

    def _over(self, uri: str, cursor: Cursor, completion: Completion, closers: str) -> Reply:
        """The reply to a request at `cursor`, behind which closers stand."""
        over = completion.over(closers)
        if isinstance(over, Completion):
            return (over,)
        if completion.suggestion.source == "model":
            self._withheld(over.removal)
        self._last.concluded(uri, cursor, absence_of(over))
        return ()

    def _withheld(self, removal: Removal) -> None:
        self._status.withheld(removal)
        self._recorder.withheld(removal)

    def _nothing(self, uri: str, cursor: Cursor, absence: NoSuggestion) -> Reply:
        self._stop(uri, cursor)
        self._last.concluded(uri, cursor, absence)
        return ()

    def _stop(self, uri: str, cursor: Cursor | None = None, lead: str = "") -> None:
        """Cancel the completion in the making. cursor, lead: of the new request, if there is one."""
        run = self._running.pop(uri, None)
        if run is not None:
            if (run.cursor, run.lead) != (cursor, lead):
                run.supersede()
            run.cancel()

    def _start(self, document: CalibDocument, cursor: Cursor, lead: str, by_hand: bool) -> _Run:
        """Begin a completion. An earlier one goes on for a moment, but its requests are answered now."""
        earlier = self._running.pop(document.uri, None)
        before = _Before()
        if earlier is not None and (earlier.cursor, earlier.lead) != (cursor, lead):
            earlier.supersede()
        if earlier is not None and not earlier.task.done():
            before.task = earlier.task
            if not earlier.before.over:
                earlier.task.cancel()
                before.task = earlier.before.task
        task = asyncio.create_task(self._complete(document, cursor, lead, before, by_hand))
        run = _Run(cursor, lead, before, task, asyncio.get_running_loop().create_future())
        self._running[document.uri] = run
        return run

    async def _wait(self, run: _Run) -> None:
        """Wait for a reply. Cancelling the last waiter cancels the task."""
        run.waiting += 1
        try:
            await asyncio.wait(run.ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            run.waiting -= 1
            # A superseded run belongs to its successor.
            if not run.waiting and not run.superseded.done():
                run.cancel()

    async def _complete(
        self, document: CalibDocument, cursor: Cursor, lead: str, before: _Before, by_hand: bool
    ) -> Reply | None:
        uri, at = document.uri, cursor.without_before(len(lead))
        kept = await self._after_pause(document, cursor, lead, before)
        before.over = True
        if kept is not None:
            return kept
        in_force = self._connection.settings.hide_below
        below = 0.0 if by_hand else in_force
        try:
            if await self._is_unwanted_comment(document, at, before):
                self._last.concluded(uri, cursor, COMMENT_BY_HAND)
                return ()
            self._ahead.give_way()
            outcome = await self._service.complete(at, document=document.file, hide_below=below, lead=lead)
        except RequestCancelledError:
            self._last.cancelled(uri, cursor)
            return None
        except LspCalibError as error:
            # The engine reports failures to the user through its state; this request is answered with null.
            logger.warning("No completion: %s", error)
            self._last.concluded(uri, cursor, failed(error))
            return None
        # What the user has seen by hand stays there; what was hidden by another limit does not.
        keep = by_hand or in_force == self._connection.settings.hide_below
        return self._made(document, cursor, lead, outcome, keep=keep)

    async def _is_unwanted_comment(self, document: CalibDocument, cursor: Cursor, before: _Before) -> bool:
        """Whether the cursor is in a comment where nothing comes by itself, and nobody has asked for it."""
        if before.in_comments:
            return False
        is_out = await self._service.keeps_out(cursor, self._admission.in_comments, document=document.file)
        return is_out and not before.in_comments

    async def _after_pause(
        self, document: CalibDocument, cursor: Cursor, lead: str, before: _Before
    ) -> Reply | None:
        """Wait before the model is asked; the reply if it need not be asked any more."""
        if before.task is None:
            return None
        if not before.hurry.is_set():
            hurry = asyncio.ensure_future(before.hurry.wait())
            ends: set[asyncio.Future[Any]] = {hurry, before.task}
            try:
                await asyncio.wait(ends, timeout=self._busy_pause, return_when=asyncio.FIRST_COMPLETED)
            finally:
                hurry.cancel()
        before.cancel()
        before.task = None
        return self._recall(document, cursor, lead, before.hurry.is_set())

    def _made(
        self, document: CalibDocument, cursor: Cursor, lead: str, outcome: Outcome, *, keep: bool
    ) -> Reply:
        at, own = cursor.without_before(len(lead)), outcome
        outcome = beginning_with(lead, own)
        if keep:
            self._memory.remember(document, at, own)
            if lead:
                self._memory.remember(document, at, outcome)
        if isinstance(outcome, Nothing):
            self._withheld(outcome.removal)
        else:
            made = outcome.completion if isinstance(outcome, Hidden) else outcome
            self._status.made(made.suggestion, made.cuts)
            self._recorder.cut(made)
        if isinstance(outcome, Completion):
            return (outcome,)
        if isinstance(outcome, Hidden):
            self._status.hidden(outcome.completion.suggestion)
        self._last.concluded(document.uri, cursor, absence_of(outcome))
        return ()
