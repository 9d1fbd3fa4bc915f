"""Summaries of one connection: made when asked for or when idle, remembered, shown in hovers and lenses,
inserted and reported."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Literal

import attrs
from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidRequest

from lsp_calib.badges import DOTS, tier_sentence, tier_words
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.characters import escape_markdown, escape_prose, plain_prose, shown
from lsp_calib.errors import LspCalibError, SettingsError
from lsp_calib.feedback.events import Event, EventKind, How, Label
from lsp_calib.inference.engine import EngineState, Priority
from lsp_calib.inference.models.cards import ModelCard, no_summaries
from lsp_calib.server.admission import Admission, IdleWork
from lsp_calib.server.documents import (
    CalibDocument,
    DocumentChanged,
    DocumentClosed,
    part_of_line,
    whole_line,
)
from lsp_calib.server.examples import ExampleIndex
from lsp_calib.server.messages import Connection, Pace, is_of_kind
from lsp_calib.server.model import Model, Status
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.tracking import SOURCE, SuggestionTracking
from lsp_calib.summarization.encoder import installed_encoder
from lsp_calib.summarization.examples import Example
from lsp_calib.summarization.insertion import Insertion, insertion, may_insert, noun
from lsp_calib.summarization.service import Summary, SummaryService
from lsp_calib.syntax import Call, Function, call_at, functions, has_grammar, may_mean
from lsp_calib.values import LRU, ModelIdentity, Suggestion, is_suggestion_id

logger = logging.getLogger(__name__)

# What keeps a summary from being inserted, for the user.
_NONE_MADE = "The model gave no summary of this function."
CHANGED = "The function has changed while it was summarised. Try again."
NO_PLACE = "This function has documentation already, or no place for it."
REFUSED = "The editor did not apply the change."

# More than the functions of the files that somebody works on; each takes about a kilobyte.
_KEPT = 500


_MOST_NAMESAKES = 50


@attrs.frozen
class Target:
    """A function, its language, and the range that stands for it.

    document: in which the function stands; another cell of the notebook, where the range is that of a call.
    """

    document: CalibDocument
    function: Function
    language: str
    range: types.Range

    @classmethod
    def at_its_heading(cls, document: CalibDocument, function: Function) -> Target:
        """A function of a document as it is now; the range is its first line."""
        heading = whole_line(document, function.start, document.bare_lines[function.start])
        return cls(document, function, document.language, heading)


def functions_of(document: CalibDocument) -> Sequence[Function]:
    """The functions of a document as it is now; empty for a language without a grammar.

    Each version is parsed once, when it is first asked for.
    """
    language, lines = document.language, document.bare_lines
    known = document.functions_of(lines)
    if known is None:
        if not has_grammar(language):
            return ()
        known = functions(document.read_lines, language)
        document.remember_functions(lines, known)
    return known


async def parse(*documents: CalibDocument) -> None:
    """Find the functions of documents of one language in a thread, unless they are known; `functions_of` then
    has them.

    A long document takes a tenth of a second, in which keystrokes are answered. If it changes meanwhile, the
    functions of the new version are not known.
    """
    language = documents[0].language
    if not has_grammar(language):
        return
    pending = [one for one in documents if one.functions_of(one.bare_lines) is None]
    lines, read = [one.bare_lines for one in pending], [one.read_lines for one in pending]
    found = await asyncio.gather(*(asyncio.to_thread(functions, one, language) for one in read))
    for document, its_lines, its_functions in zip(pending, lines, found, strict=True):
        document.remember_functions(its_lines, its_functions)


def target_at(document: CalibDocument, position: types.Position) -> Target | None:
    """The function that a place is about, None if there is none.

    On a line of a signature it is that function; on the name of a call the one that is called, if exactly one
    function of this file or notebook has the name: which of several is meant only the language's own server
    knows. Nowhere else in a body: there every word has a hover of that server, which ours would bury.
    """
    line, column = document.place_of(position)
    lines, language = document.bare_lines, document.language
    function = next((one for one in functions_of(document) if one.start <= line < one.signature_end), None)
    if function is not None:
        return Target.at_its_heading(document, function)
    call = call_at(lines[line], column)
    called = [] if call is None else list(_called(call, document, language))
    if call is None or len(called) != 1:
        return None
    return Target(*called[0], language, part_of_line(document, line, lines[line], *call.span))


def function_around(document: CalibDocument, position: types.Position) -> Target | None:
    """The innermost function that holds a place, None if there is none."""
    line, _ = document.place_of(position)
    holding = (one for one in functions_of(document) if one.start <= line < one.end)
    function = max(holding, key=lambda one: (one.start, -one.end), default=None)
    return None if function is None else Target.at_its_heading(document, function)


def _called(call: Call, document: CalibDocument, language: str) -> Iterator[tuple[CalibDocument, Function]]:
    """The functions that a call in a document can mean, each with the document in which it stands."""
    named = [(one, found) for one in document.cells for found in functions_of(one) if found.name == call.name]
    # Each looks for its class above. Of so many no single one is meant.
    for one, function in named if len(named) <= _MOST_NAMESAKES else ():
        if may_mean(call, function, one.bare_lines, language):
            yield one, function


@attrs.define(eq=False, repr=False, slots=False)
class SummaryRequests:
    """Summaries by the code they describe: a changed function gets a new one, a moved one keeps its own.

    Keys are keyed hashes of document, code, language and model, so that a remembered summary does not keep
    the text of a closed document, nor anything from which it could be guessed.

    offered: whether the model, once it is loaded, is one whose summaries are offered. admission: whether a
        document may be used for a prompt. examples_for: functions of its workspace that
        resemble one, with their documentation. reload: takes the calibrators in force. made: is told of each
        summary that the model makes, whether or not it is shown. known_anew: of summaries that are known and
        were not, or are others.
    """

    _service: SummaryService
    _offered: Callable[[], Awaitable[bool]]
    _admission: Admission
    _examples_for: Callable[[Target], Awaitable[Sequence[Example]]]
    _reload: Callable[[], object]
    _made: Callable[[Suggestion], object]
    _known_anew: Callable[[], object]

    def __attrs_post_init__(self) -> None:
        self._running: dict[bytes, asyncio.Task[Summary | None]] = {}
        self._idle: set[bytes] = set()  # of those, the ones that nobody has asked for
        self._secret = secrets.token_bytes(32)
        self._model: ModelIdentity | None = None
        self._known = LRU[bytes, Summary](_KEPT)
        self._nothing_said = LRU[bytes, None](_KEPT)
        self._wordings = LRU[bytes, int](_KEPT)

    def loaded(self, model: ModelIdentity) -> None:
        """This model answers from now on; summaries of another one stay for its return."""
        self._model = model

    async def of(
        self, target: Target, *, patience: float | None = None
    ) -> Suggestion | Literal["pending"] | None:
        """The summary of a function; "pending" if it is still being made after `patience` seconds.

        It is made at background priority: a completion interrupts it, and it resumes afterwards. A remote
        server is asked for both at once.
        patience: None waits until it is made. None if it could not be made, or if the document is excluded.
        Its confidence is made with it (`summarization.service.SummaryService.summarize`).
        """
        if not await self._admission.admits(target.document):
            return None
        self._reload()
        known = self.known(target)
        if known is not None:
            return known.suggestion
        if self._has_nothing(target):
            return None
        return await self._result(self._key(target), target, patience)

    def known(self, target: Target) -> Summary | None:
        """The summary of a function of a document if it has been made."""
        return None if self._model is None else self._known.recall(self._key(target, self._model))

    async def prepare(self, target: Target) -> None:
        """Make the summary of a function when nothing else is to be done, unless it is known."""
        if not await self._admission.admits(target.document) or self.known(target) is not None:
            return
        if not self._has_nothing(target):
            await asyncio.wait({self._begin(self._key(target), target, Priority.IDLE)})

    def give_way(self) -> None:
        """Stop the idle work that nobody has asked for meanwhile."""
        for key in self._idle:
            self._running[key].cancel()

    async def reword(self, target: Target) -> Suggestion | None:
        """Another wording of the summary of a function, which takes its place; None as for `of`."""
        if not await self._admission.admits(target.document):
            return None
        self._reload()
        key = b"another" + self._key(target)
        if key not in self._running:
            # Another seed each time: the same words again would look like a command that does nothing.
            self._wordings[key] = self._wordings.get(key, 0) + 1
        made = await self._result(key, target, None, seed=self._wordings.get(key, 1))
        return None if made == "pending" else made

    def assess_again(self) -> None:
        """Another calibrator is in force: give the remembered summaries their new confidence."""
        for key, summary in self._known.items():
            self._known.amend(key, self._service.assessed_again(summary))
        if self._known:
            self._known_anew()

    async def close(self) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _result(
        self, key: bytes, target: Target, patience: float | None, seed: int | None = None
    ) -> Suggestion | Literal["pending"] | None:
        task = self._begin(key, target, Priority.BACKGROUND, seed=seed)
        self._idle.discard(key)
        # `wait` leaves the task running: an editor cancels a hover at the slightest movement of the mouse,
        # and the next hover still wants the summary.
        await asyncio.wait({task}, timeout=patience)
        if not task.done():
            return "pending"
        summary = None if task.cancelled() else task.result()
        return None if summary is None else summary.suggestion

    def _has_nothing(self, target: Target) -> bool:
        """Whether the model has been asked, and had nothing to say."""
        return self._model is not None and self._key(target, self._model) in self._nothing_said

    def _begin(
        self, key: bytes, target: Target, priority: Priority, *, seed: int | None = None
    ) -> asyncio.Task[Summary | None]:
        """The work on the summary of a function, begun now if it was not yet."""
        task = self._running.get(key)
        if task is None or task.cancelling():
            task = self._running[key] = asyncio.create_task(self._summarize(target, priority, seed))
            task.add_done_callback(lambda done: self._ended(key, done))
            if priority is Priority.IDLE:
                self._idle.add(key)
        return task

    def _ended(self, key: bytes, task: asyncio.Task[Summary | None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
            self._idle.discard(key)

    async def _summarize(self, target: Target, priority: Priority, seed: int | None) -> Summary | None:
        try:
            if not await self._offered():
                return None
            examples = await self._examples_for(target)
            summary = await self._service.summarize(
                *(target.function, target.language, priority),
                examples=examples,
                seed=seed,
                document=target.document.uri,
            )
        except LspCalibError as error:
            logger.warning("No summary: %s", error)
            return None
        if summary is None:
            if seed is None and self._model is not None:
                self._nothing_said[self._key(target, self._model)] = None
            return None
        self._made(summary.suggestion)
        self._model = summary.model
        self._known[self._key(target, summary.model)] = summary
        self._known_anew()
        return summary

    def _key(self, target: Target, model: ModelIdentity | None = None) -> bytes:
        of = "" if model is None else f"{model.name}\0{model.quantisation}\0{model.sha256}"
        # The tier depends on the document (`tiers.overrides`), the prompt's examples on its workspace.
        parts = of, target.document.uri, target.language, target.function.code
        return hmac.digest(self._secret, "\0".join(parts).encode("utf-8", "surrogatepass"), "sha256")


# Seconds: summaries that become known together are one refresh of the lenses.
_REFRESH = 0.2
# Functions that are summarised ahead: about what is on a screen. A summary takes seconds of two cores.
MOST = 4
# Lines from the place beyond which a function is not on the screen.
NEAR = 60
# Characters of a document beyond which it is not parsed for something that nobody has asked for.
_LARGEST = 200_000
# Lines that are parsed in a few milliseconds.
_LONG = 1_000
# An editor asks for lenses after each pause in typing: generated functions would be a megabyte each time.
_MOST_LENSES = 500


@attrs.define(eq=False, repr=False, slots=False)
class Summaries:
    """Has summaries made, shown and inserted, and follows what becomes of those that were inserted.

    When all is idle, those of the functions around the last place of the user are made, one after the other.
    """

    _connection: Connection
    _model: Model
    _estimator: ConfidenceEstimator
    _admission: Admission
    _status: Status
    _tracking: SuggestionTracking
    _recorder: Recorder
    _pace: Pace
    _settled: Callable[[int], object]

    def __attrs_post_init__(self) -> None:
        self.expected: dict[str, tuple[Insertion, Summary]] = {}  # changes that the editor was asked to make
        self._reported: set[str] = set()
        self._hovered = False
        self.place: tuple[str, int] | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._examples = ExampleIndex(self._connection, self._admission)
        self.requests = SummaryRequests(
            SummaryService(self._model.engine, self._estimator, installed_encoder()),
            offered=self._are_offered,
            admission=self._admission,
            examples_for=self._examples_for,
            reload=self._estimator.reload,
            made=self._status.made,
            known_anew=self._known,
        )
        self.ahead = IdleWork("summaries", self._pace.summaries, self._make_ahead, stops=True)

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        document = self._connection.open_document(params.text_document.uri)
        if document is None or not self._connection.settings.hover:
            return None
        edits = document.edits
        await parse(*document.cells)
        target = target_at(document, params.position) if document.edits == edits else None
        if target is None:  # or the place was one in the version before
            return None
        formats = get_capability(self._connection.client_capabilities, "text_document.hover.content_format")
        style = _MARKDOWN if types.MarkupKind.Markdown in (formats or ()) else _PLAIN
        summary = await self.requests.of(target, patience=self._connection.client_traits.hover_patience)
        # Only now: work ahead on this very function is not stopped but waited for.
        self._hovers(target)
        if summary is None:
            # Where there is documentation, nothing is missing.
            said = self._none_offered and target.function.docstring is None
            if not said or not await self._admission.admits(target.document):
                return None
            text = f"{style.emphasis}{style.prose(self._none_offered)}{style.emphasis}"
        elif summary == "pending":
            text = style.pending(target.function.name, self._status.waits_for)
        else:
            self._status.shown(summary)
            text = style.text(summary, reported=summary.id in self._reported)
        return types.Hover(types.MarkupContent(style.kind, text), target.range)

    async def lenses(self, uri: str) -> list[types.CodeLens] | None:
        """The known summaries of functions without documentation. Nothing is made for it: a click does."""
        document = self._connection.open_document(uri)
        if document is None or not self._connection.settings.code_lens:
            return None
        if not await self._admission.admits(document) or sum(map(len, document.bare_lines)) > _LARGEST:
            return None
        await parse(document)
        found = []
        # That there are none is said once, not above each function.
        most = 1 if self._none_offered else _MOST_LENSES
        for function in _undocumented(functions_of(document))[:most]:
            target = Target.at_its_heading(document, function)
            known, start = self.requests.known(target), target.range.start
            title = _UNKNOWN if known is None else _title(known.suggestion)
            title = _ELSEWHERE if self._none_offered else title
            place = {"uri": uri, "position": {"line": start.line, "character": start.character}}
            found.append(
                types.CodeLens(target.range, types.Command(title, "lsp-calib.showSummary", arguments=[place]))
            )
        return found

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction | types.Command] | None:
        """Asks no model: editors request actions at each movement of the cursor."""
        document = self._connection.open_document(params.text_document.uri)
        if document is None:
            return None
        offered = list(_reviews(params.context.diagnostics))
        wanted_here = self._connection.settings.hover and not self._none_offered
        if wanted_here and await self._admission.admits(document):
            offered += await self._on_function(document, params)
        only = params.context.only
        wanted = [one for one in offered if only is None or any(is_of_kind(one.kind, kind) for kind in only)]
        # Clients from before code actions had kinds take commands.
        client = self._connection.client_capabilities
        takes = get_capability(client, "text_document.code_action.code_action_literal_support") is not None
        return [one if takes else one.command for one in wanted if one.command]

    async def _on_function(
        self, document: CalibDocument, params: types.CodeActionParams
    ) -> list[types.CodeAction]:
        start = params.range.start
        # Some editors say repeatedly where the cursor is.
        if self.place != (document.uri, start.line):
            self.at(document.uri, start.line)
        by_hand = params.context.trigger_kind is not types.CodeActionTriggerKind.Automatic
        # Editors ask at each movement of the cursor: a long document is not parsed anew for that.
        lines, edits = document.bare_lines, document.edits
        if not by_hand and len(lines) > _LONG and document.functions_of(lines) is None:
            return []
        await parse(document)
        target = function_around(document, start) if document.edits == edits else None
        if target is None:  # or the place was one in the version before
            return []
        function, language = target.function, target.language
        # A light bulb at each line of a body would be noise: there the user has to ask.
        if not by_hand and not function.start <= start.line < function.signature_end:
            return []
        offered = []
        place = {"line": start.line, "character": start.character}
        argument = {"uri": params.text_document.uri, "position": place}
        if may_insert(function, language) and _applies_edits(self._connection.client_capabilities):
            offered.append(_action(f"Insert summary as {noun(language)}", "insertSummary", argument))
        known = self.requests.known(target)
        if known is not None:
            offered.append(_action("Regenerate summary", "regenerateSummary", argument))
            if known.suggestion.id not in self._reported:
                offered.append(_action("Report summary as wrong", "reportSummary", argument))
        return offered

    async def target(self, uri: str, position: types.Position, *, for_prompt: bool) -> Target:
        """The function around a place of an open document.

        for_prompt: the model is to see it. Raises SettingsError if there is none, or if the model may not.
        """
        document = self._connection.open_document(uri)
        if document is None:
            raise SettingsError("This document is not open in the editor, so its functions are not known.")
        refusal = await self._admission.refusal(document) if for_prompt else None
        if refusal is not None:
            raise SettingsError(refusal.sentence)
        if for_prompt and self._none_offered:
            raise SettingsError(self._none_offered)
        await parse(document)
        target = function_around(document, position)
        if target is None:
            raise SettingsError(
                "There is no function at this place, or none that can be found in this language."
            )
        return target

    async def show(self, target: Target) -> Suggestion | None:
        """The summary, to be shown now; it is made unless it is known."""
        summary = await self.requests.of(target)
        self._hovers(target)
        if summary is None or summary == "pending":
            return None
        self._status.shown(summary)
        return summary

    async def insert(self, target: Target) -> dict[str, Any]:
        """Insert the summary of a function as its documentation: {applied, reason, suggestion}.

        It is made first unless it is known. Raises SettingsError if the editor cannot be asked for a change.
        """
        if not _applies_edits(self._connection.client_capabilities):
            raise SettingsError(
                "This editor does not let a server change a document (workspace/applyEdit). "
                "Copy the summary from the hover instead."
            )
        uri, language = target.document.uri, target.language
        suggestion = await self.requests.of(target)
        summary = self.requests.known(target)
        if suggestion is None or summary is None:
            return _answer(_NONE_MADE)
        # The document may have changed meanwhile, or be another object: closed, and opened again. A function
        # that only moved is found again.
        now = self._connection.open_document(uri)
        function = None if now is None else _same(functions_of(now), target.function)
        if now is None or function is None:
            return _answer(CHANGED)
        made = insertion(now.bare_lines, function, language, summary.suggestion.text)
        if made is None:
            return _answer(NO_PLACE, summary)
        self.expected[uri] = made, summary
        params = types.ApplyWorkspaceEditParams(self._edit(now, made), label="Insert summary")
        try:
            result = await self._connection.workspace_apply_edit_async(params)
        except JsonRpcInvalidRequest:
            # Some editors answer with null, against the protocol. The change itself tells what they did.
            return _answer(None, summary)
        if not result.applied:
            self.expected.pop(uri, None)
            return _answer(result.failure_reason or REFUSED, summary)
        return _answer(None, summary)

    async def report(self, target: Target) -> None:
        """The user says that a summary is wrong: a label, on disk when this returns. Raises LspCalibError."""
        summary = self.requests.known(target)
        if summary is None:
            raise SettingsError("This function has no summary yet, so there is nothing to report.")
        now, identity = time.time(), summary.suggestion.id
        self._tracking.drop(identity)
        self._reported.add(identity)
        self._recorder.summary_shown(target.document, summary, "", now)
        label = Label(identity, False, How.REPORTED, now)
        self._recorder.record(
            [Event(identity, EventKind.REJECTED, now), Event(identity, EventKind.SETTLED, now, label=label)]
        )
        await self._recorder.finish()
        self._settled(1)

    async def close(self) -> None:
        await self.ahead.close()
        if self._refresh is not None:
            self._refresh.cancel()
        await self.requests.close()
        await self._examples.close()

    async def _examples_for(self, target: Target) -> Sequence[Example]:
        return await self._examples.examples_for(target.document, target.function, target.language)

    @property
    def _none_offered(self) -> str:
        """Why there are no summaries of the model that is loaded; "" if there are."""
        loaded = self._model.loaded
        return "" if loaded is None else self._refusal_of(loaded.card)

    async def _are_offered(self) -> bool:
        return not self._refusal_of((await self._model.engine.ready()).card)

    def _refusal_of(self, card: ModelCard) -> str:
        settings = self._connection.settings
        return "" if settings.hover and "hover" in settings.given else no_summaries(card)

    def _hovers(self, target: Target) -> None:
        """The user looks at a summary: others are worth making ahead from now on."""
        self._hovered = True
        self.at(target.document.uri, target.function.start)

    def at(self, uri: str, line: int) -> None:
        """The user is at a line, counted from 0."""
        self.place = uri, line
        self.ahead.wait()

    def opened(self, document: CalibDocument) -> None:
        self._examples.opened(document)
        self.at(document.uri, 0)

    def closed(self, closed: DocumentClosed) -> None:
        uri = closed.uri
        self._examples.closed(uri)
        self.expected.pop(uri, None)
        if self.place is not None and self.place[0] == uri:
            self.place = None

    def changed(self, changed: DocumentChanged) -> None:
        """A document has changed: perhaps in the way that the editor was asked for."""
        # Some editors report changes only after a pause, when they have long answered.
        document, lines = changed.document, changed.lines
        made, summary = self.expected.pop(document.uri, (None, None))
        if made is None or summary is None:
            return
        if lines[made.line : made.line + len(made.lines)] == made.lines:
            self._recorder.summary_shown(document, summary, made.lines[0], time.time())
            self._tracking.made(document, made.places, summary.suggestion)

    def _edit(self, document: CalibDocument, made: Insertion) -> types.WorkspaceEdit:
        end = "\r\n" if document.lines and document.lines[0].endswith("\r\n") else "\n"
        place = types.Position(made.line, 0)
        change = types.TextEdit(types.Range(place, place), "".join(f"{line}{end}" for line in made.lines))
        return self._connection.workspace_edit([(document, [change])])

    async def _make_ahead(self) -> None:
        """Make the summaries around the last place, unless something happens."""
        place = self.place
        document = None if place is None else self._connection.open_document(place[0])
        if place is None or document is None:
            return
        language = document.language
        if not self._goes_ahead(language) or sum(map(len, document.bare_lines)) > _LARGEST:
            return
        await parse(document)
        wanted = functions_of(document)
        if not self._shows_hovers:
            wanted = _undocumented(wanted)
        try:
            for function in _near(wanted, place[1]):
                if not self._goes_ahead(language):
                    return
                await self.requests.prepare(Target.at_its_heading(document, function))
        except asyncio.CancelledError:
            self.requests.give_way()
            raise

    @property
    def _shows_hovers(self) -> bool:
        """Whether the user looks at summaries in hovers, which documented functions have, too."""
        return self._connection.settings.hover and self._hovered

    def _goes_ahead(self, language: str) -> bool:
        settings = self._connection.settings
        return (
            # Who never looks at a summary pays nothing for summaries.
            (settings.code_lens or self._shows_hovers)
            and not self._none_offered
            # A request to another machine may cost money.
            and settings.remote_url is None
            # Idle work loads no model.
            and self._status.state in (EngineState.READY, EngineState.BUSY)
            and self._admission.may_work_ahead()
            and self._admission.unwanted(language) is None
        )

    def _known(self) -> None:
        if self._connection.settings.code_lens and self._refresh is None:
            self._refresh = asyncio.get_running_loop().call_later(_REFRESH, self._refresh_lenses)

    def _refresh_lenses(self) -> None:
        self._refresh = None
        client = self._connection.client_capabilities
        if get_capability(client, "workspace.code_lens.refresh_support"):
            self._connection.workspace_code_lens_refresh(None)


def _applies_edits(client: types.ClientCapabilities) -> bool:
    """Whether a client changes documents when it is asked to."""
    return bool(get_capability(client, "workspace.apply_edit"))


def _same(found: Sequence[Function], wanted: Function) -> Function | None:
    """The function with the same code, the nearest of several."""
    same = [one for one in found if (one.name, one.code) == (wanted.name, wanted.code)]
    return min(same, key=lambda one: abs(one.start - wanted.start), default=None)


def _undocumented(found: Sequence[Function]) -> list[Function]:
    """The functions that have lenses: above written documentation a summary would repeat it."""
    return [one for one in found if one.docstring is None]


def _near(found: Sequence[Function], line: int) -> list[Function]:
    """The functions nearest to a line, the nearest first; of nested ones the inner one first."""

    def distance(function: Function) -> int:
        return max(function.start - line, line - function.end + 1, 0)

    near = [one for one in found if distance(one) <= NEAR]
    return sorted(near, key=lambda one: (distance(one), one.end - one.start))[:MOST]


def _answer(reason: str | None, summary: Summary | None = None) -> dict[str, Any]:
    suggestion = None if summary is None else summary.suggestion.to_wire()
    return {"applied": reason is None, "reason": reason, "suggestion": suggestion}


_UNKNOWN = "\N{WHITE CIRCLE} summarise"
_ELSEWHERE = "\N{WHITE CIRCLE} summaries need a larger model"
_PENDING = "summarising\N{HORIZONTAL ELLIPSIS} hover again in a moment"
_REPORTED = "You reported this summary as wrong."


@attrs.frozen
class _Style:
    """How a client shows hovers.

    escape: makes any text safe. prose: the same for a sentence of ours with commands between backticks.
    strong, emphasis: the marks around a text.
    """

    kind: types.MarkupKind
    escape: Callable[[str], str]
    prose: Callable[[str], str]
    strong: str
    emphasis: str

    def pending(self, name: str, engine: str) -> str:
        """Of a summary that is being made. engine: what it waits for, "" if for nothing else."""
        what = f"{self.strong}{self.escape(name)}{self.strong}: " if name else ""
        waits = f"{self.escape(engine)}\n\n" if engine else ""
        return f"{waits}{what}{self.emphasis}{_PENDING}{self.emphasis}"

    def text(self, summary: Suggestion, *, reported: bool) -> str:
        tier, words = summary.confidence.tier, tier_words(summary.confidence.tier)
        sentence = _REPORTED if reported else tier_sentence(summary.confidence)
        notes = "".join(f"{self.prose(note)}\n\n" for note in summary.confidence.notes)
        return (
            f"{self.escape(summary.text)}\n\n"
            f"{DOTS[tier.value]} {self.strong}{words}{self.strong}: {self.prose(sentence)}\n\n"
            f"{notes}"
            f"{self.emphasis}{self.escape(f'{summary.model}, lsp-calib')}{self.emphasis}"
        )


_MARKDOWN = _Style(types.MarkupKind.Markdown, escape_markdown, escape_prose, "**", "*")
_PLAIN = _Style(types.MarkupKind.PlainText, shown, plain_prose, "", "")


def _title(summary: Suggestion) -> str:
    tier = summary.confidence.tier
    return f"{DOTS[tier.value]} {summary.text} ({tier_words(tier).lower()})"


def _reviews(diagnostics: Sequence[types.Diagnostic]) -> Iterator[types.CodeAction]:
    for one in diagnostics:
        identity = one.data.get("id") if isinstance(one.data, dict) else None
        if one.source == SOURCE and is_suggestion_id(identity):
            kind = types.CodeActionKind.QuickFix
            yield _action("Mark suggestion as reviewed", "markReviewed", {"id": identity}, kind, [one])


def _action(
    title: str,
    command: str,
    argument: dict[str, Any],
    kind: types.CodeActionKind = types.CodeActionKind.RefactorRewrite,
    diagnostics: list[types.Diagnostic] | None = None,
) -> types.CodeAction:
    run = types.Command(title, f"lsp-calib.{command}", arguments=[argument])
    return types.CodeAction(title, kind=kind, diagnostics=diagnostics, command=run)
