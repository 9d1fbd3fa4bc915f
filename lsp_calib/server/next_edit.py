"""The change that the user has just made by hand in one line, offered where it probably belongs next.

No model is asked. Here it is decided what such a change is, by what an editor tells of its documents, and
which places are offered; `lsp_calib.edits` finds the places and says how likely each is.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import attrs
from lsprotocol import types
from pygls.capabilities import get_capability

from lsp_calib.badges import counted, percent
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.characters import in_one_line
from lsp_calib.completion.features import MOST_CHARACTERS
from lsp_calib.edits.history import History
from lsp_calib.edits.offers import (
    MOST_BELOW,
    OFFERED_FROM,
    EditCurve,
    Offer,
    candidates,
    offers,
    shipped_curve,
)
from lsp_calib.edits.rules import Place, Rule, Text, applied
from lsp_calib.feedback.events import TOGETHER, By
from lsp_calib.feedback.lines import LineMap
from lsp_calib.languages import is_chosen
from lsp_calib.server.admission import Admission, IdleWork
from lsp_calib.server.documents import CalibDocument, DocumentChanged, DocumentClosed, part_of_line
from lsp_calib.server.messages import Connection
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.shown_edits import EXPIRES, ShownEdits, different
from lsp_calib.server.tracking import SuggestionTracking
from lsp_calib.syntax.line_fit import is_broken_by
from lsp_calib.values import Confidence, Suggestion, Tier, Timing, new_suggestion_id

# Places below the last edit of which one action can change all.
_MOST_AT_ONCE = 24
# Characters that a title repeats of a text.
_LONGEST = 40

_OFF = "Next edits are turned off. Set nextEdit.enabled to true to get them."
_DAMAGED = "The curve of next edits cannot be read, so none is offered. Install lsp-calib again."
_NONE = "No edit was made that can be repeated: a few words or characters, changed by hand within one line."
_GOES_ON = "The edit counts once the cursor leaves its line, or after a second without a key."
_ELSEWHERE = "The last edit was made in a document of another language."
_NO_PLACE = "The last edit can be repeated nowhere in the open documents."
_BROKEN = "The last edit would leave code that cannot be parsed in all places that are likely."


@attrs.define
class _Pending:
    """The line that the user is changing. was: as it was before."""

    uri: str
    line: int
    was: str


@attrs.define(eq=False)
class _Found:
    """A place that is likely enough. fits: whether the line can be parsed with it; None: not known yet."""

    document: CalibDocument
    offer: Offer
    confidence: Confidence
    fits: bool | None = None

    @property
    def place(self) -> Place:
        return self.offer.candidate.place

    @property
    def line(self) -> tuple[str, int]:
        return self.document.uri, self.place.line

    @property
    def edit(self) -> types.TextEdit:
        place, line = self.place, self.document.bare_lines[self.place.line]
        return types.TextEdit(
            part_of_line(self.document, place.line, line, place.start, place.end), place.text
        )

    def make(self) -> Suggestion:
        model = "next-edit"
        made = new_suggestion_id(), "edit", self.place.text, self.confidence, model, 1, "model", Timing()
        return Suggestion(*made)


@attrs.define(eq=False, repr=False, slots=False)
class NextEdits:
    """The edits of a session, and the places where the last one can be made again.

    settled: is told how many labels are new.
    """

    _connection: Connection
    _estimator: ConfidenceEstimator
    _admission: Admission
    _tracking: SuggestionTracking
    _recorder: Recorder
    _settled: Callable[[int], object]

    def __attrs_post_init__(self) -> None:
        self._history = History()
        self._rules: list[Rule] = []  # of the last edit
        self._origin: tuple[str, int] = "", 0  # its document and line
        self._made_at = 0.0
        self._state = 0  # goes up with each edit
        self._last: tuple[str, float] = "", 0.0  # the document that was changed last, and when
        self._pending: _Pending | None = None
        self._rested: _Pending | None = None  # complete since a rest in its line
        self._rest = IdleWork("the end of an edit", self._connection.pace.edit, self._rests, stops=False)
        # In the documents as they are now, by how many were looked for: how many there are, the highest
        # probability, and those that are likely enough.
        self._found: dict[int, tuple[int, float | None, list[_Found]]] = {}
        self._texts: dict[Hashable, Text] = {}
        self._now = self._connection.clock
        self._shown = ShownEdits(self._tracking, self._recorder, self._settled, self._now)

    # What is an edit.

    def changed(self, change: DocumentChanged, inserted: Collection[int]) -> None:
        """A document has changed. inserted: the lines in which this has inserted suggestions."""
        where, uri, document = change.changes.where, change.document.uri, change.document
        self._found = {}
        if where.is_identity or not self._is_on():
            return
        self._expire()
        by_hand, only = not self._is_elsewhere(uri) and change.by is By.USER, where.only_line
        pending = self._pending
        goes_on = pending is not None and by_hand and (pending.uri, pending.line) == (uri, only)
        rested = self._rested
        if pending is not None and not goes_on:
            # What a program makes of the line is no part of the edit.
            self._complete(where.old if pending.uri == uri else None)
        self._rested = None
        if not goes_on and self._shown.are_made_by(uri, where):
            for line in different(where):
                self._edited(document, line, where.old[line], where.new[line], at_once=True)
        elif only is not None and by_hand:
            if only in inserted:
                self._drop()
            elif not goes_on and self._follows(document):
                self._pending = _Pending(uri, only, where.old[only])
                if rested is not None and (rested.uri, rested.line) == (uri, only):
                    self._resume(self._pending, rested.was)
            if self._pending is not None:
                self._rest.put_off()
        elif not self._undoes(document, where):
            many = len({one.line for one in change.changes.all}) > 1
            if by_hand and many:
                self._end()  # with several cursors, or by a rename: all of it is done
            self._shift(uri, where)
            self._shown.shifted(uri, where, by_hand=by_hand and not many)

    def saved(self) -> None:
        self._complete()

    def at(self, uri: str, line: int) -> None:
        """The cursor is in a line, from 0."""
        for one in (self._pending, self._rested):
            if one is not None and (one.uri, one.line) != (uri, line):
                self._complete()

    def opened(self, document: CalibDocument) -> None:
        """Some editors open a document twice."""
        self._forget(document.uri)

    def closed(self, closed: DocumentClosed) -> None:
        self._forget(closed.uri)

    def settings_changed(self) -> None:
        for document in self._connection.open_documents():
            if not self._follows(document):
                self._forget(document.uri)

    def calibrator_changed(self) -> None:
        self._found = {}

    def stop(self) -> None:
        """Wait for the end of no edit any more."""
        self._drop()

    def finish(self) -> None:
        """Settle what was shown: the editor is shutting down."""
        self._drop()
        self._shown.forget()

    async def close(self) -> None:
        await self._rest.close()

    async def _rests(self) -> None:
        rested = self._pending
        self._complete()
        self._rested = rested

    def _resume(self, pending: _Pending, was: str) -> None:
        """The user goes on with a line after a rest: all of it is one edit. was: as it was before that."""
        if (pending.line, pending.was, was) in self._made_in(pending.uri):
            self._history.changed(pending.uri, pending.line, pending.was, was)
            self._end()
        pending.was = was

    def _drop(self) -> None:
        self._pending = self._rested = None
        self._rest.stop()

    def _complete(self, lines: Sequence[str] | None = None) -> None:
        """The edit of a line is complete. lines: of its document; as they are now unless given."""
        pending = self._pending
        self._drop()
        document = None if pending is None else self._connection.open_document(pending.uri)
        if pending is None or document is None:
            return
        became = (document.bare_lines if lines is None else lines)[pending.line]
        if became != pending.was:
            self._edited(document, pending.line, pending.was, became)

    def _edited(
        self, document: CalibDocument, line: int, was: str, became: str, *, at_once: bool = False
    ) -> None:
        """A line was edited. at_once: by what was offered there."""
        uri, before = document.uri, list(self._history.made)
        self._found = {}
        touched = self._shown.edited(document, line, was, became, at_once=at_once)
        rules = self._history.changed(uri, line, was, became)
        if rules:
            goes_on = at_once and set(rules) & set(self._rules)
            self._rules = self._rules if goes_on else rules
            self._origin, self._made_at, self._state = (uri, line), self._now(), self._state + 1
            for rule in rules:
                self._shown.passed(uri, rule, self._history.of(rule))
            return
        kept = set(map(id, self._history.made))
        taken_back = [one for one in before if id(one) not in kept]
        self._shown.refuse(taken_back)  # who takes it back does not want it there
        if taken_back:
            self._rules = [rule for rule in self._rules if self._history.of(rule)]
        elif touched and not at_once:
            self._end()

    def _is_elsewhere(self, uri: str) -> bool:
        """Whether a change comes too soon after one of another document to be by hand, as where a name is
        changed in all documents that have it. Then neither is."""
        (other, at), self._last = self._last, (uri, self._now())
        too_soon = other not in ("", uri) and self._now() - at <= TOGETHER
        if too_soon:
            self._drop()
        return too_soon

    def _made_in(self, uri: str) -> set[tuple[int, str, str]]:
        """(line, as it became, as it was) of the edits in a document."""
        return {(one.line, one.became, one.was) for one in self._history.made if one.document == uri}

    def _undoes(self, document: CalibDocument, where: LineMap) -> bool:
        """Whether a change of several lines has taken back edits in all of them; then that is noted."""
        if where.new_end != where.old_end:
            return False
        lines, made = different(where), self._made_in(document.uri)
        if not all((line, where.old[line], where.new[line]) in made for line in lines):
            return False
        for line in lines:
            self._edited(document, line, where.old[line], where.new[line])
        return True

    def _shift(self, uri: str, where: LineMap) -> None:
        """Lines have come or gone."""
        if by := where.new_end - where.old_end:
            self._history.moved(uri, where.start, where.old_end, by)
            document, line = self._origin
            if document == uri and line >= where.old_end:
                self._origin = uri, line + by

    def _expire(self) -> None:
        if self._now() - self._made_at > EXPIRES:
            self._end()
        self._shown.expire()

    def _end(self) -> None:
        """Offer the last edit no more."""
        self._rules, self._found, self._texts = [], {}, {}

    def _forget(self, uri: str) -> None:
        """A document is closed, or no longer followed: keep nothing of it."""
        if any(one is not None and one.uri == uri for one in (self._pending, self._rested)):
            self._drop()
        self._shown.forget(uri)
        self._history.forget(uri)
        self._texts.pop(uri, None)
        self._found = {}
        self._rules = [rule for rule in self._rules if self._history.of(rule)]
        if not self._rules:
            self._end()
        elif self._origin[0] == uri:
            last = self._history.of(self._rules[0])[-1]
            self._origin = str(last.document), last.line

    # What is offered.

    async def next(self, document: CalibDocument, position: types.Position) -> dict[str, Any] | None:
        """The likeliest place as it goes to the client, with the cursor at a position; None if there is
        none."""
        self.at(document.uri, document.place_of(position)[0])
        if await self._refusal(document):
            return None
        found = next(filter(self._fits, self._likely()), None)
        return None if found is None else self._to_wire(found)

    async def explain(self, document: CalibDocument) -> dict[str, Any] | None:
        """Why nothing is offered with the cursor in a document, as it goes to the client; None if something
        is."""
        if not (message := await self._refusal(document)):
            likely = self._likely()
            if any(map(self._fits, likely)):
                return None
            n, best, _ = self._found[MOST_BELOW]
            none_likely = f"{counted(n, 'place')}, none likely enough: {percent(best)}." if n else _NO_PLACE
            message = _BROKEN if likely else none_likely
        return {"reason": "noEdit", "message": message, "uri": document.uri}

    async def actions(
        self, document: CalibDocument, params: types.CodeActionParams
    ) -> list[types.CodeAction]:
        """At a place, and at the line of the last edit: to change that place, or the likeliest one; and all
        that are as good as certain."""
        start, end = params.range.start, params.range.end
        place = document.uri, document.place_of(start)[0]
        if start == end:
            self.at(*place)
        client = self._connection.client_capabilities
        takes = get_capability(client, "text_document.code_action.code_action_literal_support")
        if takes is None or await self._refusal(document):
            return []
        likely, known = self._likely(_MOST_AT_ONCE), self._found
        if place != self._origin and not any(one.line == place for one in likely):
            return []
        for one in likely:
            if one.fits is None:  # some milliseconds each
                other = one.document
                one.fits = await asyncio.to_thread(_fits_in, other.read_lines, other.language, one.place)
            if self._found is not known:  # a document has changed meanwhile
                return []
        fitting = [one for one in likely if one.fits]
        here = [one for one in fitting if one.line == place]
        chosen = here if here or place != self._origin else fitting[:1]
        found = [self._action(_title(one, document, is_here=bool(here)), [one]) for one in chosen]
        sure = [one for one in fitting if one.confidence.tier is Tier.ACCEPT]
        # Places of one rule never overlap.
        sure = [one for one in sure if one.offer.candidate.rule == sure[0].offer.candidate.rule]
        if found and len(sure) > 1:
            found.append(self._action(f"Change the {len(sure)} likely places", sure))
        return found

    async def dismissed(self, suggestion_id: str) -> None:
        """The user does not want an edit; on disk when this returns. Raises LspCalibError."""
        self._shown.dismissed(suggestion_id)
        self._found = {}
        await self._recorder.finish()

    @functools.cached_property
    def _curve(self) -> EditCurve | None:
        """Read when places are looked for, not when the editor starts or a key is pressed."""
        return shipped_curve()

    def _is_on(self) -> bool:
        return self._connection.settings.next_edit

    def _follows(self, document: CalibDocument) -> bool:
        """Whether edits are remembered of a document, and offered there."""
        chosen = is_chosen(document.language, self._connection.settings.languages)
        return chosen and self._is_on() and not self._admission.excluded(document)

    async def _refusal(self, document: CalibDocument) -> str:
        """Why nothing is looked for, with the cursor in a document; "": it is."""
        if not self._is_on():
            return _OFF
        if (nothing := await self._admission.refusal(document, language=document.language)) is not None:
            return nothing.sentence
        self._expire()
        self._estimator.reload()
        origin = self._connection.open_document(self._origin[0])
        if self._pending is not None:
            return _GOES_ON
        if not self._rules or origin is None:
            return _NONE
        if self._curve is None:
            return _DAMAGED
        return "" if origin.language == document.language else _ELSEWHERE

    def _likely(self, most: int = MOST_BELOW) -> list[_Found]:
        """The places of the last edit that are likely enough, the likeliest first. most: as of
        `candidates`."""
        origin = self._connection.open_document(self._origin[0])
        if origin is None or not (self._rules and self._follows(origin)):
            return []
        if most not in self._found:
            self._found[most] = self._look(origin, most)
        return self._found[most][2]

    def _look(self, origin: CalibDocument, most: int) -> tuple[int, float | None, list[_Found]]:
        assert self._curve is not None, "the caller has looked"
        texts: dict[Hashable, Text] = {}
        documents = self._connection.open_documents()
        searched = {
            one.uri: one for one in documents if one.language == origin.language and self._follows(one)
        }
        for uri, one in searched.items():
            known, lines = self._texts.get(uri), one.bare_lines
            if sum(map(len, lines)) <= MOST_CHARACTERS:
                texts[uri] = known if known is not None and known.lines is lines else Text(lines)
        self._texts, found, highest = texts, [], None
        refused = self._shown.is_refused
        places = list(candidates(self._history, self._rules, texts, origin.uri, most, refused))
        for offer in offers(places, origin.language, self._curve):
            candidate, document = offer.candidate, searched[str(offer.candidate.document)]
            in_force = self._estimator.of(self._curve.purpose, document.file, origin.language)
            confidence = in_force.assess(offer.evidence)
            p, words = confidence.calibrated, candidate.words
            highest = p if highest is None else highest
            if p is None or p < OFFERED_FROM:
                break
            confidence = attrs.evolve(confidence, reason=f"{words}; {confidence.reason}", cause=words)
            found.append(_Found(document, offer, confidence))
        return len(places), highest, found

    def _fits(self, one: _Found) -> bool:
        if one.fits is None:
            one.fits = _fits_in(one.document.read_lines, one.document.language, one.place)
        return one.fits

    def _show(self, found: _Found) -> Suggestion:
        """The suggestion at a place, which is shown now."""
        assert self._curve is not None, "it has found the place"
        candidate, purpose = found.offer.candidate, self._curve.purpose
        what = found.document, candidate, self._state, found.make, purpose, found.offer.evidence
        return self._shown.show(*what)

    def _to_wire(self, found: _Found) -> dict[str, Any]:
        span, wire = found.edit.range, self._show(found).to_wire()
        start, end = ({"line": one.line, "character": one.character} for one in (span.start, span.end))
        return {**wire, "uri": found.document.uri, "range": {"start": start, "end": end}}

    def _action(self, title: str, places: Sequence[_Found]) -> types.CodeAction:
        edits: dict[str, tuple[CalibDocument, list[types.TextEdit]]] = {}
        for one in places:
            edits.setdefault(one.document.uri, (one.document, []))[1].append(one.edit)
        shown: list[Any] = [{"id": self._show(one).id} for one in places]
        return types.CodeAction(
            title,
            kind=types.CodeActionKind.RefactorRewrite,
            edit=self._connection.workspace_edit(edits.values()),
            command=types.Command("Tell lsp-calib", "lsp-calib.editApplied", arguments=shown),
        )


def _fits_in(lines: Sequence[str], language: str, place: Place) -> bool:
    """Whether the line of a place leaves code that can be parsed, or does not even now."""
    was = lines[place.line]
    new = applied(was, [place])
    return not is_broken_by(lines, place.line, new, language) or is_broken_by(
        lines, place.line, was, language
    )


def _title(one: _Found, document: CalibDocument, *, is_here: bool) -> str:
    """Of the action for a place, offered in a document."""
    place, other, tier = one.place, one.document, one.confidence.tier.value
    was = other.bare_lines[place.line][place.start : place.end]
    went, came = (in_one_line(text.strip(), _LONGEST) for text in (was, place.text))
    what = f"Change `{went}` to `{came}`" if went else f"Insert `{came}`"
    what = what if came else f"Remove `{went}`"
    name = "" if other is document else f" of {in_one_line(other.uri.rpartition('/')[2], _LONGEST)}"
    there = "here" if is_here else f"in line {place.line + 1}{name}"
    return f"{what} {there} too · {tier}, {percent(one.confidence.calibrated)}"
