"""Reuse a suggestion while the user types its text."""

from __future__ import annotations

import attrs

from lsp_calib.completion.context import Cursor
from lsp_calib.completion.service import Completion
from lsp_calib.values import Timing


def continued(completion: Completion, cursor: Cursor) -> Completion | None:
    """The rest of an earlier completion at `cursor`, None if the document no longer agrees with it.

    The suggestion keeps its id and its confidence: it is the same prediction of the same line.
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
    suggestion = attrs.evolve(completion.suggestion, text=rest, source="memory", timing=Timing())
    return attrs.evolve(completion, suggestion=suggestion, cursor=cursor)
