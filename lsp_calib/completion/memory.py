"""Reuse a suggestion while the user types its text."""

from __future__ import annotations

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion
from lsp_calib.values import Timing


def continued(completion: Completion, cursor: Cursor) -> Completion | None:
    """The rest of an earlier completion at `cursor`, None if the document no longer agrees with it.

    The suggestion keeps its id and its confidence: it is the same prediction of the same line. What is typed
    is in doubt no longer: the span of doubt shrinks, and goes with its last character.
    """
    old = completion.cursor
    if cursor.line != old.line or cursor.language != old.language or cursor.after != old.after:
        return None
    typed = cursor.before.removeprefix(old.before) if cursor.before.startswith(old.before) else None
    if typed is None or not completion.suggestion.text.startswith(typed):
        return None
    rest = completion.suggestion.text[len(typed) :]
    at = cursor.line
    if not rest or cursor.lines[:at] != old.lines[:at] or cursor.lines[at + 1 :] != old.lines[at + 1 :]:
        return None
    doubt = _moved(completion.suggestion.doubt, len(typed))
    suggestion = attrs.evolve(completion.suggestion, text=rest, source="memory", timing=Timing(), doubt=doubt)
    return attrs.evolve(completion, suggestion=suggestion, cursor=cursor)


def _moved(span: tuple[int, int] | None, by: int) -> tuple[int, int] | None:
    """A span of a text in what is left without the first `by` characters; None if nothing of it is."""
    if span is None or span[1] <= by:
        return None
    return max(span[0] - by, 0), span[1] - by
