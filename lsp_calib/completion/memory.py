"""The latest completions of each document, so that typing along, going back and returning need no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.postprocess import closed_by_editors
from lsp_calib.completion.service import Completion, Hidden, Nothing
from lsp_calib.lru import LRU
from lsp_calib.values import Sure, Timing

# Completions that are remembered of a document: more than a user goes back to. Each takes a few kilobytes,
# since a completion has at most `service.MOST_TOKENS` tokens and no line of the document is kept with it.
MOST = 64

Outcome = Completion | Hidden | Nothing
"""What the service has answered."""

# Stands for the cursor of a remembered completion, whose document is not kept.
_NOWHERE = Cursor(("",), 0, 0)


@attrs.frozen
class _Remembered:
    """column: of the cursor that the outcome was made for. text: of the suggestion, "" if there is none."""

    outcome: Outcome
    column: int
    text: str


class CompletionMemory:
    """Remembers outcomes by what the model was shown, so that the same prompt has the same answer again.

    A suggestion that comes from here keeps its id, its confidence and its tier: it is the same prediction of
    the same line. Its features may have been computed before an edit that no prompt shows.

    key: of the prompt for a cursor in a document and of its line, the same for as long as both are; None if
        there is no model to say so. No text can be read from it.
    """

    def __init__(self, key: Callable[[str, Cursor], bytes | None]) -> None:
        self._key = key
        self._documents: dict[str, LRU[tuple[bytes, int], _Remembered]] = {}

    def remember(self, uri: str, cursor: Cursor, outcome: Outcome) -> None:
        """Keep the outcome of a request at `cursor`; it takes the place of an earlier one for this prompt.

        An alternative (rank 2 or 3) stands beside the first: it is recalled once its beginning is typed.
        """
        key = outcome.key or self._key(uri, cursor)
        if key is None:
            return
        text = ""
        if isinstance(outcome, Completion):
            text = outcome.suggestion.text
            outcome = attrs.evolve(outcome, cursor=_NOWHERE)
        rank = outcome.suggestion.rank if isinstance(outcome, Completion) else 1
        if (known := self._documents.get(uri)) is None:
            known = self._documents[uri] = LRU(MOST)
        known[key, rank] = _Remembered(outcome, cursor.column, text)

    def recall(self, uri: str, cursor: Cursor) -> Outcome | None:
        """What is known for `cursor`, the latest first; None if nothing is.

        That is the outcome for this prompt, or the rest of a suggestion whose beginning stands before the
        cursor. What is typed is in doubt no longer: the span of doubt shrinks, and goes with its last
        character.
        """
        known = self._documents.get(uri)
        if not known:
            return None
        before = cursor.before
        keys: dict[tuple[int, int], bytes | None] = {}

        def key_of(typed: int, closed: int) -> bytes | None:
            if (typed, closed) not in keys:
                keys[typed, closed] = self._key(uri, _without(cursor, typed, closed))
            return keys[typed, closed]

        # What is typed may begin several of one place: the first suggestion counts, not an alternative.
        latest = reversed(known.items())
        for (key, rank), one in sorted(latest, key=lambda item: item[0][1]):
            typed = cursor.column - one.column
            if typed and not (0 < typed < len(one.text) and before.endswith(one.text[:typed])):
                continue
            if not typed and rank > 1:
                continue
            closed = 0
            if key != key_of(typed, 0):
                closed = len(_closed(one.text, typed, cursor.after))
                if not closed or key != key_of(typed, closed):
                    continue
            if typed and not one.text[typed : len(one.text) - closed].strip():
                continue  # nothing that can be seen is left
            known.move_to_end((key, rank))
            return _rest(one.outcome, cursor, typed, closed)
        return None

    def forget(self, uri: str) -> None:
        """Drop all that is known of a document."""
        self._documents.pop(uri, None)

    def clear(self) -> None:
        self._documents.clear()


def _closed(text: str, typed: int, after: str) -> str:
    """What an editor has added after the cursor while the beginning of a text was typed: the closers that it
    leaves open, if they are the end of the rest."""
    closers = closed_by_editors(text[:typed])
    while not after.startswith(closers):
        closers = closers[:-1]
    return closers if text[typed:].endswith(closers) else ""


def _rest(outcome: Outcome, cursor: Cursor, typed: int, closed: int) -> Outcome:
    """An outcome at `cursor`, once so many characters of its text stand before it and after it."""
    if not isinstance(outcome, Completion):
        return outcome
    text = outcome.suggestion.text[typed : len(outcome.suggestion.text) - closed]
    suggestion = attrs.evolve(
        outcome.suggestion,
        text=text,
        source="memory",
        timing=Timing(),
        doubt=_moved(outcome.suggestion.doubt, typed, len(text)),
        sure=_left(outcome.suggestion.sure, typed, len(text)),
    )
    left = [_left(one, typed, len(text)) for one in outcome.beginnings]
    beginnings = tuple(one for one in left if one is not None)
    return attrs.evolve(outcome, suggestion=suggestion, cursor=cursor, beginnings=beginnings, key=None)


def _moved(span: tuple[int, int] | None, by: int, most: int) -> tuple[int, int] | None:
    """Shift a span `by` characters to the left, clipped to [0, most]; None if nothing of it is left."""
    if span is None or span[1] <= by or span[0] - by >= most:
        return None
    return max(span[0] - by, 0), min(span[1] - by, most)


def _left(sure: Sure | None, typed: int, most: int) -> Sure | None:
    """What can be trusted of a text without its first `typed` characters, of which there are `most`; None
    once all of it is typed."""
    if sure is None or sure.end <= typed:
        return None
    return attrs.evolve(sure, end=min(sure.end - typed, most))


def _without(cursor: Cursor, typed: int, closed: int) -> Cursor:
    """The cursor before the last characters were typed, and so many after it added."""
    if not typed:
        return cursor
    column = cursor.column - typed
    lines = _OtherLine(cursor.lines, cursor.line, cursor.before[:column] + cursor.after[closed:])
    return Cursor(lines, cursor.line, column, cursor.language)


@attrs.frozen
class _OtherLine(Sequence[str]):
    """Lines of which one is another: without a copy, since there may be many."""

    lines: Sequence[str]
    line: int
    text: str

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        return self.text if at in (self.line, self.line - len(self)) else self.lines[at]
