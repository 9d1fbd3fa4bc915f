"""The places where an edit was offered: where they are now, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import attrs

from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.characters import shared_ends
from lsp_calib.edits.history import Made, passed_over
from lsp_calib.edits.offers import Candidate
from lsp_calib.edits.rules import Place, Rule, applied, edits_of_line
from lsp_calib.feedback.events import RIGHT, UNKNOWN, UNREAD_BELOW, Event, EventKind, How, Label
from lsp_calib.feedback.lines import LineMap
from lsp_calib.server.documents import CalibDocument
from lsp_calib.server.messages import Clock
from lsp_calib.server.recorder import Recorder
from lsp_calib.server.tracking import SuggestionTracking
from lsp_calib.values import Evidence, Suggestion

EXPIRES = 600.0
"""Seconds after which an edit is offered no more, and a place that was shown and not changed was wrong."""

# Places that were shown, or are not to be, that are remembered.
_MOST_SHOWN = 64


@attrs.define(eq=False)
class _Shown:
    """place: as it is now. at: when it was shown first, in Unix seconds. suggestions: those that it was shown
    as, one for each state of the session; the first one names the visit. refused: it is not offered again."""

    uri: str
    rule: Rule
    place: Place
    at: float
    suggestions: list[Suggestion] = attrs.field(factory=list)
    state: int = -1
    refused: bool = False

    def is_of(self, document: Hashable, rule: Rule, place: Place) -> bool:
        mine = self.uri, self.rule, self.place.line, self.place.start
        return mine == (document, rule, place.line, place.start)


@attrs.define(eq=False, repr=False, slots=False)
class ShownEdits:
    """Follows places that were offered, until they are changed or passed by; what is applied the tracking
    follows from then on.

    settled: is told how many labels are new. now: Unix seconds.
    """

    _tracking: SuggestionTracking
    _recorder: Recorder
    _settled: Callable[[int], object]
    _now: Clock
    _shown: list[_Shown] = attrs.field(factory=list, init=False)

    def show(
        self,
        document: CalibDocument,
        candidate: Candidate,
        state: int,
        make: Callable[[], Suggestion],
        purpose: Purpose,
        evidence: Evidence,
    ) -> Suggestion:
        """The suggestion at a place, which is shown now. It stays the same in one state of the session."""
        place, now = candidate.place, self._now()
        names = candidate.document, candidate.rule, place
        shown = next((one for one in self._shown if one.is_of(*names)), None)
        if shown is None:
            shown = _Shown(document.uri, candidate.rule, place, now)
            self._remember(shown)
        if shown.state != state:
            shown.state = state
            shown.suggestions.append(make())
            line = applied(document.bare_lines[place.line], [place])
            self._recorder.edit_shown(document, shown.suggestions[-1], purpose, evidence, line, now)
        return shown.suggestions[-1]

    def is_refused(self, document: Hashable, rule: Rule, place: Place) -> bool:
        return any(one.refused and one.is_of(document, rule, place) for one in self._shown)

    def refuse(self, made: Sequence[Made]) -> None:
        """The user has taken back edits, which are as they were in their lines."""
        for one in made:
            start, end = one.edit.start, one.edit.end
            place = Place(one.line, start, end, one.rule.new, one.edit.before, one.edit.after)
            self._remember(_Shown(str(one.document), one.rule, place, self._now(), refused=True))

    def dismissed(self, suggestion_id: str) -> None:
        """The user does not want a place to be changed."""
        for shown in self._shown:
            if any(one.id == suggestion_id for one in shown.suggestions):
                self._recorder.record([Event(suggestion_id, EventKind.REJECTED, self._now())])
                self._label(shown, How.IGNORED)
                shown.refused, shown.suggestions = True, []

    def are_made_by(self, uri: str, where: LineMap) -> bool:
        """Whether a change has made what was offered, in one place or in several, and nothing else."""
        if not any(one.uri == uri for one in self._shown) or where.new_end != where.old_end:
            return False
        return all(self._taken(uri, line, where.old[line], where.new[line]) for line in different(where))

    def edited(self, document: CalibDocument, line: int, was: str, became: str, *, at_once: bool) -> bool:
        """A line was edited. at_once: by what was offered there. Returns whether a place was changed that was
        shown."""
        edits, touched = edits_of_line(was, became), False
        taken = self._taken(document.uri, line, was, became)
        for one in [one for one in self._shown if (one.uri, one.place.line) == (document.uri, line)]:
            span = one.place.start, one.place.end
            same = any((one.rule, *span) == (edit.rule, edit.start, edit.end) for edit in edits)
            if not (one in taken or same) and (moved := _moved(one.place, was, became)) is not None:
                one.place = moved
                continue
            touched = touched or not one.refused
            if one.suggestions and at_once and one in taken:
                self._shown.remove(one)
                text = _with_neighbours(one.place, was)
                self._tracking.applied(document, line, text, one.suggestions)
            else:
                self._settle(one, How.TYPED if one in taken or same else How.TYPED_OVER)
        return touched

    def _taken(self, uri: str, line: int, was: str, became: str) -> list[_Shown]:
        """The places in a line, one or all of them, that make just this of it; none if none do."""
        here = [one for one in self._shown if (one.uri, one.place.line) == (uri, line) and not one.refused]
        some = (*([one] for one in here), here)
        return next((one for one in some if one and applied(was, [it.place for it in one]) == became), [])

    def shifted(self, uri: str, where: LineMap, *, by_hand: bool) -> None:
        """Lines have come or gone, or are others; what the user would have done where it was not by hand is
        not known."""
        by = where.new_end - where.old_end
        for one in [one for one in self._shown if one.uri == uri and one.place.line >= where.start]:
            line = one.place.line
            if line >= where.old_end:
                one.place = attrs.evolve(one.place, line=line + by)
            elif by or where.old[line] != where.new[line]:
                self._settle(one, How.DELETED if by_hand else How.OVERWRITTEN)

    def passed(self, uri: str, rule: Rule, made: Sequence[Made]) -> None:
        """A rule was applied again: the places between two that were changed are passed over."""
        here = [one for one in self._shown if (one.uri, one.rule) == (uri, rule) and not one.refused]
        passed = passed_over([one.place for one in here], made, uri)
        for one in here:
            if one.place in passed:
                self._settle(one, How.IGNORED)

    def expire(self) -> None:
        now = self._now()
        for one in [one for one in self._shown if now - one.at > EXPIRES]:
            self._settle(one, How.IGNORED)

    def forget(self, uri: str | None = None) -> None:
        """Settle what was shown in a document, which is closed; None: in all of them."""
        for one in [one for one in self._shown if uri in (None, one.uri)]:
            self._settle(one, How.IGNORED)

    def _remember(self, shown: _Shown) -> None:
        self._shown.append(shown)
        if len(self._shown) > _MOST_SHOWN:
            self._settle(self._shown[0], How.IGNORED)

    def _settle(self, shown: _Shown, how: How) -> None:
        """Follow a place no longer."""
        self._shown.remove(shown)
        unread = how in (How.IGNORED, How.DELETED) and self._now() - shown.at < UNREAD_BELOW
        self._label(shown, How.UNREAD if unread else how)

    def _label(self, shown: _Shown, how: How) -> None:
        now, correct = self._now(), None if how in UNKNOWN else how in RIGHT
        labels = [Label(one.id, correct, how, now, shown.suggestions[0].id) for one in shown.suggestions]
        kind = EventKind.SETTLED
        self._recorder.record([Event(label.suggestion_id, kind, now, label=label) for label in labels])
        if labels and correct is not None:
            self._settled(len(labels))


def different(where: LineMap) -> list[int]:
    """The lines that are others, of as many as before."""
    return [line for line in range(where.start, where.old_end) if where.old[line] != where.new[line]]


def _moved(place: Place, was: str, became: str) -> Place | None:
    """A place in its line after a change of it; None if the change is of the place."""
    above, below = shared_ends(was, became)
    if place.end <= above:
        return place
    by = len(became) - len(was)
    if place.start < len(was) - below:
        return None
    return attrs.evolve(place, start=place.start + by, end=place.end + by)


def _with_neighbours(place: Place, line: str) -> str:
    """What a place becomes, with the tokens beside it, which stand in the line by then."""
    before, after = line[: place.start].rstrip(), line[place.end :]
    start = len(before) - len(place.before) if before.endswith(place.before) else place.start
    end = place.end + len(after) - len(after.lstrip()) + len(place.after) if place.after else place.end
    return f"{line[start : place.start]}{place.text}{line[place.end : end]}"
