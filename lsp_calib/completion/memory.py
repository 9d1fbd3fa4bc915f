"""What is remembered of a document's completions: the same prompt has the same answer again.

A suggestion that comes from here keeps its id: it is the same prediction of the same line. Its confidence is
that of the moment, by what is typed of it. Its features may have been computed before an edit that no prompt
shows. A hidden one is shown once what is typed of it has lifted its confidence over the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import closed_by_editors
from lsp_calib.completion.reasons import Nothing
from lsp_calib.completion.service import Completion
from lsp_calib.values import Timing

# Completions that are remembered of a document: more than a user goes back to. Each takes a few kilobytes,
# since a completion has at most `completion.service.MOST_TOKENS` tokens and no line of the document is kept
# with it.
MOST_REMEMBERED = 64

TypedAlong = Callable[[str, Completion, int, float], Completion]
"""A completion in a document once so many characters of its text were typed: with its confidence there. The
last: how likely other suggestions for the place were that do not agree with what was typed."""

# Stands for the cursor of a remembered completion, whose document is not kept.
_NOWHERE = Cursor(("",), 0, 0)


@attrs.frozen
class _Remembered:
    """column: of the cursor that the outcome was made for. text: of the completion, "" if there is none."""

    outcome: Completion | Nothing
    column: int
    text: str


_Known = dict[tuple[bytes, int, str], _Remembered]
"""By prompt, rank and lead; the one used last at the end."""


class CompletionMemory:
    """Remembers outcomes by document and by what the model was shown.

    key: of the prompt for a cursor in a document and of its line, the same for as long as both are; None if
        there is no model to say so. No text can be read from it.
    """

    def __init__(self, key: Callable[[str, Cursor], bytes | None], typed_along: TypedAlong) -> None:
        self._key = key
        self._typed_along = typed_along
        self._documents: dict[str, _Known] = {}

    def remember(self, document: str, cursor: Cursor, outcome: Completion | Nothing) -> None:
        """Keep the outcome of a request at `cursor`; it takes the place of an earlier one for this prompt.

        An alternative (rank 2 or 3) stands beside the first: it is recalled once its beginning is typed. An
        answer with a lead stands beside the model's own: it is recalled for that lead, or once that is typed.
        """
        key = outcome.key or self._key(document, cursor)
        if key is None:
            return
        rank, text = 1, ""
        if isinstance(outcome, Completion):
            rank, text = outcome.suggestion.rank, outcome.suggestion.text
            outcome = attrs.evolve(outcome, cursor=_NOWHERE)
        known, place = self._documents.setdefault(document, {}), (key, rank, outcome.lead)
        known.pop(place, None)
        known[place] = _Remembered(outcome, cursor.column, text)
        if len(known) > MOST_REMEMBERED:
            del known[next(iter(known))]

    def recall(self, document: str, cursor: Cursor, lead: str = "") -> Completion | Nothing | None:
        """What is known for `cursor`, the latest first; None if nothing is.

        lead: what a suggestion has to begin with there.

        That is the outcome for this prompt, or the rest of a completion, shown or hidden, whose beginning
        stands before the cursor. What is typed is in doubt no longer: the span of doubt shrinks, and goes
        with its last character.
        """
        known = self._documents.get(document)
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
            known[key, rank, led] = known.pop((key, rank, led))
            if isinstance(one.outcome, Nothing):
                return one.outcome
            now = attrs.evolve(one.outcome, cursor=cursor)
            if typed:
                place = _without(cursor, typed, closed)
                beside = rank > 1 or now.is_less_sure
                refuted = self._refuted(document, place, key, led, one.text[:typed]) if beside else 0.0
                now = self._typed_along(document, now, typed, refuted)
            now = now.with_text(rest, -typed)
            suggestion = attrs.evolve(now.suggestion, source="memory", timing=Timing())
            now = attrs.evolve(now, suggestion=suggestion, key=None, lead=now.lead[typed:])
            hiding, unchanged = now.hidden_by, suggestion.confidence.calibrated
            if hiding is None:
                return now
            now = attrs.evolve(now, was_hidden=now.was_hidden or typed > 0)
            return now if hiding.hides(now.survives, unchanged) else now.shown
        return None

    def _refuted(self, document: str, place: Cursor, key: bytes, led: str, typed: str) -> float:
        """How likely the suggestions were that an alternative stands beside, and that do not begin with what
        was typed since.

        place, key, led: of the alternative. The first there may be the rest of what was made before, with the
        probability that it had there.
        """
        beside = {of: one.outcome for of, one in self._documents[document].items() if of[0] == key}
        found: list[Completion | Nothing | None] = [*beside.values()]
        if all(rank > 1 for _, rank, _ in beside):
            found.append(self.recall(document, place, led))
        others = [one.suggestion for one in found if isinstance(one, Completion)]
        wrong = (one.confidence.calibrated for one in others if not one.text.startswith(typed))
        return sum(filter(None, wrong))

    def reveal(self, document: str, suggestion_id: str) -> None:
        """Show a suggestion from now on wherever it is recalled."""
        self._change(document, suggestion_id, lambda one: one.shown if one.hidden_by else one)

    def rename(self, document: str, suggestion_id: str, new_id: str) -> None:
        """Give a suggestion another id wherever it is recalled. Where it is hidden it still is."""
        self._change(
            document,
            suggestion_id,
            lambda one: attrs.evolve(one, suggestion=attrs.evolve(one.suggestion, id=new_id)),
        )

    def _change(self, document: str, suggestion_id: str, change: Callable[[Completion], Completion]) -> None:
        known = self._documents.get(document, {})
        for key, one in list(known.items()):
            if isinstance(one.outcome, Completion) and one.outcome.suggestion.id == suggestion_id:
                known[key] = attrs.evolve(one, outcome=change(one.outcome))

    def forget(self, document: str) -> None:
        """Drop all that is known of a document."""
        self._documents.pop(document, None)

    def clear(self) -> None:
        self._documents.clear()


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
